/* The cuda device's memory-bound operations against the cpu's, in f32, bf16 and f16, on a GPU or on the emulator, which
 * runs each check under several schedules. Overwritten outputs start as NaN, accumulated ones as random numbers;
 * sizes divide no pack and no block, arrays begin where no pack may; and every output must have the same bits each
 * time.
 *
 * Tolerances. Both devices start from the same numbers and compute in f32, U = 2^-24: a sum of K terms of random sign
 * has an error of about U sqrt(K) / 1.4 of its terms' size, and 4 U sqrt(K) is taken for the largest of many; a chain
 * of c roundings adds c U. Then the cuda device rounds once to its type, by at most one unit in the last place's half.
 */
#include "tests/cuda/rig.h"

#define U 0x1p-24

/* Of the emulator; absent in a program for a real GPU. */
__attribute__((weak)) void emulate_set_seed(uint64_t seed);

static double f32_error(int64_t terms, double roundings) { return (roundings + 4 * sqrt((double)terms)) * U; }

static double error_in(DType type, int64_t terms, double roundings) {
    return f32_error(terms, roundings) + (type == DTYPE_F32 ? 0 : 2 * rounding_of(type));
}

static Rig rig;
static uint64_t hash; /* of all outputs of a check */

static void expect(const char *what, Pair p, double tolerance) {
    float *got = pair_download(&rig, p);
    for (int64_t i = 0; i < tensor_numel(p.cuda); i++) {
        uint32_t bits;
        memcpy(&bits, &got[i], 4);
        hash = (hash ^ bits) * 0x100000001b3u;
    }
    free(got);
    expect_pair(&rig, what, p, tolerance);
}

static const DType types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

/* Runs a check in one type under several schedules: the outputs must have the same bits under each. */
static void run(void (*check)(DType), DType type) {
    uint64_t first = 0;
    rig.cuda->half = type == DTYPE_F32 ? DTYPE_BF16 : type;
    for (uint64_t seed = 0; seed < 5; seed++) {
        if (emulate_set_seed) emulate_set_seed(seed);
        hash = 0xcbf29ce484222325u;
        rig.draws = 0;
        check(type);
        rig_clear(&rig);
        if (seed && hash != first) fail_msg("in %s, seed %d gives other bits", dtype_name(type), (int)seed);
        first = hash;
    }
}

static void in_every_type(void (*check)(DType)) {
    for (int i = 0; i < 3; i++) run(check, types[i]);
}

static float *floats(Pair p) { return p.cpu.data; }

/* The same numbers, beginning one number later and so at no multiple of a pack. */
static Pair shifted(Pair p, int64_t rows, int64_t columns) {
    return (Pair){rig_shaped((char *)p.cpu.data + 4, p.cpu.dtype, rows, columns),
                  rig_shaped((char *)p.cuda.data + dtype_size(p.cuda.dtype), p.cuda.dtype, rows, columns)};
}

static Pair normal(DType type, int64_t rows, int64_t columns) { return pair_normal(&rig, type, rows, columns, 1); }
static Pair poisoned(DType type, int64_t rows, int64_t columns) { return pair_poisoned(&rig, type, rows, columns); }
static Pair number(float x) {
    Pair p = poisoned(DTYPE_F32, 1, 0);
    *floats(p) = x;
    pair_upload(&rig, p);
    return p;
}

static Dropout dropout_of(float p) { return (Dropout){p, 11, PURPOSE_DROPOUT | 3 << 8, 5}; }

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
                expect("cast", y, to && !from ? error_in(type, 0, 0) : 0);
            }
}

