/* Dropout, residual, GELU, tanh, leaky ReLU, SiLU, gates, gather and scatter, sum: one pass each, limited by memory
 * bandwidth. */
#include "kernels/cpu/simd.h"

enum { PIECE = 4096 }; /* elements that a thread takes at once: the dropout factors of a piece stay in the L1 cache */

static void cpu_residual_forward(Device *device, Tensor sum, Tensor x, Tensor branch, Dropout drop) {
    int64_t n = tensor_numel(x), pieces = (n + PIECE - 1) / PIECE;
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t piece = 0; piece < pieces; piece++) {
        int64_t at = piece * PIECE, count = n - at < PIECE ? n - at : PIECE;
        const float *a = (const float *)x.data + at, *b = (const float *)branch.data + at;
        float *out = (float *)sum.data + at, factors[PIECE];
        if (drop.p > 0) {
            dropout_factors(&drop, (uint64_t)at, count, factors);
            for (int64_t i = 0; i < count; i++) out[i] = multiply_add(factors[i], b[i], a[i]);
        } else {
            for (int64_t i = 0; i < count; i++) out[i] = a[i] + b[i];
        }
    }
}

static void cpu_dropout(Device *device, Tensor y, Tensor x, Dropout drop) {
    int64_t n = tensor_numel(x), pieces = (n + PIECE - 1) / PIECE;
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t piece = 0; piece < pieces; piece++) {
        int64_t at = piece * PIECE, count = n - at < PIECE ? n - at : PIECE;
        const float *in = (const float *)x.data + at;
        float *out = (float *)y.data + at, factors[PIECE];
        if (drop.p > 0) {
            dropout_factors(&drop, (uint64_t)at, count, factors);
            for (int64_t i = 0; i < count; i++) out[i] = factors[i] * in[i];
        } else if (out != in) {
            memcpy(out, in, (size_t)count * sizeof(float));
        }
    }
}

/* gelu(x) = x S with S = 0.5 (1 + tanh u) = 1 / (1 + e), e = exp(-2u), u = sqrt(2/pi) (x + 0.044715 x^3); or x Phi(x).
 * The derivatives are S + x S (1 - S) 2u', and Phi(x) + x phi(x). */
static inline float tanh_gelu_exponential(float x) {
    return exp_approximate(-1.59576912f * multiply_add(0.044715f * x * x, x, x));
}

/* y = dropout(gelu(x)). */
static void gelu_then_dropout(Device *device, Tensor y, Tensor x, GeluKind kind, Dropout drop) {
    int64_t n = tensor_numel(x), pieces = (n + PIECE - 1) / PIECE;
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t piece = 0; piece < pieces; piece++) {
        int64_t at = piece * PIECE, count = n - at < PIECE ? n - at : PIECE;
        const float *in = (const float *)x.data + at;
        float *out = (float *)y.data + at, factors[PIECE];
        if (kind == GELU_TANH) {
#pragma omp simd
            for (int64_t i = 0; i < count; i++) out[i] = in[i] / (1.0f + tanh_gelu_exponential(in[i]));
        } else {
#pragma omp simd
            for (int64_t i = 0; i < count; i++) out[i] = in[i] * normal_distribution(in[i]);
        }
        if (drop.p > 0) {
            dropout_factors(&drop, (uint64_t)at, count, factors);
            for (int64_t i = 0; i < count; i++) out[i] *= factors[i];
        }
    }
}

/* dx = dropout(dy gelu'(x)). */
static void gelu_then_dropout_backward(Device *device, Tensor dx, Tensor dy, Tensor x, GeluKind kind, Dropout drop) {
    int64_t n = tensor_numel(x), pieces = (n + PIECE - 1) / PIECE;
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t piece = 0; piece < pieces; piece++) {
        int64_t at = piece * PIECE, count = n - at < PIECE ? n - at : PIECE;
        const float *in = (const float *)x.data + at, *up = (const float *)dy.data + at;
        float *out = (float *)dx.data + at, factors[PIECE];
        if (kind == GELU_TANH) {
#pragma omp simd
            for (int64_t i = 0; i < count; i++) {
                float e = tanh_gelu_exponential(in[i]), s = 1.0f / (1.0f + e);
                float slope = 1.59576912f * multiply_add(3 * 0.044715f * in[i], in[i], 1.0f);
                out[i] = up[i] * multiply_add(in[i] * s * (e * s), slope, s);
            }
        } else {
#pragma omp simd
            for (int64_t i = 0; i < count; i++) {
                float density = 0.398942280f * exp_approximate(-0.5f * in[i] * in[i]);
                out[i] = up[i] * multiply_add(in[i], density, normal_distribution(in[i]));
            }
        }
        if (drop.p > 0) {
            dropout_factors(&drop, (uint64_t)at, count, factors);
            for (int64_t i = 0; i < count; i++) out[i] *= factors[i];
        }
    }
}

