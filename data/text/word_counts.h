/* Distinct words and how often they occur. */
#pragma once

#include "data/text/strings.h"

/* Begin with {0}. */
typedef struct {
    Strings words;
    int64_t *counts; /* [words.n] by the number of the word */
} WordCounts;

void word_counts_add(WordCounts *counts, const char *word, size_t size, int64_t times);
/* Adds the words of `other` and empties it. */
void word_counts_move(WordCounts *counts, WordCounts *other);
void word_counts_free(WordCounts *counts);
