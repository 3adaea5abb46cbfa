/* Properties of all operations of the cpu device: tables are complete, NaN is passed on, and a wrong call dies. */
#include "kernels/device_open.h"
#include "tests/kernels/ops_rig.h"

/* A NaN in an input must appear in the outputs, above all in the loss. */

static void check_nan_inputs_give_nan_outputs(Rig *rig) {
    Device *device = rig->device;
    const int64_t n = 5, c = 83;
    for (int64_t at = 0; at < c; at += 41) { /* first, middle, last */
        Tensor x = normal(rig, n, c), y = normal(rig, n, c), mean = normal(rig, n, 0), rstd = normal(rig, n, 0);
        Tensor targets = below(rig, n, (uint32_t)c), one = normal(rig, 1, 0), gain = normal(rig, c, 0);
        Tensor soft = normal(rig, n, c);
        float *bad = &floats(x)[2 * c + at];
        *bad = NAN;
        cross_entropy_forward(device, mean, rstd, x, x.dims[1], targets, tensor_none());
        for (int64_t i = 0; i < n; i++) assert_true(isnan(floats(mean)[i]) == (i == 2));
        memcpy(y.data, x.data, tensor_bytes(x));
        cross_entropy_forward_backward(device, mean, rstd, y, y.dims[1], targets, tensor_none(), number(rig, 1),
                                       tensor_none());
        for (int64_t i = 0; i < n * c; i++) assert_true(isnan(floats(y)[i]) == (i / c == 2));
        soft_cross_entropy_forward(device, mean, rstd, x, soft, targets);
        for (int64_t i = 0; i < n; i++) assert_true(isnan(floats(mean)[i]) == (i == 2));
        memcpy(y.data, x.data, tensor_bytes(x));
        soft_cross_entropy_forward_backward(device, mean, rstd, y, soft, targets, number(rig, 1), tensor_none());
        for (int64_t i = 0; i < n * c; i++) assert_true(isnan(floats(y)[i]) == (i / c == 2));
        assert_true(floats(rstd)[2] == 0);
        sum_forward(device, one, mean);
        assert_true(isnan(floats(one)[0]));
        squared_error_forward(device, mean, x, normal(rig, n, c));
        for (int64_t i = 0; i < n; i++) assert_true(isnan(floats(mean)[i]) == (i == 2));
        Tensor z = normal(rig, n, 1), fair = tensor(rig, DTYPE_F32, n, 0);
        floats(z)[2] = NAN;
        binary_cross_entropy_forward_backward(device, mean, rstd, z, fair, fair, number(rig, 1), tensor_none());
        for (int64_t i = 0; i < n; i++) assert_true(isnan(floats(mean)[i]) == (i == 2));
        for (int64_t i = 0; i < n; i++) assert_true(isnan(floats(z)[i]) == (i == 2));
        normalize_rows_forward(device, y, mean, x);
        for (int64_t i = 0; i < n * c; i++) assert_true(isnan(floats(y)[i]) == (i / c == 2));
        nt_xent_forward(device, tensor_rows(mean, 0, 4), tensor_rows(rstd, 0, 4), tensor_rows(x, 0, 4), 1);
        for (int64_t i = 0; i < 4; i++) assert_true(isnan(floats(mean)[i])); /* every row contains the third column */
        layernorm_forward(device, (LayerNormOutput){.y = y, .mean = mean, .rstd = rstd}, x, gain, tensor_none());
        for (int64_t i = 0; i < n * c; i++) assert_true(isnan(floats(y)[i]) == (i / c == 2));
        tanh_forward(device, y, x);
        for (int64_t i = 0; i < n * c; i++) assert_true(isnan(floats(y)[i]) == (i == 2 * c + at));
        for (int kind = 0; kind < 2; kind++) {
            gelu_forward(device, y, x, (GeluKind)kind);
            for (int64_t i = 0; i < n * c; i++) assert_true(isnan(floats(y)[i]) == (i == 2 * c + at));
            gelu_backward(device, y, x, x, (GeluKind)kind);
            for (int64_t i = 0; i < n * c; i++) assert_true(isnan(floats(y)[i]) == (i == 2 * c + at));
        }
        global_norm(device, one, tensor_1d(x.data, DTYPE_F32, n * c), tensor_none(),
                    (Segment[]){{0, n * c, 0, 1, .group = 0}}, 1);
        assert_true(isnan(floats(one)[0]));
        Tensor w = normal(rig, c, 9), product = normal(rig, n, 9);
        linear_forward(device, product, x, w, tensor_none(), WEIGHT_IN_OUT);
        for (int64_t i = 0; i < n * 9; i++) assert_true(isnan(floats(product)[i]) == (i / 9 == 2));
    }
    Tensor qkv = normal(rig, 70, 12), out = normal(rig, 70, 4), lse = normal(rig, 1, 70);
    floats(qkv)[69 * 12] = NAN; /* the last query: affects no other row */
    attention_forward(device, out, lse, qkv, packed(rig, (int[]){70}, 1), (Attention){1, true, 0.5f}, dropout_of(0));
    for (int64_t i = 0; i < 70 * 4; i++) assert_true(isnan(floats(out)[i]) == (i / 4 == 69));
}

