/* Attention without tensor cores: f32, and 16-bit heads that they cannot take. One structure serves all three kernels.
 * A block has four warps of R rows each (queries, or keys), which stay in shared memory, and walks over the other
 * side's rows, 32 at a time:
 *
 *     scores    lane = one of the 32: its row against the warp's R, which all lanes read at once, 4 columns a load
 *     products  lane = columns lane, lane + 32, ..: the warp's [R, 32] factors, from shared memory, times the 32 rows
 *
 * R rows share each load of the other side, so a multiply-add costs about 3/8 loads of shared memory. The 32 rows lie
 * one float apart from a multiple of 32: lanes that read down a column meet different banks.
 *
 * grid: slots of 4 R rows x heads. FLOPs as the door counts; the backward's two kernels do 7 products instead of 5. */
#pragma once

#include "kernels/cuda/attention/attention.h"

enum { FMA_WARPS = 4, FMA_THREADS = 32 * FMA_WARPS };

/* rows x COLUMNS floats of a head, `stride` apart in shared memory; zero outside. */
template <int ROWS, int COLUMNS, class T>
GPU_INLINE void load_floats(float *tile, int stride, const T *from, int64_t from_stride, int rows, int head_size) {
    for (int i = (int)threadIdx.x; i < ROWS * COLUMNS; i += FMA_THREADS) {
        int row = i / COLUMNS, column = i % COLUMNS;
        bool inside = row < rows && column < head_size;
        tile[row * stride + column] = inside ? to_float(from[row * from_stride + column]) : 0.0f;
    }
}

/* s[r] = own row r . row `lane` of the other side. */
template <int R, int COLUMNS> GPU_INLINE void fma_scores(float (&s)[R], const float *own, const float *other) {
    const float *mine = other + threadIdx.x % 32 * (COLUMNS + 1);
#pragma unroll
    for (int r = 0; r < R; r++) s[r] = 0;
#pragma unroll 4
    for (int c = 0; c < COLUMNS; c += 4)
#pragma unroll
        for (int r = 0; r < R; r++) {
            float4 row = *reinterpret_cast<const float4 *>(own + r * COLUMNS + c);
            s[r] = fmaf(row.x, mine[c],
                        fmaf(row.y, mine[c + 1], fmaf(row.z, mine[c + 2], fmaf(row.w, mine[c + 3], s[r]))));
        }
}

/* sums[r][c] += sum over i of factors[r][i] other[i][lane + 32 c]. */
template <int R, int COLUMNS>
GPU_INLINE void fma_product(float (&sums)[R][COLUMNS / 32], const float *factors, const float *other) {
#pragma unroll 2
    for (int i = 0; i < 32; i += 4)
#pragma unroll
        for (int c = 0; c < COLUMNS / 32; c++) {
            const float *column = other + i * (COLUMNS + 1) + threadIdx.x % 32 + 32 * c;
#pragma unroll
            for (int r = 0; r < R; r++) {
                float4 f = *reinterpret_cast<const float4 *>(factors + 32 * r + i);
                sums[r][c] = fmaf(f.x, column[0], sums[r][c]);
                sums[r][c] = fmaf(f.y, column[COLUMNS + 1], sums[r][c]);
                sums[r][c] = fmaf(f.z, column[2 * (COLUMNS + 1)], sums[r][c]);
                sums[r][c] = fmaf(f.w, column[3 * (COLUMNS + 1)], sums[r][c]);
            }
        }
}

template <int R, int COLUMNS, class T>
GPU_INLINE void fma_store(T *to, int64_t stride, int rows, int head_size, const float (&sums)[R][COLUMNS / 32],
                          float scale) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int c = 0; c < COLUMNS / 32; c++)
            if (r < rows && lane + 32 * c < head_size)
                to[r * stride + lane + 32 * c] = from_float<T>(scale * sums[r][c]);
}

/* Returns dropout's mask: bit r is set if the probability of query `row` + r and key `key` + lane is kept. Four lanes
 * share four keys: each draws the numbers of every fourth row, and they exchange the bits. key is a multiple of 4. */
template <int R> GPU_INLINE uint32_t keep_rows(const AttentionShape &a, int head, int row, int key) {
    int lane = threadIdx.x % 32;
    uint32_t mine = 0, bits = 0;
#pragma unroll
    for (int i = 0; i < R / 4; i++) mine |= keep_four(a, head, row + 4 * i + lane % 4, key + lane / 4 * 4) << 4 * i;
#pragma unroll
    for (int u = 0; u < 4; u++) {
        uint32_t theirs = __shfl_sync(0xFFFFFFFFu, mine, lane / 4 * 4 + u) >> lane % 4;
#pragma unroll
        for (int i = 0; i < R / 4; i++) bits |= (theirs >> 4 * i & 1) << (4 * i + u);
    }
    return bits;
}

