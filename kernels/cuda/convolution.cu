/* One-dimensional convolutions as windows in rows, maxima of pairs of frames, and means of sequences: copies and sums,
 * limited by memory. */
#include "kernels/cuda/memory.h"

namespace {

enum { BLOCK = 256 };

/* A Window in the form that kernels take, and the number of columns of its rows. */
struct Windows {
    int64_t length, positions, channels;
    int taps, stride, padding;
};

Windows windows_of(Window w, int64_t channels) {
    return {w.length, window_positions(w), channels, w.taps, w.stride, w.padding};
}

/* y [rows, channels, taps] is taken as one run of n numbers, W of them a thread: its stores are packs wherever rows
 * end, its loads lie close to those of its neighbours, which find them in the cache. The numbers past the last whole
 * pack are stored one by one. Grid: n / (BLOCK W). Bytes: x and y once each. */
template <class T, int W> __global__ void __launch_bounds__(BLOCK) unfold(T *y, const T *x, int64_t n, Windows w) {
    int64_t first = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (first >= n) return;
    int64_t width = w.channels * w.taps, row = first / width, sequence = row / w.positions;
    int column = (int)(first - row * width), channel = column / w.taps, tap = column - channel * w.taps;
    int64_t position = row - sequence * w.positions;
    Pack<T, W> out;
#pragma unroll
    for (int i = 0; i < W; i++) {
        int64_t at = position * w.stride - w.padding + tap;
        bool inside = at >= 0 && at < w.length && first + i < n;
        out[i] = inside ? x[(sequence * w.length + at) * w.channels + channel] : from_float<T>(0.0f);
        if (++tap < w.taps) continue;
        tap = 0;
        if (++channel < w.channels) continue;
        channel = 0;
        if (++position < w.positions) continue;
        position = 0, sequence++;
    }
    if (first + W <= n) {
        store_pack(y + first, out);
        return;
    }
#pragma unroll
    for (int i = 0; i < W; i++)
        if (first + i < n) y[first + i] = out[i];
}

/* Adds to W channels of a row of dx, in one thread, the gradients of all windows that contain the row, tap by tap.
 * Grid: rows channels / (BLOCK W). Bytes: dx and dy once each. */
template <class T, int W> __global__ void __launch_bounds__(BLOCK) fold(T *dx, const T *dy, int64_t n, Windows w) {
    int64_t first = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (first >= n) return;
    int64_t row = first / w.channels, channel = first - row * w.channels, sequence = row / w.length;
    int64_t padded = row - sequence * w.length + w.padding;
    Pack<float, W> sum = zeros<W>();
    for (int tap = 0; tap < w.taps; tap++) {
        int64_t begin = padded - tap, position = begin / w.stride; /* of the window whose tap sees the row */
        if (begin < 0 || position * w.stride != begin || position >= w.positions) continue;
        const T *from = dy + ((sequence * w.positions + position) * w.channels + channel) * w.taps + tap;
#pragma unroll
        for (int i = 0; i < W; i++) sum[i] += to_float(from[i * w.taps]);
    }
    store_pack(dx + first, convert<T>(sum));
}

/* Frames of `plane` numbers, two by two: a thread has W numbers of a pair and finds the larger. Without dy it stores
 * them in y, else it stores dy where they lie in dx, and 0 beside them. The odd frame at the end of a sample is a pair
 * that has no second. Grid: pairs plane / (BLOCK W). Bytes: x and y, or x, dy and dx, once each. */
template <class T, int W>
__global__ void __launch_bounds__(BLOCK)
    pool_pairs(T *y, T *dx, const T *dy, const T *x, int64_t n, int64_t frames, int64_t plane) {
    int64_t at = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (at >= n) return;
    int64_t pair = at / plane, each = (frames + 1) / 2, sample = pair / each, t = pair - sample * each;
    int64_t number = at - pair * plane, first = (sample * frames + 2 * t) * plane + number, second = first + plane;
    int64_t pooled = (sample * (frames / 2) + t) * plane + number;
    if (2 * t + 1 == frames) {
        if (dx) store_pack(dx + first, convert<T>(zeros<W>()));
        return;
    }
    Pack<float, W> a = convert<float>(load_pack<W>(x + first)), b = convert<float>(load_pack<W>(x + second));
    Pack<float, W> up = dx ? convert<float>(load_pack<W>(dy + pooled)) : zeros<W>();
#pragma unroll
    for (int i = 0; i < W; i++) {
        bool second = second_wins(a[i], b[i]);
        if (!dx) a[i] = second ? b[i] : a[i];
        if (dx) a[i] = second ? 0.0f : up[i], b[i] = second ? up[i] : 0.0f;
    }
    if (!dx) {
        store_pack(y + pooled, convert<T>(a));
        return;
    }
    store_pack(dx + first, convert<T>(a));
    store_pack(dx + second, convert<T>(b));
}

/* Eight warps share the rows of a sequence, each lane W columns of them; their sums meet in shared memory, in the
 * warps' order. Grid: sequences times columns / (32 W). Bytes: x and y once each. */
template <class T, int W>
__global__ void __launch_bounds__(BLOCK)
    average_rows(T *y, const T *x, int64_t length, int64_t columns, int64_t across) {
    SHARED(float, sums, [BLOCK / 32][32 * W]);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t sequence = blockIdx.x / across, first = (blockIdx.x - sequence * across) * 32 * W;
    int64_t column = first + lane * W;
    Pack<float, W> sum = zeros<W>();
    if (column < columns)
#pragma unroll 4
        for (int64_t row = warp; row < length; row += BLOCK / 32) {
            Pack<float, W> numbers = convert<float>(load_pack<W>(x + (sequence * length + row) * columns + column));
#pragma unroll
            for (int i = 0; i < W; i++) sum[i] += numbers[i];
        }
#pragma unroll
    for (int i = 0; i < W; i++) sums[warp][lane * W + i] = sum[i];
    __syncthreads();
    if (threadIdx.x >= 32 * W || first + threadIdx.x >= columns) return;
    float total = sums[0][threadIdx.x];
    for (int w = 1; w < BLOCK / 32; w++) total += sums[w][threadIdx.x];
    y[sequence * columns + first + threadIdx.x] = from_float<T>(total / (float)length);
}

/* Stores dy / length in every row of a sequence. Grid: rows columns / (BLOCK W). Bytes: dx, and dy from the cache. */
template <class T, int W>
__global__ void __launch_bounds__(BLOCK) spread_rows(T *dx, const T *dy, int64_t n, int64_t length, int64_t columns) {
    int64_t first = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (first >= n) return;
    int64_t row = first / columns, column = first - row * columns;
    Pack<float, W> out = convert<float>(load_pack<W>(dy + row / length * columns + column));
#pragma unroll
    for (int i = 0; i < W; i++) out[i] /= (float)length;
    store_pack(dx + first, convert<T>(out));
}

void launch_pool(Device *device, const char *op, Tensor y, Tensor dx, Tensor dy, Tensor x, int64_t frames,
                 int64_t plane) {
    int64_t numbers = plane * x.dims[1], n = x.dims[0] / (frames * plane) * ((frames + 1) / 2) * numbers;
    if (n == 0) return;
    with_packs(x.dtype, numbers, {y.data, dx.data, dy.data, x.data}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int W = decltype(width)::value;
        cuda_check(gpu_launch(pool_pairs<T, W>, grid_of(op, ceil_div(n, BLOCK * W)), BLOCK, 0, cuda_stream(device),
                              (T *)y.data, (T *)dx.data, (const T *)dy.data, (const T *)x.data, n, frames, numbers),
                   op);
    });
}

} // namespace

