/* Windows of token ids whose last tokens are scored: for evaluation, where a token may be read more than once and is
 * predicted once. */
#pragma once

#include "data/dataset.h"

/* Rows begin .. begin + rows - 1 of a list of ids. Row r reads id r; the last `scored` rows predict id r + 1. */
typedef struct {
    int64_t begin;
    int32_t rows, scored;
    int32_t owner; /* the caller's */
} SlmWindow;

/* A growing list; begins as {0}, free(windows). */
typedef struct {
    SlmWindow *windows;
    int64_t n;
} SlmWindows;

void slm_windows_add(SlmWindows *list, SlmWindow window);
/* Cuts rows begin .. end - 1 into windows of at most `context` rows, of which each begins `stride` rows behind the one
 * before; every row is scored once. stride: 1 .. context. */
void slm_windows_cut(SlmWindows *list, int64_t begin, int64_t end, int64_t context, int64_t stride, int32_t owner);

/* Returns a data set in which a sample is a window, in one sequence. The windows and their ids must outlive it. */
Dataset *slm_windows_open(const SlmWindows *list, const int32_t *ids);
/* See BatchSpec.largest. */
Batch slm_windows_largest(const Dataset *dataset, int64_t batch_size, int64_t token_budget);
