/* Door functions of layers: embeddings, rows, dropout, layer norms, linear layers, GELU and gates, depthwise
 * convolutions, attention, means, nearest directions. */
#include "kernels/door.h"

#include <stdlib.h>

/* Dies unless x is a matrix of activations, and a and b (NULL: there is none) are like it. */
static void check_alike(const Device *device, const char *op, const char *x_name, Tensor x, const char *a_name,
                        Tensor a, const char *b_name, Tensor b) {
    door_expect(op, x_name, x, door_activation_type(device, op, x_name, x), -1, -1);
    door_expect(op, a_name, a, x.dtype, x.dims[0], x.dims[1]);
    if (b_name) door_expect(op, b_name, b, x.dtype, x.dims[0], x.dims[1]);
}

void cast(Device *device, Tensor y, Tensor x) {
    door_expect("cast", "x", x, door_activation_type(device, "cast", "x", x), -1, 0);
    door_expect("cast", "y", y, door_activation_type(device, "cast", "y", y), x.dims[0], 0);
    DISPATCH(cast, 0, ACCESSES(door_reads(x), door_writes(y)), device, y, x);
}

/* Checks the tensors of a pass over n ids, and returns n c. */
static double check_embedding(const Device *device, const char *op, bool backward, Tensor x, Tensor rows, Tensor ids,
                              Tensor table, Tensor positions, Tensor position_table) {
    const char *name = backward ? "dx" : "x";
    door_expect(op, name, x, door_activation_type(device, op, name, x), -1, -1);
    door_expect(op, "ids", ids, DTYPE_I32, tensor_given(rows) ? -1 : x.dims[0], 0);
    int64_t n = ids.dims[0], c = x.dims[1];
    door_expect_optional(op, "rows", rows, DTYPE_I32, n, 0);
    door_expect(op, backward ? "dtable" : "table", table, DTYPE_F32, -1, c);
    door_expect_optional(op, "positions", positions, DTYPE_I32, n, 0);
    if (tensor_given(positions))
        door_expect(op, backward ? "dposition_table" : "position_table", position_table, DTYPE_F32, -1, c);
    return (double)n * (double)c;
}

void embedding_forward(Device *device, Tensor x, Tensor rows, Tensor ids, Tensor table, Tensor positions,
                       Tensor position_table) {
    double one = check_embedding(device, "embedding_forward", false, x, rows, ids, table, positions, position_table);
    double with = tensor_given(positions) ? 1 : 0;
    DISPATCH(embedding_forward, with * one,
             ACCESSES(door_reads(ids), door_reads(rows), door_reads(positions), door_part(door_reads(table), 4 * one),
                      door_part(door_reads(position_table), 4 * with * one),
                      door_part(door_writes(x), one * (double)dtype_size(x.dtype))),
             device, x, rows, ids, table, positions, position_table);
}

void embedding_backward(Device *device, Tensor dtable, Tensor dposition_table, Tensor dx, Tensor rows, Tensor ids,
                        Tensor positions) {
    double one = check_embedding(device, "embedding_backward", true, dx, rows, ids, dtable, positions, dposition_table);
    double with = tensor_given(positions) ? 1 : 0;
    DISPATCH(embedding_backward, (1 + with) * one,
             ACCESSES(door_reads(ids), door_reads(rows), door_reads(positions),
                      door_part(door_reads(dx), one * (double)dtype_size(dx.dtype)),
                      door_part(door_adds(dtable), 4 * one), door_part(door_adds(dposition_table), 4 * with * one)),
             device, dtable, dposition_table, dx, rows, ids, positions);
}

void place_rows(Device *device, Tensor x, Tensor y, Tensor rows, Tensor positions, Tensor table) {
    const char *op = "place_rows";
    door_expect(op, "x", x, door_activation_type(device, op, "x", x), -1, -1);
    door_expect(op, "y", y, x.dtype, -1, x.dims[1]);
    door_expect(op, "rows", rows, DTYPE_I32, y.dims[0], 0);
    door_expect(op, "positions", positions, DTYPE_I32, y.dims[0], 0);
    door_expect(op, "table", table, DTYPE_F32, -1, x.dims[1]);
    double n = (double)tensor_numel(y);
    DISPATCH(place_rows, n,
             ACCESSES(door_reads(rows), door_reads(positions), door_reads(y), door_part(door_reads(table), 4 * n),
                      door_part(door_writes(x), (double)tensor_bytes(y))),
             device, x, y, rows, positions, table);
}

