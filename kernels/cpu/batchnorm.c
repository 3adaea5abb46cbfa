/* Batch normalisation of columns. With x^ = (x - mean) rstd, and sums over the N rows:
 *   dx = gain rstd (dy - sum(dy) / N - x^ sum(dy x^) / N),  dgain = sum(dy x^),  dbias = sum(dy).
 *
 * Columns are summed as floats over chunks of rows that stay in the L1 cache, chunks as doubles over parts of the rows,
 * then the parts one after the other. The division depends on the number of rows only, so any number of threads gives
 * the same bits. */
#include "kernels/cpu/simd.h"

enum { CHUNK = 64, MAX_PARTS = 128 };

static inline int64_t rows_of_part(int64_t n) {
    int64_t chunks = (n + CHUNK - 1) / CHUNK;
    return (chunks + MAX_PARTS - 1) / MAX_PARTS * CHUNK;
}

/* Adds `rows` rows of `width` columns to the means and sums of squared distances of `before` earlier rows. Distances
 * within a chunk are taken from the chunk's own mean, so that nothing cancels if the mean is large; the sum of the
 * distances corrects that mean. Two groups are combined as in Chan, Golub and LeVeque (1979). */
static inline void add_statistics(double *mean, double *squares, const float *x, int64_t before, int64_t rows,
                                  int64_t width, int64_t c) {
    float center[COLUMNS] = {0}, rest[COLUMNS] = {0}, around[COLUMNS] = {0};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++) center[j] += x[i * c + j];
    for (int64_t j = 0; j < width; j++) center[j] /= (float)rows;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++) {
            float distance = x[i * c + j] - center[j];
            rest[j] += distance;
            around[j] += distance * distance;
        }
    double share = (double)rows / (double)(before + rows);
    for (int64_t j = 0; j < width; j++) {
        double apart = (double)center[j] + (double)rest[j] / (double)rows - mean[j];
        mean[j] += apart * share;
        squares[j] += (double)around[j] + apart * apart * share * (double)before;
    }
}

/* Adds the sums of dy and of dy x^ over `rows` rows of `width` columns. */
static inline void add_gradients(double *sums, double *dots, const float *dy, const float *x, const float *mean,
                                 const float *rstd, int64_t rows, int64_t width, int64_t c) {
    float sum[COLUMNS] = {0}, dot[COLUMNS] = {0};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++) {
            sum[j] += dy[i * c + j];
            dot[j] += dy[i * c + j] * (x[i * c + j] - mean[j]);
        }
    for (int64_t j = 0; j < width; j++) {
        sums[j] += (double)sum[j];
        dots[j] += (double)dot[j] * (double)rstd[j];
    }
}

/* Returns two sums for every part of the rows, [parts, 2, c]: of dy and dy x^, or without dy the means and squared
 * distances. *room is scratch of 2 c floats for the caller. */
static double *sums_of_parts(Device *device, const float *dy, const float *x, const float *mean, const float *rstd,
                             int64_t n, int64_t c, float **room) {
    int64_t part = rows_of_part(n), parts = (n + part - 1) / part;
    double *sums = (void *)cpu_scratch(device, (size_t)(2 * parts * c) * 2 + (size_t)(2 * c));
    *room = (void *)(sums + 2 * parts * c);
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t begin = 0; begin < n; begin += part) {
        double *first = sums + begin / part * 2 * c, *second = first + c;
        int64_t end = n - begin < part ? n : begin + part;
        memset(first, 0, (size_t)(2 * c) * sizeof *first);
        for (int64_t i = begin; i < end; i += CHUNK)
            for (int64_t j = 0; j < c; j += COLUMNS) {
                int64_t rows = end - i < CHUNK ? end - i : CHUNK, width = c - j < COLUMNS ? c - j : COLUMNS;
                const float *in = x + i * c + j, *up = dy ? dy + i * c + j : NULL;
                if (!up && width == COLUMNS) /* a constant width keeps the sums in registers */
                    add_statistics(first + j, second + j, in, i - begin, rows, COLUMNS, c);
                else if (!up)
                    add_statistics(first + j, second + j, in, i - begin, rows, width, c);
                else if (width == COLUMNS)
                    add_gradients(first + j, second + j, up, in, mean + j, rstd + j, rows, COLUMNS, c);
                else
                    add_gradients(first + j, second + j, up, in, mean + j, rstd + j, rows, width, c);
            }
    }
    return sums;
}

