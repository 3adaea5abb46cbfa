/* Attention backward, deterministic: every sum has one owner and one order.
 *
 *     P = exp(scale S - lse),  dS = P (M dO V^T - D),  D = rowsum(dO O),  M the dropout factors
 *     dV = (P M)^T dO,  dK = scale dS^T Q,  dQ = scale dS K
 *
 * Batches of nothing but short sequences take attention_short.h. For the others D comes first, from a small kernel.
 * Then 16-bit types take tensor cores, in one kernel that computes each tile of S and dP once for all three gradients;
 * f32, and heads whose size is no multiple of 8, take attention_fma.h. */
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_fma.h"
#include "kernels/cuda/attention/attention_short.h"

/* Computes D [n_heads, N]: LANES lanes share a head of a row, 16 bytes each. Reads out and dout once: 2 N C numbers. */
template <class T, int LANES>
__global__ void __launch_bounds__(256)
    attention_dots_kernel(float *dots, const T *dout, const T *out, AttentionShape a) {
    only_where_used<T>();
    constexpr int SIZE = Vector<T>::SIZE;
    int64_t item = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / LANES; /* row, head */
    int column = threadIdx.x % LANES * SIZE;
    bool inside = item < (int64_t)a.n_tokens * a.n_heads;
    int64_t at = inside ? item * a.head_size + column : 0;
    float sum = 0;
    if (inside && a.head_size % SIZE == 0 && column < a.head_size) {
        Vector<T> x = load_vector(dout + at), y = load_vector(out + at);
#pragma unroll
        for (int i = 0; i < SIZE; i++) sum = fmaf(to_float(x[i]), to_float(y[i]), sum);
    } else if (inside) {
        for (int i = 0; i < SIZE && column + i < a.head_size; i++)
            sum = fmaf(to_float(dout[at + i]), to_float(out[at + i]), sum);
    }
#pragma unroll
    for (int lanes = LANES / 2; lanes; lanes /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, lanes);
    if (inside && column == 0) dots[item % a.n_heads * a.n_tokens + item / a.n_heads] = sum;
}

/* ---- tensor cores ----
 *
 * A block has KEYS = 16 WARPS keys of one head, 16 a warp, and walks over the queries that see them, QUERIES at a time.
 * It works with S^T and dP^T, keys down and queries across: then what these products leave in a lane is what dV += P^T
 * dO and dK += dS^T Q want there, and P never leaves the registers. Only dQ += dS K sums over the keys of all warps: dS
 * goes through shared memory, and each warp computes its share of dQ's [QUERIES, HEAD].
 *
 *     wait for Q, dO    S^T = K Q^T, P; dP^T = V dO^T, dS; dV += P^T dO; dS to shared memory    the next Q arrives
 *     barrier           dK += dS^T Q; dQ += dS K                                                the next dO arrives
 *
 * dQ is a sum over tiles of keys too. One block takes every parts'th tile of a sequence in ascending order and adds to
 * its part's own f32 copy of dQ, in the fragments' order: a lane reads and writes 16 bytes that nobody else touches. It
 * reads them before dK's product, which hides the way to the L2. With one part the last tile that a query sees writes
 * dQ itself; with more, a small kernel adds the parts. So 5 products, not the 7 of separate kernels for dQ and for dK
 * and dV, for 8 QUERIES HEAD bytes of mostly L2 traffic a tile. There are just enough parts to fill the card twice.
 *
 * For 64 queries and heads of 64 a warp moves 46 KB out of shared memory for its 327,680 multiply-adds: 115 % of what
 * an A100 can load in the time it multiplies, 57 % where there are half as many multiply-adds a cycle (8.9), less on
 * cards that sum in f32 at half that rate. These are counts, not measurements.
 * Registers: dK, dV and the tiles of S and dP are HEAD + QUERIES = 128 (160 for heads of 128) of 255.
 *
 * grid     sequences x parts x heads, heads fastest; the longest sequence first, whose work grows with its square
 * shared   K, V [KEYS], Q [2 QUERIES], dO [QUERIES] of HEAD; dS [KEYS, QUERIES]: heads of 64 with 8 warps 73 KB, with 4
 *          49 KB, two blocks on a multiprocessor; of 128 with 8 warps 97 KB, with 4 (Turing) 61 KB */