/* A wrong call dies with a message that names the operation and the wrong argument. */

typedef struct {
    void (*call)(Rig *);
    const char *message;
} WrongCall;

static void wrong_linear(Rig *r) {
    linear_forward(r->device, normal(r, 3, 6), normal(r, 3, 4), normal(r, 5, 6), tensor_none(), WEIGHT_IN_OUT);
}
static void wrong_linear_backward(Rig *r) {
    linear_backward(r->device, (LayerGradients){.dw = normal(r, 4, 6), .dbias = normal(r, 4, 0)}, normal(r, 3, 6),
                    normal(r, 3, 4), normal(r, 4, 6), WEIGHT_IN_OUT);
}
static void wrong_hidden(Rig *r) {
    linear_gelu_forward(r->device, normal(r, 3, 6), normal(r, 3, 4), normal(r, 3, 4), normal(r, 4, 6), tensor_none(),
                        WEIGHT_IN_OUT, (GeluDropout){GELU_TANH, dropout_of(0)});
}
static void wrong_hidden_backward(Rig *r) {
    gelu_linear_backward(r->device, (LayerGradients){.dx = normal(r, 3, 4), .dw = normal(r, 4, 6)}, normal(r, 3, 6),
                         normal(r, 3, 4), normal(r, 3, 6), normal(r, 4, 6), WEIGHT_IN_OUT,
                         (GeluDropout){GELU_TANH, dropout_of(0)});
}
static void wrong_dtype(Rig *r) { gelu_forward(r->device, normal(r, 2, 2), tensor(r, DTYPE_I32, 2, 2), GELU_ERF); }
static void wrong_none(Rig *r) {
    layernorm_forward(r->device,
                      (LayerNormOutput){.y = normal(r, 2, 3), .mean = normal(r, 2, 0), .rstd = normal(r, 2, 0)},
                      normal(r, 2, 3), tensor_none(), tensor_none());
}
static void wrong_heads(Rig *r) {
    attention_forward(r->device, normal(r, 2, 4), normal(r, 3, 2), normal(r, 2, 12), packed(r, (int[]){2}, 1),
                      (Attention){3, true, 1}, dropout_of(0));
}
static void wrong_sequences(Rig *r) {
    attention_forward(r->device, normal(r, 3, 4), normal(r, 2, 3), normal(r, 3, 12), packed(r, (int[]){1, 1}, 2),
                      (Attention){2, true, 1}, dropout_of(0));
}
static void cached(Rig *r, int64_t width, int64_t rows, int32_t slot, int32_t length, int64_t longest) {
    Tensor slots = below(r, 2, 1), lengths = below(r, 2, 1);
    integers(slots)[1] = slot, integers(lengths)[0] = 1, integers(lengths)[1] = length;
    attention_cached_forward(r->device, normal(r, 2, 4), normal(r, 2, width),
                             (CachedKeys){normal(r, rows, 8), slots, lengths, 3, longest}, (Attention){2, true, 1});
}
static void wrong_cached_heads(Rig *r) { cached(r, 13, 6, 1, 2, 2); }
static void wrong_slots(Rig *r) { cached(r, 12, 7, 1, 2, 2); }
static void wrong_longest(Rig *r) { cached(r, 12, 6, 1, 2, 4); }
static void wrong_slot(Rig *r) { cached(r, 12, 6, 2, 2, 2); }
static void wrong_cached_length(Rig *r) { cached(r, 12, 6, 1, 3, 2); }
static void wrong_empty_length(Rig *r) { cached(r, 12, 6, 1, 0, 2); }
static void wrong_cache(Rig *r) { cache_rows(r->device, normal(r, 4, 6), normal(r, 2, 12), below(r, 2, 4)); }
static void wrong_cached_row(Rig *r) {
    Tensor rows = below(r, 2, 1);
    integers(rows)[1] = 4;
    cache_rows(r->device, normal(r, 4, 8), normal(r, 2, 12), rows);
}
static void wrong_probability(Rig *r) { dropout(r->device, normal(r, 1, 4), normal(r, 1, 4), dropout_of(1)); }
static void wrong_target(Rig *r) {
    Tensor targets = below(r, 2, 1);
    integers(targets)[1] = 7;
    cross_entropy_forward(r->device, normal(r, 2, 0), normal(r, 2, 0), normal(r, 2, 7), 7, targets, tensor_none());
}
static void wrong_weights(Rig *r) {
    cross_entropy_forward(r->device, normal(r, 2, 0), normal(r, 2, 0), normal(r, 2, 7), 7, below(r, 2, 7),
                          normal(r, 3, 0));
}
static void wrong_soft_targets(Rig *r) {
    Tensor n = normal(r, 2, 0);
    soft_cross_entropy_forward(r->device, n, n, normal(r, 2, 7), normal(r, 2, 6), below(r, 2, 7));
}
static void wrong_soft_label(Rig *r) {
    Tensor n = normal(r, 2, 0), labels = below(r, 2, 1);
    integers(labels)[1] = 7;
    soft_cross_entropy_forward_backward(r->device, n, n, normal(r, 2, 7), normal(r, 2, 7), labels, number(r, 1),
                                        tensor_none());
}
static void wrong_tanh(Rig *r) { tanh_backward(r->device, normal(r, 2, 3), normal(r, 3, 2), normal(r, 2, 3)); }
static void wrong_place(Rig *r) {
    Tensor rows = below(r, 2, 1);
    integers(rows)[1] = 5;
    place_rows(r->device, normal(r, 5, 4), normal(r, 2, 4), rows, below(r, 2, 3), normal(r, 3, 4));
}
static void wrong_errors(Rig *r) {
    squared_error_forward(r->device, normal(r, 2, 0), normal(r, 2, 4), normal(r, 4, 2));
}
static void wrong_logits(Rig *r) {
    Tensor n = normal(r, 2, 0);
    binary_cross_entropy_forward(r->device, n, n, normal(r, 2, 2), n, n);
}
static void wrong_labels(Rig *r) {
    Tensor n = normal(r, 2, 0);
    binary_cross_entropy_forward_backward(r->device, n, n, normal(r, 2, 1), n, normal(r, 2, 1), n, n);
}
static void wrong_norms(Rig *r) {
    normalize_rows_backward(r->device, normal(r, 2, 4), normal(r, 2, 4), normal(r, 2, 4), normal(r, 4, 0));
}
static void wrong_partners(Rig *r) {
    nt_xent_forward(r->device, normal(r, 3, 0), normal(r, 3, 0), normal(r, 3, 4), 0.07f);
}
static void wrong_temperature(Rig *r) {
    nt_xent_backward(r->device, normal(r, 4, 4), normal(r, 4, 4), normal(r, 4, 0), 0, number(r, 1), tensor_none());
}
static void wrong_id(Rig *r) {
    Tensor ids = below(r, 2, 1);
    integers(ids)[1] = -1;
    embedding_forward(r->device, normal(r, 2, 4), tensor_none(), ids, normal(r, 6, 4), tensor_none(), tensor_none());
}
static void wrong_positions(Rig *r) {
    embedding_forward(r->device, normal(r, 2, 4), tensor_none(), below(r, 2, 6), normal(r, 6, 4), below(r, 2, 9),
                      tensor_none());
}
static void wrong_row(Rig *r) {
    Tensor rows = below(r, 2, 1);
    integers(rows)[0] = 5;
    gather_rows(r->device, normal(r, 2, 4), normal(r, 5, 4), rows);
}
static void wrong_segment(Rig *r) {
    global_norm(r->device, normal(r, 1, 0), normal(r, 10, 0), tensor_none(),
                (Segment[]){{0, 4, 0, 1, .group = 0}, {5, 11, 0, 1, .group = 0}}, 2);
}
static void wrong_rows(Rig *r) {
    static const uint8_t used[3] = {1, 1, 1};
    clear_segments(r->device, normal(r, 10, 0), &(Segment){.begin = 1, .end = 7, .used = used, .width = 2, .count = 8},
                   1);
}
static void wrong_window(Rig *r) { unfold_forward(r->device, normal(r, 1, 14), normal(r, 2, 2), (Window){2, 7, 1, 2}); }
static void wrong_windows(Rig *r) {
    unfold_backward(r->device, normal(r, 8, 2), normal(r, 8, 6), (Window){4, 3, 2, 1});
}
static void wrong_convolution(Rig *r) {
    conv3d_forward(r->device, normal(r, 1, 1), normal(r, 8, 1), normal(r, 1, 9), tensor_none(),
                   (Convolution){{2, 2, 2}, {1, 3, 3}, {1, 1, 1}, {0, 1, 0}});
}
static void wrong_samples(Rig *r) {
    conv3d_forward(r->device, normal(r, 7, 1), normal(r, 7, 1), normal(r, 1, 1), tensor_none(),
                   (Convolution){{2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}});
}
static void wrong_taps(Rig *r) {
    Tensor w = normal(r, 2, 4), x = normal(r, 8, 2);
    conv3d_backward(r->device, (LayerGradients){.dw = w}, x, x, w,
                    (Convolution){{2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}}, false);
}
static void wrong_channels(Rig *r) {
    conv3d_forward(r->device, normal(r, 1, 1), tensor_2d(normal(r, 1, 1).data, DTYPE_F32, 1, 0), normal(r, 1, 1),
                   tensor_none(), (Convolution){{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}});
}
static void wrong_frames(Rig *r) { max_pool_forward(r->device, normal(r, 1, 1), normal(r, 9, 1), 2, 2); }
static void wrong_pairs(Rig *r) {
    max_pool_backward(r->device, normal(r, 6, 1), normal(r, 3, 1), normal(r, 6, 1), 3, 1);
}
static void wrong_length(Rig *r) { mean_rows_forward(r->device, normal(r, 2, 3), normal(r, 7, 3), 3); }
static void wrong_batch(Rig *r) {
    Tensor x = normal(r, 1, 4), c = normal(r, 4, 0);
    batchnorm_forward(r->device, x, (BatchStatistics){c, c, tensor_none(), tensor_none(), 0.1f}, x, c, c);
}
static void wrong_running(Rig *r) {
    Tensor x = normal(r, 2, 4), c = normal(r, 4, 0);
    batchnorm_forward(r->device, x, (BatchStatistics){c, c, c, tensor_none(), 0.1f}, x, c, c);
}
static Normed any_norm(Rig *r, int64_t rows, int64_t c) {
    return (Normed){normal(r, rows, c), normal(r, c, 0), normal(r, c, 0), normal(r, c, 0), normal(r, c, 0)};
}
static void wrong_norm_samples(Rig *r) {
    norm_activate_forward(r->device, normal(r, 9, 4), any_norm(r, 9, 4), (Normed){0},
                          (NormActivation){.slope = 1, .frames = 2, .plane = 2});
}
static void wrong_norm(Rig *r) {
    Normed a = any_norm(r, 4, 4);
    norm_activate_forward(r->device, normal(r, 4, 4), (Normed){.x = a.x}, (Normed){0},
                          (NormActivation){.slope = 1, .frames = 2, .plane = 2});
}
static void wrong_half_norm(Rig *r) {
    norm_activate_forward(r->device, normal(r, 4, 4), any_norm(r, 4, 4),
                          (Normed){normal(r, 4, 4), .gain = normal(r, 4, 0)},
                          (NormActivation){.slope = 1, .frames = 2, .plane = 2});
}
static void wrong_lone_norm(Rig *r) {
    Normed b = any_norm(r, 4, 4);
    b.x = tensor_none();
    norm_activate_forward(r->device, normal(r, 4, 4), any_norm(r, 4, 4), b,
                          (NormActivation){.slope = 1, .frames = 2, .plane = 2});
}
static void wrong_pooled_norm(Rig *r) {
    Tensor x = normal(r, 6, 4), c = normal(r, 4, 0);
    norm_activate_backward(r->device, (NormGradients){.dx = x, .dgain = c, .dbias = c}, (NormGradients){0},
                           normal(r, 3, 4), any_norm(r, 6, 4), (Normed){0},
                           (NormActivation){.slope = 1, .frames = 3, .plane = 2, .pool = true});
}
static void wrong_norm_gradient(Rig *r) {
    Tensor x = normal(r, 6, 4), c = normal(r, 4, 0);
    norm_activate_backward(r->device, (NormGradients){.dx = x, .dgain = c, .dbias = c}, (NormGradients){.dx = x}, x,
                           any_norm(r, 6, 4), any_norm(r, 6, 4), (NormActivation){.slope = 1, .frames = 3, .plane = 2});
}
static void wrong_volumes(Rig *r) {
    augment_volumes(r->device, normal(r, 6, 2), normal(r, 1, 6), below(r, 1, 1), below(r, 1, 1),
                    (AugmentShape){1, 2, 3}, 0);
}
static void wrong_counts(Rig *r) {
    augment_volumes(r->device, normal(r, 4, 2), normal(r, 1, 4), below(r, 1, 1), below(r, 1, 1),
                    (AugmentShape){1, 2, 2}, 0);
}
static void wrong_draws(Rig *r) {
    Tensor counts = {normal(r, 1, 4).data, DTYPE_U8, 2, {1, 4}}, zeros = tensor(r, DTYPE_I32, 1, AUGMENT_DRAW_WORDS);
    augment_volumes(r->device, normal(r, 4, 2), counts, below(r, 1, 1), zeros, (AugmentShape){1, 2, 2}, 0);
}
static void wrong_volume(Rig *r) {
    Tensor counts = {normal(r, 1, 4).data, DTYPE_U8, 2, {1, 4}}, zeros = tensor(r, DTYPE_I32, 1, AUGMENT_DRAW_WORDS);
    Tensor volume = below(r, 1, 1);
    integers(volume)[0] = 1;
    augment_volumes(r->device, normal(r, 4, 2), counts, volume, zeros, (AugmentShape){1, 2, 2}, 0);
}
static void wrong_samples_mixed(Rig *r) {
    mixup(r->device, normal(r, 7, 1), normal(r, 7, 1), below(r, 2, 2), number(r, 1));
}
static void wrong_partner(Rig *r) {
    Tensor partners = below(r, 2, 1);
    integers(partners)[1] = 2;
    mixup(r->device, normal(r, 4, 1), normal(r, 4, 1), partners, number(r, 1));
}
static void wrong_place_for_the_mixed(Rig *r) {
    Tensor x = normal(r, 4, 1);
    mixup(r->device, x, x, below(r, 2, 2), number(r, 1));
}
static void wrong_set(Rig *r) {
    (void)r;
    setenv("TRAINC_CPU_SET", "mmx", 1);
    cpu_device_open(1);
}

