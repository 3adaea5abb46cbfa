/* Attention of batches whose sequences all have at most 16 rows: a (sequence, head) is one warp's, forward and
 * backward, and its scores are one tile of the tensor cores. So a row of scores is there at once, with nothing to
 * rescale, nothing is stored between the products, and every sum has one owner and one order.
 *
 * Everything stays in registers. A lane holds 16 bytes, 8 columns, of rows l / 4 and 8 + l / 4, which four lanes read
 * side by side: of 32 columns a lane's are 8 (l % 4) .. 8 (l % 4) + 7, register j the pair 2j, 2j + 1.
 *
 *     scores    S = A B^T sums over the columns, in any order that A and B share: registers 0, 1 of all lanes are
 *               one product's 16 columns and 2, 3 the next one's, in place of the fragment's own columns
 *     product   O = X B, X the packed scores: register j of B is an 8x8 matrix for every 8 rows, transposed to be a
 *               `b`. Then a lane's sums are again 8 adjacent columns: 16 bytes to write
 *
 * f32 has the same lanes own the same numbers; its rows lie in the warp's shared memory, and multiply-adds take the
 * place of the products.
 *
 * grid       sequences x heads warps, heads fastest: the warps of a block read rows that lie side by side
 * bytes      forward 4 N C numbers, qkv once and out once; backward 7 N C, without out, because D = rowsum(dO O) is the
 *            rowsum of P dP; and lse. All in pieces of 16 bytes
 * registers  HEAD / 4 for each of Q, K, V and dO, 16 for sums and 16 for scores; none spilled
 * shared     f32 only, rows of HEAD + 4 numbers so that lanes that read down a column meet different banks: a warp's
 *            backward 10 KB for heads of 32, 19 KB for 64, 35 KB for 128
 * work       16 x 16 scores whatever the length. For heads of 64 that is 16 products forward and 40 backward:
 *            counted at the full rate, and for 13 rows, a twentieth to a tenth of the time that the bytes take */
#pragma once

#include "kernels/cuda/attention/attention.h"

enum { SHORT = SHORT_SEQUENCE };

/* Rows of less than 32 columns are padded: there is one kernel for both. */
__host__ __device__ constexpr int short_columns(int head) { return head < 32 ? 32 : head; }
/* Returns the warps of a block: the shared memory of f32 stays below 48 KB. */
template <class T> __host__ __device__ constexpr int short_warps(int columns) {
    return sizeof(T) == 2 ? 4 : 128 / columns;
}

template <class T> static inline bool attention_is_short(const Device *device, DType type, const AttentionShape &a) {
    return a.longest <= SHORT && a.head_size % Vector<T>::SIZE == 0 &&
           (sizeof(T) == 4 || attention_on_tensor_cores(device, type, a));
}

/* ---- rows [16, COLUMNS] and squares [16, 16] of a warp ---- */

template <class T, int COLUMNS> struct ShortRows {
    static constexpr int FLOATS = 0; /* of shared memory */
    uint32_t x[COLUMNS / 32][2][4];  /* [columns 32 i][rows 8 i][j] */
    GPU_INLINE explicit ShortRows(float *) {}
};
template <int COLUMNS> struct ShortRows<float, COLUMNS> {
    static constexpr int STRIDE = COLUMNS + 4, FLOATS = SHORT * STRIDE;
    float *x; /* [16, STRIDE] */
    GPU_INLINE explicit ShortRows(float *memory) : x(memory) {}
};

template <class T> struct ShortSquare {
    static constexpr int FLOATS = 0;
    uint32_t x[4]; /* as `a` of a product */
    GPU_INLINE explicit ShortSquare(float *) {}
};
template <> struct ShortSquare<float> {
    static constexpr int STRIDE = SHORT + 4, FLOATS = SHORT * STRIDE;
    float *x; /* [16, STRIDE] */
    GPU_INLINE explicit ShortSquare(float *memory) : x(memory) {}
};

