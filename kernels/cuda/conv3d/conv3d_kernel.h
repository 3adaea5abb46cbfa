/* Three-dimensional convolutions as matrix products whose left side is never stored ("implicit GEMM"): a row of it is a
 * window of x, taps times channels numbers, and what brings its tiles into shared memory finds each chunk of channels
 * where it lies in x. Tiles, rings of stages and products are those of gemm_kernel.h.
 *
 *   forward    y  [positions, O]   = windows of x  [positions, taps C]  times w  [taps C, O]
 *   data       dx [positions, C]   = windows of dy [positions, taps O]  times w' [taps O, C], the taps turned around
 *   weights    dw [taps C, O]     += windows of x, transposed           times dy [positions, O]
 *
 * With a stride, a position of x is seen by every stride-th tap of an axis only, and which ones depends on the
 * position's remainder by the stride. So the data's gradient is one product for each combination of remainders, each
 * with its own positions and taps, and none multiplies by zeros that a stride would put between rows of dy.
 *
 * Weights come in torch's order, [O, C, taps]; a copy with the channels innermost, some 100,000 numbers, is made for
 * each call, and dw is put back into it. The sum over positions, which is long, is shared among blocks; their parts are
 * added in their order: the same bits every time.
 *
 * FLOPs: 2 positions taps C O for each of the three, those of padding included. Bytes from memory, at least: x and y
 * once. So no product of these shapes takes less, in bf16 with 64 samples on an L4 (121 TFLOP/s, 300 GB/s; 58
 * multiprocessors), forward and backward alike, than
 *
 *                               GFLOP   at peak    MB   at bandwidth
 *   halving  32 -> 32    3 x 1 x 1      22   0.18 ms   694   2.31 ms
 *   block 1  32 -> 32    3 x 3 x 3     200   1.65 ms   462   1.54 ms   twice
 *   block 2  32 -> 64    3 x 3 x 3     110   0.91 ms   358   1.19 ms
 *            64 -> 64    3 x 3 x 3     219   1.81 ms   254   0.85 ms
 *            32 -> 64    1 x 1 x 1       4   0.03 ms   190   0.63 ms   a quarter of x's positions are seen
 *   block 3  64 -> 128   3 x 3 x 3      65   0.54 ms   101   0.34 ms
 *           128 -> 128   3 x 3 x 3     130   1.08 ms    75   0.25 ms
 *            64 -> 128   1 x 1 x 1       2   0.02 ms    57   0.19 ms
 *
 * the larger of both: 11.1 ms for all of them, 33.2 ms with the backward. What is more than that is L2's: a block
 * reads 128 + N numbers for 128 N products a k, those of x once a tap, so N is as wide as the columns allow, and for
 * 32, 64 and 128 of them 26, 43 and 64 FLOPs come from each byte. At 32 columns the L4's L2 would have to give 4.7 TB/s
 * to reach the peak. So the products that have no stride, those of 3 x 3 x 3 taps above but block 2's and 3's first
 * (whose data's gradients have none either), are conv3d_runs.h's in 16-bit types: it reads x once for all taps of a
 * frame. */
#pragma once

#include "kernels/cuda/conv3d/conv3d_runs.h"

