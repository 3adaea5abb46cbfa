/* The door functions: check, count, dispatch. See ops.h for what each operation computes.
 *
 * FLOPs: a multiply-add is two; an exponential, a square root or a random number is one. Bytes: each tensor that is
 * read or written counts once, one that is accumulated into counts twice. */
#include "kernels/ops.h"

#include <stdio.h>

#include "base/base.h"
#include "kernels/ops_table.h"

/* Dies unless t is `dtype` [rows, columns]; columns 0: rank 1; -1: any size. */
static void expect(const char *op, const char *name, Tensor t, DType dtype, int64_t rows, int64_t columns) {
    int rank = columns ? 2 : 1;
    bool fits = t.data && t.dtype == dtype && t.rank == rank && (rows < 0 || t.dims[0] == rows) &&
                (columns <= 0 || t.dims[1] == columns);
    if (fits) return;
    char found[96], wanted_rows[24] = "any", wanted_columns[24] = "any";
    if (rows >= 0) snprintf(wanted_rows, sizeof wanted_rows, "%lld", (long long)rows);
    if (columns >= 0) snprintf(wanted_columns, sizeof wanted_columns, "%lld", (long long)columns);
    die("%s: %s is %s, expected %s [%s%s%s]", op, name, tensor_shape_text(t, found), dtype_name(dtype), wanted_rows,
        columns ? ", " : "", columns ? wanted_columns : "");
}

/* The type of a call's activations, from one of them: f32, or the device's 16-bit type. */
static DType activation_type(const Device *device, const char *op, const char *name, Tensor t) {
    if (t.dtype != DTYPE_F32 && t.dtype != device->half) {
        char found[96];
        die("%s: %s is %s; the %s device computes in f32%s%s", op, name, tensor_shape_text(t, found), device->name,
            device->half == DTYPE_F32 ? "" : " and ", device->half == DTYPE_F32 ? "" : dtype_name(device->half));
    }
    return t.dtype;
}

static void expect_optional(const char *op, const char *name, Tensor t, DType dtype, int64_t rows, int64_t columns) {
    if (tensor_given(t)) expect(op, name, t, dtype, rows, columns);
}

static void expect_probability(const char *op, Dropout drop) {
    if (!(drop.p >= 0 && drop.p < 1))
        die("%s: the dropout is %g, expected at least 0 and less than 1", op, (double)drop.p);
}

static void expect_loss_scale(const char *op, Tensor loss_scale) {
    expect_optional(op, "loss_scale", loss_scale, DTYPE_F32, LOSS_SCALE_FIELDS, 0);
}

static double bytes_of(Tensor t) { return (double)tensor_bytes(t); }

static OpCounter *count(Device *device, int op, double flops, double bytes) {
    OpCounter *counter = &device->counters[op];
    CallWork *size = &counter->sizes[call_size(flops, bytes)];
    counter->calls++;
    counter->flops += flops;
    counter->bytes += bytes;
    size->calls++;
    size->flops += flops;
    size->bytes += bytes;
    return counter;
}

