/* Augments volumes of photon counts: the random draws for one sample, and the arithmetic of one pixel. The CPU and the
 * GPU share this code. Every multiply-add is an fmaf, which rounds once, so both devices compute the same bits. */
#pragma once

#include <stdbool.h>

#include "kernels/philox.h"

#define AUGMENT_FUNCTION PHILOX_FUNCTION

/* A volume is [T, H, W] photon counts, time first, with H = W, so that quarter turns keep the shape. */
typedef struct {
    int T, H, W;
} AugmentShape;
enum { AUGMENT_MAX_BINS = 1024, AUGMENT_MAX_SIDE = 64, AUGMENT_MAX_RADIUS = 8 };

/* The changes to one sample, in the order in which they are made. Zeros and a scale of 1 change nothing. Batches carry
 * the struct bit by bit as AUGMENT_DRAW_WORDS of i32, so all fields have 32 bits. */
typedef struct {
    int32_t shift; /* bins, to later times if positive; bins that enter are 0 */
    float scale;
    int32_t turns;   /* quarter turns, 0 to 3: once is out[i, j] = in[j, n - 1 - i] */
    int32_t flips;   /* then AUGMENT_FLIP_Y + AUGMENT_FLIP_X */
    int32_t poisson; /* if not 0: Poisson noise, of mean 1000 count, divided by 1000 */
    int32_t side;    /* of the zoomed image, which is cropped to its middle or padded with zeros; 0: no zoom */
    int32_t elastic; /* if not 0: elastic deformation */
    float blur;      /* pixels, the Gaussian's sigma */
    /* Keys of the random numbers, low words first. position is the sample's place in the epoch. Each pair begins at a
     * multiple of 8 bytes, so that compilers load it with one instruction. */
    uint32_t position[2], seed[2], epoch;
    uint32_t spare[3];
} AugmentDraws;
enum { AUGMENT_FLIP_Y = 1, AUGMENT_FLIP_X = 2, AUGMENT_DRAW_WORDS = sizeof(AugmentDraws) / 4 };

/* The streams of random numbers; each has its own purpose. */
enum {
    AUGMENT_STREAM_SAMPLE,
    AUGMENT_STREAM_POISSON,
    AUGMENT_STREAM_FIELD,
    AUGMENT_STREAM_MIXUP,
    AUGMENT_STREAM_PARTNER
};
AUGMENT_FUNCTION uint32_t augment_purpose(uint32_t stream) { return PURPOSE_AUGMENT | stream << 8; }
AUGMENT_FUNCTION uint64_t augment_number(const uint32_t words[2]) { return (uint64_t)words[1] << 32 | words[0]; }

/* Returns whether augment_volumes accepts the draws. The Poisson approximation needs means of at least 64 photons,
 * which bounds the scale of a count of 1. */
AUGMENT_FUNCTION bool augment_draws_fit(const AugmentDraws *d, AugmentShape s) {
    return d->shift >= -AUGMENT_MAX_BINS && d->shift <= AUGMENT_MAX_BINS && d->turns >= 0 && d->turns <= 3 &&
           d->flips >= 0 && d->flips <= 3 && d->side >= 0 && d->side <= 2 * s.H &&
           d->scale >= (d->poisson ? 0.064f : 1e-6f) && d->scale <= 16.0f && d->blur >= 0 &&
           d->blur < (AUGMENT_MAX_RADIUS + 0.5f) / 4;
}

/* ---- numbers ---- */

AUGMENT_FUNCTION uint32_t augment_bits(float x) {
    union {
        float f;
        uint32_t u;
    } bits;
    bits.f = x;
    return bits.u;
}
AUGMENT_FUNCTION float augment_float(uint32_t x) {
    union {
        uint32_t u;
        float f;
    } bits;
    bits.u = x;
    return bits.f;
}

/* Returns ln(u + rest) for a normal u > 0. rest is what rounding took from u; it matters only near u = 1.
 *
 * u = 2^e m, sqrt(1/2) <= m < sqrt(2); with f = m - 1, ln m = f - f^2/2 + f^3 p(f), p minimax of degree 7 (6e-9). This
 * code and the functions below have no branches, so that compilers vectorise them. */
