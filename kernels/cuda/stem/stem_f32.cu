/* The temporal stem in f32, by FMAs: see stem_layers.h. */
#include "kernels/cuda/stem/stem_layers.h"

namespace {

enum { BLOCK = 128, OUTPUTS = 32 };

/* Weights as kernels read them, the same number by all lanes of a warp: first [C][16], of which the last two are the
 * norm's scale and shift; second [3][C][width], width being O rounded up. */
struct OrderedF32 {
    float first[STEM_MAX_CHANNELS][STEM_WINDOW + 2], second[STEM_HALVING_TAPS * STEM_MAX_CHANNELS * STEM_MAX_CHANNELS];
};

/* Grid: 16 C and 3 C width numbers / BLOCK. */
__global__ void __launch_bounds__(BLOCK)
    order_weights(OrderedF32 *to, StemParams<float> params, StemShape shape, int width) {
    int at = blockIdx.x * BLOCK + threadIdx.x, j = at % 16, c = at / 16;
    if (c < shape.c) {
        to->first[c][j] = j < STEM_WINDOW    ? params.first(shape, c, j)
                          : j == STEM_WINDOW ? params.scale(shape, c)
                                             : params.shift(shape, c);
        return;
    }
    at -= 16 * shape.c;
    if (at < STEM_HALVING_TAPS * shape.c * width)
        to->second[at] = params.second(shape, at % width, at / width % shape.c, at / width / shape.c);
}

/* Returns one normalised channel of the first layer for a window. */
GPU_INLINE float normed(const float *weights, const float (&window)[STEM_WINDOW]) {
    float sum = 0;
    Vector<float> w;
#pragma unroll
    for (int j = 0; j < STEM_WINDOW; j++) {
        if (j % 4 == 0) w = load_vector(weights + j);
        sum += w[j % 4] * window[j];
    }
    return sum * w[2] + w[3];
}

template <int O> GPU_INLINE void add_weighted(float (&sums)[O], float a, const float *weights) {
#pragma unroll
    for (int o = 0; o < O; o += 4) {
        Vector<float> w = load_vector(weights + o);
#pragma unroll
        for (int j = 0; j < 4; j++) sums[o + j] += a * w[j];
    }
}

/* y of OUTPUTS frames of a column a thread, as stem_half.cu walks: frame 2 u + 1 is added to two outputs.
 * Grid: columns / BLOCK x pieces of time. Bytes: x and y once; the weights a warp, from L1. */
template <int O>
__global__ void __launch_bounds__(BLOCK)
    stem_forward_kernel(float *y, const float *x, const OrderedF32 *weights, StemShape shape) {
    int column = blockIdx.x * BLOCK + threadIdx.x;
    int begin = blockIdx.y * OUTPUTS, end = min(begin + OUTPUTS, shape.halved);
    if (column >= shape.columns) return;
    x += 2 * shape.row(column, shape.frames);
    y += shape.row(column, shape.halved) * shape.o;
    float window[STEM_WINDOW] = {}, sums[O] = {}, next[O] = {};
    auto advance = [&](int newest) {
#pragma unroll
        for (int j = 0; j < STEM_WINDOW - 2; j++) window[j] = window[j + 2];
        Pack<float, 2> numbers = zeros<2>();
        if (newest >= 0 && newest < shape.frames) numbers = load_pack<2>(x + 2 * (int64_t)newest * shape.plane);
        window[STEM_WINDOW - 2] = numbers[0], window[STEM_WINDOW - 1] = numbers[1];
    };
    auto activation = [&](int c) {
        float v = normed(weights->first[c], window);
        return v > 0 ? v : shape.slope * v;
    };
    auto taps = [&](int tap, int c) { return weights->second + (tap * shape.c + c) * O; };
    for (int k = 0; k < STEM_TAPS; k++) advance(2 * begin - 4 + k);
    for (int c = 0; c < shape.c && begin > 0; c++) add_weighted(sums, activation(c), taps(0, c));
#pragma unroll 1
    for (int u = begin; u < end; u++) {
        advance(2 * u + 3);
#pragma unroll 1
        for (int c = 0; c < shape.c; c++) add_weighted(sums, activation(c), taps(1, c));
        advance(2 * u + 4);
#pragma unroll 1
        for (int c = 0; c < shape.c && 2 * u + 1 < shape.frames; c++) {
            float a = activation(c);
            add_weighted(sums, a, taps(2, c));
            add_weighted(next, a, taps(0, c));
        }
#pragma unroll
        for (int o = 0; o < O; o += 4) {
            if (o < shape.o)
                store_vector(y + (int64_t)u * shape.plane * shape.o + o,
                             Vector<float>{{sums[o], sums[o + 1], sums[o + 2], sums[o + 3]}});
#pragma unroll
            for (int j = o; j < o + 4; j++) sums[j] = next[j], next[j] = 0.0f;
        }
    }
}

/* ---- backward ----
 *
 * A block has ACROSS columns and takes two frames at a time, 2 u and 2 u + 1: first each thread computes a and g of
 * some channels of one column and frame, then each sums dw2 of two channels, two outputs and all taps, and parts of S,
 * over the columns. The sums stay in registers while the block goes through its items. */
enum { ACROSS = 32, THREADS = 256, PIECE = 8, PIECE_FRAMES = 2 * PIECE + STEM_TAPS - 1 };

/* W: the most channels on either side. Rows of channels are padded: columns lie in different banks. */
template <int W> struct Tiles {
    float x[PIECE_FRAMES][ACROSS][2], dy[2][ACROSS][W + 4];
    float a[2][ACROSS][W + 2], g[2][ACROSS][W + 2];
};

/* x of the item, from frame 2 begin - 3 on. */
template <int W>
GPU_INLINE void load_inputs(Tiles<W> &tiles, const float *x, const StemShape &shape, int first_column, int begin) {
    int k = threadIdx.x % ACROSS;
    bool inside = first_column + k < shape.columns;
    x += 2 * shape.row(inside ? first_column + k : 0, shape.frames);
    for (int f = threadIdx.x / ACROSS; f < PIECE_FRAMES; f += THREADS / ACROSS) {
        int frame = 2 * begin - 3 + f;
        bool seen = inside && frame >= 0 && frame < shape.frames;
        put_pack(tiles.x[f][k], seen ? load_pack<2>(x + 2 * (int64_t)frame * shape.plane) : zeros<2>());
    }
}

/* dy of output u, zeros where there is none. */
template <int W>
GPU_INLINE void load_gradient(Tiles<W> &tiles, const float *dy, const StemShape &shape, int first_column, int u) {
    for (int at = threadIdx.x; at < ACROSS * shape.o / 4; at += THREADS) {
        int k = at / (shape.o / 4), o = at % (shape.o / 4) * 4;
        bool inside = first_column + k < shape.columns && u < shape.halved;
        const float *from =
            dy + (shape.row(inside ? first_column + k : 0, shape.halved) + (int64_t)u * shape.plane) * shape.o;
        Vector<float> numbers = {};
        if (inside) numbers = load_vector(from + o);
        store_vector(&tiles.dy[u % 2][k][o], numbers);
    }
}

/* a and g of frames 2 u + f, f < 2: f is that of the warp, of which there are four for each; a lane has a column. */
template <int W>
GPU_INLINE void activate(Tiles<W> &tiles, const OrderedF32 *weights, const StemShape &shape, int begin, int u) {
    int k = threadIdx.x % 32, f = threadIdx.x / 32 % 2, quarter = shape.c / 4, first = threadIdx.x / 64 * quarter;
    bool exists = 2 * u + f < shape.frames;
    float window[STEM_WINDOW];
#pragma unroll
    for (int j = 0; j < STEM_WINDOW; j++) window[j] = tiles.x[2 * (u - begin) + f + j / 2][k][j % 2];
#pragma unroll 1
    for (int c = first; c < first + quarter; c++) {
        float v = normed(weights->first[c], window), da = 0;
        for (int later = 0; later <= f; later++) { /* an odd frame is under u + 1, too */
            const float *w2 = weights->second + ((f ? 2 - 2 * later : 1) * shape.c + c) * W;
            const float *dy = tiles.dy[(u + later) % 2][k];
            for (int o = 0; o < shape.o; o += 4) {
                Vector<float> up = load_vector(dy + o), w = load_vector(w2 + o);
#pragma unroll
                for (int j = 0; j < 4; j++) da += up[j] * w[j];
            }
        }
        tiles.a[f][k][c] = exists ? (v > 0 ? v : shape.slope * v) : 0.0f;
        tiles.g[f][k][c] = exists ? (v > 0 ? da : shape.slope * da) : 0.0f;
    }
}

/* A thread's sums: dw2 of channels `c` and the next and outputs `o` and the next, for each of its tiles; and numbers of
 * S THREADS apart. */
template <int W> struct Sums {
    static constexpr int COUNT = W * W / 4 / THREADS, OF_S = W * 16 / THREADS;
    float dw2[COUNT][STEM_HALVING_TAPS][2][2] = {}, s[OF_S] = {};

    GPU_INLINE static int channel(int i) { return ((int)threadIdx.x + i * THREADS) / (W / 2) * 2; }
    GPU_INLINE static int output(int i) { return ((int)threadIdx.x + i * THREADS) % (W / 2) * 2; }

    GPU_INLINE void add(const Tiles<W> &tiles, const StemShape &shape, int begin, int u) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            int c = channel(i), o = output(i);
            if (c >= shape.c || o >= shape.o) continue;
#pragma unroll 4
            for (int k = 0; k < ACROSS; k++) {
                Pack<float, 2> even = load_pack<2>(&tiles.a[0][k][c]), odd = load_pack<2>(&tiles.a[1][k][c]);
                Pack<float, 2> up = load_pack<2>(&tiles.dy[u % 2][k][o]),
                               after = load_pack<2>(&tiles.dy[(u + 1) % 2][k][o]);
#pragma unroll
                for (int p = 0; p < 2; p++)
#pragma unroll
                    for (int q = 0; q < 2; q++) {
                        dw2[i][0][p][q] += odd[p] * after[q];
                        dw2[i][1][p][q] += even[p] * up[q];
                        dw2[i][2][p][q] += odd[p] * up[q];
                    }
            }
        }
#pragma unroll
        for (int i = 0; i < OF_S; i++) {
            int c = (threadIdx.x + i * THREADS) / 16, j = threadIdx.x % 16;
            if (c >= shape.c) continue;
            for (int f = 0; f < 2; f++)
                for (int k = 0; k < ACROSS; k++) /* number 14 of a window is one: D */
                    s[i] += tiles.g[f][k][c] * (j < STEM_WINDOW    ? tiles.x[2 * (u - begin) + f + j / 2][k][j % 2]
                                                : j == STEM_WINDOW ? 1.0f
                                                                   : 0.0f);
        }
    }

    GPU_INLINE void store(float *part, const StemShape &shape) const {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            int c = channel(i), o = output(i);
            if (c >= shape.c || o >= shape.o) continue;
#pragma unroll
            for (int tap = 0; tap < STEM_HALVING_TAPS; tap++)
#pragma unroll
                for (int p = 0; p < 2; p++)
                    store_pack(part + (tap * shape.c + c + p) * shape.o + o,
                               Pack<float, 2>{{dw2[i][tap][p][0], dw2[i][tap][p][1]}});
        }
