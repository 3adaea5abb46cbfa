/* The table of op_cases.h. A row is the call, with what each argument is and, of outputs, how much they may differ
 * between devices (tests/tolerance.h); where a NaN goes; and its FLOPs and bytes, counted by hand for the sizes by
 * default and f32. The macros take sizes from the call. */
#include "tests/kernels/op_cases.h"

#include "kernels/augment.h"
#include "kernels/philox.h"
#include "tests/tolerance.h"

static Tensor tensor_of(OpCall *call, const char *name, OpArgument like, OpContent content, double limit) {
    const OpArgument *a = op_argument(call, name, like, content, limit);
    return a ? a->on[call->side] : tensor_none();
}

#define argument_by(by, name, role, type, rows, columns, tolerance, content, limit)                                    \
    tensor_of(call, #name, (OpArgument){"", role, type, rows, columns, tolerance, by, {{0}}}, content, limit)
#define argument(...) argument_by(OP_BY_ROW, __VA_ARGS__)
/* Inputs of the type of activations and in f32, 1-D ones with 0 columns. */
#define in(name, rows, columns)             argument(name, OP_INPUT, call->type, rows, columns, 0, OP_NORMAL, 0)
#define in_as(content, name, rows, columns) argument(name, OP_INPUT, call->type, rows, columns, 0, content, 0)
#define f32(name, rows, columns)            argument(name, OP_INPUT, DTYPE_F32, rows, columns, 0, OP_NORMAL, 0)
#define f32_as(content, name, rows)         argument(name, OP_INPUT, DTYPE_F32, rows, 0, 0, content, 0)
#define number(name, x)                     argument(name, OP_INPUT, DTYPE_F32, 1, 0, 0, OP_CONSTANT, x)
#define i32(content, name, rows, limit)     argument(name, OP_INPUT, DTYPE_I32, rows, 0, 0, content, limit)
/* Outputs, and what is changed: its sums have so many terms, and then come so many roundings. */
#define EXACT                         -1, -1
#define error_of(terms, roundings)    ((roundings) < 0 ? 0 : sum_error(terms, roundings))
#define out(name, rows, columns, ...) argument(name, OP_OUTPUT, call->type, rows, columns, error_of(__VA_ARGS__), 0, 0)
#define out_f32(name, rows, columns, ...)                                                                              \
    argument(name, OP_OUTPUT, DTYPE_F32, rows, columns, error_of(__VA_ARGS__), 0, 0)
#define flag(name, rows, columns, ...) argument(name, OP_FLAG, DTYPE_F32, rows, columns, error_of(__VA_ARGS__), 0, 0)
#define changed(name, rows, columns, ...)                                                                              \
    argument(name, OP_CHANGED, call->type, rows, columns, error_of(__VA_ARGS__), OP_NORMAL, 0)
#define changed_as(content, name, rows, columns, ...)                                                                  \
    argument(name, OP_CHANGED, call->type, rows, columns, error_of(__VA_ARGS__), content, 0)
#define added(name, rows, columns, ...)                                                                                \
    argument(name, OP_CHANGED, DTYPE_F32, rows, columns, error_of(__VA_ARGS__), OP_NORMAL, 0)
#define added_as(content, name, rows, ...)                                                                             \
    argument(name, OP_CHANGED, DTYPE_F32, rows, 0, error_of(__VA_ARGS__), content, 0)

#define S      call->size
#define N      S.n
#define C      S.c
#define V      S.v
#define ALL    (N * S.skip + S.odd) /* rows of which N take part */
#define SHORT  (N / S.length)       /* sequences of one length */
#define SAMPLE (S.frames * S.plane)
#define PAIRS  (N / SAMPLE * (S.frames / 2) * S.plane) /* rows of a pair of frames each */
#define POOLED (S.pool ? PAIRS : N)
#define IN_OUT (S.layout == WEIGHT_IN_OUT)
#define LAYOUT (WeightLayout) S.layout
#define KIND   (GeluKind) S.kind
#define DROPS  (S.p > 0)

static Dropout drop(OpCall *call) {
    Tensor step = DROPS ? i32(OP_CONSTANT, step, 1, S.step) : tensor_none();
    return (Dropout){S.p, 11, PURPOSE_DROPOUT | 3 << 8, step.data};
}
#define DROP drop(call)
#define GELU                                                                                                           \
    (GeluDropout) { KIND, DROP }

/* The error of the slope of GELU at the largest x, 4.5 times its spread: gelu_slope_error in tests/cuda/rig.h. */
#define FAR        (4.5 * (double)S.spread)
#define GELU_ERROR (32 + (KIND == GELU_TANH ? 6 * FAR * 1.59576912 * (1 + 3 * 0.044715 * FAR * FAR) : 0))

/* ---- attention ---- */

/* Three sequences, or ones of `each` rows. */
static Sequences sequences(OpCall *call) {
    int count = 3;
    int32_t *offsets = call->offsets;
    offsets[0] = 0, offsets[1] = (int32_t)(N / 2), offsets[2] = (int32_t)(N / 2 + 1), offsets[3] = (int32_t)N;
    if (S.each) count = (int)(N / S.each);
    for (int s = 0; s <= count && S.each; s++) offsets[s] = (int32_t)(s * S.each);
    OpArgument like = {"", OP_INPUT, DTYPE_I32, count + 1, 0, 0, OP_BY_ROW, {{0}}};
    return (Sequences){tensor_of(call, "offsets", like, OP_OFFSETS, 0), offsets, count};
}
#define ATTENTION                                                                                                      \
    (Attention) { (int)S.heads, S.causal, S.heads ? 1 / sqrtf((float)C / (float)S.heads) : 1 }
#define QKV in(qkv, N, 3 * C)
#define CACHED                                                                                                         \
    (CachedKeys) {                                                                                                     \
        in(kv, N *S.capacity, 2 * C), i32(OP_INDEX, slots, N, N), i32(OP_CONSTANT, lengths, N, S.longest), S.capacity, \
            S.longest                                                                                                  \
    }

/* Distances from `left` to `right`, a term of each key, and as many hidden rows of each sequence. */
static AttentionTerms terms(OpCall *call) {
    int64_t width = S.left + 1 + S.right;
    return (AttentionTerms){.distances = in(distances, width, S.heads ? C / S.heads : C),
                            .left = (int)S.left,
                            .right = (int)S.right,
                            .key_terms = f32(key_terms, N, S.heads),
                            .hidden = i32(OP_CONSTANT, hidden, S.each ? N / S.each : 3, S.hidden)};
}

/* ---- convolutions, norms, stems ---- */

#define WINDOW                                                                                                         \
    (Window) { S.length, (int)S.k, (int)S.stride, (int)S.pad }
#define WINDOWS (SHORT * window_positions(WINDOW))
#define TAPS    (S.taps * S.taps * S.taps)
static Convolution convolution(const OpCall *call) {
    int taps = (int)S.taps, stride = (int)S.stride, pad = (int)S.pad;
    return (Convolution){{(int)S.t, (int)S.h, (int)S.w}, {taps, taps, taps}, {1, stride, stride}, {pad, pad, pad}};
}
#define CONVOLUTION convolution(call)
static int64_t positions(const OpCall *call) {
    int64_t n = N / (S.t * S.h * S.w);
    for (int axis = 0; axis < 3; axis++) n *= convolution_positions(CONVOLUTION, axis);
    return n;
}
#define POSITIONS positions(call)

#define STATISTICS                                                                                                     \
    (BatchStatistics) {                                                                                                \
        out_f32(mean, C, 0, N, 8), out_f32(rstd, C, 0, N, 8), added(running_mean, C, 0, N, 8),                         \
            added_as(OP_POSITIVE, running_var, C, N, 16), 0.1f                                                         \
    }
#define NORM_GRADIENTS(dx, terms)                                                                                      \
    (NormGradients) { dx, added(dgain, C, 0, terms, 16), added(dbias, C, 0, terms, 4) }
#define LAYER_GRADIENTS(dx, rows, columns, outputs, terms)                                                             \
    (LayerGradients) {                                                                                                 \
        dx, S.overwrite ? out_f32(dw, rows, columns, terms, 8) : added(dw, rows, columns, terms, 8),                   \
            added(dbias, outputs, 0, terms, 8), S.overwrite                                                            \
    }
#define LAYERNORM                                                                                                      \
    (LayerNormOutput) { out(y, N, C, C, 12), out_f32(mean, N, 0, C, 4), out_f32(rstd, N, 0, C, 8) }
#define NORMED(a)                                                                                                      \
    (Normed) {                                                                                                         \
        in_as(OP_HALVES, a.x, N, C), f32(a.mean, C, 0), f32_as(OP_POSITIVE, a.rstd, C), f32(a.gain, C, 0),             \
            f32(a.bias, C, 0)                                                                                          \
    }
#define NORMED_GRADIENTS(a)                                                                                            \
    (NormGradients) { out(d##a.dx, N, C, N, 32), added(d##a.dgain, C, 0, N, 16), added(d##a.dbias, C, 0, N, 8) }
#define ACTIVATION                                                                                                     \
    (NormActivation) { S.slope, S.frames, S.plane, S.pool, S.average, DROP }
#define STEM                                                                                                           \
    (Stem) { S.frames, S.plane, S.slope }
#define STEM_ROWS          (N / S.frames * stem_frames(STEM))
#define MOMENTS(role, ...) argument(moments, role, DTYPE_F32, STEM_MOMENTS, 0, error_of(__VA_ARGS__), OP_NORMAL, 0)
#define STEM_WEIGHTS                                                                                                   \
    (StemWeights) {                                                                                                    \
        in(w, S.stem, STEM_WINDOW), f32(mean, S.stem, 0), f32_as(OP_POSITIVE, rstd, S.stem), f32(gain, S.stem, 0),     \
            f32(bias, S.stem, 0), in(w2, S.out, 3 * S.stem)                                                            \
    }
#define VOXELS (S.bins * S.high * S.wide)

/* ---- losses, the optimizer ---- */

#define SCALE                        number(scale, 0.7f), (S.scaled ? f32_as(OP_POSITIVE, loss_scale, LOSS_SCALE_FIELDS) : tensor_none())
#define LOSS                         out_f32(loss, N, 0, V, 16), flag(correct, N, 0, EXACT)
#define ROW_LOSSES(terms, roundings) out_f32(loss, N, 0, terms, roundings)
#define HALF                         (call->type == DTYPE_F32 ? tensor_none() : changed(copy, S.flat, 0, EXACT))
#define BUFFERS                                                                                                        \
    (AdamWBuffers) {                                                                                                   \
        added(params, S.flat, 0, 0, 16), HALF, added(m, S.flat, 0, 0, 16), added_as(OP_POSITIVE, v, S.flat, 0, 16),    \
            f32(grads, S.flat, 0), tensor_none(), NULL                                                                 \
    }
#define MATRIX                                                                                                         \
    (MuonMatrix) { S.offset, S.pitch, S.tall, S.columns, 0.1f, 1, 0 }
#define TAKEN (S.flat * 9 / 10) /* elements of both segments */

/* The first two fifths and the second half of the parameters, or all of them; or six of which some are left out. */
static const Segment *segments(OpCall *call) {
    static const uint8_t used[3] = {1, 1, 1};
    Segment *s = call->segments;
    s[0] = (Segment){.end = S.whole ? S.flat : S.flat * 2 / 5, .weight_decay = 0.1f, .learning_rate = 1e-3f};
    s[1] = (Segment){.begin = S.flat / 2, .end = S.flat, .learning_rate = 1e-3f};
    if (S.masked >= 0) s[0] = (Segment){.begin = 1, .end = 7, .used = used, .width = 2, .count = S.masked};
    return s;
}
#define SEGMENTS segments(call), (S.whole ? 1 : 2)

/* ---- the rows ---- */

#define CASE(op, test, nan, nan_changes, flops, bytes, ...)                                                            \
    static double flops_of_##op(const OpCall *call) { return (void)call, (double)(flops); }                            \
    static double bytes_of_##op(const OpCall *call) { return (void)call, (double)(bytes); }                            \
    static void call_##op(OpCall *call) { op(call->device, __VA_ARGS__); }                                             \
    static const OpCase case_##op = {#op, #test, nan, nan_changes, flops_of_##op, bytes_of_##op, call_##op};

CASE(cast, ops_optimizer, "x element", "", 0, 8 * N,
     argument(y, OP_OUTPUT, S.back == 1 ? DTYPE_F32 : call->type, N, 0, S.back ? 0 : 1e-30, OP_NORMAL, 0),
     argument(x, OP_INPUT, S.back ? call->type : DTYPE_F32, N, 0, 0, OP_NORMAL, 0))
CASE(embedding_forward, ops_layers, "table element", "v=6", N *C, 4 * (3 * N * C + 3 * N), changed(x, ALL, C, 0, 1),
     i32(OP_ROWS, rows, N, 0), i32(OP_INDEX, ids, N, V), f32(table, V, C), i32(OP_INDEX, positions, N, S.places),
     f32(position_table, S.places, C))
CASE(embedding_backward, ops_layers, "dx element", "v=6 places=6", 2 * N * C, 4 * (5 * N * C + 3 * N),
     added(dtable, V, C, N, 4), added(dposition_table, S.places, C, N, 4), in(dx, ALL, C), i32(OP_ROWS, rows, N, 0),
     i32(OP_INDEX, ids, N, V), i32(OP_INDEX, positions, N, S.places))
CASE(place_rows, ops_layers, "y element", "", N *C, 4 * (3 * N * C + 2 * N), changed(x, ALL, C, 0, 1), in(y, N, C),
     i32(OP_ROWS, rows, N, 0), i32(OP_INDEX, positions, N, V), f32(table, V, C))
CASE(gather_rows, ops_layers, "x element", "", 0, 4 * (2 * N * C + N), out(y, N, C, EXACT), in(x, ALL, C),
     i32(OP_ROWS, rows, N, 0))
CASE(scatter_rows, ops_layers, "y element", "", 0, 4 * (2 * N * C + N), changed(x, ALL, C, 0, 0.001),
     argument(y, OP_INPUT, S.back ? DTYPE_F32 : call->type, N, C, 0, OP_NORMAL, 0), i32(OP_ROWS, rows, N, 0))
CASE(dropout, ops_layers, "x element", "", 2 * N * C, 8 * N * C, out(y, N, C, 0, 2), in(x, N, C), DROP)
CASE(residual_forward, ops_layers, "x element", "", (DROPS ? 3 : 1) * N * C, 12 * N * C, out(sum, N, C, 0, 4),
     in(x, N, C), in(branch, N, C), DROP)
CASE(layernorm_forward, ops_layers, "x row", "", 8 * N * C, 4 * (2 * N * C + 2 * N + 2 * C), LAYERNORM,
     in_as(OP_AROUND, x, N, C), f32(gain, C, 0), f32(bias, C, 0), S.epsilon)
CASE(layernorm_backward, ops_layers, "dy row", "", 15 * N * C, 4 * (4 * N * C + 2 * N + 5 * C),
     NORM_GRADIENTS(out(dx, N, C, C, 32), N), in(dresidual, N, C), in(dy, N, C), in(x, N, C), f32(mean, N, 0),
     f32_as(OP_POSITIVE, rstd, N), f32(gain, C, 0))
CASE(residual_layernorm_forward, ops_layers, "x row sum=element", "", (DROPS ? 11 : 9) * N * C,
     4 * (4 * N * C + 2 * N + 2 * C), out(sum, N, C, 0, 4), LAYERNORM, in(x, N, C), in(branch, N, C), f32(gain, C, 0),
     f32(bias, C, 0), DROP)
CASE(augment_volumes, ops_volumes, NULL, "", 2 * N * VOXELS,
     N *VOXELS + 4 * (2 * N * VOXELS + N + AUGMENT_DRAW_WORDS * N), out(x, N *VOXELS, 2, 0, 16),
     argument(counts, OP_INPUT, S.bits == 8 ? DTYPE_U8 : DTYPE_U16, N, VOXELS, 0, OP_COUNTS, 0),
     i32(OP_INDEX, volumes, N, N), argument(draws, OP_INPUT, DTYPE_I32, N, AUGMENT_DRAW_WORDS, 0, OP_DRAWS, 0),
     (AugmentShape){(int)S.bins, (int)S.high, (int)S.wide}, false)
CASE(mixup, ops_volumes, "x any", "", 3 * N * C, 4 * (3 * N * C + N + 1), out(y, N, C, 0, 4), in(x, N, C),
     i32(OP_SHUFFLED, partners, S.partners, S.partners), number(share, 0.3f))
CASE(linear_forward, ops_layers, "x row", "", 2 * N * C * V + N * V, 4 * (N * C + C * V + N * V + V),
     out(y, N, V, C, 2), in(x, N, C), in(w, IN_OUT ? C : V, IN_OUT ? V : C), in(bias, V, 0), LAYOUT)
CASE(linear_backward, ops_layers, "dy row", "", 4 * N * C * V + N * V, 4 * (2 * N * C + 3 * C * V + N * V + 2 * V),
     LAYER_GRADIENTS(out(dx, N, C, V, 2), IN_OUT ? C : V, IN_OUT ? V : C, V, N), in(dy, N, V), in(x, N, C),
     in(w, IN_OUT ? C : V, IN_OUT ? V : C), LAYOUT)
CASE(linear_gelu_forward, ops_layers, "x row", "", 2 * N * C * V + (10 + DROPS) * N * V,
     4 * (N * C + C * V + 2 * N * V + V), out(y, N, V, C, 16), out(hidden, N, V, C, 2), in(x, N, C),
     in(w, IN_OUT ? C : V, IN_OUT ? V : C), in(bias, V, 0), LAYOUT, GELU)
CASE(gelu_linear_backward, ops_layers, "dy row", "", 4 * N * C * V + (18 + DROPS) * N * C + N * V,
     4 * (3 * N * C + 3 * C * V + N * V + 2 * V),
     LAYER_GRADIENTS(out(dx, N, C, V, 32), IN_OUT ? C : V, IN_OUT ? V : C, V, N), in(dy, N, V), in(x, N, C),
     in(hidden, N, C), in(w, IN_OUT ? C : V, IN_OUT ? V : C), LAYOUT, GELU)
CASE(gelu_forward, ops_layers, "x element", "", 9 * N * C, 8 * N * C, out(y, N, C, 0, 16), in_as(OP_AROUND, x, N, C),
     KIND)
CASE(gelu_backward, ops_layers, "dy element", "", 18 * N * C, 12 * N * C, out(dx, N, C, 0, GELU_ERROR), in(dy, N, C),
     in_as(OP_AROUND, x, N, C), KIND)
CASE(tanh_forward, ops_layers, "x element", "", 5 * N * C, 8 * N * C, out(y, N, C, 0, 8), in_as(OP_AROUND, x, N, C))
CASE(tanh_backward, ops_layers, "dy element", "", 4 * N * C, 12 * N * C, out(dx, N, C, 0, 8), in(dy, N, C), in(y, N, C))
CASE(leaky_relu_forward, ops_layers, "x element", "", N *C, 8 * N * C, out(y, N, C, 0, 2), in(x, N, C), S.slope)
CASE(leaky_relu_backward, ops_layers, "dy element", "", N *C, 12 * N * C, out(dx, N, C, 0, 2), in(dy, N, C),
     in(x, N, C), S.slope)

CASE(silu_forward, ops_forward, "x element", "", 4 * N * C, 8 * N * C, out(y, N, C, 0, 16), in_as(OP_AROUND, x, N, C))
/* b of a gate is the second half of x. */
CASE(gate_forward, ops_forward, "x any", "", (S.kind == GATE_GELU ? 10 : 4) * N * C, 12 * N * C, out(y, N, C, 0, 16),
     in_as(OP_AROUND, x, N, 2 * C), (GateKind)S.kind)

/* Causal: 6, 1 and 3 pairs in sequences of 3, 1 and 2 rows. */
CASE(attention_forward, ops_layers, "qkv row first", "", 10 * (4 * C + (DROPS ? 7 : 5) * S.heads),
     4 * (4 * N * C + S.heads * N + 4), out(out, N, C, N, 32), flag(lse, S.heads, N, N, 32), QKV, sequences(call),
     ATTENTION, DROP)
CASE(attention_backward, ops_layers, "dout any", "", 10 * (10 * C + (DROPS ? 9 : 6) * S.heads) + 2 * N * C,
     4 * (8 * N * C + S.heads * N + 4), out(dqkv, N, 3 * C, N, 64), in(dout, N, C),
     (AttentionActivations){QKV, in(out, N, C), f32(lse, S.heads, N)}, sequences(call), ATTENTION, DROP)
/* Not causal: 9, 1 and 4 pairs in sequences of 3, 1 and 2 rows, and four distances. */
CASE(attention_terms_forward, attention_terms, "qkv row first", "", 14 * (4 * C + 7 * S.heads) + 2 * N * C * 4,
     4 * (4 * N * C + 4 * C / S.heads + N * S.heads + 4 + 3), out(out, N, C, N, 48), QKV, sequences(call),
     ((Attention){ATTENTION.n_heads, S.causal > 1, ATTENTION.scale}), terms(call))
CASE(cache_rows, attention_cached, "qkv any last", "", 0, 4 * (4 * N * C + N), changed(kv, N *S.capacity, 2 * C, EXACT),
     QKV, i32(OP_SHUFFLED, rows, N, N *S.capacity))
CASE(attention_cached_forward, attention_cached, "qkv row first", "", N *(4 * C + 5 * S.heads), 4 * (4 * N * C + 2 * N),
     out(out, N, C, S.longest, 32), QKV, CACHED, ATTENTION)

/* Each of the two sequences has two windows of two rows. */
CASE(unfold_forward, ops_volumes, "x any", "", 0, 4 * (N * C + 2 * WINDOWS * C), out(y, WINDOWS, S.k *C, EXACT),
     in(x, N, C), WINDOW)
CASE(unfold_backward, ops_volumes, "dy any", "", 2 * 2 * 2 * C, 4 * (N * C + 2 * WINDOWS * C), out(dx, N, C, S.k, 0),
     in(dy, WINDOWS, S.k *C), WINDOW)
/* Two taps, the first of which sees the row before: 5, 1 and 3 pairs in sequences of 3, 1 and 2 rows. */
CASE(depthwise_forward, ops_forward, "x any", "", 2 * 9 * C + N * C, 4 * (2 * N * C + S.k * C + C + 4),
     out(y, N, C, S.k, 2), in(x, N, C), f32(w, C, S.k), f32(bias, C, 0), sequences(call),
     (DepthwiseWindow){(int)S.k, (int)S.before, (int)S.dilation})
CASE(conv3d_forward, ops_volumes, "x row", "", 2 * N * C * S.o + N * S.o, 4 * (N * C + N * S.o + C * S.o + S.o),
     out(y, POSITIONS, S.o, C *TAPS, 2), in(x, N, C), in(w, S.o, C *TAPS), in(bias, S.o, 0), CONVOLUTION)
CASE(conv3d_backward, ops_volumes, "dy row", "", 4 * N * C * S.o + N * S.o + N * C,
     4 * (3 * N * C + N * S.o + 3 * C * S.o + 2 * S.o),
     LAYER_GRADIENTS(changed(dx, N, C, S.o *TAPS, 4), S.o, C *TAPS, S.o, POSITIONS), in(dy, POSITIONS, S.o),
     in(x, N, C), in(w, S.o, C *TAPS), CONVOLUTION, true)

/* A pool does not read the third of three frames: 4 of 6 rows become 2. */
CASE(max_pool_forward, ops_volumes, "x any", "frames=2", PAIRS *C, 4 * 3 * PAIRS * C, out(y, PAIRS, C, EXACT),
     in_as(OP_HALVES, x, N, C), S.frames, S.plane)
CASE(max_pool_backward, ops_volumes, "dy any", "frames=2", PAIRS *C, 4 * (3 * PAIRS * C + N * C), out(dx, N, C, EXACT),
     in(dy, PAIRS, C), in_as(OP_HALVES, x, N, C), S.frames, S.plane)
CASE(batchnorm_forward, ops_volumes, "x column", "", 7 * N * C, 4 * (2 * N * C + 8 * C),
     out(y, N, C, N, 12 + 2 * (double)S.center), STATISTICS, in_as(OP_AROUND, x, N, C), f32(gain, C, 0),
     f32(bias, C, 0))
CASE(batchnorm_apply, ops_volumes, "x element", "", 3 * N * C, 4 * (2 * N * C + 4 * C),
     out(y, N, C, 0, 12 + 2 * (double)S.center), in_as(OP_AROUND, x, N, C), f32(running_mean, C, 0),
     f32_as(OP_POSITIVE, running_var, C), f32(gain, C, 0), f32(bias, C, 0))
CASE(batchnorm_backward, ops_volumes, "dy column", "", 10 * N * C, 4 * (3 * N * C + 7 * C),
     NORM_GRADIENTS(out(dx, N, C, N, 32), N), in(dy, N, C), in(x, N, C), f32(mean, C, 0), f32_as(OP_POSITIVE, rstd, C),
     f32(gain, C, 0))
CASE(batchnorm_statistics, ops_volumes, "x column", "", 4 * N * C, 4 * (N * C + 6 * C), STATISTICS,
     in_as(OP_AROUND, x, N, C))
CASE(batchnorm_from_running, ops_volumes, "running_var element", "", 3 * C, 8 * C, out_f32(rstd, C, 0, 0, 4),
     f32_as(OP_POSITIVE, running_var, C))
/* A sum of two norms, slope and choice; dropout draws a number for each channel of a sample. */
CASE(norm_activate_forward, ops_volumes, "a.x any", "frames=2",
     2 * PAIRS * C * (3 + 4 + 1) + PAIRS * C + (DROPS ? PAIRS * C + N / SAMPLE * C : 0),
     4 * (2 * 2 * PAIRS * C + PAIRS * C + 8 * C), out(y, POOLED, C, 0, 16), NORMED(a), NORMED(b), ACTIVATION)
CASE(norm_activate_backward, ops_volumes, "dy any", "frames=2",
     2 * PAIRS * C * (3 + 4 + 1) + PAIRS * C + (DROPS ? PAIRS * C + N / SAMPLE * C : 0) + 2 * PAIRS * C +
         2 * (3 * 2 * PAIRS * C + 5 * N * C),
     4 * (4 * N * C + PAIRS * C + 16 * C), NORMED_GRADIENTS(a), NORMED_GRADIENTS(b), in_as(OP_HALVES, dy, POOLED, C),
     NORMED(a), NORMED(b), ACTIVATION)

/* Windows of 7 taps see 9 rows of 3 frames with their padding; those of 3 taps and stride 2 see 4. */
CASE(stem_statistics, stem, "x any rstd=none running_var=none", "", N *(14 + 14 * 15) + S.stem * (28 + 28 * 15 + 2),
     4 * (2 * N + 14 * S.stem + STEM_MOMENTS + 6 * S.stem),
     (BatchStatistics){out_f32(mean, S.stem, 0, N, 400), out_f32(rstd, S.stem, 0, N, 400),
                       added(running_mean, S.stem, 0, N, 400), added_as(OP_POSITIVE, running_var, S.stem, N, 400),
                       0.1f},
     MOMENTS(OP_FLAG, EXACT), in(x, N, STEM_INPUTS), in(w, S.stem, STEM_WINDOW), STEM)
CASE(stem_forward, stem, "x any", "", 2 * (2 * S.stem * 2 * 9) + 4 * N * S.stem + 2 * (2 * S.stem * S.out * 4),
     4 * (2 * N + STEM_ROWS * S.out + 14 * S.stem + 3 * S.stem * S.out + 4 * S.stem),
     out(y, STEM_ROWS, S.out, 3 * S.stem, 24), in(x, N, STEM_INPUTS), STEM_WEIGHTS, STEM)
CASE(stem_backward, stem, "dy any", "",
     4 * (2 * S.stem * 2 * 9) + 4 * (2 * S.stem * S.out * 4) + 6 * N * S.stem + S.stem * (2 * 14 * 14 + 10 * 14),
     4 * (STEM_ROWS * S.out + 2 * N + 14 * S.stem + 3 * S.stem * S.out + STEM_MOMENTS + 8 * S.stem +
          2 * (14 * S.stem + 3 * S.stem * S.out)),
     (StemGradients){added(dw, S.stem, STEM_WINDOW, N, 40), added(dgain, S.stem, 0, N, 32),
                     added(dbias, S.stem, 0, N, 24), added(dw2, S.out, 3 * S.stem, N, 24)},
     in(dy, STEM_ROWS, S.out), in(x, N, STEM_INPUTS), STEM_WEIGHTS, MOMENTS(OP_INPUT, EXACT), STEM)
CASE(mean_rows_forward, ops_layers, "x any", "", N *C, 4 * (N * C + SHORT * C), out(y, SHORT, C, S.length, 4),
     in(x, N, C), S.length)
CASE(mean_rows_backward, ops_layers, "dy any", "", SHORT *C, 4 * (N * C + SHORT * C), out(dx, N, C, 0, 4),
     in(dy, SHORT, C), S.length)

CASE(nearest_direction, ops_forward, "x row ids=none", "c=16", N *V *(2 * C + 2), 4 * (N * C + V * C + 2 * N),
     argument(ids, OP_OUTPUT, DTYPE_I32, N, 0, 0, OP_NORMAL, 0), out_f32(margins, N, 0, C, 4), f32(x, N, C),
     f32(table, V, C))

CASE(cross_entropy_forward, ops_losses, "logits row", "", 4 * N * V + N, 4 * (N * V + 4 * N), LOSS,
     in_as(OP_LOGITS, logits, N, V), V, i32(OP_TARGETS, targets, N, V), f32(weights, N, 0))
CASE(cross_entropy_forward_backward, ops_losses, "logits row", "", 5 * N * V + 2 * N, 4 * (2 * N * V + 4 * N), LOSS,
     changed_as(OP_LOGITS, logits, N, V, V, 16), V, i32(OP_TARGETS, targets, N, V), f32(weights, N, 0), SCALE)
CASE(soft_cross_entropy_forward, ops_losses, "logits row", "", 7 * N * V + 3 * N, 4 * (2 * N * V + 3 * N), LOSS,
     in_as(OP_LOGITS, logits, N, V), argument(targets, OP_INPUT, DTYPE_F32, N, V, 0, OP_SHARES, 0),
     i32(OP_TARGETS, labels, N, V))
CASE(soft_cross_entropy_forward_backward, ops_losses, "logits row", "", 10 * N * V + 5 * N, 4 * (3 * N * V + 3 * N),
     LOSS, argument_by(OP_BY_ALL, logits, OP_CHANGED, call->type, N, V, sum_error(V, 16), OP_LOGITS, 0),
     argument(targets, OP_INPUT, DTYPE_F32, N, V, 0, OP_SHARES, 0), i32(OP_TARGETS, labels, N, V), SCALE)
CASE(squared_error_forward, ops_losses, "y row", "", 3 * N * C, 4 * (2 * N * C + N), ROW_LOSSES(C, 4), in(y, N, C),
     f32(targets, N, C))
CASE(squared_error_forward_backward, ops_losses, "y element", "", 4 * N * C, 4 * (3 * N * C + N), ROW_LOSSES(C, 4),
     changed(y, N, C, 0, 4), f32(targets, N, C), SCALE)
CASE(binary_cross_entropy_forward, ops_losses, "logits row", "", 5 * N, 4 * 5 * N,
     argument_by(OP_BY_ITSELF, loss, OP_OUTPUT, DTYPE_F32, N, 0, sum_error(0, 8), 0, 0), flag(correct, N, 0, EXACT),
     in_as(OP_BINARY, logits, N, 1), f32_as(OP_FRACTION, targets, N), f32_as(OP_TRUTH, labels, N))
CASE(binary_cross_entropy_forward_backward, ops_losses, "logits row", "", 9 * N, 4 * 6 * N,
     argument_by(OP_BY_ITSELF, loss, OP_OUTPUT, DTYPE_F32, N, 0, sum_error(0, 8), 0, 0), flag(correct, N, 0, EXACT),
     argument_by(OP_BY_ALL, logits, OP_CHANGED, call->type, N, 1, sum_error(0, 8), OP_BINARY, 0),
     f32_as(OP_FRACTION, targets, N), f32_as(OP_TRUTH, labels, N), SCALE)
CASE(normalize_rows_forward, ops_losses, "x row", "", 3 * N * C + 2 * N, 4 * (2 * N * C + N), out_f32(y, N, C, C, 8),
     out_f32(norm, N, 0, C, 4), in(x, N, C))
CASE(normalize_rows_backward, ops_losses, "dy row", "", 5 * N * C + N, 4 * (3 * N * C + N), out(dx, N, C, C, 32),
     f32(dy, N, C), f32(y, N, C), f32_as(OP_POSITIVE, norm, N))
CASE(nt_xent_forward, ops_losses, "z all", "", N *(N - 1) * (2 * C + 4) + 3 * N, 4 * (N * C + 2 * N),
     out_f32(loss, N, 0, N, 64), out_f32(lse, N, 0, N, 64), f32(z, N, C), S.temperature)
CASE(nt_xent_backward, ops_losses, "z all", "", N *(N - 1) * (4 * C + 6) + N * C, 4 * (2 * N * C + N),
     out_f32(dz, N, C, N, 128), f32(z, N, C), f32(lse, N, 0), S.temperature, SCALE)

CASE(sum_forward, ops_optimizer, "x any", "", N, 4 * N + 4, out_f32(sum, 1, 0, 0, 2), f32(x, N, 0))
CASE(sum_squares, ops_optimizer, "grads any", "whole=1", 2 * TAKEN, 4 * TAKEN,
     out_f32(squares, NORM_FLOATS *norm_parts(segments(call), S.whole ? 1 : 2), 0, EXACT), f32(grads, S.flat, 0),
     SEGMENTS, 0, S.flat)
CASE(finish_norm, ops_optimizer, NULL, "", 0, 4, out_f32(norm, 1, 0, 0, 4),
     f32_as(OP_POSITIVE, squares, NORM_FLOATS *N),
     (S.scaled ? f32_as(OP_POSITIVE, loss_scale, LOSS_SCALE_FIELDS) : tensor_none()))
CASE(adamw_update, ops_optimizer, "grads any", "whole=1", 14 * TAKEN, 28 * TAKEN + 4, BUFFERS, number(norm, 1),
     tensor_none(), SEGMENTS, (AdamW){0.9f, 0.999f, 1e-8f, 1, 2, false})
/* Steps of 5 x 5 x 12 twice, 5 x 5 x 5 once, and the sum of three; 13 for each of 60 numbers. */
CASE(muon_update, muon, "grads any v=free", "flat=60 offset=0 pitch=5",
     5 * (2 * (2 * 5 * 5 * 12) + 2 * 5 * 5 * 5 + 3 * 5 * 5) + 13 * 60, 20 * 60 + 4, BUFFERS, number(norm, 1),
     tensor_none(), MATRIX, (Muon){0.95f, 1})
CASE(loss_scale_update, ops_optimizer, "norm none", "", 0, 4 * (2 * LOSS_SCALE_FIELDS + 1),
     added_as(OP_POSITIVE, loss_scale, LOSS_SCALE_FIELDS, EXACT), number(norm, 1), tensor_none())
CASE(norm_guard, ops_optimizer, "sums any stopped=none", "", 0, 4 * (4 + S.flat), added_as(OP_POSITIVE, norm, 1, EXACT),
     argument(stopped, OP_CHANGED, DTYPE_F32, 1, 0, 0, OP_CONSTANT, 0), f32(sums, S.flat, 0), S.overflow)
CASE(copy_segments, ops_optimizer, "from element", "whole=1", 0, 8 * TAKEN + 4, added(to, S.flat, 0, EXACT),
     f32(from, S.flat, 0), number(norm, 1), SEGMENTS)
CASE(clear_segments, ops_optimizer, "x none", "whole=1", 0, 4 * TAKEN, added(x, S.flat, 0, EXACT), SEGMENTS)

#define ROW(op) [OP_##op] = &case_##op,
const OpCase *const op_cases[OP_COUNT] = {FOR_EACH_OP(ROW)};
