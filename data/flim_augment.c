#include "data/flim_augment.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"
#include "kernels/poisson.h"

/* Where a pixel of the output lies in the input: four pixels and their weights. The same at every time. */
typedef struct {
    int at[4];
    float weight[4];
} Tap;

struct FlimAugmenter {
    FlimShape shape;
    int pixels;          /* of a plane */
    float *planes;       /* [T, H, W] */
    float *field[2];     /* [H, W] */
    float *wide, *high;  /* a plane with a margin all around, and one at its sides only */
    Tap *taps;           /* [H, W] */
    unsigned char *mask; /* [H, W] */
};

FlimAugmenter *flim_augmenter_new(FlimShape s) {
    FlimAugmenter *a = xmalloc(sizeof *a);
    size_t n = (size_t)(s.H * s.W), rows = (size_t)s.H + 2 * FLIM_MOST_RADIUS,
           width = (size_t)s.W + 2 * FLIM_MOST_RADIUS;
    assert(s.T > 0 && s.H > 0 && s.H == s.W);
    *a = (FlimAugmenter){s,
                         (int)n,
                         xmalloc((size_t)s.T * n * sizeof(float)),
                         {xmalloc(n * sizeof(float)), xmalloc(n * sizeof(float))},
                         xmalloc(rows * width * sizeof(float)),
                         xmalloc((size_t)s.H * width * sizeof(float)),
                         xmalloc(n * sizeof(Tap)),
                         xmalloc(n)};
    return a;
}

