/* The cuda device's operations on activations that memory limits, against the cpu's, in f32, bf16 and f16, on a GPU or
 * on the emulator. Overwritten outputs start as NaN, accumulated ones as random numbers; sizes are no multiples of
 * packs and blocks, and arrays are not aligned to packs. */
#include "tests/cuda/schedules.h"

static const uint32_t step_number = 5;
static Dropout dropout_of(float p) { return (Dropout){p, 11, PURPOSE_DROPOUT | 3 << 8, &step_number}; }

/* Elementwise. */

static void check_casts(DType type) {
    static const int64_t sizes[] = {0, 1, 7, 8, 1003, 4099};
    for (int i = 0; i < 6; i++)
        for (int from = 0; from < 2; from++)
            for (int to = 0; to < 2; to++) {
                int64_t n = sizes[i];
                Pair x = normal(from ? type : DTYPE_F32, n, 0), y = poisoned(to ? type : DTYPE_F32, n, 0);
                cast(rig.cpu, y.cpu, x.cpu);
                cast(rig.cuda, y.cuda, x.cuda);
                check_output("cast", y, to && !from ? error_in(type, 0, 0) : 0);
            }
}

/* One elementwise call on both devices. */
static void check_elementwise(Pair y, Pair a, Pair b, Dropout drop) {
    DType type = y.cuda.dtype;
    dropout(rig.cpu, y.cpu, a.cpu, drop);
    dropout(rig.cuda, y.cuda, a.cuda, on_cuda(&rig, drop));
    check_output("dropout", y, error_in(type, 0, 2));
    residual_forward(rig.cpu, y.cpu, a.cpu, b.cpu, drop);
    residual_forward(rig.cuda, y.cuda, a.cuda, b.cuda, on_cuda(&rig, drop));
    check_output("residual_forward", y, error_in(type, 0, 4));
    tanh_backward(rig.cpu, y.cpu, b.cpu, a.cpu);
    tanh_backward(rig.cuda, y.cuda, b.cuda, a.cuda);
    check_output("tanh_backward", y, error_in(type, 0, 8));
    tanh_forward(rig.cpu, y.cpu, a.cpu);
    tanh_forward(rig.cuda, y.cuda, a.cuda);
    check_output("tanh_forward", y, error_in(type, 0, 8));
    for (int kind = 0; kind < 2; kind++) {
        gelu_forward(rig.cpu, y.cpu, a.cpu, (GeluKind)kind);
        gelu_forward(rig.cuda, y.cuda, a.cuda, (GeluKind)kind);
        check_output(kind ? "gelu_forward erf" : "gelu_forward tanh", y, error_in(type, 0, 16));
        gelu_backward(rig.cpu, y.cpu, b.cpu, a.cpu, (GeluKind)kind);
        gelu_backward(rig.cuda, y.cuda, b.cuda, a.cuda, (GeluKind)kind);
        double most = 0;
        for (int64_t i = 0; i < tensor_numel(a.cpu); i++)
            most = fmax(most, gelu_slope_error((GeluKind)kind, (double)floats(a)[i]));
        check_output(kind ? "gelu_backward erf" : "gelu_backward tanh", y, error_in(type, 0, most));
    }
}

static void check_elementwises(DType type) {
    static const int64_t sizes[][2] = {{0, 8}, {1, 1}, {1, 8}, {3, 77}, {5, 1003}, {33, 128}};
    for (int i = 0; i < 6; i++)
        for (int p = 0; p < 2; p++) {
            int64_t n = sizes[i][0], c = sizes[i][1];
            Dropout drop = dropout_of(p ? 0.3f : 0);
            check_elementwise(poisoned(type, n, c), pair_normal(&rig, type, n, c, 2), normal(type, n, c), drop);
            Pair one = normal(type, n * c + 1, 0), two = normal(type, n * c + 1, 0);
            check_elementwise(shifted(poisoned(type, n * c + 1, 0), n, c), shifted(one, n, c), shifted(two, n, c),
                              drop);
            Pair x = normal(type, n, c), branch = normal(type, n, c);
            residual_forward(rig.cpu, x.cpu, x.cpu, branch.cpu, drop);
            residual_forward(rig.cuda, x.cuda, x.cuda, branch.cuda, on_cuda(&rig, drop));
            check_output("residual_forward in place", x, error_in(type, 0, 4));
            dropout(rig.cpu, branch.cpu, branch.cpu, drop);
            dropout(rig.cuda, branch.cuda, branch.cuda, on_cuda(&rig, drop));
            check_output("dropout in place", branch, error_in(type, 0, 2));
        }
    check_casts(type);
}

