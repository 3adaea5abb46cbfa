/* Attention inside packed sequences. Scores exist for one block of BLOCK query rows at a time, in the thread's scratch
 * [BLOCK, keys]; a causal block takes only the keys up to its last row. A work item of the forward is (sequence, head,
 * block). A work item of the backward is (sequence, head), whose blocks add to the same dK and dV. If there are fewer
 * items than PARTS, each is split: every part takes some of the blocks and sums its own dK and dV, which are then added
 * in the order of the parts. The number of parts depends on the shapes alone, so any number of threads gives the same
 * bits. Short sequences use attention_short.h, beside whatever others. So nothing in the forward of a sequence depends
 * on the other sequences; in its backward the number of parts does, which regroups the sums of dK and dV over blocks.
 *
 * Forward:  S = scale Q K^T,  P = softmax(S),  O = (P M) V, M the dropout factors; lse = log sum exp of a row of S.
 * Backward: P = exp(S - lse);  dV = (P M)^T dO;  dP = M (dO V^T);  dS = P (dP - rowsum(dO O));
 *           dQ = scale dS K;  dK = scale dS^T Q. */
#include "kernels/cpu/attention_short.h"

enum { BLOCK = 64, PARTS = 16 };

/* One block of query rows of one head of one sequence: rows [first, first + rows) of the batch see `keys` key rows from
 * `start`; if causal, row r of the block sees only its own position and earlier ones. */
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

static inline uint64_t dropout_element(const Tile *t, int64_t r) {
    return ((uint64_t)t->head << DROPOUT_ROW_BITS | (uint64_t)(t->first + r)) << DROPOUT_KEY_BITS;
}

/* Adds to the scores of a query the products with the distances j - i of its keys, of which farther ones count as -left
 * and right. In three loops: a gather would take as long as the products. */
static inline void add_distances(float *s, int64_t keys, const float *product, int64_t i, int64_t left, int64_t right) {
    int64_t begin = i - left < 0 ? 0 : i - left < keys ? i - left : keys;
    int64_t end = i + right + 1 < keys ? i + right + 1 : keys;
    const float far_left = product[-left], far_right = product[right];
#pragma omp simd
    for (int64_t j = 0; j < begin; j++) s[j] += far_left;
#pragma omp simd
    for (int64_t j = begin; j < end; j++) s[j] += product[j - i];
#pragma omp simd
    for (int64_t j = end; j < keys; j++) s[j] += far_right;
}

/* Adds terms, times the scale, to the scores of a block. The products of its queries with all distances are computed
 * once, in `products` [rows, left + 1 + right]. */
static void add_terms(const Heads *h, const Tile *t, const AttentionTerms *terms, const float *q, float *scores,
                      float *products) {
    int64_t left = terms->left, right = terms->right, width = left + 1 + right;
    const float *key_terms = terms->key_terms.data;
    float scale = h->attention.scale;
    if (tensor_given(terms->distances))
        gemm('N', 'T', t->rows, width, h->head_size, scale, q, h->width, terms->distances.data, h->head_size, 0,
             products, width);
    if (key_terms) key_terms += t->start * h->attention.n_heads + t->head;
    for (int64_t r = 0; r < t->rows; r++) {
        float *s = scores + r * t->keys;
        const float *product = products + r * width + left;
        int64_t i = t->first - t->start + r;
        if (tensor_given(terms->distances)) add_distances(s, t->keys, product, i, left, right);
        if (key_terms)
#pragma omp simd
            for (int64_t j = 0; j < t->keys; j++) s[j] = multiply_add(scale, key_terms[j * h->attention.n_heads], s[j]);
    }
}

/* Computes a block; terms and lse may be NULL. `more` is scratch: [keys] for dropout, or the products of add_terms. */
static void attend(const Heads *h, const Tile *t, const AttentionTerms *terms, const float *qkv, float *out, float *lse,
                   float *scores, float *more) {
    const float *q = qkv + t->first * h->width + t->head * h->head_size;
    const float *k = qkv + t->start * h->width + h->c + t->head * h->head_size, *v = k + h->c;
    gemm('N', 'T', t->rows, t->keys, h->head_size, h->attention.scale, q, h->width, k, h->width, 0, scores, t->keys);
    if (terms) add_terms(h, t, terms, q, scores, more);
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
        /* cppcheck-suppress invalidFunctionArg ; a row sees at least itself: sum >= 1 */
        if (lse) lse[t->head * h->n + t->first + r] = largest + logf(sum);
        float scale = 1.0f / sum;
        if (h->drop.p > 0) {
            dropout_factors(&h->drop, dropout_element(t, r), seen, more);
            for (int64_t j = 0; j < seen; j++) s[j] *= scale * more[j];
        } else {
            for (int64_t j = 0; j < seen; j++) s[j] *= scale;
        }
        for (int64_t j = seen; j < t->keys; j++) s[j] = 0;
    }
    gemm('N', 'N', t->rows, h->head_size, t->keys, 1, scores, t->keys, v, h->width, 0,
         out + t->first * h->c + t->head * h->head_size, h->c);
}