void cuda_unfold_forward(Device *device, Tensor y, Tensor x, Window window) {
    int64_t n = tensor_numel(y);
    if (n == 0) return;
    if (y.dims[1] > INT32_MAX) die("unfold_forward: windows of %lld numbers are too large", (long long)y.dims[1]);
    with_packs(x.dtype, 0, {y.data}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int W = decltype(width)::value;
        cuda_check(gpu_launch(unfold<T, W>, grid_of("unfold_forward", ceil_div(n, BLOCK * W)), BLOCK, 0,
                              cuda_stream(device), (T *)y.data, (const T *)x.data, n, windows_of(window, x.dims[1])),
                   "unfold_forward");
    });
}

void cuda_unfold_backward(Device *device, Tensor dx, Tensor dy, Window window) {
    int64_t n = tensor_numel(dx);
    if (n == 0) return;
    with_packs(dx.dtype, dx.dims[1], {dx.data}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int W = decltype(width)::value;
        cuda_check(gpu_launch(fold<T, W>, grid_of("unfold_backward", ceil_div(n, BLOCK * W)), BLOCK, 0,
                              cuda_stream(device), (T *)dx.data, (const T *)dy.data, n, windows_of(window, dx.dims[1])),
                   "unfold_backward");
    });
}

void cuda_max_pool_forward(Device *device, Tensor y, Tensor x, int64_t frames, int64_t plane) {
    launch_pool(device, "max_pool_forward", y, tensor_none(), tensor_none(), x, frames, plane);
}

void cuda_max_pool_backward(Device *device, Tensor dx, Tensor dy, Tensor x, int64_t frames, int64_t plane) {
    launch_pool(device, "max_pool_backward", tensor_none(), dx, dy, x, frames, plane);
}

void cuda_mean_rows_forward(Device *device, Tensor y, Tensor x, int64_t length) {
    int64_t columns = x.dims[1];
    if (tensor_numel(y) == 0) return;
    with_packs(x.dtype, columns, {x.data}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int W = decltype(width)::value;
        int64_t across = ceil_div(columns, 32 * W);
        cuda_check(gpu_launch(average_rows<T, W>, grid_of("mean_rows_forward", y.dims[0] * across), BLOCK, 0,
                              cuda_stream(device), (T *)y.data, (const T *)x.data, length, columns, across),
                   "mean_rows_forward");
    });
}

void cuda_mean_rows_backward(Device *device, Tensor dx, Tensor dy, int64_t length) {
    int64_t n = tensor_numel(dx), columns = dx.dims[1];
    if (n == 0) return;
    with_packs(dx.dtype, columns, {dx.data, dy.data}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int W = decltype(width)::value;
        cuda_check(gpu_launch(spread_rows<T, W>, grid_of("mean_rows_backward", ceil_div(n, BLOCK * W)), BLOCK, 0,
                              cuda_stream(device), (T *)dx.data, (const T *)dy.data, n, length, columns),
                   "mean_rows_backward");
    });
}