/* Returns the shared memory, in floats, of a warp with n tiles of rows, and a square in front of them. */
template <class T, int COLUMNS> __host__ __device__ constexpr int short_floats(int n) {
    return ShortSquare<T>::FLOATS + n * ShortRows<T, COLUMNS>::FLOATS;
}

/* A lane's scores: s[n][e] is row e / 2 * 8 + l / 4, column 8 n + l % 4 * 2 + e % 2. */
GPU_INLINE int short_row(int e) { return e / 2 * 8 + (int)threadIdx.x % 32 / 4; }
GPU_INLINE int short_key(int n, int e) { return 8 * n + (int)threadIdx.x % 4 * 2 + e % 2; }

/* Loads the first `length` rows of a head; zeros after them. */
template <class T, int COLUMNS>
GPU_INLINE void short_load(ShortRows<T, COLUMNS> &rows, const T *from, int64_t stride, int length, int head_size) {
    const int lane = threadIdx.x % 32, column = lane % 4 * 8;
#pragma unroll
    for (int i = 0; i < COLUMNS / 32; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int row = 8 * half + lane / 4;
            bool inside = row < length && 32 * i + column < head_size;
            const uint32_t *at = reinterpret_cast<const uint32_t *>(from + row * stride + 32 * i + column);
            Vector<uint32_t> piece = {};
            if (inside) piece = load_vector(at);
#pragma unroll
            for (int j = 0; j < 4; j++) rows.x[i][half][j] = piece[j];
        }
}

template <int COLUMNS>
GPU_INLINE void short_load(ShortRows<float, COLUMNS> &rows, const float *from, int64_t stride, int length,
                           int head_size) {
#pragma unroll 4
    for (int i = threadIdx.x % 32; i < SHORT * COLUMNS / 4; i += 32) {
        int row = i / (COLUMNS / 4), column = i % (COLUMNS / 4) * 4;
        Vector<float> piece = {};
        if (row < length && column < head_size) piece = load_vector(from + row * stride + column);
        store_vector(rows.x + row * rows.STRIDE + column, piece);
    }
}

/* s = a b^T, over all columns. */
template <class T, int COLUMNS>
GPU_INLINE void short_scores(float (&s)[2][4], const ShortRows<T, COLUMNS> &a, const ShortRows<T, COLUMNS> &b) {
#pragma unroll
    for (int e = 0; e < 8; e++) s[e / 4][e % 4] = 0;
#pragma unroll
    for (int i = 0; i < COLUMNS / 32; i++)
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            const uint32_t f[4] = {a.x[i][0][j], a.x[i][1][j], a.x[i][0][j + 1], a.x[i][1][j + 1]};
#pragma unroll
            for (int n = 0; n < 2; n++) mma_16x8x16<T>(s[n], f, b.x[i][n][j], b.x[i][n][j + 1]);
        }
}

template <int COLUMNS>
GPU_INLINE void short_scores(float (&s)[2][4], const ShortRows<float, COLUMNS> &a, const ShortRows<float, COLUMNS> &b) {
#pragma unroll
    for (int e = 0; e < 8; e++) s[e / 4][e % 4] = 0;
#pragma unroll 2
    for (int c = 0; c < COLUMNS; c += 4) {
        float4 x[2], y[4];
#pragma unroll
        for (int half = 0; half < 2; half++)
            x[half] = *reinterpret_cast<const float4 *>(a.x + short_row(2 * half) * a.STRIDE + c);
#pragma unroll
        for (int k = 0; k < 4; k++)
            y[k] = *reinterpret_cast<const float4 *>(b.x + short_key(k / 2, k % 2) * b.STRIDE + c);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float4 p = x[i % 4 / 2], q = y[i / 4 * 2 + i % 2];
            s[i / 4][i % 4] = fmaf(p.x, q.x, fmaf(p.y, q.y, fmaf(p.z, q.z, fmaf(p.w, q.w, s[i / 4][i % 4]))));
        }
    }
}

