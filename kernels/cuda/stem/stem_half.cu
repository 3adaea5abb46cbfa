/* The temporal stem in 16-bit types, on tensor cores: see stem_layers.h.
 *
 * Two neighbouring numbers of a row of x, its two channels, are one word, so a fragment of windows is words of x as
 * they are: lane l holds tap l % 4, and 4 + l % 4, of position l / 4. Tap 7, which fills up the product's 16 numbers,
 * has weights of zero. What a fragment of sums holds of the first layer is, rounded to T, what a fragment of the second
 * layer's left side must hold: it goes from product to product in registers.
 *
 * Of the second layer, a warp walks along time: frame 2 u is under the middle tap of output u alone, frame 2 u + 1
 * under the last of u and the first of u + 1. So each frame's activations are computed once, but for one frame in each
 * of the pieces into which time is cut. */
#include "kernels/cuda/stem/stem_layers.h"

namespace {

/* ---- forward: [positions, channels] ---- */

enum {
    WARPS = 4,
    ACROSS = 16 * WARPS,              /* columns of a block */
    OUTPUTS = 16,                     /* of a block, of each column */
    FRAMES = 2 * OUTPUTS + STEM_TAPS, /* of x that are read: from 2 first - 4 on */
    PITCH = ACROSS + 8,               /* words from frame to frame: taps lie 8 banks apart */
};

/* Weights as lanes want them, for up to C and O channels: first [C / 8][32] and second [3][C / 16][O / 8][32] fragments
 * of 16 x 8, two words each. The columns of second are permuted so that a lane's sums of four fragments are eight
 * channels in a row; see output_of. norm [C / 8][4]: scale and shift of the two channels of which a lane has sums. */
template <int C, int O> struct Ordered {
    uint2 first[C / 8][32], second[STEM_HALVING_TAPS][C / 16][O / 8][32];
    float4 norm[C / 8][4];
};

/* Returns the channel of column `column` of fragment i. */
GPU_INLINE int output_of(int i, int column) { return i / 4 * 32 + column / 2 * 8 + i % 4 * 2 + column % 2; }

/* Grid: fragments x 32 / 128. */
template <class T, int C, int O>
__global__ void __launch_bounds__(128) order_weights(Ordered<C, O> *to, StemParams<T> params, StemShape shape) {
    int at = (blockIdx.x * 128 + threadIdx.x) / 32, lane = threadIdx.x % 32, k = 2 * (lane % 4), n = lane / 4;
    if (at < C / 8) {
        auto word = [&](int j) {
            return pack_pair<T>(params.first(shape, 8 * at + n, j), params.first(shape, 8 * at + n, j + 1));
        };
        to->first[at][lane] = make_uint2(word(k), word(k + 8));
        if (lane >= 4) return;
        int c = 8 * at + 2 * lane;
        to->norm[at][lane] = make_float4(params.scale(shape, c), params.scale(shape, c + 1), params.shift(shape, c),
                                         params.shift(shape, c + 1));
        return;
    }
    at -= C / 8;
    int i = at % (O / 8), j = at / (O / 8) % (C / 16), tap = at / (O / 8) / (C / 16), o = output_of(i, n);
    if (tap >= STEM_HALVING_TAPS) return;
    auto word = [&](int c) {
        return pack_pair<T>(params.second(shape, o, c, tap), params.second(shape, o, c + 1, tap));
    };
    to->second[tap][j][i][lane] = make_uint2(word(16 * j + k), word(16 * j + k + 8));
}

/* The block's tile of x: frame `first` + f of its columns is tile[f]; zeros where there is none. A thread has a column:
 * the block is a multiple of `across` threads. */
template <int LENGTH, int TILE_PITCH, class T>
GPU_INLINE void load_inputs(uint32_t (*tile)[TILE_PITCH], const T *x, const StemShape &shape, int first_column,
                            int first, int across) {
    int c = threadIdx.x % across;
    bool inside = first_column + c < shape.columns;
    const T *from = x + 2 * shape.row(inside ? first_column + c : 0, shape.frames);
#pragma unroll 4
    for (int f = threadIdx.x / across; f < LENGTH; f += blockDim.x / across) {
        int frame = first + f;
        bool seen = inside && frame >= 0 && frame < shape.frames;
        tile[f][c] = seen ? *reinterpret_cast<const uint32_t *>(from + 2 * (int64_t)frame * shape.plane) : 0u;
    }
}

template <class T, int N> GPU_INLINE void multiply_fragment(float (&d)[N][4], const uint32_t (&a)[4], const uint2 *b) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        uint2 words = b[32 * i + threadIdx.x % 32];
        mma_16x8x16<T>(d[i], a, words.x, words.y);
    }
}

