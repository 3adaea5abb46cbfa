/* THE DOOR: every operation that a model may ask of a device.
 *
 * Each door function does three things, in order, and nothing else: it checks shapes and dtypes (a wrong call dies at
 * once, naming the operation and the shapes), it adds the operation's exact FLOPs and bytes to the device's counters,
 * and it calls the device's implementation. Outputs come first. N is the number of rows: the tokens of all sequences of
 * the batch laid end to end, never a padding token. C is channels, V classes. "accumulated" means +=, all else is
 * overwritten. A Tensor argument marked optional may be tensor_none().
 *
 * T is the type of a call's activations: f32, or the device's 16-bit type. Linear layers read weights and biases of
 * that type too. Statistics, losses, the parameters of norms, embedding tables and all gradients of parameters are f32,
 * and so is every sum, whatever T is. */
#pragma once

#include "kernels/augment.h"
#include "kernels/device.h"

/* How a weight matrix is stored: GPT-2's Conv1D is [in, out] (y = x W), nn.Linear is [out, in] (y = x W^T). */
typedef enum { WEIGHT_IN_OUT, WEIGHT_OUT_IN } WeightLayout;
typedef enum { GELU_TANH, GELU_ERF } GeluKind;     /* gelu_new of GPT-2; the exact one */
typedef enum { GATE_SIGMOID, GATE_GELU } GateKind; /* GLU (Dauphin et al., 2017); GEGLU with the exact GELU */

/* Inverted dropout: element e is kept, times 1/(1-p), iff philox_bits(seed, purpose, *step, e) >= p 2^32.
 * p = 0 switches it off. Nothing is stored: the backward draws the same numbers again. The step lies in the device's
 * memory, so that calls of one micro-batch can be repeated for the next (Device.repeat). */
typedef struct {
    float p;
    uint64_t seed;
    uint32_t purpose;     /* PURPOSE_DROPOUT | site << 8 */
    const uint32_t *step; /* on the device; not read if p = 0 */
} Dropout;

/* The sequences of a packed batch: sequence s is rows offsets[s] .. offsets[s+1]-1. */
typedef struct {
    Tensor offsets;              /* i32 [count + 1], on the device */
    const int32_t *host_offsets; /* the same on the host, without a sync: see sequences_are_short */
    int count;
} Sequences;

enum { SHORT_SEQUENCE = 16 };
enum { PADDED_SEQUENCE = 128 }; /* rows of a sequence of padding (data/padding.h), at most */
/* Returns whether no sequence has more than SHORT_SEQUENCE rows. A device that repeats calls may choose kernels by
 * this, but by nothing else that it knows of the lengths. */
static inline bool sequences_are_short(const int32_t *host_offsets, int64_t count) {
    for (int64_t s = 0; s < count; s++)
        if (host_offsets[s + 1] - host_offsets[s] > SHORT_SEQUENCE) return false;
    return true;
}

typedef struct {
    int n_heads;
    bool causal;
    float scale; /* of the scores, 1/sqrt(head size) */
} Attention;

/* Terms that attention adds to the product of query i and key j of a sequence, before the scale. */
typedef struct {
    /* T [left + 1 + right, head size], optional: adds q_i . distances[clamp(j - i, -left, right) + left], the same rows
     * for all heads. */
    Tensor distances;
    int left, right;  /* at least 0; left + 1 + right <= ATTENTION_MAX_DISTANCES; not read without distances */
    Tensor key_terms; /* f32 [N, n_heads], optional: adds its number of key j */
    /* i32 [sequences], optional: so many rows, 0 or more, at the end of each sequence are seen as keys by no query. */
    Tensor hidden;
} AttentionTerms;
enum { ATTENTION_MAX_DISTANCES = 128 };

/* Keys and values of earlier rows of sequences, for generation. A slot is `capacity` rows of kv and holds one sequence,
 * whose row p is row slot capacity + p of kv. */
typedef struct {
    Tensor kv;             /* T [slots capacity, 2C]: k | v of a row, heads contiguous */
    Tensor slots, lengths; /* i32 [S]: of each sequence its slot, and how many rows it has cached */
    int64_t capacity;
    int64_t longest; /* of the lengths, or more: what the host knows of them */
} CachedKeys;

/* A one-dimensional convolution over sequences of `length` rows, with `padding` rows of zeros before and behind each.
 */
typedef struct {
    int64_t length;
    int taps, stride, padding;
} Window;

/* A depthwise convolution in time inside each sequence: tap m of row t sees row t + m dilation - before. `before` is
 * the number of rows of zeros before a sequence; (taps - 1) dilation, the most, makes the convolution causal. */