static void check_rows(const Device *device, const char *op, Tensor packed, DType type, Tensor wide, Tensor rows) {
    door_expect(op, "x", wide, door_activation_type(device, op, "x", wide), -1, -1);
    door_expect(op, "y", packed, type, -1, wide.dims[1]);
    door_expect(op, "rows", rows, DTYPE_I32, packed.dims[0], 0);
}

void gather_rows(Device *device, Tensor y, Tensor x, Tensor rows) {
    check_rows(device, "gather_rows", y, x.dtype, x, rows);
    DISPATCH(gather_rows, 0,
             ACCESSES(door_reads(rows), door_part(door_reads(x), (double)tensor_bytes(y)), door_writes(y)), device, y,
             x, rows);
}

void scatter_rows(Device *device, Tensor x, Tensor y, Tensor rows) {
    check_rows(device, "scatter_rows", y, y.dtype == DTYPE_F32 ? DTYPE_F32 : x.dtype, x, rows);
    DISPATCH(scatter_rows, 0,
             ACCESSES(door_reads(rows), door_reads(y),
                      door_part(door_writes(x), (double)tensor_numel(y) * (double)dtype_size(x.dtype))),
             device, x, y, rows);
}

void dropout(Device *device, Tensor y, Tensor x, Dropout drop) {
    check_alike(device, "dropout", "x", x, "y", y, NULL, y);
    door_expect_probability("dropout", drop);
    DISPATCH(dropout, 2 * (double)tensor_numel(x), ACCESSES(door_reads(x), door_writes(y)), device, y, x, drop);
}

void residual_forward(Device *device, Tensor sum, Tensor x, Tensor branch, Dropout drop) {
    check_alike(device, "residual_forward", "x", x, "branch", branch, "sum", sum);
    door_expect_probability("residual_forward", drop);
    DISPATCH(residual_forward, (drop.p > 0 ? 3 : 1) * (double)tensor_numel(x),
             ACCESSES(door_reads(x), door_reads(branch), door_writes(sum)), device, sum, x, branch, drop);
}

/* y is the output or its gradient. */
static void check_layernorm(const Device *device, const char *op, LayerNormOutput of, Tensor x, Tensor gain) {
    door_expect(op, "x", x, door_activation_type(device, op, "x", x), -1, -1);
    door_expect(op, "y", of.y, x.dtype, x.dims[0], x.dims[1]);
    door_expect(op, "mean", of.mean, DTYPE_F32, x.dims[0], 0);
    door_expect(op, "rstd", of.rstd, DTYPE_F32, x.dims[0], 0);
    door_expect(op, "gain", gain, DTYPE_F32, x.dims[1], 0);
}

void layernorm_forward(Device *device, LayerNormOutput output, Tensor x, Tensor gain, Tensor bias, float epsilon) {
    check_layernorm(device, "layernorm_forward", output, x, gain);
    if (!(epsilon > 0)) die("layernorm_forward: the epsilon is %g, expected more than 0", (double)epsilon);
    door_expect_optional("layernorm_forward", "bias", bias, DTYPE_F32, x.dims[1], 0);
    DISPATCH(layernorm_forward, 8 * (double)tensor_numel(x),
             ACCESSES(door_reads(x), door_reads(gain), door_reads(bias), door_writes(output.y),
                      door_writes(output.mean), door_writes(output.rstd)),
             device, output, x, gain, bias, epsilon);
}

void layernorm_backward(Device *device, NormGradients gradients, Tensor dresidual, Tensor dy, Tensor x, Tensor mean,
                        Tensor rstd, Tensor gain) {
    const char *op = "layernorm_backward";
    check_layernorm(device, op, (LayerNormOutput){.y = dy, .mean = mean, .rstd = rstd}, x, gain);
    door_expect(op, "dx", gradients.dx, x.dtype, x.dims[0], x.dims[1]);
    door_expect(op, "dgain", gradients.dgain, DTYPE_F32, x.dims[1], 0);
    door_expect_optional(op, "dbias", gradients.dbias, DTYPE_F32, x.dims[1], 0);
    door_expect_optional(op, "dresidual", dresidual, x.dtype, x.dims[0], x.dims[1]);
    DISPATCH(layernorm_backward, 15 * (double)tensor_numel(x),
             ACCESSES(door_reads(dy), door_reads(x), door_reads(mean), door_reads(rstd), door_reads(gain),
                      door_reads(dresidual), door_writes(gradients.dx), door_adds(gradients.dgain),
                      door_adds(gradients.dbias)),
             device, gradients, dresidual, dy, x, mean, rstd, gain);
}

