#include "data/audio/fft.h"

#include <stdlib.h>

#define REAL float
#include "data/audio/fft_passes.h"

struct Fft {
    Tables tables;
};

Fft *fft_open(int points) {
    Fft *fft = xmalloc(sizeof *fft);
    make_tables(&fft->tables, points);
    return fft;
}

void fft_close(Fft *fft) { free(fft); }

void fft_forward(const Fft *fft, const float *wave, float complex *spectrum) {
    forward(&fft->tables, wave, (float *)spectrum);
}

/* The inverse of a transform is the transform with real and imaginary parts exchanged before and after it. */
void fft_backward(const Fft *fft, const float complex *spectrum, float *wave) {
    const Tables *tables = &fft->tables;
    const int half = tables->half;
    Points work[2]; /* exchanged */
    const float *x = (const float *)spectrum;
    for (int k = 0; k < half; k++) {
        int mirror = half - k;
        float re = x[2 * k], im = k ? x[2 * k + 1] : 0, mirror_re = x[2 * mirror],
              mirror_im = k ? -x[2 * mirror + 1] : 0;
        float change_re = re - mirror_re, change_im = im - mirror_im;
        /* i exp(2 pi i k / points) times the change */
        float odd_re = change_re * tables->turn_im[k] - change_im * tables->turn_re[k],
              odd_im = change_re * tables->turn_re[k] + change_im * tables->turn_im[k];
        work[0].im[k] = re + mirror_re + odd_re;
        work[0].re[k] = im + mirror_im + odd_im;
    }
    const Points *z = transform(tables, work);
    for (int k = 0; k < half; k++) wave[2 * k] = z->im[k], wave[2 * k + 1] = z->re[k];
}
