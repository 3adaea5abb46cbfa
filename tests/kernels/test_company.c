/* The forward of a row, a sequence or a sample gives the same bits in any company, and so does the gradient of a linear
 * layer's input: on every instruction set of the processor. `make check-instruction-sets` also limits oneDNN's. */
#include "tests/kernels/ops_rig.h"

/* Returns rows [first, first + n) of t, in memory of their own. */
static Tensor some_rows(Rig *rig, Tensor t, int64_t first, int64_t n) {
    Tensor rows = poisoned(rig, n, t.dims[1]);
    memcpy(rows.data, tensor_rows(t, first, n).data, tensor_bytes(rows));
    return rows;
}

typedef struct {
    Tensor x, w, bias, dy, y, dx;
    WeightLayout layout;
} Linear;

static void run_linear(Rig *rig, Linear *l) {
    int64_t n = l->x.dims[0];
    Tensor dw = tensor(rig, DTYPE_F32, l->w.dims[0], l->w.dims[1]);
    l->y = poisoned(rig, n, l->dy.dims[1]), l->dx = poisoned(rig, n, l->x.dims[1]);
    linear_forward(rig->device, l->y, l->x, l->w, l->bias, l->layout);
    linear_backward(rig->device, (LayerGradients){.dx = l->dx, .dw = dw}, l->dy, l->x, l->w, l->layout);
}

/* All rows together, then only those from `first` on, as many as a loop of few rows, a GEMM's tile and its rest take.
 */
static void check_linear_rows(Rig *rig, int64_t in, int64_t out, WeightLayout layout, bool with_bias) {
    static const int64_t counts[] = {1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15, 20, 25, 27, 49, 60, 75, 97, 127};
    const int64_t n = 130;
    Linear all = {.x = normal(rig, n, in),
                  .w = layout == WEIGHT_IN_OUT ? normal(rig, in, out) : normal(rig, out, in),
                  .bias = with_bias ? normal(rig, out, 0) : tensor_none(),
                  .dy = normal(rig, n, out),
                  .layout = layout};
    run_linear(rig, &all);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        Linear some = all;
        int64_t first = n - counts[i], count = counts[i];
        some.x = some_rows(rig, all.x, first, count), some.dy = some_rows(rig, all.dy, first, count);
        run_linear(rig, &some);
        expect_same(rig, "y of some rows", some.y, tensor_rows(all.y, first, count));
        expect_same(rig, "dx of some rows", some.dx, tensor_rows(all.dx, first, count));
    }
}

static void check_rows_of_a_linear_layer_do_not_depend_on_each_other(Rig *rig) {
    static const int64_t sizes[][2] = {{7, 5}, {16, 96}, {64, 33}, {255, 2}, {300, 131}, {530, 257}};
    for (int i = 0; i < 6; i++)
        for (int layout = 0; layout < 2; layout++)
            check_linear_rows(rig, sizes[i][0], sizes[i][1], (WeightLayout)layout, (i + layout) & 1);
}

/* So many rows that the product is divided, and the last tile has one row. */
static void check_the_last_row_of_many_is_that_of_few(Rig *rig) {
    for (int64_t n = 3841; n < 3848; n += 3) {
        Linear all = {.x = normal(rig, n, 40), .w = normal(rig, 24, 40), .dy = normal(rig, n, 24)}, some = all;
        all.layout = some.layout = WEIGHT_OUT_IN;
        some.x = some_rows(rig, all.x, n - 9, 9), some.dy = some_rows(rig, all.dy, n - 9, 9);
        run_linear(rig, &all);
        run_linear(rig, &some);
        expect_same(rig, "y", some.y, tensor_rows(all.y, n - 9, 9));
        expect_same(rig, "dx", some.dx, tensor_rows(all.dx, n - 9, 9));
    }
}

/* ---- sequences ---- */

typedef struct {
    Tensor qkv, dout, out, lse, dqkv;
} Attended;