typedef struct {
    int taps, before, dilation;
} DepthwiseWindow;

/* A convolution over samples of in[0] x in[1] x in[2] positions (t, h, w; w runs fastest), each a row of channels, with
 * `padding` positions of zeros before and behind each axis. */
typedef struct {
    int in[3], taps[3], stride[3], padding[3];
} Convolution;

/* Gradients of a linear layer or a convolution: dx T of its input (optional), dw f32 of its weight, and dbias f32 of
 * its bias (optional); dw and dbias are accumulated. overwrite: dw, which may hold anything, is overwritten; only of
 * linear layers. */
typedef struct {
    Tensor dx, dw, dbias;
    bool overwrite;
} LayerGradients;

/* Gradients of a norm: dx T of its input, dgain and dbias f32 [C] of its parameters, accumulated. */
typedef struct {
    Tensor dx, dgain, dbias;
} NormGradients;

/* Dropout of a GELU's output: y = dropout(gelu(hidden)). */
typedef struct {
    GeluKind kind;
    Dropout drop;
} GeluDropout;

/* Results of a layer norm: y T [N, C], and the mean and rstd of its input's rows, f32 [N], for the backward. */
typedef struct {
    Tensor y, mean, rstd;
} LayerNormOutput;

/* Input and outputs of attention_forward, for the backward. */
typedef struct {
    Tensor qkv, out, lse;
} AttentionActivations;

/* Rows x T [N, C] and their batch normalisation (x - mean) rstd gain + bias; mean, rstd, gain and bias are f32 [C]. If
 * those four are none, the rows are used as they are. If x is none, there is no operand. */
typedef struct {
    Tensor x, mean, rstd, gain, bias;
} Normed;

/* The steps after the sum of two Normed operands, in this order, in samples of `frames` frames of `plane` rows. */
typedef struct {
    float slope;           /* of the leaky ReLU for negative numbers; 1: no activation */
    int64_t frames, plane; /* of a sample: N = samples frames plane */
    bool pool;             /* takes the larger of frames 2 t and 2 t + 1, as max_pool_forward; leaves frames / 2 */
    bool average;          /* with pool: takes the mean of the two frames instead */
    Dropout drop;          /* drops whole channels of a sample: element number sample C + channel */
} NormActivation;

/* Statistics that batch normalisation computes from a batch: mean and rstd of its rows. The running statistics
 * (optional, together) become (1 - momentum) times their old value + momentum times the mean, or the unbiased variance.
 * All f32 [C]. */
typedef struct {
    Tensor mean, rstd, running_mean, running_var;
    float momentum;
} BatchStatistics;

/* The temporal stem, two layers computed as one: a convolution in time of 7 taps from 2 channels to C, a batch norm, a
 * leaky ReLU, and a convolution in time of 3 taps, stride 2, to O channels. Both convolutions are padded with zeros, 3
 * and 1 at each end, and have no bias. Samples are `frames` x `plane` positions. */
typedef struct {
    int64_t frames, plane;
    float slope;
} Stem;
/* The stem's weights, w T [C, 14] (torch's [C, 2, 7, 1, 1]) and w2 T [O, C 3] (torch's [O, C, 3, 1, 1]), and the norm
 * between them, f32 [C]. */
typedef struct {
    Tensor w, mean, rstd, gain, bias, w2;
} StemWeights;
/* Gradients of StemWeights, f32, accumulated. */
typedef struct {
    Tensor dw, dgain, dbias, dw2;
} StemGradients;
enum {
    STEM_INPUTS = 2,
    STEM_TAPS = 7,
    STEM_WINDOW = STEM_TAPS * STEM_INPUTS, /* numbers, tap by tap: number 2 k + i is channel i under tap k */
    STEM_HALVING_TAPS = 3,
    STEM_MAX_CHANNELS = 64,                                       /* of C and O, which are multiples of 8 */
    STEM_MOMENTS = 2 * (STEM_WINDOW + STEM_WINDOW * STEM_WINDOW), /* floats */
};

/* A range of the flat parameter buffer that the optimizer treats alike. Elements outside of all segments (frozen rows,
 * padding between tensors) take no part in the norm and never change. */
typedef struct {
    int64_t begin, end; /* elements */
    float weight_decay;
    float learning_rate;
    int group; /* the parameter group, for the code that sets the rate */
    /* Leaves out elements inside: row r, the `width` elements from begin + r width on, takes part only if used[r] is
     * not 0. Sums and all other elements have the same bits as if its gradients were 0. NULL: all rows take part. */
    const uint8_t *used;  /* on the device; the last row may be cut off by `end` */
    int64_t width, count; /* count: elements that take part */
} Segment;

