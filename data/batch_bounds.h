/* The micro-batch that memory is planned for: no loader makes a larger one of the same data set. */
#pragma once

#include "data/dataset.h"

/* Bounds of the micro-batches that a loader can form. */
typedef struct {
    int64_t samples, rows, longest; /* rows of all samples; rows of the longest sample */
} BatchBounds;

/* Returns the bounds of batches of at most batch_size samples and token_budget rows. 0: no such limit. */
BatchBounds batch_bounds(const Dataset *dataset, int64_t batch_size, int64_t token_budget);
/* Makes the bounds those of a batch of at least so many sequences, each of one row or more and none longer than the
 * longest, with as many as possible of the longest; bounds->rows may grow by a few. Returns the number of sequences. */
int64_t batch_bounds_fit(BatchBounds *bounds, int64_t sequences);
/* Sets offsets[sequences + 1] to the first rows of these sequences. */
void batch_bounds_offsets(const BatchBounds *bounds, int64_t sequences, int32_t *offsets);