/* Packs a square of scores, or its transpose, for short_product. */
template <class T> GPU_INLINE void short_pack(ShortSquare<T> &square, const float (&s)[2][4], bool transposed) {
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t pair = pack_pair<T>(s[n][2 * half], s[n][2 * half + 1]);
            square.x[transposed ? 2 * half + n : 2 * n + half] = transposed ? transpose_matrix(pair) : pair;
        }
}

GPU_INLINE void short_pack(ShortSquare<float> &square, const float (&s)[2][4], bool transposed) {
    __syncwarp(); /* nobody reads the square before */
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int row = short_row(i % 4), key = short_key(i / 4, i % 4);
        square.x[(transposed ? key : row) * square.STRIDE + (transposed ? row : key)] = s[i / 4][i % 4];
    }
    __syncwarp();
}

/* Computes the first `length` rows of x y times scale, 8 columns a lane at a time. */
template <class T, int COLUMNS>
GPU_INLINE void short_product(T *to, int64_t stride, int length, int head_size, const ShortSquare<T> &x,
                              const ShortRows<T, COLUMNS> &y, float scale) {
    const int lane = threadIdx.x % 32, column = lane % 4 * 8;
#pragma unroll
    for (int i = 0; i < COLUMNS / 32; i++) {
        float sum[4][4] = {};
#pragma unroll
        for (int j = 0; j < 4; j++)
            mma_16x8x16<T>(sum[j], x.x, transpose_matrix(y.x[i][0][j]), transpose_matrix(y.x[i][1][j]));
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int row = 8 * half + lane / 4;
            Vector<uint32_t> piece;
#pragma unroll
            for (int j = 0; j < 4; j++) piece[j] = pack_pair<T>(scale * sum[j][2 * half], scale * sum[j][2 * half + 1]);
            if (row < length && 32 * i + column < head_size)
                store_vector(reinterpret_cast<uint32_t *>(to + row * stride + 32 * i + column), piece);
        }
    }
}

template <int COLUMNS>
GPU_INLINE void short_product(float *to, int64_t stride, int length, int head_size, const ShortSquare<float> &x,
                              const ShortRows<float, COLUMNS> &y, float scale) {
    const int lane = threadIdx.x % 32;
    for (int column = lane % 4 * 8; column < COLUMNS; column += 32) {
        Vector<float> sum[2][2] = {}; /* rows 8 half, columns 4 part */
#pragma unroll 4
        for (int k = 0; k < SHORT; k++)
#pragma unroll
            for (int part = 0; part < 2; part++) {
                float4 v = *reinterpret_cast<const float4 *>(y.x + k * y.STRIDE + column + 4 * part);
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    float f = x.x[(8 * half + lane / 4) * x.STRIDE + k];
                    Vector<float> &to_add = sum[half][part];
                    to_add[0] = fmaf(f, v.x, to_add[0]);
                    to_add[1] = fmaf(f, v.y, to_add[1]);
                    to_add[2] = fmaf(f, v.z, to_add[2]);
                    to_add[3] = fmaf(f, v.w, to_add[3]);
                }
            }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int row = 8 * (i / 2) + lane / 4, at = column + i % 2 * 4;
            Vector<float> &piece = sum[i / 2][i % 2];
#pragma unroll
            for (int e = 0; e < 4; e++) piece[e] *= scale;
            if (row < length && at < head_size) store_vector(to + row * stride + at, piece);
        }
    }
}

/* ---- the kernels ---- */

/* Reductions over the four lanes that share a row. */
GPU_INLINE float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 2));
}
GPU_INLINE float quad_sum(float x) {
    x += __shfl_xor_sync(0xFFFFFFFFu, x, 1);
    return x + __shfl_xor_sync(0xFFFFFFFFu, x, 2);
}

/* e^x as precise as the type needs it. */
template <class T> GPU_INLINE float short_exp(float x) {
    return sizeof(T) == 4 ? expf(x) : exp2_approximate(x * 1.44269504f);
}