/* Counts and dispatches one call; with Device.profile also times it, by the device's own clock if it has one. */
#define DISPATCH(op, flops, bytes, ...)                                                                                \
    do {                                                                                                               \
        OpCounter *counter = count(device, OP_##op, flops, bytes);                                                     \
        if (!device->ops) break;                                                                                       \
        double start = device->profile ? seconds_now() : 0;                                                            \
        if (device->profile && device->stopwatch) device->stopwatch(device, NULL);                                     \
        device->ops->op(__VA_ARGS__);                                                                                  \
        if (device->profile && device->stopwatch) device->stopwatch(device, &counter->seconds);                        \
        if (!device->profile || device->stopwatch) break;                                                              \
        device->synchronize(device);                                                                                   \
        counter->seconds += seconds_now() - start;                                                                     \
    } while (0)

void cast(Device *device, Tensor y, Tensor x) {
    expect("cast", "x", x, activation_type(device, "cast", "x", x), -1, 0);
    expect("cast", "y", y, activation_type(device, "cast", "y", y), x.dims[0], 0);
    DISPATCH(cast, 0, bytes_of(x) + bytes_of(y), device, y, x);
}

void embedding_forward(Device *device, Tensor x, Tensor rows, Tensor ids, Tensor table, Tensor positions,
                       Tensor position_table) {
    const char *op = "embedding_forward";
    expect(op, "x", x, activation_type(device, op, "x", x), -1, -1);
    expect(op, "ids", ids, DTYPE_I32, tensor_given(rows) ? -1 : x.dims[0], 0);
    int64_t n = ids.dims[0], c = x.dims[1];
    expect_optional(op, "rows", rows, DTYPE_I32, n, 0);
    expect(op, "table", table, DTYPE_F32, -1, c);
    expect_optional(op, "positions", positions, DTYPE_I32, n, 0);
    if (tensor_given(positions)) expect(op, "position_table", position_table, DTYPE_F32, -1, c);
    double one = (double)n * (double)c, with = tensor_given(positions) ? 1 : 0;
    DISPATCH(embedding_forward, with * one,
             one * ((double)dtype_size(x.dtype) + 4 * (1 + with)) + bytes_of(ids) + bytes_of(rows) +
                 bytes_of(positions),
             device, x, rows, ids, table, positions, position_table);
}

void embedding_backward(Device *device, Tensor dtable, Tensor dposition_table, Tensor dx, Tensor rows, Tensor ids,
                        Tensor positions) {
    const char *op = "embedding_backward";
    expect(op, "dx", dx, activation_type(device, op, "dx", dx), -1, -1);
    expect(op, "ids", ids, DTYPE_I32, tensor_given(rows) ? -1 : dx.dims[0], 0);
    int64_t n = ids.dims[0], c = dx.dims[1];
    expect_optional(op, "rows", rows, DTYPE_I32, n, 0);
    expect(op, "dtable", dtable, DTYPE_F32, -1, c);
    expect_optional(op, "positions", positions, DTYPE_I32, n, 0);
    if (tensor_given(positions)) expect(op, "dposition_table", dposition_table, DTYPE_F32, -1, c);
    double one = (double)n * (double)c, with = tensor_given(positions) ? 1 : 0;
    DISPATCH(embedding_backward, (1 + with) * one,
             one * ((double)dtype_size(dx.dtype) + 8 * (1 + with)) + bytes_of(ids) + bytes_of(rows) +
                 bytes_of(positions),
             device, dtable, dposition_table, dx, rows, ids, positions);
}

void place_rows(Device *device, Tensor x, Tensor y, Tensor rows, Tensor positions, Tensor table) {
    const char *op = "place_rows";
    expect(op, "x", x, activation_type(device, op, "x", x), -1, -1);
    expect(op, "y", y, x.dtype, -1, x.dims[1]);
    expect(op, "rows", rows, DTYPE_I32, y.dims[0], 0);
    expect(op, "positions", positions, DTYPE_I32, y.dims[0], 0);
    expect(op, "table", table, DTYPE_F32, -1, x.dims[1]);
    double n = (double)tensor_numel(y);
    DISPATCH(place_rows, n, 2 * bytes_of(y) + 4 * n + bytes_of(rows) + bytes_of(positions), device, x, y, rows,
             positions, table);
}

static void check_rows(const Device *device, const char *op, Tensor packed, DType type, Tensor wide, Tensor rows) {
    expect(op, "x", wide, activation_type(device, op, "x", wide), -1, -1);
    expect(op, "y", packed, type, -1, wide.dims[1]);
    expect(op, "rows", rows, DTYPE_I32, packed.dims[0], 0);
}

void gather_rows(Device *device, Tensor y, Tensor x, Tensor rows) {
    check_rows(device, "gather_rows", y, x.dtype, x, rows);
    DISPATCH(gather_rows, 0, 2 * bytes_of(y) + bytes_of(rows), device, y, x, rows);
}

void scatter_rows(Device *device, Tensor x, Tensor y, Tensor rows) {
    check_rows(device, "scatter_rows", y, y.dtype == DTYPE_F32 ? DTYPE_F32 : x.dtype, x, rows);
    DISPATCH(scatter_rows, 0, bytes_of(y) + (double)tensor_numel(y) * (double)dtype_size(x.dtype) + bytes_of(rows),
             device, x, y, rows);
}

void dropout(Device *device, Tensor y, Tensor x, Dropout drop) {
    expect("dropout", "x", x, activation_type(device, "dropout", "x", x), -1, -1);
    expect("dropout", "y", y, x.dtype, x.dims[0], x.dims[1]);
    expect_probability("dropout", drop);
    DISPATCH(dropout, 2 * (double)tensor_numel(x), 2 * bytes_of(x), device, y, x, drop);
}

void residual_forward(Device *device, Tensor sum, Tensor x, Tensor branch, Dropout drop) {
    const char *op = "residual_forward";
    expect(op, "x", x, activation_type(device, op, "x", x), -1, -1);
    expect(op, "branch", branch, x.dtype, x.dims[0], x.dims[1]);
    expect(op, "sum", sum, x.dtype, x.dims[0], x.dims[1]);
    expect_probability(op, drop);
    DISPATCH(residual_forward, (drop.p > 0 ? 3 : 1) * (double)tensor_numel(x), 3 * bytes_of(x), device, sum, x, branch,
             drop);
}

static void check_layernorm(const Device *device, const char *op, Tensor y, Tensor mean, Tensor rstd, Tensor x,
                            Tensor gain) {
    expect(op, "x", x, activation_type(device, op, "x", x), -1, -1);
    expect(op, "y", y, x.dtype, x.dims[0], x.dims[1]);
    expect(op, "mean", mean, DTYPE_F32, x.dims[0], 0);
    expect(op, "rstd", rstd, DTYPE_F32, x.dims[0], 0);
    expect(op, "gain", gain, DTYPE_F32, x.dims[1], 0);
}

void layernorm_forward(Device *device, Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor gain, Tensor bias) {
    check_layernorm(device, "layernorm_forward", y, mean, rstd, x, gain);
    expect_optional("layernorm_forward", "bias", bias, DTYPE_F32, x.dims[1], 0);
    DISPATCH(layernorm_forward, 8 * (double)tensor_numel(x),
             2 * bytes_of(x) + 2 * bytes_of(mean) + bytes_of(gain) + bytes_of(bias), device, y, mean, rstd, x, gain,
             bias);
}

void layernorm_backward(Device *device, Tensor dx, Tensor dgain, Tensor dbias, Tensor dresidual, Tensor dy, Tensor x,
                        Tensor mean, Tensor rstd, Tensor gain) {
    const char *op = "layernorm_backward";
    check_layernorm(device, op, dy, mean, rstd, x, gain);
    expect(op, "dx", dx, x.dtype, x.dims[0], x.dims[1]);
    expect(op, "dgain", dgain, DTYPE_F32, x.dims[1], 0);
    expect_optional(op, "dbias", dbias, DTYPE_F32, x.dims[1], 0);
    expect_optional(op, "dresidual", dresidual, x.dtype, x.dims[0], x.dims[1]);
    DISPATCH(layernorm_backward, 15 * (double)tensor_numel(x),
             3 * bytes_of(x) + bytes_of(dresidual) + 2 * bytes_of(mean) + 3 * bytes_of(gain) + 2 * bytes_of(dbias),
             device, dx, dgain, dbias, dresidual, dy, x, mean, rstd, gain);
}

void residual_layernorm_forward(Device *device, Tensor sum, Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor branch,
                                Tensor gain, Tensor bias, Dropout drop) {
    const char *op = "residual_layernorm_forward";
    check_layernorm(device, op, y, mean, rstd, x, gain);
    expect(op, "branch", branch, x.dtype, x.dims[0], x.dims[1]);
    expect(op, "sum", sum, x.dtype, x.dims[0], x.dims[1]);
    expect_probability(op, drop);
    expect_optional(op, "bias", bias, DTYPE_F32, x.dims[1], 0);
    DISPATCH(residual_layernorm_forward, (drop.p > 0 ? 11 : 9) * (double)tensor_numel(x),
             4 * bytes_of(x) + 2 * bytes_of(mean) + bytes_of(gain) + bytes_of(bias), device, sum, y, mean, rstd, x,
             branch, gain, bias, drop);
}

void augment_cells(Device *device, Tensor x, Tensor counts, Tensor cells, Tensor draws, FlimShape shape, bool dilated) {
    const char *op = "augment_cells";
    if (shape.T < 1 || shape.T > FLIM_MOST_BINS || shape.H < 1 || shape.H > FLIM_MOST_SIDE || shape.H != shape.W)
        die("%s: cells of %d bins of %d x %d pixels, expected 1 to %d of 1 x 1 to %d x %d, square", op, shape.T,
            shape.H, shape.W, FLIM_MOST_BINS, FLIM_MOST_SIDE, FLIM_MOST_SIDE);
    int64_t voxels = (int64_t)shape.T * shape.H * shape.W;
    expect(op, "cells", cells, DTYPE_I32, -1, 0);
    if (counts.dtype != DTYPE_U8 && counts.dtype != DTYPE_U16) {
        char found[96];
        die("%s: counts is %s, expected u8 or u16", op, tensor_shape_text(counts, found));
    }
    expect(op, "counts", counts, counts.dtype, -1, voxels);
    expect(op, "draws", draws, DTYPE_I32, cells.dims[0], FLIM_DRAW_WORDS);
    expect(op, "x", x, activation_type(device, op, "x", x), cells.dims[0] * voxels, 2);
    /* The scale and the logarithm of each count: what else is done is known to the draws only. */
    double n = (double)cells.dims[0] * (double)voxels;
    DISPATCH(augment_cells, 2 * n,
             n * (double)dtype_size(counts.dtype) + bytes_of(x) + bytes_of(cells) + bytes_of(draws), device, x, counts,
             cells, draws, shape, dilated);
}

void mixup(Device *device, Tensor y, Tensor x, Tensor partners, Tensor share) {
    expect("mixup", "x", x, activation_type(device, "mixup", "x", x), -1, -1);
    expect("mixup", "y", y, x.dtype, x.dims[0], x.dims[1]);
    expect("mixup", "partners", partners, DTYPE_I32, -1, 0);
    expect("mixup", "share", share, DTYPE_F32, 1, 0);
    if (partners.dims[0] < 1 ? x.dims[0] > 0 : x.dims[0] % partners.dims[0] != 0)
        die("mixup: the %lld rows of x are no %lld samples", (long long)x.dims[0], (long long)partners.dims[0]);
    if (y.data == x.data && x.dims[0]) die("mixup: y is x, which partners are read from");
    DISPATCH(mixup, 3 * (double)tensor_numel(x), 3 * bytes_of(x) + bytes_of(partners) + 4, device, y, x, partners,
             share);
}

/* bias_type: that of the bias itself is the activations', that of its gradient f32. */
static void check_linear(const Device *device, const char *op, Tensor y, Tensor x, Tensor w, Tensor bias,
                         DType bias_type, WeightLayout layout) {
    expect(op, "x", x, activation_type(device, op, "x", x), -1, -1);
    expect(op, "y", y, x.dtype, x.dims[0], -1);
    if (layout == WEIGHT_IN_OUT)
        expect(op, "w", w, x.dtype, x.dims[1], y.dims[1]);
    else
        expect(op, "w", w, x.dtype, y.dims[1], x.dims[1]);
    expect_optional(op, "bias", bias, bias_type, y.dims[1], 0);
}

void linear_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, WeightLayout layout) {
    check_linear(device, "linear_forward", y, x, w, bias, x.dtype, layout);
    double n = (double)x.dims[0], in = (double)x.dims[1], out = (double)y.dims[1];
    DISPATCH(linear_forward, 2 * n * in * out + (tensor_given(bias) ? n * out : 0),
             bytes_of(x) + bytes_of(w) + bytes_of(y) + bytes_of(bias), device, y, x, w, bias, layout);
}