/* Returns the number of elements that take part. */
static inline int64_t segment_count(const Segment *segment) {
    return segment->used ? segment->count : segment->end - segment->begin;
}
/* Returns the number of rows, with the one that is cut off. */
static inline int64_t segment_rows(const Segment *segment) {
    return (segment->end - segment->begin + segment->width - 1) / segment->width;
}

/* The squares of gradients are summed in parts: the elements of one segment that lie in one piece of the buffer, pieces
 * being NORM_PIECE elements long and numbered from 0. */
enum { NORM_PIECE = 4096, NORM_FLOATS = 2 /* of the sum of a part */ };
typedef struct {
    int64_t first, end; /* pieces first .. end - 1 */
} NormPieces;

/* Returns the pieces of a segment's parts that begin at elements begin .. end - 1. */
static inline NormPieces norm_pieces(const Segment *s, int64_t begin, int64_t end) {
    NormPieces p = {s->begin / NORM_PIECE, 0};
    if (begin > s->begin) p.first = (begin + NORM_PIECE - 1) / NORM_PIECE;
    if (end > s->begin) p.end = ((end < s->end ? end : s->end) + NORM_PIECE - 1) / NORM_PIECE;
    if (s->begin == s->end || p.end < p.first) p.end = p.first;
    return p;
}

/* Returns the number of parts of the segments. */
static inline int64_t norm_parts(const Segment *segments, int n_segments) {
    int64_t parts = 0;
    for (int i = 0; i < n_segments; i++) {
        NormPieces p = norm_pieces(&segments[i], segments[i].begin, segments[i].end);
        parts += p.end - p.first;
    }
    return parts;
}

typedef struct {
    float beta1, beta2, epsilon;
    float clip;   /* gradients are scaled by min(1, clip / (norm + 1e-6)); <= 0: never */
    int64_t step; /* 1 for the first update: the bias corrections' exponent */
    bool coupled; /* adds weight decay to the gradients after clipping: Adam with an L2 term */
} AdamW;

/* Buffers of an AdamW update: params, the moving averages m and v, and grads, all f32 [P]; copy (optional, 16-bit
 * [P]) receives the new parameters for matmuls. An update that is to be repeated (Device.repeat) has its numbers here,
 * too: rates (optional, f32 by group) multiply the learning rates, step (optional, one number) replaces AdamW.step. */
typedef struct {
    Tensor params, copy, m, v, grads;
    Tensor rates;
    const uint32_t *step;
} AdamWBuffers;

/* A matrix [rows, columns] of the flat parameter buffer that Muon updates. Its rows begin `stride` elements apart: a
 * part of the columns of a wider matrix is a matrix too. */
typedef struct {
    int64_t offset, stride, rows, columns; /* offset: of the first element */
    float weight_decay;
    float learning_rate;
    int group; /* the parameter group, for the code that sets the rate */
} MuonMatrix;

typedef struct {
    float momentum;
    float clip; /* as of AdamW */
} Muon;
/* The coefficients a, b, c of the polynomial a x + b x^3 + c x^5 of Newton-Schulz, and how often it is applied. */
#define MUON_POLYNOMIAL                                                                                                \
    { 3.4445f, -4.7750f, 2.0315f }
enum { MUON_STEPS = 5 };

/* Dynamic loss scaling for 16-bit types of a small range, f32 [LOSS_SCALE_FIELDS] on the device, so that the host need
 * not wait: the factor on the loss, good steps since the factor last changed, updates done, updates skipped. */
enum { LOSS_SCALE_FACTOR, LOSS_SCALE_GOOD, LOSS_SCALE_DONE, LOSS_SCALE_SKIPPED, LOSS_SCALE_FIELDS };

/* y = x in y's type; both of any float type, [n]. */
void cast(Device *device, Tensor y, Tensor x);

/* Rows of embeddings, of place_rows, gather_rows and scatter_rows may be -1, no row: zeros are read of it, and nothing
 * is written. */

/* x[rows[i]] = table[ids[i]] + position_table[positions[i]], i < n. x T [N, C], rows/ids/positions i32 [n]. rows is
 * optional (i itself, n = N), and so are positions and position_table (together). */
void embedding_forward(Device *device, Tensor x, Tensor rows, Tensor ids, Tensor table, Tensor positions,
                       Tensor position_table);