/* The (sequence, head) of a warp; length 0: none. */
struct ShortItem {
    int head, start, length;
};
template <int WARPS> GPU_INLINE ShortItem short_item(const AttentionShape &a) {
    int item = (int)blockIdx.x * WARPS + (int)threadIdx.x / 32, sequence = item / a.n_heads;
    if (sequence >= a.count) return {0, 0, 0};
    ShortItem t = {item % a.n_heads, a.offsets[sequence], 0};
    t.length = a.offsets[sequence + 1] - t.start;
    if (t.length > SHORT) __trap(); /* recorded for other sequences than it is repeated for */
    return t;
}

/* Returns whether this row sees this key. Rows past the end see keys like the others, and are not written. */
GPU_INLINE bool short_visible(const AttentionShape &a, int length, int n, int e) {
    return short_key(n, e) < (a.causal ? min(short_row(e) + 1, length) : length);
}

/* Computes the factors of dropout, by which the probabilities are multiplied. */
GPU_INLINE void short_factors(float (&factors)[2][4], const AttentionShape &a, const ShortItem &t) {
#pragma unroll
    for (int i = 0; i < 8; i++) factors[i / 4][i % 4] = a.keep;
    if (a.threshold) zero_dropped<SHORT>(factors, a, t.head, t.start + short_row(0), 0);
}

template <class T, int COLUMNS>
__global__ void __launch_bounds__(32 * short_warps<T>(COLUMNS))
    attention_short_forward_kernel(T *out, float *lse, const T *qkv, AttentionShape a) {
    only_where_used<T>();
    typedef ShortRows<T, COLUMNS> Rows;
    DYNAMIC_SHARED(float, shared);
    const ShortItem t = short_item<short_warps<T>(COLUMNS)>(a);
    if (t.length == 0) return;
    float *memory = shared + (int)threadIdx.x / 32 * short_floats<T, COLUMNS>(3);
    ShortSquare<T> square(memory);
    memory += square.FLOATS;
    Rows q(memory), k(memory + Rows::FLOATS), v(memory + 2 * Rows::FLOATS);
    const T *from = qkv + t.start * a.width() + t.head * a.head_size;
    short_load(q, from, a.width(), t.length, a.head_size);
    short_load(k, from + a.channels(), a.width(), t.length, a.head_size);
    short_load(v, from + 2 * a.channels(), a.width(), t.length, a.head_size);
    __syncwarp();

    float p[2][4], factors[2][4];
    short_scores(p, q, k);
    short_factors(factors, a, t);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float top = -INFINITY, sum = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int n = i / 2, e = 2 * half + i % 2;
            p[n][e] = short_visible(a, t.length, n, e) ? a.scale * p[n][e] : -INFINITY;
            top = fmaxf(top, p[n][e]);
        }
        top = quad_max(top);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int n = i / 2, e = 2 * half + i % 2;
            p[n][e] = short_exp<T>(p[n][e] - top);
            sum += p[n][e];
        }
        sum = quad_sum(sum);
#pragma unroll
        for (int i = 0; i < 4; i++) p[i / 2][2 * half + i % 2] *= factors[i / 2][2 * half + i % 2] / sum;
        if (threadIdx.x % 4 == 0 && short_row(2 * half) < t.length)
            lse[(int64_t)t.head * a.n_tokens + t.start + short_row(2 * half)] = top + logf(sum);
    }
    short_pack(square, p, false);
    short_product(out + (int64_t)t.start * a.channels() + t.head * a.head_size, a.channels(), t.length, a.head_size,
                  square, v, 1.0f);
}

/* P = exp(scale S - lse),  dP = M dO V^T,  dS = P (dP - rowsum(P dP) / rowsum(P));  dV = (P M)^T dO,  dK = scale dS^T
 * Q, dQ = scale dS K. M is the factors of dropout. The rounding error of lse cancels: a row of dS sums to 0. Rows past
 * the end add nothing, because their dO is 0. */
