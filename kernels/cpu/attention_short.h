/* Attention of sequences of at most 16 rows: the scores of a (sequence, head) are one square, all data lie in the L1
 * cache, and the call of a GEMM would cost more than the product itself. short_product computes each product of a head,
 * two forward and five backward. attention.c includes this file and states the formulas; rowsum(dO O) is computed as
 * rowsum(P dP), so that out is not read. */
#pragma once

#include "kernels/cpu/simd.h"

#if defined __AVX512F__ /* rows whose sums are computed at once: as many as the registers hold */
enum { SHORT = 16, SHORT_SIZE = 128, SHORT_GROUP = 8 };
#else
enum { SHORT = 16, SHORT_SIZE = 128, SHORT_GROUP = 4 };
#endif

/* The arguments of a call that are not tensors. */
typedef struct {
    int64_t n, c, head_size, width; /* rows of the batch, channels, channels of a head, channels of a row of qkv (3c) */
    Attention attention;
    Dropout drop;
} Heads;

typedef float ShortSquare[SHORT][SHORT];
typedef float ShortColumns[SHORT_SIZE][SHORT]; /* [column of a head][row]; the last row is repeated up to SHORT */

/* One head of one sequence: rows [start, start + length) of the batch. */
typedef struct {
    int64_t start, length;
    int head;
} ShortItem;

/* c [rows, columns] = scale a b, a [rows, k], b [k, columns]. The strides of rows are c_row, a_row and b_row; a_k is
 * the stride of a's columns, so that a can be a transpose. columns is a multiple of 16. */
static inline void short_product(float *c, int64_t c_row, const float *a, int64_t a_row, int64_t a_k, const float *b,
                                 int64_t b_row, int64_t rows, int64_t k, int64_t columns, float scale) {
    for (int64_t column = 0; column < columns; column += SHORT)
        for (int64_t first = 0; first < rows; first += SHORT_GROUP) {
            float sum[SHORT_GROUP][SHORT] = {{0}};
            const float *from[SHORT_GROUP], *x = b + column;
            for (int64_t r = 0; r < SHORT_GROUP; r++) /* repeats the last row past the end */
                from[r] = a + (first + r < rows ? first + r : rows - 1) * a_row;
            for (int64_t i = 0; i < k; i++, x += b_row)
#pragma GCC unroll 8
                for (int r = 0; r < SHORT_GROUP; r++)
#pragma omp simd
                    for (int j = 0; j < SHORT; j++) sum[r][j] = multiply_add(from[r][i * a_k], x[j], sum[r][j]);
            for (int64_t r = 0; r < SHORT_GROUP && first + r < rows; r++)
#pragma omp simd
                for (int j = 0; j < SHORT; j++) c[(first + r) * c_row + column + j] = scale * sum[r][j];
        }
}

static inline void short_transpose(ShortColumns t, const float *rows, int64_t stride, int64_t length, int64_t size) {
    for (int64_t j = 0; j < SHORT; j++) {
        const float *row = rows + (j < length ? j : length - 1) * stride;
        for (int64_t c = 0; c < size; c++) t[c][j] = row[c];
    }
}

/* Computes the dropout factors of the probabilities: 16 numbers per row, four rows at a time. */
static inline void short_factors(ShortSquare factors, const Heads *h, ShortItem item) {
    uint32_t bits[4 * PHILOX_LANES], threshold = dropout_threshold(&h->drop);
    float keep = 1.0f / (1.0f - h->drop.p);
    uint64_t block = ((uint64_t)item.head << DROPOUT_ROW_BITS | (uint64_t)item.start) << 18;
    for (int64_t i = 0; i < item.length; i += 4) {
        philox_lanes(&h->drop, block + ((uint64_t)i << 18), 1u << 18, bits);
        for (int r = 0; r < 4; r++)
            for (int j = 0; j < SHORT; j++) factors[i + r][j] = bits[r * SHORT + j] >= threshold ? keep : 0.0f;
    }
}