/* dtable[ids[i]] += dx[rows[i]], dposition_table[positions[i]] += dx[rows[i]]; fixed order of summation. */
void embedding_backward(Device *device, Tensor dtable, Tensor dposition_table, Tensor dx, Tensor rows, Tensor ids,
                        Tensor positions);

/* x[rows[i]] = y[i] + table[positions[i]], rows distinct. x T [N, C], y T [n, C], rows/positions i32 [n], table f32 [P,
 * C]. The backward of y is gather_rows, that of the table embedding_backward. */
void place_rows(Device *device, Tensor x, Tensor y, Tensor rows, Tensor positions, Tensor table);

/* y[i] = x[rows[i]] and x[rows[i]] = y[i], rows distinct: each is the other's backward (clear dx first). The y of
 * scatter_rows may be f32 where x is not. */
void gather_rows(Device *device, Tensor y, Tensor x, Tensor rows);
void scatter_rows(Device *device, Tensor x, Tensor y, Tensor rows);

/* y = dropout(x); also its own backward (dx = dropout(dy)). y may be x. */
void dropout(Device *device, Tensor y, Tensor x, Dropout drop);

/* sum = x + dropout(branch), all [N, C]; the element number of the dropout is row * C + column. sum may be x. */
void residual_forward(Device *device, Tensor sum, Tensor x, Tensor branch, Dropout drop);

#define LAYERNORM_EPSILON 1e-5f
/* y = (x - mean) rstd gain + bias per row, rstd = 1 / sqrt(variance + epsilon), biased variance. x [N, C]; gain, bias
 * [C]; bias optional; epsilon more than 0. */
void layernorm_forward(Device *device, LayerNormOutput output, Tensor x, Tensor gain, Tensor bias, float epsilon);
/* dx = dresidual + d(layernorm)/dx dy; dresidual [N, C] is the gradient that arrives past the layernorm, optional, and
 * may be dx. dbias is optional. */
void layernorm_backward(Device *device, NormGradients gradients, Tensor dresidual, Tensor dy, Tensor x, Tensor mean,
                        Tensor rstd, Tensor gain);
/* residual_forward, then layernorm_forward of the sum with LAYERNORM_EPSILON, in one pass. */
void residual_layernorm_forward(Device *device, Tensor sum, LayerNormOutput output, Tensor x, Tensor branch,
                                Tensor gain, Tensor bias, Dropout drop);

/* Augments volumes of photon counts and makes two channels of them. Sample s is counts[volumes[s]], changed as draws[s]
 * says (kernels/augment.h). x[s, 0] = ln(1 + count) / 10; x[s, 1] is the footprint, 1 or 0, the same at every time.
 * Counts outside of the footprint are 0.
 *
 * The footprint is where the stored volume has photons at any time; it is shifted, turned and resampled like the
 * counts, by the nearest pixel. With `dilated` the footprint is instead where the augmented counts are above 0 at any
 * time; zoom, elastic deformation and blur widen it. x T [B T H W, 2]; counts u8 or u16 [n, T H W]; volumes i32 [B];
 * draws i32 [B, AUGMENT_DRAW_WORDS], AugmentDraws bit by bit. */
void augment_volumes(Device *device, Tensor x, Tensor counts, Tensor volumes, Tensor draws, AugmentShape shape,
                     bool dilated);
/* y[s] = share[0] x[s] + (1 - share[0]) x[partners[s]], of samples that are n rows each. x, y T [S n, C], y not x;
 * partners i32 [S]; share f32 [1]. */
void mixup(Device *device, Tensor y, Tensor x, Tensor partners, Tensor share);

/* y = x W + bias. x [N, in], y [N, out], w [in, out] or [out, in] as `layout` says, bias [out] optional. */
void linear_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, WeightLayout layout);
/* dx = dy W^T (optional), dw += x^T dy in w's layout, or = with overwrite, dbias += column sums of dy (optional). */
void linear_backward(Device *device, LayerGradients gradients, Tensor dy, Tensor x, Tensor w, WeightLayout layout);

/* hidden = x W + bias (optional) and y = dropout(gelu(hidden)), which is linear_forward, gelu_forward and dropout
 * in one pass; hidden is for the backward of GELU. The element number of the dropout is row * out + column. */
void linear_gelu_forward(Device *device, Tensor y, Tensor hidden, Tensor x, Tensor w, Tensor bias, WeightLayout layout,
                         GeluDropout activation);
/* The backward of dropout, GELU and the linear layer after them, whose input x was dropout(gelu(hidden)): dx, which is
 * not optional, is the gradient of hidden, dropout(dy W^T gelu'(hidden)); dw and dbias are as in linear_backward. */
