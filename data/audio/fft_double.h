/* The discrete Fourier transform of real signals in double precision: bins 100 dB below the loudest keep six digits,
 * which in float (fft.h) are noise. */
#pragma once

#include <complex.h>

typedef struct FftDouble FftDouble;

/* Do the same as fft_open, fft_close and fft_forward of fft.h. */
FftDouble *fft_double_open(int points);
void fft_double_close(FftDouble *fft);
void fft_double_forward(const FftDouble *fft, const double *wave, double complex *spectrum);
