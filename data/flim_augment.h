/* What training does to a cell before the network sees it: nine augmentations of photon counts, then two channels.
 *
 * Counts are float [T, H, W], time first, as the network has them, with H = W: quarter turns keep the shape. The
 * footprint, which pixels belong to the cell, is u8 [H, W], 0 or 1. It moves with the counts, the nearest pixel taken,
 * and counts beyond it are cleared at the end; the reference has it from the augmented counts instead, so that zoom,
 * elastic and blur dilate it in training only. What is drawn depends on (seed, epoch, position in the epoch) only. */
#ifndef DATA_FLIM_AUGMENT_H
#define DATA_FLIM_AUGMENT_H

#include "base/base.h"

typedef struct {
    int T, H, W;
} FlimShape;

/* What is done to one sample, in this order. The zero of each field, scale and zoom 1: nothing. */
typedef struct {
    int shift; /* bins, to later times if positive; what comes in is 0 */
    float scale;
    int turns; /* quarter turns, 0 to 3 */
    bool flip_y, flip_x;
    bool poisson; /* counts of an exposure a thousand times as long, over a thousand */
    double zoom;
    bool elastic;
    double blur;       /* pixels, the Gaussian's sigma */
    uint64_t seed;     /* of the Poisson numbers and the elastic field, with epoch and position */
    uint32_t epoch;    /* as drawn */
    uint64_t position; /* of the sample in its epoch */
} FlimDraws;

/* most_shift: bins, either way; the reference has 5. */
FlimDraws flim_draw(uint64_t seed, uint32_t epoch, uint64_t position, int most_shift);

/* Mixing the samples of a batch, in 30 % of batches: sample i becomes lambda x_i + (1 - lambda) x_partner[i], partner
 * [n] a permutation, lambda from Beta(0.4, 0.4). False: not this batch, and lambda is 1. */
bool flim_mixup_draw(uint64_t seed, uint32_t epoch, uint64_t batch, int n, float *lambda, int32_t *partner);

/* Cells of one shape, and the memory that augmenting one takes; each thread has its own. */
typedef struct FlimAugmenter FlimAugmenter;
FlimAugmenter *flim_augmenter_new(FlimShape shape);
void flim_augmenter_free(FlimAugmenter *augmenter);

/* In place. With a footprint NULL nothing but the counts: as the reference. */
void flim_augment(FlimAugmenter *augmenter, float *counts, unsigned char *footprint, const FlimDraws *draws);
/* Where counts are above 0 at any time; returns how many pixels. */
int flim_footprint(unsigned char *footprint, const float *counts, FlimShape shape);
/* x [2, T, H, W]: ln(1 + counts) / 10, and the footprint at every time. */
void flim_pack(float *x, const float *counts, const unsigned char *footprint, FlimShape shape);

/* ---- one by one, in place, the footprint (or NULL) with the counts ---- */

void flim_shift(FlimAugmenter *augmenter, float *counts, int bins);
/* Once is out[i, j] = in[j, n - 1 - i]. */
void flim_turn(FlimAugmenter *augmenter, float *counts, unsigned char *footprint, int turns);
void flim_flip(FlimAugmenter *augmenter, float *counts, unsigned char *footprint, bool y, bool x);
void flim_poisson(FlimAugmenter *augmenter, float *counts, const FlimDraws *draws);
/* To round(f H) pixels, bilinear, corners on corners, then the middle cut out, or zeros around. */
void flim_zoom(FlimAugmenter *augmenter, float *counts, unsigned char *footprint, double factor);
/* out[t, y, x] = in[t, y + dy, x + dx], bilinear; beyond the edge the image is mirrored, its last pixel repeated. */
void flim_elastic(FlimAugmenter *augmenter, float *counts, unsigned char *footprint, const float *dx, const float *dy);
/* field [H, W], given as uniform numbers in -1 .. 1: smoothed by a Gaussian of 2 pixels with zeros around, times 5. */
void flim_elastic_field(FlimAugmenter *augmenter, float *field);
/* In every plane, edges mirrored as in flim_elastic. */
void flim_blur(FlimAugmenter *augmenter, float *counts, double sigma);
/* The Gaussian's weights at -radius .. radius, in sum 1; returns the radius, 4 sigma rounded, at most 8. */
enum { FLIM_MOST_RADIUS = 8 };
int flim_gaussian(float weights[2 * FLIM_MOST_RADIUS + 1], double sigma);

#endif
