/* The normaliser of a tokenizer.json. */
#pragma once

#include "data/text/bpe_model.h"

/* Returns the text in its normal form, without marks if they are removed, and its bytes in *size; free(). NULL: nothing
 * changes. */
char *bpe_normalize(const Bpe *bpe, const char *text, size_t *size);