void flim_augmenter_free(FlimAugmenter *a) {
    void *const all[] = {a->planes, a->field[0], a->field[1], a->wide, a->high, a->taps, a->mask, a};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* ---- what is drawn ---- */

enum { ELEMENTS = 32 }; /* of the stream of draws, for each sample */
enum { OF_SAMPLE, OF_POISSON, OF_FIELD, OF_MIXUP, OF_PARTNER };
static uint32_t purpose(uint32_t what) { return PURPOSE_AUGMENT | what << 8; }

FlimDraws flim_draw(uint64_t seed, uint32_t epoch, uint64_t position, int most_shift) {
    double u[16];
    for (uint64_t i = 0; i < 16; i++)
        u[i] = (double)philox_uniform(seed, purpose(OF_SAMPLE), epoch, position * ELEMENTS + i);
    FlimDraws d = {.scale = 1, .zoom = 1, .seed = seed, .epoch = epoch, .position = position};
    if (u[0] < 0.8) d.shift = (int)floor(u[1] * (2 * most_shift + 1)) - most_shift;
    if (u[2] < 0.8) d.scale = (float)(0.6 + 0.8 * u[3]);
    if (u[4] < 0.5) d.turns = 1 + (int)floor(3 * u[5]);
    d.flip_y = u[6] < 0.5;
    d.flip_x = u[7] < 0.5;
    d.poisson = u[8] < 0.5;
    if (u[9] < 0.5) d.zoom = 0.85 + 0.3 * u[10];
    d.elastic = u[11] < 0.5;
    if (u[12] < 0.5) d.blur = 0.3 + 0.5 * u[13];
    return d;
}

/* Of two uniform numbers, each to the power of 1 / 0.4, the first one's share of their sum is of that distribution, if
 * the sum is at most 1 (Johnk, 1964); which it is in 85 % of attempts. */
static float draw_beta(uint64_t seed, uint32_t epoch, uint64_t first) {
    for (uint64_t k = 0; k < 62; k += 2) {
        double x = pow((double)philox_uniform(seed, purpose(OF_MIXUP), epoch, first + k), 1 / 0.4);
        double y = pow((double)philox_uniform(seed, purpose(OF_MIXUP), epoch, first + k + 1), 1 / 0.4);
        if (x + y > 0 && x + y <= 1) return (float)(x / (x + y));
    }
    return 0.5f; /* once in 10^25 batches */
}

bool flim_mixup_draw(uint64_t seed, uint32_t epoch, uint64_t batch, int n, float *lambda, int32_t *partner) {
    assert(n <= 65536);
    bool mixes = philox_uniform(seed, purpose(OF_MIXUP), epoch, batch * 64) < 0.3f;
    *lambda = mixes ? draw_beta(seed, epoch, batch * 64 + 2) : 1;
    for (int i = 0; i < n; i++) { /* the new one takes any place, whose number goes behind */
        uint64_t bits = philox_bits(seed, purpose(OF_PARTNER), epoch, batch * 65536 + (uint64_t)i);
        int at = mixes ? (int)(bits * (uint64_t)(i + 1) >> 32) : i;
        partner[i] = i;
        partner[i] = partner[at];
        partner[at] = i;
    }
    return mixes;
}

/* ---- along time, and voxel by voxel ---- */

void flim_shift(FlimAugmenter *a, float *counts, int bins) {
    int moved = abs(bins) < a->shape.T ? abs(bins) : a->shape.T;
    size_t gone = (size_t)(moved * a->pixels), kept = (size_t)((a->shape.T - moved) * a->pixels);
    memmove(bins > 0 ? counts + gone : counts, bins > 0 ? counts : counts + gone, kept * sizeof *counts);
    memset(bins > 0 ? counts : counts + kept, 0, gone * sizeof *counts);
}

void flim_poisson(FlimAugmenter *a, float *counts, const FlimDraws *d) {
    int n = a->shape.T * a->pixels;
    uint64_t first = d->position * (uint64_t)n;
    for (int i = 0; i < n; i++)
        counts[i] = (float)(philox_poisson(d->seed, purpose(OF_POISSON), d->epoch, first + (uint64_t)i,
                                           1000 * (double)counts[i]) /
                            1000);
}

/* ---- pixels from other pixels ---- */

static Tap whole_pixel(int y, int x, FlimShape s) { return (Tap){{y * s.W + x}, {1}}; }

/* out[i] = sum of weight in[at], in every plane; taps of whole pixels move as much, but need one read each. */
static void move(FlimAugmenter *a, float *counts, unsigned char *footprint, bool whole) {
    int n = a->pixels;
    memcpy(a->planes, counts, (size_t)(a->shape.T * n) * sizeof *counts);
    for (int t = 0; t < a->shape.T; t++) {
        const float *in = a->planes + t * n;
        float *out = counts + t * n;
        for (int i = 0; i < n && whole; i++) out[i] = in[a->taps[i].at[0]];
        for (int i = 0; i < n && !whole; i++) {
            const Tap *p = &a->taps[i];
            out[i] = p->weight[0] * in[p->at[0]] + p->weight[1] * in[p->at[1]] + p->weight[2] * in[p->at[2]] +
                     p->weight[3] * in[p->at[3]];
        }
    }
    if (!footprint) return;
    memcpy(a->mask, footprint, (size_t)n);
    for (int i = 0; i < n;
         i++) { /* the nearest pixel has the greatest weight; none of pixels beyond the image has any */
        const Tap *p = &a->taps[i];
        int best = 0;
        for (int k = 1; k < 4; k++)
            if (p->weight[k] > p->weight[best]) best = k;
        footprint[i] = p->weight[best] > 0 && a->mask[p->at[best]];
    }
}

void flim_turn(FlimAugmenter *a, float *counts, unsigned char *footprint, int turns) {
    int last = a->shape.H - 1;
    for (int y = 0; y <= last; y++)
        for (int x = 0; x <= last; x++)
            a->taps[y * (last + 1) + x] = whole_pixel(turns == 1   ? x
                                                      : turns == 2 ? last - y
                                                      : turns == 3 ? last - x
                                                                   : y,
                                                      turns == 1   ? last - y
                                                      : turns == 2 ? last - x
                                                      : turns == 3 ? y
                                                                   : x,
                                                      a->shape);
    move(a, counts, footprint, true);
}

void flim_flip(FlimAugmenter *a, float *counts, unsigned char *footprint, bool flip_y, bool flip_x) {
    FlimShape s = a->shape;
    for (int y = 0; y < s.H; y++)
        for (int x = 0; x < s.W; x++)
            a->taps[y * s.W + x] = whole_pixel(flip_y ? s.H - 1 - y : y, flip_x ? s.W - 1 - x : x, s);
    move(a, counts, footprint, true);
}

/* ... b a | a b c | c b ... */
static int mirror(int i, int n) {
    i = abs(2 * i + 1) / 2 % (2 * n); /* -1 is 0, -2 is 1 */
    return i < n ? i : 2 * n - 1 - i;
}

static Tap between_pixels(double y, double x, FlimShape s) {
    double top = floor(y), left = floor(x), down = y - top, right = x - left;
    int y0 = mirror((int)top, s.H), y1 = mirror((int)top + 1, s.H);
    int x0 = mirror((int)left, s.W), x1 = mirror((int)left + 1, s.W);
    return (Tap){{y0 * s.W + x0, y0 * s.W + x1, y1 * s.W + x0, y1 * s.W + x1},
                 {(float)((1 - down) * (1 - right)), (float)((1 - down) * right), (float)(down * (1 - right)),
                  (float)(down * right)}};
}

void flim_zoom(FlimAugmenter *a, float *counts, unsigned char *footprint, double factor) {
    FlimShape s = a->shape;
    int n = s.H, side = (int)nearbyint(n * factor), cut = side > n ? (side - n) / 2 : -((n - side) / 2);
    double step = side > 1 ? (n - 1.0) / (side - 1) : 0;
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++) {
            int i = y + cut, j = x + cut;
            bool inside = i >= 0 && i < side && j >= 0 && j < side;
            a->taps[y * n + x] = inside ? between_pixels(i * step, j * step, s) : (Tap){{0}, {0}};
        }
    move(a, counts, footprint, false);
}

void flim_elastic(FlimAugmenter *a, float *counts, unsigned char *footprint, const float *dx, const float *dy) {
    FlimShape s = a->shape;
    for (int y = 0; y < s.H; y++)
        for (int x = 0; x < s.W; x++) {
            int i = y * s.W + x;
            a->taps[i] = between_pixels(y + (double)dy[i], x + (double)dx[i], s);
        }
    move(a, counts, footprint, false);
}