void gelu_linear_backward(Device *device, LayerGradients gradients, Tensor dy, Tensor x, Tensor hidden, Tensor w,
                          WeightLayout layout, GeluDropout activation);

/* y = gelu(x) and dx = dy gelu'(x), elementwise. y may be x; dx may be dy. */
void gelu_forward(Device *device, Tensor y, Tensor x, GeluKind kind);
void gelu_backward(Device *device, Tensor dx, Tensor dy, Tensor x, GeluKind kind);

/* y = tanh(x) and dx = dy (1 - y^2), elementwise. y may be x; dx may be dy. */
void tanh_forward(Device *device, Tensor y, Tensor x);
void tanh_backward(Device *device, Tensor dx, Tensor dy, Tensor y);

/* y = x where x > 0, else slope x, and dx = dy or slope dy, elementwise. y may be x; dx may be dy. */
void leaky_relu_forward(Device *device, Tensor y, Tensor x, float slope);
void leaky_relu_backward(Device *device, Tensor dx, Tensor dy, Tensor x, float slope);

/* y = x sigmoid(x), elementwise. y may be x. */
void silu_forward(Device *device, Tensor y, Tensor x);
/* y = a sigmoid(b) or a gelu(b), elementwise: x T [N, 2C] holds a | b, so the gate b is its second half; y T [N, C]. */
void gate_forward(Device *device, Tensor y, Tensor x, GateKind kind);

enum { DROPOUT_KEY_BITS = 20, DROPOUT_ROW_BITS = 24 }; /* of an element's number in attention */
/* Scaled dot-product attention inside each sequence. qkv [N, 3C] holds q | k | v, each C wide, heads contiguous; out
 * [N, C]; lse f32 [n_heads, N] is the log-sum-exp of each row's scores, all that the backward needs of the softmax.
 * Dropout is on the probabilities; the element number of (head h, query row i, key row j) is h 2^44 + i 2^20 + (j -
 * first row of the sequence), rows counted in the packed batch: sequences are shorter than 2^20, batches than 2^24. */
void attention_forward(Device *device, Tensor out, Tensor lse, Tensor qkv, Sequences sequences, Attention attention,
                       Dropout drop);
void attention_backward(Device *device, Tensor dqkv, Tensor dout, AttentionActivations forward, Sequences sequences,
                        Attention attention, Dropout drop);

/* attention_forward with `terms`, without dropout and lse, of attention that is not causal: out[i] = sum over the keys
 * j that are not hidden of softmax_j(scale (q_i . k_j + terms)) v_j. Queries of hidden rows are computed like the
 * others; a sequence whose rows are all hidden gives zeros. The result of a sequence does not depend on the other
 * sequences. FLOPs are counted as if no row were hidden, because only the device knows. */
void attention_terms_forward(Device *device, Tensor out, Tensor qkv, Sequences sequences, Attention attention,
                             AttentionTerms terms);

/* kv[rows[i]] = k | v of qkv[i]: qkv T [N, 3C] as above, kv T [R, 2C], rows i32 [N], distinct. */
void cache_rows(Device *device, Tensor kv, Tensor qkv, Tensor rows);
/* Attention of one new row per sequence over the rows that its sequence has cached, its own among them: out[s] =
 * softmax(scale q[s] K^T) V. out T [S, C]; only q is read of qkv T [S, 3C]; attention.causal is not read. The number
 * for a sequence does not depend on the other sequences, nor on `longest`. FLOPs and bytes are counted as if every
 * sequence had `longest` rows, because the lengths lie on the device. */
void attention_cached_forward(Device *device, Tensor out, Tensor qkv, CachedKeys keys, Attention attention);

/* Returns the number of positions of the window: (length + 2 padding - taps) / stride + 1, rounded down. */
int64_t window_positions(Window window);
/* Copies the windows of a convolution into rows, so that linear_forward with the weight of torch's Conv1d, [out, C,
 * taps] seen as [out, C taps], does the rest: y[s positions + p, c taps + t] = x[s length + p stride - padding + t, c],
 * or 0 outside of sequence s. x T [S length, C], y T [S positions, C taps]. */
void unfold_forward(Device *device, Tensor y, Tensor x, Window window);
/* dx = the sum over all windows that a row is in, in the order of the taps. */
void unfold_backward(Device *device, Tensor dx, Tensor dy, Window window);

/* y[t, c] = bias[c] + the sum over taps m of w[c, m] x[t + m dilation - before, c], rows counted in their sequence,
 * with zeros beyond both of its ends. x, y T [N, C], y not x; w f32 [C, taps], torch's [C, 1, taps]; bias f32 [C],
 * optional. The number for a sequence does not depend on the other sequences. */