/* a = leaky_relu(norm(windows w)), [16 columns, C], as the second layer's left side. x: the frame of the windows' first
 * tap, from the warp's first column on. */
template <class T, int C, int O>
GPU_INLINE void activate(uint32_t (&a)[C / 16][4], const uint32_t *x, const Ordered<C, O> &weights, float slope) {
    int tap = threadIdx.x % 4, row = threadIdx.x % 32 / 4;
    uint32_t windows[4];
#pragma unroll
    for (int r = 0; r < 4; r++) {
        bool seen = r < 2 || tap < 3;
        windows[r] = seen ? x[(tap + 4 * (r / 2)) * PITCH + row + 8 * (r % 2)] : 0u;
    }
    float sums[C / 8][4] = {};
    multiply_fragment<T>(sums, windows, weights.first[0]);
#pragma unroll
    for (int i = 0; i < C / 8; i++) {
        float4 norm = weights.norm[i][tap];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float v = __fmaf_rn(sums[i][2 * half], norm.x, norm.z);
            float w = __fmaf_rn(sums[i][2 * half + 1], norm.y, norm.w);
            a[i / 2][i % 2 * 2 + half] = pack_pair<T>(v > 0 ? v : slope * v, w > 0 ? w : slope * w);
        }
    }
}

/* sums += a times the second layer's weights of a tap. */
template <class T, int C, int O>
GPU_INLINE void add_tap(float (&sums)[O / 8][4], const uint32_t (&a)[C / 16][4], const uint2 (*weights)[O / 8][32]) {
#pragma unroll
    for (int j = 0; j < C / 16; j++) multiply_fragment<T>(sums, a[j], weights[j][0]);
}

/* y of OUTPUTS frames of ACROSS columns, 16 a warp. Grid: columns x pieces of time. Bytes: x and y once; the weights a
 * block, from L2. */
template <class T, int C, int O>
__global__ void __launch_bounds__(32 * WARPS)
    stem_forward_kernel(T *y, const T *x, const Ordered<C, O> *ordered, StemShape shape) {
    only_where_used<T>();
    using Weights = Ordered<C, O>;
    SHARED(Weights, weights, );
    SHARED(uint32_t, tile, [FRAMES][PITCH]);
    int first_column = blockIdx.x * ACROSS;
    int begin = blockIdx.y * OUTPUTS, end = min(begin + OUTPUTS, shape.halved), own = threadIdx.x / 32 * 16;
    for (int at = threadIdx.x; at < (int)(sizeof weights / 16); at += 32 * WARPS)
        reinterpret_cast<uint4 *>(&weights)[at] = reinterpret_cast<const uint4 *>(ordered)[at];
    load_inputs<FRAMES>(tile, x, shape, first_column, 2 * begin - 4, ACROSS);
    __syncthreads();
    int upper = first_column + own + (int)threadIdx.x % 32 / 4, columns[2] = {upper, upper + 8};
    T *to[2];
#pragma unroll
    for (int half = 0; half < 2; half++)
        to[half] = y + shape.row(columns[half], shape.halved) * shape.o + 8 * (threadIdx.x % 4);
    float sums[O / 8][4] = {}, next[O / 8][4] = {};
    uint32_t a[C / 16][4];
    auto activate_frame = [&](int frame) {
        activate<T, C, O>(a, tile[frame - (2 * begin - 1)] + own, weights, shape.slope);
    };
    if (begin > 0) {
        activate_frame(2 * begin - 1);
        add_tap<T, C, O>(sums, a, weights.second[0]);
    }
#pragma unroll 1
    for (int u = begin; u < end; u++) {
        activate_frame(2 * u);
        add_tap<T, C, O>(sums, a, weights.second[1]);
        if (2 * u + 1 < shape.frames) {
            activate_frame(2 * u + 1);
            add_tap<T, C, O>(sums, a, weights.second[2]);
            if (u + 1 < end) add_tap<T, C, O>(next, a, weights.second[0]);
        }
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int i = 0; i < O / 8; i += 4) {
                Pack<float, 8> out;
#pragma unroll
                for (int j = 0; j < 8; j++) out[j] = sums[i + j / 2][2 * half + j % 2];
                if (columns[half] < shape.columns && 8 * i + 8 * (int)(threadIdx.x % 4) < shape.o)
                    store_pack(to[half] + (int64_t)u * shape.plane * shape.o + 8 * i, convert<T>(out));
            }
#pragma unroll
        for (int i = 0; i < O / 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) sums[i][j] = next[i][j], next[i][j] = 0.0f;
    }
}