/* Writes zeros: the result of queries that see no key. */
static void clear_rows(const Heads *h, const Tile *t, float *out) {
    for (int64_t row = t->first; row < t->first + t->rows; row++)
        memset(out + row * h->c + t->head * h->head_size, 0, (size_t)h->head_size * sizeof *out);
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

/* Computes the sequences that are not short; with terms, which short ones have no code for, all. */
static void forward_blocks(Device *device, const Heads *h, Sequences sequences, const AttentionTerms *terms,
                           const float *qkv, float *out, float *lse) {
    int64_t longest = longest_sequence(sequences), heads = h->attention.n_heads;
    int64_t piece = terms ? BLOCK * (longest + terms->left + 1 + terms->right) : (BLOCK + 1) * longest;
    if (!terms && is_short(h, longest)) return;
    float *scratch = cpu_scratch(device, (size_t)(device->n_threads * piece));
    int64_t blocks = (longest + BLOCK - 1) / BLOCK, items = blocks * sequences.count * heads;
    const int32_t *hidden = terms ? terms->hidden.data : NULL;
    /* Starts with the last blocks of a causal sequence, which cost most. */
#pragma omp parallel for num_threads(device->n_threads) schedule(dynamic)
    for (int64_t item = 0; item < items; item++) {
        int head = (int)(item % heads), s = (int)(item / heads % sequences.count);
        int64_t block = blocks - 1 - item / heads / sequences.count, start = sequences.host_offsets[s];
        int64_t length = sequences.host_offsets[s + 1] - start;
        if (block * BLOCK >= length || (!terms && is_short(h, length))) continue;
        Tile t = tile_of(h, start, length, block, head);
        if (hidden) t.keys -= hidden[s];
        float *mine = scratch + omp_get_thread_num() * piece;
        if (t.keys > 0)
            attend(h, &t, terms, qkv, out, lse, mine, mine + BLOCK * longest);
        else
            clear_rows(h, &t, out);
    }
}

static void cpu_attention_forward(Device *device, Tensor out, Tensor lse, Tensor qkv, Sequences sequences,
                                  Attention attention, Dropout drop) {
    Heads h = heads_of(qkv, attention, drop);
    short_forward(&h, device->n_threads, sequences, qkv.data, out.data, lse.data);
    forward_blocks(device, &h, sequences, NULL, qkv.data, out.data, lse.data);
}

static void cpu_attention_terms_forward(Device *device, Tensor out, Tensor qkv, Sequences sequences,
                                        Attention attention, AttentionTerms terms) {
    check_indices("attention_terms_forward", "hidden", terms.hidden, 0, INT32_MAX);
    if (!tensor_given(terms.distances)) terms.left = terms.right = 0;
    Heads h = heads_of(qkv, attention, (Dropout){0});
    forward_blocks(device, &h, sequences, &terms, qkv.data, out.data, NULL);
}

/* The tensors of the backward, and the dK and dV of one part of (sequence, head). */
typedef struct {
    float *dqkv, *dk, *dv;
    const float *dout, *qkv, *out, *lse;
    int64_t width; /* the distance of rows of dk and dv */
} Gradients;

/* Computes P M and dS of a block, from the scores in p and from dO V^T in dp. */
static void backward_rows(const Heads *h, const Tile *t, const Gradients *g, float *p, float *dp, float *factors) {
    const float *up = g->dout + t->first * h->c + t->head * h->head_size;
    const float *o = g->out + t->first * h->c + t->head * h->head_size;
    for (int64_t r = 0; r < t->rows; r++, up += h->c, o += h->c, p += t->keys, dp += t->keys) {
        float lse = g->lse[t->head * h->n + t->first + r], dot = 0;
        int64_t seen = visible(h, t, r);
#pragma omp simd reduction(+ : dot)
        for (int64_t j = 0; j < h->head_size; j++) dot += up[j] * o[j];
        if (h->drop.p > 0) {
            dropout_factors(&h->drop, dropout_element(t, r), seen, factors);
#pragma omp simd
            for (int64_t j = 0; j < seen; j++) {
                float probability = exp_approximate(p[j] - lse);
                dp[j] = probability * (dp[j] * factors[j] - dot);
                p[j] = probability * factors[j];
            }
        } else {
#pragma omp simd
            for (int64_t j = 0; j < seen; j++) {
                p[j] = exp_approximate(p[j] - lse);
                dp[j] = p[j] * (dp[j] - dot);
            }
        }
        for (int64_t j = seen; j < t->keys; j++) p[j] = dp[j] = 0;
    }
}

/* Processes blocks last, last - stride, .. of one head of one sequence. Block `last` sees the most keys: it overwrites
 * dK and dV, and the other blocks add to them. */
static void attend_backward(const Heads *h, const Gradients *g, int64_t start, int64_t length, int head, int64_t last,
                            int64_t stride, float *scratch) {
    const float *k = g->qkv + start * h->width + h->c + head * h->head_size, *v = k + h->c;
    float *p = scratch, *dp = p + BLOCK * length, *factors = dp + BLOCK * length, scale = h->attention.scale;
    for (int64_t block = last; block >= 0; block -= stride) {
        Tile t = tile_of(h, start, length, block, head);
        const float *q = g->qkv + t.first * h->width + head * h->head_size;
        const float *up = g->dout + t.first * h->c + head * h->head_size;
        float *dq = g->dqkv + t.first * h->width + head * h->head_size, beta = block == last ? 0.0f : 1.0f;
        gemm('N', 'T', t.rows, t.keys, h->head_size, scale, q, h->width, k, h->width, 0, p, t.keys);
        gemm('N', 'T', t.rows, t.keys, h->head_size, 1, up, h->c, v, h->width, 0, dp, t.keys);
        backward_rows(h, &t, g, p, dp, factors);
        gemm('T', 'N', t.keys, h->head_size, t.rows, 1, p, t.keys, up, h->c, beta, g->dv, g->width);
        gemm('T', 'N', t.keys, h->head_size, t.rows, scale, dp, t.keys, q, h->width, beta, g->dk, g->width);
        gemm('N', 'N', t.rows, h->head_size, t.keys, scale, dp, t.keys, k, h->width, 0, dq, h->width);
    }
}

/* Adds the dK and dV of parts 1, 2, .., [length, 2 head_size] each, to those of the head and sequence, in this order.
 */
static void add_parts(const Heads *h, float *dk, int64_t start, int64_t length, int head, const float *parts,
                      int64_t n_parts, int64_t part_floats) {
    int64_t blocks = (length + BLOCK - 1) / BLOCK, size = h->head_size;
    for (int64_t part = 1; part < n_parts && part < blocks; part++, parts += part_floats) {
        int64_t keys = tile_of(h, start, length, blocks - 1 - part, head).keys;
        for (int64_t j = 0; j < keys; j++) {
            float *to = dk + j * h->width;
            for (int64_t i = 0; i < size; i++) to[i] += parts[j * 2 * size + i];
            for (int64_t i = 0; i < size; i++) to[h->c + i] += parts[j * 2 * size + size + i];
        }
    }
}

static void cpu_attention_backward(Device *device, Tensor dqkv, Tensor dout, AttentionActivations forward,
                                   Sequences sequences, Attention attention, Dropout drop) {
    Tensor qkv = forward.qkv, out = forward.out, lse = forward.lse;
    Heads h = heads_of(qkv, attention, drop);
    int64_t longest = longest_sequence(sequences), piece = (2 * BLOCK + 1) * longest;
    short_backward(&h, device->n_threads, sequences, qkv.data, dout.data, lse.data, dqkv.data);
    if (is_short(&h, longest)) return;
    int64_t blocks = (longest + BLOCK - 1) / BLOCK, items = (int64_t)sequences.count * attention.n_heads, n_parts = 1;
    while (items * n_parts < PARTS && n_parts < blocks) n_parts++;
    int64_t part_floats = longest * 2 * h.head_size;
    float *scratch = cpu_scratch(device, (size_t)(device->n_threads * piece + items * (n_parts - 1) * part_floats));
    float *parts = scratch + device->n_threads * piece;
#pragma omp parallel num_threads(device->n_threads)
    {
#pragma omp for schedule(dynamic)
        for (int64_t work = 0; work < items * n_parts; work++) {
            int64_t item = work / n_parts, part = work % n_parts,
                    start = sequences.host_offsets[item / h.attention.n_heads];
            int64_t length = sequences.host_offsets[item / h.attention.n_heads + 1] - start;
            int head = (int)(item % h.attention.n_heads);
            if (is_short(&h, length)) continue;
            float *dk = (float *)dqkv.data + start * h.width + h.c + head * h.head_size;
            Gradients g = {dqkv.data, dk, dk + h.c, dout.data, qkv.data, out.data, lse.data, h.width};
            if (part) {
                g.dk = parts + (item * (n_parts - 1) + part - 1) * part_floats;
                g.dv = g.dk + h.head_size;
                g.width = 2 * h.head_size;
            }
            attend_backward(&h, &g, start, length, head, (length + BLOCK - 1) / BLOCK - 1 - part, n_parts,
                            scratch + omp_get_thread_num() * piece);
        }
#pragma omp for schedule(static)
        for (int64_t item = 0; item < (n_parts > 1 ? items : 0); item++) {
            int64_t start = sequences.host_offsets[item / h.attention.n_heads];
            int64_t length = sequences.host_offsets[item / h.attention.n_heads + 1] - start;
            int head = (int)(item % h.attention.n_heads);
            if (is_short(&h, length)) continue;
            add_parts(&h, (float *)dqkv.data + start * h.width + h.c + head * h.head_size, start, length, head,
                      parts + item * (n_parts - 1) * part_floats, n_parts, part_floats);
        }
    }
}
