/* The discrete Fourier transform of real signals. */
#pragma once

#include <complex.h>

enum { FFT_MAX_POINTS = 2048 };

typedef struct Fft Fft;

/* Returns the tables of transforms of so many points, a power of two from 4 to FFT_MAX_POINTS; fft_close. */
Fft *fft_open(int points);
void fft_close(Fft *fft);
/* Computes spectrum[points / 2 + 1]: bin k is the sum of wave[t] exp(-2 pi i k t / points). Safe from several threads.
 */
void fft_forward(const Fft *fft, const float *wave, float complex *spectrum);
/* Computes wave[points], `points` times the signal with this spectrum[points / 2 + 1]. The imaginary parts of the first
 * and the last bin count as 0. Safe from several threads. */
void fft_backward(const Fft *fft, const float complex *spectrum, float *wave);