/* ---- backward: [channels, positions] ----
 *
 * The other way around, so that fragments of activations and of their gradient are, as they are, the left sides of
 * products over positions. A warp has 16 channels (a slice) of 16 columns (a group); dw2 of its channels and all
 * outputs and all taps, and S, stay in its registers while the block goes through its items, pieces of columns and
 * time. Where tap 7 of channel 0 would be, windows have a one: it makes D of S. */

enum {
    PIECE = 8, /* outputs of an item, of each column */
    MOST_GROUPS = 2,
    PIECE_FRAMES = 2 * PIECE + STEM_TAPS - 1, /* of x: from 2 first - 3 on */
    PIECE_PITCH = 16 * MOST_GROUPS + 8,
};

/* Left sides of 16 x 16, four words a lane: first [slices][32] of w, second [3][slices][O / 16][32] of w2'. */
template <int O> struct OrderedLeft {
    uint4 first[STEM_MAX_CHANNELS / 16][32], second[STEM_HALVING_TAPS][STEM_MAX_CHANNELS / 16][O / 16][32];
};

/* Grid: fragments x 32 / 128. */
template <class T, int O>
__global__ void __launch_bounds__(128) order_left(OrderedLeft<O> *to, StemParams<T> params, StemShape shape) {
    int at = (blockIdx.x * 128 + threadIdx.x) / 32, lane = threadIdx.x % 32, slices = STEM_MAX_CHANNELS / 16;
    int fragment = at - slices, j = fragment % (O / 16), slice = at < slices ? at : fragment / (O / 16) % slices;
    int tap = fragment / (O / 16) / slices, c = 16 * slice + lane / 4, k = 2 * (lane % 4);
    if (at >= slices && tap >= STEM_HALVING_TAPS) return;
    auto word = [&](int r) {
        int row = c + 8 * (r % 2), column = k + 8 * (r / 2), o = 16 * j + column;
        return at < slices ? pack_pair<T>(params.first(shape, row, column), params.first(shape, row, column + 1))
                           : pack_pair<T>(params.second(shape, o, row, tap), params.second(shape, o + 1, row, tap));
    };
    uint4 words = make_uint4(word(0), word(1), word(2), word(3));
    if (at < slices)
        to->first[slice][lane] = words;
    else
        to->second[tap][slice][j][lane] = words;
}

/* Returns where a chunk of 8 channels of a row of dy lies: rows are whole chunks, and eight rows' fill all banks. */
template <int O> GPU_INLINE int place_of(int row, int chunk) {
    return O * row + 8 * (O == 32 ? chunk ^ (row / 2 % 4) : chunk ^ (row % 8));
}

/* Load a warp's fragments of dy in one frame: right operands of the products for da ([outputs, positions]: by position)
 * and for dw2
 * ([positions, outputs]: by output). */
