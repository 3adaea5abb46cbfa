/* Lloyd's algorithm, from k-means++ seeds (Arthur and Vassilvitskii, 2007).
 *
 * The nearest entry maximises x.c - |c|^2 / 2, so one matrix product compares a block of frames with the whole
 * codebook. One thread computes all sums over frames, in the order of the frames, and blocks begin at fixed places. So
 * the number of threads does not change a bit of the result. */
#include "data/kmeans.h"

#include <dnnl.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/onednn.h"
#include "kernels/philox.h"

enum { BLOCK = 96, LANES = 16, SEED_BLOCK = 1024, SEED_FRAMES_PER_ENTRY = 8, MIN_SEED_FRAMES = 16384 };

static const double MIN_GAIN = 1e-4;

/* Returns |a - b|^2, from eight partial sums, because a compiler must not reorder a single sum. */
static float squared_distance(const float *a, const float *b, int64_t width) {
    float part[8] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 8 <= width; i += 8)
        for (int j = 0; j < 8; j++) part[j] += (a[i + j] - b[i + j]) * (a[i + j] - b[i + j]);
    for (; i < width; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    for (int j = 0; j < 4; j++) part[j] += part[j + 4];
    return sum + ((part[0] + part[2]) + (part[1] + part[3]));
}

/* ---- the codebook ---- */

static void update_half_squares(Codebook *c) {
    for (int64_t k = 0; k < c->entries; k++) {
        double sum = 0;
        for (int64_t i = 0; i < c->width; i++) {
            double x = (double)c->centroids[k * c->width + i];
            sum += x * x;
        }
        c->half_squares[k] = (float)(sum / 2);
    }
}

Codebook codebook_of(float *centroids, int64_t entries, int64_t width) {
    Codebook c = {entries, width, centroids, xmalloc((size_t)entries * sizeof *c.half_squares)};
    update_half_squares(&c);
    return c;
}

void codebook_close(Codebook *codebook) {
    free(codebook->centroids);
    free(codebook->half_squares);
    *codebook = (Codebook){0};
}

double codebook_entropy(const int64_t *counts, int64_t n) {
    int64_t total = 0;
    double entropy = 0;
    for (int64_t i = 0; i < n; i++) total += counts[i];
    for (int64_t i = 0; i < n; i++) {
        double share = (double)counts[i] / (double)total;
        if (counts[i]) entropy -= share * log(share);
    }
    return entropy;
}

/* Returns the entry with the best score, the lowest of equals. Sixteen running maxima, each over every sixteenth entry,
 * let the loop become vector instructions. */
static int32_t best_entry(const float *products, const float *half_squares, int64_t entries) {
    float best[LANES];
    int32_t which[LANES], winner = 0;
    int64_t whole = entries / LANES * LANES;
    for (int j = 0; j < LANES; j++) {
        best[j] = -INFINITY;
        which[j] = 0;
    }
    for (int32_t k = 0; k < whole; k += LANES)
        for (int j = 0; j < LANES; j++) {
            float score = products[k + j] - half_squares[k + j];
            bool better = score > best[j];
            best[j] = better ? score : best[j];
            which[j] = better ? k + j : which[j];
        }
    for (int64_t k = whole; k < entries; k++) { /* the rest, one entry per lane */
        float score = products[k] - half_squares[k];
        if (score > best[k - whole]) {
            best[k - whole] = score;
            which[k - whole] = (int32_t)k;
        }
    }
    for (int j = 1; j < LANES; j++)
        if (best[j] > best[winner] || (best[j] == best[winner] && which[j] < which[winner])) winner = j;
    return which[winner];
}

/* Assigns at most BLOCK frames; products[BLOCK, entries] and padded[BLOCK, width] are scratch. Products of another
 * number of rows could differ in their last bits, and a frame's code would depend on the frames around it. 96 rows fill
 * the tiles of oneDNN's GEMM on every instruction set. */
static void assign_block(const Codebook *c, const float *frames, int64_t n, int32_t *codes, float *squared,
                         float *products, float *padded) {
    const float *rows = frames;
    if (n < BLOCK) {
        memset(padded, 0, (size_t)(BLOCK * c->width) * sizeof *padded);
        rows = memcpy(padded, frames, (size_t)(n * c->width) * sizeof *padded);
    }
    check_room_for_code();
    dnnl_status_t status = dnnl_sgemm('N', 'T', BLOCK, c->entries, c->width, 1, rows, c->width, c->centroids, c->width,
                                      0, products, c->entries);
    if (status != dnnl_success) die("the matrix product failed (%d)", (int)status);
    for (int64_t i = 0; i < n; i++) {
        codes[i] = best_entry(products + i * c->entries, c->half_squares, c->entries);
        if (squared) squared[i] = squared_distance(frames + i * c->width, c->centroids + codes[i] * c->width, c->width);
    }
}

