/* Vector quantisation: a codebook trained by k-means, and the nearest entry of a frame. */
#ifndef DATA_KMEANS_H
#define DATA_KMEANS_H

#include "base/base.h"

typedef struct {
    int64_t entries, width;
    float *centroids;    /* [entries, width] */
    float *half_squares; /* [entries]: |centroid|^2 / 2 */
} Codebook;

typedef struct {
    int64_t entries;
    int iterations; /* at most; it ends sooner when an iteration gains less than 0.01 % */
    uint64_t seed;
    int n_threads;                                                  /* does not change the result */
    void (*progress)(void *context, int iteration, double inertia); /* or NULL */
    void *context;
} KmeansOptions;

typedef struct {
    int iterations;   /* done */
    int64_t distinct; /* different frames among those given */
    int64_t reseeded; /* entries that had lost all their frames and were set anew, over all iterations */
    double inertia;   /* sum of squared distances of the frames to their entries, at the end */
} KmeansReport;

/* Trains on frames[n, width], which it reorders. An error if fewer than `entries` of them are different. */
bool kmeans_train(float *frames, int64_t n, int64_t width, const KmeansOptions *options, Codebook *codebook,
                  KmeansReport *report, Error *error);

/* A codebook of these entries, which it takes over (free() by codebook_close). */
Codebook codebook_of(float *centroids, int64_t entries, int64_t width);
void codebook_close(Codebook *codebook);
/* codes[i] is the entry nearest to frame i, the lowest of equals; squared[i], if wanted, its squared distance. Safe
 * from several threads; the result of a frame depends on neither their number nor (beyond its neighbours within a block
 * of 128, counted from frames) on the other frames. */
void codebook_assign(const Codebook *codebook, const float *frames, int64_t n, int32_t *codes, float *squared);

#endif
