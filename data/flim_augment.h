/* What training draws for a cell, which augment_cells of kernels/ops.h then does to it, and for mixing a batch's cells.
 * It depends on (seed, epoch, position in the epoch) only. */
#ifndef DATA_FLIM_AUGMENT_H
#define DATA_FLIM_AUGMENT_H

#include "kernels/flim.h"

/* Of a cell of side x side pixels. most_shift: bins, either way; the reference has 5. */
FlimDraws flim_draw(uint64_t seed, uint32_t epoch, uint64_t position, int side, int most_shift);

/* Mixing the samples of a batch, in 30 % of batches: sample i becomes lambda x_i + (1 - lambda) x_partner[i], partner
 * [n] a permutation, lambda from Beta(0.4, 0.4). False: not this batch, and lambda is 1. */
bool flim_mixup_draw(uint64_t seed, uint32_t epoch, uint64_t batch, int n, float *lambda, int32_t *partner);

#endif
