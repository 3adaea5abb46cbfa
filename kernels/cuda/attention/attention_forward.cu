/* Attention forward, plain and with terms. Batches of only short sequences use attention_short.h. For other batches,
 * 16-bit types use tensor cores as FlashAttention-2 (Dao, 2023) does; f32, and heads whose size is no multiple of 8,
 * use attention_fma.h. */
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_fma.h"
#include "kernels/cuda/attention/attention_short.h"

/* A block has 32 WARPS query rows of one head, each warp 32 of them, and walks over the keys in tiles, keeping of each
 * row the largest score m, the sum l of exp(score - m) and the output, both rescaled when m grows:
 *
 *     wait for K              S = Q K^T, mask, m, P = exp2(c S - c m), l         V arrives meanwhile
 *     wait for V              O += P V                                          the next K arrives meanwhile
 *
 * c is scale log2(e), so that an exponential costs one multiply-add and one ex2. P never leaves the registers: each
 * lane holds after the first product the numbers that the second one needs there. Tiles come in ascending order: the
 * first one shows every row at least key 0, so m is finite from then on and exp2 never sees inf - inf.
 *
 * 32 rows a warp, because a fragment of K or V is then loaded for two products: 16 rows would ask shared memory for
 * 128 bytes a cycle, all it has, at the full rate of an A100. K and V have one buffer each and are loaded in turn: with
 * two each, a head of 128 would leave room for one block on a multiprocessor with 100 KB; so there are two, and one
 * computes while the other waits. One warp a block for batches of short sequences.
 *
 * Terms of distances are looked up: a query's products with all of them, R = Q distances^T, are as many numbers as the
 * distances, so a block computes R once, in f32, before the first key. The fragments of Q are then in registers where
 * KEPT, and R takes its place; with 73 distances and heads of 64, two blocks still share the 100 KB of an L4, for which
 * KEYS is halved. Most tiles of a long sequence lie beyond the last distance: they need one number a row.
 *
 * grid     slots x heads, heads fastest, see find_tile; a sequence's longest rows first
 * shared   Q [32 WARPS], K [KEYS], V [KEYS] of HEAD: 32 KB for heads of 64, 48 KB for 128; with 73 distances 45 KB for
 *          heads of 64
 * work     4 HEAD FLOPs a visible pair; tiles of which a warp sees nothing are skipped */
template <int HEAD, int WARPS, bool TERMS> struct ForwardTiles {
    static constexpr int QUERIES = 32 * WARPS, KEYS = HEAD == 128 || (TERMS && HEAD == 64) ? 32 : 64;
    static constexpr int KEPT = HEAD <= 64 ? HEAD / 16 : 1; /* fragments of 16 rows of Q that stay in registers */

    /* Returns how many numbers of T lie in front of K: Q, and R [QUERIES, width], in its place if Q is kept. */
    __host__ __device__ static constexpr int front(int width) {
        int r = 2 * width; /* f32 */
        return QUERIES * (HEAD > 64 ? HEAD + r : r > HEAD ? r : HEAD);
    }
    static constexpr size_t bytes(int width) { return (size_t)(front(width) + 2 * KEYS * HEAD) * 2; }
};