template <int HEAD, int WARPS> struct BackwardTiles {
    static constexpr int KEYS = 16 * WARPS, QUERIES = HEAD == 128 ? 32 : 64, THREADS = 32 * WARPS;
    static constexpr size_t BYTES =
        2 * ((size_t)(2 * KEYS + 3 * QUERIES) * HEAD + (size_t)KEYS * QUERIES) + 4 * QUERIES * sizeof(float);
    /* A warp's share of dQ: 16 rows, COLUMNS columns. */
    static constexpr int ROW_BLOCKS = QUERIES / 16, COLUMNS = HEAD / (WARPS / ROW_BLOCKS);
    /* Computed at once: all of them reuse dS's fragments best, but beside heads of 128 there are few registers left. */
    static constexpr int PASS = HEAD == 128 ? 32 : COLUMNS;
    static_assert(COLUMNS % PASS == 0 && PASS % 16 == 0 && THREADS >= QUERIES, "too many warps for the tile");
};

/* The tensors that the kernels of the backward read and write. */
template <class T> struct BackwardTensors {
    T *dqkv;
    const T *dout, *qkv;
    const float *lse, *dots;
    float *partial; /* [parts, n_heads, slots of QUERIES rows, QUERIES HEAD in the order of fragments] */
    int parts;
};

template <class T, int HEAD, int WARPS>
GPU_INLINE float *partial_tile(const BackwardTensors<T> &g, const AttentionShape &a, int part, int head, int slot) {
    using Tiles = BackwardTiles<HEAD, WARPS>;
    int64_t tile = ((int64_t)part * a.n_heads + head) * a.slots(Tiles::QUERIES) + slot;
    return g.partial + tile * Tiles::QUERIES * HEAD + 4 * (int)threadIdx.x;
}

template <int N, int THREADS> GPU_INLINE void add_partial(float (&dq)[N][4], const float *partial) {
#pragma unroll
    for (int n = 0; n < N; n++) {
        float4 x = *reinterpret_cast<const float4 *>(partial + n * 4 * THREADS);
        dq[n][0] += x.x;
        dq[n][1] += x.y;
        dq[n][2] += x.z;
        dq[n][3] += x.w;
    }
}

/* Writes 8 N columns, from `column` on, of a warp's share of dQ, once for each query. */
template <class T, int HEAD, int WARPS, int N>
GPU_INLINE void store_dq(const BackwardTensors<T> &g, const AttentionShape &a, int head, int start, int first,
                         int length, int column, const float (&dq)[N][4]) {
    using Tiles = BackwardTiles<HEAD, WARPS>;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    column += warp / Tiles::ROW_BLOCKS * Tiles::COLUMNS + lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = first + warp % Tiles::ROW_BLOCKS * 16 + 8 * half + lane / 4;
        T *to = g.dqkv + (int64_t)(start + row) * a.width() + head * a.head_size + column;
#pragma unroll
        for (int n = 0; n < N; n++)
            if (row < length && column + 8 * n < a.head_size)
                *reinterpret_cast<uint32_t *>(to + 8 * n) =
                    pack_pair<T>(dq[n][2 * half] * a.scale, dq[n][2 * half + 1] * a.scale);
    }
}

/* x^T [16, QUERIES] of a warp: its own 16 rows, [16, HEAD], times all of other's. */
template <class T, int HEAD, int QUERIES>
GPU_INLINE void backward_scores(float (&x)[QUERIES / 8][4], const T *own, const T *other, int down, int across) {
#pragma unroll
    for (int n = 0; n < QUERIES / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) x[n][e] = 0;
#pragma unroll 2 /* more, and loads move so far ahead that registers run out */
    for (int c = 0; c < HEAD / 16; c++) {
        uint32_t f[4];
        load_fragment<HEAD>(f, own, down, 0, 16 * c);
#pragma unroll
        for (int n = 0; n < QUERIES / 16; n++) {
            uint32_t b[4];
            load_fragment<HEAD>(b, other, across, 16 * n, 16 * c);
            mma_16x8x16<T>(x[2 * n], f, b[0], b[1]);
            mma_16x8x16<T>(x[2 * n + 1], f, b[2], b[3]);
        }
    }
}