/* Assigns blocks with n_threads threads; each thread computes its own products. */
static void assign(const Codebook *c, const float *frames, int64_t n, int32_t *codes, float *squared, int n_threads) {
    (void)n_threads; /* for compilers without OpenMP */
#pragma omp parallel num_threads(n_threads)
    {
        int before = omp_get_max_threads();
        omp_set_num_threads(1);
        OWNED float *products = xaligned((size_t)BLOCK * (size_t)c->entries * sizeof *products);
        OWNED float *padded = xaligned((size_t)(BLOCK * c->width) * sizeof *padded);
#pragma omp for schedule(dynamic)
        for (int64_t at = 0; at < n; at += BLOCK)
            assign_block(c, frames + at * c->width, n - at < BLOCK ? n - at : BLOCK, codes + at,
                         squared ? squared + at : NULL, products, padded);
        omp_set_num_threads(before);
    }
}

void codebook_assign(const Codebook *codebook, const float *frames, int64_t n, int32_t *codes, float *squared) {
    assign(codebook, frames, n, codes, squared, 1);
}

/* ---- training ---- */

typedef struct {
    float *frames; /* [n, width] */
    int64_t n, width, distinct;
    const KmeansOptions *options;
    int32_t *codes; /* [n] */
    float *squared; /* [n]: distance to the nearest entry */
    uint64_t draws; /* random numbers used so far */
} Kmeans;

/* Returns a random number in [0, 1) of 53 bits. */
static double draw(Kmeans *k) {
    Philox r = philox(k->options->seed, PURPOSE_KMEANS, 0, k->draws++);
    return (double)((uint64_t)r.x[0] << 21 | r.x[1] >> 11) * 0x1p-53;
}

static int compare_rows(const void *a, const void *b, void *width) {
    int order = memcmp(*(float *const *)a, *(float *const *)b, (size_t) * (int64_t *)width * sizeof(float));
    if (order) return order;
    return *(float *const *)a < *(float *const *)b ? -1 : *(float *const *)a > *(float *const *)b;
}

/* Puts the frames into a random order with all duplicates at the end (digital silence repeats itself), and counts the
 * distinct frames. */
static void shuffle_distinct_first(Kmeans *k) {
    size_t row = (size_t)k->width * sizeof(float);
    OWNED float **rows = xmalloc((size_t)k->n * sizeof *rows), *ordered = xmalloc((size_t)k->n * row);
    OWNED bool *repeats = xcalloc((size_t)k->n, sizeof *repeats);
    for (int64_t i = 0; i < k->n; i++) rows[i] = k->frames + i * k->width;
    qsort_r(rows, (size_t)k->n, sizeof *rows, compare_rows, &k->width);
    k->distinct = k->n;
    for (int64_t i = 1; i < k->n; i++)
        if (!memcmp(rows[i], rows[i - 1], row)) {
            repeats[(rows[i] - k->frames) / k->width] = true;
            k->distinct--;
        }
    for (int64_t i = 0; i < k->n; i++) rows[i] = k->frames + i * k->width;
    for (int64_t i = k->n - 1; i > 0; i--) {
        int64_t j = (int64_t)(draw(k) * (double)(i + 1));
        float *swap = rows[i];
        rows[i] = rows[j];
        rows[j] = swap;
    }
    int64_t first = 0, later = k->distinct;
    for (int64_t i = 0; i < k->n; i++) {
        int64_t from = (rows[i] - k->frames) / k->width;
        memcpy(ordered + (repeats[from] ? later++ : first++) * k->width, rows[i], row);
    }
    memcpy(k->frames, ordered, (size_t)k->n * row);
}

/* Updates squared[0 .. n) with a new entry; sums[i] becomes the sum over the i-th block of SEED_BLOCK of them. */
static void update_distances(Kmeans *k, const float *centroid, int64_t n, double *sums) {
    for (int64_t begin = 0; begin < n; begin += SEED_BLOCK) {
        int64_t end = begin + SEED_BLOCK < n ? begin + SEED_BLOCK : n;
        double sum = 0;
        for (int64_t i = begin; i < end; i++) {
            float squared = squared_distance(k->frames + i * k->width, centroid, k->width);
            if (squared < k->squared[i]) k->squared[i] = squared;
            sum += (double)k->squared[i];
        }
        sums[begin / SEED_BLOCK] = sum;
    }
}

