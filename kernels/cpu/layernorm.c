/* Layer normalisation of rows. With x^ = (x - mean) rstd and g = dy gain:
 *   dx = rstd (g - mean(g) - x^ mean(g x^)),  dgain = sum over rows of dy x^,  dbias = sum over rows of dy. */
#include "kernels/cpu/simd.h"

static inline void normalize_row(float *y, float *mean, float *rstd, const float *x, const float *gain,
                                 const float *bias, int64_t c, float epsilon) {
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < c; j++) sum += x[j];
    float m = sum / (float)c;
#pragma omp simd reduction(+ : squares)
    for (int64_t j = 0; j < c; j++) squares += (x[j] - m) * (x[j] - m);
    float r = 1.0f / sqrtf(squares / (float)c + epsilon);
    if (bias)
        for (int64_t j = 0; j < c; j++) y[j] = multiply_add((x[j] - m) * r, gain[j], bias[j]);
    else
        for (int64_t j = 0; j < c; j++) y[j] = (x[j] - m) * r * gain[j];
    *mean = m;
    *rstd = r;
}

static void cpu_layernorm_forward(Device *device, LayerNormOutput to, Tensor x, Tensor gain, Tensor bias,
                                  float epsilon) {
    int64_t c = x.dims[1];
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < x.dims[0]; i++)
        normalize_row((float *)to.y.data + i * c, (float *)to.mean.data + i, (float *)to.rstd.data + i,
                      (const float *)x.data + i * c, gain.data, bias.data, c, epsilon);
}

static void cpu_residual_layernorm_forward(Device *device, Tensor sum, LayerNormOutput to, Tensor x, Tensor branch,
                                           Tensor gain, Tensor bias, Dropout drop) {
    int64_t c = x.dims[1];
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < x.dims[0]; i++) {
        const float *a = (const float *)x.data + i * c, *b = (const float *)branch.data + i * c;
        float *out = (float *)sum.data + i * c,
              *scaled = (float *)to.y.data + i * c; /* y's row temporarily holds the factors */
        if (drop.p > 0) {
            dropout_factors(&drop, (uint64_t)(i * c), c, scaled);
            for (int64_t j = 0; j < c; j++) out[j] = multiply_add(scaled[j], b[j], a[j]);
        } else {
            for (int64_t j = 0; j < c; j++) out[j] = a[j] + b[j];
        }
        normalize_row(scaled, (float *)to.mean.data + i, (float *)to.rstd.data + i, out, gain.data, bias.data, c,
                      LAYERNORM_EPSILON);
    }
}

static void cpu_layernorm_backward(Device *device, NormGradients to, Tensor dresidual, Tensor dy, Tensor x, Tensor mean,
                                   Tensor rstd, Tensor gain) {
    int64_t n = x.dims[0], c = x.dims[1], blocks = (c + COLUMNS - 1) / COLUMNS;
    const float *g = gain.data, *means = mean.data, *rstds = rstd.data;
    /* Computes the gradients of gain and bias first; dx may be dresidual, but never dy or x. */
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
        int64_t at = block * COLUMNS, width = c - at < COLUMNS ? c - at : COLUMNS;
        float gains[COLUMNS] = {0}, biases[COLUMNS] = {0};
        for (int64_t i = 0; i < n; i++) {
            const float *up = (const float *)dy.data + i * c + at, *in = (const float *)x.data + i * c + at;
            float m = means[i], r = rstds[i];
            for (int64_t j = 0; j < width; j++) {
                gains[j] += up[j] * ((in[j] - m) * r);
                biases[j] += up[j];
            }
        }
        for (int64_t j = 0; j < width; j++) ((float *)to.dgain.data)[at + j] += gains[j];
        for (int64_t j = 0; j < width && to.dbias.data; j++) ((float *)to.dbias.data)[at + j] += biases[j];
    }
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const float *up = (const float *)dy.data + i * c, *in = (const float *)x.data + i * c;
        const float *past = dresidual.data ? (const float *)dresidual.data + i * c : NULL;
        float *out = (float *)to.dx.data + i * c, m = means[i], r = rstds[i], sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
        for (int64_t j = 0; j < c; j++) {
            float h = up[j] * g[j];
            sum += h;
            dot += h * ((in[j] - m) * r);
        }
        sum /= (float)c;
        dot /= (float)c;
        if (past)
            for (int64_t j = 0; j < c; j++) out[j] = past[j] + r * (up[j] * g[j] - sum - (in[j] - m) * r * dot);
        else
            for (int64_t j = 0; j < c; j++) out[j] = r * (up[j] * g[j] - sum - (in[j] - m) * r * dot);
    }
}