/* sum [16, HEAD] += x^T other: dV and dK. */
template <class T, int HEAD, int QUERIES>
GPU_INLINE void backward_product(float (&sum)[HEAD / 8][4], const uint32_t (&x)[QUERIES / 16][4], const T *other,
                                 int down) {
#pragma unroll
    for (int k = 0; k < QUERIES / 16; k++)
#pragma unroll
        for (int n = 0; n < HEAD / 16; n++) {
            uint32_t b[4];
            load_fragment_transposed<HEAD>(b, other, down, 16 * k, 16 * n);
            mma_16x8x16<T>(sum[2 * n], x[k], b[0], b[1]);
            mma_16x8x16<T>(sum[2 * n + 1], x[k], b[2], b[3]);
        }
}

/* Dropout mask of a lane's numbers of x^T [16, QUERIES]: bit 4 n + u of kept[e] is for x[n][e], u = lane / 4 % 4.
 * Four lanes with the same queries hold keys that follow each other, for two queries and two such groups of keys: each
 * draws the numbers of one of these four, and they exchange the results, a bit each. */
template <int QUERIES>
GPU_INLINE void backward_dropout(uint32_t (&kept)[4], const AttentionShape &a, int head, int row, int key) {
    int lane = threadIdx.x % 32, u = lane / 4 % 4;
    uint32_t mine = 0;
#pragma unroll
    for (int n = 0; n < QUERIES / 8; n++)
        mine |= keep_four(a, head, row + 8 * n + lane % 4 * 2 + u % 2, key + lane / 16 * 4 + u / 2 * 8) << 4 * n;
#pragma unroll
    for (int e = 0; e < 4; e++) kept[e] = __shfl_sync(0xFFFFFFFFu, mine, (lane & ~12) | e * 4);
}

/* The part of a sequence's keys that a block has: its rows of the tensors begin at query and key 0 of the sequence. */
template <class T> struct BackwardRows {
    int head, part, sequence, start, length;
    const T *q, *k, *up; /* v follows k by the channels of all heads */
    float c;             /* scale log2(e) */
};

template <class T> GPU_INLINE BackwardRows<T> backward_rows(const BackwardTensors<T> &g, const AttentionShape &a) {
    BackwardRows<T> r;
    r.head = (int)blockIdx.x % a.n_heads;
    r.part = (int)blockIdx.x / a.n_heads % g.parts;
    r.sequence = longest_sequence(a, (int)blockIdx.x / a.n_heads / g.parts);
    r.start = a.offsets[r.sequence];
    r.length = a.offsets[r.sequence + 1] - r.start;
    r.q = g.qkv + (int64_t)r.start * a.width() + r.head * a.head_size;
    r.k = r.q + a.channels();
    r.up = g.dout + (int64_t)r.start * a.channels() + r.head * a.head_size;
    r.c = a.scale * 1.44269504f;
    return r;
}

/* A block's tiles in shared memory: K, V, two of Q, dO, dS, and for each query of both stages lse log2(e) and D. */
template <class T, int HEAD, int WARPS> struct BackwardMemory {
    T *k, *v, *q, *up, *ds;
    float *lse, *dots;
    GPU_INLINE explicit BackwardMemory(T *shared) {
        using Tiles = BackwardTiles<HEAD, WARPS>;
        k = shared, v = k + Tiles::KEYS * HEAD, q = v + Tiles::KEYS * HEAD;
        up = q + 2 * Tiles::QUERIES * HEAD, ds = up + Tiles::QUERIES * HEAD;
        lse = reinterpret_cast<float *>(ds + Tiles::KEYS * Tiles::QUERIES), dots = lse + 2 * Tiles::QUERIES;
    }
};

/* copy_tile of ROWS rows from row `first` of a sequence's `length` on. */
template <int ROWS, int COLUMNS, int THREADS, class T>
GPU_INLINE void copy_rows(T *tile, const T *rows, int stride, int first, int length, int head_size) {
    copy_tile<ROWS, COLUMNS, THREADS>(tile, rows + (int64_t)first * stride, stride, length - first, head_size);
}

