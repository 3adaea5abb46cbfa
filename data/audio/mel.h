/* Log-mel frames of speech, 50 per second, and sound from such frames.
 *
 * 24 kHz, a frame every 480 samples. Frame t is computed through a Hann window of 1440 samples around sample 480 t +
 * 240, with zeros beyond the ends of the clip. (60 ms, three hops, is the shortest window whose squares add up to a
 * constant, which the inversion needs.) The spectrum is scaled so that a sine of amplitude A has the magnitude A; 80
 * triangles of height 1, equally wide on the mel scale (2595 log10(1 + f / 700)) from 0 to 12 kHz, sum it into bands; a
 * frame holds the natural logarithms of the bands, no less than that of 1e-4 (80 dB below full scale). */
#pragma once

#include "base/base.h"

enum { MEL_RATE = 24000, MEL_HOP = 480, MEL_WINDOW = 1440, MEL_FFT = 2048, MEL_BANDS = 80 };

#define MEL_FLOOR 1e-4f
/* Describes how frames are computed; must change whenever the computation changes. */
#define MEL_DESCRIPTION "24 kHz, hop 480, Hann 1440, FFT 2048, 80 bands to 12 kHz, log of at least 1e-4"

typedef struct Mel Mel;

Mel *mel_open(void);
void mel_close(Mel *mel);

/* Returns the number of frames of a clip: whole hops only. */
static inline int64_t mel_frame_count(int64_t samples) { return samples / MEL_HOP; }
/* Computes frames[mel_frame_count(n), MEL_BANDS] of samples[n]. Safe from several threads. */
void mel_analyse(const Mel *mel, const float *samples, int64_t n, float *frames);
/* Computes samples[n_frames * MEL_HOP] that sound like the frames, by the Griffin-Lim algorithm from seeded phases,
 * with the momentum of Perraudin, Balazs and Sondergaard ("A fast Griffin-Lim algorithm", 2013). */
void mel_invert(const Mel *mel, const float *frames, int64_t n_frames, int iterations, uint64_t seed, float *samples);
