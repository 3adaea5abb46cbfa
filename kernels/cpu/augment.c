/* Augmentation of volumes of counts (kernels/augment.h has the arithmetic of a pixel), and mixup.
 *
 * What holds for all bins of a sample comes first: its footprint, its field of displacements and the weights of its
 * blur. Then BINS bins are processed at a time, few enough for the L1 cache. They lie as rows of pixels while random
 * numbers are drawn along pixels, and as pixels of BINS bins while pixels are interpolated, so that every loop runs
 * over neighbours in memory. */
#include "kernels/cpu/simd.h"

#include "kernels/augment.h"

enum { BINS = 16 }; /* one, two or four vectors; a multiple of 4, since four bins share a block of random numbers */

/* The parts of an augmentation that are the same for all bins of a sample. */
typedef struct {
    AugmentDraws draws;
    const void *counts; /* of the volume, [T, H W] */
    bool wide;          /* u16, not u8 */
    AugmentGaussian blur;
    float *field[2];  /* [H W] dx, dy */
    float *footprint; /* [H W] 0 or 1 */
} Sample;

/* Interpolates each pixel's bins of out [H W, lanes] from its four pixels of `in`. */
static inline void interpolate(float *restrict out, const float *restrict in, const Sample *a, AugmentShape s,
                               bool zoom, int lanes) {
    for (int i = 0; i < s.H * s.W; i++) {
        AugmentTap tap = zoom ? augment_zoom_tap(i, a->draws.side, s.H)
                              : augment_elastic_tap(i, a->field[1][i], a->field[0][i], s.H);
        for (int k = 0; k < lanes; k++) out[i * lanes + k] = tap.weight[0] * in[tap.at[0] * lanes + k];
        for (int c = 1; c < 4; c++)
            for (int k = 0; k < lanes; k++)
                out[i * lanes + k] = fmaf(tap.weight[c], in[tap.at[c] * lanes + k], out[i * lanes + k]);
    }
}

/* Applies a Gaussian along one axis: y if `down`, else x. Beyond its edges the image is mirrored, or zero. */
static inline void smooth_axis(float *restrict out, const float *restrict in, const AugmentGaussian *g, int n,
                               bool down, bool mirrored, int lanes) {
    for (int i = 0; i < n * n; i++) {
        int along = down ? i / n : i % n, first = down ? i % n : i - along, step = down ? n : 1;
        float sum[BINS] = {0};
        for (int k = -g->radius; k <= g->radius; k++) {
            int at = mirrored ? augment_mirror(along + k, n) : along + k;
            if (at < 0 || at >= n) continue;
            const float *from = in + (first + at * step) * lanes;
            for (int l = 0; l < lanes; l++) sum[l] = fmaf(g->weight[k + g->radius], from[l], sum[l]);
        }
        for (int l = 0; l < lanes; l++) out[i * lanes + l] = sum[l];
    }
}

/* Zooms, deforms and blurs; returns the buffer that holds the result: a or b. */
static inline float *resample(float *a, float *b, const Sample *sample, AugmentShape s, int lanes) {
    for (int elastic = 0; elastic < 2; elastic++) {
        if (elastic ? !sample->draws.elastic : !sample->draws.side) continue;
        interpolate(b, a, sample, s, !elastic, lanes);
        float *made = b;
        b = a, a = made;
    }
    if (sample->draws.blur > 0) {
        smooth_axis(b, a, &sample->blur, s.H, true, true, lanes);
        smooth_axis(a, b, &sample->blur, s.H, false, true, lanes);
    }
    return a;
}

/* ---- all bins ---- */

/* Smooths a field [H W] of uniform numbers; room [H W] is scratch. */
static void smooth_field(float *field, float *room, int n) {
    AugmentGaussian g = augment_gaussian(AUGMENT_FIELD_SIGMA);
    smooth_axis(room, field, &g, n, true, false, 1);
    smooth_axis(field, room, &g, n, false, false, 1);
    for (int i = 0; i < n * n; i++) field[i] *= AUGMENT_FIELD_SIZE;
}

