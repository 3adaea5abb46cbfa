/* Reads sound files (WAV, FLAC, OGG and what else libsndfile reads, of any rate and number of channels) as mono samples
 * at one rate; writes 16-bit WAV files. */
#pragma once

#include "base/base.h"

/* Flags of a file that was read but may be no sound, or not all of it. */
typedef enum { AUDIO_FAINT, AUDIO_UNDECLARED, AUDIO_DOUBTS } AudioDoubt;

typedef struct {
    double loudest;           /* sample of the file, before mixing and resampling */
    int64_t declared, behind; /* bytes of sound that the header declares, and those behind them; 0: none are behind */
} AudioFacts;

typedef struct {
    float *samples; /* [count], full scale is -1 to 1 */
    int64_t count;
    int rate;                         /* samples per second */
    int source_rate, source_channels; /* of the file */
    double clipped; /* share of the samples of the file beyond 0.99 of full scale, before mixing and resampling */
    AudioFacts facts;
    bool convertible; /* after a failure: it is sound, in a format that ffmpeg reads and this libsndfile does not */
} Audio;

/* Reads at most the first `max_seconds` of a file, averages its channels and resamples to `rate` (0: leaves its rate,
 * and sets audio->rate). Sounds that were joined in one file are read one after the other. Refuses a file that cannot
 * be read, was cut off, has no samples, has a sample that is not a number, has the range of integers, or is silent: all
 * zero, or channels that cancel each other.
 */
bool audio_read(const char *path, int rate, double max_seconds, Audio *audio, Error *error);
/* Reads the same of the part of a file that begins at `start` seconds. */
bool audio_read_part(const char *path, int rate, double start, double max_seconds, Audio *audio, Error *error);
void audio_close(Audio *audio);
/* Returns the number of samples that a sound, read at its own rate, has where audio_read resamples it. */
int64_t audio_count_at(const Audio *audio, int rate);
/* Reads how many seconds of sound a file has by its head, without decoding it: of sounds that were joined the first. */
bool audio_seconds(const char *path, double *seconds, Error *error);
/* Returns whether there is this doubt about a file that was read, and says it: "is at the noise floor: ...". */
bool audio_doubt(const AudioFacts *facts, AudioDoubt doubt, Error *words);

/* Writes a mono 16-bit WAV, whole or not at all. Samples beyond full scale are clipped. */
bool audio_write(const char *path, const float *samples, int64_t count, int rate, Error *error);