template <int COLUMNS> static constexpr size_t forward_fma_bytes(int r) {
    return sizeof(float) * (size_t)(FMA_WARPS * r * COLUMNS + 2 * 32 * (COLUMNS + 1) + FMA_WARPS * r * 32);
}

/* Computes the products of the warp's R queries with all distances, [R, width]. All warps of a block call this with the
 * block's `tile` of shared memory, [32, COLUMNS + 1]. */
template <int R, int COLUMNS, class T>
GPU_INLINE void fma_distances(float *products, const float *q, float *tile, const AttentionShape &a,
                              const KernelTerms<T> &terms) {
    for (int first = 0, lane = threadIdx.x % 32; first < terms.width; first += 32) {
        float s[R];
        __syncthreads();
        load_floats<32, COLUMNS>(tile, COLUMNS + 1, terms.distances + first * a.head_size, a.head_size,
                                 terms.width - first, a.head_size);
        __syncthreads();
        fma_scores<R, COLUMNS>(s, q, tile);
#pragma unroll
        for (int r = 0; r < R; r++)
            if (first + lane < terms.width) products[r * terms.width + first + lane] = s[r];
    }
}
template <int R, int COLUMNS>
GPU_INLINE void fma_distances(float *, const float *, float *, const AttentionShape &) {} /* no terms */

/* Adds terms to the scores of the sequence's queries from `row` on with key `key`; `in_batch` is the key's row. */
template <int R, class T>
GPU_INLINE void fma_add_terms(float (&s)[R], const float *products, const AttentionShape &a, int head, int row, int key,
                              int in_batch, const KernelTerms<T> &terms) {
    float of_key = terms.key_terms ? __ldg(terms.key_terms + (int64_t)in_batch * a.n_heads + head) : 0.0f;
#pragma unroll
    for (int r = 0; r < R; r++)
        s[r] += terms.width ? products[r * terms.width + terms.row(key - row - r)] + of_key : of_key;
}
template <int R>
GPU_INLINE void fma_add_terms(float (&)[R], const float *, const AttentionShape &, int, int, int, int) {}

/* Terms: none, or KernelTerms; with them there is neither lse nor dropout, and blocks are limited as in the backward.
 */
template <class T, int COLUMNS, int R, class... Terms>
__global__ void __launch_bounds__(FMA_THREADS, sizeof...(Terms) ? 3 : 0)
    attention_forward_fma_kernel(T *out, float *lse, const T *qkv, AttentionShape a, Terms... terms) {
    only_where_used<T>();
    constexpr bool PLAIN = sizeof...(Terms) == 0;
    DYNAMIC_SHARED(float, shared);
    const int head = (int)blockIdx.x % a.n_heads, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const SequenceTile tile = find_tile<FMA_WARPS * R>(a, (int)blockIdx.x / a.n_heads);
    if (tile.first >= tile.length) return;
    float *q = shared, *k = q + FMA_WARPS * R * COLUMNS, *v = k + 32 * (COLUMNS + 1);
    float *p = v + 32 * (COLUMNS + 1) + warp * R * 32;
    float *products = v + 32 * (COLUMNS + 1) + FMA_WARPS * R * 32 + warp * R * (0 + ... + terms.width);
    const T *k_rows = qkv + (int64_t)tile.start * a.width() + a.channels() + head * a.head_size;
    const int first = tile.first + warp * R;
    const int seen = visible_keys(tile, terms...);
    const int keys = a.causal ? min(tile.first + FMA_WARPS * R, seen) : seen;
    float o[R][COLUMNS / 32] = {}, largest[R], sum[R] = {};
#pragma unroll
    for (int r = 0; r < R; r++) largest[r] = -INFINITY;
    load_floats<FMA_WARPS * R, COLUMNS>(q, COLUMNS,
                                        qkv + (int64_t)(tile.start + tile.first) * a.width() + head * a.head_size,
                                        a.width(), tile.length - tile.first, a.head_size);
    fma_distances<R, COLUMNS>(products, q + warp * R * COLUMNS, k, a, terms...);
    for (int key = 0; key < keys; key += 32) {
        __syncthreads();
        load_floats<32, COLUMNS>(k, COLUMNS + 1, k_rows + (int64_t)key * a.width(), a.width(), seen - key, a.head_size);
        load_floats<32, COLUMNS>(v, COLUMNS + 1, k_rows + a.channels() + (int64_t)key * a.width(), a.width(),
                                 seen - key, a.head_size);
        __syncthreads();
        float s[R];
        fma_scores<R, COLUMNS>(s, q + warp * R * COLUMNS, k);
        fma_add_terms<R>(s, products, a, head, first, key + lane, tile.start + min(key + lane, seen - 1), terms...);
        uint32_t kept = PLAIN && a.threshold ? keep_rows<R>(a, head, tile.start + first, key) : 0xFFFFFFFFu;
#pragma unroll
        for (int r = 0; r < R; r++) {
            /* Rows past the end see all keys: what they compute stays finite and is not written. */
            bool visible = key + lane < (a.causal ? min(first + r + 1, seen) : seen);
            float x = visible ? a.scale * s[r] : -INFINITY, top = fmaxf(largest[r], warp_max(x));
            float shrink = expf(largest[r] - top), probability = expf(x - top);
            largest[r] = top;
            sum[r] = sum[r] * shrink + probability;
            p[32 * r + lane] = kept >> r & 1 ? probability : 0.0f;
#pragma unroll
            for (int c = 0; c < COLUMNS / 32; c++) o[r][c] *= shrink;
        }
        __syncwarp();
        fma_product<R, COLUMNS>(o, p, v);
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        float l = warp_sum(sum[r]), scale = !PLAIN && l == 0 ? 0.0f : a.keep / l; /* 0: no key was seen */
#pragma unroll
        for (int c = 0; c < COLUMNS / 32; c++) o[r][c] *= scale;
        if (PLAIN && lane == 0 && first + r < tile.length)
            lse[(int64_t)head * a.n_tokens + tile.start + first + r] = largest[r] + logf(l);
    }
    fma_store<R, COLUMNS>(out + (int64_t)(tile.start + first) * a.channels() + head * a.head_size, a.channels(),
                          tile.length - first, a.head_size, o, 1.0f);
}

