/* Reads sound files (WAV, FLAC, OGG and what else libsndfile reads, of any rate and number of channels) as mono samples
 * at one rate; writes 16-bit WAV files. */
#ifndef DATA_AUDIO_AUDIO_H
#define DATA_AUDIO_AUDIO_H

#include "base/base.h"

typedef struct {
    float *samples; /* [count], full scale is -1 to 1 */
    int64_t count;
    int rate;                         /* samples per second */
    int source_rate, source_channels; /* of the file */
    double clipped;   /* share of the samples of the file beyond 0.99 of full scale, before mixing and resampling */
    bool convertible; /* after a failure: it is sound, in a format that ffmpeg reads and this libsndfile does not */
} Audio;

/* Reads at most the first `max_seconds` of a file, averages its channels and resamples to `rate`. Refuses a file that
 * cannot be read, was cut off, has no samples, has a sample that is not a number, or is silent (all zero). */
bool audio_read(const char *path, int rate, double max_seconds, Audio *audio, Error *error);
/* Reads the same of the part of a file that begins at `start` seconds. */
bool audio_read_part(const char *path, int rate, double start, double max_seconds, Audio *audio, Error *error);
void audio_close(Audio *audio);

/* Writes a mono 16-bit WAV, whole or not at all. Samples beyond full scale are clipped. */
bool audio_write(const char *path, const float *samples, int64_t count, int rate, Error *error);

#endif