template <class T, int O> GPU_INLINE void load_by_position(uint32_t (&b)[4], const T *dy, int group, int j) {
    int i = threadIdx.x % 32 / 8, row = 16 * group + 8 * (i / 2) + threadIdx.x % 8;
    load_matrix_x4(b, dy + place_of<O>(row, 2 * j + i % 2));
}
template <class T, int O> GPU_INLINE void load_by_output(uint32_t (&b)[4], const T *dy, int group, int j) {
    int i = threadIdx.x % 32 / 8, row = 16 * group + 8 * (i % 2) + threadIdx.x % 8;
    load_matrix_x4_transposed(b, dy + place_of<O>(row, 2 * j + i / 2));
}

GPU_INLINE void words_of(uint32_t (&to)[4], const uint4 &from) {
    to[0] = from.x, to[1] = from.y, to[2] = from.z, to[3] = from.w;
}

/* A warp's share of the sums. */
template <class T, int O> struct Slice {
    int slice, group;
    uint32_t first[4], second[STEM_HALVING_TAPS][O / 16][4];
    float scale[2], shift[2], slope;
    float dw2[STEM_HALVING_TAPS][O / 8][4] = {}, s[2][4] = {};

    GPU_INLINE Slice(const OrderedLeft<O> &ordered, const StemParams<T> &params, const StemShape &shape, int slices)
        : slice(threadIdx.x / 32 % slices), group(threadIdx.x / 32 / slices), slope(shape.slope) {
        int lane = threadIdx.x % 32;
        words_of(first, ordered.first[slice][lane]);
#pragma unroll
        for (int tap = 0; tap < STEM_HALVING_TAPS; tap++)
#pragma unroll
            for (int j = 0; j < O / 16; j++) words_of(second[tap][j], ordered.second[tap][slice][j][lane]);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int c = 16 * slice + 8 * half + lane / 4;
            scale[half] = params.scale(shape, c), shift[half] = params.shift(shape, c);
        }
    }

    /* da [16 channels, 16 columns] and dw2: dy of a frame under a tap. */
    GPU_INLINE void add_tap(float (&da)[2][4], const uint32_t (&a)[4], const T *dy, int tap) {
        uint32_t b[4];
#pragma unroll
        for (int j = 0; j < O / 16; j++) {
            load_by_position<T, O>(b, dy, group, j);
            mma_16x8x16<T>(da[0], second[tap][j], b[0], b[1]);
            mma_16x8x16<T>(da[1], second[tap][j], b[2], b[3]);
            load_by_output<T, O>(b, dy, group, j);
            mma_16x8x16<T>(dw2[tap][2 * j], a, b[0], b[1]);
            mma_16x8x16<T>(dw2[tap][2 * j + 1], a, b[2], b[3]);
        }
    }

    /* A frame of the group's columns, x from the windows' first tap on. ODD frames are under two outputs, of which
     * `after` is the later one's dy. */
    template <bool ODD> GPU_INLINE void add_frame(const uint32_t *x, const T *dy, const T *after) {
        int tap = threadIdx.x % 4, row = threadIdx.x % 32 / 4;
        const uint32_t one = pack_pair<T>(1.0f, 0.0f);
        uint32_t windows[2][2], a[4], g[4];
        float v[2][4] = {}, da[2][4] = {};
#pragma unroll
        for (int n = 0; n < 2; n++) {
#pragma unroll
            for (int r = 0; r < 2; r++)
                windows[n][r] = r == 0 || tap < 3 ? x[(tap + 4 * r) * PIECE_PITCH + 16 * group + 8 * n + row] : one;
            mma_16x8x16<T>(v[n], first, windows[n][0], windows[n][1]);
#pragma unroll
            for (int i = 0; i < 4; i++) v[n][i] = __fmaf_rn(v[n][i], scale[i / 2], shift[i / 2]); /* as forward */
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float left = v[n][2 * half], right = v[n][2 * half + 1];
                a[2 * n + half] = pack_pair<T>(left > 0 ? left : slope * left, right > 0 ? right : slope * right);
            }
        }
        add_tap(da, a, dy, ODD ? 2 : 1);
        if constexpr (ODD) add_tap(da, a, after, 0);
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float left = da[n][2 * half], right = da[n][2 * half + 1];
                g[2 * n + half] = pack_pair<T>(v[n][2 * half] > 0 ? left : slope * left,
                                               v[n][2 * half + 1] > 0 ? right : slope * right);
            }
