/* Batch normalisation of columns. With x^ = (x - mean) rstd, and sums over the N rows:
 *   dx = gain rstd (dy - sum(dy) / N - x^ sum(dy x^) / N),  dgain = sum(dy x^),  dbias = sum(dy).
 *
 * Forward and backward read the rows twice: once for the sums, once for the result. */
#include "kernels/cuda/batchnorm.h"

namespace {

enum { FINISH_WARPS = 16 };

/* parts f32 [blocks of rows, 2, c]: of a block's rows the mean, less the first row of x, and the sum of squared
 * distances from the mean.
 *
 * A thread moves its mean with every row (Welford, 1962), so that no squares cancel; and because the first row is a
 * fair guess of the mean, numbers far from zero lose no bits to it. The squares around the threads' means become ones
 * around the block's by adding count (mean - that)^2. Grid: columns times blocks of `rows` rows. Bytes: x once; 8 c a
 * block of rows. */
template <class T, int W>
__global__ void __launch_bounds__(BLOCK)
    batch_statistics(float *parts, const T *x, int64_t n, int64_t c, int64_t rows) {
    SHARED(float, scratch, [2][W][BLOCK]);
    Place<W> at(n, rows);
    bool inside = at.column < c;
    Pack<float, W> mean = zeros<W>(), squares = zeros<W>(), sum;
    float count = 0;
    if (inside) {
        Pack<float, W> guess = convert<float>(load_pack<W>(x + at.column));
#pragma unroll 4
        for (int64_t row = at.row; row < at.end; row += blockDim.y) {
            Pack<float, W> numbers = convert<float>(load_pack<W>(x + row * c + at.column));
            float share = 1.0f / (count += 1.0f);
#pragma unroll
            for (int i = 0; i < W; i++) {
                float from_guess = numbers[i] - guess[i], before = from_guess - mean[i];
                mean[i] += before * share;
                squares[i] += before * (from_guess - mean[i]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < W; i++) sum[i] = mean[i] * count;
    sum_over_rows(sum, scratch[0]);
#pragma unroll
    for (int i = 0; i < W; i++) {
        sum[i] /= (float)(at.end - at.begin);
        squares[i] += count * (mean[i] - sum[i]) * (mean[i] - sum[i]);
    }
    sum_over_rows(squares, scratch[1]);
    if (threadIdx.y > 0 || !inside) return;
    store_pack(parts + 2 * blockIdx.y * c + at.column, sum);
    store_pack(parts + (2 * blockIdx.y + 1) * c + at.column, squares);
}

/* parts f32 [blocks of rows, 2, c]: of a block's rows the sums of dy and of dy x^.
 * Grid: columns times blocks of `rows` rows. Bytes: dy and x once; 8 c a block of rows. */
template <class T, int W>
__global__ void __launch_bounds__(BLOCK) gradient_sums(float *parts, const T *dy, const T *x, const float *mean,
                                                       const float *rstd, int64_t n, int64_t c, int64_t rows) {
    SHARED(float, scratch, [2][W][BLOCK]);
    Place<W> at(n, rows);
    bool inside = at.column < c;
    Pack<float, W> sum = zeros<W>(), dot = zeros<W>();
    if (inside) {
        Pack<float, W> center = load_pack<W>(mean + at.column), scale = load_pack<W>(rstd + at.column);
#pragma unroll 4
        for (int64_t row = at.row; row < at.end; row += blockDim.y) {
            Pack<float, W> up = convert<float>(load_pack<W>(dy + row * c + at.column));
            Pack<float, W> in = convert<float>(load_pack<W>(x + row * c + at.column));
#pragma unroll
            for (int i = 0; i < W; i++) {
                sum[i] += up[i];
                dot[i] += up[i] * ((in[i] - center[i]) * scale[i]);
            }
        }
    }
    sum_over_rows(sum, scratch[0]);
    sum_over_rows(dot, scratch[1]);
    if (threadIdx.y > 0 || !inside) return;
    store_pack(parts + 2 * blockIdx.y * c + at.column, sum);
    store_pack(parts + (2 * blockIdx.y + 1) * c + at.column, dot);
}

/* Returns the sum of `sum` over a block's warps, lane by lane, in the warps' order; every warp gets the result. */
GPU_INLINE double sum_over_warps(double sum, double (*scratch)[32]) {
    scratch[threadIdx.x / 32][threadIdx.x % 32] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < FINISH_WARPS; w++) sum += scratch[w][threadIdx.x % 32];
    return sum;
}

/* Combines the statistics of the blocks into those of all rows. The last block may have fewer rows. share is 1 / n:
 * divisions in double are calls. A lane has a column, warp w blocks w, w + FINISH_WARPS, ... Grid: c / 32. Bytes: 16 c
 * a block, mostly from the cache. */
template <class T>
__global__ void __launch_bounds__(32 * FINISH_WARPS)
    finish_statistics(float *mean, float *rstd, float *running_mean, float *running_var, const float *parts, const T *x,
                      int64_t count, int64_t rows, int64_t n, int64_t c, double share, float momentum) {
    SHARED(double, scratch, [2][FINISH_WARPS][32]);
    int64_t column = (int64_t)blockIdx.x * 32 + threadIdx.x % 32, warp = threadIdx.x / 32;
    bool inside = column < c;
    double center = 0, squares = 0;
    for (int64_t part = warp; part < count && inside; part += FINISH_WARPS)
        center += (double)(part < count - 1 ? rows : n - part * rows) * (double)parts[2 * part * c + column];
    center = sum_over_warps(center, scratch[0]) * share;
    for (int64_t part = warp; part < count && inside; part += FINISH_WARPS) {
        double apart = (double)parts[2 * part * c + column] - center;
        squares += (double)parts[(2 * part + 1) * c + column] +
                   (double)(part < count - 1 ? rows : n - part * rows) * apart * apart;
    }
    squares = sum_over_warps(squares, scratch[1]);
    if (warp > 0 || !inside) return;
    center += (double)to_float(x[column]); /* the statistics are of distances from the first row */
    mean[column] = (float)center;
    rstd[column] = 1.0f / sqrtf((float)(squares * share) + 1e-5f);
    if (!running_mean) return;
    running_mean[column] = (1 - momentum) * running_mean[column] + momentum * (float)center;
    running_var[column] = (1 - momentum) * running_var[column] + momentum * ((float)squares / (float)(n - 1));
}

/* The destinations of the sums of g and of g x^, for up to two norms. */
struct Gradients {
    float *means, *dbias[2], *dgain[2];
};

/* See finish_gradients in batchnorm.h. share is 1 / n. Grid: sums c / 32. Bytes: 4 sums c a block. */
__global__ void __launch_bounds__(32 * FINISH_WARPS)
    add_parts(Gradients to, const float *parts, int64_t count, int64_t sums, int64_t c, double share) {
    SHARED(double, scratch, [FINISH_WARPS][32]);
    int64_t column = (int64_t)blockIdx.x * 32 + threadIdx.x % 32, warp = threadIdx.x / 32;
    bool inside = column < sums * c;
    double sum = 0;
    for (int64_t part = warp; part < count && inside; part += FINISH_WARPS)
        sum += (double)parts[sums * part * c + column];
    sum = sum_over_warps(sum, scratch);
    if (warp > 0 || !inside) return;
    to.means[column] = (float)(sum * share);
    for (int norm = 0; norm < 2 && column < c; norm++)
        if (to.dbias[norm]) to.dbias[norm][column] += (float)sum;
    float *dgain = to.dgain[column >= 2 * c];
    if (column >= c && dgain) dgain[column % c] += (float)sum;
}

/* rstd = 1 / sqrt(variance + 1e-5). Grid: c / BLOCK. Bytes: 8 c. */
__global__ void __launch_bounds__(BLOCK) invert_deviations(float *rstd, const float *variance, int64_t c) {
    int64_t column = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (column < c) rstd[column] = 1.0f / sqrtf(variance[column] + 1e-5f);
}

/* y = (x - mean) rstd gain + bias; rstd is that of the batch, or of a variance. y may be x.
 * Grid: columns times blocks of `rows` rows. Bytes: x and y once. */
template <class T, int W>
__global__ void __launch_bounds__(BLOCK)
    normalize(T *y, const T *x, const float *mean, const float *rstd, const float *variance, const float *gain,
              const float *bias, int64_t n, int64_t c, int64_t rows) {
    Place<W> at(n, rows);
    if (at.column >= c) return;
    Pack<float, W> center = load_pack<W>(mean + at.column), scale = load_pack<W>(gain + at.column);
    Pack<float, W> shift = load_pack<W>(bias + at.column), spread = load_pack<W>((rstd ? rstd : variance) + at.column);
#pragma unroll
    for (int i = 0; i < W; i++) scale[i] *= rstd ? spread[i] : 1.0f / sqrtf(spread[i] + 1e-5f);
#pragma unroll 4
    for (int64_t row = at.row; row < at.end; row += blockDim.y) {
        Pack<float, W> out = convert<float>(load_pack<W>(x + row * c + at.column));
#pragma unroll
        for (int i = 0; i < W; i++) out[i] = (out[i] - center[i]) * scale[i] + shift[i];
        store_pack(y + row * c + at.column, convert<T>(out));
    }
}

/* dx, from means f32 [2, c] of dy and of dy x^. dx may be dy.
 * Grid: columns times blocks of `rows` rows. Bytes: dy, x and dx once. */
template <class T, int W>
__global__ void __launch_bounds__(BLOCK)
    input_gradients(T *dx, const T *dy, const T *x, const float *mean, const float *rstd, const float *gain,
                    const float *means, int64_t n, int64_t c, int64_t rows) {
    Place<W> at(n, rows);
    if (at.column >= c) return;
    Pack<float, W> center = load_pack<W>(mean + at.column), scale = load_pack<W>(rstd + at.column);
    Pack<float, W> factor = load_pack<W>(gain + at.column), shift = load_pack<W>(means + at.column);
    Pack<float, W> slope = load_pack<W>(means + c + at.column);
#pragma unroll
    for (int i = 0; i < W; i++) {
        factor[i] *= scale[i];
        slope[i] *= scale[i];
    }
#pragma unroll 2
    for (int64_t row = at.row; row < at.end; row += blockDim.y) {
        Pack<float, W> out = convert<float>(load_pack<W>(dy + row * c + at.column));
        Pack<float, W> in = convert<float>(load_pack<W>(x + row * c + at.column));
#pragma unroll
        for (int i = 0; i < W; i++) out[i] = factor[i] * (out[i] - shift[i] - (in[i] - center[i]) * slope[i]);
        store_pack(dx + row * c + at.column, convert<T>(out));
    }
}

/* mean with either rstd or variance. */
void launch_normalize(Device *device, const char *op, Tensor y, Tensor x, Tensor mean, Tensor rstd, Tensor variance,
                      Tensor gain, Tensor bias) {
    if (tensor_numel(x) == 0) return;
    with_packs(
        x,
        [&](auto zero, auto width) {
            using T = decltype(zero);
            Shares shares = shares_of(device, op, x.dims[0], x.dims[1], width);
            cuda_check(gpu_launch(normalize<T, decltype(width)::value>, shares.grid, shares.block, 0,
                                  cuda_stream(device), (T *)y.data, (const T *)x.data, (const float *)mean.data,
                                  (const float *)rstd.data, (const float *)variance.data, (const float *)gain.data,
                                  (const float *)bias.data, x.dims[0], x.dims[1], shares.rows),
                       op);
        },
        y.data, mean.data, rstd.data, variance.data, gain.data, bias.data);
}

} // namespace

void finish_gradients(Device *device, const char *op, float *means, const Tensor *dgain, const Tensor *dbias,
                      const float *parts, int norms, int64_t blocks, int64_t n, int64_t c) {
    Gradients to = {means, {}, {}};
    for (int i = 0; i < norms; i++) to.dgain[i] = (float *)dgain[i].data, to.dbias[i] = (float *)dbias[i].data;
    cuda_check(gpu_launch(add_parts, grid_of(op, ceil_div((1 + norms) * c, 32)), 32 * FINISH_WARPS, 0,
                          cuda_stream(device), to, parts, blocks, 1 + norms, c, 1.0 / (double)n),
               op);
}

void cuda_batchnorm_statistics(Device *device, BatchStatistics statistics, Tensor x) {
    const char *op = "batchnorm_statistics";
    int64_t n = x.dims[0], c = x.dims[1];
    if (c == 0) return;
    with_packs(x, [&](auto zero, auto width) {
        using T = decltype(zero);
        Shares shares = shares_of(device, op, n, c, width);
        float *parts = (float *)cuda_scratch(device, (size_t)(2 * shares.most * c) * sizeof *parts);
        cuda_check(gpu_launch(batch_statistics<T, decltype(width)::value>, shares.grid, shares.block, 0,
                              cuda_stream(device), parts, (const T *)x.data, n, c, shares.rows),
                   op);
        cuda_check(gpu_launch(finish_statistics<T>, grid_of(op, ceil_div(c, 32)), 32 * FINISH_WARPS, 0,
                              cuda_stream(device), (float *)statistics.mean.data, (float *)statistics.rstd.data,
                              (float *)statistics.running_mean.data, (float *)statistics.running_var.data,
                              (const float *)parts, (const T *)x.data, shares.count, shares.rows, n, c, 1.0 / (double)n,
                              statistics.momentum),
                   op);
    });
}

void cuda_batchnorm_from_running(Device *device, Tensor rstd, Tensor running_var) {
    const char *op = "batchnorm_from_running";
    int64_t c = rstd.dims[0];
    if (c == 0) return;
    cuda_check(gpu_launch(invert_deviations, grid_of(op, ceil_div(c, BLOCK)), BLOCK, 0, cuda_stream(device),
                          (float *)rstd.data, (const float *)running_var.data, c),
               op);
}

void cuda_batchnorm_forward(Device *device, Tensor y, BatchStatistics statistics, Tensor x, Tensor gain, Tensor bias) {
    cuda_batchnorm_statistics(device, statistics, x);
    launch_normalize(device, "batchnorm_forward", y, x, statistics.mean, statistics.rstd, tensor_none(), gain, bias);
}

void cuda_batchnorm_apply(Device *device, Tensor y, Tensor x, Tensor running_mean, Tensor running_var, Tensor gain,
                          Tensor bias) {
    launch_normalize(device, "batchnorm_apply", y, x, running_mean, tensor_none(), running_var, gain, bias);
}

void cuda_batchnorm_backward(Device *device, NormGradients to, Tensor dy, Tensor x, Tensor mean, Tensor rstd,
                             Tensor gain) {
    const char *op = "batchnorm_backward";
    int64_t n = x.dims[0], c = x.dims[1];
    if (c == 0) return;
    with_packs(
        x,
        [&](auto zero, auto width) {
            using T = decltype(zero);
            constexpr int W = decltype(width)::value;
            Shares shares = shares_of(device, op, n, c, W);
            float *means = (float *)cuda_scratch(device, (size_t)(2 * (shares.most + 1) * c) * sizeof *means);
            float *parts = means + 2 * c; /* where packs are used, c is a multiple of them */
            cuda_check(gpu_launch(gradient_sums<T, W>, shares.grid, shares.block, 0, cuda_stream(device), parts,
                                  (const T *)dy.data, (const T *)x.data, (const float *)mean.data,
                                  (const float *)rstd.data, n, c, shares.rows),
                       op);
            finish_gradients(device, op, means, &to.dgain, &to.dbias, parts, 1, shares.count, n, c);
            cuda_check(gpu_launch(input_gradients<T, W>, shares.grid, shares.block, 0, cuda_stream(device),
                                  (T *)to.dx.data, (const T *)dy.data, (const T *)x.data, (const float *)mean.data,
                                  (const float *)rstd.data, (const float *)gain.data, (const float *)means, n, c,
                                  shares.rows),
                       op);
        },
        to.dx.data, dy.data, mean.data, rstd.data, gain.data);
}