/* Computes S [32, KEYS] = Q K^T of a warp. q: fragments, if HEAD is small enough to keep them, else reloaded. */
template <class T, int HEAD, int KEYS, int KEPT>
GPU_INLINE void forward_scores(float (&s)[2][KEYS / 8][4], const uint32_t (&q)[2][KEPT][4], const T *q_tile,
                               const T *k_tile, int down, int across) {
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) s[m][n][e] = 0;
#pragma unroll
    for (int c = 0; c < HEAD / 16; c++) {
        uint32_t a[2][4];
#pragma unroll
        for (int m = 0; m < 2; m++)
            if (KEPT == HEAD / 16)
#pragma unroll
                for (int e = 0; e < 4; e++) a[m][e] = q[m][KEPT == HEAD / 16 ? c : 0][e];
            else
                load_fragment<HEAD>(a[m], q_tile, down, 16 * m, 16 * c);
#pragma unroll
        for (int n = 0; n < KEYS / 16; n++) {
            uint32_t b[4];
            load_fragment<HEAD>(b, k_tile, across, 16 * n, 16 * c);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                mma_16x8x16<T>(s[m][2 * n], a[m], b[0], b[1]);
                mma_16x8x16<T>(s[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* Loads the fragments that are kept. */
template <int HEAD, int KEPT, class T>
GPU_INLINE void forward_keep(uint32_t (&q)[2][KEPT][4], const T *q_tile, int down) {
    if (KEPT == HEAD / 16)
#pragma unroll
        for (int i = 0; i < 2 * KEPT; i++)
            load_fragment<HEAD>(q[i / KEPT][i % KEPT], q_tile, down, i / KEPT * 16, i % KEPT * 16);
}

/* The rows of a warp: 32 rows of one head, from row `first` of the sequence that begins at row `start` of the batch. A
 * lane has rows first + 16 m + 8 half + lane / 4. */
struct ForwardRows {
    int head, start, length, first, visible; /* visible: keys, if not causal */
    float c;                                 /* scale log2(e) */
};

/* A lane's running sums over the tiles, of its rows: the output, the largest score and the sum of exp(score - largest),
 * both not yet divided or added over the four lanes of a row. */
template <int HEAD> struct ForwardSums { float o[2][HEAD / 8][4], largest[2][2], sum[2][2]; };

/* Sets the scores of 16 rows, from row `first` of a sequence on, to -inf where the row must not see the key. */
template <int KEYS>
GPU_INLINE void forward_mask(float (&s)[KEYS / 8][4], const AttentionShape &a, int first, int visible, int key) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        int row = first + e / 2 * 8 + lane / 4;
        int limit = (a.causal ? min(row + 1, visible) : visible) - key - lane % 4 * 2 - e % 2;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) s[n][e] = 8 * n < limit ? s[n][e] : -INFINITY;
    }
}

/* Turns the scores of 16 rows into exp(score - largest) and adds them to `sum`, after raising `largest` to the new
 * scores and rescaling `sum` and the output to it. */
template <int HEAD, int KEYS>
GPU_INLINE void forward_softmax(float (&s)[KEYS / 8][4], float (&o)[HEAD / 8][4], float (&largest)[2], float (&sum)[2],
                                float c) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float top = largest[half];
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
        top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, 2));
        float shrink = exp2_approximate((largest[half] - top) * c), total = 0;
        largest[half] = top;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; e++) {
                s[n][e] = exp2_approximate(fmaf(s[n][e], c, -top * c));
                total += s[n][e];
            }
        sum[half] = sum[half] * shrink + total; /* this lane's keys; the four are added at the end */
#pragma unroll
        for (int n = 0; n < HEAD / 8; n++) {
            o[n][2 * half] *= shrink;
            o[n][2 * half + 1] *= shrink;
        }
    }
}

/* Makes P, as fragments of the next product, of the scores of a warp with the keys from `key` on. */
template <class T, int HEAD, int KEYS, bool DROPOUT>
GPU_INLINE void forward_probabilities(uint32_t (&p)[2][KEYS / 16][4], float (&s)[2][KEYS / 8][4],
                                      ForwardSums<HEAD> &sums, const AttentionShape &a, const ForwardRows &rows,
                                      int key) {
    const int lane = threadIdx.x % 32;
    bool edge = key + KEYS > (a.causal ? min(rows.first + 1, rows.visible) : rows.visible);
#pragma unroll
    for (int m = 0; m < 2; m++) {
        if (edge) forward_mask<KEYS>(s[m], a, rows.first + 16 * m, rows.visible, key);
        forward_softmax<HEAD, KEYS>(s[m], sums.o[m], sums.largest[m], sums.sum[m], rows.c);
        if (DROPOUT) zero_dropped<KEYS>(s[m], a, rows.head, rows.start + rows.first + 16 * m + lane / 4, key);
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                p[m][n / 2][n % 2 * 2 + half] = pack_pair<T>(s[m][n][2 * half], s[m][n][2 * half + 1]);
    }
}

/* Adds P V of a warp to O [32, HEAD]. */
template <class T, int HEAD, int KEYS>
GPU_INLINE void forward_product(float (&o)[2][HEAD / 8][4], const uint32_t (&p)[2][KEYS / 16][4], const T *v_tile,
                                int down) {
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++)
#pragma unroll
        for (int n = 0; n < HEAD / 16; n++) {
            uint32_t b[4];
            load_fragment_transposed<HEAD>(b, v_tile, down, 16 * k, 16 * n);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                mma_16x8x16<T>(o[m][2 * n], p[m][k], b[0], b[1]);
                mma_16x8x16<T>(o[m][2 * n + 1], p[m][k], b[2], b[3]);
            }
        }
}

