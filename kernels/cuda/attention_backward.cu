/* Attention backward, deterministic: every sum has one owner and one order.
 *
 *     P = exp(scale S - lse),  dS = P (M dO V^T - D),  D = rowsum(dO O),  M the dropout factors
 *     dV = (P M)^T dO,  dK = scale dS^T Q,  dQ = scale dS K
 *
 * Batches of nothing but short sequences take attention_short.h. For the others D comes first, from a small kernel.
 * Then 16-bit types take tensor cores, in one kernel that computes each tile of S and dP once for all three gradients;
 * f32, and heads whose size is no multiple of 8, take attention_fma.h. */
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_fma.h"
#include "kernels/cuda/attention_short.h"

/* D [n_heads, N]: LANES lanes share a head of a row, 16 bytes each. Reads out and dout once: 2 N C numbers. */
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

/* What the kernels of the backward read and write. */
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

/* Which of a lane's numbers of x^T [16, QUERIES] are kept: bit 4 n + u of kept[e] is for x[n][e], u = lane / 4 % 4.
 * Four lanes with the same queries hold keys that follow each other, for two queries and two such groups of keys: each
 * draws the numbers of one of these four, and they exchange the answers, a bit each. */
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

template <class T, int HEAD, int WARPS, bool DROPOUT>
__global__ void __launch_bounds__(32 * WARPS, 8 / WARPS)
    attention_backward_kernel(BackwardTensors<T> g, AttentionShape a) {
    only_on_tensor_cores<T>();
    using Tiles = BackwardTiles<HEAD, WARPS>;
    constexpr int KEYS = Tiles::KEYS, QUERIES = Tiles::QUERIES, THREADS = Tiles::THREADS;
    DYNAMIC_SHARED(T, shared);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, thread = threadIdx.x;
    const int head = (int)blockIdx.x % a.n_heads, part = (int)blockIdx.x / a.n_heads % g.parts;
    const int sequence = longest_sequence(a, (int)blockIdx.x / a.n_heads / g.parts);
    const int start = a.offsets[sequence], length = a.offsets[sequence + 1] - start;

    T *k_tile = shared, *v_tile = k_tile + KEYS * HEAD, *q_tiles = v_tile + KEYS * HEAD;
    T *up_tile = q_tiles + 2 * QUERIES * HEAD, *ds_tile = up_tile + QUERIES * HEAD;
    float *lse_rows = reinterpret_cast<float *>(ds_tile + KEYS * QUERIES), *dot_rows = lse_rows + 2 * QUERIES;
    T *my_k = k_tile + 16 * warp * HEAD, *my_v = v_tile + 16 * warp * HEAD;
    const T *q_rows = g.qkv + (int64_t)start * a.width() + head * a.head_size, *k_rows = q_rows + a.channels();
    const T *up_rows = g.dout + (int64_t)start * a.channels() + head * a.head_size;
    const int down = lane_down<HEAD>(), across = lane_across<HEAD>(), ds_across = lane_across<QUERIES>();
    const float c = a.scale * 1.44269504f;

    /* The numbers of query first + thread: a row past the end has an infinite lse, so that its P is 0. */
    auto statistics = [&](int first, float &log_sum, float &dot) {
        bool inside = thread < QUERIES && first + thread < length;
        int64_t at = (int64_t)head * a.n_tokens + start + first + thread;
        log_sum = inside ? g.lse[at] * 1.44269504f : INFINITY;
        dot = inside ? g.dots[at] : 0.0f;
    };
    auto keep_statistics = [&](int stage, float log_sum, float dot) {
        if (thread < QUERIES) {
            lse_rows[stage * QUERIES + thread] = log_sum;
            dot_rows[stage * QUERIES + thread] = dot;
        }
    };

    for (int key = part * KEYS; key < length; key += g.parts * KEYS) {
        const int my_key = key + 16 * warp, begin = a.causal ? key / QUERIES * QUERIES : 0;
        float dk[HEAD / 8][4] = {}, dv[HEAD / 8][4] = {}, log_sum, dot;
        __syncthreads(); /* nobody needs the tiles of the keys before */
        copy_tile<KEYS, HEAD, THREADS>(k_tile, k_rows + (int64_t)key * a.width(), a.width(), length - key, a.head_size);
        copy_tile<KEYS, HEAD, THREADS>(v_tile, k_rows + a.channels() + (int64_t)key * a.width(), a.width(),
                                       length - key, a.head_size);
        copy_tile<QUERIES, HEAD, THREADS>(q_tiles, q_rows + (int64_t)begin * a.width(), a.width(), length - begin,
                                          a.head_size);
        copy_tile<QUERIES, HEAD, THREADS>(up_tile, up_rows + (int64_t)begin * a.channels(), a.channels(),
                                          length - begin, a.head_size);
        copy_async_commit();
        statistics(begin, log_sum, dot);
        keep_statistics(0, log_sum, dot);

        for (int first = begin, stage = 0; first < length; first += QUERIES, stage ^= 1) {
            const int next = first + QUERIES, last = min(next, length) - 1;
            const int limit = a.causal ? min(last + 1, length) : length; /* keys from here on are seen by no query */
            T *q_tile = q_tiles + stage * QUERIES * HEAD;
            uint32_t ds[QUERIES / 16][4];
            copy_async_wait<0>();
            __syncthreads(); /* Q, dO and their statistics are there, and nobody reads dS any more */
            if (next < length) {
                copy_tile<QUERIES, HEAD, THREADS>(q_tiles + (stage ^ 1) * QUERIES * HEAD,
                                                  q_rows + (int64_t)next * a.width(), a.width(), length - next,
                                                  a.head_size);
                copy_async_commit();
                statistics(next, log_sum, dot);
            }
            if (my_key < limit) {
                float s[QUERIES / 8][4], dp[QUERIES / 8][4];
                uint32_t p[QUERIES / 16][4], kept[4];
                backward_scores<T, HEAD, QUERIES>(s, my_k, q_tile, down, across);
                const bool edge = my_key + 16 > (a.causal ? min(first + 1, length) : length);
#pragma unroll
                for (int n = 0; n < QUERIES / 8; n++) {
                    int q = 8 * n + lane % 4 * 2;
                    float2 sums = *reinterpret_cast<const float2 *>(lse_rows + stage * QUERIES + q);
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        s[n][e] = exp2_approximate(fmaf(s[n][e], c, e % 2 ? -sums.y : -sums.x));
                        if (edge) { /* keys past the end score 0, which exp can make infinite: they must go, too */
                            int seen = a.causal ? min(first + q + e % 2 + 1, length) : length;
                            if (my_key + e / 2 * 8 + lane / 4 >= seen) s[n][e] = 0;
                        }
                    }
                }
                backward_scores<T, HEAD, QUERIES>(dp, my_v, up_tile, down, across);
                if (DROPOUT) backward_dropout<QUERIES>(kept, a, head, start + first, my_key);
#pragma unroll
                for (int n = 0; n < QUERIES / 8; n++) {
                    float2 d = *reinterpret_cast<const float2 *>(dot_rows + stage * QUERIES + 8 * n + lane % 4 * 2);
                    float dropped[4];
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        bool keep = !DROPOUT || (kept[e] >> (4 * n + lane / 4 % 4) & 1);
                        float up = DROPOUT ? (keep ? dp[n][e] * a.keep : 0.0f) : dp[n][e];
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
                backward_product<T, HEAD, QUERIES>(dv, p, up_tile, down);
            }
            __syncthreads(); /* dS is there, and nobody reads dO any more */
            if (next < length) {
                copy_tile<QUERIES, HEAD, THREADS>(up_tile, up_rows + (int64_t)next * a.channels(), a.channels(),
                                                  length - next, a.head_size);
                copy_async_commit();
                keep_statistics(stage ^ 1, log_sum, dot);
            }

            float *partial =
                partial_tile<T, HEAD, WARPS>(g, a, part, head, start / QUERIES + sequence + first / QUERIES);
            const int steps = min((limit - key + 15) / 16, WARPS), row = warp % Tiles::ROW_BLOCKS * 16;
#pragma unroll
            for (int column = 0; column < Tiles::COLUMNS;
                 column += Tiles::PASS, partial += Tiles::PASS / 8 * 4 * THREADS) {
                float dq[Tiles::PASS / 8][4] = {};
                if (key != part * KEYS) /* not the first tile of the part: there is something to add to */
                    add_partial<Tiles::PASS / 8, THREADS>(dq, partial);
                if (column == 0 && my_key < limit) backward_product<T, HEAD, QUERIES>(dk, ds, q_tile, down);
#pragma unroll 2
                for (int k = 0; k < steps; k++) {
                    uint32_t f[4];
                    load_fragment_transposed<QUERIES>(f, ds_tile + 16 * k * QUERIES, ds_across, 0, row);
#pragma unroll
                    for (int n = 0; n < Tiles::PASS / 16; n++) {
                        uint32_t b[4];
                        load_fragment_transposed<HEAD>(b, k_tile + 16 * k * HEAD, down, 0,
                                                       warp / Tiles::ROW_BLOCKS * Tiles::COLUMNS + column + 16 * n);
                        mma_16x8x16<T>(dq[2 * n], f, b[0], b[1]);
                        mma_16x8x16<T>(dq[2 * n + 1], f, b[2], b[3]);
                    }
                }
                if (g.parts == 1 && key + KEYS >= limit)
                    store_dq<T, HEAD, WARPS>(g, a, head, start, first, length, column, dq);
                else
#pragma unroll
                    for (int n = 0; n < Tiles::PASS / 8; n++)
                        *reinterpret_cast<float4 *>(partial + n * 4 * THREADS) =
                            make_float4(dq[n][0], dq[n][1], dq[n][2], dq[n][3]);
            }
        }

        __syncthreads(); /* nobody reads K any more: dK leaves by way of its tile, dV by V's */
        T *dk_rows = g.dqkv + (int64_t)(start + my_key) * a.width() + a.channels() + head * a.head_size;
        const float dk_scale[1][2] = {{a.scale, a.scale}}, keep = DROPOUT ? a.keep : 1.0f,
                    dv_scale[1][2] = {{keep, keep}};
        store_rows<16, HEAD>(dk_rows, a.width(), length - my_key, a.head_size, my_k,
                             reinterpret_cast<const float(&)[1][HEAD / 8][4]>(dk), dk_scale);
        store_rows<16, HEAD>(dk_rows + a.channels(), a.width(), length - my_key, a.head_size, my_v,
                             reinterpret_cast<const float(&)[1][HEAD / 8][4]>(dv), dv_scale);
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

/* The pieces that a sequence's keys are dealt to: enough of them to fill the card twice, if sequences and heads alone
 * do not. From the numbers that also fix the grid, not from the lengths, so that a captured graph can be given others.
 */
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

/* Returns the most that a batch needs which has no more sequences and rows than this one, and no longer sequences:
 * fewer are divided into more parts. Of so many sequences, those need most that have most rows. */
template <int HEAD> static int64_t most_backward_floats(const Device *device, AttentionShape a) {
    int64_t rows = a.n_tokens, most = 0;
    for (; a.count > 0; a.count--) {
        int64_t all = (int64_t)a.count * a.longest < rows ? (int64_t)a.count * a.longest : rows,
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

void cuda_attention_backward(Device *device, Tensor dqkv, Tensor dout, Tensor qkv, Tensor out, Tensor lse,
                             Sequences sequences, Attention attention, Dropout drop) {
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