/* One elementwise call on both devices. */
static void check_elementwise(Pair y, Pair a, Pair b, Dropout drop) {
    DType type = y.cuda.dtype;
    dropout(rig.cpu, y.cpu, a.cpu, drop);
    dropout(rig.cuda, y.cuda, a.cuda, drop);
    expect("dropout", y, error_in(type, 0, 2));
    residual_forward(rig.cpu, y.cpu, a.cpu, b.cpu, drop);
    residual_forward(rig.cuda, y.cuda, a.cuda, b.cuda, drop);
    expect("residual_forward", y, error_in(type, 0, 4));
    for (int kind = 0; kind < 2; kind++) {
        gelu_forward(rig.cpu, y.cpu, a.cpu, (GeluKind)kind);
        gelu_forward(rig.cuda, y.cuda, a.cuda, (GeluKind)kind);
        expect(kind ? "gelu_forward erf" : "gelu_forward tanh", y, error_in(type, 0, 16));
        gelu_backward(rig.cpu, y.cpu, b.cpu, a.cpu, (GeluKind)kind);
        gelu_backward(rig.cuda, y.cuda, b.cuda, a.cuda, (GeluKind)kind);
        expect(kind ? "gelu_backward erf" : "gelu_backward tanh", y, error_in(type, 0, 32));
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
            residual_forward(rig.cuda, x.cuda, x.cuda, branch.cuda, drop);
            expect("residual_forward in place", x, error_in(type, 0, 4));
            dropout(rig.cpu, branch.cpu, branch.cpu, drop);
            dropout(rig.cuda, branch.cuda, branch.cuda, drop);
            expect("dropout in place", branch, error_in(type, 0, 2));
        }
}

static void elementwise(void **state) {
    (void)state;
    in_every_type(check_casts);
    in_every_type(check_elementwises);
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
            expect("gather_rows", y, 0);
            Pair from = normal(wide ? DTYPE_F32 : type, n, c), to = normal(type, 2 * n + 1, c);
            scatter_rows(rig.cpu, to.cpu, from.cpu, rows.cpu);
            scatter_rows(rig.cuda, to.cuda, from.cuda, rows.cuda);
            expect("scatter_rows", to, wide ? error_in(type, 0, 0) : 0);
        }
}

