/* The discrete Fourier transform of real signals in the type REAL, for the .c file that includes this behind fft.h
 * (fft.c: float, fft_double.c: double).
 *
 * A real signal of 2 M points is a complex one of M: even points are real parts, odd ones imaginary. Its transform is
 * Stockham's, with radix 4 and, if M is no power of 4, a last pass with radix 2: each pass reads and writes all points
 * in order, and the result needs no reordering. Tables are computed in double precision. */
#include <math.h>

#include "base/base.h"

#if defined __clang__ /* under its sanitizers clang does not vectorise, which is no error */
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

enum { MAX_HALF = FFT_MAX_POINTS / 2 };

static double turn(int of, int n) { return -6.283185307179586 * of / n; }

typedef struct {
    REAL re[MAX_HALF + 1], im[MAX_HALF + 1];
} Points;

/* Roots are exp(-2 pi i j p / n) for each pass of radix 4, over transforms of length n, for j = 1, 2, 3, and for p < n
 * / 4. */
typedef struct {
    int half; /* of the number of points */
    REAL root_re[MAX_HALF], root_im[MAX_HALF];
    REAL turn_re[MAX_HALF + 1], turn_im[MAX_HALF + 1]; /* exp(-2 pi i k / points) */
} Tables;

static void make_tables(Tables *tables, int points) {
    if (points < 4 || points > FFT_MAX_POINTS || (points & (points - 1)))
        die("a Fourier transform of %d points: not a power of two from 4 to %d", points, FFT_MAX_POINTS);
    const int half = tables->half = points / 2;
    int at = 0;
    for (int n = half; n >= 4; n /= 4)
        for (int j = 1; j < 4; j++)
            for (int p = 0; p < n / 4; p++, at++) {
                tables->root_re[at] = (REAL)cos(turn(j * p, n));
                tables->root_im[at] = (REAL)sin(turn(j * p, n));
            }
    for (int k = 0; k <= half; k++) {
        tables->turn_re[k] = (REAL)cos(turn(k, 2 * half));
        tables->turn_im[k] = (REAL)sin(turn(k, 2 * half));
    }
    tables->turn_im[half] = 0; /* pi is not exact */
}

/* Computes four points of a pass from four points that are `apart` from each other, and writes them `stride` apart. */
static inline void butterfly(const REAL *re, const REAL *im, int apart, REAL *to_re, REAL *to_im, int stride,
                             const REAL *w_re, const REAL *w_im, int quarter) {
    REAL sum_re = re[0] + re[2 * apart], sum_im = im[0] + im[2 * apart];
    REAL odd_sum_re = re[apart] + re[3 * apart], odd_sum_im = im[apart] + im[3 * apart];
    REAL change_re = re[0] - re[2 * apart], change_im = im[0] - im[2 * apart];
    REAL odd_change_re = re[apart] - re[3 * apart], odd_change_im = im[apart] - im[3 * apart];
    REAL a_re = change_re + odd_change_im, a_im = change_im - odd_change_re;
    REAL b_re = sum_re - odd_sum_re, b_im = sum_im - odd_sum_im;
    REAL c_re = change_re - odd_change_im, c_im = change_im + odd_change_re;
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
                                                       const REAL *w_re, const REAL *w_im, int quarter,
                                                       const int stride) {
    const REAL *re = from->re, *im = from->im;
    REAL *to_re = to->re, *to_im = to->im;
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

/* Does the last pass where the number of points is no power of four: transforms of length 2. */
static void halve(const Points *restrict from, Points *restrict to, int stride) {
#pragma omp simd
    for (int q = 0; q < stride; q++) {
        to->re[q] = from->re[q] + from->re[q + stride];
        to->im[q] = from->im[q] + from->im[q + stride];
        to->re[q + stride] = from->re[q] - from->re[q + stride];
        to->im[q + stride] = from->im[q] - from->im[q + stride];
    }
}

/* Transforms work[0], and returns which of the two has the result. */
static Points *transform(const Tables *tables, Points work[2]) {
    const REAL *w_re = tables->root_re, *w_im = tables->root_im;
    int at = 0, stride = 1;
    for (int quarter = tables->half / 4; quarter; quarter /= 4, stride *= 4, at = 1 - at) {
        if (stride == 1)
            pass(&work[at], &work[1 - at], w_re, w_im, quarter, 1);
        else if (stride == 4)
            pass(&work[at], &work[1 - at], w_re, w_im, quarter, 4);
        else
            pass(&work[at], &work[1 - at], w_re, w_im, quarter, stride);
        w_re += 3 * quarter, w_im += 3 * quarter;
    }
    if (stride == tables->half) return &work[at];
    halve(&work[at], &work[1 - at], stride);
    return &work[1 - at];
}

/* Computes spectrum[half + 1], real and imaginary parts in turn, of wave[points]. */
static void forward(const Tables *tables, const REAL *wave, REAL *spectrum) {
    const int half = tables->half;
    Points work[2], *z;
    for (int k = 0; k < half; k++) work[0].re[k] = wave[2 * k], work[0].im[k] = wave[2 * k + 1];
    z = transform(tables, work);
    z->re[half] = z->re[0], z->im[half] = z->im[0];
    for (int k = 0; k <= half; k++) {
        int mirror = half - k;
        REAL even_re = (REAL)0.5 * (z->re[k] + z->re[mirror]), even_im = (REAL)0.5 * (z->im[k] - z->im[mirror]);
        REAL odd_re = (REAL)0.5 * (z->im[k] + z->im[mirror]), odd_im = (REAL)0.5 * (z->re[mirror] - z->re[k]);
        spectrum[2 * k] = even_re + odd_re * tables->turn_re[k] - odd_im * tables->turn_im[k];
        spectrum[2 * k + 1] = even_im + odd_re * tables->turn_im[k] + odd_im * tables->turn_re[k];
    }
}