/* A thread's query: lse log2(e) and D. A row past the end has an infinite lse, so that its P is 0. */
struct QueryStatistics {
    float log_sum, dot;
};

/* Reads the statistics of query first + thread. */
template <int QUERIES, class T>
GPU_INLINE QueryStatistics load_statistics(const BackwardTensors<T> &g, const AttentionShape &a,
                                           const BackwardRows<T> &r, int first) {
    bool inside = threadIdx.x < QUERIES && first + (int)threadIdx.x < r.length;
    int64_t at = (int64_t)r.head * a.n_tokens + r.start + first + threadIdx.x;
    return {inside ? g.lse[at] * 1.44269504f : INFINITY, inside ? g.dots[at] : 0.0f};
}

template <int QUERIES> GPU_INLINE void store_statistics(float *lse, float *dots, int stage, QueryStatistics x) {
    if (threadIdx.x < QUERIES) {
        lse[stage * QUERIES + threadIdx.x] = x.log_sum;
        dots[stage * QUERIES + threadIdx.x] = x.dot;
    }
}

/* Turns the scores of 16 keys from `key` on with QUERIES queries from `first` on into P = exp2(c S - lse), 0 where the
 * query does not see the key. lse: of the tile's queries. */
template <int QUERIES, class T>
GPU_INLINE void backward_probabilities(float (&s)[QUERIES / 8][4], const float *lse, const AttentionShape &a,
                                       const BackwardRows<T> &r, int first, int key) {
    const int lane = threadIdx.x % 32;
    const bool edge = key + 16 > (a.causal ? min(first + 1, r.length) : r.length);
#pragma unroll
    for (int n = 0; n < QUERIES / 8; n++) {
        int q = 8 * n + lane % 4 * 2;
        float2 sums = *reinterpret_cast<const float2 *>(lse + q);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            s[n][e] = exp2_approximate(fmaf(s[n][e], r.c, e % 2 ? -sums.y : -sums.x));
            if (edge) { /* keys past the end score 0, which exp can make infinite: they must go, too */
                int seen = a.causal ? min(first + q + e % 2 + 1, r.length) : r.length;
                if (key + e / 2 * 8 + lane / 4 >= seen) s[n][e] = 0;
            }
        }
    }
}

/* Makes the fragments of P, with dropout, and of dS = P (dP - D) from P and dP = V dO^T, and writes dS into the warp's
 * rows of its tile. dots: D of the tile's queries; kept: from backward_dropout. */
template <class T, int QUERIES, bool DROPOUT>
GPU_INLINE void backward_softmax(uint32_t (&p)[QUERIES / 16][4], uint32_t (&ds)[QUERIES / 16][4], T *ds_tile,
                                 const float (&s)[QUERIES / 8][4], float (&dp)[QUERIES / 8][4], const float *dots,
                                 const uint32_t (&kept)[4], float scale) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < QUERIES / 8; n++) {
        float2 d = *reinterpret_cast<const float2 *>(dots + 8 * n + lane % 4 * 2);
        float dropped[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            bool keep = !DROPOUT || (kept[e] >> (4 * n + lane / 4 % 4) & 1);
            float up = DROPOUT ? (keep ? dp[n][e] * scale : 0.0f) : dp[n][e];
            dropped[e] = keep ? s[n][e] : 0.0f;
            dp[n][e] = s[n][e] * (up - (e % 2 ? d.y : d.x));
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int at = n % 2 * 2 + half;
            p[n / 2][at] = pack_pair<T>(dropped[2 * half], dropped[2 * half + 1]);
            ds[n / 2][at] = pack_pair<T>(dp[n][2 * half], dp[n][2 * half + 1]);
            *reinterpret_cast<uint32_t *>(ds_tile + piece_at<QUERIES>(16 * warp + 8 * half + lane / 4, n) +
                                          lane % 4 * 2) = ds[n / 2][at];
        }
    }
}

/* Makes P and dS of a warp's 16 keys, from `key` on, with the queries from `first` on: adds P^T dO to dv, leaves the
 * fragments of dS^T in ds, and dS in the warp's rows of its tile. */