/* Rows. */

/* Every other row of 2 n + 1, from the back: distinct and not in order. */
static Pair some_rows(int64_t n) {
    int32_t *rows = xmalloc((size_t)(n + 1) * sizeof *rows);
    for (int64_t i = 0; i < n; i++) rows[i] = (int32_t)(2 * n - 1 - 2 * i);
    Pair p = pair_integers(&rig, rows, n);
    free(rows);
    return p;
}

static void check_rows(DType type) {
    static const int64_t sizes[][2] = {{0, 8}, {1, 1}, {1, 8}, {21, 35}, {9, 1280}, {70, 64}};
    for (int i = 0; i < 6; i++)
        for (int wide = 0; wide < 2; wide++) {
            int64_t n = sizes[i][0], c = sizes[i][1];
            Pair x = normal(type, 2 * n + 1, c), y = poisoned(type, n, c), rows = some_rows(n);
            gather_rows(rig.cpu, y.cpu, x.cpu, rows.cpu);
            gather_rows(rig.cuda, y.cuda, x.cuda, rows.cuda);
            check_output("gather_rows", y, 0);
            Pair from = normal(wide ? DTYPE_F32 : type, n, c), to = normal(type, 2 * n + 1, c);
            scatter_rows(rig.cpu, to.cpu, from.cpu, rows.cpu);
            scatter_rows(rig.cuda, to.cuda, from.cuda, rows.cuda);
            check_output("scatter_rows", to, wide ? error_in(type, 0, 0) : 0);
        }
}

/* Embedding. */

/* Accumulated twice: each time on what the last left. */
static void check_embedding(DType type, int64_t n, int64_t c, int32_t vocabulary, int32_t places, int given) {
    bool with_rows = given & 1, with_places = given & 2;
    int64_t all = with_rows ? 2 * n + 1 : n;
    Pair row = with_rows ? some_rows(n) : pair_none(), id = pair_below(&rig, n, vocabulary);
    Pair place = with_places ? pair_below(&rig, n, places) : pair_none(), x = normal(type, all, c);
    Pair table = normal(DTYPE_F32, vocabulary, c),
         place_table = with_places ? normal(DTYPE_F32, places, c) : pair_none();
    embedding_forward(rig.cpu, x.cpu, row.cpu, id.cpu, table.cpu, place.cpu, place_table.cpu);
    embedding_forward(rig.cuda, x.cuda, row.cuda, id.cuda, table.cuda, place.cuda, place_table.cuda);
    check_output("embedding_forward", x, error_in(type, 0, 1));
    Pair dx = normal(type, all, c);
    for (int time = 0; time < 2; time++) {
        embedding_backward(rig.cpu, table.cpu, place_table.cpu, dx.cpu, row.cpu, id.cpu, place.cpu);
        embedding_backward(rig.cuda, table.cuda, place_table.cuda, dx.cuda, row.cuda, id.cuda, place.cuda);
        check_output("embedding_backward dtable", table, sum_error(n, 4));
        if (with_places) check_output("embedding_backward dposition_table", place_table, sum_error(n, 4));
    }
}

static void check_embeddings(DType type) {
    for (int given = 0; given < 4; given++) {
        check_embedding(type, 0, 8, 3, 3, given);
        check_embedding(type, 1, 1, 1, 1, given);
        check_embedding(type, 53, 77, 11, 60, given);
        check_embedding(type, 300, 264, 7, 200, given); /* runs over many pieces, beside ones within a piece */
    }
    check_embedding(type, 2500, 16, 1, 2000, 3); /* three chunks; one id only */
    check_embedding(type, 1024, 9, 300, 2, 2);
}

