/* The pairs of neighbouring pieces in counted words, and their merging: what training BPE repeats. */
#ifndef DATA_TEXT_PAIRS_H
#define DATA_TEXT_PAIRS_H

#include "data/text/word_counts.h"

typedef struct {
    int32_t left, right; /* ids */
    int64_t count;       /* in all words */
    bool merged;         /* pairs_merge has been called for it */
} Pair;

typedef struct Pairs Pairs;

/* Begins with the bytes of the words; byte_ids [256]. *counts must stay. */
Pairs *pairs_open(const WordCounts *counts, const int32_t *byte_ids);
/* Takes the most frequent pair out, of several the one with the smallest ids; false: no pair is left. */
bool pairs_next(Pairs *pairs, Pair *next);
/* Replaces the pair that was taken out last by the piece `id`, in all words. */
void pairs_merge(Pairs *pairs, int32_t id);
void pairs_close(Pairs *pairs);

#endif
