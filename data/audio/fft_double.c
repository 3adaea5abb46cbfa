#include "data/audio/fft_double.h"

#include <stdlib.h>

#include "data/audio/fft.h"

#define REAL double
#include "data/audio/fft_passes.h"

struct FftDouble {
    Tables tables;
};

FftDouble *fft_double_open(int points) {
    FftDouble *fft = xmalloc(sizeof *fft);
    make_tables(&fft->tables, points);
    return fft;
}

void fft_double_close(FftDouble *fft) { free(fft); }

void fft_double_forward(const FftDouble *fft, const double *wave, double complex *spectrum) {
    forward(&fft->tables, wave, (double *)spectrum);
}