void linear_backward(Device *device, Tensor dx, Tensor dw, Tensor dbias, Tensor dy, Tensor x, Tensor w,
                     WeightLayout layout) {
    const char *op = "linear_backward";
    check_linear(device, op, dy, x, w, dbias, DTYPE_F32, layout);
    expect_optional(op, "dx", dx, x.dtype, x.dims[0], x.dims[1]);
    expect(op, "dw", dw, DTYPE_F32, w.dims[0], w.dims[1]);
    double n = (double)x.dims[0], in = (double)x.dims[1], out = (double)dy.dims[1], gemms = tensor_given(dx) ? 2 : 1;
    DISPATCH(linear_backward, gemms * 2 * n * in * out + (tensor_given(dbias) ? n * out : 0),
             bytes_of(x) + bytes_of(dy) + 2 * bytes_of(dw) + bytes_of(dx) + (tensor_given(dx) ? bytes_of(w) : 0) +
                 2 * bytes_of(dbias),
             device, dx, dw, dbias, dy, x, w, layout);
}

void linear_gelu_forward(Device *device, Tensor y, Tensor hidden, Tensor x, Tensor w, Tensor bias, WeightLayout layout,
                         GeluKind kind, Dropout drop) {
    const char *op = "linear_gelu_forward";
    expect_probability(op, drop);
    check_linear(device, op, y, x, w, bias, x.dtype, layout);
    expect(op, "hidden", hidden, x.dtype, x.dims[0], y.dims[1]);
    double n = (double)x.dims[0], in = (double)x.dims[1], out = (double)y.dims[1];
    DISPATCH(linear_gelu_forward, 2 * n * in * out + ((tensor_given(bias) ? 10 : 9) + (drop.p > 0)) * n * out,
             bytes_of(x) + bytes_of(w) + bytes_of(hidden) + bytes_of(y) + bytes_of(bias), device, y, hidden, x, w, bias,
             layout, kind, drop);
}

void gelu_linear_backward(Device *device, Tensor dhidden, Tensor dw, Tensor dbias, Tensor dy, Tensor x, Tensor hidden,
                          Tensor w, WeightLayout layout, GeluKind kind, Dropout drop) {
    const char *op = "gelu_linear_backward";
    expect_probability(op, drop);
    check_linear(device, op, dy, x, w, dbias, DTYPE_F32, layout);
    expect(op, "hidden", hidden, x.dtype, x.dims[0], x.dims[1]);
    expect(op, "dhidden", dhidden, x.dtype, x.dims[0], x.dims[1]);
    expect(op, "dw", dw, DTYPE_F32, w.dims[0], w.dims[1]);
    double n = (double)x.dims[0], in = (double)x.dims[1], out = (double)dy.dims[1];
    DISPATCH(gelu_linear_backward,
             4 * n * in * out + (drop.p > 0 ? 19 : 18) * n * in + (tensor_given(dbias) ? n * out : 0),
             bytes_of(x) + bytes_of(hidden) + bytes_of(dhidden) + bytes_of(dy) + bytes_of(w) + 2 * bytes_of(dw) +
                 2 * bytes_of(dbias),
             device, dhidden, dw, dbias, dy, x, hidden, w, layout, kind, drop);
}

void gelu_forward(Device *device, Tensor y, Tensor x, GeluKind kind) {
    expect("gelu_forward", "x", x, activation_type(device, "gelu_forward", "x", x), -1, -1);
    expect("gelu_forward", "y", y, x.dtype, x.dims[0], x.dims[1]);
    DISPATCH(gelu_forward, 9 * (double)tensor_numel(x), 2 * bytes_of(x), device, y, x, kind);
}

void gelu_backward(Device *device, Tensor dx, Tensor dy, Tensor x, GeluKind kind) {
    const char *op = "gelu_backward";
    expect(op, "x", x, activation_type(device, op, "x", x), -1, -1);
    expect(op, "dy", dy, x.dtype, x.dims[0], x.dims[1]);
    expect(op, "dx", dx, x.dtype, x.dims[0], x.dims[1]);
    DISPATCH(gelu_backward, 18 * (double)tensor_numel(x), 3 * bytes_of(x), device, dx, dy, x, kind);
}

void leaky_relu_forward(Device *device, Tensor y, Tensor x, float slope) {
    const char *op = "leaky_relu_forward";
    expect(op, "x", x, activation_type(device, op, "x", x), -1, -1);
    expect(op, "y", y, x.dtype, x.dims[0], x.dims[1]);
    DISPATCH(leaky_relu_forward, (double)tensor_numel(x), 2 * bytes_of(x), device, y, x, slope);
}

void leaky_relu_backward(Device *device, Tensor dx, Tensor dy, Tensor x, float slope) {
    const char *op = "leaky_relu_backward";
    expect(op, "x", x, activation_type(device, op, "x", x), -1, -1);
    expect(op, "dy", dy, x.dtype, x.dims[0], x.dims[1]);
    expect(op, "dx", dx, x.dtype, x.dims[0], x.dims[1]);
    DISPATCH(leaky_relu_backward, (double)tensor_numel(x), 3 * bytes_of(x), device, dx, dy, x, slope);
}

/* Pairs of a query and a key it sees, over all sequences. */
static double attention_pairs(const char *op, Tensor qkv, Sequences sequences, Attention attention) {
    double pairs = 0;
    expect(op, "offsets", sequences.offsets, DTYPE_I32, sequences.count + 1, 0);
    const int32_t *at = sequences.host_offsets;
    if (at[0] != 0 || at[sequences.count] != qkv.dims[0])
        die("%s: the sequences are rows %d .. %d, qkv has %lld", op, at[0], at[sequences.count],
            (long long)qkv.dims[0]);
    for (int s = 0; s < sequences.count; s++) {
        int32_t length = at[s + 1] - at[s];
        if (length < 0 || length >= 1 << 20) die("%s: sequence %d has %d rows, expected 0 .. 2^20 - 1", op, s, length);
        double t = length;
        pairs += attention.causal ? t * (t + 1) / 2 : t * t;
    }
    return pairs;
}

static void check_attention(const Device *device, const char *op, Tensor out, Tensor lse, Tensor qkv,
                            Attention attention, Dropout drop) {
    expect_probability(op, drop);
    expect(op, "qkv", qkv, activation_type(device, op, "qkv", qkv), -1, -1);
    int64_t n = qkv.dims[0], c = qkv.dims[1] / 3;
    expect(op, "out", out, qkv.dtype, n, c);
    expect(op, "lse", lse, DTYPE_F32, attention.n_heads, n);
    if (qkv.dims[1] != 3 * c || attention.n_heads <= 0 || c % attention.n_heads)
        die("%s: %lld columns are not q, k and v of %d heads", op, (long long)qkv.dims[1], attention.n_heads);
}

void attention_forward(Device *device, Tensor out, Tensor lse, Tensor qkv, Sequences sequences, Attention attention,
                       Dropout drop) {
    const char *op = "attention_forward";
    check_attention(device, op, out, lse, qkv, attention, drop);
    double pairs = attention_pairs(op, qkv, sequences, attention), c = (double)out.dims[1], h = attention.n_heads;
    /* Two GEMMs of the head size a pair and head; scale, maximum, exponential, sum, normalisation: 5. */
    DISPATCH(attention_forward, pairs * (4 * c + 5 * h + (drop.p > 0 ? 2 * h : 0)),
             bytes_of(qkv) + bytes_of(out) + bytes_of(lse) + bytes_of(sequences.offsets), device, out, lse, qkv,
             sequences, attention, drop);
}

