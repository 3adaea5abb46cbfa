#include "data/batch_bounds.h"

#include <stdlib.h>

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

BatchBounds batch_bounds(const Dataset *dataset, int64_t batch_size, int64_t token_budget) {
    int64_t n = dataset->n_samples;
    BatchBounds b = {.samples = batch_size > 0 && batch_size < n ? batch_size : n, .longest = 1};
    for (int64_t i = 0; i < n; i++) {
        int64_t length = dataset->tokens(dataset, i);
        if (length > b.longest) b.longest = length;
    }
    OWNED int64_t *of_length = xcalloc((size_t)b.longest + 1, sizeof *of_length); /* samples */
    for (int64_t i = 0; i < n; i++) of_length[dataset->tokens(dataset, i)]++;
    for (int64_t length = b.longest, left = b.samples; length > 0; length--) { /* the longest have the most rows */
        int64_t count = least(of_length[length], left);
        b.rows += count * length;
        left -= count;
    }
    if (token_budget > 0) {
        int64_t fit = 0, left = token_budget;
        for (int64_t length = 1; length <= b.longest; length++) { /* of the shortest, most fit into the budget */
            int64_t count = least(of_length[length], left / length);
            fit += count;
            left -= count * length;
        }
        b.samples = least(b.samples, fit ? fit : 1);
        b.rows = least(b.rows, token_budget > b.longest ? token_budget : b.longest);
    }
    return b;
}

/* The most sequences and the longest may not fit into the most rows; then there are a few rows more. */
int64_t batch_bounds_fit(BatchBounds *b, int64_t sequences) {
    int64_t fewest = (b->rows + b->longest - 1) / b->longest;
    sequences = least(sequences, b->rows);
    if (sequences < fewest) sequences = fewest;
    if (b->rows < sequences + b->longest - 1) b->rows = sequences + b->longest - 1;
    return sequences;
}

void batch_bounds_offsets(const BatchBounds *b, int64_t sequences, int32_t *offsets) {
    offsets[0] = 0;
    for (int64_t s = 0, spare = b->rows - sequences; s < sequences; s++) {
        int64_t more = least(b->longest - 1, spare);
        offsets[s + 1] = offsets[s] + (int32_t)(1 + more);
        spare -= more;
    }
}
