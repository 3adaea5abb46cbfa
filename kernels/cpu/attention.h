/* Attention inside packed sequences. Work is cut into (sequence, head, block of BLOCK query rows) forward, and
 * (sequence, head) backward; scores exist for one block of query rows at a time, in the thread's scratch [BLOCK, keys].
 *
 * Forward:  S = scale Q K^T,  P = softmax(S),  O = (P M) V, M the dropout factors; lse = log sum exp of a row of S.
 * Backward: P = exp(S - lse);  dV = (P M)^T dO;  dP = M (dO V^T);  dS = P (dP - rowsum(dO O));
 *           dQ = scale dS K;  dK = scale dS^T Q. */
#ifndef KERNELS_CPU_ATTENTION_H
#define KERNELS_CPU_ATTENTION_H

#include "kernels/cpu/simd.h"

enum { BLOCK = 64 };

typedef struct {
    int64_t n, c, head_size, width; /* rows of the batch, channels, of a head, of a row of qkv (3c) */
    Attention attention;
    Dropout drop;
} Heads;

/* One block of query rows of one head of one sequence: rows [first, first + rows) of the batch see `keys` key rows from
 * `start`; row r of the block, if causal, sees only its own place and those before. */
typedef struct {
    int64_t start, first, rows, keys;
    int head;
} Tile;

static inline int64_t visible(const Heads *h, const Tile *t, int64_t r) {
    return h->attention.causal ? t->first - t->start + r + 1 : t->keys;
}

static inline Tile tile_of(const Heads *h, int64_t start, int64_t length, int64_t block, int head) {
    Tile t = {.start = start, .first = start + block * BLOCK, .head = head};
    t.rows = start + length - t.first < BLOCK ? start + length - t.first : BLOCK;
    t.keys = h->attention.causal ? t.first + t.rows - start : length;
    return t;
}

static inline uint64_t dropout_element(const Heads *h, const Tile *t, int64_t r) {
    return ((uint64_t)t->head * (uint64_t)h->n + (uint64_t)(t->first + r)) << 20;
}

static void attend(const Heads *h, const Tile *t, const float *qkv, float *out, float *lse, float *scores,
                   float *factors) {
    const float *q = qkv + t->first * h->width + t->head * h->head_size;
    const float *k = qkv + t->start * h->width + h->c + t->head * h->head_size, *v = k + h->c;
    gemm('N', 'T', t->rows, t->keys, h->head_size, h->attention.scale, q, h->width, k, h->width, 0, scores, t->keys);
    for (int64_t r = 0; r < t->rows; r++) {
        float *s = scores + r * t->keys, largest = s[0], sum = 0;
        int64_t seen = visible(h, t, r);
#pragma omp simd reduction(max : largest)
        for (int64_t j = 0; j < seen; j++) largest = s[j] > largest ? s[j] : largest;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < seen; j++) {
            s[j] = exp_approximate(s[j] - largest);
            sum += s[j];
        }
        lse[t->head * h->n + t->first + r] = largest + logf(sum);
        float scale = 1.0f / sum;
        if (h->drop.p > 0) {
            dropout_factors(&h->drop, dropout_element(h, t, r), seen, factors);
            for (int64_t j = 0; j < seen; j++) s[j] *= scale * factors[j];
        } else {
            for (int64_t j = 0; j < seen; j++) s[j] *= scale;
        }
        for (int64_t j = seen; j < t->keys; j++) s[j] = 0;
    }
    gemm('N', 'N', t->rows, h->head_size, t->keys, 1, scores, t->keys, v, h->width, 0,
         out + t->first * h->c + t->head * h->head_size, h->c);
}

static int64_t longest_sequence(Sequences sequences) {
    int64_t longest = 0;
    for (int s = 0; s < sequences.count; s++) {
        int64_t length = sequences.host_offsets[s + 1] - sequences.host_offsets[s];
        if (length > longest) longest = length;
    }
    return longest;
}

static Heads heads_of(Tensor qkv, Attention attention, Dropout drop) {
    int64_t c = qkv.dims[1] / 3;
    return (Heads){qkv.dims[0], c, c / attention.n_heads, 3 * c, attention, drop};
}

