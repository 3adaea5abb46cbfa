/* A real signal of 2 M points is a complex one of M: even points are real parts, odd ones imaginary. Its transform is
 * Stockham's, with radix 4: each pass reads and writes all points in order, and the result needs no reordering. Tables
 * are computed in double precision. */
#include "data/audio/fft.h"

#include <math.h>
#include <stdlib.h>

#include "base/base.h"

#if defined __clang__ /* under its sanitizers clang does not vectorise, which is no error */
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

enum { POINTS = FFT_POINTS / 2, ROOTS = POINTS - 1 };

typedef struct {
    float re[POINTS], im[POINTS];
} Points;

/* Roots are exp(-2 pi i j p / n) for each pass, over transforms of length n, for j = 1, 2, 3, and for p < n / 4. */
struct Fft {
    float root_re[ROOTS], root_im[ROOTS];
    float turn_re[FFT_BINS], turn_im[FFT_BINS]; /* exp(-2 pi i k / FFT_POINTS) */
};

static double turn(int of, int n) { return -6.283185307179586 * of / n; }

Fft *fft_open(void) {
    Fft *fft = xmalloc(sizeof *fft);
    int at = 0;
    for (int n = POINTS; n > 1; n /= 4)
        for (int j = 1; j < 4; j++)
            for (int p = 0; p < n / 4; p++, at++) {
                fft->root_re[at] = (float)cos(turn(j * p, n));
                fft->root_im[at] = (float)sin(turn(j * p, n));
            }
    for (int k = 0; k < FFT_BINS; k++) {
        fft->turn_re[k] = (float)cos(turn(k, FFT_POINTS));
        fft->turn_im[k] = (float)sin(turn(k, FFT_POINTS));
    }
    fft->turn_im[POINTS] = 0; /* pi is not exact */
    return fft;
}

void fft_close(Fft *fft) { free(fft); }

/* Computes four points of a pass from four points that are `apart` from each other, and writes them `stride` apart. */
static inline void butterfly(const float *re, const float *im, int apart, float *to_re, float *to_im, int stride,
                             const float *w_re, const float *w_im, int quarter) {
    float sum_re = re[0] + re[2 * apart], sum_im = im[0] + im[2 * apart];
    float odd_sum_re = re[apart] + re[3 * apart], odd_sum_im = im[apart] + im[3 * apart];
    float change_re = re[0] - re[2 * apart], change_im = im[0] - im[2 * apart];
    float odd_change_re = re[apart] - re[3 * apart], odd_change_im = im[apart] - im[3 * apart];
    float a_re = change_re + odd_change_im, a_im = change_im - odd_change_re;
    float b_re = sum_re - odd_sum_re, b_im = sum_im - odd_sum_im;
    float c_re = change_re - odd_change_im, c_im = change_im + odd_change_re;
    to_re[0] = sum_re + odd_sum_re;
    to_im[0] = sum_im + odd_sum_im;
    to_re[stride] = a_re * w_re[0] - a_im * w_im[0];
    to_im[stride] = a_re * w_im[0] + a_im * w_re[0];
    to_re[2 * stride] = b_re * w_re[quarter] - b_im * w_im[quarter];
    to_im[2 * stride] = b_re * w_im[quarter] + b_im * w_re[quarter];
    to_re[3 * stride] = c_re * w_re[2 * quarter] - c_im * w_im[2 * quarter];
    to_im[3 * stride] = c_re * w_im[2 * quarter] + c_im * w_re[2 * quarter];
}

/* Does one pass: `stride` transforms of length 4 * quarter, interleaved, become four times as many of a quarter of it.
 */
static inline __attribute__((always_inline)) void pass(const Points *restrict from, Points *restrict to,
                                                       const float *w_re, const float *w_im, int quarter,
                                                       const int stride) {
    const float *re = from->re, *im = from->im;
    float *to_re = to->re, *to_im = to->im;
    if (stride == 1) {
#pragma omp simd
        for (int p = 0; p < quarter; p++)
            butterfly(re + p, im + p, quarter, to_re + 4 * p, to_im + 4 * p, 1, w_re + p, w_im + p, quarter);
        return;
    }
    for (int p = 0; p < quarter; p++)
#pragma omp simd
        for (int q = 0; q < stride; q++)
            butterfly(re + q + stride * p, im + q + stride * p, stride * quarter, to_re + q + stride * 4 * p,
                      to_im + q + stride * 4 * p, stride, w_re + p, w_im + p, quarter);
}

/* Transforms work[0], and returns which of the two has the result. */
static const Points *transform(const Fft *fft, Points work[2]) {
    const float *w_re = fft->root_re, *w_im = fft->root_im;
    int at = 0;
    for (int quarter = POINTS / 4, stride = 1; quarter; quarter /= 4, stride *= 4, at = 1 - at) {
        if (stride == 1)
            pass(&work[at], &work[1 - at], w_re, w_im, quarter, 1);
        else if (stride == 4)
            pass(&work[at], &work[1 - at], w_re, w_im, quarter, 4);
        else
            pass(&work[at], &work[1 - at], w_re, w_im, quarter, stride);
        w_re += 3 * quarter, w_im += 3 * quarter;
    }
    return &work[at];
}

void fft_forward(const Fft *fft, const float *wave, float complex *spectrum) {
    Points work[2];
    for (int k = 0; k < POINTS; k++) work[0].re[k] = wave[2 * k], work[0].im[k] = wave[2 * k + 1];
    const Points *z = transform(fft, work);
    float *out = (float *)spectrum;
    for (int k = 0; k < FFT_BINS; k++) {
        int one = k % POINTS, two = (POINTS - k) % POINTS;
        float even_re = 0.5f * (z->re[one] + z->re[two]), even_im = 0.5f * (z->im[one] - z->im[two]);
        float odd_re = 0.5f * (z->im[one] + z->im[two]), odd_im = 0.5f * (z->re[two] - z->re[one]);
        out[2 * k] = even_re + odd_re * fft->turn_re[k] - odd_im * fft->turn_im[k];
        out[2 * k + 1] = even_im + odd_re * fft->turn_im[k] + odd_im * fft->turn_re[k];
    }
}

/* The inverse of a transform is the transform with real and imaginary parts exchanged before and after it. */
void fft_backward(const Fft *fft, const float complex *spectrum, float *wave) {
    Points work[2]; /* exchanged */
    const float *x = (const float *)spectrum;
    for (int k = 0; k < POINTS; k++) {
        int mirror = POINTS - k;
        float re = x[2 * k], im = k ? x[2 * k + 1] : 0, mirror_re = x[2 * mirror],
              mirror_im = k ? -x[2 * mirror + 1] : 0;
        float change_re = re - mirror_re, change_im = im - mirror_im;
        /* i exp(2 pi i k / FFT_POINTS) times the change */
        float odd_re = change_re * fft->turn_im[k] - change_im * fft->turn_re[k],
              odd_im = change_re * fft->turn_re[k] + change_im * fft->turn_im[k];
        work[0].im[k] = re + mirror_re + odd_re;
        work[0].re[k] = im + mirror_im + odd_im;
    }
    const Points *z = transform(fft, work);
    for (int k = 0; k < POINTS; k++) wave[2 * k] = z->im[k], wave[2 * k + 1] = z->re[k];
}