void attention_backward(Device *device, Tensor dqkv, Tensor dout, Tensor qkv, Tensor out, Tensor lse,
                        Sequences sequences, Attention attention, Dropout drop) {
    const char *op = "attention_backward";
    check_attention(device, op, out, lse, qkv, attention, drop);
    expect(op, "dqkv", dqkv, qkv.dtype, qkv.dims[0], qkv.dims[1]);
    expect(op, "dout", dout, qkv.dtype, out.dims[0], out.dims[1]);
    double pairs = attention_pairs(op, qkv, sequences, attention), c = (double)out.dims[1], h = attention.n_heads;
    /* Five GEMMs (the scores again, dP, dV, dK, dQ) and about 6 for P and dS. */
    DISPATCH(attention_backward, pairs * (10 * c + 6 * h + (drop.p > 0 ? 3 * h : 0)) + 2 * (double)tensor_numel(out),
             bytes_of(qkv) + bytes_of(dqkv) + bytes_of(out) + bytes_of(dout) + bytes_of(lse) +
                 bytes_of(sequences.offsets),
             device, dqkv, dout, qkv, out, lse, sequences, attention, drop);
}

int64_t window_positions(Window w) { return (w.length + 2 * (int64_t)w.padding - w.taps) / w.stride + 1; }

/* Dies unless `whole` T [S length, C] and `windows` [S positions, C taps] fit together. */
static void check_unfold(const Device *device, const char *op, const char *windows_name, Tensor windows,
                         const char *whole_name, Tensor whole, Window w) {
    if (w.length <= 0 || w.taps <= 0 || w.stride <= 0 || w.padding < 0 || w.length + 2 * (int64_t)w.padding < w.taps)
        die("%s: %d taps, stride %d, padding %d have no position in sequences of %lld rows", op, w.taps, w.stride,
            w.padding, (long long)w.length);
    expect(op, whole_name, whole, activation_type(device, op, whole_name, whole), -1, -1);
    if (whole.dims[0] % w.length)
        die("%s: the %lld rows of %s are no sequences of %lld", op, (long long)whole.dims[0], whole_name,
            (long long)w.length);
    expect(op, windows_name, windows, whole.dtype, whole.dims[0] / w.length * window_positions(w),
           whole.dims[1] * w.taps);
}

/* The pairs of a position and a tap that see a row of their sequence, not the padding. */
static double pairs_inside(Window w) {
    double pairs = 0;
    for (int64_t tap = 0; tap < w.taps; tap++) {
        int64_t before = w.padding - tap; /* of position p, tap t sees row p stride - before */
        int64_t first = before <= 0 ? 0 : (before + w.stride - 1) / w.stride, last = w.length - 1 + before;
        last = last < 0 ? -1 : last / w.stride;
        if (last >= window_positions(w)) last = window_positions(w) - 1;
        if (last >= first) pairs += (double)(last - first + 1);
    }
    return pairs;
}

void unfold_forward(Device *device, Tensor y, Tensor x, Window window) {
    check_unfold(device, "unfold_forward", "y", y, "x", x, window);
    DISPATCH(unfold_forward, 0, bytes_of(x) + bytes_of(y), device, y, x, window);
}

void unfold_backward(Device *device, Tensor dx, Tensor dy, Window window) {
    check_unfold(device, "unfold_backward", "dy", dy, "dx", dx, window);
    double columns = (double)tensor_numel(dx) / (double)window.length; /* of all sequences */
    DISPATCH(unfold_backward, columns * pairs_inside(window), bytes_of(dx) + bytes_of(dy), device, dx, dy, window);
}

int convolution_positions(Convolution c, int axis) {
    return (int)(((int64_t)c.in[axis] + 2 * (int64_t)c.padding[axis] - c.taps[axis]) / c.stride[axis]) + 1;
}

/* Dies unless `in` T [S in positions, C], `out` T [S out positions, O] and w T [O, C taps] fit together. Returns the
 * multiply-adds of one channel with another: pairs of a position and a tap that sees one of the sample, not padding. */
static double check_conv3d(const char *op, const char *out_name, Tensor out, Tensor in, DType type, Tensor w,
                           Convolution c) {
    int64_t rows = 1, positions = 1, taps = 1;
    double pairs = 1; /* in one sample */
    for (int i = 0; i < 3; i++) {
        if (c.in[i] <= 0 || c.taps[i] <= 0 || c.stride[i] <= 0 || c.padding[i] < 0 ||
            c.in[i] + 2 * (int64_t)c.padding[i] < c.taps[i])
            die("%s: %d taps, stride %d, padding %d have no position in %d along %c", op, c.taps[i], c.stride[i],
                c.padding[i], c.in[i], "thw"[i]);
        rows *= c.in[i], taps *= c.taps[i], positions *= convolution_positions(c, i);
        pairs *= pairs_inside((Window){c.in[i], c.taps[i], c.stride[i], c.padding[i]});
    }
    expect(op, "x", in, type, -1, -1);
    if (in.dims[0] % rows)
        die("%s: the %lld rows of x are no samples of %d x %d x %d", op, (long long)in.dims[0], c.in[0], c.in[1],
            c.in[2]);
    int64_t samples = in.dims[0] / rows;
    expect(op, out_name, out, type, samples * positions, -1);
    if (in.dims[1] == 0 || out.dims[1] == 0)
        die("%s: from %lld channels to %lld, expected at least one each", op, (long long)in.dims[1],
            (long long)out.dims[1]);
    expect(op, "w", w, type, out.dims[1], in.dims[1] * taps);
    return (double)samples * pairs * (double)in.dims[1] * (double)out.dims[1];
}

void conv3d_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, Convolution convolution) {
    const char *op = "conv3d_forward";
    double pairs = check_conv3d(op, "y", y, x, activation_type(device, op, "x", x), w, convolution);
    expect_optional(op, "bias", bias, x.dtype, y.dims[1], 0);
    DISPATCH(conv3d_forward, 2 * pairs + (tensor_given(bias) ? (double)tensor_numel(y) : 0),
             bytes_of(x) + bytes_of(y) + bytes_of(w) + bytes_of(bias), device, y, x, w, bias, convolution);
}

void conv3d_backward(Device *device, Tensor dx, Tensor dw, Tensor dbias, Tensor dy, Tensor x, Tensor w,
                     Convolution convolution, bool add_dx) {
    const char *op = "conv3d_backward";
    double pairs = check_conv3d(op, "dy", dy, x, activation_type(device, op, "x", x), w, convolution);
    expect_optional(op, "dx", dx, x.dtype, x.dims[0], x.dims[1]);
    expect(op, "dw", dw, DTYPE_F32, w.dims[0], w.dims[1]);
    expect_optional(op, "dbias", dbias, DTYPE_F32, dy.dims[1], 0);
    bool both = tensor_given(dx), added = both && add_dx, summed = tensor_given(dbias);
    double additions = (summed ? (double)tensor_numel(dy) : 0) + (added ? (double)tensor_numel(dx) : 0);
    DISPATCH(conv3d_backward, (both ? 4 : 2) * pairs + additions,
             bytes_of(dy) + bytes_of(x) + 2 * (bytes_of(dw) + bytes_of(dbias)) +
                 (both ? (added ? 2 : 1) * bytes_of(dx) + bytes_of(w) : 0),
             device, dx, dw, dbias, dy, x, w, convolution, add_dx);
}

/* Dies unless `whole` is T [S frames plane, C]. */
static void check_samples(const Device *device, const char *op, const char *name, Tensor whole, int64_t frames,
                          int64_t plane) {
    expect(op, name, whole, activation_type(device, op, name, whole), -1, -1);
    if (frames <= 0 || plane <= 0 || whole.dims[0] % (frames * plane))
        die("%s: the %lld rows of %s are no samples of %lld frames of %lld rows", op, (long long)whole.dims[0], name,
            (long long)frames, (long long)plane);
}