AUGMENT_FUNCTION float augment_ln(float u, float rest) {
    int32_t e = (int32_t)(augment_bits(u) - 0x3F3504F3u) >> 23;
    float f = augment_float(augment_bits(u) - ((uint32_t)e << 23)) - 1.0f + (e == 0 ? rest : 0.0f);
    float p = fmaf(f, -0.0763449967f, 0.127615824f);
    p = fmaf(p, f, -0.131601840f);
    p = fmaf(p, f, 0.142017573f);
    p = fmaf(p, f, -0.166233569f);
    p = fmaf(p, f, 0.200012267f);
    p = fmaf(p, f, -0.250008196f);
    p = fmaf(p, f, 0.333333313f);
    float ln_m = fmaf(f * f, fmaf(p, f, -0.5f), f);
    return fmaf((float)e, 0.693145752f, fmaf((float)e, 1.42855994e-6f, ln_m)); /* ln 2 in two parts */
}

/* Draws two standard normal numbers by the Box-Muller transform: `first` gives the radius, `second` the angle, which is
 * x in -pi/4 .. pi/4 from the nearest quarter turn. sin x = x + x^3 s(x^2) (4e-9), cos x = 1 - x^2/2 + x^4 c(x^2)
 * (1e-10). */
AUGMENT_FUNCTION void augment_normals(uint32_t first, uint32_t second, float *a, float *b) {
    float u = ((float)(int32_t)(first >> 1) + 0.5f) * 0x1p-31f, radius = sqrtf(-2.0f * augment_ln(u, 0.0f));
    uint32_t quarter = (second + 0x20000000u) >> 30, odd = 0u - (quarter & 1u);
    float x = (float)(int32_t)(second - (quarter << 30)) * 1.46291808e-9f, t = x * x;
    uint32_t sine = augment_bits(fmaf(x * t, fmaf(t, fmaf(t, -1.95172979e-4f, 8.33217800e-3f), -0.166666552f), x));
    uint32_t cosine = augment_bits(
        fmaf(t * t, fmaf(t, fmaf(t, 2.44384519e-5f, -1.38873677e-3f), 4.16666456e-2f), fmaf(t, -0.5f, 1.0f)));
    *a = radius * augment_float(((sine & odd) | (cosine & ~odd)) ^ ((quarter + 1u) & 2u) << 30);
    *b = radius * augment_float(((cosine & odd) | (sine & ~odd)) ^ (quarter & 2u) << 30);
}

/* Returns a Poisson number of mean 1000 count, divided by 1000, from the standard normal number z. philox_poisson uses
 * the same formula for means of 64 and more. Float precision is enough: the error is the rounding of the result and
 * 1e-6 of z. */
AUGMENT_FUNCTION float augment_poisson(float count, float z) {
    float some = count > 0.064f ? count : 0.064f, root = sqrtf(fmaf(1000.0f, some, -1.0f / 12.0f));
    float q = fmaf(z, z, -1.0f), correction = fmaf(q, fmaf(z, (-1.0f / 72.0f) / root, 1.0f / 6.0f), 0.5f);
    int32_t photons = (int32_t)fmaf(1000.0f, some, fmaf(z, root, correction)); /* z < 6.7, so the sum is positive */
    return (float)photons * (count > 0.0f ? 0.001f : 0.0f);
}

/* Returns the block of random numbers for bin t of a pixel. The four bins from t = 4 k on share a block. */
AUGMENT_FUNCTION uint64_t augment_poisson_block(const AugmentDraws *d, AugmentShape s, int t, int pixel) {
    return (augment_number(d->position) * (uint64_t)((s.T + 3) / 4) + (uint64_t)(t / 4)) * (uint64_t)(s.H * s.W) +
           (uint64_t)pixel;
}

/* Returns the input feature of a count: ln(1 + count) / 10. */
AUGMENT_FUNCTION float augment_packed(float count) {
    float u = 1.0f + count;
    return augment_ln(u, count - (u - 1.0f)) / 10.0f;
}

/* ---- pixels from other pixels ---- */

/* Returns the pixel that the turns and flips move to pixel i. */
AUGMENT_FUNCTION int augment_moved(const AugmentDraws *d, int i, int n) {
    int y = i / n, x = i % n, last = n - 1;
    if (d->flips & AUGMENT_FLIP_Y) y = last - y;
    if (d->flips & AUGMENT_FLIP_X) x = last - x;
    int row = d->turns == 1 ? x : d->turns == 2 ? last - y : d->turns == 3 ? last - x : y;
    int column = d->turns == 1 ? last - y : d->turns == 2 ? last - x : d->turns == 3 ? y : x;
    return row * n + column;
}

