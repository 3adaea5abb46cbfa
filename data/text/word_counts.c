/* A count beside each string of a set. */
#include <stdlib.h>

#include "data/text/word_counts.h"

void word_counts_add(WordCounts *counts, const char *word, size_t size, int64_t times) {
    const uint32_t known = counts->words.n, number = strings_add(&counts->words, word, size);
    if (number == known) {
        counts->counts = xgrow(counts->counts, number, sizeof *counts->counts);
        counts->counts[number] = 0;
    }
    counts->counts[number] += times;
}

void word_counts_move(WordCounts *counts, WordCounts *other) {
    for (uint32_t i = 0; i < other->words.n; i++)
        word_counts_add(counts, strings_text(&other->words, i), other->words.entries[i].size, other->counts[i]);
    word_counts_free(other);
}

void word_counts_free(WordCounts *counts) {
    strings_free(&counts->words);
    free(counts->counts);
    *counts = (WordCounts){0};
}