/* scale is rstd gain. */
static void normalize_columns(Device *device, Tensor y, Tensor x, const float *mean, const float *scale,
                              const float *bias) {
    int64_t c = x.dims[1];
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < x.dims[0]; i++) {
        const float *in = (const float *)x.data + i * c;
        float *out = (float *)y.data + i * c;
        for (int64_t j = 0; j < c; j++) out[j] = multiply_add(in[j] - mean[j], scale[j], bias[j]);
    }
}

static void cpu_batchnorm_statistics(Device *device, BatchStatistics statistics, Tensor x) {
    int64_t n = x.dims[0], c = x.dims[1], part = rows_of_part(n);
    float *unused;
    double *sums = sums_of_parts(device, NULL, x.data, NULL, NULL, n, c, &unused);
    for (int64_t begin = part; begin < n; begin += part) {
        const double *more = sums + begin / part * 2 * c;
        int64_t rows = n - begin < part ? n - begin : part;
        double share = (double)rows / (double)(begin + rows);
        for (int64_t j = 0; j < c; j++) {
            double apart = more[j] - sums[j];
            sums[j] += apart * share;
            sums[c + j] += more[c + j] + apart * apart * share * (double)begin;
        }
    }
    for (int64_t j = 0; j < c; j++) {
        ((float *)statistics.mean.data)[j] = (float)sums[j];
        ((float *)statistics.rstd.data)[j] = (float)(1 / sqrt(sums[c + j] / (double)n + 1e-5));
    }
    for (int64_t j = 0; j < c && statistics.running_mean.data; j++) {
        float *m = (float *)statistics.running_mean.data + j, *v = (float *)statistics.running_var.data + j;
        *m = (1 - statistics.momentum) * *m + statistics.momentum * (float)sums[j];
        *v = (1 - statistics.momentum) * *v + statistics.momentum * (float)(sums[c + j] / (double)(n - 1));
    }
}

static void cpu_batchnorm_forward(Device *device, Tensor y, BatchStatistics statistics, Tensor x, Tensor gain,
                                  Tensor bias) {
    cpu_batchnorm_statistics(device, statistics, x);
    float *scale = cpu_scratch(device, (size_t)x.dims[1]);
    for (int64_t j = 0; j < x.dims[1]; j++)
        scale[j] = ((const float *)statistics.rstd.data)[j] * ((const float *)gain.data)[j];
    normalize_columns(device, y, x, statistics.mean.data, scale, bias.data);
}

static void cpu_batchnorm_from_running(Device *device, Tensor rstd, Tensor running_var) {
    (void)device;
    for (int64_t j = 0; j < rstd.dims[0]; j++)
        ((float *)rstd.data)[j] = 1.0f / sqrtf(((const float *)running_var.data)[j] + 1e-5f);
}

static void cpu_batchnorm_apply(Device *device, Tensor y, Tensor x, Tensor running_mean, Tensor running_var,
                                Tensor gain, Tensor bias) {
    int64_t c = x.dims[1];
    float *scale = cpu_scratch(device, (size_t)c);
    for (int64_t j = 0; j < c; j++)
        scale[j] = ((const float *)gain.data)[j] / sqrtf(((const float *)running_var.data)[j] + 1e-5f);
    normalize_columns(device, y, x, running_mean.data, scale, bias.data);
}

static void cpu_batchnorm_backward(Device *device, NormGradients to, Tensor dy, Tensor x, Tensor mean, Tensor rstd,
                                   Tensor gain) {
    int64_t n = x.dims[0], c = x.dims[1], part = rows_of_part(n);
    const float *m = mean.data, *r = rstd.data, *g = gain.data;
    float *shift;
    double *sums = sums_of_parts(device, dy.data, x.data, m, r, n, c, &shift);
    for (int64_t begin = part; begin < n; begin += part)
        for (int64_t j = 0; j < 2 * c; j++) sums[j] += sums[begin / part * 2 * c + j];
    for (int64_t j = 0; j < c; j++) {
        ((float *)to.dbias.data)[j] += (float)sums[j];
        ((float *)to.dgain.data)[j] += (float)sums[c + j];
    }
    for (int64_t j = 0; j < 2 * c; j++) shift[j] = (float)(sums[j] / (double)n);
    const float *slope = shift + c;
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const float *up = (const float *)dy.data + i * c, *in = (const float *)x.data + i * c;
        float *out = (float *)to.dx.data + i * c;
        for (int64_t j = 0; j < c; j++) out[j] = g[j] * r[j] * (up[j] - shift[j] - (in[j] - m[j]) * r[j] * slope[j]);
    }
}