/* The name of an operation, in messages. */
template <class... Terms>
static constexpr const char *FORWARD_NAME = sizeof...(Terms) ? "attention_terms_forward" : "attention_forward";

template <class T, int HEAD, class... Terms>
static void forward_by_fma(const Device *device, T *out, float *lse, const T *qkv, const AttentionShape &a,
                           const Terms &...terms) {
    constexpr int COLUMNS = HEAD < 32 ? 32 : HEAD, R = sizeof...(Terms) && HEAD == 128 ? 4 : 8;
    size_t bytes = forward_fma_bytes<COLUMNS>(R) + sizeof(float) * FMA_WARPS * R * (size_t)(0 + ... + terms.width);
    attention_launch(FORWARD_NAME<Terms...>, device, attention_forward_fma_kernel<T, COLUMNS, R, Terms...>,
                     (int64_t)a.slots(FMA_WARPS * R) * a.n_heads, FMA_THREADS, bytes, out, lse, qkv, a, terms...);
}

/* ---- backward: dQ of a block's queries over all keys; dK and dV of a block's keys over all queries ----
 *
 *     P = exp(scale S - lse),  dS = P (M dO V^T - D),  dQ = scale dS K,  dK = scale dS^T Q,  dV = (P M)^T dO
 *
 * Either way S and dP = dO V^T are the products of the own rows (Q and dO, or K and V) with the others' (K and V, or Q
 * and dO), and dS times the others' first tensor is what the own rows get. */

template <int COLUMNS> static constexpr size_t backward_fma_bytes(int r) {
    return sizeof(float) * (size_t)(2 * FMA_WARPS * r * COLUMNS + 2 * 32 * (COLUMNS + 1) + 2 * FMA_WARPS * r * 32);
}

/* Returns the bits of R keys that follow each other for one query, whose row is `row`. */
template <int R> GPU_INLINE uint32_t keep_keys(const AttentionShape &a, int head, int row, int key) {
    uint32_t kept = 0;
#pragma unroll
    for (int i = 0; i < R / 4; i++) kept |= keep_four(a, head, row, key + 4 * i) << 4 * i;
    return kept;
}

/* Blocks on a multiprocessor: about as many as its shared memory holds. Left to itself, ptxas saves registers for more
 * and spills. */