#pragma unroll
        for (int i = 0; i < OF_S; i++)
            if (((int)threadIdx.x + i * THREADS) / 16 < shape.c)
                part[STEM_HALVING_TAPS * shape.c * shape.o + threadIdx.x + i * THREADS] = s[i];
    }
};

/* parts: the sums of every block's items, time fastest. Grid: blocks of `each` items. Bytes: x once; dy once, and one
 * frame in PIECE again, from L2; 4 c (3 o + 16) a block. */
template <int W>
__global__ void __launch_bounds__(THREADS, 1)
    stem_backward_kernel(float *parts, const float *dy, const float *x, const OrderedF32 *weights, StemShape shape,
                         StemItems items) {
    DYNAMIC_SHARED(Tiles<W>, tiles);
    int pieces = (shape.halved + PIECE - 1) / PIECE;
    Sums<W> sums;
    int first_item = blockIdx.x * items.each, end_item = min(first_item + items.each, items.items);
#pragma unroll 1
    for (int item = first_item; item < end_item; item++) {
        int column = item / pieces * ACROSS;
        int begin = item % pieces * PIECE, end = min(begin + PIECE, shape.halved);
        load_inputs(*tiles, x, shape, column, begin); /* the barrier below was passed with the item before done */
        load_gradient(*tiles, dy, shape, column, begin);
#pragma unroll 1
        for (int u = begin; u < end; u++) {
            load_gradient(*tiles, dy, shape, column, u + 1);
            __syncthreads();
            activate(*tiles, weights, shape, begin, u);
            __syncthreads();
            sums.add(*tiles, shape, begin, u);
            __syncthreads();
        }
    }
    sums.store(parts + blockIdx.x * shape.sums, shape);
}