template <class T, int HEAD, int WARPS, bool DROPOUT>
GPU_INLINE void backward_keys(float (&dv)[HEAD / 8][4], uint32_t (&ds)[BackwardTiles<HEAD, WARPS>::QUERIES / 16][4],
                              const BackwardMemory<T, HEAD, WARPS> &m, const AttentionShape &a,
                              const BackwardRows<T> &r, int first, int key, int stage) {
    constexpr int QUERIES = BackwardTiles<HEAD, WARPS>::QUERIES;
    const int warp = threadIdx.x / 32, down = lane_down<HEAD>(), across = lane_across<HEAD>();
    float s[QUERIES / 8][4], dp[QUERIES / 8][4];
    uint32_t p[QUERIES / 16][4], kept[4];
    backward_scores<T, HEAD, QUERIES>(s, m.k + 16 * warp * HEAD, m.q + stage * QUERIES * HEAD, down, across);
    backward_probabilities<QUERIES>(s, m.lse + stage * QUERIES, a, r, first, key);
    backward_scores<T, HEAD, QUERIES>(dp, m.v + 16 * warp * HEAD, m.up, down, across);
    if (DROPOUT) backward_dropout<QUERIES>(kept, a, r.head, r.start + first, key);
    backward_softmax<T, QUERIES, DROPOUT>(p, ds, m.ds, s, dp, m.dots + stage * QUERIES, kept, a.keep);
    backward_product<T, HEAD, QUERIES>(dv, p, m.up, down);
}

/* dQ += dS K over the tile's first `keys` keys: PASS columns, from `column` on, of a warp's share. */
template <class T, int HEAD, int WARPS>
GPU_INLINE void backward_queries(float (&dq)[BackwardTiles<HEAD, WARPS>::PASS / 8][4],
                                 const BackwardMemory<T, HEAD, WARPS> &m, int keys, int column) {
    using Tiles = BackwardTiles<HEAD, WARPS>;
    const int warp = threadIdx.x / 32, row = warp % Tiles::ROW_BLOCKS * 16, steps = min((keys + 15) / 16, WARPS);
    const int down = lane_down<HEAD>(), ds_across = lane_across<Tiles::QUERIES>();
#pragma unroll 2
    for (int k = 0; k < steps; k++) {
        uint32_t f[4];
        load_fragment_transposed<Tiles::QUERIES>(f, m.ds + 16 * k * Tiles::QUERIES, ds_across, 0, row);
#pragma unroll
        for (int n = 0; n < Tiles::PASS / 16; n++) {
            uint32_t b[4];
            load_fragment_transposed<HEAD>(b, m.k + 16 * k * HEAD, down, 0,
                                           warp / Tiles::ROW_BLOCKS * Tiles::COLUMNS + column + 16 * n);
            mma_16x8x16<T>(dq[2 * n], f, b[0], b[1]);
            mma_16x8x16<T>(dq[2 * n + 1], f, b[2], b[3]);
        }
    }
}

template <int N, int THREADS> GPU_INLINE void store_partial(float *partial, const float (&dq)[N][4]) {
#pragma unroll
    for (int n = 0; n < N; n++)
        *reinterpret_cast<float4 *>(partial + n * 4 * THREADS) = make_float4(dq[n][0], dq[n][1], dq[n][2], dq[n][3]);
}

/* Writes dK and dV of a warp's 16 keys, from `key` on, by way of its own rows of K's and V's tiles. */
template <class T, int HEAD, int WARPS, bool DROPOUT>
GPU_INLINE void store_dk_dv(const BackwardTensors<T> &g, const AttentionShape &a, const BackwardRows<T> &r, int key,
                            const BackwardMemory<T, HEAD, WARPS> &m, const float (&dk)[HEAD / 8][4],
                            const float (&dv)[HEAD / 8][4]) {
    const int own = 16 * (int)(threadIdx.x / 32) * HEAD;
    T *dk_rows = g.dqkv + (int64_t)(r.start + key) * a.width() + a.channels() + r.head * a.head_size;
    const float dk_scale[1][2] = {{a.scale, a.scale}}, keep = DROPOUT ? a.keep : 1.0f, dv_scale[1][2] = {{keep, keep}};
    store_rows<16, HEAD>(dk_rows, a.width(), r.length - key, a.head_size, m.k + own,
                         reinterpret_cast<const float(&)[1][HEAD / 8][4]>(dk), dk_scale);
    store_rows<16, HEAD>(dk_rows + a.channels(), a.width(), r.length - key, a.head_size, m.v + own,
                         reinterpret_cast<const float(&)[1][HEAD / 8][4]>(dv), dv_scale);
}