/* Marks the pixels that have photons in bins first .. end - 1, after turns and flips. */
static void find_lit(float *lit, const Sample *a, AugmentShape s, int first, int end) {
    int n = s.H * s.W, seen[AUGMENT_MAX_SIDE * AUGMENT_MAX_SIDE] = {0};
    const uint8_t *narrow = a->counts;
    const uint16_t *wide = a->counts;
    for (int t = first; t < end; t++)
        for (int i = 0; i < n; i++) seen[i] |= a->wide ? wide[t * n + i] : narrow[t * n + i];
    for (int i = 0; i < n; i++) lit[i] = seen[augment_moved(&a->draws, i, s.H)] ? 1 : 0;
}

/* Resampling has the same weights at all times, so the union of all lit pixels is resampled instead of every bin. room
 * is scratch of two planes. */
static void find_footprint(Sample *a, AugmentShape s, bool dilated, float *room) {
    int n = s.H * s.W, shift = a->draws.shift;
    float *lit = room, *moved = room + n;
    find_lit(lit, a, s, dilated && shift < 0 ? -shift : 0, dilated && shift > 0 ? s.T - shift : s.T);
    if (dilated) {
        const float *counts = resample(lit, moved, a, s, 1);
        for (int i = 0; i < n; i++) a->footprint[i] = counts[i] > 0 ? 1 : 0;
        return;
    }
    for (int elastic = 0; elastic < 2; elastic++) {
        if (elastic ? !a->draws.elastic : !a->draws.side) continue;
        for (int i = 0; i < n; i++) {
            AugmentTap tap = elastic ? augment_elastic_tap(i, a->field[1][i], a->field[0][i], s.H)
                                     : augment_zoom_tap(i, a->draws.side, s.H);
            int at = augment_nearest(&tap);
            moved[i] = at < 0 ? 0 : lit[at];
        }
        memcpy(lit, moved, (size_t)n * sizeof *lit);
    }
    memcpy(a->footprint, lit, (size_t)n * sizeof *lit);
}

static void draw_fields(Sample *a, AugmentShape s, float *room) {
    for (int axis = 0; axis < 2 && a->draws.elastic; axis++) {
        for (int i = 0; i < s.H * s.W; i++) a->field[axis][i] = augment_field_noise(&a->draws, s, axis, i);
        smooth_field(a->field[axis], room, s.H);
    }
    if (a->draws.blur > 0) a->blur = augment_gaussian(a->draws.blur);
}

/* ---- BINS bins ---- */

/* Loads rows [BINS, H W]: shifted, scaled, turned and flipped, with Poisson noise. */
static void load_rows(float *rows, const Sample *a, AugmentShape s, int first) {
    const AugmentDraws *d = &a->draws;
    const uint8_t *narrow = a->counts;
    const uint16_t *wide = a->counts;
    int n = s.H * s.W, moved[AUGMENT_MAX_SIDE * AUGMENT_MAX_SIDE];
    for (int i = 0; i < n; i++) moved[i] = augment_moved(d, i, s.H);
    for (int k = 0; k < BINS; k++) {
        uint32_t from = (uint32_t)(first + k) - (uint32_t)d->shift;
        bool inside = first + k < s.T && from < (uint32_t)s.T;
        int64_t row = inside ? (int64_t)from * n : 0;
        for (int i = 0; i < n && inside; i++)
            rows[k * n + i] = d->scale * (float)(a->wide ? wide[row + moved[i]] : narrow[row + moved[i]]);
        if (!inside) memset(rows + k * n, 0, (size_t)n * sizeof *rows);
    }
    for (int k = 0; k < BINS && d->poisson; k += 4) {
        uint64_t seed = augment_number(d->seed), block = augment_poisson_block(d, s, first + k, 0);
        uint32_t epoch = d->epoch;
        float *row = rows + k * n;
#pragma omp simd
        for (int i = 0; i < n; i++) {
            Philox r = philox(seed, augment_purpose(AUGMENT_STREAM_POISSON), epoch, block + (uint64_t)i);
            float z0, z1, z2, z3;
            augment_normals(r.x[0], r.x[1], &z0, &z1);
            augment_normals(r.x[2], r.x[3], &z2, &z3);
            row[i] = augment_poisson(row[i], z0);
            row[n + i] = augment_poisson(row[n + i], z1);
            row[2 * n + i] = augment_poisson(row[2 * n + i], z2);
            row[3 * n + i] = augment_poisson(row[3 * n + i], z3);
        }
    }
}