/* Orders the weights, for kernels of `width` outputs, behind `bytes` of scratch memory, of which *before is told. */
OrderedF32 *ordered(Device *device, const char *op, size_t bytes, char **before, const StemParams<float> &params,
                    const StemShape &shape, int width) {
    *before = (char *)cuda_scratch(device, bytes + sizeof(OrderedF32));
    OrderedF32 *weights = (OrderedF32 *)(*before + bytes);
    int64_t n = (int64_t)shape.c * (STEM_WINDOW + 2 + STEM_HALVING_TAPS * width);
    cuda_check(gpu_launch(order_weights, grid_of(op, ceil_div(n, BLOCK)), BLOCK, 0, cuda_stream(device), weights,
                          params, shape, width),
               op);
    return weights;
}

template <int O>
void launch_forward(Device *device, float *y, const float *x, const StemParams<float> &params, const StemShape &shape) {
    const char *op = "stem_forward";
    char *none;
    const OrderedF32 *weights = ordered(device, op, 0, &none, params, shape, O);
    dim3 grid(grid_of(op, ceil_div(shape.columns, BLOCK)), (unsigned)ceil_div(shape.halved, OUTPUTS));
    cuda_check(gpu_launch(stem_forward_kernel<O>, grid, BLOCK, 0, cuda_stream(device), y, x, weights, shape), op);
}