void residual_layernorm_forward(Device *device, Tensor sum, LayerNormOutput output, Tensor x, Tensor branch,
                                Tensor gain, Tensor bias, Dropout drop) {
    const char *op = "residual_layernorm_forward";
    check_layernorm(device, op, output, x, gain);
    door_expect(op, "branch", branch, x.dtype, x.dims[0], x.dims[1]);
    door_expect(op, "sum", sum, x.dtype, x.dims[0], x.dims[1]);
    door_expect_probability(op, drop);
    door_expect_optional(op, "bias", bias, DTYPE_F32, x.dims[1], 0);
    DISPATCH(residual_layernorm_forward, (drop.p > 0 ? 11 : 9) * (double)tensor_numel(x),
             ACCESSES(door_reads(x), door_reads(branch), door_reads(gain), door_reads(bias), door_writes(sum),
                      door_writes(output.y), door_writes(output.mean), door_writes(output.rstd)),
             device, sum, output, x, branch, gain, bias, drop);
}

/* bias_type is the activations' type for the bias, f32 for the gradient of the bias. */
static void check_linear(const Device *device, const char *op, Tensor y, Tensor x, Tensor w, Tensor bias,
                         DType bias_type, WeightLayout layout) {
    door_expect(op, "x", x, door_activation_type(device, op, "x", x), -1, -1);
    door_expect(op, "y", y, x.dtype, x.dims[0], -1);
    if (layout == WEIGHT_IN_OUT)
        door_expect(op, "w", w, x.dtype, x.dims[1], y.dims[1]);
    else
        door_expect(op, "w", w, x.dtype, y.dims[1], x.dims[1]);
    door_expect_optional(op, "bias", bias, bias_type, y.dims[1], 0);
}

/* Returns whether the rows of w do not all begin at multiples of 16 bytes in 16-bit types: tensor cores then need other
 * kernels, which are several times slower. */
static bool is_unaligned(Tensor w) { return w.dims[0] % 8 || w.dims[1] % 8; }

static void count_unaligned(Device *device, Tensor w, double flops) {
    if (is_unaligned(w) && !device->uncounted) device->unaligned_flops += flops;
}

/* Tells of the product y = x w. */
static void count_product(Device *device, int op, Tensor y, Tensor x, Tensor w) {
    door_product(device, op,
                 (TrafficProduct){.m = x.dims[0],
                                  .n = y.dims[1],
                                  .k = x.dims[1],
                                  .bytes = (double)dtype_size(y.dtype),
                                  .unaligned = is_unaligned(w)});
}

void linear_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, WeightLayout layout) {
    check_linear(device, "linear_forward", y, x, w, bias, x.dtype, layout);
    double n = (double)x.dims[0], in = (double)x.dims[1], out = (double)y.dims[1];
    count_unaligned(device, w, 2 * n * in * out);
    count_product(device, OP_linear_forward, y, x, w);
    DISPATCH(linear_forward, 2 * n * in * out + (tensor_given(bias) ? n * out : 0),
             ACCESSES(door_reads(x), door_reads(w), door_reads(bias), door_writes(y)), device, y, x, w, bias, layout);
}

/* Lists what the gradients of the parameters need: dy again for their product, and for the sums of its columns. */
#define GRADIENTS(gradients, dy, x)                                                                                    \
    door_reads(x), door_again(TRAFFIC_MAIN, door_reads(dy)),                                                           \
        (gradients).overwrite ? door_writes((gradients).dw) : door_adds((gradients).dw),                               \
        door_again(TRAFFIC_PASS, door_reads(tensor_given((gradients).dbias) ? (dy) : tensor_none())),                  \
        door_adds((gradients).dbias)

/* Clears what would be overwritten by a sum over no rows. */
static void overwrite_without_rows(Device *device, LayerGradients *gradients, Tensor x) {
    if (!gradients->overwrite || x.dims[0]) return;
    device->clear(device, gradients->dw.data, tensor_bytes(gradients->dw));
    gradients->overwrite = false;
}