/* Writes x [T H W, 2] for BINS bins from `first` on. room is scratch of two times [BINS, H W]. */
static void augment_bins(float *x, const Sample *a, AugmentShape s, int first, float *room) {
    int n = s.H * s.W;
    float *rows = room, *pixels = room + BINS * n;
    load_rows(rows, a, s, first);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < BINS; k++) pixels[i * BINS + k] = rows[k * n + i];
    pixels = resample(pixels, rows, a, s, BINS);
    for (int i = 0; i < n * BINS; i++) pixels[i] = augment_packed(pixels[i]);
    for (int k = 0; k < BINS && first + k < s.T; k++)
        for (int i = 0; i < n; i++) {
            float *at = x + ((int64_t)(first + k) * n + i) * 2;
            at[0] = a->footprint[i] * pixels[i * BINS + k];
            at[1] = a->footprint[i];
        }
}

static Sample sample_of(Tensor counts, Tensor volumes, Tensor draws, int64_t number, float *memory, AugmentShape s) {
    int n = s.H * s.W;
    Sample a = {.counts = (const char *)counts.data + ((const int32_t *)volumes.data)[number] * (int64_t)(s.T * n) *
                                                          (int64_t)dtype_size(counts.dtype),
                .wide = counts.dtype == DTYPE_U16,
                .field = {memory, memory + n},
                .footprint = memory + 2 * n};
    memcpy(&a.draws, (const int32_t *)draws.data + number * AUGMENT_DRAW_WORDS, sizeof a.draws);
    if (!augment_draws_fit(&a.draws, s))
        die("augment_volumes: draws[%lld] has a number out of range", (long long)number);
    return a;
}

static void cpu_augment_volumes(Device *device, Tensor x, Tensor counts, Tensor volumes, Tensor draws, AugmentShape s,
                                bool dilated) {
    check_indices("augment_volumes", "volumes", volumes, 0, counts.dims[0]);
    int64_t samples = volumes.dims[0], n = (int64_t)s.H * s.W, chunks = (s.T + BINS - 1) / BINS;
    int threads = device->n_threads;
    size_t list = (size_t)samples * sizeof(Sample) / sizeof(float);
    float *memory = cpu_scratch(device, list + (size_t)(samples * 3 * n + threads * 2 * BINS * n));
    Sample *all = (void *)memory;
    float *planes = memory + list, *rooms = planes + samples * 3 * n;
    for (int64_t i = 0; i < samples; i++) all[i] = sample_of(counts, volumes, draws, i, planes + i * 3 * n, s);
#pragma omp parallel num_threads(threads)
    {
        float *room = rooms + omp_get_thread_num() * 2 * BINS * n;
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < samples; i++) {
            draw_fields(&all[i], s, room);
            find_footprint(&all[i], s, dilated, room);
        }
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < samples * chunks; i++)
            augment_bins((float *)x.data + i / chunks * s.T * n * 2, &all[i / chunks], s, (int)(i % chunks) * BINS,
                         room);
    }
}

static void cpu_mixup(Device *device, Tensor y, Tensor x, Tensor partners, Tensor share) {
    int64_t samples = partners.dims[0], n = samples ? tensor_numel(x) / samples : 0;
    const int32_t *partner = partners.data;
    float mine = *(const float *)share.data, others = 1 - mine;
    check_indices("mixup", "partners", partners, 0, samples);
#pragma omp parallel for num_threads(device->n_threads)
    for (int64_t s = 0; s < samples; s++) {
        const float *a = (const float *)x.data + s * n, *b = (const float *)x.data + partner[s] * n;
        float *to = (float *)y.data + s * n;
        for (int64_t i = 0; i < n; i++) to[i] = fmaf(mine, a[i], others * b[i]);
    }
}