template <int W>
int64_t launch_backward(Device *device, int64_t doubles, double **scratch, const float *dy, const float *x,
                        const StemParams<float> &params, const StemShape &shape) {
    const char *op = "stem_backward";
    StemItems items = stem_items(device, shape, ACROSS, PIECE);
    size_t before = (size_t)doubles * sizeof(double);
    char *memory;
    const OrderedF32 *weights = ordered(device, op, before + (size_t)items.most * (size_t)shape.sums * sizeof(float),
                                        &memory, params, shape, W);
    *scratch = (double *)memory;
    if (sizeof(Tiles<W>) > 48 * 1024)
        cuda_check(cudaFuncSetAttribute(reinterpret_cast<const void *>(stem_backward_kernel<W>),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(Tiles<W>)),
                   op);
    cuda_check(gpu_launch(stem_backward_kernel<W>, grid_of(op, items.blocks), THREADS, sizeof(Tiles<W>),
                          cuda_stream(device), (float *)(memory + before), dy, x, weights, shape, items),
               op);
    return items.blocks;
}

} // namespace

template <class T>
void StemLayers<T>::forward(Device *device, T *y, const T *x, const StemParams<T> &params, const StemShape &shape) {
    if (shape.o <= 32)
        launch_forward<32>(device, y, x, params, shape);
    else
        launch_forward<64>(device, y, x, params, shape);
}

template <class T>
int64_t StemLayers<T>::backward(Device *device, int64_t doubles, double **scratch, const T *dy, const T *x,
                                const StemParams<T> &params, const StemShape &shape) {
    return shape.c <= 32 && shape.o <= 32 ? launch_backward<32>(device, doubles, scratch, dy, x, params, shape)
                                          : launch_backward<64>(device, doubles, scratch, dy, x, params, shape);
}

template struct StemLayers<float>;
