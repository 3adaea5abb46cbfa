/* Synthetic texts with the lengths of short comments, for estimates without data and for benches. */
#pragma once

#include "data/bert/texts.h"

enum { BERT_SYNTHETIC_IDS = 10416 }; /* different ids of the data set below, with begin and end */

/* Returns the length, in tokens with begin and end, below which this share (0 .. 1) of comments is: as in a public data
 * set of 24,048 Vietnamese comments, with 12 at 0.5, 30 at 0.9, 42 at 0.95, 76 at 0.99, 134 at 0.999. Cut to 192, the
 * mean is 16.2. */
double bert_length_quantile(double share);
/* Returns n synthetic texts for texts_free: of `length` tokens each, or, at 0, of lengths as above. They have as many
 * different ids as that data set, or fewer if the vocabulary is smaller; its last id is the mask token, which no text
 * has. `vocabulary` is at least 6. */
TokenizedTexts bert_synthetic_texts(int64_t n, int vocabulary, int length, int max_len);
/* Returns the ids of the special tokens of such a vocabulary, which are PhoBERT's. */
SpecialIds bert_synthetic_specials(int vocabulary);
