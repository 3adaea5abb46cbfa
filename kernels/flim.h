/* The augmentation of FLIM cells as the CPU and the GPU share it: what is drawn for a sample, and the arithmetic of one
 * pixel. Every multiply-add is written as one, with one rounding, so that both compute the same bits. */
#ifndef KERNELS_FLIM_H
#define KERNELS_FLIM_H

#include <stdbool.h>

#include "kernels/philox.h"

#define FLIM_FUNCTION PHILOX_FUNCTION

/* Cells are [T, H, W] counts of photons, time first, with H = W: quarter turns keep the shape. */
typedef struct {
    int T, H, W;
} FlimShape;
enum { FLIM_MOST_BINS = 1024, FLIM_MOST_SIDE = 64, FLIM_MOST_RADIUS = 8 };

/* What is done to one sample, in this order. The zero of each field, scale 1: nothing. Of 32-bit words only: batches
 * carry it, bit by bit, as FLIM_DRAW_WORDS of i32. */
typedef struct {
    int32_t shift; /* bins, to later times if positive; what comes in is 0 */
    float scale;
    int32_t turns;   /* quarter turns, 0 to 3: once is out[i, j] = in[j, n - 1 - i] */
    int32_t flips;   /* then FLIM_FLIP_Y + FLIM_FLIP_X */
    int32_t poisson; /* if not 0: counts of an exposure a thousand times as long, over a thousand */
    int32_t side;    /* of the zoomed image, of which the middle is cut out, or which gets zeros around; 0: no zoom */
    int32_t elastic; /* if not 0 */
    float blur;      /* pixels, the Gaussian's sigma */
    /* Of the random numbers, low words first; position: in the epoch. Compilers read each pair at once: at multiples of
     * 8 bytes. */
    uint32_t position[2], seed[2], epoch;
    uint32_t spare[3];
} FlimDraws;
enum { FLIM_FLIP_Y = 1, FLIM_FLIP_X = 2, FLIM_DRAW_WORDS = sizeof(FlimDraws) / 4 };

/* The streams of random numbers: each has a purpose of its own. */
enum { FLIM_OF_SAMPLE, FLIM_OF_POISSON, FLIM_OF_FIELD, FLIM_OF_MIXUP, FLIM_OF_PARTNER };
FLIM_FUNCTION uint32_t flim_purpose(uint32_t stream) { return PURPOSE_AUGMENT | stream << 8; }
FLIM_FUNCTION uint64_t flim_number(const uint32_t words[2]) { return (uint64_t)words[1] << 32 | words[0]; }

/* Whether the operation knows how to do it. Poisson numbers are those of at least 64 photons: what is scaled are whole
 * counts. */
FLIM_FUNCTION bool flim_draws_fit(const FlimDraws *d, FlimShape s) {
    return d->shift >= -FLIM_MOST_BINS && d->shift <= FLIM_MOST_BINS && d->turns >= 0 && d->turns <= 3 &&
           d->flips >= 0 && d->flips <= 3 && d->side >= 0 && d->side <= 2 * s.H &&
           d->scale >= (d->poisson ? 0.064f : 1e-6f) && d->scale <= 16.0f && d->blur >= 0 &&
           d->blur < (FLIM_MOST_RADIUS + 0.5f) / 4;
}

/* ---- numbers ---- */

FLIM_FUNCTION uint32_t flim_bits(float x) {
    union {
        float f;
        uint32_t u;
    } bits;
    bits.f = x;
    return bits.u;
}
FLIM_FUNCTION float flim_float(uint32_t x) {
    union {
        uint32_t u;
        float f;
    } bits;
    bits.u = x;
    return bits.f;
}

/* ln(u + rest) for a normal u > 0; rest, what rounding took from u, matters near 1 only.
 *
 * u = 2^e m, sqrt(1/2) <= m < sqrt(2); with f = m - 1, ln m = f - f^2/2 + f^3 p(f), p minimax of degree 7 (6e-9). Here
 * and below there is no branch, so that compilers make vectors of it. */