static void run_attention(Rig *rig, Attended *a, Sequences sequences, Attention attention) {
    int64_t n = a->qkv.dims[0], channels = a->dout.dims[1];
    a->out = poisoned(rig, n, channels), a->lse = poisoned(rig, attention.n_heads, n);
    a->dqkv = poisoned(rig, n, 3 * channels);
    attention_forward(rig->device, a->out, a->lse, a->qkv, sequences, attention, dropout_of(0));
    attention_backward(rig->device, a->dqkv, a->dout,
                       (AttentionActivations){.qkv = a->qkv, .out = a->out, .lse = a->lse}, sequences, attention,
                       dropout_of(0));
}

/* The backward of a sequence of several blocks may be divided otherwise beside others: it is left out. */
static void check_sequences(Rig *rig, int heads, int size, bool causal) {
    enum { COUNT = 7, BLOCK_ROWS = 64 };
    const int lengths[COUNT] = {5, 16, 130, 1, 0, 40, 67};
    Sequences sequences = packed(rig, lengths, COUNT);
    int64_t n = sequences.host_offsets[COUNT];
    Attention attention = {heads, causal, 1 / sqrtf((float)size)};
    Attended all = {.qkv = normal(rig, n, 3 * heads * size), .dout = normal(rig, n, heads * size)};
    run_attention(rig, &all, sequences, attention);
    for (int s = 0; s < COUNT; s++) {
        if (!lengths[s]) continue;
        int64_t first = sequences.host_offsets[s], length = lengths[s];
        Attended alone = {.qkv = some_rows(rig, all.qkv, first, length),
                          .dout = some_rows(rig, all.dout, first, length)};
        run_attention(rig, &alone, packed(rig, &lengths[s], 1), attention);
        expect_same(rig, "out of a sequence alone", alone.out, tensor_rows(all.out, first, length));
        for (int head = 0; head < heads; head++)
            assert_memory_equal(floats(alone.lse) + head * length, floats(all.lse) + head * n + first,
                                (size_t)length * sizeof(float));
        if (length <= BLOCK_ROWS)
            expect_same(rig, "dqkv of a sequence alone", alone.dqkv, tensor_rows(all.dqkv, first, length));
    }
}

static void check_sequences_do_not_depend_on_each_other(Rig *rig) {
    for (int causal = 0; causal < 2; causal++) {
        check_sequences(rig, 2, 32, causal); /* short sequences have loops of their own */
        check_sequences(rig, 3, 20, causal);
    }
}

static void check_sequences_of_a_depthwise_convolution_do_not_depend_on_each_other(Rig *rig) {
    enum { COUNT = 6 };
    const int lengths[COUNT] = {3, 150, 0, 1, 64, 29};
    const DepthwiseWindow windows[] = {{31, 30, 1}, {15, 7, 1}, {4, 5, 3}};
    const int64_t c = 77;
    Sequences sequences = packed(rig, lengths, COUNT);
    Tensor x = normal(rig, sequences.host_offsets[COUNT], c), bias = normal(rig, c, 0);
    for (int i = 0; i < 3; i++) {
        Tensor w = normal(rig, c, windows[i].taps), y = poisoned(rig, x.dims[0], c);
        depthwise_forward(rig->device, y, x, w, bias, sequences, windows[i]);
        for (int s = 0; s < COUNT; s++) {
            int64_t first = sequences.host_offsets[s], length = lengths[s];
            if (!length) continue;
            Tensor own = poisoned(rig, length, c);
            depthwise_forward(rig->device, own, some_rows(rig, x, first, length), w, bias, packed(rig, &lengths[s], 1),
                              windows[i]);
            expect_same(rig, "y of a sequence alone", own, tensor_rows(y, first, length));
        }
    }
}