/* Tells of the products dx = dy w and dw = x dy. */
static void count_products(Device *device, int op, LayerGradients gradients, Tensor dy, Tensor x, Tensor w) {
    TrafficProduct of_dw = {.m = x.dims[1],
                            .n = dy.dims[1],
                            .k = x.dims[0],
                            .bytes = gradients.overwrite ? 4 : 8,
                            .unaligned = is_unaligned(w)};
    if (tensor_given(gradients.dx)) count_product(device, op, gradients.dx, dy, w);
    door_product(device, op, of_dw);
}

void linear_backward(Device *device, LayerGradients gradients, Tensor dy, Tensor x, Tensor w, WeightLayout layout) {
    const char *op = "linear_backward";
    check_linear(device, op, dy, x, w, gradients.dbias, DTYPE_F32, layout);
    door_expect_optional(op, "dx", gradients.dx, x.dtype, x.dims[0], x.dims[1]);
    door_expect(op, "dw", gradients.dw, DTYPE_F32, w.dims[0], w.dims[1]);
    double n = (double)x.dims[0], in = (double)x.dims[1], out = (double)dy.dims[1],
           gemms = tensor_given(gradients.dx) ? 2 : 1;
    count_unaligned(device, w, gemms * 2 * n * in * out);
    overwrite_without_rows(device, &gradients, x);
    count_products(device, OP_linear_backward, gradients, dy, x, w);
    DISPATCH(linear_backward, gemms * 2 * n * in * out + (tensor_given(gradients.dbias) ? n * out : 0),
             ACCESSES(door_reads(dy), door_reads(tensor_given(gradients.dx) ? w : tensor_none()),
                      door_writes(gradients.dx), GRADIENTS(gradients, dy, x)),
             device, gradients, dy, x, w, layout);
}

/* Returns the kernel that a GELU beside a product is in: no library has the exact one, or dropout, in its epilogue. */
static TrafficKernel gelu_kernel(GeluDropout activation) {
    return activation.kind == GELU_TANH && !(activation.drop.p > 0) ? TRAFFIC_GELU : TRAFFIC_PASS;
}

void linear_gelu_forward(Device *device, Tensor y, Tensor hidden, Tensor x, Tensor w, Tensor bias, WeightLayout layout,
                         GeluDropout activation) {
    const char *op = "linear_gelu_forward";
    door_expect_probability(op, activation.drop);
    check_linear(device, op, y, x, w, bias, x.dtype, layout);
    door_expect(op, "hidden", hidden, x.dtype, x.dims[0], y.dims[1]);
    double n = (double)x.dims[0], in = (double)x.dims[1], out = (double)y.dims[1];
    count_unaligned(device, w, 2 * n * in * out);
    count_product(device, OP_linear_gelu_forward, y, x, w);
    DISPATCH(linear_gelu_forward,
             2 * n * in * out + ((tensor_given(bias) ? 10 : 9) + (activation.drop.p > 0)) * n * out,
             ACCESSES(door_reads(x), door_reads(w), door_reads(bias), door_writes(hidden),
                      door_again(gelu_kernel(activation), door_reads(hidden)), door_writes(y)),
             device, y, hidden, x, w, bias, layout, activation);
}

void gelu_linear_backward(Device *device, LayerGradients gradients, Tensor dy, Tensor x, Tensor hidden, Tensor w,
                          WeightLayout layout, GeluDropout activation) {
    const char *op = "gelu_linear_backward";
    door_expect_probability(op, activation.drop);
    check_linear(device, op, dy, x, w, gradients.dbias, DTYPE_F32, layout);
    door_expect(op, "hidden", hidden, x.dtype, x.dims[0], x.dims[1]);
    door_expect(op, "dx", gradients.dx, x.dtype, x.dims[0], x.dims[1]);
    door_expect(op, "dw", gradients.dw, DTYPE_F32, w.dims[0], w.dims[1]);
    double n = (double)x.dims[0], in = (double)x.dims[1], out = (double)dy.dims[1];
    count_unaligned(device, w, 4 * n * in * out);
    overwrite_without_rows(device, &gradients, x);
    count_products(device, OP_gelu_linear_backward, gradients, dy, x, w);
    DISPATCH(gelu_linear_backward,
             4 * n * in * out + (activation.drop.p > 0 ? 19 : 18) * n * in +
                 (tensor_given(gradients.dbias) ? n * out : 0),
             ACCESSES(door_reads(dy), door_reads(w), door_writes(gradients.dx), door_reads(hidden),
                      door_again(gelu_kernel(activation), door_adds(gradients.dx)), GRADIENTS(gradients, dy, x)),
             device, gradients, dy, x, hidden, w, layout, activation);
}