namespace {

/* Shared memory: STAGES (M + N) 64 bytes: 30 KB and 36 KB, and LargeTile's 48 KB: three, two and two blocks in the 100
 * KB of an L4's multiprocessor. */
struct NarrowTile {
    static constexpr int M = 128, N = 32, THREADS = 128, WARPS_N = 1, STAGES = 3;
};
struct WideTile {
    static constexpr int M = 128, N = 64, THREADS = 128, WARPS_N = 2, STAGES = 3;
};

/* Loads one chunk of a window, from `tap` on: copied whole where channels are whole chunks, else number by number. */
template <class T>
GPU_INLINE void load_chunk(T *to, const T *x, const Windows &v, const Corner &corner, Tap tap, bool aligned) {
    if (aligned) {
        bool inside = tap.sees(v, corner);
        copy_async_16(to, inside ? x + tap.index(v, corner) : x, inside ? 16 : 0);
        return;
    }
    Vector<T> numbers;
#pragma unroll
    for (int j = 0; j < Vector<T>::SIZE; j++) {
        numbers[j] = tap.sees(v, corner) ? x[tap.index(v, corner)] : from_float<T>(0.0f);
        tap.advance(v, 1);
    }
    store_vector(to, numbers);
}

/* Brings tiles of windows along k into shared memory, as Source does of a matrix: M windows, 4 chunks of each. */
template <class T, class Tile> struct WindowSource {
    static constexpr int ROWS = Tile::THREADS / CHUNKS_ALONG_K, EACH = Tile::M / ROWS;
    const T *x;
    Corner corners[EACH];
    Tap tap; /* of this thread's chunks in the next tile */
    bool aligned;

    GPU_INLINE WindowSource(const T *x, const Windows &v, int row, bool aligned)
        : x(x), tap(v, threadIdx.x % CHUNKS_ALONG_K * Vector<T>::SIZE), aligned(aligned) {
#pragma unroll
        for (int i = 0; i < EACH; i++)
            corners[i] = Corner(v, row + (int)threadIdx.x / CHUNKS_ALONG_K + i * ROWS, v.rows);
    }

    GPU_INLINE void load_tile(T *tile, const Windows &v) {
#pragma unroll
        for (int i = 0; i < EACH; i++)
            load_chunk(tile + chunk_place<CHUNKS_ALONG_K>(threadIdx.x / CHUNKS_ALONG_K + i * ROWS,
                                                          threadIdx.x % CHUNKS_ALONG_K) *
                                  Vector<T>::SIZE,
                       x, v, corners[i], tap, aligned);
        tap.advance(v, DEPTH<T>);
    }
};

/* The same across k, for the weights' gradient, whose k are the rows: DEPTH windows, M numbers of each. */
template <class T, class Tile> struct ColumnSource {
    static constexpr int CHUNKS = Tile::M / Vector<T>::SIZE, ROWS = Tile::THREADS / CHUNKS, EACH = DEPTH<T> / ROWS;
    const T *x;
    Tap tap; /* of this thread's chunks */
    int row, end;
    bool aligned;

    GPU_INLINE ColumnSource(const T *x, const Windows &v, int column, int begin, int end, bool aligned)
        : x(x), tap(v, column + threadIdx.x % CHUNKS * Vector<T>::SIZE), row(begin + (int)threadIdx.x / CHUNKS),
          end(end), aligned(aligned) {}

    GPU_INLINE void load_tile(T *tile, const Windows &v) {
#pragma unroll
        for (int i = 0; i < EACH; i++)
            load_chunk(tile +
                           chunk_place<CHUNKS>(threadIdx.x / CHUNKS + i * ROWS, threadIdx.x % CHUNKS) * Vector<T>::SIZE,
                       x, v, Corner(v, row + i * ROWS, end), tap, aligned);
        row += DEPTH<T>;
    }
};

/* output [all rows, n] = windows of x times w [n, k], or += ; the rows that this product has. Grid: tiles, those of the
 * same windows side by side. */
template <class T, class Tile>
__global__ void __launch_bounds__(Tile::THREADS, BLOCKS<T, Tile>)
    convolve(Output<T> output, const T *x, const T *w, Windows v, bool add, bool x_aligned, bool w_aligned) {
    only_where_used<T>();
    int tiles_n = (output.n + Tile::N - 1) / Tile::N;
    int row = blockIdx.x / tiles_n * Tile::M, column = blockIdx.x % tiles_n * Tile::N;
    WindowSource<T, Tile> a(x, v, row, x_aligned);
    Source<T, Tile::N, Tile::THREADS, true> b(w, column, output.n, v.k, 0, v.k);
    Products<T, Tile, true, true> products;
    int steps = (v.k + DEPTH<T> - 1) / DEPTH<T>;
    walk<T, Tile>(products, steps, b, w_aligned, [&](T *slot) { a.load_tile(slot, v); });
    write_products(output, products, v, row, column, add);
}

/* output [parts, k of a window, n] = windows of x, transposed, times dy [rows, n], each over `part` rows. Grid: tiles x
 * parts of the rows. */
template <class T, class Tile>
__global__ void __launch_bounds__(Tile::THREADS, BLOCKS<T, Tile>)
    convolve_weights(Output<T> output, const T *x, const T *dy, Windows v, int part, bool x_aligned, bool dy_aligned) {
    only_where_used<T>();
    int tiles_n = (output.n + Tile::N - 1) / Tile::N;
    int row = blockIdx.x / tiles_n * Tile::M, column = blockIdx.x % tiles_n * Tile::N;
    int begin = blockIdx.y * part, end = min(v.rows - begin, part) + begin;
    ColumnSource<T, Tile> a(x, v, row, begin, end, x_aligned);
    Source<T, Tile::N, Tile::THREADS, false> b(dy, column, output.n, v.rows, begin, end);
    Products<T, Tile, false, false> products;
    int steps = (end - begin + DEPTH<T> - 1) / DEPTH<T>;
    walk<T, Tile>(products, steps, b, dy_aligned, [&](T *slot) { a.load_tile(slot, v); });
    products.each([&](int i, int j, auto sums) { output.write(blockIdx.y, row + i, column + j, sums); });
}

/* Returns torch's index of output `out`, input `in` and the tap that a product's k has. */
GPU_INLINE int64_t torch_index(const Windows &v, const Tap &tap, int64_t out, int64_t in, int64_t inputs) {
    int t = v.t.first_tap + v.t.step_tap * tap.t, h = v.h.first_tap + v.h.step_tap * tap.h;
    int w = v.w.first_tap + v.w.step_tap * tap.w;
    return (((out * inputs + in) * v.t.all_taps + t) * v.h.all_taps + h) * v.w.all_taps + w;
}

/* to [n, k] = a product's weights. The columns n are torch's outputs, or its inputs if `turned`. k counts as convolve
 * does, or as convolve_runs if `runs`. Grid: n k / 256. */
template <class T>
__global__ void __launch_bounds__(256) order_weights(T *to, const T *from, int n, Windows v, bool turned, bool runs) {
    int64_t at = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (at >= (int64_t)n * v.k) return;
    int column = (int)(at / v.k), k = (int)(at - (int64_t)column * v.k);
    Tap tap(v, runs ? k_of_run<T>(v, k) : k);
    to[at] = from[turned ? torch_index(v, tap, tap.channel, column, n)
                         : torch_index(v, tap, column, tap.channel, v.channels)];
}

/* dw += the sum of the parts, [parts, k, n], in their order. Grid: n k / 256. Bytes: 4 n k (parts + 2). */
__global__ void __launch_bounds__(256) add_weights(float *dw, const float *from, int parts, int n, Windows v) {
    int64_t at = (int64_t)blockIdx.x * 256 + threadIdx.x, size = (int64_t)n * v.k;
    if (at >= size) return;
    float sum = from[at];
    for (int part = 1; part < parts; part++) sum += from[part * size + at];
    int k = (int)(at / n);
    Tap tap(v, k);
    dw[torch_index(v, tap, at - (int64_t)k * n, tap.channel, v.channels)] += sum;
}

/* dw += from [n, k]. Grid: n k / 256. */
template <class T>
__global__ void __launch_bounds__(256) add_ordered_weights(float *dw, const T *from, int n, Windows v) {
    int64_t at = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (at >= (int64_t)n * v.k) return;
    int column = (int)(at / v.k);
    Tap tap(v, (int)(at - (int64_t)column * v.k));
    dw[torch_index(v, tap, column, tap.channel, v.channels)] += to_float(from[at]);
}

/* ---- the host's half ---- */

Axis forward_axis(Convolution c, int i) {
    int positions = convolution_positions(c, i);
    return {positions, 0, 1, positions, c.in[i], c.stride[i], -c.padding[i], c.taps[i], 0, 1, c.taps[i]};
}

/* Returns the axis of the data's gradient: the positions p for which (p + padding) % stride is `remainder`, and their
 * taps, the last first, so that the taps read positions of dy in ascending order. */
Axis backward_axis(Convolution c, int i, int remainder) {
    int stride = c.stride[i], first = ((remainder - c.padding[i]) % stride + stride) % stride;
    int rows = (c.in[i] - first + stride - 1) / stride, taps = (c.taps[i] - remainder + stride - 1) / stride;
    if (rows < 0) rows = 0;
    if (taps < 0) taps = 0;
    int newest = (first + c.padding[i] - remainder) / stride; /* that the first row's first tap sees */
    return {rows,
            first,
            stride,
            c.in[i],
            convolution_positions(c, i),
            1,
            newest - (taps - 1),
            taps,
            remainder + (taps - 1) * stride,
            -stride,
            c.taps[i]};
}

Windows windows_of(const char *op, Axis t, Axis h, Axis w, int64_t channels, int64_t samples) {
    int64_t k = (int64_t)t.taps * h.taps * w.taps * channels, rows = samples * t.rows * h.rows * w.rows;
    int64_t inputs = samples * t.inputs * h.inputs * w.inputs;
    int64_t outputs = samples * t.outputs * h.outputs * w.outputs;
    if (k > INT32_MAX - 1024 || rows > INT32_MAX - 1024 || inputs > INT32_MAX || outputs > INT32_MAX)
        die("%s: %lld windows of %lld numbers are too many", op, (long long)rows, (long long)k);
    auto divider = [](int n) { return divider_of(n > 0 ? n : 1); };
    return {t, h, w, divider(t.rows), divider(h.rows), divider(w.rows), (int)channels, (int)k, (int)rows, (int)inputs};
}

Windows forward_windows(const char *op, const ConvProduct &p) {
    Convolution c = p.c;
    return windows_of(op, forward_axis(c, 0), forward_axis(c, 1), forward_axis(c, 2), p.x.dims[1], conv3d_samples(&p));
}

template <class T>
void launch_order(Device *device, const char *op, T *to, Tensor w, int n, const Windows &v, bool turned, bool runs) {
    cuda_check(gpu_launch(order_weights<T>, grid_of(op, ceil_div((int64_t)n * v.k, 256)), 256, 0, cuda_stream(device),
                          to, (const T *)w.data, n, v, turned, runs),
               op);
}

template <class T, class Tile> constexpr size_t SHARED_BYTES = Tile::STAGES *(Tile::M + Tile::N) * DEPTH<T> * sizeof(T);

/* One product of forward or data's gradient; w is torch's. Without taps it is a matrix of zeros. */
template <class T>
void launch_convolve(Device *device, const char *op, Tensor y, Tensor x, Tensor w, Tensor bias, const Windows &v,
                     bool turned, bool add) {
    int n = (int)y.dims[1];
    if (v.rows == 0 || n == 0 || (v.k == 0 && add)) return;
    T *weights = (T *)cuda_scratch(device, (size_t)n * (size_t)v.k * sizeof(T));
    int run = n <= RunTile::N ? run_rows<T, RunTile>(v, x.data) : run_rows<T, WideRunTile>(v, x.data);
    if (v.k) launch_order(device, op, weights, w, n, v, turned, run != 0);
    Output<T> output = {};
    output.c = (T *)y.data, output.bias = (const T *)bias.data;
    output.m = (int)y.dims[0], output.n = n;
    output.packs = packs_fit(4, n, y.data);
    bool x_aligned = packs_fit(Vector<T>::SIZE, v.channels, x.data), w_aligned = v.k % Vector<T>::SIZE == 0;
    auto launch = [&](auto tile) {
        using Tile = decltype(tile);
        cuda_check(gpu_launch(convolve<T, Tile>, grid_of(op, ceil_div(v.rows, Tile::M) * ceil_div(n, Tile::N)),
                              Tile::THREADS, SHARED_BYTES<T, Tile>, cuda_stream(device), output, (const T *)x.data,
                              (const T *)weights, v, add, x_aligned, w_aligned),
                   op);
    };
    auto launch_runs = [&](auto tile) {
        using Tile = decltype(tile);
        if constexpr (sizeof(T) == 2)
            cuda_check(gpu_launch(convolve_runs<T, Tile>, grid_of(op, ceil_div(v.rows, Tile::M) * ceil_div(n, Tile::N)),
                                  Tile::THREADS, run_bytes<Tile>(run), cuda_stream(device), output, (const T *)x.data,
                                  (const T *)weights, v, run, add),
                       op);
    };
    if (run && n <= RunTile::N)
        launch_runs(RunTile());
    else if (run)
        launch_runs(WideRunTile());
    else if (n <= NarrowTile::N)
        launch_rounded<T, NarrowTile>(device, NarrowTile(), launch);
    else if (n <= WideTile::N)
        launch_rounded<T, WideTile>(device, WideTile(), launch);
    else
        launch_rounded<T, LargeTile>(device, LargeTile(), launch);
}

} // namespace

