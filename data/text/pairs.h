/* The pairs of neighbouring pieces in counted words, and their merging: what training BPE repeats. */
#pragma once

#include "data/text/word_counts.h"

typedef struct {
    int32_t left, right; /* ids */
    int64_t count;       /* in all words */
    bool merged;         /* pairs_merge has been called for it */
} Pair;

typedef struct Pairs Pairs;

/* Writes the ids of the pieces that a word begins with, at most one for each byte; returns their number. */
typedef uint32_t FirstPieces(const void *context, const char *word, size_t size, int32_t *ids);

/* Begins with the first pieces of the words. *counts must stay. */
Pairs *pairs_open(const WordCounts *counts, FirstPieces *first_pieces, const void *context);
/* Takes the most frequent pair out, of several the one with the smallest ids; false: no pair is left. */
bool pairs_next(Pairs *pairs, Pair *next);
/* Replaces the pair that was taken out last by the piece `id`, in all words. */
void pairs_merge(Pairs *pairs, int32_t id);
void pairs_close(Pairs *pairs);
