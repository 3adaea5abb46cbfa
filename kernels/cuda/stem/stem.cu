/* Statistics of the temporal stem's first layer, and the gradients from the sums of the blocks: see stem_layers.h. The
 * formulas are derived in kernels/cpu/stem.c.
 *
 * What it takes at least, and what it moves, on an L4 (300 GB/s; 121 TFLOP/s in bf16, 60 in TF32, 30 in f32) for 64
 * samples of 256 x 441 and 32 channels. In bf16 x is 29 MB, y and dy are 231 MB each; in f32 all is twice that.
 *
 *                bytes                                              GFLOP         memory     products
 *   statistics   x                                                    1.6      0.10 ms    0.06 ms (FMAs)
 *   forward      x, y: 260 MB                                        28.7      0.87 ms    0.24 ms
 *   backward     x, dy: 260 MB; 6.6 MB of sums, twice                57.4      0.91 ms    0.47 ms
 *   f32          twice as much                                       87.7      3.7 ms     2.9 ms (FMAs), 1.4 ms in TF32
 *
 * What the backward reads again at the ends of its pieces, an eighth of dy and a third of x, comes from L2. Stored, the
 * first layer's output and its gradient, 462 MB each, would be written and read five times forward and eight times
 * backward: 6 GB, 20 ms. */
#include "kernels/cuda/stem/stem_layers.h"

