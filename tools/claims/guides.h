/* Each function writes the section of one guide. */
#pragma once

void estimates_amharic(void);
void estimates_psd(void);
void estimates_cv(void);
void estimates_bert(void);
void estimates_slm(void);
/* Prints a table of reported steps of other programs beside what the estimate gives for them. */
void print_public_steps(void);
/* Prints a table of what steps did before, beside what that would take. */
void print_findings(void);
