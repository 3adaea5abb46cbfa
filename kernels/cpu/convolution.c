/* One-dimensional convolutions as windows in rows, and means of sequences: copies and sums, limited by memory. */
#include "kernels/cpu/simd.h"

static void cpu_unfold_forward(Device *device, Tensor y, Tensor x, Window w) {
    int64_t c = x.dims[1], positions = window_positions(w);
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t row = 0; row < y.dims[0]; row++) {
        int64_t first = row % positions * w.stride - w.padding; /* the first tap's row */
        const float *sequence = (const float *)x.data + row / positions * w.length * c;
        float *out = (float *)y.data + row * c * w.taps;
        for (int64_t tap = 0, at = first; tap < w.taps; tap++, at++)
            if (at >= 0 && at < w.length)
                for (int64_t j = 0; j < c; j++) out[j * w.taps + tap] = sequence[at * c + j];
            else
                for (int64_t j = 0; j < c; j++) out[j * w.taps + tap] = 0;
    }
}

static void cpu_unfold_backward(Device *device, Tensor dx, Tensor dy, Window w) {
    int64_t c = dx.dims[1], positions = window_positions(w);
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t row = 0; row < dx.dims[0]; row++) {
        const float *sequence = (const float *)dy.data + row / w.length * positions * c * w.taps;
        float *out = (float *)dx.data + row * c;
        memset(out, 0, (size_t)c * sizeof *out);
        for (int64_t tap = 0; tap < w.taps; tap++) {
            int64_t first = row % w.length + w.padding - tap, position = first / w.stride; /* whose tap sees this row */
            if (first < 0 || first % w.stride || position >= positions) continue;
            const float *in = sequence + position * c * w.taps + tap;
            for (int64_t j = 0; j < c; j++) out[j] += in[j * w.taps];
        }
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