#pragma unroll
        for (int r = 0; r < 2; r++)
            mma_16x8x16<T>(s[r], g, transpose_matrix(windows[0][r]), transpose_matrix(windows[1][r]));
    }

    GPU_INLINE void store(float *part, const StemShape &shape) const {
        int lane = threadIdx.x % 32;
        float *sums = part + STEM_HALVING_TAPS * shape.c * shape.o;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int c = 16 * slice + 8 * half + lane / 4;
            if (c >= shape.c) continue;
#pragma unroll
            for (int tap = 0; tap < STEM_HALVING_TAPS; tap++)
#pragma unroll
                for (int i = 0; i < O / 8; i++)
                    if (8 * i < shape.o)
                        store_pack(part + (tap * shape.c + c) * shape.o + 8 * i + 2 * (lane % 4),
                                   Pack<float, 2>{{dw2[tap][i][2 * half], dw2[tap][i][2 * half + 1]}});
#pragma unroll
            for (int i = 0; i < 2; i++)
                store_pack(sums + c * 16 + 8 * i + 2 * (lane % 4),
                           Pack<float, 2>{{s[i][2 * half], s[i][2 * half + 1]}});
        }
    }
};

/* The item's dy, of PIECE + 1 outputs from `begin` on; zeros where there are none. */
template <class T, int O>
GPU_INLINE void load_gradients(T *tile, const T *dy, const StemShape &shape, int first_column, int begin, int across) {
    for (int at = threadIdx.x; at < across * (O / 8); at += blockDim.x) {
        int chunk = at % (O / 8), c = at / (O / 8);
        bool inside = first_column + c < shape.columns && 8 * chunk < shape.o;
        const T *from = dy + (shape.row(inside ? first_column + c : 0, shape.halved)) * shape.o + 8 * chunk;
#pragma unroll
        for (int i = 0; i <= PIECE; i++) {
            bool seen = inside && begin + i < shape.halved;
            copy_async_16(tile + place_of<O>(i * across + c, chunk),
                          seen ? from + (int64_t)(begin + i) * shape.plane * shape.o : dy, seen ? 16 : 0);
        }
    }
}

/* parts: of every group of every block the sums of its items, see stem_sums. Grid: blocks of `each` items, time
 * fastest. Threads: slices times groups of warps. Bytes: x and dy once, and of dy one frame in PIECE again, from L2;
 * 4 c (3 o + 16) a part. */
template <class T, int O>
__global__ void __launch_bounds__(128)
    stem_backward_kernel(float *parts, const T *dy, const T *x, const OrderedLeft<O> *ordered, StemParams<T> params,
                         StemShape shape, StemItems items, int slices) {
    only_where_used<T>();
    SHARED(T, gradients, [(PIECE + 1) * 16 * MOST_GROUPS * O]);
    SHARED(uint32_t, inputs, [PIECE_FRAMES][PIECE_PITCH]);
    int groups = blockDim.x / 32 / slices, across = 16 * groups, pieces = (shape.halved + PIECE - 1) / PIECE;
    Slice<T, O> own(*ordered, params, shape, slices);
    int first_item = blockIdx.x * items.each, end_item = min(first_item + items.each, items.items);
#pragma unroll 1
    for (int item = first_item; item < end_item; item++) {
        int column = item / pieces * across;
        int begin = item % pieces * PIECE, end = min(begin + PIECE, shape.halved);
        __syncthreads(); /* all are done with the item before */
        load_gradients<T, O>(gradients, dy, shape, column, begin, across);
        copy_async_commit();
        load_inputs<PIECE_FRAMES>(inputs, x, shape, column, 2 * begin - 3, across);
        copy_async_wait<0>();
        __syncthreads();
#pragma unroll 1
        for (int u = begin; u < end; u++) {
            const T *up = gradients + (u - begin) * across * O, *after = up + across * O;
            own.template add_frame<false>(inputs[2 * (u - begin)], up, after);
            if (2 * u + 1 < shape.frames) own.template add_frame<true>(inputs[2 * (u - begin) + 1], up, after);
        }
    }
    own.store(parts + (int64_t)(blockIdx.x * groups + own.group) * shape.sums, shape);
}

