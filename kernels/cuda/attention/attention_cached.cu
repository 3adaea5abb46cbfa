/* Attention of new rows over cached keys and values, and the copy that caches them. Memory limits both.
 *
 * A block has PART rows of one head of one sequence. A group of LANES neighbouring lanes reads a key and its value in
 * packs of W numbers, so a warp has 32 / LANES keys at once, and UNROLL times as many in flight. Every group keeps of
 * its keys the largest score m, the sum l of exp(score - m) and the output o; groups, then warps, are brought to the
 * same m and added. A sequence of more than PART rows leaves m, l and o of each part in scratch memory, for a second
 * kernel. Parts are counted from the first row of a sequence: its result does not depend on the other sequences, and
 * one sequence of 20 heads and 1,024 rows still fills a card with 160 blocks.
 *
 * Scores are multiplied by log2(e), so that an exponential is one ex2. */
#include <float.h>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/check_index.h"
#include "kernels/cuda/memory.h"

namespace {

enum { CACHED_WARPS = 4, CACHED_THREADS = 32 * CACHED_WARPS, CACHED_PART = 128 };
/* Blocks that a multiprocessor must have registers for; for more of them ptxas keeps registers in memory. */
enum { CACHED_BLOCKS = 4 };

/* The arguments of a call that are not tensors of numbers. */
struct CachedShape {
    const int *slots, *lengths; /* [count] */
    int count, n_heads, head_size, longest, parts;
    int64_t capacity, n_slots;
    float c; /* scale log2(e) */

    __host__ __device__ int64_t channels() const { return (int64_t)n_heads * head_size; }
};

/* How lanes share the HEAD columns of a key. */
template <int HEAD, int W> struct CachedLanes {
    static constexpr int LANES = HEAD / W < 32 ? HEAD / W : 32, PACKS = HEAD / W / LANES;
    static constexpr int STEP = CACHED_WARPS * 32 / LANES; /* keys that a block reads at once */
    static constexpr int UNROLL = CACHED_PART / STEP < 4 ? CACHED_PART / STEP : 4;
};

/* A lane's m, l and the columns of o that are its own. */
template <int W, int PACKS> struct CachedSums {
    float largest, sum;
    Pack<float, W> o[PACKS];
};

/* The columns of a row that a lane has; zeros behind the head's end. */
template <int HEAD, int W, class T>
GPU_INLINE void load_columns(Pack<float, W> (&x)[CachedLanes<HEAD, W>::PACKS], const T *row, int head_size) {
    using Lanes = CachedLanes<HEAD, W>;
#pragma unroll
    for (int p = 0; p < Lanes::PACKS; p++) {
        int column = (p * Lanes::LANES + (int)threadIdx.x % Lanes::LANES) * W;
        x[p] = column < head_size ? convert<float>(load_pack<W>(row + column)) : zeros<W>();
    }
}

/* Brings the sums to `top`, which is at least their largest score. */
template <int W, int PACKS> GPU_INLINE void raise(CachedSums<W, PACKS> &sums, float top) {
    float shrink = exp2_approximate(sums.largest - top);
    sums.largest = top;
    sums.sum *= shrink;
#pragma unroll
    for (int p = 0; p < PACKS; p++)
#pragma unroll
        for (int i = 0; i < W; i++) sums.o[p][i] *= shrink;
}

/* Adds rows key, key + STEP, .. to a lane's sums, UNROLL of them; rows from n on, which are not there, count nothing:
 * row n - 1 is read in their place. */
template <class T, int HEAD, int W>
GPU_INLINE void add_keys(CachedSums<W, CachedLanes<HEAD, W>::PACKS> &sums,
                         const Pack<float, W> (&q)[CachedLanes<HEAD, W>::PACKS], const T *k_rows, int key, int n,
                         const CachedShape &a) {
    using Lanes = CachedLanes<HEAD, W>;
    constexpr int PACKS = Lanes::PACKS, UNROLL = Lanes::UNROLL;
    Pack<float, W> k[UNROLL][PACKS], v[UNROLL][PACKS];
    float score[UNROLL], top = sums.largest;
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const T *row = k_rows + (int64_t)min(key + u * Lanes::STEP, n - 1) * 2 * a.channels();
        load_columns<HEAD, W>(k[u], row, a.head_size);
        load_columns<HEAD, W>(v[u], row + a.channels(), a.head_size);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        float dot = 0;
#pragma unroll
        for (int p = 0; p < PACKS; p++)
#pragma unroll
            for (int i = 0; i < W; i++) dot = fmaf(q[p][i], k[u][p][i], dot);
#pragma unroll
        for (int distance = Lanes::LANES / 2; distance; distance /= 2)
            dot += __shfl_xor_sync(0xFFFFFFFFu, dot, distance);
        score[u] = dot * a.c;
        if (key + u * Lanes::STEP < n) top = fmaxf(top, score[u]);
    }
    raise(sums, top);
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        float probability = key + u * Lanes::STEP < n ? exp2_approximate(score[u] - top) : 0.0f;
        sums.sum += probability;
#pragma unroll
        for (int p = 0; p < PACKS; p++)
#pragma unroll
            for (int i = 0; i < W; i++) sums.o[p][i] = fmaf(probability, v[u][p][i], sums.o[p][i]);
    }
}