/* Mirrors an index into 0 .. n - 1, edges repeated: ... b a | a b c | c b ... */
AUGMENT_FUNCTION int augment_mirror(int i, int n) {
    i = i < 0 ? -1 - i : i; /* -1 is 0, -2 is 1 */
    if (i >= 2 * n) i %= 2 * n;
    return i < n ? i : 2 * n - 1 - i;
}

/* The four input pixels, and their weights, from which one output pixel is interpolated; the same at all times. */
typedef struct {
    int at[4];
    float weight[4];
} AugmentTap;

AUGMENT_FUNCTION AugmentTap augment_between(int y, float down, int x, float right, int n) {
    int top = augment_mirror(y, n) * n, bottom = augment_mirror(y + 1, n) * n;
    int left = augment_mirror(x, n), beside = augment_mirror(x + 1, n);
    AugmentTap tap = {{top + left, top + beside, bottom + left, bottom + beside},
                      {(1.0f - down) * (1.0f - right), (1.0f - down) * right, down * (1.0f - right), down * right}};
    return tap;
}

/* Resamples n pixels to `side`, bilinear with aligned corners: pixel i lies at i (n - 1) / (side - 1). The result is
 * cropped to its middle n pixels, or padded with zeros. */
AUGMENT_FUNCTION AugmentTap augment_zoom_tap(int pixel, int side, int n) {
    int cut = side > n ? (side - n) / 2 : -((n - side) / 2), i = pixel / n + cut, j = pixel % n + cut;
    AugmentTap none = {{0}, {0}};
    if (i < 0 || i >= side || j < 0 || j >= side) return none;
    int steps = side > 1 ? side - 1 : 1;
    i *= n - 1, j *= n - 1;
    return augment_between(i / steps, (float)(i % steps) / (float)steps, j / steps, (float)(j % steps) / (float)steps,
                           n);
}

/* Samples the image at (y + dy, x + dx); beyond its edges the image is mirrored, with the last pixel repeated. */
AUGMENT_FUNCTION AugmentTap augment_elastic_tap(int pixel, float dy, float dx, int n) {
    float top = floorf(dy), left = floorf(dx);
    return augment_between(pixel / n + (int)top, dy - top, pixel % n + (int)left, dx - left, n);
}

/* Returns the nearest pixel, which has the greatest weight; -1: outside of the image. */
AUGMENT_FUNCTION int augment_nearest(const AugmentTap *tap) {
    int at = -1;
    float most = 0.0f;
    for (int k = 0; k < 4; k++)
        if (tap->weight[k] > most) most = tap->weight[k], at = tap->at[k];
    return at;
}

/* A Gaussian's weights at -radius .. radius, which sum to 1; the radius is 4 sigma, rounded. */
typedef struct {
    float weight[2 * AUGMENT_MAX_RADIUS + 1];
    int radius;
} AugmentGaussian;

AUGMENT_FUNCTION AugmentGaussian augment_gaussian(float sigma) {
    AugmentGaussian g = {{0}, (int)(4.0f * sigma + 0.5f)};
    double half[AUGMENT_MAX_RADIUS + 1] = {1}, sum = 1;
    for (int i = 1; i <= g.radius; i++) sum += 2 * (half[i] = exp(-i * i / (2 * (double)sigma * (double)sigma)));
    for (int i = 0; i <= g.radius; i++) g.weight[g.radius - i] = g.weight[g.radius + i] = (float)(half[i] / sum);
    return g;
}

/* Displacements are uniform numbers in -1 .. 1, smoothed by a Gaussian of sigma AUGMENT_FIELD_SIGMA with zeros outside
 * the image, times AUGMENT_FIELD_SIZE. */
#define AUGMENT_FIELD_SIGMA 2.0f
#define AUGMENT_FIELD_SIZE  5.0f
/* Returns a number of the unsmoothed field; axis 0 is dx, axis 1 is dy. */
AUGMENT_FUNCTION float augment_field_noise(const AugmentDraws *d, AugmentShape s, int axis, int pixel) {
    uint64_t element = (2 * augment_number(d->position) + (uint64_t)axis) * (uint64_t)(s.H * s.W) + (uint64_t)pixel;
    return 2.0f * philox_uniform(augment_number(d->seed), augment_purpose(AUGMENT_STREAM_FIELD), d->epoch, element) -
           1.0f;
}