void gelu_forward(Device *device, Tensor y, Tensor x, GeluKind kind) {
    check_alike(device, "gelu_forward", "x", x, "y", y, NULL, y);
    DISPATCH(gelu_forward, 9 * (double)tensor_numel(x), ACCESSES(door_reads(x), door_writes(y)), device, y, x, kind);
}

void gelu_backward(Device *device, Tensor dx, Tensor dy, Tensor x, GeluKind kind) {
    check_alike(device, "gelu_backward", "x", x, "dy", dy, "dx", dx);
    DISPATCH(gelu_backward, 18 * (double)tensor_numel(x), ACCESSES(door_reads(x), door_reads(dy), door_writes(dx)),
             device, dx, dy, x, kind);
}

/* tanh x = 1 - 2 / (exp(2x) + 1); its derivative is (1 - y) (1 + y). */
void tanh_forward(Device *device, Tensor y, Tensor x) {
    check_alike(device, "tanh_forward", "x", x, "y", y, NULL, y);
    DISPATCH(tanh_forward, 5 * (double)tensor_numel(x), ACCESSES(door_reads(x), door_writes(y)), device, y, x);
}

void tanh_backward(Device *device, Tensor dx, Tensor dy, Tensor y) {
    check_alike(device, "tanh_backward", "y", y, "dy", dy, "dx", dx);
    DISPATCH(tanh_backward, 4 * (double)tensor_numel(y), ACCESSES(door_reads(y), door_reads(dy), door_writes(dx)),
             device, dx, dy, y);
}

void leaky_relu_forward(Device *device, Tensor y, Tensor x, float slope) {
    check_alike(device, "leaky_relu_forward", "x", x, "y", y, NULL, y);
    DISPATCH(leaky_relu_forward, (double)tensor_numel(x), ACCESSES(door_reads(x), door_writes(y)), device, y, x, slope);
}

void leaky_relu_backward(Device *device, Tensor dx, Tensor dy, Tensor x, float slope) {
    check_alike(device, "leaky_relu_backward", "x", x, "dy", dy, "dx", dx);
    DISPATCH(leaky_relu_backward, (double)tensor_numel(x), ACCESSES(door_reads(x), door_reads(dy), door_writes(dx)),
             device, dx, dy, x, slope);
}

/* y = x / (1 + exp(-x)). */
void silu_forward(Device *device, Tensor y, Tensor x) {
    check_alike(device, "silu_forward", "x", x, "y", y, NULL, y);
    DISPATCH(silu_forward, 4 * (double)tensor_numel(x), ACCESSES(door_reads(x), door_writes(y)), device, y, x);
}

void gate_forward(Device *device, Tensor y, Tensor x, GateKind kind) {
    const char *op = "gate_forward";
    door_expect(op, "y", y, door_activation_type(device, op, "y", y), -1, -1);
    door_expect(op, "x", x, y.dtype, y.dims[0], 2 * y.dims[1]);
    DISPATCH(gate_forward, (kind == GATE_SIGMOID ? 4 : 10) * (double)tensor_numel(y),
             ACCESSES(door_reads(x), door_writes(y)), device, y, x, kind);
}

/* Dies unless the sequences are the rows of x. */
static void check_sequences(const char *op, const char *name, Tensor x, Sequences sequences) {
    door_expect(op, "offsets", sequences.offsets, DTYPE_I32, sequences.count + 1, 0);
    const int32_t *at = sequences.host_offsets;
    if (at[0] != 0 || at[sequences.count] != x.dims[0])
        die("%s: the sequences are rows %d .. %d, %s has %lld", op, at[0], at[sequences.count], name,
            (long long)x.dims[0]);
    for (int s = 0; s < sequences.count; s++) {
        int32_t length = at[s + 1] - at[s];
        if (length < 0 || length >= 1 << 20) die("%s: sequence %d has %d rows, expected 0 .. 2^20 - 1", op, s, length);
    }
}