void depthwise_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, Sequences sequences,
                       DepthwiseWindow window);

/* Returns the number of positions of the windows along an axis: (in + 2 padding - taps) / stride + 1, rounded down. */
int convolution_positions(Convolution convolution, int axis);
/* y[s, p, o] = bias[o] + the sum over channels c and taps k of w[o, c, k] x[s, p stride - padding + k, c], without the
 * taps that see no position of the sample. x T [S in positions, C]; y T [S out positions, O]; w T [O, C taps], torch's
 * [O, C, t, h, w] row by row; bias T [O], optional. */
void conv3d_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, Convolution convolution);
/* dx is accumulated if add_dx, else overwritten; dw [O, C taps], dbias [O]. */
void conv3d_backward(Device *device, LayerGradients gradients, Tensor dy, Tensor x, Tensor w, Convolution convolution,
                     bool add_dx);

/* y[s, t, p] = the larger of x[s, 2 t, p] and x[s, 2 t + 1, p], the first if they are equal, NaN if one is: frames of
 * `plane` rows. x T [S frames plane, C]; y T [S frames / 2 plane, C], rounded down. */
void max_pool_forward(Device *device, Tensor y, Tensor x, int64_t frames, int64_t plane);
/* dx = dy where x was taken, else 0. */
void max_pool_backward(Device *device, Tensor dx, Tensor dy, Tensor x, int64_t frames, int64_t plane);

/* Batch normalisation (Ioffe and Szegedy, 2015) of columns: y = (x - mean) rstd gain + bias, eps 1e-5, with the mean
 * and the biased variance of the N >= 2 rows. x, y T [N, C]; mean, rstd, gain, bias f32 [C]. BatchStatistics says what
 * becomes of running_mean and running_var. */
void batchnorm_forward(Device *device, Tensor y, BatchStatistics statistics, Tensor x, Tensor gain, Tensor bias);
/* Computes the same y from the running statistics instead of the batch's. y may be x. */
void batchnorm_apply(Device *device, Tensor y, Tensor x, Tensor running_mean, Tensor running_var, Tensor gain,
                     Tensor bias);
/* dx = d(batchnorm_forward)/dx dy. dx may be dy. */
void batchnorm_backward(Device *device, NormGradients gradients, Tensor dy, Tensor x, Tensor mean, Tensor rstd,
                        Tensor gain);

/* Computes the first half of batchnorm_forward: mean, rstd, and the running statistics. */
void batchnorm_statistics(Device *device, BatchStatistics statistics, Tensor x);
/* rstd = 1 / sqrt(running_var + 1e-5), f32 [C]: with it and the running mean the second half is batchnorm_apply. */
void batchnorm_from_running(Device *device, Tensor rstd, Tensor running_var);

/* Computes the second half of batchnorm_forward and all that may follow up to the next layer, in one pass:
 * y = dropout(pool(leaky_relu(normed(a) + normed(b)))). a has a mean. b has a mean too, or is added as it is, or is
 * absent. y is T [N, C], with half of the frames if there is a pool. */
void norm_activate_forward(Device *device, Tensor y, Normed a, Normed b, NormActivation activation);
/* The backward of norm_activate_forward and of batchnorm_statistics, in two passes. The forward keeps only its inputs;
 * the signs, the pool's choices and dropout are recomputed. da.dx and db.dx T [N, C] are the gradients of a.x and b.x.
 * If b has no mean, db.dx is the gradient of the sum, and db.dgain and db.dbias are none. Without b.x, db.dx is none
 * too. da.dx or db.dx may be dy if there is no pool, and da.dx may be a.x, db.dx may be b.x. */
void norm_activate_backward(Device *device, NormGradients da, NormGradients db, Tensor dy, Normed a, Normed b,
                            NormActivation activation);

/* Returns the number of frames after the second layer: half of them, rounded up. */
int64_t stem_frames(Stem stem);

/* Computes the mean and rstd of each channel of the first layer's output s = conv(x, w) over all samples and positions,
 * and the running statistics (optional, together), all as in batchnorm_forward. s itself is never stored: it is linear
 * in the 14 numbers of x that a tap sees, so its mean is w . mu and its variance w' Sigma w. moments f32 [STEM_MOMENTS]
 * are doubles, mu [14] and then Sigma [14, 14], the windows' mean and biased covariance, for the backward; they and x
 * begin at multiples of 8 bytes. x T [S frames plane, 2], w T [C, 14] (torch's [C, 2, 7, 1, 1]); mean, rstd f32 [C]. */
