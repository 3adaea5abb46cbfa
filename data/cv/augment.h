/* The random draws of training: how each cell is augmented (by augment_volumes of kernels/ops.h), and how the cells of
 * a batch are mixed. They depend on the seed, the epoch and the position in the epoch only. */
#pragma once

#include "kernels/augment.h"

/* Draws the augmentation of a cell of side x side pixels. max_shift: bins, in either direction; the reference has 5. */
AugmentDraws cv_augment_draw(uint64_t seed, uint32_t epoch, uint64_t position, int side, int max_shift);

/* Draws the mixup of a batch: sample i becomes lambda x_i + (1 - lambda) x_partner[i], where partner [n] is a
 * permutation and lambda is from Beta(0.4, 0.4). Returns false, with lambda 1, for the 70 % of batches that are not
 * mixed. */
bool cv_augment_mixup(uint64_t seed, uint32_t epoch, uint64_t batch, int n, float *lambda, int32_t *partner);