/* Dies unless `pooled` T [S frames / 2 plane, C] are the larger of pairs of frames of `whole` T [S frames plane, C]. */
static void check_pool(const Device *device, const char *op, const char *pooled_name, Tensor pooled, Tensor whole,
                       int64_t frames, int64_t plane) {
    check_samples(device, op, "x", whole, frames, plane);
    expect(op, pooled_name, pooled, whole.dtype, whole.dims[0] / (frames * plane) * (frames / 2) * plane,
           whole.dims[1]);
}

void max_pool_forward(Device *device, Tensor y, Tensor x, int64_t frames, int64_t plane) {
    check_pool(device, "max_pool_forward", "y", y, x, frames, plane);
    DISPATCH(max_pool_forward, (double)tensor_numel(y), 3 * bytes_of(y), device, y, x, frames, plane);
}

void max_pool_backward(Device *device, Tensor dx, Tensor dy, Tensor x, int64_t frames, int64_t plane) {
    check_pool(device, "max_pool_backward", "dy", dy, x, frames, plane);
    expect("max_pool_backward", "dx", dx, x.dtype, x.dims[0], x.dims[1]);
    DISPATCH(max_pool_backward, (double)tensor_numel(dy), 3 * bytes_of(dy) + bytes_of(dx), device, dx, dy, x, frames,
             plane);
}

static void check_batchnorm(const Device *device, const char *op, Tensor y, Tensor x, Tensor mean, Tensor variance,
                            const char *variance_name, Tensor gain) {
    expect(op, "x", x, activation_type(device, op, "x", x), -1, -1);
    expect(op, "y", y, x.dtype, x.dims[0], x.dims[1]);
    expect(op, "mean", mean, DTYPE_F32, x.dims[1], 0);
    expect(op, variance_name, variance, DTYPE_F32, x.dims[1], 0);
    expect(op, "gain", gain, DTYPE_F32, x.dims[1], 0);
}

static void check_statistics(const char *op, int64_t c, Tensor mean, Tensor rstd, Tensor running_mean,
                             Tensor running_var) {
    expect(op, "mean", mean, DTYPE_F32, c, 0);
    expect(op, "rstd", rstd, DTYPE_F32, c, 0);
    if (!tensor_given(running_mean) && !tensor_given(running_var)) return;
    expect(op, "running_mean", running_mean, DTYPE_F32, c, 0);
    expect(op, "running_var", running_var, DTYPE_F32, c, 0);
}

/* The variance of one row is zero, and there is no unbiased one. */
static void expect_two_rows(const char *op, Tensor x) {
    if (x.dims[0] < 2) die("%s: the batch has %lld rows, expected at least 2", op, (long long)x.dims[0]);
}

void batchnorm_forward(Device *device, Tensor y, Tensor mean, Tensor rstd, Tensor running_mean, Tensor running_var,
                       Tensor x, Tensor gain, Tensor bias, float momentum) {
    const char *op = "batchnorm_forward";
    check_batchnorm(device, op, y, x, mean, rstd, "rstd", gain);
    expect(op, "bias", bias, DTYPE_F32, x.dims[1], 0);
    expect_two_rows(op, x);
    check_statistics(op, x.dims[1], mean, rstd, running_mean, running_var);
    DISPATCH(batchnorm_forward, 7 * (double)tensor_numel(x),
             2 * bytes_of(x) + 4 * bytes_of(mean) + 4 * bytes_of(running_mean), device, y, mean, rstd, running_mean,
             running_var, x, gain, bias, momentum);
}

void batchnorm_apply(Device *device, Tensor y, Tensor x, Tensor running_mean, Tensor running_var, Tensor gain,
                     Tensor bias) {
    check_batchnorm(device, "batchnorm_apply", y, x, running_mean, running_var, "running_var", gain);
    expect("batchnorm_apply", "bias", bias, DTYPE_F32, x.dims[1], 0);
    DISPATCH(batchnorm_apply, 3 * (double)tensor_numel(x), 2 * bytes_of(x) + 4 * bytes_of(gain), device, y, x,
             running_mean, running_var, gain, bias);
}

void batchnorm_backward(Device *device, Tensor dx, Tensor dgain, Tensor dbias, Tensor dy, Tensor x, Tensor mean,
                        Tensor rstd, Tensor gain) {
    const char *op = "batchnorm_backward";
    check_batchnorm(device, op, dy, x, mean, rstd, "rstd", gain);
    expect(op, "dx", dx, x.dtype, x.dims[0], x.dims[1]);
    expect(op, "dgain", dgain, DTYPE_F32, x.dims[1], 0);
    expect(op, "dbias", dbias, DTYPE_F32, x.dims[1], 0);
    expect_two_rows(op, x);
    DISPATCH(batchnorm_backward, 10 * (double)tensor_numel(x), 3 * bytes_of(x) + 7 * bytes_of(gain), device, dx, dgain,
             dbias, dy, x, mean, rstd, gain);
}

void batchnorm_statistics(Device *device, Tensor mean, Tensor rstd, Tensor running_mean, Tensor running_var, Tensor x,
                          float momentum) {
    const char *op = "batchnorm_statistics";
    expect(op, "x", x, activation_type(device, op, "x", x), -1, -1);
    expect_two_rows(op, x);
    check_statistics(op, x.dims[1], mean, rstd, running_mean, running_var);
    DISPATCH(batchnorm_statistics, 4 * (double)tensor_numel(x),
             bytes_of(x) + 2 * bytes_of(mean) + 4 * bytes_of(running_mean), device, mean, rstd, running_mean,
             running_var, x, momentum);
}

void batchnorm_from_running(Device *device, Tensor rstd, Tensor running_var) {
    expect("batchnorm_from_running", "running_var", running_var, DTYPE_F32, -1, 0);
    expect("batchnorm_from_running", "rstd", rstd, DTYPE_F32, running_var.dims[0], 0);
    DISPATCH(batchnorm_from_running, 3 * (double)rstd.dims[0], 2 * bytes_of(rstd), device, rstd, running_var);
}

/* Dies unless all f32 [C] of a norm are there, or, if they may be absent, none of them. */
static void check_normed(const char *op, const char *const names[4], Normed in, bool optional) {
    const Tensor columns[] = {in.mean, in.rstd, in.gain, in.bias};
    for (int i = 0; i < 4; i++)
        if (!optional || tensor_given(in.mean)) {
            expect(op, names[i], columns[i], DTYPE_F32, in.x.dims[1], 0);
        } else if (tensor_given(columns[i])) {
            die("%s: there is %s, but no %s", op, names[i], names[0]);
        }
}

/* What a pass over the rows of a norm_activate_forward comes to. */
typedef struct {
    double used, sum, out; /* numbers that are read of each operand; FLOPs of their sum and behind it */
} NormCost;