/* Adds up the groups of a warp; every group gets the sums. */
template <int HEAD, int W> GPU_INLINE void add_groups(CachedSums<W, CachedLanes<HEAD, W>::PACKS> &sums) {
    using Lanes = CachedLanes<HEAD, W>;
    float top = sums.largest;
#pragma unroll
    for (int distance = 16; distance >= Lanes::LANES; distance /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, distance));
    raise(sums, top);
#pragma unroll
    for (int distance = 16; distance >= Lanes::LANES; distance /= 2) {
        sums.sum += __shfl_xor_sync(0xFFFFFFFFu, sums.sum, distance);
#pragma unroll
        for (int p = 0; p < Lanes::PACKS; p++)
#pragma unroll
            for (int i = 0; i < W; i++) sums.o[p][i] += __shfl_xor_sync(0xFFFFFFFFu, sums.o[p][i], distance);
    }
}

/* m, l and o of a warp in shared memory, or of a part in scratch memory, is a state: HEAD floats of o, m and l, and two
 * floats of padding. */
template <int HEAD> constexpr int STATE = HEAD + 4;

/* Returns the sum of n states, of whose o one column. */
struct CombinedState {
    float o, largest, sum;
};
template <int HEAD> GPU_INLINE CombinedState combine_states(const float *states, int n, int column) {
    CombinedState c = {0, -FLT_MAX, 0};
    for (int i = 0; i < n; i++) c.largest = fmaxf(c.largest, states[i * STATE<HEAD> + HEAD]);
    for (int i = 0; i < n; i++) {
        const float *state = states + i * STATE<HEAD>;
        float factor = exp2_approximate(state[HEAD] - c.largest);
        c.sum = fmaf(factor, state[HEAD + 1], c.sum);
        c.o = fmaf(factor, state[column], c.o);
    }
    return c;
}

/* Grid: parts x sequences x heads, heads fastest, because their columns are neighbours. Bytes: 2 C the size of T a row
 * of a sequence, and per part of a sequence of several parts HEAD + 4 floats. */
template <class T, int HEAD, int W>
__global__ void __launch_bounds__(CACHED_THREADS, CACHED_BLOCKS)
    attention_cached_kernel(T *out, float *states, const T *qkv, const T *kv, CachedShape a) {
    only_where_used<T>();
    using Lanes = CachedLanes<HEAD, W>;
    SHARED(float, warps, [CACHED_WARPS][STATE<HEAD>]);
    const int head = (int)blockIdx.x % a.n_heads, s = (int)blockIdx.x / a.n_heads % a.count,
              part = (int)blockIdx.x / a.n_heads / a.count, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int length = a.lengths[s], slot = a.slots[s], first = part * CACHED_PART;
    check_index("attention_cached_forward: slots", s, slot, a.n_slots);
    check_index("attention_cached_forward: lengths less 1", s, length - 1, a.longest);
    if (first >= length) return;

    const int64_t c = a.channels(), column = (int64_t)head * a.head_size;
    const T *k_rows = kv + (slot * a.capacity + first) * 2 * c + column;
    const int n = min((int)CACHED_PART, length - first);
    Pack<float, W> q[Lanes::PACKS];
    CachedSums<W, Lanes::PACKS> sums;
    sums.largest = -FLT_MAX, sums.sum = 0;
#pragma unroll
    for (int p = 0; p < Lanes::PACKS; p++) sums.o[p] = zeros<W>();
    load_columns<HEAD, W>(q, qkv + s * 3 * c + column, a.head_size);
    for (int key = 0; key < n; key += Lanes::UNROLL * Lanes::STEP)
        add_keys<T, HEAD, W>(sums, q, k_rows, key + (int)threadIdx.x / Lanes::LANES, n, a);
    add_groups<HEAD, W>(sums);

    if (lane < Lanes::LANES) {
#pragma unroll
        for (int p = 0; p < Lanes::PACKS; p++) put_pack(&warps[warp][(p * Lanes::LANES + lane) * W], sums.o[p]);
        if (lane == 0) warps[warp][HEAD] = sums.largest, warps[warp][HEAD + 1] = sums.sum;
    }
    __syncthreads();
    const int i = threadIdx.x;
    if (i >= a.head_size) return;
    CombinedState all = combine_states<HEAD>(warps[0], CACHED_WARPS, i);
    if (length <= CACHED_PART) {
        out[s * c + column + i] = from_float<T>(all.o / all.sum);
        return;
    }
    float *state = states + (((int64_t)s * a.n_heads + head) * a.parts + part) * STATE<HEAD>;
    state[i] = all.o;
    if (i == 0) state[HEAD] = all.largest, state[HEAD + 1] = all.sum;
}