template <class T> void Conv3d<T>::forward(Device *device, const ConvProduct &p) {
    const char *op = "conv3d_forward";
    launch_convolve<T>(device, op, p.y, p.x, p.w, p.bias, forward_windows(op, p), false, false);
}

template <class T> void Conv3d<T>::backward_data(Device *device, const ConvProduct &p) {
    const char *op = "conv3d_backward";
    Convolution c = p.c;
    for (int i = 0; i < c.stride[0] * c.stride[1] * c.stride[2]; i++) {
        Axis h = backward_axis(c, 1, i / c.stride[2] % c.stride[1]), width = backward_axis(c, 2, i % c.stride[2]);
        Axis t = backward_axis(c, 0, i / c.stride[2] / c.stride[1]);
        Windows v = windows_of(op, t, h, width, p.y.dims[1], conv3d_samples(&p));
        launch_convolve<T>(device, op, p.x, p.y, p.w, tensor_none(), v, true, p.add);
    }
}

template <class T> void Conv3d<T>::order(Device *device, T *to, const ConvProduct &p) {
    const char *op = "a convolution's weights";
    launch_order(device, op, to, p.w, (int)p.y.dims[1], forward_windows(op, p), false, false);
}

template <class T> void Conv3d<T>::add_ordered(Device *device, const ConvProduct &p, const T *from) {
    const char *op = "a convolution's weights";
    int n = (int)p.y.dims[1];
    Windows v = forward_windows(op, p);
    cuda_check(gpu_launch(add_ordered_weights<T>, grid_of(op, ceil_div((int64_t)n * v.k, 256)), 256, 0,
                          cuda_stream(device), (float *)p.w.data, from, n, v),
               op);
}