void stem_statistics(Device *device, BatchStatistics statistics, Tensor moments, Tensor x, Tensor w, Stem stem);
/* y = conv(leaky_relu((conv(x, w) - mean) rstd gain + bias), w2). y T [S stem_frames plane, O], w2 T [O, C 3] (torch's
 * [O, C, 3, 1, 1]), gain and bias f32 [C]; y begins at a multiple of 16 bytes. Values between the layers are rounded to
 * T once, before the second layer. */
void stem_forward(Device *device, Tensor y, Tensor x, StemWeights weights, Stem stem);
/* The backward of stem_forward and stem_statistics: the weights' mean and rstd are the batch's. dy begins at a multiple
 * of 16 bytes. */
void stem_backward(Device *device, StemGradients gradients, Tensor dy, Tensor x, StemWeights weights, Tensor moments,
                   Stem stem);

/* y[s] = mean of the `length` rows of sequence s, and its backward. x T [S length, C], y T [S, C]. */
void mean_rows_forward(Device *device, Tensor y, Tensor x, int64_t length);
void mean_rows_backward(Device *device, Tensor dx, Tensor dy, int64_t length);

enum { DIRECTION_MAX_SIZE = 16 };
/* Finds for each row the row of the table with the largest dot product, the first of equal ones: ids i32 [N]; margins
 * f32 [N] (optional) is the largest product minus the second largest. x f32 [N, D], table f32 [K, D], D at most
 * DIRECTION_MAX_SIZE, K at least 2. NaN is never the largest: a row of which all products are NaN, as where x has one,
 * gets id 0 and the margin NaN. */
void nearest_direction(Device *device, Tensor ids, Tensor margins, Tensor x, Tensor table);

/* Softmax cross-entropy of the first `classes` columns of logits [N, V] against targets i32 [N]; a negative target is a
 * row without a loss. Columns behind them are padding, which is not read. loss f32 [N], times weights f32 [N]
 * (optional); correct f32 [N]: 1 where the first largest logit is the target, else 0. */
void cross_entropy_forward(Device *device, Tensor loss, Tensor correct, Tensor logits, int64_t classes, Tensor targets,
                           Tensor weights);
/* Computes the same; the logits become the gradient of scale[0] * sum(loss), times the factor of loss_scale (optional),
 * in place, which is 0 in the padding. scale f32 [1]. */
void cross_entropy_forward_backward(Device *device, Tensor loss, Tensor correct, Tensor logits, int64_t classes,
                                    Tensor targets, Tensor weights, Tensor scale, Tensor loss_scale);

/* Softmax cross-entropy of logits [N, K] against targets f32 [N, K], which are not negative and need not sum to 1:
 * loss[i] = -sum over c of targets[i, c] log softmax(logits[i])_c; a class of target 0 adds nothing. labels i32 [N] are
 * what correct[i] compares with the first largest logit; a negative one is never correct. loss, correct f32 [N]. */
void soft_cross_entropy_forward(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets,
                                Tensor labels);
/* Computes the same; the logits become the gradient of scale[0] * sum(loss), times the factor of loss_scale (optional),
 * in place. scale f32 [1]. */
void soft_cross_entropy_forward_backward(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets,
                                         Tensor labels, Tensor scale, Tensor loss_scale);

/* loss[i] = sum over the columns of (y - targets)^2. loss f32 [N]; y T [N, C]; targets f32 [N, C]. */
void squared_error_forward(Device *device, Tensor loss, Tensor y, Tensor targets);
/* Computes the same; y becomes the gradient of scale[0] * sum(loss), times the factor of loss_scale (optional), in
 * place. */
void squared_error_forward_backward(Device *device, Tensor loss, Tensor y, Tensor targets, Tensor scale,
                                    Tensor loss_scale);

/* Binary cross-entropy of logits [N, 1], with z of row i: loss[i] = log(1 + exp z) - targets[i] z, targets in 0 .. 1;
 * correct[i] = 1 where z > 0 and labels[i] = 1, or neither, else 0. loss, correct, targets, labels f32 [N]. */
void binary_cross_entropy_forward(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets,
                                  Tensor labels);
/* Computes the same; the logits become the gradient of scale[0] * sum(loss), times the factor of loss_scale (optional),
 * in place. scale f32 [1]. */
void binary_cross_entropy_forward_backward(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets,
                                           Tensor labels, Tensor scale, Tensor loss_scale);