template <class T, int HEAD, int WARPS, bool DROPOUT>
__global__ void __launch_bounds__(32 * WARPS, 8 / WARPS)
    attention_backward_kernel(BackwardTensors<T> g, AttentionShape a) {
    only_on_tensor_cores<T>();
    using Tiles = BackwardTiles<HEAD, WARPS>;
    constexpr int KEYS = Tiles::KEYS, QUERIES = Tiles::QUERIES, THREADS = Tiles::THREADS, PASS = Tiles::PASS;
    DYNAMIC_SHARED(T, shared);
    const BackwardMemory<T, HEAD, WARPS> m(shared);
    const BackwardRows<T> r = backward_rows(g, a);
    const int width = (int)a.width(), channels = a.channels();

    for (int key = r.part * KEYS; key < r.length; key += g.parts * KEYS) {
        const int my_key = key + 16 * (int)(threadIdx.x / 32), begin = a.causal ? key / QUERIES * QUERIES : 0;
        float dk[HEAD / 8][4] = {}, dv[HEAD / 8][4] = {};
        __syncthreads(); /* nobody needs the tiles of the keys before */
        copy_rows<KEYS, HEAD, THREADS>(m.k, r.k, width, key, r.length, a.head_size);
        copy_rows<KEYS, HEAD, THREADS>(m.v, r.k + channels, width, key, r.length, a.head_size);
        copy_rows<QUERIES, HEAD, THREADS>(m.q, r.q, width, begin, r.length, a.head_size);
        copy_rows<QUERIES, HEAD, THREADS>(m.up, r.up, channels, begin, r.length, a.head_size);
        copy_async_commit();
        QueryStatistics statistics = load_statistics<QUERIES>(g, a, r, begin);
        store_statistics<QUERIES>(m.lse, m.dots, 0, statistics);

        for (int first = begin, stage = 0; first < r.length; first += QUERIES, stage ^= 1) {
            const int next = first + QUERIES, limit = a.causal ? min(next, r.length) : r.length; /* of keys seen */
            uint32_t ds[QUERIES / 16][4];
            copy_async_wait<0>();
            __syncthreads(); /* Q, dO and their statistics are there, and nobody reads dS any more */
            if (next < r.length) {
                copy_rows<QUERIES, HEAD, THREADS>(m.q + (stage ^ 1) * QUERIES * HEAD, r.q, width, next, r.length,
                                                  a.head_size);
                copy_async_commit();
                statistics = load_statistics<QUERIES>(g, a, r, next);
            }
            if (my_key < limit) backward_keys<T, HEAD, WARPS, DROPOUT>(dv, ds, m, a, r, first, my_key, stage);
            __syncthreads(); /* dS is there, and nobody reads dO any more */
            if (next < r.length) {
                copy_rows<QUERIES, HEAD, THREADS>(m.up, r.up, channels, next, r.length, a.head_size);
                copy_async_commit();
                store_statistics<QUERIES>(m.lse, m.dots, stage ^ 1, statistics);
            }
            float *partial =
                partial_tile<T, HEAD, WARPS>(g, a, r.part, r.head, r.start / QUERIES + r.sequence + first / QUERIES);
#pragma unroll
            for (int column = 0; column < Tiles::COLUMNS; column += PASS, partial += PASS / 8 * 4 * THREADS) {
                float dq[PASS / 8][4] = {};
                if (key != r.part * KEYS) add_partial<PASS / 8, THREADS>(dq, partial); /* of the part's tiles before */
                if (column == 0 && my_key < limit)
                    backward_product<T, HEAD, QUERIES>(dk, ds, m.q + stage * QUERIES * HEAD, lane_down<HEAD>());
                backward_queries<T, HEAD, WARPS>(dq, m, limit - key, column);
                if (g.parts == 1 && key + KEYS >= limit)
                    store_dq<T, HEAD, WARPS>(g, a, r.head, r.start, first, r.length, column, dq);
                else
                    store_partial<PASS / 8, THREADS>(partial, dq);
            }
        }
        __syncthreads(); /* nobody reads K any more: dK leaves by way of its tile, dV by V's */
        store_dk_dv<T, HEAD, WARPS, DROPOUT>(g, a, r, my_key, m, dk, dv);
    }
}