static void check_sequences_with_terms_do_not_depend_on_each_other(Rig *rig) {
    enum { COUNT = 7, HEADS = 2, SIZE = 20, C = HEADS * SIZE };
    const int lengths[COUNT] = {5, 16, 130, 1, 0, 300, 67}, hidden[COUNT] = {1, 0, 1, 0, 0, 1, 0};
    Sequences sequences = packed(rig, lengths, COUNT);
    int64_t n = sequences.host_offsets[COUNT];
    Tensor qkv = normal(rig, n, 3 * C), out = poisoned(rig, n, C);
    Attention attention = {HEADS, false, 1 / sqrtf((float)SIZE)};
    AttentionTerms terms = {normal(rig, 73, SIZE), 64, 8, normal(rig, n, HEADS), tensor(rig, DTYPE_I32, COUNT, 0)};
    memcpy(terms.hidden.data, hidden, sizeof hidden);
    attention_terms_forward(rig->device, out, qkv, sequences, attention, terms);
    for (int s = 0; s < COUNT; s++) {
        if (!lengths[s]) continue;
        int64_t first = sequences.host_offsets[s], length = lengths[s];
        Tensor alone = poisoned(rig, length, C);
        AttentionTerms own = terms;
        own.key_terms = some_rows(rig, terms.key_terms, first, length);
        own.hidden = tensor_rows(terms.hidden, s, 1);
        attention_terms_forward(rig->device, alone, some_rows(rig, qkv, first, length), packed(rig, &lengths[s], 1),
                                attention, own);
        expect_same(rig, "out of a sequence alone", alone, tensor_rows(out, first, length));
    }
}

/* ---- samples ---- */

static void check_samples_of_a_convolution_do_not_depend_on_each_other(Rig *rig) {
    const int64_t samples = 5, in = 3, out = 20;
    const Convolution c = {{19, 5, 4}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}};
    int64_t of_x = 19 * 5 * 4, of_y = of_x;
    Tensor x = normal(rig, samples * of_x, in), w = normal(rig, out, in * 27), bias = normal(rig, out, 0);
    Tensor dy = normal(rig, samples * of_y, out), y = poisoned(rig, samples * of_y, out);
    Tensor dx = poisoned(rig, samples * of_x, in), dw = tensor(rig, DTYPE_F32, out, in * 27);
    conv3d_forward(rig->device, y, x, w, bias, c);
    conv3d_backward(rig->device, (LayerGradients){.dx = dx, .dw = dw}, dy, x, w, c, false);
    for (int64_t s = 0; s < samples; s++) {
        Tensor own_x = some_rows(rig, x, s * of_x, of_x), own_dy = some_rows(rig, dy, s * of_y, of_y);
        Tensor own_y = poisoned(rig, of_y, out), own_dx = poisoned(rig, of_x, in);
        conv3d_forward(rig->device, own_y, own_x, w, bias, c);
        conv3d_backward(rig->device, (LayerGradients){.dx = own_dx, .dw = dw}, own_dy, own_x, w, c, false);
        expect_same(rig, "y of a sample alone", own_y, tensor_rows(y, s * of_y, of_y));
        expect_same(rig, "dx of a sample alone", own_dx, tensor_rows(dx, s * of_x, of_x));
    }
}

static void check_samples_of_the_stem_do_not_depend_on_each_other(Rig *rig) {
    const int64_t samples = 4, c = 16, o = 8;
    const Stem stem = {21, 6, 0.1f};
    int64_t of_x = 21 * 6, of_y = stem_frames(stem) * 6;
    Tensor x = normal(rig, samples * of_x, STEM_INPUTS), y = poisoned(rig, samples * of_y, o);
    StemWeights w = {.w = normal(rig, c, STEM_WINDOW),
                     .mean = normal(rig, c, 0),
                     .rstd = normal(rig, c, 0),
                     .gain = normal(rig, c, 0),
                     .bias = normal(rig, c, 0),
                     .w2 = normal(rig, o, 3 * c)};
    stem_forward(rig->device, y, x, w, stem);
    for (int64_t s = 0; s < samples; s++) {
        Tensor own = poisoned(rig, of_y, o);
        stem_forward(rig->device, own, some_rows(rig, x, s * of_x, of_x), w, stem);
        expect_same(rig, "y of a sample alone", own, tensor_rows(y, s * of_y, of_y));
    }
}

/* ---- elements and rows of other operations ---- */

typedef struct {
    Tensor normed, mean, rstd, gelu, tanh, hidden, activated, loss, silu, glu, geglu, correct;
} Rows;