/* Returns the pairs of a row and a tap that sees a row of the same sequence. */
static double depthwise_pairs(Sequences sequences, DepthwiseWindow window) {
    double pairs = 0;
    for (int s = 0; s < sequences.count; s++)
        for (int64_t tap = 0; tap < window.taps; tap++) {
            int64_t length = sequences.host_offsets[s + 1] - sequences.host_offsets[s];
            int64_t outside = llabs(tap * window.dilation - window.before);
            if (outside < length) pairs += (double)(length - outside);
        }
    return pairs;
}

void depthwise_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, Sequences sequences,
                       DepthwiseWindow window) {
    const char *op = "depthwise_forward";
    check_alike(device, op, "x", x, "y", y, NULL, y);
    if (window.taps < 1 || window.dilation < 1 || window.before < 0 ||
        window.before > (window.taps - (int64_t)1) * window.dilation)
        die("%s: %d taps of dilation %d with %d rows before, expected at least one tap, a dilation of at least 1, and "
            "0 "
            ".. (taps - 1) dilation rows before",
            op, window.taps, window.dilation, window.before);
    door_expect(op, "w", w, DTYPE_F32, x.dims[1], window.taps);
    door_expect_optional(op, "bias", bias, DTYPE_F32, x.dims[1], 0);
    check_sequences(op, "x", x, sequences);
    if (y.data == x.data && x.dims[0]) die("%s: y is x, whose rows are read for several rows of y", op);
    DISPATCH(depthwise_forward,
             (double)x.dims[1] * 2 * depthwise_pairs(sequences, window) +
                 (tensor_given(bias) ? (double)tensor_numel(x) : 0),
             ACCESSES(door_reads(sequences.offsets), door_reads(x), door_reads(w), door_reads(bias), door_writes(y)),
             device, y, x, w, bias, sequences, window);
}

/* Returns the pairs of a query and a key that the query sees, over all sequences. */
static double attention_pairs(const char *op, Tensor qkv, Sequences sequences, Attention attention) {
    double pairs = 0;
    check_sequences(op, "qkv", qkv, sequences);
    for (int s = 0; s < sequences.count; s++) {
        double t = sequences.host_offsets[s + 1] - sequences.host_offsets[s];
        pairs += attention.causal ? t * (t + 1) / 2 : t * t;
    }
    return pairs;
}

static void check_heads(const char *op, Tensor qkv, Attention attention) {
    int64_t c = qkv.dims[1] / 3;
    if (qkv.dims[1] != 3 * c || attention.n_heads <= 0 || c % attention.n_heads)
        die("%s: %lld columns are not q, k and v of %d heads", op, (long long)qkv.dims[1], attention.n_heads);
}

static void check_attention(const Device *device, const char *op, AttentionActivations of, Attention attention,
                            Dropout drop) {
    Tensor qkv = of.qkv;
    door_expect_probability(op, drop);
    door_expect(op, "qkv", qkv, door_activation_type(device, op, "qkv", qkv), -1, -1);
    int64_t n = qkv.dims[0], c = qkv.dims[1] / 3;
    door_expect(op, "out", of.out, qkv.dtype, n, c);
    door_expect(op, "lse", of.lse, DTYPE_F32, attention.n_heads, n);
    check_heads(op, qkv, attention);
    if (device->ops && drop.p > 0 && n >= 1 << DROPOUT_ROW_BITS)
        die("%s: dropout of %lld rows, expected less than 2^%d", op, (long long)n, DROPOUT_ROW_BITS);
}

void attention_forward(Device *device, Tensor out, Tensor lse, Tensor qkv, Sequences sequences, Attention attention,
                       Dropout drop) {
    const char *op = "attention_forward";
    check_attention(device, op, (AttentionActivations){.qkv = qkv, .out = out, .lse = lse}, attention, drop);
    double pairs = attention_pairs(op, qkv, sequences, attention), c = (double)out.dims[1], h = attention.n_heads;
    /* Per pair and head: two GEMMs of the head size, and 5 for scale, maximum, exponential, sum and normalisation. */
    DISPATCH(attention_forward, pairs * (4 * c + 5 * h + (drop.p > 0 ? 2 * h : 0)),
             ACCESSES(door_reads(sequences.offsets), door_reads(qkv), door_writes(out), door_writes(lse)), device, out,
             lse, qkv, sequences, attention, drop);
}