/* Rows that are not named keep what they have. */
static void check_places(DType type) {
    static const int64_t sizes[][2] = {{0, 8}, {1, 1}, {1, 8}, {21, 35}, {9, 1280}, {70, 64}};
    for (int i = 0; i < 6; i++) {
        int64_t n = sizes[i][0], c = sizes[i][1];
        Pair x = normal(type, 2 * n + 1, c), y = normal(type, n, c), row = some_rows(n);
        Pair place = pair_below(&rig, n, 7), table = normal(DTYPE_F32, 7, c);
        place_rows(rig.cpu, x.cpu, y.cpu, row.cpu, place.cpu, table.cpu);
        place_rows(rig.cuda, x.cuda, y.cuda, row.cuda, place.cuda, table.cuda);
        check_output("place_rows", x, error_in(type, 0, 1));
    }
}

/* Layer normalisation. */

static void check_layernorm(DType type, int64_t n, int64_t c, bool shift, bool with_bias) {
    Pair x = shift ? shifted(normal(type, n * c + 1, 0), n, c) : normal(type, n, c), y = poisoned(type, n, c);
    Pair mean = poisoned(DTYPE_F32, n, 0), rstd = poisoned(DTYPE_F32, n, 0), gain = normal(DTYPE_F32, c, 0);
    Pair bias = with_bias ? normal(DTYPE_F32, c, 0) : pair_none();
    for (int64_t i = 0; i < n * c; i++) floats(x)[i] = floats(x)[i] * 1.5f + 0.5f;
    pair_upload(&rig, x);
    layernorm_forward(rig.cpu, (LayerNormOutput){.y = y.cpu, .mean = mean.cpu, .rstd = rstd.cpu}, x.cpu, gain.cpu,
                      bias.cpu);
    layernorm_forward(rig.cuda, (LayerNormOutput){.y = y.cuda, .mean = mean.cuda, .rstd = rstd.cuda}, x.cuda, gain.cuda,
                      bias.cuda);
    check_output("layernorm_forward mean", mean, sum_error(c, 4));
    check_output("layernorm_forward rstd", rstd, sum_error(c, 8));
    check_output("layernorm_forward y", y, error_in(type, c, 12));

    pair_upload(&rig, mean);
    pair_upload(&rig, rstd);
    Pair dy = normal(type, n, c), dresidual = normal(type, n, c), dx = poisoned(type, n, c);
    Pair dgain = normal(DTYPE_F32, c, 0), dbias = with_bias ? normal(DTYPE_F32, c, 0) : pair_none();
    for (int time = 0; time < 3; time++) { /* without a residual, with one, with one in place */
        Pair past = time ? dresidual : pair_none(), to = time == 2 ? dresidual : dx;
        layernorm_backward(rig.cpu, (NormGradients){.dx = to.cpu, .dgain = dgain.cpu, .dbias = dbias.cpu}, past.cpu,
                           dy.cpu, x.cpu, mean.cpu, rstd.cpu, gain.cpu);
        layernorm_backward(rig.cuda, (NormGradients){.dx = to.cuda, .dgain = dgain.cuda, .dbias = dbias.cuda},
                           past.cuda, dy.cuda, x.cuda, mean.cuda, rstd.cuda, gain.cuda);
        /* a row of one number has no gradient: what is left are roundings of rstd dy gain */
        if (c > 1) check_output("layernorm_backward dx", to, error_in(type, c, 32));
        check_output("layernorm_backward dgain", dgain, sum_error(n, 16));
        if (with_bias) check_output("layernorm_backward dbias", dbias, sum_error(n, 4));
    }
}

