/* Vector quantisation: trains a codebook by k-means, and finds the nearest entry of a frame. */
#pragma once

#include "base/base.h"

typedef struct {
    int64_t entries, width;
    float *centroids;    /* [entries, width] */
    float *half_squares; /* [entries]: |centroid|^2 / 2 */
} Codebook;

typedef struct {
    int64_t entries;
    int iterations; /* maximum; training ends earlier if an iteration improves by less than 0.01 % */
    uint64_t seed;
    int n_threads;                                                  /* has no influence on the result */
    void (*progress)(void *context, int iteration, double inertia); /* or NULL */
    void *context;
} KmeansOptions;

typedef struct {
    int iterations;   /* done */
    int64_t distinct; /* distinct frames of the input */
    int64_t reseeded; /* entries without frames that were reset, over all iterations */
    double inertia;   /* sum of squared distances of the frames to their entries, at the end */
} KmeansReport;

/* Trains on frames[n, width], and reorders the frames. Returns false with the reason if fewer than `entries` frames are
 * distinct. */
bool kmeans_train(float *frames, int64_t n, int64_t width, const KmeansOptions *options, Codebook *codebook,
                  KmeansReport *report, Error *error);

/* Returns a codebook of these entries, and owns `centroids`: codebook_close frees them. */
Codebook codebook_of(float *centroids, int64_t entries, int64_t width);
void codebook_close(Codebook *codebook);
/* Returns the entropy in nats of how often each of n entries is used. */
double codebook_entropy(const int64_t *counts, int64_t n);
/* Sets codes[i] to the entry nearest to frame i, the lowest of equals, and squared[i], unless it is NULL, to its
 * squared distance. Safe from several threads. A frame's result does not depend on the number of threads; in its last
 * bits it may depend on the other frames of its block of 128, counted from `frames`. */
void codebook_assign(const Codebook *codebook, const float *frames, int64_t n, int32_t *codes, float *squared);