void attention_backward(Device *device, Tensor dqkv, Tensor dout, AttentionActivations forward, Sequences sequences,
                        Attention attention, Dropout drop) {
    const char *op = "attention_backward";
    Tensor qkv = forward.qkv, out = forward.out;
    check_attention(device, op, forward, attention, drop);
    door_expect(op, "dqkv", dqkv, qkv.dtype, qkv.dims[0], qkv.dims[1]);
    door_expect(op, "dout", dout, qkv.dtype, out.dims[0], out.dims[1]);
    double pairs = attention_pairs(op, qkv, sequences, attention), c = (double)out.dims[1], h = attention.n_heads;
    /* Per pair and head: five GEMMs (the scores again, dP, dV, dK, dQ), and about 6 for P and dS. */
    DISPATCH(attention_backward, pairs * (10 * c + 6 * h + (drop.p > 0 ? 3 * h : 0)) + 2 * (double)tensor_numel(out),
             ACCESSES(door_reads(sequences.offsets), door_reads(out), door_reads(dout), door_reads(qkv),
                      door_again(TRAFFIC_MAIN, door_reads(dout)), door_reads(forward.lse), door_writes(dqkv)),
             device, dqkv, dout, forward, sequences, attention, drop);
}

static void check_terms(const char *op, Tensor qkv, Sequences sequences, Attention attention, AttentionTerms terms) {
    if (attention.causal)
        die("%s: the attention is causal, which has no kernels with terms: clear Attention.causal", op);
    if (tensor_given(terms.distances)) {
        int most = ATTENTION_MAX_DISTANCES;
        if (terms.left < 0 || terms.right < 0 || terms.left + (int64_t)terms.right >= most)
            die("%s: distances from %d to the left to %d to the right, expected 0 or more and %d at most", op,
                terms.left, terms.right, most);
        door_expect(op, "distances", terms.distances, qkv.dtype, terms.left + 1 + terms.right,
                    qkv.dims[1] / 3 / attention.n_heads);
    }
    door_expect_optional(op, "key_terms", terms.key_terms, DTYPE_F32, qkv.dims[0], attention.n_heads);
    door_expect_optional(op, "hidden", terms.hidden, DTYPE_I32, sequences.count, 0);
}

void attention_terms_forward(Device *device, Tensor out, Tensor qkv, Sequences sequences, Attention attention,
                             AttentionTerms terms) {
    const char *op = "attention_terms_forward";
    door_expect(op, "qkv", qkv, door_activation_type(device, op, "qkv", qkv), -1, -1);
    check_heads(op, qkv, attention);
    double n = (double)qkv.dims[0], c = (double)(qkv.dims[1] / 3), h = attention.n_heads;
    door_expect(op, "out", out, qkv.dtype, qkv.dims[0], qkv.dims[1] / 3);
    double pairs = attention_pairs(op, qkv, sequences, attention);
    check_terms(op, qkv, sequences, attention, terms);
    bool by_distance = tensor_given(terms.distances), by_key = tensor_given(terms.key_terms);
    /* Per pair and head what attention_forward does, and a sum for each term; per query the products with distances. */
    DISPATCH(attention_terms_forward,
             pairs * (4 * c + (5 + by_distance + by_key) * h) +
                 (by_distance ? 2 * n * c * (double)terms.distances.dims[0] : 0),
             ACCESSES(door_reads(sequences.offsets), door_reads(terms.hidden), door_reads(qkv),
                      door_reads(terms.distances), door_reads(terms.key_terms), door_writes(out)),
             device, out, qkv, sequences, attention, terms);
}

void cache_rows(Device *device, Tensor kv, Tensor qkv, Tensor rows) {
    const char *op = "cache_rows";
    door_expect(op, "qkv", qkv, door_activation_type(device, op, "qkv", qkv), -1, -1);
    int64_t n = qkv.dims[0], c = qkv.dims[1] / 3;
    if (qkv.dims[1] != 3 * c) die("%s: %lld columns are not q, k and v", op, (long long)qkv.dims[1]);
    door_expect(op, "kv", kv, qkv.dtype, -1, 2 * c);
    door_expect(op, "rows", rows, DTYPE_I32, n, 0);
    double bytes = 2 * (double)(n * c) * (double)dtype_size(qkv.dtype);
    DISPATCH(cache_rows, 0,
             ACCESSES(door_reads(rows), door_part(door_reads(qkv), bytes), door_part(door_writes(kv), bytes)), device,
             kv, qkv, rows);
}

