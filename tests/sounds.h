/* Makes sounds for tests, and writes them with libsndfile. */
#pragma once

#include <sndfile.h>

#include "tests/test.h"

/* Writes samples[frames * channels] in libsndfile's `format`. */
void write_sound(const char *path, int format, int rate, int channels, const float *samples, int64_t frames);

/* Returns samples[frames * channels] of a sine, the same in every channel; free(). */
float *make_sine(double hertz, double amplitude, int rate, int channels, int64_t frames);

/* Appends an MP3 of samples[frames] to a file, without the frame in which encoders describe the others: so they write
 * into pipes. compression: from 0, large frames, to 1. Returns false if this libsndfile writes no MP3. */
bool append_bare_mp3(const char *path, int rate, const float *samples, int64_t frames, double compression);

/* Returns samples[frames] that resemble speech: twelve harmonics whose pitch, loudness and formant vary, with a little
 * noise, in syllables of a quarter of a second; free(). */
float *make_babble(uint64_t seed, int rate, int64_t frames);