/* Waits for Q and computes R, a warp's products with all distances, by way of the block's tile of K. */
template <class T, int HEAD, int WARPS, int KEPT>
GPU_INLINE void forward_distances(float *r, uint32_t (&q)[2][KEPT][4], const T *q_tile, T *k_tile,
                                  const AttentionShape &a, const KernelTerms<T> &terms) {
    constexpr int KEYS = ForwardTiles<HEAD, WARPS, true>::KEYS;
    const int lane = threadIdx.x % 32;
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads(); /* Q is there */
    forward_keep<HEAD>(q, q_tile, lane_down<HEAD>());
    for (int first = 0; first < terms.width; first += KEYS) {
        float s[2][KEYS / 8][4];
        copy_tile<KEYS, HEAD, 32 * WARPS>(k_tile, terms.distances + first * a.head_size, a.head_size,
                                          terms.width - first, a.head_size);
        copy_async_commit();
        copy_async_wait<0>();
        __syncthreads(); /* the distances are there, and nobody reads a Q any more that is kept */
        forward_scores<T, HEAD, KEYS>(s, q, q_tile, k_tile, lane_down<HEAD>(), lane_across<HEAD>());
#pragma unroll
        for (int i = 0; i < KEYS; i++) {
            int m = i / (KEYS / 2), n = i / 4 % (KEYS / 8), e = i % 4;
            int row = 16 * m + e / 2 * 8 + lane / 4, column = first + 8 * n + lane % 4 * 2 + e % 2;
            if (column < terms.width) r[row * terms.width + column] = s[m][n][e];
        }
        __syncthreads(); /* nobody reads the tile any more */
    }
}
template <class T, int HEAD, int WARPS, int KEPT> /* no terms */
GPU_INLINE void forward_distances(float *, uint32_t (&)[2][KEPT][4], const T *, T *, const AttentionShape &) {}

/* Adds terms to the scores of a warp with the keys from `key` on. */
template <class T, int KEYS>
GPU_INLINE void forward_add_terms(float (&s)[2][KEYS / 8][4], const float *r, const AttentionShape &a,
                                  const ForwardRows &rows, int key, const KernelTerms<T> &terms) {
    const int lane = threadIdx.x % 32, column = key + lane % 4 * 2;
    if (terms.key_terms) {
        const float *of_keys = terms.key_terms + (int64_t)rows.start * a.n_heads + rows.head;
#pragma unroll
        for (int i = 0; i < KEYS / 4; i++) {
            float x = __ldg(of_keys + min(column + i / 2 * 8 + i % 2, rows.visible - 1) * a.n_heads);
#pragma unroll
            for (int m = 0; m < 2; m++) s[m][i / 2][i % 2] += x, s[m][i / 2][2 + i % 2] += x;
        }
    }
    if (terms.width == 0) return;
    const int least = terms.row(key - rows.first - 31), most = terms.row(key + KEYS - 1 - rows.first);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int m = i / 2, half = i % 2, row = 16 * m + 8 * half + lane / 4;
        const float *products = r + row * terms.width;
        if (least == most) { /* beyond the last distance */
            float same = products[most];
#pragma unroll
            for (int j = 0; j < KEYS / 4; j++) s[m][j / 2][2 * half + j % 2] += same;
        } else {
#pragma unroll
            for (int j = 0; j < KEYS / 4; j++)
                s[m][j / 2][2 * half + j % 2] += products[terms.row(column + j / 2 * 8 + j % 2 - rows.first - row)];
        }
    }
}
template <class T, int KEYS> /* no terms */
GPU_INLINE void forward_add_terms(float (&)[2][KEYS / 8][4], const float *, const AttentionShape &, const ForwardRows &,
                                  int) {}