template <class T, int COLUMNS>
__global__ void __launch_bounds__(32 * short_warps<T>(COLUMNS))
    attention_short_backward_kernel(T *dqkv, const T *dout, const T *qkv, const float *lse, AttentionShape a) {
    only_where_used<T>();
    typedef ShortRows<T, COLUMNS> Rows;
    DYNAMIC_SHARED(float, shared);
    const ShortItem t = short_item<short_warps<T>(COLUMNS)>(a);
    if (t.length == 0) return;
    float *memory = shared + (int)threadIdx.x / 32 * short_floats<T, COLUMNS>(4);
    ShortSquare<T> square(memory);
    memory += square.FLOATS;
    Rows q(memory), k(memory + Rows::FLOATS), v(memory + 2 * Rows::FLOATS), up(memory + 3 * Rows::FLOATS);
    const int64_t at = t.start * a.width() + t.head * a.head_size;
    short_load(q, qkv + at, a.width(), t.length, a.head_size);
    short_load(k, qkv + at + a.channels(), a.width(), t.length, a.head_size);
    short_load(v, qkv + at + 2 * a.channels(), a.width(), t.length, a.head_size);
    short_load(up, dout + (int64_t)t.start * a.channels() + t.head * a.head_size, a.channels(), t.length, a.head_size);
    __syncwarp();

    float p[2][4], ds[2][4], factors[2][4];
    short_scores(p, q, k);
    short_scores(ds, up, v);
    short_factors(factors, a, t);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = short_row(2 * half);
        float log_sum = row < t.length ? lse[(int64_t)t.head * a.n_tokens + t.start + row] : 0.0f, sum = 0, dot = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int n = i / 2, e = 2 * half + i % 2;
            p[n][e] = short_visible(a, t.length, n, e) ? short_exp<T>(a.scale * p[n][e] - log_sum) : 0.0f;
            ds[n][e] *= factors[n][e];
            sum += p[n][e];
            dot = fmaf(p[n][e], ds[n][e], dot);
        }
        dot = quad_sum(dot) / quad_sum(sum);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int n = i / 2, e = 2 * half + i % 2;
            ds[n][e] = p[n][e] * (ds[n][e] - dot);
            p[n][e] *= factors[n][e];
        }
    }
    T *to = dqkv + at;
    short_pack(square, p, true);
    short_product(to + 2 * a.channels(), a.width(), t.length, a.head_size, square, up, 1.0f);
    short_pack(square, ds, true);
    short_product(to + a.channels(), a.width(), t.length, a.head_size, square, q, a.scale);
    short_pack(square, ds, false);
    short_product(to, a.width(), t.length, a.head_size, square, k, a.scale);
}

template <class T, int COLUMNS, class... P, class... A>
static void short_launch(const char *what, const Device *device, void (*kernel)(P...), int tiles,
                         const AttentionShape &a, A... arguments) {
    constexpr int WARPS = short_warps<T>(COLUMNS);
    int64_t items = (int64_t)a.count * a.n_heads;
    attention_launch(what, device, kernel, (items + WARPS - 1) / WARPS, 32 * WARPS,
                     WARPS * sizeof(float) * (size_t)short_floats<T, COLUMNS>(tiles), arguments..., a);
}

template <class T, int HEAD>
static void short_forward(const Device *device, T *out, float *lse, const T *qkv, const AttentionShape &a) {
    constexpr int COLUMNS = short_columns(HEAD);
    short_launch<T, COLUMNS>("attention_forward", device, attention_short_forward_kernel<T, COLUMNS>, 3, a, out, lse,
                             qkv);
}

template <class T, int HEAD>
static void short_backward(const Device *device, T *dqkv, const T *dout, const T *qkv, const float *lse,
                           const AttentionShape &a) {
    constexpr int COLUMNS = short_columns(HEAD);
    short_launch<T, COLUMNS>("attention_backward", device, attention_short_backward_kernel<T, COLUMNS>, 4, a, dqkv,
                             dout, qkv, lse);
}