static void cpu_attention_forward(Device *device, Tensor out, Tensor lse, Tensor qkv, Sequences sequences,
                                  Attention attention, Dropout drop) {
    Heads h = heads_of(qkv, attention, drop);
    size_t longest = (size_t)longest_sequence(sequences), piece = (BLOCK + 1) * longest;
    float *scratch = cpu_scratch(device, piece);
    piece = ((CpuState *)device->state)->scratch_floats;
    int64_t blocks = ((int64_t)longest + BLOCK - 1) / BLOCK, items = blocks * sequences.count * attention.n_heads;
    /* The last blocks of a causal sequence cost most: they go first. */
#pragma omp parallel for schedule(dynamic)
    for (int64_t item = 0; item < items; item++) {
        int head = (int)(item % attention.n_heads), s = (int)(item / attention.n_heads % sequences.count);
        int64_t block = blocks - 1 - item / attention.n_heads / sequences.count, start = sequences.host_offsets[s];
        int64_t length = sequences.host_offsets[s + 1] - start;
        if (block * BLOCK >= length) continue;
        Tile t = tile_of(&h, start, length, block, head);
        float *mine = scratch + (size_t)omp_get_thread_num() * piece;
        attend(&h, &t, qkv.data, out.data, lse.data, mine, mine + BLOCK * longest);
    }
}

/* dqkv of one head of one sequence. The last block of queries sees every key, so it is the one that overwrites dK and
 * dV; the blocks before it add. */
static void attend_backward(const Heads *h, int64_t start, int64_t length, int head, float *dqkv, const float *dout,
                            const float *qkv, const float *out, const float *lse, float *p, float *dp, float *factors) {
    const float *k = qkv + start * h->width + h->c + head * h->head_size, *v = k + h->c;
    float *dk = dqkv + start * h->width + h->c + head * h->head_size, *dv = dk + h->c, scale = h->attention.scale;
    int64_t blocks = (length + BLOCK - 1) / BLOCK;
    for (int64_t block = blocks - 1; block >= 0; block--) {
        Tile t = tile_of(h, start, length, block, head);
        const float *q = qkv + t.first * h->width + head * h->head_size;
        const float *up = dout + t.first * h->c + head * h->head_size, *o = out + t.first * h->c + head * h->head_size;
        float beta = block == blocks - 1 ? 0.0f : 1.0f;
        gemm('N', 'T', t.rows, t.keys, h->head_size, scale, q, h->width, k, h->width, 0, p, t.keys);
        gemm('N', 'T', t.rows, t.keys, h->head_size, 1, up, h->c, v, h->width, 0, dp, t.keys);
        for (int64_t r = 0; r < t.rows; r++) {
            float *pr = p + r * t.keys, *dpr = dp + r * t.keys, l = lse[head * h->n + t.first + r], dot = 0;
            int64_t seen = visible(h, &t, r);
#pragma omp simd reduction(+ : dot)
            for (int64_t j = 0; j < h->head_size; j++) dot += up[r * h->c + j] * o[r * h->c + j];
            if (h->drop.p > 0) {
                dropout_factors(&h->drop, dropout_element(h, &t, r), seen, factors);
#pragma omp simd
                for (int64_t j = 0; j < seen; j++) {
                    float probability = exp_approximate(pr[j] - l);
                    dpr[j] = probability * (dpr[j] * factors[j] - dot);
                    pr[j] = probability * factors[j];
                }
            } else {
#pragma omp simd
                for (int64_t j = 0; j < seen; j++) {
                    pr[j] = exp_approximate(pr[j] - l);
                    dpr[j] = pr[j] * (dpr[j] - dot);
                }
            }
            for (int64_t j = seen; j < t.keys; j++) pr[j] = dpr[j] = 0;
        }
        gemm('T', 'N', t.keys, h->head_size, t.rows, 1, p, t.keys, up, h->c, beta, dv, h->width);
        gemm('T', 'N', t.keys, h->head_size, t.rows, scale, dp, t.keys, q, h->width, beta, dk, h->width);
        gemm('N', 'N', t.rows, h->head_size, t.keys, scale, dp, t.keys, k, h->width, 0,
             dqkv + t.first * h->width + head * h->head_size, h->width);
    }
}

static void cpu_attention_backward(Device *device, Tensor dqkv, Tensor dout, Tensor qkv, Tensor out, Tensor lse,
                                   Sequences sequences, Attention attention, Dropout drop) {
    Heads h = heads_of(qkv, attention, drop);
    size_t longest = (size_t)longest_sequence(sequences), piece = (2 * BLOCK + 1) * longest;
    float *scratch = cpu_scratch(device, piece);
    piece = ((CpuState *)device->state)->scratch_floats;
    int64_t items = (int64_t)sequences.count * attention.n_heads;
#pragma omp parallel for schedule(dynamic)
    for (int64_t item = 0; item < items; item++) {
        int64_t start = sequences.host_offsets[item / attention.n_heads];
        int64_t length = sequences.host_offsets[item / attention.n_heads + 1] - start;
        float *mine = scratch + (size_t)omp_get_thread_num() * piece;
        attend_backward(&h, start, length, (int)(item % attention.n_heads), dqkv.data, dout.data, qkv.data, out.data,
                        lse.data, mine, mine + BLOCK * longest, mine + 2 * BLOCK * longest);
    }
}

#endif