static const WrongCall wrong_calls[] = {
    {wrong_linear, "linear_forward: w is f32 [5, 6], expected f32 [4, 6]"},
    {wrong_linear_backward, "linear_backward: bias is f32 [4], expected f32 [6]"},
    {wrong_hidden, "linear_gelu_forward: hidden is f32 [3, 4], expected f32 [3, 6]"},
    {wrong_hidden_backward, "gelu_linear_backward: hidden is f32 [3, 6], expected f32 [3, 4]"},
    {wrong_dtype, "gelu_forward: x is i32 [2, 2]; the cpu device computes in f32"},
    {wrong_none, "layernorm_forward: gain is none, expected f32 [3]"},
    {wrong_heads, "attention_forward: 12 columns are not q, k and v of 3 heads"},
    {wrong_sequences, "attention_forward: the sequences are rows 0 .. 2, qkv has 3"},
    {wrong_cached_heads, "attention_cached_forward: 13 columns are not q, k and v of 2 heads"},
    {wrong_slots, "attention_cached_forward: the 7 rows of kv are not whole slots of 3 rows"},
    {wrong_longest, "attention_cached_forward: the longest sequence has 4 rows, expected 1 .. 3, the rows of a slot"},
    {wrong_slot, "attention_cached_forward: slots[1] is 2, expected less than 2 and not negative"},
    {wrong_cached_length, "attention_cached_forward: lengths[1] is 3, expected less than 3"},
    {wrong_empty_length, "attention_cached_forward: lengths[1] is 0, expected less than 3 and not 0 or negative"},
    {wrong_cache, "cache_rows: kv is f32 [4, 6], expected f32 [any, 8]"},
    {wrong_cached_row, "cache_rows: rows[1] is 4, expected less than 4 and not negative"},
    {wrong_probability, "dropout: the dropout is 1, expected at least 0 and less than 1"},
    {wrong_target, "cross_entropy_forward: targets[1] is 7, expected less than 7"},
    {wrong_weights, "cross_entropy_forward: weights is f32 [3], expected f32 [2]"},
    {wrong_soft_targets, "soft_cross_entropy_forward: targets is f32 [2, 6], expected f32 [2, 7]"},
    {wrong_soft_label, "soft_cross_entropy: labels[1] is 7, expected less than 7"},
    {wrong_tanh, "tanh_backward: dy is f32 [3, 2], expected f32 [2, 3]"},
    {wrong_place, "place_rows: rows[1] is 5, expected less than 5 and not negative"},
    {wrong_errors, "squared_error_forward: targets is f32 [4, 2], expected f32 [2, 4]"},
    {wrong_logits, "binary_cross_entropy_forward: logits is f32 [2, 2], expected f32 [any, 1]"},
    {wrong_labels, "binary_cross_entropy_forward_backward: labels is f32 [2, 1], expected f32 [2]"},
    {wrong_norms, "normalize_rows_backward: norm is f32 [4], expected f32 [2]"},
    {wrong_partners, "nt_xent_forward: z has 3 rows, expected two of each sample"},
    {wrong_temperature, "nt_xent_backward: the temperature is 0, expected more than 0"},
    {wrong_id, "embedding_forward: ids[1] is -1, expected less than 6 and not negative"},
    {wrong_positions, "embedding_forward: position_table is none, expected f32 [any, 4]"},
    {wrong_row, "gather_rows: rows[0] is 5, expected less than 5 and not negative"},
    {wrong_segment, "global_norm: segment 1 is 5 .. 11, the buffer has 10 elements"},
    {wrong_rows, "clear_segments: 8 elements in rows of 2 take part in segment 0 of 6 elements"},
    {wrong_window, "unfold_forward: 7 taps, stride 1, padding 2 have no position in sequences of 2 rows"},
    {wrong_windows, "unfold_backward: dy is f32 [8, 6], expected f32 [4, 6]"},
    {wrong_convolution, "conv3d_forward: 3 taps, stride 1, padding 0 have no position in 2 along w"},
    {wrong_samples, "conv3d_forward: the 7 rows of x are not whole samples of 2 x 2 x 2"},
    {wrong_taps, "conv3d_backward: w is f32 [2, 4], expected f32 [2, 2]"},
    {wrong_channels, "conv3d_forward: from 0 channels to 1, expected at least one each"},
    {wrong_frames, "max_pool_forward: the 9 rows of x are not whole samples of 2 frames of 2 rows"},
    {wrong_pairs, "max_pool_backward: dy is f32 [3, 1], expected f32 [2, 1]"},
    {wrong_length, "mean_rows_forward: the 7 rows of x are not whole sequences of 3 rows"},
    {wrong_batch, "batchnorm_forward: the batch has 1 rows, expected at least 2"},
    {wrong_running, "batchnorm_forward: running_var is none, expected f32 [4]"},
    {wrong_norm_samples, "norm_activate_forward: the 9 rows of a.x are not whole samples of 2 frames of 2 rows"},
    {wrong_norm, "norm_activate_forward: a.mean is none, expected f32 [4]"},
    {wrong_half_norm, "norm_activate_forward: there is b.gain, but no b.mean"},
    {wrong_lone_norm, "norm_activate_forward: b.mean is f32 [4], but there is no b.x"},
    {wrong_pooled_norm, "norm_activate_backward: dy is f32 [3, 4], expected f32 [2, 4]"},
    {wrong_norm_gradient, "norm_activate_backward: db.dgain is none, expected f32 [4]"},
    {wrong_volumes,
     "augment_volumes: volumes of 1 bins of 2 x 3 pixels, expected 1 to 1024 of 1 x 1 to 64 x 64, square"},
    {wrong_counts, "augment_volumes: counts is f32 [1, 4], expected u8 or u16"},
    {wrong_draws, "augment_volumes: draws[0] has a number out of range"},
    {wrong_volume, "augment_volumes: volumes[0] is 1, expected less than 1 and not negative"},
    {wrong_samples_mixed, "mixup: the 7 rows of x are not 2 whole samples"},
    {wrong_partner, "mixup: partners[1] is 2, expected less than 2 and not negative"},
    {wrong_place_for_the_mixed, "mixup: y is x, which partners are read from"},
    {wrong_set, "TRAINC_CPU_SET=mmx"},
};

static void call_wrongly(void *argument) {
    const WrongCall *wrong = argument;
    Rig *rig = xcalloc(1, sizeof *rig);
    rig->device = devices[0];
    wrong->call(rig);
}

static void wrong_calls_die_with_the_reason(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong_calls / sizeof *wrong_calls; i++) {
        char output[1024];
        WrongCall wrong = wrong_calls[i];
        assert_int_equal(run_function(output, sizeof output, call_wrongly, &wrong), 1);
        assert_contains(output, wrong.message);
    }
}

#define OP_IS_THERE(op) assert_non_null(devices[d]->ops->op);
static void every_table_is_complete(void **state) {
    (void)state;
    for (int d = 0; d < n_devices; d++) {
        FOR_EACH_OP(OP_IS_THERE)
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_table_is_complete),
                                       cmocka_unit_test(wrong_calls_die_with_the_reason),
                                       ops_test(nan_inputs_give_nan_outputs)};
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