namespace {

enum { BLOCK = 128, RUN = 32, PAIRS = STEM_WINDOW * (STEM_WINDOW + 1) / 2, MOMENTS = STEM_WINDOW + PAIRS };

/* Numbers 2 k and 2 k + 1 of a window are x of frame t - 3 + k: one access. */
template <class T> GPU_INLINE void load_inputs(float *to, const T *x, int64_t row) {
    Pack<float, 2> numbers = convert<float>(load_pack<2>(x + 2 * row));
    to[0] = numbers[0], to[1] = numbers[1];
}

/* parts f32 [MOMENTS, blocks]: of a block's windows the sums of their numbers, then of the products of numbers i <= j.
 * A thread has a column for RUN frames, whose sums fit into its registers and lose little; with more, doubles go on.
 * Grid: columns / BLOCK x runs. Bytes: x once, and 6 / RUN of it again from the cache; 4 MOMENTS a block. */
template <class T> __global__ void __launch_bounds__(BLOCK) window_moments(float *parts, const T *x, StemShape shape) {
    SHARED(float, scratch, [BLOCK / 32][MOMENTS]);
    int column = blockIdx.x * BLOCK + threadIdx.x;
    int begin = blockIdx.y * RUN, end = min(begin + RUN, shape.frames);
    float sums[MOMENTS] = {}, window[STEM_WINDOW] = {};
    if (column < shape.columns) {
        int64_t row = shape.row(column, shape.frames);
#pragma unroll
        for (int k = 1; k < STEM_TAPS; k++) { /* the first window, one frame early */
            int frame = begin - 1 - STEM_TAPS / 2 + k;
            if (frame >= 0 && frame < shape.frames) load_inputs(window + 2 * k, x, row + (int64_t)frame * shape.plane);
        }
#pragma unroll 1
        for (int t = begin; t < end; t++) {
            int newest = t + STEM_TAPS / 2;
#pragma unroll
            for (int i = 0; i < STEM_WINDOW - 2; i++) window[i] = window[i + 2];
            window[STEM_WINDOW - 2] = window[STEM_WINDOW - 1] = 0.0f;
            if (newest < shape.frames) load_inputs(window + STEM_WINDOW - 2, x, row + (int64_t)newest * shape.plane);
#pragma unroll
            for (int i = 0, at = STEM_WINDOW; i < STEM_WINDOW; i++) {
                sums[i] += window[i];
#pragma unroll
                for (int j = i; j < STEM_WINDOW; j++) sums[at++] += window[i] * window[j];
            }
        }
    }
#pragma unroll
    for (int i = 0; i < MOMENTS; i++) {
        sums[i] = warp_sum(sums[i]);
        if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32][i] = sums[i];
    }
    __syncthreads();
    if (threadIdx.x >= MOMENTS) return;
    float sum = 0;
    for (int warp = 0; warp < BLOCK / 32; warp++) sum += scratch[warp][threadIdx.x];
    parts[(int64_t)threadIdx.x * gridDim.x * gridDim.y + (int64_t)blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

/* totals f64 [MOMENTS]: of all blocks, in a fixed order. Grid: MOMENTS. Bytes: 4 MOMENTS a block. */
__global__ void __launch_bounds__(BLOCK) add_moments(double *totals, const float *parts, int64_t count) {
    SHARED(double, scratch, [32]);
    double sum = 0;
    for (int64_t i = threadIdx.x; i < count; i += BLOCK) sum += (double)parts[blockIdx.x * count + i];
    sum = block_sum_double(sum, scratch);
    if (threadIdx.x == 0) totals[blockIdx.x] = sum;
}

/* Returns the index of the product of numbers i <= j among the totals. */
GPU_INLINE int pair_at(int i, int j) { return STEM_WINDOW + i * STEM_WINDOW - i * (i - 1) / 2 + (j - i); }

/* moments: mu and Sigma; mean = w . mu and variance = w' Sigma w of each channel, all in double: share is 1 / n,
 * because divisions are calls. Grid: 1. */
template <class T>
__global__ void __launch_bounds__(BLOCK)
    finish_statistics(float *mean, float *rstd, double *moments, float *running_mean, float *running_var,
                      const double *totals, StemParams<T> params, StemShape shape, double share, double unbiased,
                      float momentum) {
    SHARED(double, mu, [STEM_WINDOW]);
    SHARED(double, sigma, [STEM_WINDOW][STEM_WINDOW]);
    for (int at = threadIdx.x; at < STEM_WINDOW * STEM_WINDOW; at += BLOCK) {
        int i = at / STEM_WINDOW, j = at % STEM_WINDOW;
        double first = totals[i] * share;
        sigma[i][j] = totals[pair_at(min(i, j), max(i, j))] * share - first * (totals[j] * share);
        moments[STEM_WINDOW + at] = sigma[i][j];
        if (j == 0) moments[i] = mu[i] = first;
    }
    __syncthreads();
    int c = threadIdx.x;
    if (c >= shape.c) return;
    double center = 0, variance = 0;
#pragma unroll 1
    for (int i = 0; i < STEM_WINDOW; i++) {
        double product = 0;
        for (int j = 0; j < STEM_WINDOW; j++) product += sigma[i][j] * (double)params.first(shape, c, j);
        center += mu[i] * (double)params.first(shape, c, i);
        variance += product * (double)params.first(shape, c, i);
    }
    variance = variance > 0 ? variance : 0; /* of a constant, rounding may leave less than nothing */
    mean[c] = (float)center;
    rstd[c] = 1.0f / sqrtf((float)variance + 1e-5f);
    if (!running_mean) return;
    running_mean[c] = (1 - momentum) * running_mean[c] + momentum * (float)center;
    running_var[c] = (1 - momentum) * running_var[c] + momentum * (float)(variance * unbiased);
}

enum { ADD_WARPS = 16 };

/* dw2 += the blocks' sums; of S and D what they have in all is left in totals f64 [c, 16]. A lane has an entry, warp w
 * parts w, w + ADD_WARPS, ... Grid: entries / 32. Bytes: 4 entries a part. */
__global__ void __launch_bounds__(32 * ADD_WARPS)
    add_sums(float *dw2, double *totals, const float *parts, int64_t count, StemShape shape, int entries) {
    SHARED(double, scratch, [ADD_WARPS][32]);
    int at = blockIdx.x * 32 + threadIdx.x % 32, warp = threadIdx.x / 32,
        second = STEM_HALVING_TAPS * shape.c * shape.o;
    double sum = 0;
    for (int64_t part = warp; part < count && at < entries; part += ADD_WARPS)
        sum += (double)parts[part * entries + at];
    scratch[warp][threadIdx.x % 32] = sum;
    __syncthreads();
    if (warp > 0 || at >= entries) return;
    for (int w = 1; w < ADD_WARPS; w++) sum += scratch[w][threadIdx.x];
    if (at >= second) {
        totals[at - second] = sum;
        return;
    }
    int o = at % shape.o, c = at / shape.o % shape.c, tap = at / shape.o / shape.c;
    dw2[(o * shape.c + c) * STEM_HALVING_TAPS + tap] += (float)sum;
}

/* dbias += D, dgain += rstd (w . S - mean D), dw += gain rstd (S - D mu - dgain rstd Sigma w).
 * Grid: c, a lane each weight. */
template <class T>
__global__ void __launch_bounds__(32) finish_backward(float *dw, float *dgain, float *dbias, const double *totals,
                                                      const double *moments, StemParams<T> params, StemShape shape) {
    int c = blockIdx.x, j = threadIdx.x;
    const double *s = totals + c * (STEM_WINDOW + 2), *sigma = moments + STEM_WINDOW;
    double d = s[STEM_WINDOW], rstd = (double)params.rstd[c], dot = 0, spread = 0;
    if (j >= STEM_WINDOW) return;
    for (int i = 0; i < STEM_WINDOW; i++) {
        double weight = (double)params.first(shape, c, i);
        dot += weight * s[i];
        spread += weight * sigma[j * STEM_WINDOW + i];
    }
    double slope = rstd * (dot - (double)params.mean[c] * d);
    dw[c * STEM_WINDOW + j % 2 * STEM_TAPS + j / 2] +=
        (float)((double)params.gain[c] * rstd * (s[j] - d * moments[j] - slope * rstd * spread));
    if (j > 0) return;
    dgain[c] += (float)slope;
    dbias[c] += (float)d;
}

template <class T> StemParams<T> params_of(const StemWeights &s) {
    return {(const T *)s.w.data,        (const T *)s.w2.data,       (const float *)s.mean.data,
            (const float *)s.rstd.data, (const float *)s.gain.data, (const float *)s.bias.data};
}

} // namespace

void cuda_stem_statistics(Device *device, BatchStatistics statistics, Tensor moments, Tensor x, Tensor w, Stem stem) {
    const char *op = "stem_statistics";
    StemShape shape = stem_shape(op, x, w.dims[0], 0, stem);
    dim3 grid(grid_of(op, ceil_div(shape.columns, BLOCK)), (unsigned)ceil_div(shape.frames, RUN));
    int64_t count = (int64_t)grid.x * grid.y;
    double *totals = (double *)cuda_scratch(device, MOMENTS * (sizeof(double) + (size_t)count * sizeof(float)));
    float *parts = (float *)(totals + MOMENTS);
    double n = (double)x.dims[0];
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        cuda_check(gpu_launch(window_moments<T>, grid, BLOCK, 0, cuda_stream(device), parts, (const T *)x.data, shape),
                   op);
        cuda_check(gpu_launch(add_moments, MOMENTS, BLOCK, 0, cuda_stream(device), totals, (const float *)parts, count),
                   op);
        Tensor none = tensor_none();
        cuda_check(gpu_launch(finish_statistics<T>, 1, BLOCK, 0, cuda_stream(device), (float *)statistics.mean.data,
                              (float *)statistics.rstd.data, (double *)moments.data,
                              (float *)statistics.running_mean.data, (float *)statistics.running_var.data,
                              (const double *)totals, params_of<T>({w, none, none, none, none, none}), shape, 1 / n,
                              n / (n - 1), statistics.momentum),
                   op);
    });
}