void attention_cached_forward(Device *device, Tensor out, Tensor qkv, CachedKeys keys, Attention attention) {
    const char *op = "attention_cached_forward";
    door_expect(op, "qkv", qkv, door_activation_type(device, op, "qkv", qkv), -1, -1);
    int64_t n = qkv.dims[0], c = qkv.dims[1] / 3;
    check_heads(op, qkv, attention);
    door_expect(op, "out", out, qkv.dtype, n, c);
    door_expect(op, "kv", keys.kv, qkv.dtype, -1, 2 * c);
    door_expect(op, "slots", keys.slots, DTYPE_I32, n, 0);
    door_expect(op, "lengths", keys.lengths, DTYPE_I32, n, 0);
    if (keys.capacity < 1 || keys.kv.dims[0] % keys.capacity)
        die("%s: the %lld rows of kv are not whole slots of %lld rows", op, (long long)keys.kv.dims[0],
            (long long)keys.capacity);
    if (keys.longest < 1 || keys.longest > keys.capacity)
        die("%s: the longest sequence has %lld rows, expected 1 .. %lld, the rows of a slot", op,
            (long long)keys.longest, (long long)keys.capacity);
    double pairs = (double)n * (double)keys.longest, width = (double)c, h = attention.n_heads;
    DISPATCH(attention_cached_forward, pairs * (4 * width + 5 * h),
             ACCESSES(door_reads(keys.slots), door_reads(keys.lengths),
                      door_part(door_reads(qkv), (double)tensor_bytes(out)),
                      door_part(door_reads(keys.kv), 2 * pairs * width * (double)dtype_size(out.dtype)),
                      door_writes(out)),
             device, out, qkv, keys, attention);
}

static void check_mean_rows(const Device *device, const char *op, const char *mean_name, Tensor mean,
                            const char *whole_name, Tensor whole, int64_t length) {
    door_expect(op, whole_name, whole, door_activation_type(device, op, whole_name, whole), -1, -1);
    int64_t sequences = length > 0 ? whole.dims[0] / length : 0;
    if (sequences * length != whole.dims[0] || length <= 0)
        die("%s: the %lld rows of %s are not whole sequences of %lld rows", op, (long long)whole.dims[0], whole_name,
            (long long)length);
    door_expect(op, mean_name, mean, whole.dtype, sequences, whole.dims[1]);
}

void mean_rows_forward(Device *device, Tensor y, Tensor x, int64_t length) {
    check_mean_rows(device, "mean_rows_forward", "y", y, "x", x, length);
    DISPATCH(mean_rows_forward, (double)tensor_numel(x), ACCESSES(door_reads(x), door_writes(y)), device, y, x, length);
}

void mean_rows_backward(Device *device, Tensor dx, Tensor dy, int64_t length) {
    check_mean_rows(device, "mean_rows_backward", "dy", dy, "dx", dx, length);
    DISPATCH(mean_rows_backward, (double)tensor_numel(dy), ACCESSES(door_reads(dy), door_writes(dx)), device, dx, dy,
             length);
}

/* A product, and two comparisons of it. */
void nearest_direction(Device *device, Tensor ids, Tensor margins, Tensor x, Tensor table) {
    const char *op = "nearest_direction";
    door_expect(op, "x", x, DTYPE_F32, -1, -1);
    door_expect(op, "table", table, DTYPE_F32, -1, x.dims[1]);
    door_expect(op, "ids", ids, DTYPE_I32, x.dims[0], 0);
    door_expect_optional(op, "margins", margins, DTYPE_F32, x.dims[0], 0);
    double n = (double)x.dims[0], k = (double)table.dims[0], d = (double)x.dims[1];
    if (x.dims[1] < 1 || x.dims[1] > DIRECTION_MAX_SIZE)
        die("%s: rows of %lld numbers, expected 1 .. %d", op, (long long)x.dims[1], DIRECTION_MAX_SIZE);
    if (table.dims[0] < 2 || table.dims[0] > INT32_MAX)
        die("%s: a table of %lld rows, expected 2 .. 2^31 - 1", op, (long long)table.dims[0]);
    DISPATCH(nearest_direction, n * k * (2 * d + 2),
             ACCESSES(door_reads(x), door_reads(table), door_writes(ids), door_writes(margins)), device, ids, margins,
             x, table);
}