/* ---- Gaussians ---- */

int flim_gaussian(float weights[2 * FLIM_MOST_RADIUS + 1], double sigma) {
    int radius = (int)(4 * sigma + 0.5);
    double sum = 0;
    assert(radius <= FLIM_MOST_RADIUS);
    for (int i = -radius; i <= radius; i++) sum += exp(-i * i / (2 * sigma * sigma));
    for (int i = -radius; i <= radius; i++) weights[i + radius] = (float)(exp(-i * i / (2 * sigma * sigma)) / sum);
    return radius;
}

/* One plane, which gets a margin first: mirrored, or zeros. Columns, then rows. */
static void smooth(FlimAugmenter *a, float *plane, const float *weights, int radius, bool mirrored) {
    int H = a->shape.H, W = a->shape.W, width = W + 2 * radius;
    for (int y = -radius; y < H + radius; y++)
        for (int x = -radius; x < W + radius; x++) {
            bool inside = y >= 0 && y < H && x >= 0 && x < W;
            a->wide[(y + radius) * width + x + radius] = inside     ? plane[y * W + x]
                                                         : mirrored ? plane[mirror(y, H) * W + mirror(x, W)]
                                                                    : 0;
        }
    memset(a->high, 0, (size_t)(H * width) * sizeof *a->high);
    memset(plane, 0, (size_t)(H * W) * sizeof *plane);
    for (int y = 0; y < H; y++)
        for (int k = 0; k <= 2 * radius; k++)
            for (int x = 0; x < width; x++) a->high[y * width + x] += weights[k] * a->wide[(y + k) * width + x];
    for (int y = 0; y < H; y++)
        for (int k = 0; k <= 2 * radius; k++)
            for (int x = 0; x < W; x++) plane[y * W + x] += weights[k] * a->high[y * width + x + k];
}

void flim_elastic_field(FlimAugmenter *a, float *field) {
    float weights[2 * FLIM_MOST_RADIUS + 1] = {0};
    int radius = flim_gaussian(weights, 2);
    smooth(a, field, weights, radius, false);
    for (int i = 0; i < a->pixels; i++) field[i] *= 5;
}

void flim_blur(FlimAugmenter *a, float *counts, double sigma) {
    float weights[2 * FLIM_MOST_RADIUS + 1] = {0};
    int radius = flim_gaussian(weights, sigma);
    for (int t = 0; t < a->shape.T; t++) smooth(a, counts + t * a->pixels, weights, radius, true);
}

/* ---- all of it ---- */

static void draw_fields(FlimAugmenter *a, const FlimDraws *d) {
    uint64_t n = (uint64_t)a->pixels;
    for (uint64_t axis = 0; axis < 2; axis++) {
        for (uint64_t i = 0; i < n; i++)
            a->field[axis][i] =
                2 * philox_uniform(d->seed, purpose(OF_FIELD), d->epoch, (2 * d->position + axis) * n + i) - 1;
        flim_elastic_field(a, a->field[axis]);
    }
}

void flim_augment(FlimAugmenter *a, float *counts, unsigned char *footprint, const FlimDraws *d) {
    int n = a->pixels, T = a->shape.T;
    if (d->shift) flim_shift(a, counts, d->shift);
    for (int i = 0; i < T * n && d->scale != 1; i++) counts[i] *= d->scale;
    if (d->turns) flim_turn(a, counts, footprint, d->turns);
    if (d->flip_y || d->flip_x) flim_flip(a, counts, footprint, d->flip_y, d->flip_x);
    if (d->poisson) flim_poisson(a, counts, d);
    if (d->zoom != 1) flim_zoom(a, counts, footprint, d->zoom);
    if (d->elastic) {
        draw_fields(a, d);
        flim_elastic(a, counts, footprint, a->field[0], a->field[1]);
    }
    if (d->blur > 0) flim_blur(a, counts, d->blur);
    for (int t = 0; t < T && footprint; t++)
        for (int i = 0; i < n; i++)
            if (!footprint[i]) counts[t * n + i] = 0;
}

int flim_footprint(unsigned char *footprint, const float *counts, FlimShape s) {
    int n = s.H * s.W, pixels = 0;
    memset(footprint, 0, (size_t)n);
    for (int t = 0; t < s.T; t++)
        for (int i = 0; i < n; i++) footprint[i] |= counts[t * n + i] > 0;
    for (int i = 0; i < n; i++) pixels += footprint[i];
    return pixels;
}

void flim_pack(float *x, const float *counts, const unsigned char *footprint, FlimShape s) {
    int n = s.H * s.W;
    for (int i = 0; i < s.T * n; i++) x[i] = log1pf(counts[i]) / 10;
    x += s.T * n;
    for (int t = 0; t < s.T; t++)
        for (int i = 0; i < n; i++) x[t * n + i] = footprint[i];
}