template <class T, int C, int O>
void launch_forward(Device *device, T *y, const T *x, const StemParams<T> &params, const StemShape &shape) {
    const char *op = "stem_forward";
    using Weights = Ordered<C, O>;
    constexpr int64_t FRAGMENTS = C / 8 + STEM_HALVING_TAPS * (C / 16) * (O / 8);
    Weights *ordered = (Weights *)cuda_scratch(device, sizeof *ordered);
    cuda_check(gpu_launch(order_weights<T, C, O>, grid_of(op, ceil_div(FRAGMENTS * 32, 128)), 128, 0,
                          cuda_stream(device), ordered, params, shape),
               op);
    dim3 grid(grid_of(op, ceil_div(shape.columns, ACROSS)), (unsigned)ceil_div(shape.halved, OUTPUTS));
    cuda_check(gpu_launch(stem_forward_kernel<T, C, O>, grid, 32 * WARPS, 0, cuda_stream(device), y, x,
                          (const Weights *)ordered, shape),
               op);
}

template <class T, int O>
int64_t launch_backward(Device *device, int64_t doubles, double **scratch, const T *dy, const T *x,
                        const StemParams<T> &params, const StemShape &shape) {
    const char *op = "stem_backward";
    constexpr int64_t FRAGMENTS = STEM_MAX_CHANNELS / 16 * (1 + STEM_HALVING_TAPS * (O / 16));
    int slices = (int)ceil_div(shape.c, 16), groups = slices > 2 ? 1 : MOST_GROUPS;
    StemItems items = stem_items(device, shape, 16 * groups, PIECE);
    int64_t parts = (int64_t)items.blocks * groups;
    /* c is a multiple of 8, so everything begins at a multiple of 16 bytes. */
    size_t before = (size_t)doubles * sizeof(double), sums = (size_t)(parts * shape.sums) * sizeof(float);
    size_t most = (size_t)(items.most * groups * shape.sums) * sizeof(float);
    char *memory = (char *)cuda_scratch(device, before + most + sizeof(OrderedLeft<O>));
    OrderedLeft<O> *ordered = (OrderedLeft<O> *)(memory + before + sums);
    *scratch = (double *)memory;
    cuda_check(gpu_launch(order_left<T, O>, grid_of(op, ceil_div(FRAGMENTS * 32, 128)), 128, 0, cuda_stream(device),
                          ordered, params, shape),
               op);
    cuda_check(gpu_launch(stem_backward_kernel<T, O>, grid_of(op, items.blocks), (unsigned)(32 * slices * groups), 0,
                          cuda_stream(device), (float *)(memory + before), dy, x, (const OrderedLeft<O> *)ordered,
                          params, shape, items, slices),
               op);
    return parts;
}

} // namespace

template <class T>
void StemLayers<T>::forward(Device *device, T *y, const T *x, const StemParams<T> &params, const StemShape &shape) {
    if (shape.c <= 32 && shape.o <= 32)
        launch_forward<T, 32, 32>(device, y, x, params, shape);
    else
        launch_forward<T, 64, 64>(device, y, x, params, shape);
}

template <class T>
int64_t StemLayers<T>::backward(Device *device, int64_t doubles, double **scratch, const T *dy, const T *x,
                                const StemParams<T> &params, const StemShape &shape) {
    return shape.o <= 32 ? launch_backward<T, 32>(device, doubles, scratch, dy, x, params, shape)
                         : launch_backward<T, 64>(device, doubles, scratch, dy, x, params, shape);
}

#ifdef CUDA_HALF_BF16
template struct StemLayers<bf16>;
#endif
#ifdef CUDA_HALF_F16
template struct StemLayers<f16>;
#endif