/* `result` is y, or its gradient. The odd frame at the end of a sample, of which no pool knows, is not read. */
static NormCost check_norm_activate(const Device *device, const char *op, const char *result_name, Tensor result,
                                    Normed a, Normed b, NormActivation how) {
    static const char *const of_a[] = {"a.mean", "a.rstd", "a.gain", "a.bias"};
    static const char *const of_b[] = {"b.mean", "b.rstd", "b.gain", "b.bias"};
    check_samples(device, op, "a.x", a.x, how.frames, how.plane);
    check_normed(op, of_a, a, false);
    expect_optional(op, "b.x", b.x, a.x.dtype, a.x.dims[0], a.x.dims[1]);
    if (tensor_given(b.mean) && !tensor_given(b.x)) {
        char found[96];
        die("%s: b.mean is %s, but there is no b.x", op, tensor_shape_text(b.mean, found));
    }
    check_normed(op, of_b, b, true);
    expect_probability(op, how.drop);
    int64_t samples = a.x.dims[0] / (how.frames * how.plane), frames = how.pool ? how.frames / 2 : how.frames;
    expect(op, result_name, result, a.x.dtype, samples * frames * how.plane, a.x.dims[1]);
    double n = (double)tensor_numel(result), channels = (double)samples * (double)a.x.dims[1];
    NormCost cost = {.used = how.pool ? 2 * n : n};
    cost.sum = cost.used * (tensor_given(b.mean) ? 7 : tensor_given(b.x) ? 4 : 3);
    cost.out = (how.slope != 1 ? cost.used : 0) + (how.pool ? how.average ? 2 * n : n : 0) +
               (how.drop.p > 0 ? n + channels : 0);
    return cost;
}

void norm_activate_forward(Device *device, Tensor y, Normed a, Normed b, NormActivation activation) {
    NormCost cost = check_norm_activate(device, "norm_activate_forward", "y", y, a, b, activation);
    double operands = tensor_given(b.x) ? 2 : 1;
    DISPATCH(norm_activate_forward, cost.sum + cost.out,
             operands * cost.used * (double)dtype_size(y.dtype) + bytes_of(y) + 4 * bytes_of(a.mean) +
                 4 * bytes_of(b.mean),
             device, y, a, b, activation);
}

/* The sum is found again where a sign or a choice depends on it. Of a norm: centers, dots and sums (of which two share
 * one) of the rows used, then five operations for each number's gradient. */
void norm_activate_backward(Device *device, Tensor da, Tensor dgain_a, Tensor dbias_a, Tensor db, Tensor dgain_b,
                            Tensor dbias_b, Tensor dy, Normed a, Normed b, NormActivation activation) {
    const char *op = "norm_activate_backward";
    NormCost cost = check_norm_activate(device, op, "dy", dy, a, b, activation);
    int64_t rows = a.x.dims[0], c = a.x.dims[1];
    bool both = tensor_given(b.x), norms = tensor_given(b.mean);
    expect_two_rows(op, a.x);
    expect(op, "da", da, a.x.dtype, rows, c);
    expect(op, "dgain_a", dgain_a, DTYPE_F32, c, 0);
    expect(op, "dbias_a", dbias_a, DTYPE_F32, c, 0);
    if (both) expect(op, "db", db, a.x.dtype, rows, c);
    if (norms) expect(op, "dgain_b", dgain_b, DTYPE_F32, c, 0);
    if (norms) expect(op, "dbias_b", dbias_b, DTYPE_F32, c, 0);
    bool decides = activation.slope != 1 || (activation.pool && !activation.average);
    double n = (double)tensor_numel(a.x), norm = 5 * n + 3 * cost.used;
    DISPATCH(norm_activate_backward, (decides ? cost.sum : 0) + cost.out + cost.used + (norms ? 2 : 1) * norm,
             bytes_of(dy) + bytes_of(a.x) + bytes_of(da) + 8 * bytes_of(a.mean) + 8 * bytes_of(b.mean) +
                 (norms  ? bytes_of(b.x)
                  : both ? cost.used * (double)dtype_size(dy.dtype)
                         : 0) +
                 (both ? bytes_of(db) : 0),
             device, da, dgain_a, dbias_a, db, dgain_b, dbias_b, dy, a, b, activation);
}

int64_t stem_frames(Stem stem) { return (stem.frames + 1) / 2; }

static void expect_channels(const char *op, const char *what, int64_t channels) {
    if (channels < 8 || channels > STEM_MOST || channels % 8)
        die("%s: %lld %s, expected a multiple of 8 from 8 to %d", op, (long long)channels, what, (int)STEM_MOST);
}

static void expect_alignment(const char *op, const char *name, Tensor t, int bytes) {
    if ((uintptr_t)t.data % (uintptr_t)bytes)
        die("%s: %s begins at %p, expected a multiple of %d bytes", op, name, t.data, bytes);
}

/* Returns how many products of a number and a weight the first layer has, those of padding not counted. */
static double check_stem(const Device *device, const char *op, Tensor x, Tensor w, Tensor mean, Tensor rstd,
                         Stem stem) {
    check_samples(device, op, "x", x, stem.frames, stem.plane);
    expect(op, "x", x, x.dtype, -1, STEM_INPUTS);
    expect(op, "w", w, x.dtype, -1, STEM_WINDOW);
    expect_channels(op, "channels between the layers", w.dims[0]);
    expect(op, "mean", mean, DTYPE_F32, w.dims[0], 0);
    expect(op, "rstd", rstd, DTYPE_F32, w.dims[0], 0);
    expect_alignment(op, "x", x, 8);
    int64_t columns = x.dims[0] / stem.frames;
    return (double)columns * (double)w.dims[0] * STEM_INPUTS *
           pairs_inside((Window){stem.frames, STEM_TAPS, 1, STEM_TAPS / 2});
}

/* The same of the second layer. */
static double check_stem_output(const char *op, const char *y_name, Tensor y, Tensor x, Tensor gain, Tensor bias,
                                Tensor w2, Stem stem) {
    int64_t channels = gain.dims[0];
    int64_t columns = x.dims[0] / stem.frames;
    expect(op, y_name, y, x.dtype, columns * stem_frames(stem), -1);
    expect_channels(op, "channels behind the layers", y.dims[1]);
    expect(op, "bias", bias, DTYPE_F32, channels, 0);
    expect(op, "w2", w2, x.dtype, y.dims[1], channels * STEM_HALVING_TAPS);
    expect_alignment(op, y_name, y, 16);
    return (double)columns * (double)channels * (double)y.dims[1] *
           pairs_inside((Window){stem.frames, STEM_HALVING_TAPS, 2, 1});
}

/* Of a window: 14 sums and the 105 different products; of a channel: w . mu, w' Sigma w, a root and a reciprocal.
 */
void stem_statistics(Device *device, Tensor mean, Tensor rstd, Tensor moments, Tensor running_mean, Tensor running_var,
                     Tensor x, Tensor w, Stem stem, float momentum) {
    const char *op = "stem_statistics";
    check_stem(device, op, x, w, mean, rstd, stem);
    expect(op, "moments", moments, DTYPE_F32, STEM_MOMENTS, 0);
    expect_alignment(op, "moments", moments, 8);
    expect_two_rows(op, x);
    check_statistics(op, w.dims[0], mean, rstd, running_mean, running_var);
    double n = STEM_WINDOW, window = n + n * (n + 1), channel = 2 * n + 2 * n * (n + 1) + 2;
    DISPATCH(stem_statistics, (double)x.dims[0] * window + (double)w.dims[0] * channel,
             bytes_of(x) + bytes_of(w) + bytes_of(moments) + 2 * bytes_of(mean) + 4 * bytes_of(running_mean), device,
             mean, rstd, moments, running_mean, running_var, x, w, stem, momentum);
}

/* Between the layers three FLOPs for the norm and one for the leaky ReLU, as when they are alone. */
void stem_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor mean, Tensor rstd, Tensor gain, Tensor bias,
                  Tensor w2, Stem stem) {
    const char *op = "stem_forward";
    double first = check_stem(device, op, x, w, mean, rstd, stem), between = (double)x.dims[0] * (double)w.dims[0];
    expect(op, "gain", gain, DTYPE_F32, w.dims[0], 0);
    double second = check_stem_output(op, "y", y, x, gain, bias, w2, stem);
    DISPATCH(stem_forward, 2 * first + 4 * between + 2 * second,
             bytes_of(x) + bytes_of(y) + bytes_of(w) + bytes_of(w2) + 4 * bytes_of(gain), device, y, x, w, mean, rstd,
             gain, bias, w2, stem);
}

