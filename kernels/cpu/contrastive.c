/* Contrastive learning: normalises rows to length one, and computes NT-Xent over them.
 *
 * Only CONTRAST_ROWS rows of the scores s[i, j] = z[i] . z[j] / temperature exist at a time, in the thread's scratch.
 * The sum of all losses has ds[i, j] = exp(s[i, j] - lse[i]) - (1 where j is the partner); s is symmetric, so one pass
 * over the scores of row i gives the gradient of all losses that depend on z[i]:
 *   dz[i] = (sum over j != i of (exp(s[i, j] - lse[i]) + exp(s[i, j] - lse[j])) z[j] - 2 z[partner]) / temperature. */
#include "kernels/cpu/simd.h"

static const float SHORTEST = 1e-12f;

static void cpu_normalize_rows_forward(Device *device, Tensor y, Tensor norm, Tensor x) {
    int64_t c = x.dims[1];
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < x.dims[0]; i++) {
        const float *in = (const float *)x.data + i * c;
        float *out = (float *)y.data + i * c, squares = 0;
#pragma omp simd reduction(+ : squares)
        for (int64_t j = 0; j < c; j++) squares += in[j] * in[j];
        float length = sqrtf(squares), factor = 1 / (length < SHORTEST ? SHORTEST : length);
        for (int64_t j = 0; j < c; j++) out[j] = in[j] * factor;
        ((float *)norm.data)[i] = length;
    }
}

static void cpu_normalize_rows_backward(Device *device, Tensor dx, Tensor dy, Tensor y, Tensor norm) {
    int64_t c = dx.dims[1];
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < dx.dims[0]; i++) {
        const float *up = (const float *)dy.data + i * c, *unit = (const float *)y.data + i * c;
        float *out = (float *)dx.data + i * c, length = ((const float *)norm.data)[i], dot = 0;
#pragma omp simd reduction(+ : dot)
        for (int64_t j = 0; j < c; j++) dot += up[j] * unit[j];
        if (length < SHORTEST) dot = 0, length = SHORTEST;
        float factor = 1 / length;
        for (int64_t j = 0; j < c; j++) out[j] = (up[j] - unit[j] * dot) * factor;
    }
}

enum { CONTRAST_ROWS = 64 };

/* Computes the scores s [rows, n] of rows first .. first + rows - 1; a row's score with itself is -infinity. Returns
 * rows. */
static int64_t contrast_scores(float *s, Tensor z, int64_t first, float temperature) {
    int64_t n = z.dims[0], c = z.dims[1], rows = n - first < CONTRAST_ROWS ? n - first : CONTRAST_ROWS;
    const float *all = z.data;
    gemm('N', 'T', rows, n, c, 1 / temperature, all + first * c, c, all, c, 0, s, n);
    for (int64_t r = 0; r < rows; r++) s[r * n + first + r] = -INFINITY;
    return rows;
}

static void cpu_nt_xent_forward(Device *device, Tensor loss, Tensor lse, Tensor z, float temperature) {
    int64_t n = z.dims[0];
    float *scratch = cpu_scratch(device, (size_t)(device->n_threads * CONTRAST_ROWS * n));
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t first = 0; first < n; first += CONTRAST_ROWS) {
        float *s = scratch + omp_get_thread_num() * CONTRAST_ROWS * n;
        int64_t end = first + contrast_scores(s, z, first, temperature);
        for (int64_t i = first; i < end; i++, s += n) {
            float largest = s[0], sum = 0;
#pragma omp simd reduction(max : largest)
            for (int64_t j = 0; j < n; j++) largest = s[j] > largest ? s[j] : largest;
#pragma omp simd reduction(+ : sum)
            for (int64_t j = 0; j < n; j++) sum += exp_approximate(s[j] - largest);
            /* cppcheck-suppress invalidFunctionArg ; the largest adds 1 */
            float total = largest + logf(sum);
            ((float *)lse.data)[i] = total;
            ((float *)loss.data)[i] = total - s[(i + n / 2) % n];
        }
    }
}

static void cpu_nt_xent_backward(Device *device, Tensor dz, Tensor z, Tensor lse, float temperature, Tensor scale_of,
                                 Tensor loss_scale) {
    int64_t n = z.dims[0], c = z.dims[1];
    const float *sums = lse.data;
    float scale = scale_with(scale_of, loss_scale) / temperature;
    float *scratch = cpu_scratch(device, (size_t)(device->n_threads * CONTRAST_ROWS * n));
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t first = 0; first < n; first += CONTRAST_ROWS) {
        float *s = scratch + omp_get_thread_num() * CONTRAST_ROWS * n;
        int64_t rows = contrast_scores(s, z, first, temperature);
        for (int64_t r = 0; r < rows; r++) {
            float *row = s + r * n, sum = sums[first + r];
            for (int64_t j = 0; j < n; j++) row[j] = exp_approximate(row[j] - sum) + exp_approximate(row[j] - sums[j]);
            row[(first + r + n / 2) % n] -= 2;
        }
        gemm('N', 'N', rows, c, n, scale, s, n, z.data, c, 0, (float *)dz.data + first * c, c);
    }
}
