/* Each function writes the section of one guide. */
#ifndef TOOLS_CLAIMS_GUIDES_H
#define TOOLS_CLAIMS_GUIDES_H

void estimates_amharic(void);
void estimates_psd(void);
void estimates_cv(void);
void estimates_bert(void);
void estimates_slm(void);

#endif