static Rows run_rows(Rig *rig, Tensor x, Tensor w, Tensor gain, Tensor targets) {
    int64_t n = x.dims[0], c = x.dims[1], out = w.dims[0];
    Rows r = {poisoned(rig, n, c), poisoned(rig, n, 0),     poisoned(rig, n, 0),     poisoned(rig, n, c),
              poisoned(rig, n, c), poisoned(rig, n, out),   poisoned(rig, n, out),   poisoned(rig, n, 0),
              poisoned(rig, n, c), poisoned(rig, n, c / 2), poisoned(rig, n, c / 2), poisoned(rig, n, 0)};
    layernorm_forward(rig->device, (LayerNormOutput){r.normed, r.mean, r.rstd}, x, gain, tensor_none(),
                      LAYERNORM_EPSILON);
    gelu_forward(rig->device, r.gelu, x, GELU_ERF);
    tanh_forward(rig->device, r.tanh, x);
    linear_gelu_forward(rig->device, r.activated, r.hidden, x, w, tensor_none(), WEIGHT_OUT_IN,
                        (GeluDropout){.kind = GELU_TANH});
    cross_entropy_forward(rig->device, r.loss, r.correct, x, x.dims[1], targets, tensor_none());
    silu_forward(rig->device, r.silu, x);
    gate_forward(rig->device, r.glu, x, GATE_SIGMOID);
    gate_forward(rig->device, r.geglu, x, GATE_GELU);
    return r;
}

static void check_rows_of_other_operations_do_not_depend_on_each_other(Rig *rig) {
    const int64_t n = 23, c = 78;
    Tensor x = normal(rig, n, c), w = normal(rig, 13, c), gain = normal(rig, c, 0),
           targets = below(rig, n, (uint32_t)c);
    Rows all = run_rows(rig, x, w, gain, targets);
    for (int64_t count = 1; count < 8; count += 2) {
        int64_t first = n - count;
        Rows some = run_rows(rig, some_rows(rig, x, first, count), w, gain, tensor_rows(targets, first, count));
        const Tensor got[] = {some.normed,    some.mean, some.rstd, some.gelu, some.tanh, some.hidden,
                              some.activated, some.loss, some.silu, some.glu,  some.geglu},
                     want[] = {all.normed,    all.mean, all.rstd, all.gelu, all.tanh, all.hidden,
                               all.activated, all.loss, all.silu, all.glu,  all.geglu};
        for (int i = 0; i < 11; i++) expect_same(rig, "some rows", got[i], tensor_rows(want[i], first, count));
    }
}

static void check_directions_do_not_depend_on_each_other(Rig *rig) {
    const int64_t n = 23, k = 300, d = 8;
    Tensor x = normal(rig, n, d), table = normal(rig, k, d), ids = tensor(rig, DTYPE_I32, n, 0);
    Tensor margins = poisoned(rig, n, 0);
    nearest_direction(rig->device, ids, margins, x, table);
    for (int64_t count = 1; count < 8; count += 2) {
        Tensor own_ids = tensor(rig, DTYPE_I32, count, 0), own = poisoned(rig, count, 0);
        nearest_direction(rig->device, own_ids, own, some_rows(rig, x, n - count, count), table);
        expect_same(rig, "ids of some rows", own_ids, tensor_rows(ids, n - count, count));
        expect_same(rig, "margins of some rows", own, tensor_rows(margins, n - count, count));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ops_test(rows_of_a_linear_layer_do_not_depend_on_each_other),
        ops_test(the_last_row_of_many_is_that_of_few),
        ops_test(sequences_do_not_depend_on_each_other),
        ops_test(sequences_of_a_depthwise_convolution_do_not_depend_on_each_other),
        ops_test(sequences_with_terms_do_not_depend_on_each_other),
        ops_test(samples_of_a_convolution_do_not_depend_on_each_other),
        ops_test(samples_of_the_stem_do_not_depend_on_each_other),
        ops_test(rows_of_other_operations_do_not_depend_on_each_other),
        ops_test(directions_do_not_depend_on_each_other),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