/* dQ = scale times the sum of the parts that saw a query, in their order. A block for each slot and head, last tiles
 * first as find_tile has them; reads parts x QUERIES x HEAD f32. */
template <class T, int HEAD, int WARPS>
__global__ void __launch_bounds__(32 * WARPS) attention_parts_kernel(BackwardTensors<T> g, AttentionShape a) {
    only_where_used<T>();
    using Tiles = BackwardTiles<HEAD, WARPS>;
    const int head = (int)blockIdx.x % a.n_heads;
    const SequenceTile tile = find_tile<Tiles::QUERIES>(a, (int)blockIdx.x / a.n_heads);
    if (tile.first >= tile.length) return;
    const int limit = a.causal ? min(tile.first + Tiles::QUERIES, tile.length) : tile.length;
    const int slot = tile.start / Tiles::QUERIES + tile.sequence + tile.first / Tiles::QUERIES;
    float dq[Tiles::COLUMNS / 8][4] = {};
    for (int part = 0; part < g.parts && part * Tiles::KEYS < limit; part++) {
        const float *partial = partial_tile<T, HEAD, WARPS>(g, a, part, head, slot);
        add_partial<Tiles::COLUMNS / 8, Tiles::THREADS>(dq, partial);
    }
    store_dq<T, HEAD, WARPS>(g, a, head, tile.start, tile.first, tile.length, 0, dq);
}

/* Returns the number of parts that a sequence's keys are divided into: enough to fill the card twice, if sequences and
 * heads alone do not. Depends on the numbers that also fix the grid, not on the lengths, so that a captured graph is
 * valid for other lengths. */
template <int HEAD, int WARPS> static int backward_parts(const Device *device, const AttentionShape &a) {
    int64_t wanted = 2 * 8 / WARPS * (int64_t)cuda_state(device)->n_multiprocessors,
            have = (int64_t)a.count * a.n_heads;
    int64_t tiles = (a.n_tokens + BackwardTiles<HEAD, WARPS>::KEYS - 1) / BackwardTiles<HEAD, WARPS>::KEYS;
    int64_t parts = (wanted + have - 1) / have;
    return (int)(parts < tiles ? parts : tiles);
}

static int64_t dots_floats(const AttentionShape &a) { return ((int64_t)a.n_heads * a.n_tokens + 63) / 64 * 64; }

/* Returns the floats of scratch that are needed: D, and dQ of all parts. */
template <int HEAD, int WARPS> static int64_t backward_floats(const Device *device, const AttentionShape &a) {
    int64_t queries = BackwardTiles<HEAD, WARPS>::QUERIES, parts = backward_parts<HEAD, WARPS>(device, a);
    return dots_floats(a) + parts * a.n_heads * a.slots((int)queries) * queries * HEAD;
}

/* 128 keys a block halve dQ's traffic; 64 waste less on short sequences, and fit Turing. */
enum { LONG = 96 }; /* rows of a sequence in the mean, above which there are 128 */
template <int HEAD> static bool fits_long_tiles(const Device *device) {
    return HEAD >= 64 && BackwardTiles<HEAD, 8>::BYTES <= cuda_state(device)->shared_limit;
}

/* Returns the most that a batch needs which has no more sequences and rows than this one, and no longer sequences, but
 * for one of padding: fewer are divided into more parts. Of so many sequences, those need most that have most rows. */