/* The fused operation is, to the bit, the two one after the other; those are compared with the cpu's. */
static void check_residual_layernorm(DType type, int64_t n, int64_t c, float p, bool with_bias, bool in_place) {
    Dropout drop = dropout_of(p);
    Pair x = normal(type, n, c), branch = normal(type, n, c), gain = normal(DTYPE_F32, c, 0);
    Pair bias = with_bias ? normal(DTYPE_F32, c, 0) : pair_none(), out[2][4];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) out[i][j] = poisoned(j < 2 ? type : DTYPE_F32, n, j < 2 ? c : 0);
    Pair sum = in_place ? x : out[1][0];
    residual_forward(rig.cpu, sum.cpu, x.cpu, branch.cpu, drop);
    residual_forward(rig.cuda, out[0][0].cuda, x.cuda, branch.cuda, on_cuda(&rig, drop));
    layernorm_forward(rig.cuda, (LayerNormOutput){.y = out[0][1].cuda, .mean = out[0][2].cuda, .rstd = out[0][3].cuda},
                      out[0][0].cuda, gain.cuda, bias.cuda);
    residual_layernorm_forward(rig.cuda, sum.cuda,
                               (LayerNormOutput){.y = out[1][1].cuda, .mean = out[1][2].cuda, .rstd = out[1][3].cuda},
                               x.cuda, branch.cuda, gain.cuda, bias.cuda, on_cuda(&rig, drop));
    check_output("residual_layernorm_forward sum", sum, error_in(type, 0, 4));
    expect_same_bits(&rig, "residual_layernorm_forward sum", sum, out[0][0]);
    expect_same_bits(&rig, "residual_layernorm_forward y", out[1][1], out[0][1]);
    expect_same_bits(&rig, "residual_layernorm_forward mean", out[1][2], out[0][2]);
    expect_same_bits(&rig, "residual_layernorm_forward rstd", out[1][3], out[0][3]);
}

static void check_layernorms(DType type) {
    static const int64_t sizes[][2] = {{1, 1}, {1, 8}, {5, 77}, {7, 128}, {3, 1280}, {2, 1283}, {2060, 8}};
    for (int i = 0; i < 7; i++) {
        check_layernorm(type, sizes[i][0], sizes[i][1], i == 3, i % 2);
        check_layernorm(type, sizes[i][0], sizes[i][1], false, i % 2 == 0);
        check_residual_layernorm(type, sizes[i][0], sizes[i][1], i % 2 ? 0.3f : 0, i % 3, i % 2 == 0);
    }
    check_residual_layernorm(type, 9, 768, 0.1f, true, false);
}

/* Rows of length one. */

/* Row by row, because one row is zero and one shorter than the shortest that is brought to length one: their gradients
 * are 1e12 times larger, and nothing that f16 holds. */
static void check_normalize(DType type, int64_t n, int64_t c, bool shift) {
    Pair x = shift ? shifted(normal(type, n * c + 1, 0), n, c) : normal(type, n, c), y = poisoned(DTYPE_F32, n, c);
    Pair norm = poisoned(DTYPE_F32, n, 0), dy = normal(DTYPE_F32, n, c), dx = poisoned(type, n, c);
    for (int64_t j = 0; j < c && n > 2; j++) {
        floats(x)[j] = 0;
        floats(x)[c + j] *= type == DTYPE_F16 ? 0 : 1e-14f;
        floats(dy)[j] = 1e-12f * floats(dy)[j];
        floats(dy)[c + j] = 1e-12f * floats(dy)[c + j];
    }
    pair_upload(&rig, x);
    pair_upload(&rig, dy);
    normalize_rows_forward(rig.cpu, y.cpu, norm.cpu, x.cpu);
    normalize_rows_forward(rig.cuda, y.cuda, norm.cuda, x.cuda);
    check_output("normalize_rows_forward y", y, sum_error(c, 8));
    check_output("normalize_rows_forward norm", norm, sum_error(c, 4));
    pair_upload(&rig, y);
    pair_upload(&rig, norm);
    normalize_rows_backward(rig.cpu, dx.cpu, dy.cpu, y.cpu, norm.cpu);
    normalize_rows_backward(rig.cuda, dx.cuda, dy.cuda, y.cuda, norm.cuda);
    if (c > 1) check_output("normalize_rows_backward dx", dx, error_in(type, c, 32)); /* one number has no gradient */
}

