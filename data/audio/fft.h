/* The discrete Fourier transform of real signals. */
#pragma once

#include <complex.h>

/* FFT_POINTS is two times a power of four. */
enum { FFT_POINTS = 2048, FFT_BINS = FFT_POINTS / 2 + 1 };

typedef struct Fft Fft;

/* Returns the tables of the transform; fft_close. */
Fft *fft_open(void);
void fft_close(Fft *fft);
/* Computes spectrum[FFT_BINS]: bin k is the sum of wave[t] exp(-2 pi i k t / FFT_POINTS). Safe from several threads. */
void fft_forward(const Fft *fft, const float *wave, float complex *spectrum);
/* Computes wave[FFT_POINTS], FFT_POINTS times the signal with this spectrum[FFT_BINS]. The imaginary parts of the first
 * and the last bin count as 0. Safe from several threads. */
void fft_backward(const Fft *fft, const float complex *spectrum, float *wave);
