/* Windows of one-dimensional convolutions as rows, maxima of pairs of frames, and means of sequences. All are copies
 * and sums, limited by memory bandwidth. */
#include "kernels/cpu/simd.h"

/* to[j taps] = from[j], and to[j] += from[j taps]. */
static inline void put_tap(float *to, const float *from, int64_t taps, int64_t c) {
    for (int64_t j = 0; j < c; j++) to[j * taps] = from[j];
}
static inline void add_tap(float *to, const float *from, int64_t taps, int64_t c) {
    for (int64_t j = 0; j < c; j++) to[j] += from[j * taps];
}

/* Three taps side by side, which the compiler vectorises. */
static inline void put_three_taps(float *to, const float *a, const float *b, const float *d, int64_t c) {
#pragma omp simd
    for (int64_t j = 0; j < c; j++) {
        to[3 * j] = a[j];
        to[3 * j + 1] = b[j];
        to[3 * j + 2] = d[j];
    }
}

static inline const float *row_or_zeros(const float *sequence, int64_t at, int64_t length, int64_t c,
                                        const float *zeros) {
    return at >= 0 && at < length ? sequence + at * c : zeros;
}

static void cpu_unfold_forward(Device *device, Tensor y, Tensor x, Window w) {
    int64_t c = x.dims[1], positions = window_positions(w);
    float *zeros = cpu_scratch(device, (size_t)c); /* a row of the padding */
    memset(zeros, 0, (size_t)c * sizeof *zeros);
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t row = 0; row < y.dims[0]; row++) {
        int64_t first = row % positions * w.stride - w.padding; /* what the first tap sees */
        const float *sequence = (const float *)x.data + row / positions * w.length * c;
        float *to = (float *)y.data + row * c * w.taps;
        if (w.taps == 1)
            put_tap(to, row_or_zeros(sequence, first, w.length, c, zeros), 1, c);
        else if (w.taps == 3)
            put_three_taps(to, row_or_zeros(sequence, first, w.length, c, zeros),
                           row_or_zeros(sequence, first + 1, w.length, c, zeros),
                           row_or_zeros(sequence, first + 2, w.length, c, zeros), c);
        else
            for (int64_t tap = 0; tap < w.taps; tap++)
                put_tap(to + tap, row_or_zeros(sequence, first + tap, w.length, c, zeros), w.taps, c);
    }
}

static void cpu_unfold_backward(Device *device, Tensor dx, Tensor dy, Window w) {
    int64_t c = dx.dims[1], positions = window_positions(w);
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t row = 0; row < dx.dims[0]; row++) {
        const float *sequence = (const float *)dy.data + row / w.length * positions * c * w.taps;
        float *to = (float *)dx.data + row * c;
        memset(to, 0, (size_t)c * sizeof *to);
        for (int64_t tap = 0; tap < w.taps; tap++) {
            int64_t first = row % w.length + w.padding - tap, position = first / w.stride; /* of the window whose tap
                                                                                            * sees this row */
            if (first < 0 || first % w.stride || position >= positions) continue;
            const float *from = sequence + position * c * w.taps + tap;
            if (w.taps == 1)
                add_tap(to, from, 1, c);
            else if (w.taps == 3)
                add_tap(to, from, 3, c);
            else
                add_tap(to, from, w.taps, c);
        }
    }
}

/* Returns whether the second of a pair is the maximum: false if both are equal, true if b is NaN. */
static inline bool second_wins(float a, float b) { return !(b <= a) && a == a; }

/* Frames are numbered over all samples, with an odd frame at the end of a sample; each has n numbers. */
static void cpu_max_pool_forward(Device *device, Tensor y, Tensor x, int64_t frames, int64_t plane) {
    int64_t n = plane * x.dims[1], pairs = frames / 2, count = y.dims[0] / plane;
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t pair = 0; pair < count; pair++) {
        const float *a = (const float *)x.data + (pair / pairs * frames + pair % pairs * 2) * n, *b = a + n;
        float *out = (float *)y.data + pair * n;
        for (int64_t i = 0; i < n; i++) out[i] = second_wins(a[i], b[i]) ? b[i] : a[i];
    }
}

static void cpu_max_pool_backward(Device *device, Tensor dx, Tensor dy, Tensor x, int64_t frames, int64_t plane) {
    int64_t n = plane * x.dims[1], pairs = frames / 2, count = x.dims[0] / plane;
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t frame = 0; frame < count; frame++) {
        int64_t sample = frame / frames, t = frame % frames;
        float *out = (float *)dx.data + frame * n;
        if (t == 2 * pairs) { /* an odd frame without a partner */
            memset(out, 0, (size_t)n * sizeof *out);
            continue;
        }
        const float *a = (const float *)x.data + (frame - t % 2) * n, *b = a + n;
        const float *up = (const float *)dy.data + (sample * pairs + t / 2) * n;
        for (int64_t i = 0; i < n; i++) out[i] = second_wins(a[i], b[i]) == (t % 2 == 1) ? up[i] : 0;
    }
}

static void cpu_mean_rows_forward(Device *device, Tensor y, Tensor x, int64_t length) {
    int64_t c = x.dims[1];
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t s = 0; s < y.dims[0]; s++)
        for (int64_t at = 0; at < c; at += COLUMNS) {
            int64_t width = c - at < COLUMNS ? c - at : COLUMNS;
            const float *in = (const float *)x.data + s * length * c + at;
            double sums[COLUMNS] = {0};
            for (int64_t i = 0; i < length; i++)
                for (int64_t j = 0; j < width; j++) sums[j] += (double)in[i * c + j];
            for (int64_t j = 0; j < width; j++) ((float *)y.data)[s * c + at + j] = (float)(sums[j] / (double)length);
        }
}

static void cpu_mean_rows_backward(Device *device, Tensor dx, Tensor dy, int64_t length) {
    int64_t c = dx.dims[1];
    float share = 1.0f / (float)length;
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t row = 0; row < dx.dims[0]; row++) {
        const float *in = (const float *)dy.data + row / length * c;
        float *out = (float *)dx.data + row * c;
        for (int64_t j = 0; j < c; j++) out[j] = in[j] * share;
    }
}