/* The first layer again with its norm, its slope and the gradient's product with it; dw2; the gradient's products
 * with windows, and its sum; and of a channel Sigma w, w . S and 8 for each weight. */
void stem_backward(Device *device, Tensor dw, Tensor dgain, Tensor dbias, Tensor dw2, Tensor dy, Tensor x, Tensor w,
                   Tensor mean, Tensor rstd, Tensor gain, Tensor bias, Tensor w2, Tensor moments, Stem stem) {
    const char *op = "stem_backward";
    double first = check_stem(device, op, x, w, mean, rstd, stem), between = (double)x.dims[0] * (double)w.dims[0];
    expect(op, "gain", gain, DTYPE_F32, w.dims[0], 0);
    double second = check_stem_output(op, "dy", dy, x, gain, bias, w2, stem);
    expect(op, "dw", dw, DTYPE_F32, w.dims[0], w.dims[1]);
    expect(op, "dgain", dgain, DTYPE_F32, w.dims[0], 0);
    expect(op, "dbias", dbias, DTYPE_F32, w.dims[0], 0);
    expect(op, "dw2", dw2, DTYPE_F32, w2.dims[0], w2.dims[1]);
    expect(op, "moments", moments, DTYPE_F32, STEM_MOMENTS, 0);
    expect_alignment(op, "moments", moments, 8);
    expect_two_rows(op, x);
    double n = STEM_WINDOW, channel = 2 * n * n + 2 * n + 8 * n;
    DISPATCH(stem_backward, 4 * first + 4 * second + 6 * between + (double)w.dims[0] * channel,
             bytes_of(dy) + bytes_of(x) + bytes_of(w) + bytes_of(w2) + bytes_of(moments) + 8 * bytes_of(gain) +
                 2 * (bytes_of(dw) + bytes_of(dw2)),
             device, dw, dgain, dbias, dw2, dy, x, w, mean, rstd, gain, bias, w2, moments, stem);
}

static void check_mean_rows(const Device *device, const char *op, const char *mean_name, Tensor mean,
                            const char *whole_name, Tensor whole, int64_t length) {
    expect(op, whole_name, whole, activation_type(device, op, whole_name, whole), -1, -1);
    int64_t sequences = length > 0 ? whole.dims[0] / length : 0;
    if (sequences * length != whole.dims[0] || length <= 0)
        die("%s: the %lld rows of %s are no sequences of %lld", op, (long long)whole.dims[0], whole_name,
            (long long)length);
    expect(op, mean_name, mean, whole.dtype, sequences, whole.dims[1]);
}

void mean_rows_forward(Device *device, Tensor y, Tensor x, int64_t length) {
    check_mean_rows(device, "mean_rows_forward", "y", y, "x", x, length);
    DISPATCH(mean_rows_forward, (double)tensor_numel(x), bytes_of(x) + bytes_of(y), device, y, x, length);
}

void mean_rows_backward(Device *device, Tensor dx, Tensor dy, int64_t length) {
    check_mean_rows(device, "mean_rows_backward", "dy", dy, "dx", dx, length);
    DISPATCH(mean_rows_backward, (double)tensor_numel(dy), bytes_of(dx) + bytes_of(dy), device, dx, dy, length);
}

static void check_cross_entropy(const Device *device, const char *op, Tensor loss, Tensor correct, Tensor logits,
                                Tensor targets, Tensor weights) {
    expect(op, "logits", logits, activation_type(device, op, "logits", logits), -1, -1);
    expect(op, "loss", loss, DTYPE_F32, logits.dims[0], 0);
    expect(op, "correct", correct, DTYPE_F32, logits.dims[0], 0);
    expect(op, "targets", targets, DTYPE_I32, logits.dims[0], 0);
    expect_optional(op, "weights", weights, DTYPE_F32, logits.dims[0], 0);
}

void cross_entropy_forward(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets, Tensor weights) {
    check_cross_entropy(device, "cross_entropy_forward", loss, correct, logits, targets, weights);
    DISPATCH(cross_entropy_forward, 4 * (double)tensor_numel(logits) + (double)tensor_numel(weights),
             bytes_of(logits) + 3 * bytes_of(loss) + bytes_of(weights), device, loss, correct, logits, targets,
             weights);
}

void cross_entropy_forward_backward(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets,
                                    Tensor weights, Tensor scale, Tensor loss_scale) {
    check_cross_entropy(device, "cross_entropy_forward_backward", loss, correct, logits, targets, weights);
    expect("cross_entropy_forward_backward", "scale", scale, DTYPE_F32, 1, 0);
    expect_loss_scale("cross_entropy_forward_backward", loss_scale);
    DISPATCH(cross_entropy_forward_backward, 5 * (double)tensor_numel(logits) + 2 * (double)tensor_numel(weights),
             2 * bytes_of(logits) + 3 * bytes_of(loss) + bytes_of(weights), device, loss, correct, logits, targets,
             weights, scale, loss_scale);
}

static void check_squared_error(const Device *device, const char *op, Tensor loss, Tensor y, Tensor targets) {
    expect(op, "y", y, activation_type(device, op, "y", y), -1, -1);
    expect(op, "loss", loss, DTYPE_F32, y.dims[0], 0);
    expect(op, "targets", targets, DTYPE_F32, y.dims[0], y.dims[1]);
}

void squared_error_forward(Device *device, Tensor loss, Tensor y, Tensor targets) {
    check_squared_error(device, "squared_error_forward", loss, y, targets);
    DISPATCH(squared_error_forward, 3 * (double)tensor_numel(y), bytes_of(y) + bytes_of(targets) + bytes_of(loss),
             device, loss, y, targets);
}

void squared_error_forward_backward(Device *device, Tensor loss, Tensor y, Tensor targets, Tensor scale,
                                    Tensor loss_scale) {
    const char *op = "squared_error_forward_backward";
    check_squared_error(device, op, loss, y, targets);
    expect(op, "scale", scale, DTYPE_F32, 1, 0);
    expect_loss_scale(op, loss_scale);
    DISPATCH(squared_error_forward_backward, 4 * (double)tensor_numel(y),
             2 * bytes_of(y) + bytes_of(targets) + bytes_of(loss), device, loss, y, targets, scale, loss_scale);
}

static void check_binary_cross_entropy(const Device *device, const char *op, Tensor loss, Tensor correct, Tensor logits,
                                       Tensor targets, Tensor labels) {
    expect(op, "logits", logits, activation_type(device, op, "logits", logits), -1, 1);
    expect(op, "loss", loss, DTYPE_F32, logits.dims[0], 0);
    expect(op, "correct", correct, DTYPE_F32, logits.dims[0], 0);
    expect(op, "targets", targets, DTYPE_F32, logits.dims[0], 0);
    expect(op, "labels", labels, DTYPE_F32, logits.dims[0], 0);
}

/* Of a row: the target's distance, product, exponential, logarithm, sum. */
void binary_cross_entropy_forward(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets,
                                  Tensor labels) {
    check_binary_cross_entropy(device, "binary_cross_entropy_forward", loss, correct, logits, targets, labels);
    DISPATCH(binary_cross_entropy_forward, 5 * (double)logits.dims[0], bytes_of(logits) + 4 * bytes_of(loss), device,
             loss, correct, logits, targets, labels);
}

/* And sum, quotient, sum, factor of the gradient. */
void binary_cross_entropy_forward_backward(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets,
                                           Tensor labels, Tensor scale, Tensor loss_scale) {
    const char *op = "binary_cross_entropy_forward_backward";
    check_binary_cross_entropy(device, op, loss, correct, logits, targets, labels);
    expect(op, "scale", scale, DTYPE_F32, 1, 0);
    expect_loss_scale(op, loss_scale);
    DISPATCH(binary_cross_entropy_forward_backward, 9 * (double)logits.dims[0],
             2 * bytes_of(logits) + 4 * bytes_of(loss), device, loss, correct, logits, targets, labels, scale,
             loss_scale);
}

