/* Features of speech for the networks of IndexTTS2, 50 rows per second, from samples. */
#pragma once

#include "base/base.h"

enum { FRONT_COLUMNS = 160, FRONT_MAX_ROWS = 10000 };

typedef struct IndexFront IndexFront; /* the tables, of resamplers those that were needed so far */

typedef struct {
    float *x;            /* [rows, FRONT_COLUMNS], free() */
    int64_t rows, valid; /* of F frames: ceil(F / 2), floor(F / 2) */
} FrontClip;

IndexFront *index_front_open(void);
void index_front_close(IndexFront *front);

/* Computes the features of mono samples[n], full scale -1 to 1, at `rate` Hz. They are resampled to 24 kHz, unless they
 * have that rate, and then to 16 kHz, as the sound was that the networks have learned from. A row is two log-mel frames
 * (data/audio/fbank.h, scale 32768), whose bands have mean 0 and variance 1 over the clip. An odd last frame makes a
 * row that is not valid, with 1 in its second half. Refuses clips of less than 0.1 s, clips of more than FRONT_MAX_ROWS
 * rows, 200 s, samples that are not finite, and rates above RESAMPLER_MAX_RATE. Safe from several threads. */
bool index_front_features(IndexFront *front, const float *samples, int64_t n, int rate, FrontClip *clip, Error *error);
/* Computes the same of samples that are at 16 kHz already and are taken as they are. */
bool index_front_features_16k(IndexFront *front, const float *samples, int64_t n, FrontClip *clip, Error *error);