/* Draws one of the first n frames, with a probability proportional to its squared distance from the entries so far. */
static int64_t draw_far_frame(Kmeans *k, int64_t n, const double *sums) {
    int64_t blocks = (n + SEED_BLOCK - 1) / SEED_BLOCK, begin = 0, last = 0;
    double total = 0, sum = 0;
    for (int64_t i = 0; i < blocks; i++) total += sums[i];
    double mark = draw(k) * total;
    for (int64_t i = 0; i < blocks && sum + sums[i] <= mark; i++) {
        sum += sums[i];
        begin += SEED_BLOCK;
    }
    for (int64_t i = begin < n ? begin : 0; i < n; i++) {
        if (!(k->squared[i] > 0)) continue;
        last = i;
        if ((sum += (double)k->squared[i]) > mark) break;
    }
    return last;
}

/* Chooses the initial entries by k-means++ over the first frames, which are all different. Eight frames per entry are
 * enough, and cost no more than a few iterations. One thread does it: a barrier after every entry would cost more than
 * it gains on a machine that has other work. */
static void choose_seeds(Kmeans *k, Codebook *c) {
    int64_t n = SEED_FRAMES_PER_ENTRY * c->entries, chosen = 0;
    if (n < MIN_SEED_FRAMES) n = MIN_SEED_FRAMES;
    if (n > k->distinct) n = k->distinct;
    OWNED double *sums = xcalloc((size_t)(n / SEED_BLOCK) + 1, sizeof *sums);
    for (int64_t i = 0; i < n; i++) k->squared[i] = INFINITY;
    for (int64_t entry = 0; entry < c->entries; entry++) {
        float *centroid = c->centroids + entry * c->width;
        memcpy(centroid, k->frames + chosen * c->width, (size_t)c->width * sizeof *centroid);
        update_distances(k, centroid, n, sums);
        chosen = draw_far_frame(k, n, sums);
    }
}

/* Moves an entry without frames to the frame that is farthest from its entry. */
static void reseed(Kmeans *k, float *centroid) {
    int64_t farthest = 0;
    for (int64_t i = 1; i < k->n; i++)
        if (k->squared[i] > k->squared[farthest]) farthest = i;
    memcpy(centroid, k->frames + farthest * k->width, (size_t)k->width * sizeof *centroid);
    k->squared[farthest] = 0;
}

/* Moves every entry to the mean of its frames. Returns how many entries had none. */
static int64_t move_entries(Kmeans *k, Codebook *c) {
    OWNED double *sums = xcalloc((size_t)(c->entries * c->width), sizeof *sums);
    OWNED int64_t *counts = xcalloc((size_t)c->entries, sizeof *counts);
    int64_t empty = 0;
    for (int64_t i = 0; i < k->n; i++) {
        counts[k->codes[i]]++;
        for (int64_t j = 0; j < c->width; j++) sums[k->codes[i] * c->width + j] += (double)k->frames[i * c->width + j];
    }
    for (int64_t entry = 0; entry < c->entries; entry++) {
        float *centroid = c->centroids + entry * c->width;
        for (int64_t j = 0; j < c->width && counts[entry]; j++)
            centroid[j] = (float)(sums[entry * c->width + j] / (double)counts[entry]);
        if (counts[entry]) continue;
        reseed(k, centroid);
        empty++;
    }
    update_half_squares(c);
    return empty;
}

static void iterate(Kmeans *k, Codebook *c, KmeansReport *report) {
    const KmeansOptions *o = k->options;
    double before = INFINITY;
    update_half_squares(c);
    for (;; report->iterations++) {
        assign(c, k->frames, k->n, k->codes, k->squared, o->n_threads);
        report->inertia = 0;
        for (int64_t i = 0; i < k->n; i++) report->inertia += (double)k->squared[i];
        if (o->progress) o->progress(o->context, report->iterations, report->inertia);
        if (report->iterations == o->iterations || !(report->inertia < before * (1 - MIN_GAIN))) return;
        before = report->inertia;
        report->reseeded += move_entries(k, c);
    }
}

bool kmeans_train(float *frames, int64_t n, int64_t width, const KmeansOptions *options, Codebook *codebook,
                  KmeansReport *report, Error *error) {
    Kmeans k = {.frames = frames, .n = n, .width = width, .options = options};
    *report = (KmeansReport){0};
    shuffle_distinct_first(&k);
    report->distinct = k.distinct;
    if (k.distinct < options->entries || options->entries < 1)
        return error_set(error, "%lld different frames cannot fill a codebook of %lld entries", (long long)k.distinct,
                         (long long)options->entries);
    k.codes = xmalloc((size_t)n * sizeof *k.codes);
    k.squared = xmalloc((size_t)n * sizeof *k.squared);
    *codebook = codebook_of(xcalloc((size_t)(options->entries * width), sizeof(float)), options->entries, width);
    choose_seeds(&k, codebook);
    iterate(&k, codebook, report);
    free(k.codes);
    free(k.squared);
    return true;
}