static void cpu_gelu_forward(Device *device, Tensor y, Tensor x, GeluKind kind) {
    gelu_then_dropout(device, y, x, kind, (Dropout){0});
}

static void cpu_gelu_backward(Device *device, Tensor dx, Tensor dy, Tensor x, GeluKind kind) {
    gelu_then_dropout_backward(device, dx, dy, x, kind, (Dropout){0});
}

static void cpu_tanh_forward(Device *device, Tensor y, Tensor x) {
    const float *in = x.data;
    float *out = y.data;
#pragma omp parallel for simd num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < tensor_numel(x); i++) out[i] = tanh_approximate(in[i]);
}

/* (1 - y) (1 + y) keeps the digits that 1 - y^2 loses where y is nearly 1. */
static void cpu_tanh_backward(Device *device, Tensor dx, Tensor dy, Tensor y) {
    const float *in = y.data, *up = dy.data;
    float *out = dx.data;
#pragma omp parallel for simd num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < tensor_numel(y); i++) out[i] = up[i] * ((1 - in[i]) * (1 + in[i]));
}

static void cpu_leaky_relu_forward(Device *device, Tensor y, Tensor x, float slope) {
    const float *in = x.data;
    float *out = y.data;
#pragma omp parallel for simd num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < tensor_numel(x); i++) out[i] = in[i] > 0 ? in[i] : slope * in[i];
}

static void cpu_leaky_relu_backward(Device *device, Tensor dx, Tensor dy, Tensor x, float slope) {
    const float *in = x.data, *up = dy.data;
    float *out = dx.data;
#pragma omp parallel for simd num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < tensor_numel(x); i++) out[i] = in[i] > 0 ? up[i] : slope * up[i];
}

static inline float sigmoid(float x) { return 1.0f / (1.0f + exp_approximate(-x)); }

static void cpu_silu_forward(Device *device, Tensor y, Tensor x) {
    const float *in = x.data;
    float *out = y.data;
#pragma omp parallel for simd num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < tensor_numel(x); i++) out[i] = in[i] * sigmoid(in[i]);
}

static void cpu_gate_forward(Device *device, Tensor y, Tensor x, GateKind kind) {
    int64_t c = y.dims[1];
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t row = 0; row < y.dims[0]; row++) {
        const float *a = (const float *)x.data + row * 2 * c, *b = a + c;
        float *out = (float *)y.data + row * c;
        if (kind == GATE_SIGMOID) {
#pragma omp simd
            for (int64_t j = 0; j < c; j++) out[j] = a[j] * sigmoid(b[j]);
        } else {
#pragma omp simd
            for (int64_t j = 0; j < c; j++) out[j] = a[j] * (b[j] * normal_distribution(b[j]));
        }
    }
}

static void cpu_cast(Device *device, Tensor y, Tensor x) {
    (void)device;
    if (y.data != x.data) memcpy(y.data, x.data, tensor_bytes(x));
}

static void cpu_gather_rows(Device *device, Tensor y, Tensor x, Tensor rows) {
    check_indices("gather_rows", "rows", rows, -1, x.dims[0]);
    const int32_t *row = rows.data;
    int64_t c = x.dims[1];
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < rows.dims[0]; i++) {
        float *to = (float *)y.data + i * c;
        if (row[i] < 0)
            memset(to, 0, (size_t)c * sizeof(float));
        else
            memcpy(to, (const float *)x.data + row[i] * c, (size_t)c * sizeof(float));
    }
}

static void cpu_scatter_rows(Device *device, Tensor x, Tensor y, Tensor rows) {
    check_indices("scatter_rows", "rows", rows, -1, x.dims[0]);
    const int32_t *row = rows.data;
    int64_t c = x.dims[1];
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < rows.dims[0]; i++)
        if (row[i] >= 0) memcpy((float *)x.data + row[i] * c, (const float *)y.data + i * c, (size_t)c * sizeof(float));
}

static void cpu_sum_forward(Device *device, Tensor out, Tensor x) {
    (void)device;
    const float *in = x.data;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < x.dims[0]; i++) sum += (double)in[i];
    *(float *)out.data = (float)sum;
}