static void check_normalizes(DType type) {
    static const int64_t sizes[][2] = {{1, 1}, {1, 8}, {5, 77}, {37, 128}, {3, 1283}, {70, 16}};
    for (int i = 0; i < 6; i++) {
        check_normalize(type, sizes[i][0], sizes[i][1], false);
        check_normalize(type, sizes[i][0], sizes[i][1], true);
    }
}

/* An index outside dies, and says which. */

static void wrong_row(void *argument) {
    (void)argument;
    Pair row = pair_integers(&rig, (int32_t[]){0, 5}, 2);
    gather_rows(rig.cuda, poisoned(DTYPE_F32, 2, 4).cuda, normal(DTYPE_F32, 5, 4).cuda, row.cuda);
    rig.cuda->synchronize(rig.cuda);
}

static void wrong_id(void *argument) {
    (void)argument;
    Pair id = pair_integers(&rig, (int32_t[]){0, -1}, 2);
    embedding_forward(rig.cuda, poisoned(DTYPE_F32, 2, 4).cuda, tensor_none(), id.cuda, normal(DTYPE_F32, 6, 4).cuda,
                      tensor_none(), tensor_none());
    rig.cuda->synchronize(rig.cuda);
}

static void wrong_place(void *argument) {
    Pair row = pair_integers(&rig, (int32_t[]){0, 5}, 2), place = pair_integers(&rig, (int32_t[]){0, 3}, 2);
    place_rows(rig.cuda, poisoned(DTYPE_F32, argument ? 6 : 5, 4).cuda, normal(DTYPE_F32, 2, 4).cuda, row.cuda,
               place.cuda, normal(DTYPE_F32, 3, 4).cuda);
    rig.cuda->synchronize(rig.cuda);
}

static void indices_outside_die(void **state) {
    (void)state;
    if (!emulate_set_seed) skip(); /* a real GPU's state does not survive a fork */
    static void (*const wrong[])(void *) = {wrong_row, wrong_id, wrong_place, wrong_place};
    static const char *const messages[] = {
        ": gather_rows, scatter_rows: rows[1] is 5, expected less than 5 and not negative",
        "ids[1] is -1, expected less than 6 and not negative", "place_rows: rows[1] is 5, expected less than 5",
        "place_rows: positions[1] is 3, expected less than 3"};
    for (int i = 0; i < 4; i++) {
        char output[4096];
        assert_int_not_equal(run_function(output, sizeof output, wrong[i], i == 3 ? &rig : NULL), 0);
        assert_contains(output, "CUDA: "); /* the kernel's message, printed by the host */
        assert_contains(output, messages[i]);
    }
}

/* Whatever waits for the device completes the times; the counters know nothing before. */
static void a_profile_has_the_times_of_the_device(void **state) {
    (void)state;
    const OpCounter *counter = &rig.cuda->counters[OP_sum_forward];
    Pair x = normal(DTYPE_F32, 1003, 0), sum = poisoned(DTYPE_F32, 1, 0);
    device_reset_counters(rig.cuda);
    rig.cuda->profile = true;
    for (int i = 0; i < 5000; i++) sum_forward(rig.cuda, sum.cuda, x.cuda); /* more than are timed at once */
    rig.cuda->synchronize(rig.cuda);
    double seconds = counter->seconds;
    rig.cuda->synchronize(rig.cuda);
    rig.cuda->profile = false;
    assert_true(seconds > 0 && seconds < 60 && counter->seconds == seconds);
    rig_clear(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_in_every_type(elementwise, check_elementwises),
        test_in_every_type(rows, check_rows),
        test_in_every_type(embedding, check_embeddings),
        test_in_every_type(rows_placed, check_places),
        test_in_every_type(normalize_rows, check_normalizes),
        test_in_every_type(layernorm, check_layernorms),
        cmocka_unit_test(indices_outside_die),
        cmocka_unit_test(a_profile_has_the_times_of_the_device),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