/* Writes a warp's rows of the output and of lse, by way of `tile`, its own rows of shared memory. */
template <class T, int HEAD, bool DROPOUT, bool TERMS>
GPU_INLINE void forward_store(T *out, float *lse, const AttentionShape &a, const ForwardRows &rows, T *tile,
                              const ForwardSums<HEAD> &sums) {
    int lane = threadIdx.x % 32;
    float scale[2][2];
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float l = sums.sum[m][half];
            l += __shfl_xor_sync(0xFFFFFFFFu, l, 1);
            l += __shfl_xor_sync(0xFFFFFFFFu, l, 2);
            scale[m][half] = TERMS && l == 0 ? 0.0f : (DROPOUT ? a.keep : 1.0f) / l; /* 0: no key was seen */
            int row = rows.first + 16 * m + 8 * half + lane / 4;
            if (!TERMS && lane % 4 == 0 && row < rows.length)
                lse[(int64_t)rows.head * a.n_tokens + rows.start + row] = sums.largest[m][half] * a.scale + logf(l);
        }
    store_rows<32, HEAD>(out + (int64_t)(rows.start + rows.first) * a.channels() + rows.head * a.head_size,
                         a.channels(), rows.length - rows.first, a.head_size, tile, sums.o, scale);
}

/* Terms: none, or KernelTerms; with them there is neither lse nor dropout. */
template <class T, int HEAD, int WARPS, bool DROPOUT, class... Terms>
__global__ void __launch_bounds__(32 * WARPS, 8 / WARPS)
    attention_forward_kernel(T *out, float *lse, const T *qkv, AttentionShape a, Terms... terms) {
    only_on_tensor_cores<T>();
    constexpr bool TERMS = sizeof...(Terms) > 0;
    using Tiles = ForwardTiles<HEAD, WARPS, TERMS>;
    constexpr int QUERIES = Tiles::QUERIES, KEYS = Tiles::KEYS, KEPT = Tiles::KEPT;
    DYNAMIC_SHARED(T, shared);
    const int head = (int)blockIdx.x % a.n_heads, warp = threadIdx.x / 32;
    const SequenceTile tile = find_tile<QUERIES>(a, (int)blockIdx.x / a.n_heads);
    if (tile.first >= tile.length) return;

    const int width = (0 + ... + terms.width), visible = visible_keys(tile, terms...);
    T *q_tile = shared + 32 * warp * HEAD, *k_tile = shared + Tiles::front(width), *v_tile = k_tile + KEYS * HEAD;
    float *r = reinterpret_cast<float *>(shared + (HEAD > 64 ? QUERIES * HEAD : 0)) + 32 * warp * width;
    const T *q_rows = qkv + (int64_t)(tile.start + tile.first) * a.width() + head * a.head_size;
    const T *k_rows = qkv + (int64_t)tile.start * a.width() + a.channels() + head * a.head_size,
            *v_rows = k_rows + a.channels();
    const int down = lane_down<HEAD>(), across = lane_across<HEAD>();
    const ForwardRows rows = {head, tile.start, tile.length, tile.first + 32 * warp, visible, a.scale * 1.44269504f};
    const int keys = a.causal ? min(tile.first + QUERIES, visible) : visible; /* that the block sees */
    const int seen = rows.first >= tile.length ? 0 : a.causal ? min(rows.first + 32, visible) : visible; /* the warp */

    ForwardSums<HEAD> sums = {};
    uint32_t q[2][KEPT][4];
#pragma unroll
    for (int m = 0; m < 2; m++) sums.largest[m][0] = sums.largest[m][1] = -INFINITY;
    copy_tile<QUERIES, HEAD, 32 * WARPS>(shared, q_rows, a.width(), tile.length - tile.first, a.head_size);
    forward_distances<T, HEAD, WARPS>(r, q, q_tile, k_tile, a, terms...);
    copy_tile<KEYS, HEAD, 32 * WARPS>(k_tile, k_rows, a.width(), visible, a.head_size);
    copy_async_commit();

    for (int key = 0; key < keys; key += KEYS) {
        uint32_t p[2][KEYS / 16][4];
        copy_async_wait<0>();
        __syncthreads(); /* K is there, and nobody reads V any more */
        copy_tile<KEYS, HEAD, 32 * WARPS>(v_tile, v_rows + (int64_t)key * a.width(), a.width(), visible - key,
                                          a.head_size);
        copy_async_commit();
        if (!TERMS && key == 0) forward_keep<HEAD>(q, q_tile, down);
        if (key < seen) {
            float s[2][KEYS / 8][4];
            forward_scores<T, HEAD, KEYS>(s, q, q_tile, k_tile, down, across);
            forward_add_terms<T, KEYS>(s, r, a, rows, key, terms...);
            forward_probabilities<T, HEAD, KEYS, DROPOUT>(p, s, sums, a, rows, key);
        }
        copy_async_wait<0>();
        __syncthreads(); /* V is there, and nobody reads K any more */
        if (key + KEYS < keys) {
            copy_tile<KEYS, HEAD, 32 * WARPS>(k_tile, k_rows + (int64_t)(key + KEYS) * a.width(), a.width(),
                                              visible - key - KEYS, a.head_size);
            copy_async_commit();
        }
        if (key < seen) forward_product<T, HEAD, KEYS>(sums.o, p, v_tile, down);
    }
    if (TERMS) copy_async_wait<0>(); /* for K, if there was no key */
    if (rows.first >= tile.length) return;
    forward_store<T, HEAD, DROPOUT, TERMS>(out, lse, a, rows, q_tile, sums);
}

