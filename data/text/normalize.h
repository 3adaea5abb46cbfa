/* The text normalisation of IndexTTS2 for Amharic, as training and inference apply it before the tokenizer. */
#pragma once

#include "base/base.h"

/* Returns the text after text_clean, NFC, the table of punctuation, CJK splitting and upper case; free(). Returns NULL
 * with the byte offset if the text is not UTF-8. */
char *text_normalize_amharic(const char *text, Error *error);
/* Returns the text stripped, with U+3000 and U+00A0 as spaces and without a leading "speaker N:"; free(). */
char *text_clean(const char *text, Error *error);
