/* Each function writes the section of one guide. */
#pragma once

void estimates_amharic(void);
void estimates_psd(void);
void estimates_cv(void);
void estimates_bert(void);
void estimates_slm(void);
