#include "data/indextts2/front.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "data/audio/fbank.h"
#include "data/audio/resample.h"

enum { MIDDLE_RATE = 24000, SHORTEST_PER_SECOND = 10 };

static const double SAMPLE_SCALE = 32768;
static const float PADDING = 1;

typedef struct FromRate FromRate;
struct FromRate {
    int rate;
    Resampler *resampler; /* to MIDDLE_RATE */
    FromRate *next;
};

struct IndexFront {
    Fbank *fbank;
    Resampler *down; /* from MIDDLE_RATE to FBANK_RATE */
    pthread_mutex_t lock;
    FromRate *from; /* under the lock */
};

IndexFront *index_front_open(void) {
    IndexFront *front = xcalloc(1, sizeof *front);
    front->fbank = fbank_open(SAMPLE_SCALE);
    front->down = resampler_open(MIDDLE_RATE, FBANK_RATE);
    pthread_mutex_init(&front->lock, NULL);
    return front;
}

void index_front_close(IndexFront *front) {
    if (!front) return;
    for (FromRate *from = front->from, *next; from; from = next) {
        next = from->next;
        resampler_close(from->resampler);
        free(from);
    }
    pthread_mutex_destroy(&front->lock);
    resampler_close(front->down);
    fbank_close(front->fbank);
    free(front);
}

/* Returns the resampler from a rate to MIDDLE_RATE, which lives as long as `front`. */
static const Resampler *resampler_from(IndexFront *front, int rate) {
    pthread_mutex_lock(&front->lock);
    FromRate *from = front->from;
    while (from && from->rate != rate) from = from->next;
    if (!from) {
        from = xmalloc(sizeof *from);
        *from = (FromRate){.rate = rate, .resampler = resampler_open(rate, MIDDLE_RATE), .next = front->from};
        front->from = from;
    }
    pthread_mutex_unlock(&front->lock);
    return from->resampler;
}

static int64_t row_count(int64_t samples) { return (fbank_frame_count(samples) + 1) / 2; }

/* Checks n samples at `rate` Hz, of which n_16k will remain. */
static bool check_clip(const float *samples, int64_t n, int rate, int64_t n_16k, Error *error) {
    if (n * SHORTEST_PER_SECOND < rate)
        return error_set(error, "has only %lld samples at %d Hz, %.3f s, and at least %g s are needed: leave it out",
                         (long long)n, rate, (double)n / rate, 1.0 / SHORTEST_PER_SECOND);
    if (row_count(n_16k) > FRONT_MAX_ROWS)
        return error_set(error, "has %.2f s, and IndexTTS2 has positions for at most %d s: cut it", (double)n / rate,
                         2 * FRONT_MAX_ROWS * FBANK_HOP / FBANK_RATE);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(samples[i])) return error_set(error, "sample %lld is not a finite number", (long long)i);
    return true;
}

/* Computes the features of samples[n] at FBANK_RATE that were checked. */
static void compute_features(const IndexFront *front, const float *samples, int64_t n, FrontClip *clip) {
    int64_t frames = fbank_frame_count(n);
    clip->rows = row_count(n);
    clip->valid = frames / 2;
    clip->x = xmalloc((size_t)(clip->rows * FRONT_COLUMNS) * sizeof *clip->x);
    fbank_analyse(front->fbank, samples, n, clip->x);
    fbank_normalise(clip->x, frames, true);
    for (int64_t i = frames * FBANK_BANDS; i < clip->rows * FRONT_COLUMNS; i++) clip->x[i] = PADDING;
}

bool index_front_features_16k(IndexFront *front, const float *samples, int64_t n, FrontClip *clip, Error *error) {
    *clip = (FrontClip){0};
    if (!check_clip(samples, n, FBANK_RATE, n, error)) return false;
    compute_features(front, samples, n, clip);
    return true;
}

bool index_front_features(IndexFront *front, const float *samples, int64_t n, int rate, FrontClip *clip, Error *error) {
    *clip = (FrontClip){0};
    if (rate < 1 || rate > RESAMPLER_MAX_RATE)
        return error_set(error, "has %d Hz; sound of 1 to %d Hz can be resampled", rate, RESAMPLER_MAX_RATE);
    const Resampler *up = resampler_from(front, rate);
    int64_t n_24k = resampler_length(up, n), n_16k = resampler_length(front->down, n_24k);
    if (!check_clip(samples, n, rate, n_16k, error)) return false;
    OWNED float *at_24k = NULL, *at_16k = xmalloc((size_t)n_16k * sizeof *at_16k);
    if (rate != MIDDLE_RATE) {
        at_24k = xmalloc((size_t)n_24k * sizeof *at_24k);
        resampler_run(up, samples, n, at_24k);
    }
    resampler_run(front->down, at_24k ? at_24k : samples, n_24k, at_16k);
    compute_features(front, at_16k, n_16k, clip);
    return true;
}
