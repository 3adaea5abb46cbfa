/* Sound files: WAV, FLAC, OGG and whatever else libsndfile reads, of any rate and number of channels, as mono samples
 * at one rate; and 16-bit WAV files. */
#ifndef DATA_AUDIO_H
#define DATA_AUDIO_H

#include "base/base.h"

typedef struct {
    float *samples; /* [count], full scale is -1 to 1 */
    int64_t count;
    int rate;                         /* samples a second */
    int source_rate, source_channels; /* of the file */
    double clipped; /* share of the file's samples beyond 0.99 of full scale, before mixing and resampling */
} Audio;

/* Reads at most the first `most_seconds` of a file, averages its channels and resamples to `rate`. An error if it
 * cannot be read, was cut off, holds no samples, a sample that is no number, or nothing but silence (all zero). */
bool audio_read(const char *path, int rate, double most_seconds, Audio *audio, Error *error);
void audio_close(Audio *audio);

/* Writes a mono 16-bit WAV, whole or not at all. What is beyond full scale is cut off there. */
bool audio_write(const char *path, const float *samples, int64_t count, int rate, Error *error);

#endif