/* Combines the parts of sequences that have several. Grid: sequences x heads, a thread a column. Bytes: HEAD + 4 floats
 * a part. */
template <class T, int HEAD>
__global__ void __launch_bounds__(HEAD < 32 ? 32 : HEAD)
    attention_cached_parts_kernel(T *out, const float *states, CachedShape a) {
    only_where_used<T>();
    const int head = (int)blockIdx.x % a.n_heads, s = (int)blockIdx.x / a.n_heads, i = threadIdx.x;
    const int length = a.lengths[s];
    if (length <= CACHED_PART || i >= a.head_size) return;
    CombinedState all = combine_states<HEAD>(states + (int64_t)blockIdx.x * a.parts * STATE<HEAD>,
                                             (length + CACHED_PART - 1) / CACHED_PART, i);
    out[s * a.channels() + (int64_t)head * a.head_size + i] = from_float<T>(all.o / all.sum);
}

template <class T, int HEAD>
void attend_to_cache(Device *device, Tensor out, Tensor qkv, Tensor kv, const CachedShape &a) {
    const char *op = "attention_cached_forward";
    constexpr int WIDTH = 16 / sizeof(T);
    int64_t items = (int64_t)a.count * a.n_heads;
    size_t bytes = a.parts > 1 ? (size_t)(items * a.parts * STATE<HEAD>)*sizeof(float) : 0;
    float *states = bytes ? (float *)cuda_scratch(device, bytes) : NULL;
    with_width<WIDTH>(packs_fit(WIDTH, a.head_size, qkv.data, kv.data), [&](auto width) {
        constexpr int W = decltype(width)::value;
        cuda_check(gpu_launch(attention_cached_kernel<T, HEAD, W>, grid_of(op, items * a.parts), CACHED_THREADS, 0,
                              cuda_stream(device), (T *)out.data, states, (const T *)qkv.data, (const T *)kv.data, a),
                   op);
    });
    if (a.parts > 1)
        cuda_check(gpu_launch(attention_cached_parts_kernel<T, HEAD>, grid_of(op, items), HEAD < 32 ? 32 : HEAD, 0,
                              cuda_stream(device), (T *)out.data, states, a),
                   op);
}

/* kv[rows[i]] = k | v of qkv[i], a warp a row. Grid: n / CACHED_WARPS. Bytes: 4 C the size of T and 4 a row. */
template <class T, int W>
__global__ void __launch_bounds__(CACHED_THREADS)
    cache_rows_kernel(T *kv, const T *qkv, const int *rows, int64_t n, int64_t n_rows, int64_t c) {
    int64_t i = (int64_t)blockIdx.x * CACHED_WARPS + threadIdx.x / 32;
    if (i >= n) return;
    int64_t row = rows[i];
    check_index("cache_rows: rows", i, row, n_rows);
#pragma unroll 4
    for (int64_t j = threadIdx.x % 32 * W; j < 2 * c; j += 32 * W)
        store_pack(kv + row * 2 * c + j, load_pack<W>(qkv + i * 3 * c + c + j));
}

} // namespace

void cuda_cache_rows(Device *device, Tensor kv, Tensor qkv, Tensor rows) {
    int64_t n = qkv.dims[0], c = qkv.dims[1] / 3;
    if (n == 0 || c == 0) return;
    with_packs(qkv.dtype, c, {kv.data, qkv.data}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int W = decltype(width)::value;
        cuda_check(gpu_launch(cache_rows_kernel<T, W>, grid_of("cache_rows", ceil_div(n, CACHED_WARPS)), CACHED_THREADS,
                              0, cuda_stream(device), (T *)kv.data, (const T *)qkv.data, (const int *)rows.data, n,
                              kv.dims[0], c),
                   "cache_rows");
    });
}

void cuda_attention_cached_forward(Device *device, Tensor out, Tensor qkv, CachedKeys keys, Attention attention) {
    CachedShape a = {};
    a.slots = (const int *)keys.slots.data;
    a.lengths = (const int *)keys.lengths.data;
    a.count = (int)out.dims[0];
    a.n_heads = attention.n_heads;
    a.head_size = (int)(out.dims[1] / attention.n_heads);
    a.longest = (int)keys.longest;
    a.parts = (int)ceil_div(keys.longest, CACHED_PART);
    a.capacity = keys.capacity;
    a.n_slots = keys.kv.dims[0] / keys.capacity;
    a.c = attention.scale * 1.44269504f;
    check_head_size(a.head_size);
    if (a.count == 0) return;
    with_type(out.dtype, [&](auto zero) {
        with_head(a.head_size, [&](auto head) {
            attend_to_cache<decltype(zero), decltype(head)::value>(device, out, qkv, keys.kv, a);
        });
    });
}