static void short_attend(const Heads *h, ShortItem item, const float *qkv, float *out, float *lse) {
    const int64_t size = h->head_size, length = item.length;
    const float *q = qkv + item.start * h->width + item.head * size, *k = q + h->c, *v = k + h->c;
    ShortColumns keys;
    ShortSquare p, factors;
    float sums[SHORT];
    if (!length) return; /* there is no last row to repeat */
    short_transpose(keys, k, h->width, length, size);
    short_product(p[0], SHORT, q, h->width, 1, keys[0], SHORT, length, size, SHORT, h->attention.scale);
    if (h->drop.p > 0) short_factors(factors, h, item);
    for (int i = 0; i < length; i++) {
        int seen = h->attention.causal ? i + 1 : (int)length;
        float largest = -INFINITY, sum = 0;
#pragma omp simd reduction(max : largest)
        for (int j = 0; j < SHORT; j++) {
            p[i][j] = j < seen ? p[i][j] : -INFINITY;
            largest = p[i][j] > largest ? p[i][j] : largest;
        }
#pragma omp simd reduction(+ : sum)
        for (int j = 0; j < SHORT; j++) {
            p[i][j] = exp_approximate(p[i][j] - largest);
            sum += p[i][j];
        }
        for (int j = 0; j < SHORT; j++) p[i][j] *= 1.0f / sum;
        if (h->drop.p > 0)
            for (int j = 0; j < SHORT; j++) p[i][j] *= factors[i][j];
        sums[i] = sum;
        lse[item.head * h->n + item.start + i] = largest;
    }
    for (int i = 0; i < length; i++) lse[item.head * h->n + item.start + i] += logf(sums[i]);
    short_product(out + item.start * h->c + item.head * size, h->c, p[0], SHORT, 1, v, h->width, length, length, size,
                  1);
}

/* Computes P, dS in place of dO V^T, and then the three products. */
static void short_attend_backward(const Heads *h, ShortItem item, const float *qkv, const float *dout, const float *lse,
                                  float *dqkv) {
    const int64_t size = h->head_size, length = item.length, at = item.start * h->width + item.head * size;
    const float *q = qkv + at, *k = q + h->c, *v = k + h->c, *up = dout + item.start * h->c + item.head * size;
    float *dq = dqkv + at, *dk = dq + h->c, *dv = dk + h->c, scale = h->attention.scale;
    ShortColumns columns;
    ShortSquare p, ds, factors;
    if (!length) return;
    short_transpose(columns, k, h->width, length, size);
    short_product(p[0], SHORT, q, h->width, 1, columns[0], SHORT, length, size, SHORT, scale);
    short_transpose(columns, v, h->width, length, size);
    short_product(ds[0], SHORT, up, h->c, 1, columns[0], SHORT, length, size, SHORT, 1);
    if (h->drop.p > 0) short_factors(factors, h, item);
    for (int i = 0; i < length; i++) {
        int seen = h->attention.causal ? i + 1 : (int)length;
        float log_sum = lse[item.head * h->n + item.start + i], sum = 0, dot = 0;
        if (h->drop.p > 0)
            for (int j = 0; j < SHORT; j++) ds[i][j] *= factors[i][j];
#pragma omp simd reduction(+ : sum, dot)
        for (int j = 0; j < SHORT; j++) {
            p[i][j] = j < seen ? exp_approximate(p[i][j] - log_sum) : 0.0f;
            sum += p[i][j];
            dot += p[i][j] * ds[i][j];
        }
        dot /= sum; /* cancels the rounding of lse: a row of dS sums to 0 */
        for (int j = 0; j < SHORT; j++) ds[i][j] = p[i][j] * (ds[i][j] - dot);
        if (h->drop.p > 0)
            for (int j = 0; j < SHORT; j++) p[i][j] *= factors[i][j];
    }
    short_product(dv, h->width, p[0], 1, SHORT, up, h->c, length, length, size, 1);
    short_product(dk, h->width, ds[0], 1, SHORT, q, h->width, length, length, size, scale);
    short_product(dq, h->width, ds[0], SHORT, 1, k, h->width, length, length, size, scale);
}

static inline bool is_short(const Heads *h, int64_t length) {
    return length <= SHORT && h->head_size % SHORT == 0 && h->head_size <= SHORT_SIZE;
}

static inline ShortItem short_item(const Heads *h, Sequences sequences, int64_t item) {
    int64_t s = item / h->attention.n_heads, start = sequences.host_offsets[s];
    return (ShortItem){start, sequences.host_offsets[s + 1] - start, (int)(item % h->attention.n_heads)};
}

/* Computes the short sequences. Schedules 16 items at a time, since one takes less than a microsecond. */
static void short_forward(const Heads *h, int n_threads, Sequences sequences, const float *qkv, float *out,
                          float *lse) {
#pragma omp parallel for num_threads(n_threads) schedule(dynamic, 16)
    for (int64_t i = 0; i < (int64_t)sequences.count * h->attention.n_heads; i++) {
        ShortItem item = short_item(h, sequences, i);
        if (is_short(h, item.length)) short_attend(h, item, qkv, out, lse);
    }
}

static void short_backward(const Heads *h, int n_threads, Sequences sequences, const float *qkv, const float *dout,
                           const float *lse, float *dqkv) {
#pragma omp parallel for num_threads(n_threads) schedule(dynamic, 16)
    for (int64_t i = 0; i < (int64_t)sequences.count * h->attention.n_heads; i++) {
        ShortItem item = short_item(h, sequences, i);
        if (is_short(h, item.length)) short_attend_backward(h, item, qkv, dout, lse, dqkv);
    }
}