FLIM_FUNCTION float flim_ln(float u, float rest) {
    int32_t e = (int32_t)(flim_bits(u) - 0x3F3504F3u) >> 23;
    float f = flim_float(flim_bits(u) - ((uint32_t)e << 23)) - 1.0f + (e == 0 ? rest : 0.0f);
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

/* Two standard normal numbers by Box and Muller: `first` gives the radius, `second` the angle, which is x in -pi/4 ..
 * pi/4 from the nearest quarter; sin x = x + x^3 s(x^2) (4e-9), cos x = 1 - x^2/2 + x^4 c(x^2) (1e-10). */
FLIM_FUNCTION void flim_normals(uint32_t first, uint32_t second, float *a, float *b) {
    float u = ((float)(int32_t)(first >> 1) + 0.5f) * 0x1p-31f, radius = sqrtf(-2.0f * flim_ln(u, 0.0f));
    uint32_t quarter = (second + 0x20000000u) >> 30, odd = 0u - (quarter & 1u);
    float x = (float)(int32_t)(second - (quarter << 30)) * 1.46291808e-9f, t = x * x;
    uint32_t sine = flim_bits(fmaf(x * t, fmaf(t, fmaf(t, -1.95172979e-4f, 8.33217800e-3f), -0.166666552f), x));
    uint32_t cosine =
        flim_bits(fmaf(t * t, fmaf(t, fmaf(t, 2.44384519e-5f, -1.38873677e-3f), 4.16666456e-2f), fmaf(t, -0.5f, 1.0f)));
    *a = radius * flim_float(((sine & odd) | (cosine & ~odd)) ^ ((quarter + 1u) & 2u) << 30);
    *b = radius * flim_float(((cosine & odd) | (sine & ~odd)) ^ (quarter & 2u) << 30);
}

/* A Poisson number of mean 1000 count over 1000, from a normal number: see philox_poisson, which from a mean of 64 on
 * does the same. In floats: its rounding is that of the number itself, and of 1e-6 of z. */
FLIM_FUNCTION float flim_poisson(float count, float z) {
    float some = count > 0.064f ? count : 0.064f, root = sqrtf(fmaf(1000.0f, some, -1.0f / 12.0f));
    float q = fmaf(z, z, -1.0f), correction = fmaf(q, fmaf(z, (-1.0f / 72.0f) / root, 1.0f / 6.0f), 0.5f);
    int32_t photons = (int32_t)fmaf(1000.0f, some, fmaf(z, root, correction)); /* z < 6.7: it is positive */
    return (float)photons * (count > 0.0f ? 0.001f : 0.0f);
}

/* Four bins, from t = 4 k on, of a pixel share a block of random numbers. */
FLIM_FUNCTION uint64_t flim_poisson_block(const FlimDraws *d, FlimShape s, int t, int pixel) {
    return (flim_number(d->position) * (uint64_t)((s.T + 3) / 4) + (uint64_t)(t / 4)) * (uint64_t)(s.H * s.W) +
           (uint64_t)pixel;
}

/* What the network sees of a count: ln(1 + count) / 10. */
FLIM_FUNCTION float flim_packed(float count) {
    float u = 1.0f + count;
    return flim_ln(u, count - (u - 1.0f)) / 10.0f;
}

/* ---- pixels from other pixels ---- */

/* The pixel that the turns and flips bring to pixel i. */
FLIM_FUNCTION int flim_moved(const FlimDraws *d, int i, int n) {
    int y = i / n, x = i % n, last = n - 1;
    if (d->flips & FLIM_FLIP_Y) y = last - y;
    if (d->flips & FLIM_FLIP_X) x = last - x;
    int row = d->turns == 1 ? x : d->turns == 2 ? last - y : d->turns == 3 ? last - x : y;
    int column = d->turns == 1 ? last - y : d->turns == 2 ? last - x : d->turns == 3 ? y : x;
    return row * n + column;
}

/* ... b a | a b c | c b ... */
FLIM_FUNCTION int flim_mirror(int i, int n) {
    i = i < 0 ? -1 - i : i; /* -1 is 0, -2 is 1 */
    if (i >= 2 * n) i %= 2 * n;
    return i < n ? i : 2 * n - 1 - i;
}

/* Where a pixel of the output lies in the input: four pixels and their weights. The same at every time. */
typedef struct {
    int at[4];
    float weight[4];
} FlimTap;

FLIM_FUNCTION FlimTap flim_between(int y, float down, int x, float right, int n) {
    int top = flim_mirror(y, n) * n, bottom = flim_mirror(y + 1, n) * n;
    int left = flim_mirror(x, n), beside = flim_mirror(x + 1, n);
    FlimTap tap = {{top + left, top + beside, bottom + left, bottom + beside},
                   {(1.0f - down) * (1.0f - right), (1.0f - down) * right, down * (1.0f - right), down * right}};
    return tap;
}

/* Of n pixels `side` are made, bilinear, corners on corners, so that pixel i lies at i (n - 1) / (side - 1); of those
 * the middle n are taken, or zeros are around them. */
FLIM_FUNCTION FlimTap flim_zoom_tap(int pixel, int side, int n) {
    int cut = side > n ? (side - n) / 2 : -((n - side) / 2), i = pixel / n + cut, j = pixel % n + cut;
    FlimTap none = {{0}, {0}};
    if (i < 0 || i >= side || j < 0 || j >= side) return none;
    int steps = side > 1 ? side - 1 : 1;
    i *= n - 1, j *= n - 1;
    return flim_between(i / steps, (float)(i % steps) / (float)steps, j / steps, (float)(j % steps) / (float)steps, n);
}

/* The pixel at (y + dy, x + dx); beyond the edge the image is mirrored, its last pixel repeated. */
FLIM_FUNCTION FlimTap flim_elastic_tap(int pixel, float dy, float dx, int n) {
    float top = floorf(dy), left = floorf(dx);
    return flim_between(pixel / n + (int)top, dy - top, pixel % n + (int)left, dx - left, n);
}

/* The nearest pixel, which has the greatest weight; -1: it lies beyond the image. */
FLIM_FUNCTION int flim_nearest(const FlimTap *tap) {
    int at = -1;
    float most = 0.0f;
    for (int k = 0; k < 4; k++)
        if (tap->weight[k] > most) most = tap->weight[k], at = tap->at[k];
    return at;
}

/* A Gaussian's weights at -radius .. radius, in sum 1; the radius is 4 sigma, rounded. */
typedef struct {
    float weight[2 * FLIM_MOST_RADIUS + 1];
    int radius;
} FlimGaussian;

FLIM_FUNCTION FlimGaussian flim_gaussian(float sigma) {
    FlimGaussian g = {{0}, (int)(4.0f * sigma + 0.5f)};
    double half[FLIM_MOST_RADIUS + 1] = {1}, sum = 1;
    for (int i = 1; i <= g.radius; i++) sum += 2 * (half[i] = exp(-i * i / (2 * (double)sigma * (double)sigma)));
    for (int i = 0; i <= g.radius; i++) g.weight[g.radius - i] = g.weight[g.radius + i] = (float)(half[i] / sum);
    return g;
}

/* Displacements are uniform numbers in -1 .. 1, smoothed by a Gaussian of this sigma with zeros around, times this. */
#define FLIM_FIELD_SIGMA 2.0f
#define FLIM_FIELD_SIZE  5.0f
/* axis 0: dx, 1: dy */
FLIM_FUNCTION float flim_field_noise(const FlimDraws *d, FlimShape s, int axis, int pixel) {
    uint64_t element = (2 * flim_number(d->position) + (uint64_t)axis) * (uint64_t)(s.H * s.W) + (uint64_t)pixel;
    return 2.0f * philox_uniform(flim_number(d->seed), flim_purpose(FLIM_OF_FIELD), d->epoch, element) - 1.0f;
}

#endif