static void rows(void **state) {
    (void)state;
    in_every_type(check_rows);
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
    expect("embedding_forward", x, error_in(type, 0, 1));
    Pair dx = normal(type, all, c);
    for (int time = 0; time < 2; time++) {
        embedding_backward(rig.cpu, table.cpu, place_table.cpu, dx.cpu, row.cpu, id.cpu, place.cpu);
        embedding_backward(rig.cuda, table.cuda, place_table.cuda, dx.cuda, row.cuda, id.cuda, place.cuda);
        expect("embedding_backward dtable", table, f32_error(n, 4));
        if (with_places) expect("embedding_backward dposition_table", place_table, f32_error(n, 4));
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

static void embedding(void **state) {
    (void)state;
    in_every_type(check_embeddings);
}

/* Layer normalisation. */

static void check_layernorm(DType type, int64_t n, int64_t c, bool shift, bool with_bias) {
    Pair x = shift ? shifted(normal(type, n * c + 1, 0), n, c) : normal(type, n, c), y = poisoned(type, n, c);
    Pair mean = poisoned(DTYPE_F32, n, 0), rstd = poisoned(DTYPE_F32, n, 0), gain = normal(DTYPE_F32, c, 0);
    Pair bias = with_bias ? normal(DTYPE_F32, c, 0) : pair_none();
    for (int64_t i = 0; i < n * c; i++) floats(x)[i] = floats(x)[i] * 1.5f + 0.5f;
    pair_upload(&rig, x);
    layernorm_forward(rig.cpu, y.cpu, mean.cpu, rstd.cpu, x.cpu, gain.cpu, bias.cpu);
    layernorm_forward(rig.cuda, y.cuda, mean.cuda, rstd.cuda, x.cuda, gain.cuda, bias.cuda);
    expect("layernorm_forward mean", mean, f32_error(c, 4));
    expect("layernorm_forward rstd", rstd, f32_error(c, 8));
    expect("layernorm_forward y", y, error_in(type, c, 12));

    pair_upload(&rig, mean);
    pair_upload(&rig, rstd);
    Pair dy = normal(type, n, c), dresidual = normal(type, n, c), dx = poisoned(type, n, c);
    Pair dgain = normal(DTYPE_F32, c, 0), dbias = with_bias ? normal(DTYPE_F32, c, 0) : pair_none();
    for (int time = 0; time < 3; time++) { /* without a residual, with one, with one in place */
        Pair past = time ? dresidual : pair_none(), to = time == 2 ? dresidual : dx;
        layernorm_backward(rig.cpu, to.cpu, dgain.cpu, dbias.cpu, past.cpu, dy.cpu, x.cpu, mean.cpu, rstd.cpu,
                           gain.cpu);
        layernorm_backward(rig.cuda, to.cuda, dgain.cuda, dbias.cuda, past.cuda, dy.cuda, x.cuda, mean.cuda, rstd.cuda,
                           gain.cuda);
        /* a row of one number has no gradient: what is left are roundings of rstd dy gain */
        if (c > 1) expect("layernorm_backward dx", to, error_in(type, c, 32));
        expect("layernorm_backward dgain", dgain, f32_error(n, 16));
        if (with_bias) expect("layernorm_backward dbias", dbias, f32_error(n, 4));
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
    residual_forward(rig.cuda, out[0][0].cuda, x.cuda, branch.cuda, drop);
    layernorm_forward(rig.cuda, out[0][1].cuda, out[0][2].cuda, out[0][3].cuda, out[0][0].cuda, gain.cuda, bias.cuda);
    residual_layernorm_forward(rig.cuda, sum.cuda, out[1][1].cuda, out[1][2].cuda, out[1][3].cuda, x.cuda, branch.cuda,
                               gain.cuda, bias.cuda, drop);
    expect("residual_layernorm_forward sum", sum, error_in(type, 0, 4));
    expect_same_bits(&rig, "residual_layernorm_forward sum", sum, out[0][0]);
    expect_same_bits(&rig, "residual_layernorm_forward y", out[1][1], out[0][1]);
    expect_same_bits(&rig, "residual_layernorm_forward mean", out[1][2], out[0][2]);
    expect_same_bits(&rig, "residual_layernorm_forward rstd", out[1][3], out[0][3]);
}

static void check_layernorms(DType type) {
    static const int64_t sizes[][2] = {{1, 1}, {1, 8}, {5, 77}, {7, 128}, {3, 1280}, {2, 1283}, {2100, 24}};
    for (int i = 0; i < 7; i++) {
        check_layernorm(type, sizes[i][0], sizes[i][1], i == 3, i % 2);
        check_layernorm(type, sizes[i][0], sizes[i][1], false, i % 2 == 0);
        check_residual_layernorm(type, sizes[i][0], sizes[i][1], i % 2 ? 0.3f : 0, i % 3, i % 2 == 0);
    }
    check_residual_layernorm(type, 9, 768, 0.1f, true, false);
}

static void layernorm(void **state) {
    (void)state;
    in_every_type(check_layernorms);
}

/* Cross-entropy. */

/* Rows without a target, rows whose largest logit comes twice, and, in every fourth row, logits of -infinity at the
 * beginning: as many as whole threads see. */
static Pair targets_for(Pair logits, float spread) {
    int64_t n = logits.cpu.dims[0], classes = logits.cpu.dims[1], masked = classes / 2;
    Pair target = pair_below(&rig, n, (int32_t)classes);
    int32_t *id = target.cpu.data;
    for (int64_t i = 0; i < n; i++) {
        float *z = floats(logits) + i * classes;
        if (i % 5 == 1) id[i] = -1 - (int32_t)i;
        if (i % 3 == 2) z[classes / 3] = z[classes - 1] = 5 * spread;
        if (i % 3 == 2 && id[i] >= 0) id[i] = (int32_t)(i % 2 ? classes / 3 : classes - 1);
        for (int64_t j = 0; i % 4 == 3 && j < masked; j++) z[j] = -INFINITY;
        if (i % 4 == 3 && id[i] >= 0 && id[i] < masked) id[i] = (int32_t)(classes - 1);
    }
    pair_upload(&rig, logits);
    pair_upload(&rig, target);
    return target;
}

/* A probability has the error of its sum, and so has the loss, its logarithm. */
static void check_classes(DType type, int64_t n, int64_t classes, float spread) {
    const float scale = 0.7f;
    Pair logits = pair_normal(&rig, type, n, classes, spread), target = targets_for(logits, spread);
    Pair loss = poisoned(DTYPE_F32, n, 0), correct = poisoned(DTYPE_F32, n, 0);
    Pair scaling = poisoned(DTYPE_F32, LOSS_SCALE_FIELDS, 0);
    memcpy(scaling.cpu.data, (float[]){256, 3, 4, 5}, LOSS_SCALE_FIELDS * sizeof(float));
    pair_upload(&rig, scaling);
    cross_entropy_forward(rig.cpu, loss.cpu, correct.cpu, logits.cpu, target.cpu);
    cross_entropy_forward(rig.cuda, loss.cuda, correct.cuda, logits.cuda, target.cuda);
    expect("cross_entropy_forward loss", loss, f32_error(classes, 16));
    expect("cross_entropy_forward correct", correct, 0);
    for (int with_scale = 0; with_scale < 2; with_scale++) {
        Pair factor = with_scale ? scaling : pair_none(), loss2 = poisoned(DTYPE_F32, n, 0);
        Pair correct2 = poisoned(DTYPE_F32, n, 0);
        pair_upload(&rig, logits); /* the gradients of the first time, rounded, as logits */
        cross_entropy_forward_backward(rig.cpu, loss2.cpu, correct2.cpu, logits.cpu, target.cpu, scale, factor.cpu);
        cross_entropy_forward_backward(rig.cuda, loss2.cuda, correct2.cuda, logits.cuda, target.cuda, scale,
                                       factor.cuda);
        expect("cross_entropy_forward_backward loss", loss2, f32_error(classes, 16));
        expect("cross_entropy_forward_backward correct", correct2, 0);
        expect("cross_entropy_forward_backward dlogits", logits, error_in(type, classes, 16));
    }
}

static void check_cross_entropies(DType type) {
    check_classes(type, 3, 1, 1);
    check_classes(type, 9, 2, 1);
    check_classes(type, 23, 7, 2);
    check_classes(type, 12, 1003, 2);
    check_classes(type, 11, 129, 20); /* exponentials down to nothing */
    check_classes(type, 4, 8194, 3);
}

static void cross_entropy(void **state) {
    (void)state;
    in_every_type(check_cross_entropies);
}

/* A NaN comes out in its row's loss and gradient, and in no other's. */
static void check_nan(DType type) {
    const int64_t n = 3, classes = 83;
    for (int64_t at = 0; at < classes; at += 41) {
        Pair logits = normal(type, n, classes), loss = poisoned(DTYPE_F32, n, 0), correct = poisoned(DTYPE_F32, n, 0);
        Pair total = poisoned(DTYPE_F32, 1, 0);
        floats(logits)[classes + at] = NAN;
        pair_upload(&rig, logits);
        cross_entropy_forward_backward(rig.cuda, loss.cuda, correct.cuda, logits.cuda, pair_below(&rig, n, 83).cuda, 1,
                                       tensor_none());
        sum_forward(rig.cuda, total.cuda, loss.cuda);
        float *losses = pair_download(&rig, loss), *gradient = pair_download(&rig, logits);
        float *sum = pair_download(&rig, total);
        for (int64_t i = 0; i < n; i++) assert_true(isnan(losses[i]) == (i == 1));
        for (int64_t i = 0; i < n * classes; i++) assert_true(isnan(gradient[i]) == (i / classes == 1));
        assert_true(isnan(*sum));
        free(losses);
        free(gradient);
        free(sum);
    }
}

static void nan_comes_out(void **state) {
    (void)state;
    in_every_type(check_nan);
}

/* Sums and norms. */

static void check_sums(DType type) {
    (void)type;
    static const int64_t sizes[] = {0, 1, 17, 1003, 4096, 20011};
    for (int i = 0; i < 6; i++) {
        Pair x = normal(DTYPE_F32, sizes[i], 0), out = poisoned(DTYPE_F32, 1, 0);
        sum_forward(rig.cpu, out.cpu, x.cpu);
        sum_forward(rig.cuda, out.cuda, x.cuda);
        expect("sum_forward", out, 2 * U);
    }
}

enum { PARAMS = 20011, MANY = 300 };
static const Segment few[] = {{0, 5, 0.1f}, {16, 9000, 0}, {9001, 9001, 0}, {9010, PARAMS - 3, 0.5f}};

/* 300 segments of 1 to 60 elements with gaps between them: more than one launch takes. */
static const Segment *many_segments(void) {
    static Segment many[MANY];
    for (int i = 0; i < MANY; i++) many[i] = (Segment){66 * i, 66 * i + 1 + 7 * i % 60, 0.01f * (float)(i % 3)};
    return many;
}

/* Gradients that are NaN where no segment is: they must not enter the norm, nor change a parameter. */
static Pair gradients(const Segment *segments, int n, float scale) {
    Pair all = pair_normal(&rig, DTYPE_F32, PARAMS, 0, scale), g = poisoned(DTYPE_F32, PARAMS, 0);
    for (int s = 0; s < n; s++)
        for (int64_t i = segments[s].begin; i < segments[s].end; i++) floats(g)[i] = floats(all)[i];
    pair_upload(&rig, g);
    return g;
}

static void check_norm(const Segment *segments, int n, float scale) {
    Pair g = gradients(segments, n, scale), norm = poisoned(DTYPE_F32, 1, 0);
    Pair loss_scale = poisoned(DTYPE_F32, LOSS_SCALE_FIELDS, 0);
    floats(loss_scale)[LOSS_SCALE_FACTOR] = 1024;
    pair_upload(&rig, loss_scale);
    for (int with_scale = 0; with_scale < 2; with_scale++) {
        Pair factor = with_scale ? loss_scale : pair_none();
        global_norm(rig.cpu, norm.cpu, g.cpu, factor.cpu, segments, n);
        global_norm(rig.cuda, norm.cuda, g.cuda, factor.cuda, segments, n);
        expect("global_norm", norm, 4 * U);
    }
    Pair moved = shifted(g, PARAMS - 1, 0);
    global_norm(rig.cpu, norm.cpu, moved.cpu, tensor_none(), (Segment[]){{16, 4000, 0}}, 1);
    global_norm(rig.cuda, norm.cuda, moved.cuda, tensor_none(), (Segment[]){{16, 4000, 0}}, 1);
    if (n == 4) expect("global_norm of a shifted buffer", norm, 4 * U);
}

static void check_norms(DType type) {
    (void)type;
    check_norm(few, 4, 1);
    check_norm(few, 4, 1e20f); /* squares that float cannot hold */
    check_norm(few, 4, 1e-25f);
    check_norm(many_segments(), MANY, 1);
    check_norm(few, 0, 1);
    Pair g = gradients(few, 4, 1), norm = poisoned(DTYPE_F32, 1, 0);
    for (int i = 0; i < 2; i++) {
        floats(g)[100] = i ? NAN : INFINITY;
        pair_upload(&rig, g);
        global_norm(rig.cuda, norm.cuda, g.cuda, tensor_none(), few, 4);
        float *got = pair_download(&rig, norm);
        assert_false(isfinite(*got));
        free(got);
    }
}

static void sums_and_norms(void **state) {
    (void)state;
    run(check_sums, DTYPE_F32);
    run(check_norms, DTYPE_F32);
}

/* The optimizer. */

/* Two updates, so that the second sees what the first left. The copy, if any, is the new parameters rounded, and where
 * no segment is, what it was: NaN. */
static void check_updates(DType type, const Segment *segments, int n, AdamW o, float factor, bool shift, float norm) {
    Pair p = normal(DTYPE_F32, PARAMS, 0), m = normal(DTYPE_F32, PARAMS, 0), v = normal(DTYPE_F32, PARAMS, 0);
    Pair g = shift ? normal(DTYPE_F32, PARAMS, 0) : gradients(segments, n, factor > 0 ? factor : 1),
         length = number(norm);
    Pair copy = type == DTYPE_F32 ? pair_none() : poisoned(type, PARAMS, 0);
    Pair loss_scale = factor > 0 ? poisoned(DTYPE_F32, LOSS_SCALE_FIELDS, 0) : pair_none();
    for (int64_t i = 0; i < PARAMS; i++) floats(v)[i] *= floats(v)[i];
    pair_upload(&rig, v);
    if (factor > 0) {
        memcpy(loss_scale.cpu.data, (float[]){factor, 0, 41, 2}, LOSS_SCALE_FIELDS * sizeof(float));
        pair_upload(&rig, loss_scale);
    }
    if (shift) {
        p = shifted(p, PARAMS - 1, 0), m = shifted(m, PARAMS - 1, 0), v = shifted(v, PARAMS - 1, 0);
        g = shifted(g, PARAMS - 1, 0);
        copy = type == DTYPE_F32 ? copy : shifted(copy, PARAMS - 1, 0);
    }
    for (int time = 0; time < 2; time++, o.step++) {
        adamw_update(rig.cpu, p.cpu, tensor_none(), m.cpu, v.cpu, g.cpu, length.cpu, loss_scale.cpu, segments, n, o);
        adamw_update(rig.cuda, p.cuda, copy.cuda, m.cuda, v.cuda, g.cuda, length.cuda, loss_scale.cuda, segments, n, o);
        expect("adamw_update params", p, 16 * U);
        expect("adamw_update m", m, 16 * U);
        expect("adamw_update v", v, 16 * U);
    }
    if (type == DTYPE_F32) return;
    float *params = pair_download(&rig, p), *copied = pair_download(&rig, copy);
    for (int64_t s = 0, i = 0; i < tensor_numel(p.cuda); i++) {
        while (s < n && i >= segments[s].end) s++;
        bool updated = s < n && i >= segments[s].begin && isfinite(norm);
        if (updated ? copied[i] != through_type(type, params[i]) : !isnan(copied[i]))
            fail_msg("the copy of parameter %lld is %g, the parameter %g", (long long)i, (double)copied[i],
                     (double)params[i]);
    }
    free(params);
    free(copied);
}

static void check_adamw(DType type) {
    const AdamW plain = {0.05f, 0.9f, 0.999f, 1e-3f, 0, 1}, clipped = {0.05f, 0.8f, 0.95f, 1e-8f, 1.0f, 7};
    check_updates(type, few, 4, plain, 0, false, 3);
    check_updates(type, few, 4, clipped, 0, false, 3);
    check_updates(type, few, 4, clipped, 1024, false, 0.5f); /* the step is the scale's, not the options' */
    check_updates(type, (Segment[]){{3, 5000, 0.1f}}, 1, clipped, 0, true, 3);
    check_updates(type, many_segments(), MANY, plain, 0, false, 3);
    check_updates(type, few, 4, clipped, 1024, false, INFINITY);
    check_updates(type, few, 4, clipped, 0, false, NAN);
}

static void adamw(void **state) {
    (void)state;
    in_every_type(check_adamw);
}

static void check_loss_scale(DType type) {
    (void)type;
    static const float norms[] = {1, 2, INFINITY, NAN, 1};
    Pair scale = poisoned(DTYPE_F32, LOSS_SCALE_FIELDS, 0);
    memcpy(scale.cpu.data, (float[]){65536, 1998, 5000, 3}, LOSS_SCALE_FIELDS * sizeof(float));
    pair_upload(&rig, scale);
    for (int i = 0; i < 5; i++) {
        Pair norm = number(norms[i]);
        loss_scale_update(rig.cpu, scale.cpu, norm.cpu);
        loss_scale_update(rig.cuda, scale.cuda, norm.cuda);
        expect("loss_scale_update", scale, 0);
    }
}

static void loss_scale(void **state) {
    (void)state;
    run(check_loss_scale, DTYPE_F32);
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

static void wrong_target(void *argument) {
    (void)argument;
    Pair target = pair_integers(&rig, (int32_t[]){7, 1}, 2);
    cross_entropy_forward(rig.cuda, poisoned(DTYPE_F32, 2, 0).cuda, poisoned(DTYPE_F32, 2, 0).cuda,
                          normal(DTYPE_F32, 2, 7).cuda, target.cuda);
    rig.cuda->synchronize(rig.cuda);
}

static void indices_outside_die(void **state) {
    (void)state;
    if (!emulate_set_seed) skip(); /* a real GPU's state does not survive a fork */
    static void (*const wrong[])(void *) = {wrong_row, wrong_id, wrong_target};
    static const char *const messages[] = {"rows[1] is 5, expected less than 5 and not negative",
                                           "ids[1] is -1, expected less than 6 and not negative",
                                           "targets[0] is 7, expected less than 7 and not negative"};
    for (int i = 0; i < 3; i++) {
        char output[4096];
        assert_int_not_equal(run_function(output, sizeof output, wrong[i], NULL), 0);
        assert_contains(output, messages[i]);
    }
}

static int open_rig(void **state) {
    (void)state;
    rig = rig_open(DTYPE_BF16);
    return 0;
}

static int close_rig(void **state) {
    (void)state;
    rig_close(&rig);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise),         cmocka_unit_test(rows),          cmocka_unit_test(embedding),
        cmocka_unit_test(layernorm),           cmocka_unit_test(cross_entropy), cmocka_unit_test(nan_comes_out),
        cmocka_unit_test(sums_and_norms),      cmocka_unit_test(adamw),         cmocka_unit_test(loss_scale),
        cmocka_unit_test(indices_outside_die),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
