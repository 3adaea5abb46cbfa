/* Linear layers: GEMMs by oneDNN, and the bias. The GEMM is the floor: 2 N in out FLOPs forward, twice that backward.
 */
#ifndef KERNELS_CPU_LINEAR_H
#define KERNELS_CPU_LINEAR_H

#include "kernels/cpu/simd.h"

static void cpu_linear_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, WeightLayout layout) {
    (void)device;
    int64_t n = x.dims[0], in = x.dims[1], out = y.dims[1];
    if (bias.data) { /* y starts as the bias, and the GEMM adds to it */
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < n; i++) memcpy((float *)y.data + i * out, bias.data, (size_t)out * sizeof(float));
    }
    gemm('N', layout == WEIGHT_IN_OUT ? 'N' : 'T', n, out, in, 1, x.data, in, w.data,
         layout == WEIGHT_IN_OUT ? out : in, bias.data ? 1.0f : 0.0f, y.data, out);
}

static void cpu_linear_backward(Device *device, Tensor dx, Tensor dw, Tensor dbias, Tensor dy, Tensor x, Tensor w,
                                WeightLayout layout) {
    (void)device;
    int64_t n = x.dims[0], in = x.dims[1], out = dy.dims[1];
    if (dx.data)
        gemm('N', layout == WEIGHT_IN_OUT ? 'T' : 'N', n, in, out, 1, dy.data, out, w.data,
             layout == WEIGHT_IN_OUT ? out : in, 0, dx.data, in);
    if (layout == WEIGHT_IN_OUT)
        gemm('T', 'N', in, out, n, 1, x.data, in, dy.data, out, 1, dw.data, out);
    else
        gemm('T', 'N', out, in, n, 1, dy.data, out, x.data, in, 1, dw.data, in);
    if (!dbias.data) return;
    int64_t blocks = (out + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
        int64_t at = block * COLUMNS, width = out - at < COLUMNS ? out - at : COLUMNS;
        float sums[COLUMNS] = {0};
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < width; j++) sums[j] += ((const float *)dy.data)[i * out + at + j];
        for (int64_t j = 0; j < width; j++) ((float *)dbias.data)[at + j] += sums[j];
    }
}

#endif
