/* Chooses the tokens of a text that a masked language model has to predict. */
#pragma once

#include "data/bert/texts.h"

typedef struct {
    double share;     /* of the pieces of a text: max(1, round(share * pieces)) are chosen, in every epoch as many */
    bool whole_words; /* words in random order until the number is reached; of the last word perhaps its first pieces */
    uint64_t seed;
    SpecialIds specials; /* are not predicted, and no piece is replaced by one */
    int vocabulary;
    int32_t *ordinary; /* [n_ordinary] ids that may replace a piece */
    int n_ordinary;
    uint8_t *continues; /* [vocabulary] the piece behind it belongs to the same word */
} BertMasking;

/* Collects what the choice needs of a tokenizer. False with an error if it has no mask token, or if whole words are
 * wanted and its pieces do not tell where words end. */
bool bert_masking_open(const Tokenizer *tokenizer, double share, bool whole_words, uint64_t seed, BertMasking *out,
                       Error *error);
/* Makes the same for synthetic texts (lengths.h), whose pieces are words. */
BertMasking bert_masking_synthetic(double share, int vocabulary);
void bert_masking_close(BertMasking *masking);
/* Returns how many of the n ids of a text are chosen; 0: none of them may be. */
int bert_masking_count(const BertMasking *masking, const int32_t *ids, int n);
/* Chooses them for a sample in an epoch: sets rows[] to their places, ascending, labels[] to their ids, and replaces
 * them in ids[n]: 80 % by the mask token, 10 % by a random ordinary one, 10 % not at all. Uses scratch[n]. Returns
 * their number. */
int bert_masking_apply(const BertMasking *masking, int64_t epoch, int64_t sample, int32_t *ids, int n, int32_t *scratch,
                       int32_t *rows, int32_t *labels);