template <class T> void Conv3d<T>::backward_weights(Device *device, const ConvProduct &p) {
    const char *op = "conv3d_backward";
    using Tile = std::conditional_t<sizeof(T) == 4, WideTile, NarrowTile>; /* FMAs: four columns a thread */
    Windows v = forward_windows(op, p);
    int n = (int)p.y.dims[1];
    if (v.rows == 0 || n == 0 || v.k == 0) return;
    bool x_aligned = packs_fit(Vector<T>::SIZE, v.channels, p.x.data);
    bool dy_aligned = packs_fit(Vector<T>::SIZE, n, p.y.data);
    int run = dy_aligned ? run_rows<T, WeightsTile>(v, p.x.data) : 0;
    Output<T> output = {};
    output.m = v.k, output.n = n;
    output.packs = n % 4 == 0;
    /* Blocks share the rows, each at least 8 steps of them: two times two a multiprocessor, or a few less. */
    auto share = [&](int64_t tiles, int step, auto launch) {
        int64_t parts = 4 * cuda_state(device)->n_multiprocessors / tiles, most = ceil_div(v.rows, 8 * step);
        if (parts > most) parts = most;
        if (parts < 1) parts = 1;
        output.sums = (float *)cuda_scratch(device, (size_t)parts * (size_t)v.k * (size_t)n * sizeof(float));
        int part = (int)(ceil_div(ceil_div(v.rows, parts), step) * step);
        parts = ceil_div(v.rows, part); /* or fewer */
        cuda_check(launch(dim3(grid_of(op, tiles), (unsigned)parts), part), op);
        cuda_check(gpu_launch(add_weights, grid_of(op, ceil_div((int64_t)n * v.k, 256)), 256, 0, cuda_stream(device),
                              (float *)p.w.data, (const float *)output.sums, (int)parts, n, v),
                   op);
    };
    auto launch = [&](auto tile) {
        using Chosen = decltype(tile);
        share(ceil_div(v.k, Chosen::M) * ceil_div(n, Chosen::N), DEPTH<T>, [&](dim3 grid, int part) {
            return gpu_launch(convolve_weights<T, Chosen>, grid, Chosen::THREADS, SHARED_BYTES<T, Chosen>,
                              cuda_stream(device), output, (const T *)p.x.data, (const T *)p.y.data, v, part, x_aligned,
                              dy_aligned);
        });
    };
    if constexpr (sizeof(T) == 2)
        if (run) {
            int64_t tiles = v.t.taps * (v.channels / DEPTH<T>)*ceil_div(n, WeightsTile::N);
            return share(tiles, WeightsTile::STEP, [&](dim3 grid, int part) {
                return gpu_launch(convolve_weights_runs<T>, grid, 32 * v.h.taps * v.w.taps, run_bytes<WeightsTile>(run),
                                  cuda_stream(device), output, (const T *)p.x.data, (const T *)p.y.data, v, run, part);
            });
        }
    if (n <= NarrowTile::N)
        launch_rounded<T, NarrowTile>(device, Tile(), launch);
    else if (n <= WideTile::N)
        launch_rounded<T, WideTile>(device, WideTile(), launch);
    else
        launch_rounded<T, LargeTile>(device, LargeTile(), launch);
}
