/* A sound file in memory, which libsndfile writes. */
#pragma once

#include <sndfile.h>

#include "base/base.h"

typedef struct {
    char *bytes; /* free() */
    sf_count_t size, at, capacity;
} SoundMemory;

/* Writes samples[frames * info->channels] as a file of info->format into `memory`. Samples beyond full scale are
 * clipped. The error says what libsndfile refuses, or how much fits into the format. */
bool sound_memory_write(SoundMemory *memory, SF_INFO *info, const float *samples, int64_t frames, Error *error);