static void check_normalize_rows(const Device *device, const char *op, Tensor x, Tensor y, Tensor norm) {
    expect(op, "x", x, activation_type(device, op, "x", x), -1, -1);
    expect(op, "y", y, DTYPE_F32, x.dims[0], x.dims[1]);
    expect(op, "norm", norm, DTYPE_F32, x.dims[0], 0);
}

/* A root and a reciprocal a row. */
void normalize_rows_forward(Device *device, Tensor y, Tensor norm, Tensor x) {
    check_normalize_rows(device, "normalize_rows_forward", x, y, norm);
    DISPATCH(normalize_rows_forward, 3 * (double)tensor_numel(x) + 2 * (double)x.dims[0],
             bytes_of(x) + bytes_of(y) + bytes_of(norm), device, y, norm, x);
}

void normalize_rows_backward(Device *device, Tensor dx, Tensor dy, Tensor y, Tensor norm) {
    check_normalize_rows(device, "normalize_rows_backward", dx, y, norm);
    expect("normalize_rows_backward", "dy", dy, DTYPE_F32, dx.dims[0], dx.dims[1]);
    DISPATCH(normalize_rows_backward, 5 * (double)tensor_numel(dx) + (double)dx.dims[0],
             bytes_of(dx) + bytes_of(dy) + bytes_of(y) + bytes_of(norm), device, dx, dy, y, norm);
}

/* Returns the number of pairs of a row and another. */
static double check_nt_xent(const char *op, Tensor z, Tensor lse, float temperature) {
    expect(op, "z", z, DTYPE_F32, -1, -1);
    expect(op, "lse", lse, DTYPE_F32, z.dims[0], 0);
    if (z.dims[0] % 2) die("%s: z has %lld rows, expected two of each sample", op, (long long)z.dims[0]);
    if (!(temperature > 0)) die("%s: the temperature is %g, expected more than 0", op, (double)temperature);
    double n = (double)z.dims[0];
    return n > 0 ? n * (n - 1) : 0;
}

void nt_xent_forward(Device *device, Tensor loss, Tensor lse, Tensor z, float temperature) {
    double pairs = check_nt_xent("nt_xent_forward", z, lse, temperature), c = (double)z.dims[1];
    expect("nt_xent_forward", "loss", loss, DTYPE_F32, z.dims[0], 0);
    /* Of a pair: the product; temperature, maximum, exponential, sum. Of a row: logarithm, maximum, partner. */
    DISPATCH(nt_xent_forward, pairs * (2 * c + 4) + 3 * (double)z.dims[0], bytes_of(z) + 2 * bytes_of(loss), device,
             loss, lse, z, temperature);
}

void nt_xent_backward(Device *device, Tensor dz, Tensor z, Tensor lse, float temperature, Tensor scale,
                      Tensor loss_scale) {
    const char *op = "nt_xent_backward";
    double pairs = check_nt_xent(op, z, lse, temperature), c = (double)z.dims[1];
    expect(op, "dz", dz, DTYPE_F32, z.dims[0], z.dims[1]);
    expect(op, "scale", scale, DTYPE_F32, 1, 0);
    expect_loss_scale(op, loss_scale);
    /* Of a pair: the product again and the sum; temperature, two exponents, their exponentials and sum. */
    DISPATCH(nt_xent_backward, pairs * (4 * c + 6) + (double)tensor_numel(z), 2 * bytes_of(z) + bytes_of(lse), device,
             dz, z, lse, temperature, scale, loss_scale);
}

void sum_forward(Device *device, Tensor out, Tensor x) {
    expect("sum_forward", "out", out, DTYPE_F32, 1, 0);
    expect("sum_forward", "x", x, DTYPE_F32, -1, 0);
    DISPATCH(sum_forward, (double)tensor_numel(x), bytes_of(x) + 4, device, out, x);
}

static double segment_elements(const char *op, Tensor grads, const Segment *segments, int n_segments) {
    double n = 0;
    for (int i = 0; i < n_segments; i++) {
        if (segments[i].begin < 0 || segments[i].begin > segments[i].end || segments[i].end > grads.dims[0])
            die("%s: segment %d is %lld .. %lld, the buffer has %lld elements", op, i, (long long)segments[i].begin,
                (long long)segments[i].end, (long long)grads.dims[0]);
        n += (double)(segments[i].end - segments[i].begin);
    }
    return n;
}

void global_norm(Device *device, Tensor norm, Tensor grads, Tensor loss_scale, const Segment *segments,
                 int n_segments) {
    expect("global_norm", "norm", norm, DTYPE_F32, 1, 0);
    expect("global_norm", "grads", grads, DTYPE_F32, -1, 0);
    expect_loss_scale("global_norm", loss_scale);
    double n = segment_elements("global_norm", grads, segments, n_segments);
    DISPATCH(global_norm, 2 * n, 4 * n + 4, device, norm, grads, loss_scale, segments, n_segments);
}

void adamw_update(Device *device, Tensor params, Tensor copy, Tensor m, Tensor v, Tensor grads, Tensor norm,
                  Tensor loss_scale, const Segment *segments, int n_segments, AdamW options) {
    const char *op = "adamw_update";
    expect(op, "params", params, DTYPE_F32, -1, 0);
    expect_optional(op, "copy", copy, activation_type(device, op, "copy", copy), params.dims[0], 0);
    expect(op, "m", m, DTYPE_F32, params.dims[0], 0);
    expect(op, "v", v, DTYPE_F32, params.dims[0], 0);
    expect(op, "grads", grads, DTYPE_F32, params.dims[0], 0);
    expect(op, "norm", norm, DTYPE_F32, 1, 0);
    expect_loss_scale(op, loss_scale);
    double n = segment_elements(op, grads, segments, n_segments), bytes = tensor_given(copy) ? 30 : 28;
    DISPATCH(adamw_update, 14 * n, bytes * n + 4, device, params, copy, m, v, grads, norm, loss_scale, segments,
             n_segments, options);
}

void loss_scale_update(Device *device, Tensor loss_scale, Tensor norm, Tensor stopped) {
    const char *op = "loss_scale_update";
    expect(op, "loss_scale", loss_scale, DTYPE_F32, LOSS_SCALE_FIELDS, 0);
    expect(op, "norm", norm, DTYPE_F32, 1, 0);
    expect_optional(op, "stopped", stopped, DTYPE_F32, 1, 0);
    DISPATCH(loss_scale_update, 0, 2 * bytes_of(loss_scale) + 4 + bytes_of(stopped), device, loss_scale, norm, stopped);
}

void norm_guard(Device *device, Tensor norm, Tensor stopped, Tensor sums, bool overflow_is_fine) {
    expect("norm_guard", "norm", norm, DTYPE_F32, 1, 0);
    expect_optional("norm_guard", "stopped", stopped, DTYPE_F32, 1, 0);
    expect("norm_guard", "sums", sums, DTYPE_F32, -1, 0);
    DISPATCH(norm_guard, 0, 8 + 2 * bytes_of(stopped) + bytes_of(sums), device, norm, stopped, sums, overflow_is_fine);
}

void copy_segments(Device *device, Tensor to, Tensor from, Tensor norm, const Segment *segments, int n_segments) {
    expect("copy_segments", "to", to, DTYPE_F32, -1, 0);
    expect("copy_segments", "from", from, DTYPE_F32, to.dims[0], 0);
    expect_optional("copy_segments", "norm", norm, DTYPE_F32, 1, 0);
    double n = segment_elements("copy_segments", to, segments, n_segments);
    DISPATCH(copy_segments, 0, 8 * n + bytes_of(norm), device, to, from, norm, segments, n_segments);
}