template <class T, int COLUMNS, int R, bool OWN_KEYS>
__global__ void __launch_bounds__(FMA_THREADS, 3)
    attention_backward_fma_kernel(T *dqkv, const T *dout, const T *qkv, const float *lse, const float *dots,
                                  AttentionShape a) {
    only_where_used<T>();
    constexpr int ROWS = FMA_WARPS * R;
    DYNAMIC_SHARED(float, shared);
    const int head = (int)blockIdx.x % a.n_heads, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const SequenceTile tile = find_tile<ROWS>(a, (int)blockIdx.x / a.n_heads);
    if (tile.first >= tile.length) return;
    float *own1 = shared, *own2 = own1 + ROWS * COLUMNS, *other1 = own2 + ROWS * COLUMNS;
    float *other2 = other1 + 32 * (COLUMNS + 1), *ds = other2 + 32 * (COLUMNS + 1) + warp * 2 * R * 32,
          *p = ds + R * 32;
    const int64_t at = (int64_t)tile.start * a.width() + head * a.head_size, c = a.channels();
    const T *q = qkv + at, *up = dout + tile.start * c + head * a.head_size;
    const float *lse_rows = lse + (int64_t)head * a.n_tokens + tile.start;
    const float *dot_rows = dots + (int64_t)head * a.n_tokens + tile.start;
    const int first = tile.first + warp * R, rows = tile.length - tile.first;
    const int begin = a.causal && OWN_KEYS ? tile.first / 32 * 32 : 0;
    const int end = a.causal && !OWN_KEYS ? min(tile.first + ROWS, tile.length) : tile.length;
    load_floats<ROWS, COLUMNS>(own1, COLUMNS, q + (int64_t)tile.first * a.width() + (OWN_KEYS ? c : 0), a.width(), rows,
                               a.head_size);
    load_floats<ROWS, COLUMNS>(own2, COLUMNS,
                               OWN_KEYS ? q + (int64_t)tile.first * a.width() + 2 * c : up + tile.first * c,
                               OWN_KEYS ? a.width() : c, rows, a.head_size);

    float d1[R][COLUMNS / 32] = {}, d2[R][COLUMNS / 32] = {};
    for (int other = begin; other < end; other += 32) {
        __syncthreads();
        load_floats<32, COLUMNS>(other1, COLUMNS + 1, q + (int64_t)other * a.width() + (OWN_KEYS ? 0 : c), a.width(),
                                 tile.length - other, a.head_size);
        if (OWN_KEYS)
            load_floats<32, COLUMNS>(other2, COLUMNS + 1, up + other * c, c, tile.length - other, a.head_size);
        else
            load_floats<32, COLUMNS>(other2, COLUMNS + 1, q + (int64_t)other * a.width() + 2 * c, a.width(),
                                     tile.length - other, a.head_size);
        __syncthreads();
        float s[R], dp[R];
        fma_scores<R, COLUMNS>(s, own1 + warp * R * COLUMNS, other1);
        fma_scores<R, COLUMNS>(dp, own2 + warp * R * COLUMNS, other2);
        uint32_t kept = 0xFFFFFFFFu;
        if (a.threshold)
            kept = OWN_KEYS ? keep_keys<R>(a, head, tile.start + other + lane, first)
                            : keep_rows<R>(a, head, tile.start + first, other);
#pragma unroll
        for (int r = 0; r < R; r++) {
            int query = OWN_KEYS ? other + lane : first + r, key = OWN_KEYS ? first + r : other + lane;
            bool visible = query < tile.length && key < (a.causal ? query + 1 : tile.length);
            float probability = visible ? expf(a.scale * s[r] - lse_rows[query]) : 0.0f;
            float dropped = kept >> r & 1 ? probability : 0.0f;
            ds[32 * r + lane] = visible ? a.keep * dropped * dp[r] - probability * dot_rows[query] : 0.0f;
            if (OWN_KEYS) p[32 * r + lane] = dropped;
        }
        __syncwarp();
        fma_product<R, COLUMNS>(d1, ds, other1);
        if (OWN_KEYS) fma_product<R, COLUMNS>(d2, p, other2);
    }
    T *to = dqkv + at + (int64_t)first * a.width() + (OWN_KEYS ? c : 0);
    fma_store<R, COLUMNS>(to, a.width(), tile.length - first, a.head_size, d1, a.scale);
    if (OWN_KEYS) fma_store<R, COLUMNS>(to + c, a.width(), tile.length - first, a.head_size, d2, a.keep);
}

template <class T, int HEAD>
static void backward_by_fma(const Device *device, T *dqkv, const T *dout, const T *qkv, const float *lse,
                            const float *dots, const AttentionShape &a) {
    constexpr int COLUMNS = HEAD < 32 ? 32 : HEAD, R = HEAD == 128 ? 4 : 8;
    int64_t blocks = (int64_t)a.slots(FMA_WARPS * R) * a.n_heads;
    size_t bytes = backward_fma_bytes<COLUMNS>(R);
    attention_launch("attention_backward, dQ", device, attention_backward_fma_kernel<T, COLUMNS, R, false>, blocks,
                     FMA_THREADS, bytes, dqkv, dout, qkv, lse, dots, a);
    attention_launch("attention_backward, dK and dV", device, attention_backward_fma_kernel<T, COLUMNS, R, true>,
                     blocks, FMA_THREADS, bytes, dqkv, dout, qkv, lse, dots, a);
}