template <class T, int HEAD, int WARPS, class... Terms>
static void forward_launch(const Device *device, T *out, float *lse, const T *qkv, const AttentionShape &a,
                           const Terms &...terms) {
    using Tiles = ForwardTiles<HEAD, WARPS, sizeof...(Terms) != 0>;
    int64_t blocks = (int64_t)a.slots(Tiles::QUERIES) * a.n_heads;
    auto kernel = attention_forward_kernel<T, HEAD, WARPS, false, Terms...>;
    if constexpr (sizeof...(Terms) == 0)
        if (a.threshold) kernel = attention_forward_kernel<T, HEAD, WARPS, true>;
    attention_launch(FORWARD_NAME<Terms...>, device, kernel, blocks, 32 * WARPS, Tiles::bytes((0 + ... + terms.width)),
                     out, lse, qkv, a, terms...);
}

/* Launches blocks of one warp if sequences are short on average: 128 rows would be mostly empty; or if R of four warps
 * does not fit beside the tiles into the least shared memory of a card with tensor cores, a T4's. */
template <class T, int HEAD, class... Terms>
static void forward_on_tensor_cores(const Device *device, T *out, float *lse, const T *qkv, const AttentionShape &a,
                                    const Terms &...terms) {
    bool fits = ForwardTiles<HEAD, 4, sizeof...(Terms) != 0>::bytes((0 + ... + terms.width)) <= 64 * 1024;
    if (a.n_tokens <= 32 * a.count || !fits) return forward_launch<T, HEAD, 1>(device, out, lse, qkv, a, terms...);
    forward_launch<T, HEAD, 4>(device, out, lse, qkv, a, terms...);
}

void cuda_attention_forward(Device *device, Tensor out, Tensor lse, Tensor qkv, Sequences sequences,
                            Attention attention, Dropout drop) {
    AttentionShape a = attention_shape(qkv, sequences, attention, drop);
    if (a.n_tokens == 0) return;
    with_type(qkv.dtype, [&](auto zero) {
        using T = decltype(zero);
        T *to = (T *)out.data;
        const T *from = (const T *)qkv.data;
        float *log_sums = (float *)lse.data;
        with_head(a.head_size, [&](auto head) {
            constexpr int HEAD = decltype(head)::value;
            if (attention_is_short<T>(device, qkv.dtype, a))
                return short_forward<T, HEAD>(device, to, log_sums, from, a);
            if constexpr (sizeof(T) == 2)
                if (attention_on_tensor_cores(device, qkv.dtype, a))
                    return forward_on_tensor_cores<T, HEAD>(device, to, log_sums, from, a);
            forward_by_fma<T, HEAD>(device, to, log_sums, from, a);
        });
    });
}

void cuda_attention_terms_forward(Device *device, Tensor out, Tensor qkv, Sequences sequences, Attention attention,
                                  AttentionTerms terms) {
    AttentionShape a = attention_shape(qkv, sequences, attention, Dropout{});
    if (a.n_tokens == 0) return;
    with_type(qkv.dtype, [&](auto zero) {
        using T = decltype(zero);
        T *to = (T *)out.data;
        const T *from = (const T *)qkv.data;
        KernelTerms<T> t = {
            (const T *)terms.distances.data, terms.left, terms.right, 0, (const float *)terms.key_terms.data,
            (const int *)terms.hidden.data};
        if (t.distances) t.width = t.left + 1 + t.right;
        with_head(a.head_size, [&](auto head) {
            constexpr int HEAD = decltype(head)::value;
            if constexpr (sizeof(T) == 2)
                if (attention_on_tensor_cores(device, qkv.dtype, a))
                    return forward_on_tensor_cores<T, HEAD>(device, to, (float *)NULL, from, a, t);
            forward_by_fma<T, HEAD>(device, to, (float *)NULL, from, a, t);
        });
    });
}
