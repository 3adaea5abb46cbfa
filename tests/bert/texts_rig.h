/* Texts for tests: a tokenizer whose pieces are letters, and texts without a tokenizer. */
#pragma once

#include "data/bert/texts.h"
#include "tests/test.h"

/* Ids of the tokenizer of letters. */
enum { ID_BEGIN, ID_PAD, ID_END, ID_UNKNOWN, ID_A, ID_Z = ID_A + 25, ID_E_HAT_DOT /* ệ */, ID_MASK, ID_VOCABULARY };

/* Opens a tokenizer of the letters a to z and ệ, a piece each; white space separates words. */
Tokenizer *letters_open(void);
/* Makes texts of these lengths, which count begin and end; ids between them are ID_A + number of the token % 20. */
TokenizedTexts texts_of_lengths(const int *lengths, int n);
/* Makes a folder with a segmenter that knows one word of several syllables. */
char *segmenter_folder(const char *word);
/* Writes a file into a scratch folder; returns its path, which is kept until the program ends. */
const char *text_file(const char *name, const char *text);