void cuda_stem_forward(Device *device, Tensor y, Tensor x, StemWeights weights, Stem stem) {
    StemShape shape = stem_shape("stem_forward", x, weights.w.dims[0], y.dims[1], stem);
    if (shape.columns == 0) return;
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        StemLayers<T>::forward(device, (T *)y.data, (const T *)x.data, params_of<T>(weights), shape);
    });
}

void cuda_stem_backward(Device *device, StemGradients gradients, Tensor dy, Tensor x, StemWeights weights,
                        Tensor moments, Stem stem) {
    const char *op = "stem_backward";
    StemShape shape = stem_shape(op, x, weights.w.dims[0], dy.dims[1], stem);
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        StemParams<T> params = params_of<T>(weights);
        double *totals;
        int64_t doubles = (int64_t)shape.c * (STEM_WINDOW + 2), entries = shape.sums;
        int64_t parts =
            StemLayers<T>::backward(device, doubles, &totals, (const T *)dy.data, (const T *)x.data, params, shape);
        cuda_check(gpu_launch(add_sums, grid_of(op, ceil_div(entries, 32)), 32 * ADD_WARPS, 0, cuda_stream(device),
                              (float *)gradients.dw2.data, totals, (const float *)(totals + doubles), parts, shape,
                              (int)entries),
                   op);
        cuda_check(gpu_launch(finish_backward<T>, (unsigned)shape.c, 32, 0, cuda_stream(device),
                              (float *)gradients.dw.data, (float *)gradients.dgain.data, (float *)gradients.dbias.data,
                              (const double *)totals, (const double *)moments.data, params, shape),
                   op);
    });
}