template <int HEAD> static int64_t most_backward_floats(const Device *device, AttentionShape a) {
    int64_t rows = a.n_tokens, most = 0, longest = a.longest > PADDED_SEQUENCE ? a.longest : PADDED_SEQUENCE;
    for (; a.count > 0; a.count--) {
        int64_t all = (int64_t)a.count * longest < rows ? (int64_t)a.count * longest : rows,
                together = (int64_t)a.count * LONG, floats = 0;
        a.n_tokens = (int)all;
        if constexpr (HEAD >= 64)
            if (fits_long_tiles<HEAD>(device) && all > together) {
                floats = backward_floats<HEAD, 8>(device, a);
                a.n_tokens = (int)together;
            }
        int64_t of_short = backward_floats<HEAD, 4>(device, a);
        if (of_short > floats) floats = of_short;
        if (floats > most) most = floats;
    }
    return most;
}

template <class T, int HEAD>
static void launch_dots(const Device *device, float *dots, const T *dout, const T *out, const AttentionShape &a) {
    constexpr int LANES = HEAD / Vector<T>::SIZE;
    int64_t items = (int64_t)a.n_tokens * a.n_heads;
    attention_launch("attention_backward, D", device, attention_dots_kernel<T, LANES>, (items * LANES + 255) / 256, 256,
                     0, dots, dout, out, a);
}

template <class T, int HEAD, int WARPS>
static void backward_on_tensor_cores(Device *device, BackwardTensors<T> g, const T *out, const AttentionShape &a) {
    using Tiles = BackwardTiles<HEAD, WARPS>;
    int64_t slots = a.slots(Tiles::QUERIES);
    g.parts = backward_parts<HEAD, WARPS>(device, a);
    int64_t floats =
        cuda_state(device)->at_most ? most_backward_floats<HEAD>(device, a) : backward_floats<HEAD, WARPS>(device, a);
    float *scratch = (float *)cuda_scratch(device, (size_t)floats * sizeof(float));
    g.dots = scratch;
    g.partial = scratch + dots_floats(a);
    launch_dots<T, HEAD>(device, scratch, g.dout, out, a);
    auto kernel = a.threshold ? attention_backward_kernel<T, HEAD, WARPS, true>
                              : attention_backward_kernel<T, HEAD, WARPS, false>;
    attention_launch("attention_backward", device, kernel, (int64_t)a.count * g.parts * a.n_heads, Tiles::THREADS,
                     Tiles::BYTES, g, a);
    if (g.parts > 1)
        attention_launch("attention_backward, parts", device, attention_parts_kernel<T, HEAD, WARPS>, slots * a.n_heads,
                         Tiles::THREADS, 0, g, a);
}

void cuda_attention_backward(Device *device, Tensor dqkv, Tensor dout, AttentionActivations forward,
                             Sequences sequences, Attention attention, Dropout drop) {
    Tensor qkv = forward.qkv, out = forward.out, lse = forward.lse;
    AttentionShape a = attention_shape(qkv, sequences, attention, drop);
    if (a.n_tokens == 0) return;
    with_type(qkv.dtype, [&](auto zero) {
        using T = decltype(zero);
        BackwardTensors<T> g = {
            (T *)dqkv.data, (const T *)dout.data, (const T *)qkv.data, (const float *)lse.data, NULL, NULL, 1};
        with_head(a.head_size, [&](auto head) {
            constexpr int HEAD = decltype(head)::value;
            if (attention_is_short<T>(device, qkv.dtype, a))
                return short_backward<T, HEAD>(device, g.dqkv, g.dout, g.qkv, g.lse, a);
            if constexpr (sizeof(T) == 2)
                if (attention_on_tensor_cores(device, qkv.dtype, a)) {
                    if constexpr (HEAD >= 64)
                        if (a.n_tokens > LONG * a.count && fits_long_tiles<HEAD>(device))
                            return backward_on_tensor_cores<T, HEAD, 8>(device, g, (const T *)out.data, a);
                    return backward_on_tensor_cores<T, HEAD, 4>(device, g, (const T *)out.data, a);
                }
            float *dots = (float *)cuda_scratch(device, (size_t)dots_floats(a) * sizeof(float));
            launch_dots<T, HEAD>(device, dots, g.dout, (const T *)out.data, a);
            backward_by_fma<T, HEAD>(device, g.dqkv, g.dout, g.qkv, g.lse, dots, a);
        });
    });
}
