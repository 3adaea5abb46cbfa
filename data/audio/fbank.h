/* Log-mel frames of speech as Kaldi computes them, 100 per second, which pretrained networks for speech expect.
 *
 * 16 kHz, a frame of 400 samples every 160, whole frames only. Of each frame, times `scale`: minus its mean, then
 * pre-emphasis x[i] - 0.97 x[i - 1] inside the frame (of the first sample 0.03 remain), then the window
 * (0.5 - 0.5 cos(2 pi i / 399))^0.85 of Povey; the power of the 257 bins of 512 points is summed by 80 triangles of
 * height 1, straight and equally wide on the mel scale (1127 ln(1 + f / 700)) from 20 Hz to 8 kHz; natural logarithms
 * of no less than FBANK_FLOOR. In double precision, so that a band far below the loudest one is exact, too. */
#pragma once

#include "base/base.h"

enum { FBANK_RATE = 16000, FBANK_WINDOW = 400, FBANK_HOP = 160, FBANK_FFT = 512, FBANK_BANDS = 80 };
enum { FBANK_BINS = FBANK_FFT / 2 + 1 };

#define FBANK_FLOOR 1.192092955078125e-07

typedef struct Fbank Fbank;

/* Makes the tables. scale: of the samples, whose full scale is 1: networks expect 32768 or 1, and the floor is an
 * absolute number. fbank_close. */
Fbank *fbank_open(double scale);
void fbank_close(Fbank *fbank);
/* Return elements of the tables: the window at sample i < FBANK_WINDOW, the weight of a bin in a band. */
double fbank_window(const Fbank *fbank, int i);
double fbank_weight(const Fbank *fbank, int bin, int band);

/* Returns the number of frames of a clip. */
static inline int64_t fbank_frame_count(int64_t samples) {
    return samples < FBANK_WINDOW ? 0 : 1 + (samples - FBANK_WINDOW) / FBANK_HOP;
}
/* Computes frames[fbank_frame_count(n), FBANK_BANDS] of samples[n]. Safe from several threads. */
void fbank_analyse(const Fbank *fbank, const float *samples, int64_t n, float *frames);
/* Subtracts from each band of frames[n, FBANK_BANDS] its mean over the frames. deviations: and divides by the square
 * root of its unbiased variance + 1e-7; then n is at least 2. */
void fbank_normalise(float *frames, int64_t n, bool deviations);
