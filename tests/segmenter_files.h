/* Writes the files of a word segmenter's model, for tests. */
#pragma once

#include <stddef.h>

/* Returns a file VnVocab with these words, as Java writes it; free(). */
char *segmenter_vocabulary(const char *const *words, int n, size_t *size);

/* Where its count is, and its first word. */
enum { SEGMENTER_COUNT_AT = 48, SEGMENTER_WORDS_AT = 52 };
