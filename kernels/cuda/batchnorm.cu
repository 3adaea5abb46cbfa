/* Batch normalisation of columns. With x^ = (x - mean) rstd, and sums over the N rows:
 *   dx = gain rstd (dy - sum(dy) / N - x^ sum(dy x^) / N),  dgain = sum(dy x^),  dbias = sum(dy).
 *
 * Forward and backward read the rows twice: once for the sums, once to make of them what is asked for. In both a block
 * has a share of the rows and of the columns; its threads lie side by side along a row, a pack of columns each, and
 * under each other over the rows, so that a thread keeps what belongs to its columns in registers. A block leaves the
 * sums of its rows in scratch memory, and one more kernel adds those of all blocks, in double: the order is always the
 * same. */
#include "kernels/cuda/memory.h"

namespace {

enum { BLOCK = 256, ACROSS = 32, FINISH_WARPS = 16 };
constexpr int64_t MAX_PARTS = 1024;

/* A thread's place: its columns, and its rows from `row` to `end` in steps of blockDim.y. */
template <int W> struct Place {
    int64_t column, begin, row, end;
    GPU_INLINE Place(int64_t n, int64_t rows) {
        column = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * W;
        begin = blockIdx.y * rows;
        row = begin + threadIdx.y;
        end = begin + rows < n ? begin + rows : n;
    }
};

/* Sums over the threads that have the same columns, neighbours first, in a tree; every one gets them. */
template <int W> GPU_INLINE void sum_over_rows(Pack<float, W> &sum, float (*scratch)[BLOCK]) {
    int at = threadIdx.y * blockDim.x + threadIdx.x, count = blockDim.y, half;
#pragma unroll
    for (int i = 0; i < W; i++) scratch[i][at] = sum[i];
    for (; count > 1; count = half) {
        half = (count + 1) / 2;
        __syncthreads();
        if ((int)threadIdx.y + half >= count) continue;
#pragma unroll
        for (int i = 0; i < W; i++) scratch[i][at] = sum[i] += scratch[i][at + half * blockDim.x];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < W; i++) sum[i] = scratch[i][threadIdx.x];
}

/* parts f32 [blocks of rows, 2, c]: of a block's rows the mean, less the first row of x, and the sum of squared
 * distances from the mean.
 *
 * A thread moves its mean with every row (Welford, 1962), so that no squares cancel; and because the first row is a
 * fair guess of the mean, numbers far from zero lose no bits to it. The squares around the threads' means become ones
 * around the block's by adding count (mean - that)^2. Grid: columns times blocks of `rows` rows. Bytes: x once; 8 c a
 * block of rows. */
template <class T, int W>
__global__ void __launch_bounds__(BLOCK) statistics(float *parts, const T *x, int64_t n, int64_t c, int64_t rows) {
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

/* The sum over a block's warps of what each lane has, in the warps' order; every warp gets it. */
GPU_INLINE double sum_over_warps(double sum, double (*scratch)[32]) {
    scratch[threadIdx.x / 32][threadIdx.x % 32] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < FINISH_WARPS; w++) sum += scratch[w][threadIdx.x % 32];
    return sum;
}

/* The statistics of all rows from those of the blocks, the last of which may have fewer rows. share is 1 / n: divisions
 * in double are calls. A lane has a column, warp w blocks w, w + FINISH_WARPS, ... Grid: c / 32. Bytes: 16 c a block,
 * mostly from the cache. */
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

/* dbias += and dgain += the blocks' sums, which times share, 1 / n, are also left in means f32 [2, c].
 * Grid: 2 c / 32. Bytes: 8 c a block. */
__global__ void __launch_bounds__(32 * FINISH_WARPS)
    finish_gradients(float *means, float *dgain, float *dbias, const float *parts, int64_t count, int64_t c,
                     double share) {
    SHARED(double, scratch, [FINISH_WARPS][32]);
    int64_t column = (int64_t)blockIdx.x * 32 + threadIdx.x % 32, warp = threadIdx.x / 32;
    bool inside = column < 2 * c;
    double sum = 0;
    for (int64_t part = warp; part < count && inside; part += FINISH_WARPS) sum += (double)parts[2 * part * c + column];
    sum = sum_over_warps(sum, scratch);
    if (warp > 0 || !inside) return;
    means[column] = (float)(sum * share);
    if (column < c)
        dbias[column] += (float)sum;
    else
        dgain[column - c] += (float)sum;
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

/* Blocks of threads, and how the rows and columns are divided among them: enough blocks to keep the card busy, each
 * with at least eight rows a thread, where there are so many. */
struct Shares {
    dim3 grid, block;
    int64_t rows, count; /* rows of a block; blocks of rows */
};

Shares shares_of(const Device *device, const char *op, int64_t n, int64_t c, int w) {
    Shares shares;
    int64_t packs = ceil_div(c, w), across = ceil_div(packs, ACROSS), wide = ceil_div(packs, across),
            tall = BLOCK / wide;
    int64_t wanted = ceil_div(8 * cuda_state(device)->n_multiprocessors, across), most = ceil_div(n, 8 * tall);
    int64_t count = wanted < most ? wanted : most;
    shares.rows = ceil_div(n, count < MAX_PARTS ? count : MAX_PARTS);
    shares.count = ceil_div(n, shares.rows);
    shares.grid = dim3(grid_of(op, across), (unsigned)shares.count);
    shares.block = dim3((unsigned)wide, (unsigned)tall);
    return shares;
}

/* Calls f(T(), width, shares) for x's type and the width of packs that it and the arrays of columns allow. */
template <class F, class... Arrays>
void with_shares(Device *device, const char *op, Tensor x, F f, const Arrays *...arrays) {
    with_type(x.dtype, [&](auto zero) {
        constexpr int WIDTH = 16 / sizeof(zero);
        with_width<WIDTH>(packs_fit(WIDTH, x.dims[1], x.data, arrays...), [&](auto width) {
            f(zero, width, shares_of(device, op, x.dims[0], x.dims[1], decltype(width)::value));
        });
    });
}

/* mean with either rstd or variance. */
void launch_normalize(Device *device, const char *op, Tensor y, Tensor x, Tensor mean, Tensor rstd, Tensor variance,
                      Tensor gain, Tensor bias) {
    if (tensor_numel(x) == 0) return;
    with_shares(
        device, op, x,
        [&](auto zero, auto width, Shares shares) {
            using T = decltype(zero);
            cuda_check(gpu_launch(normalize<T, decltype(width)::value>, shares.grid, shares.block, 0,
                                  cuda_stream(device), (T *)y.data, (const T *)x.data, (const float *)mean.data,
                                  (const float *)rstd.data, (const float *)variance.data, (const float *)gain.data,
                                  (const float *)bias.data, x.dims[0], x.dims[1], shares.rows),
                       op);
        },
        y.data, mean.data, rstd.data, variance.data, gain.data, bias.data);
}

} // namespace

void cuda_batchnorm_forward(Device *device, Tensor y, Tensor mean, Tensor rstd, Tensor running_mean, Tensor running_var,
                            Tensor x, Tensor gain, Tensor bias, float momentum) {
    const char *op = "batchnorm_forward";
    int64_t n = x.dims[0], c = x.dims[1];
    if (c == 0) return;
    with_shares(device, op, x, [&](auto zero, auto width, Shares shares) {
        using T = decltype(zero);
        float *parts = (float *)cuda_scratch(device, (size_t)(2 * shares.count * c) * sizeof *parts);
        cuda_check(gpu_launch(statistics<T, decltype(width)::value>, shares.grid, shares.block, 0, cuda_stream(device),
                              parts, (const T *)x.data, n, c, shares.rows),
                   op);
        cuda_check(gpu_launch(finish_statistics<T>, grid_of(op, ceil_div(c, 32)), 32 * FINISH_WARPS, 0,
                              cuda_stream(device), (float *)mean.data, (float *)rstd.data, (float *)running_mean.data,
                              (float *)running_var.data, (const float *)parts, (const T *)x.data, shares.count,
                              shares.rows, n, c, 1.0 / (double)n, momentum),
                   op);
    });
    launch_normalize(device, op, y, x, mean, rstd, tensor_none(), gain, bias);
}

void cuda_batchnorm_apply(Device *device, Tensor y, Tensor x, Tensor running_mean, Tensor running_var, Tensor gain,
                          Tensor bias) {
    launch_normalize(device, "batchnorm_apply", y, x, running_mean, tensor_none(), running_var, gain, bias);
}

void cuda_batchnorm_backward(Device *device, Tensor dx, Tensor dgain, Tensor dbias, Tensor dy, Tensor x, Tensor mean,
                             Tensor rstd, Tensor gain) {
    const char *op = "batchnorm_backward";
    int64_t n = x.dims[0], c = x.dims[1];
    if (c == 0) return;
    with_shares(
        device, op, x,
        [&](auto zero, auto width, Shares shares) {
            using T = decltype(zero);
            constexpr int W = decltype(width)::value;
            float *means = (float *)cuda_scratch(device, (size_t)(2 * (shares.count + 1) * c) * sizeof *means);
            float *parts = means + 2 * c; /* where packs are used, c is a multiple of them */
            cuda_check(gpu_launch(gradient_sums<T, W>, shares.grid, shares.block, 0, cuda_stream(device), parts,
                                  (const T *)dy.data, (const T *)x.data, (const float *)mean.data,
                                  (const float *)rstd.data, n, c, shares.rows),
                       op);
            cuda_check(gpu_launch(finish_gradients, grid_of(op, ceil_div(2 * c, 32)), 32 * FINISH_WARPS, 0,
                                  cuda_stream(device), means, (float *)dgain.data, (float *)dbias.data,
                                  (const float *)parts, shares.count, c, 1.0 / (double)n),
                       op);
            cuda_check(gpu_launch(input_gradients<T, W>, shares.grid, shares.block, 0, cuda_stream(device),
                                  (T *)dx.data, (const T *)dy.data, (const T *)x.data, (const float *)mean.data,
                                  (const float *)rstd.data, (const float *)gain.data, (const float *)means, n, c,
                                  shares.rows),
                       op);
        },
        dx.data, dy.data, mean.data, rstd.data, gain.data);
}