/* y = x / max(norm, 1e-12) per row, norm its length. y f32 [N, C]; norm f32 [N]; x T [N, C]. */
void normalize_rows_forward(Device *device, Tensor y, Tensor norm, Tensor x);
/* dx = (dy - y (y . dy)) / norm; dy / 1e-12 where norm < 1e-12. dx T, dy f32 [N, C]. */
void normalize_rows_backward(Device *device, Tensor dx, Tensor dy, Tensor y, Tensor norm);

/* NT-Xent (SimCLR, Chen et al., 2020) of z f32 [2B, C], in which rows i and i + B are partners: with s[i, j] =
 * z[i] . z[j] / temperature, loss[i] = lse[i] - s[i, partner of i], lse[i] = log sum over j != i of exp s[i, j].
 * loss, lse f32 [2B]. */
void nt_xent_forward(Device *device, Tensor loss, Tensor lse, Tensor z, float temperature);
/* dz f32 [2B, C] = the gradient of scale[0] * sum(loss), times the factor of loss_scale (optional). */
void nt_xent_backward(Device *device, Tensor dz, Tensor z, Tensor lse, float temperature, Tensor scale,
                      Tensor loss_scale);

/* out[0] = sum of x f32 [n], in a fixed order, accumulated in a wider type or pairwise. */
void sum_forward(Device *device, Tensor out, Tensor x);

/* squares[i] = the sum of the squares of part i of the gradients that the segments cover (norm_parts), for the parts
 * that begin at elements begin .. end - 1; the other sums stay. So a part can be summed as soon as it is final, and the
 * norm has the same bits. squares: NORM_FLOATS f32 a part, which hold a double; nobody counts them. grads f32 [P]. */
void sum_squares(Device *device, Tensor squares, Tensor grads, const Segment *segments, int n_segments, int64_t begin,
                 int64_t end);
/* norm[0] = sqrt of the sum of all squares, divided by the factor of loss_scale (optional): the L2 norm of gradients.
 */
void finish_norm(Device *device, Tensor norm, Tensor squares, Tensor loss_scale);
/* Decoupled AdamW (Loshchilov and Hutter, 2019) over the segments, with lr the learning rate times the segment's rate:
 * p *= 1 - lr wd; m, v moving averages of the clipped gradient; p -= lr m^ / (sqrt(v^) + eps). Coupled: averages of the
 * clipped gradient plus wd p, and p is not multiplied. norm f32 [1] from finish_norm: if it is not finite, nothing is
 * changed. With loss_scale (optional) the gradients are divided by its factor, and its count of updates plus one
 * replaces options.step. */
void adamw_update(Device *device, AdamWBuffers buffers, Tensor norm, Tensor loss_scale, const Segment *segments,
                  int n_segments, AdamW options);
/* Muon (Jordan et al., 2024) of one matrix, with g the clipped gradient and lr the learning rate times the matrix's
 * rate: m = momentum m + (1 - momentum) g,  G = momentum m + (1 - momentum) g,  X = G / max(|G|, 1e-7), MUON_STEPS
 * times X = (a I + b A + c A A) X with A = X X^T, p = p (1 - lr wd) - lr 0.2 sqrt(max(rows, columns)) X. The steps
 * bring singular values of G above 1/100 of |G| to between 0.67 and 1.21; the factor of X gives an update the root mean
 * square of AdamW's, so that both share a learning rate. X and A are computed in the type of buffers.copy, f32 without
 * one; sums are f32. buffers.v is not used. norm and loss_scale are as in adamw_update. */
void muon_update(Device *device, AdamWBuffers buffers, Tensor norm, Tensor loss_scale, MuonMatrix matrix, Muon options);
/* Call after the update. Halves the factor if the norm was not finite, doubles it after 2,000 good steps, and counts.
 * Does nothing if stopped[0] (optional) is set. */
void loss_scale_update(Device *device, Tensor loss_scale, Tensor norm, Tensor stopped);
/* Call between the norm and the update. Sets norm to NaN if any number of sums f32 [n] is not finite, and stopped f32
 * [1] (optional) to 1 then. An infinite or NaN norm sets stopped too, unless overflow_is_fine. Once stopped is set,
 * every norm becomes NaN, so that the host need not read the losses of a step before it queues the next one. */
void norm_guard(Device *device, Tensor norm, Tensor stopped, Tensor sums, bool overflow_is_fine);
/* to = from inside the segments only; does nothing if norm f32 [1] (optional) is not finite. to, from
 * f32 [P]. */
void copy_segments(Device *device, Tensor to, Tensor from, Tensor norm, const Segment *segments, int n_segments);
/* x = 0 inside the segments only. x f32 [P]. */
void clear_segments(Device *device, Tensor x, const Segment *segments, int n_segments);
