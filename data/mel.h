/* Log-mel frames of speech, 50 a second, and sound from such frames again.
 *
 * 24 kHz, a frame every 480 samples. Frame t looks through a Hann window of 1440 samples (60 ms, three hops: the least
 * for which the squared windows add up to a constant, which the way back needs) around sample 480 t + 240, zero beyond
 * the ends of the clip. The spectrum is scaled so that a sine of amplitude A has the magnitude A; 80 triangles of
 * height 1, equally wide on the mel scale (2595 log10(1 + f / 700)) from 0 to 12 kHz, sum it into bands; a frame holds
 * the natural logarithms of the bands, no less than that of 1e-4 (80 dB below full scale). */
#ifndef DATA_MEL_H
#define DATA_MEL_H

#include "base/base.h"

enum { MEL_RATE = 24000, MEL_HOP = 480, MEL_WINDOW = 1440, MEL_FFT = 2048, MEL_BANDS = 80 };

#define MEL_FLOOR 1e-4f
/* What frames are made by, in words; changes whenever what is computed changes. */
#define MEL_DESCRIPTION "24 kHz, hop 480, Hann 1440, FFT 2048, 80 bands to 12 kHz, log of at least 1e-4"

typedef struct Mel Mel;

Mel *mel_open(void);
void mel_close(Mel *mel);

/* Frames of a clip of so many samples: whole hops only. */
static inline int64_t mel_frame_count(int64_t samples) { return samples / MEL_HOP; }
/* frames[mel_frame_count(n), MEL_BANDS] of samples[n]. Safe from several threads. */
void mel_analyse(const Mel *mel, const float *samples, int64_t n, float *frames);
/* samples[n_frames * MEL_HOP] that sound like the frames: Griffin and Lim's iteration, from phases drawn with `seed`,
 * with the momentum of Perraudin, Balazs and Sondergaard ("A fast Griffin-Lim algorithm", 2013). */
void mel_invert(const Mel *mel, const float *frames, int64_t n_frames, int iterations, uint64_t seed, float *samples);

#endif
