/* Losses and their gradients, sums, norms and the optimizer on the cuda device, against the cpu's, on a GPU or on the
 * emulator. */
#include "tests/cuda/schedules.h"
#include "tests/norm.h"

#include <float.h>

static Pair number(float x) {
    Pair p = poisoned(DTYPE_F32, 1, 0);
    *floats(p) = x;
    pair_upload(&rig, p);
    return p;
}

/* Cross-entropy. */

static Pair some_scaling(void) {
    Pair scaling = poisoned(DTYPE_F32, LOSS_SCALE_FIELDS, 0);
    memcpy(scaling.cpu.data, (float[]){256, 3, 4, 5}, LOSS_SCALE_FIELDS * sizeof(float));
    pair_upload(&rig, scaling);
    return scaling;
}

/* Rows without a target, rows whose largest logit comes twice, and logits of -infinity. */
#define ODD "odd=1 random=1 "

/* Padding is not read, and gets the gradient 0. */
static void check_padding(DType type, int64_t n, int64_t classes, int64_t columns) {
    Pair logits = normal(type, n, columns), target = pair_below(&rig, n, (uint32_t)classes), scale = number(0.7f),
         loss = poisoned(DTYPE_F32, n, 0), correct = poisoned(DTYPE_F32, n, 0);
    for (int64_t i = 0; i < n * columns; i++)
        if (i % columns >= classes) floats(logits)[i] = NAN;
    ((int32_t *)target.cpu.data)[n - 1] = -1;
    pair_upload(&rig, logits);
    pair_upload(&rig, target);
    cross_entropy_forward_backward(rig.cpu, loss.cpu, correct.cpu, logits.cpu, classes, target.cpu, tensor_none(),
                                   scale.cpu, tensor_none());
    cross_entropy_forward_backward(rig.cuda, loss.cuda, correct.cuda, logits.cuda, classes, target.cuda, tensor_none(),
                                   scale.cuda, tensor_none());
    check_output("cross_entropy_forward_backward loss beside padding", loss, sum_error(classes, 16));
    check_output("cross_entropy_forward_backward dlogits beside padding", logits, error_in(type, classes, 16));
    float *got = pair_download(&rig, logits);
    for (int64_t i = 0; i < n * columns; i++) assert_true(i % columns < classes || got[i] == 0);
    free(got);
}

TEST_IN_EVERY_TYPE(cross_entropy) {
    check_padding(type, 3, 8, 8);
    check_padding(type, 3, 1, 8);
    check_padding(type, 5, 83, 88);
    check_padding(type, 4, 1003, 1008);
    ops_on_both(type, "cross_entropy_forward cross_entropy_forward_backward",
                "n=3 v=1 weights:none|n=9 v=2|n=23 v=7 spread=2 weights:none|n=23 v=6 spread=2|n=12 v=1003 spread=2|"
                "n=11 v=129 spread=20 weights:none|n=4 v=8194 spread=3 weights:none", /* exponentials down to nothing */
                ODD "|scaled=1 " ODD);
}

/* A NaN comes out in its row's loss and gradient, and in no other's. */
TEST_IN_EVERY_TYPE(nan_comes_out) {
    const int64_t n = 3, classes = 83;
    for (int64_t at = 0; at < classes; at += 41) {
        Pair logits = normal(type, n, classes), loss = poisoned(DTYPE_F32, n, 0), correct = poisoned(DTYPE_F32, n, 0);
        Pair total = poisoned(DTYPE_F32, 1, 0);
        floats(logits)[classes + at] = NAN;
        pair_upload(&rig, logits);
        cross_entropy_forward_backward(rig.cuda, loss.cuda, correct.cuda, logits.cuda, logits.cuda.dims[1],
                                       pair_below(&rig, n, 83).cuda, tensor_none(), number(1).cuda, tensor_none());
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

TEST_IN_EVERY_TYPE(squared_error) {
    ops_on_both(type, "squared_error_forward squared_error_forward_backward",
                "n=0 c=8|n=1 c=1|n=37 c=16|n=19 c=77|n=3 c=1280|n=130 c=8", "|scaled=1|shift=1|shift=1 scaled=1");
}

/* Logits as far out as f16 goes, but none whose exponential has lost digits. */
TEST_IN_EVERY_TYPE(binary_cross_entropy) {
    ops_on_both(type, "binary_cross_entropy_forward binary_cross_entropy_forward_backward",
                "n=0 spread=20|n=1 spread=2|n=5 spread=20|n=64 spread=2|n=257 spread=20|n=600 spread=2",
                "odd=1|odd=1 scaled=1");
}

TEST_IN_EVERY_TYPE(soft_cross_entropy) {
    ops_on_both(type, "soft_cross_entropy_forward soft_cross_entropy_forward_backward",
                "n=0 v=3|n=3 v=1|n=130 v=2|n=300 v=3 spread=2|n=23 v=31 spread=20|n=12 v=129 spread=2",
                ODD "|scaled=1 " ODD);
}

/* NT-Xent. */

/* Rows of length one: a score has the error of a product of that size, over the temperature, and is
 * an exponent in sums over n. A gradient is a sum of rows with weights around zero, each up to 2 off by such an error.
 */
static void check_nt_xent(int64_t n, int64_t c, float temperature, bool shift) {
    Pair x = normal(DTYPE_F32, n, c), z = shift ? shifted(poisoned(DTYPE_F32, n * c + 1, 0), n, c) : x;
    Pair loss = poisoned(DTYPE_F32, n, 0), lse = poisoned(DTYPE_F32, n, 0), dz = poisoned(DTYPE_F32, n, c);
    Pair norm = poisoned(DTYPE_F32, n, 0), scale = number(0.7f), scaling = some_scaling();
    normalize_rows_forward(rig.cpu, z.cpu, norm.cpu, x.cpu);
    pair_upload(&rig, z);
    double tolerance = sum_error(c, 4) / (double)temperature + sum_error(n, 16);
    nt_xent_forward(rig.cpu, loss.cpu, lse.cpu, z.cpu, temperature);
    nt_xent_forward(rig.cuda, loss.cuda, lse.cuda, z.cuda, temperature);
    check_output("nt_xent_forward loss", loss, tolerance);
    check_output("nt_xent_forward lse", lse, tolerance);
    pair_upload(&rig, lse);
    for (int with_scale = 0; with_scale < 2; with_scale++) {
        Pair factor = with_scale ? scaling : pair_none();
        nt_xent_backward(rig.cpu, dz.cpu, z.cpu, lse.cpu, temperature, scale.cpu, factor.cpu);
        nt_xent_backward(rig.cuda, dz.cuda, z.cuda, lse.cuda, temperature, scale.cuda, factor.cuda);
        double factor_of = 0.7 * (with_scale ? (double)floats(scaling)[LOSS_SCALE_FACTOR] : 1);
        check_output_least("nt_xent_backward dz", dz, 2 * tolerance, factor_of / (double)temperature / sqrt((double)c));
    }
}

TEST_IN_F32(nt_xent) {
    (void)type;
    check_nt_xent(0, 8, 1, false);
    check_nt_xent(2, 1, 1, false);
    check_nt_xent(8, 6, 0.07f, false);
    check_nt_xent(38, 36, 0.5f, true);    /* rows of the last block that are not there */
    check_nt_xent(22, 132, 0.07f, false); /* a slice of columns and a chunk with a rest */
    check_nt_xent(266, 36, 0.07f, false); /* two tiles, partners in either */
}

/* Sums and norms. */

static void check_sums(DType type) { ops_on_both(type, "sum_forward", "n=0|n=1|n=17|n=1003|n=4096|n=20011", ""); }

enum { PARAMS = 9011, MANY = 150 };
static const Segment few[] = {{0, 5, 0.1f, 0.05f, .group = 0},
                              {16, 5000, 0, 0.0125f, .group = 0},
                              {5001, 5001, 0, 0.05f, .group = 0},
                              {5010, PARAMS - 3, 0.5f, 0.075f, .group = 1}};

/* 150 segments of 1 to 59 elements with gaps between them: more than one launch takes. */
static const Segment *many_segments(void) {
    static Segment many[MANY];
    for (int i = 0; i < MANY; i++)
        many[i] = (Segment){60 * i, 60 * i + 1 + 7 * i % 59, 0.01f * (float)(i % 3), 0.05f * (1 + (float)(i % 5)),
                            .group = 0};
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
        check_output("global_norm", norm, 4 * U);
    }
    Pair moved = shifted(g, PARAMS - 1, 0);
    global_norm(rig.cpu, norm.cpu, moved.cpu, tensor_none(), (Segment[]){{16, 4500, 0, 1, .group = 0}}, 1);
    global_norm(rig.cuda, norm.cuda, moved.cuda, tensor_none(), (Segment[]){{16, 4500, 0, 1, .group = 0}}, 1);
    if (n == 4) check_output("global_norm of a shifted buffer", norm, 4 * U);
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

/* Squares summed range by range give the bits of those summed at once, in which gradients outside are not read. */
static void check_ranges(const Segment *segments, int n) {
    static const int64_t cuts[] = {0, 6, 4096, 4100, 5010, 8192, PARAMS};
    enum { CUTS = sizeof cuts / sizeof *cuts };
    Pair all = pair_normal(&rig, DTYPE_F32, PARAMS, 0, 1), whole = number(0), norm = number(0);
    Pair squares = poisoned(DTYPE_F32, NORM_FLOATS * norm_parts(segments, n), 0);
    global_norm(rig.cuda, whole.cuda, all.cuda, tensor_none(), segments, n);
    for (int i = 0; i < CUTS - 1; i++) {
        Pair g = poisoned(DTYPE_F32, PARAMS, 0);
        for (int s = 0; s < n; s++) {
            NormPieces p = norm_pieces(&segments[s], cuts[i], cuts[i + 1]);
            for (int64_t e = p.first * NORM_PIECE; e < p.end * NORM_PIECE; e++)
                if (e >= segments[s].begin && e < segments[s].end) floats(g)[e] = floats(all)[e];
        }
        pair_upload(&rig, g);
        sum_squares(rig.cuda, squares.cuda, g.cuda, segments, n, cuts[i], cuts[i + 1]);
    }
    finish_norm(rig.cuda, norm.cuda, squares.cuda, tensor_none());
    expect_same_bits(&rig, "a norm of ranges", norm, whole);
}

static void check_norms_of_ranges(DType type) {
    Segment mixed[4] = {few[3], few[0], few[2], few[1]};
    (void)type;
    check_ranges(few, 4);
    check_ranges(mixed, 4);
    check_ranges(many_segments(), MANY);
}

TEST(sums_and_norms) {
    run_check(check_sums, DTYPE_F32);
    run_check(check_norms, DTYPE_F32);
    run_check(check_norms_of_ranges, DTYPE_F32);
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
        adamw_update(rig.cpu, (AdamWBuffers){.params = p.cpu, .m = m.cpu, .v = v.cpu, .grads = g.cpu}, length.cpu,
                     loss_scale.cpu, segments, n, o);
        adamw_update(rig.cuda,
                     (AdamWBuffers){.params = p.cuda, .copy = copy.cuda, .m = m.cuda, .v = v.cuda, .grads = g.cuda},
                     length.cuda, loss_scale.cuda, segments, n, o);
        check_output("adamw_update params", p, 16 * U);
        check_output("adamw_update m", m, 16 * U);
        check_output("adamw_update v", v, 16 * U);
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

TEST_IN_EVERY_TYPE(adamw) {
    const AdamW plain = {0.9f, 0.999f, 1e-3f, 0, 1, false}, clipped = {0.8f, 0.95f, 1e-8f, 1.0f, 7, false};
    AdamW coupled = clipped;
    coupled.coupled = true;
    check_updates(type, few, 4, plain, 0, false, 3);
    check_updates(type, few, 4, clipped, 0, false, 3);
    check_updates(type, few, 4, clipped, 1024, false, 0.5f); /* the step is the scale's, not the options' */
    check_updates(type, (Segment[]){{3, 4500, 0.1f, 0.05f, .group = 0}}, 1, clipped, 0, true, 3);
    check_updates(type, many_segments(), MANY, plain, 0, false, 3);
    check_updates(type, few, 4, coupled, 0, false, 3);
    check_updates(type, few, 4, coupled, 1024, false, 0.5f);
    check_updates(type, few, 4, clipped, 1024, false, INFINITY);
    check_updates(type, few, 4, clipped, 0, false, NAN);
}

/* Rates and a step on the device give the bits of the same numbers in the arguments. */
TEST_IN_EVERY_TYPE(numbers_on_the_device) {
    static const float rates[] = {0.37f, 0, 0.011f};
    for (int coupled = 0; coupled < 2; coupled++) {
        AdamW o = {0.9f, 0.95f, 1e-8f, 1.0f, 9, coupled};
        Pair all[2][5], at = poisoned(DTYPE_F32, 3, 0), step = pair_integers(&rig, (int32_t[]){9}, 1);
        memcpy(floats(at), rates, sizeof rates);
        pair_upload(&rig, at);
        for (int i = 0; i < 2; i++) {
            Segment segments[4];
            Pair *b = all[i]; /* params, m, v, grads, copy */
            rig.draws = 50;
            for (int k = 0; k < 5; k++) b[k] = normal(k < 4 ? DTYPE_F32 : type, PARAMS, 0);
            for (int64_t e = 0; e < PARAMS; e++) floats(b[2])[e] *= floats(b[2])[e];
            pair_upload(&rig, b[2]);
            for (int s = 0; s < 4; s++) {
                segments[s] = few[s];
                segments[s].group = s % 2 ? 2 : 0;
                if (!i) segments[s].learning_rate *= rates[segments[s].group];
            }
            AdamWBuffers of = {.params = b[0].cuda, .m = b[1].cuda, .v = b[2].cuda, .grads = b[3].cuda};
            if (type != DTYPE_F32) of.copy = b[4].cuda;
            if (i) of.rates = at.cuda, of.step = step.cuda.data, o.step = 1;
            adamw_update(rig.cuda, of, number(3).cuda, tensor_none(), segments, 4, o);
        }
        for (int k = 0; k < 3; k++) expect_same_bits(&rig, "adamw with numbers on the device", all[0][k], all[1][k]);
    }
}

TEST_IN_F32(loss_scale) {
    (void)type;
    static const float norms[] = {1, 2, INFINITY, NAN, 1};
    Pair scale = poisoned(DTYPE_F32, LOSS_SCALE_FIELDS, 0);
    memcpy(scale.cpu.data, (float[]){65536, 1998, 5000, 3}, LOSS_SCALE_FIELDS * sizeof(float));
    pair_upload(&rig, scale);
    for (int i = 0; i < 5; i++) {
        Pair norm = number(norms[i]);
        Pair stopped = number(i == 2 ? 1 : 0);
        loss_scale_update(rig.cpu, scale.cpu, norm.cpu, i < 2 ? tensor_none() : stopped.cpu);
        loss_scale_update(rig.cuda, scale.cuda, norm.cuda, i < 2 ? tensor_none() : stopped.cuda);
        check_output("loss_scale_update", scale, 0);
    }
}

/* Every combination of a norm, a sum and what was before. */
TEST_IN_F32(guards) {
    (void)type;
    static const float numbers[] = {2, INFINITY, NAN};
    for (int i = 0; i < 3 * 3 * 2 * 3; i++) {
        Pair norm = number(numbers[i % 3]), stopped = number(i / 18 == 1 ? 1 : 0), sums = normal(DTYPE_F32, 70, 0);
        ((float *)sums.cpu.data)[67] = numbers[i / 3 % 3];
        pair_upload(&rig, sums);
        bool overflow_is_fine = i / 9 % 2, remember = i / 18 < 2;
        norm_guard(rig.cpu, norm.cpu, remember ? stopped.cpu : tensor_none(), sums.cpu, overflow_is_fine);
        norm_guard(rig.cuda, norm.cuda, remember ? stopped.cuda : tensor_none(), sums.cuda, overflow_is_fine);
        float *got = pair_download(&rig, norm), want = *floats(norm);
        if (isnan(want) ? !isnan(*got) : *got != want)
            fail_msg("norm_guard: %g, expected %g", (double)*got, (double)want);
        free(got);
        check_output("norm_guard stopped", stopped, 0);
    }
}

static void check_copies(const Segment *segments, int n, bool shift) {
    static const float norms[] = {INFINITY, NAN, 0};
    for (int i = 0; i < 4; i++) { /* the last without one */
        Pair to = normal(DTYPE_F32, PARAMS, 0), from = normal(DTYPE_F32, PARAMS, 0);
        Pair norm = i < 3 ? number(norms[i]) : pair_none();
        if (shift) to = shifted(to, PARAMS - 1, 0), from = shifted(from, PARAMS - 1, 0);
        copy_segments(rig.cpu, to.cpu, from.cpu, norm.cpu, segments, n);
        copy_segments(rig.cuda, to.cuda, from.cuda, norm.cuda, segments, n);
        check_output("copy_segments", to, 0);
    }
}

TEST_IN_F32(copies) {
    (void)type;
    check_copies(few, 4, false);
    check_copies(many_segments(), MANY, false);
    check_copies((Segment[]){{3, 4500, 0, 1, .group = 0}}, 1, true);
    check_copies(few, 0, false);
}

/* Segments of which only some rows take part, for either device, and the same without masks: rows whose ends cut packs,
 * rows of whole packs, single numbers, and two rows about as long as a piece of a block. Blocks begin inside of rows.
 */
enum { MASKED = 6 };
typedef struct {
    Segment cpu[MASKED], cuda[MASKED], plain[MASKED];
} Masked;

static Masked masked_segments(void) {
    static const int64_t ranges[MASKED][3] = {{3, 1500, 7},    {1504, 4700, 20},   {4704, 4900, 1},
                                              {4900, 4996, 6}, {5008, 9000, 3600}, {9000, 9009, 0}};
    Masked s;
    for (int i = 0; i < MASKED; i++) {
        int64_t begin = ranges[i][0], end = ranges[i][1], width = ranges[i][2];
        s.plain[i] = s.cpu[i] = s.cuda[i] = (Segment){.begin = begin,
                                                      .end = end,
                                                      .weight_decay = 0.1f * (float)(i % 2),
                                                      .learning_rate = 0.05f * (0.5f + (float)i),
                                                      .group = i};
        if (!width) continue;
        int64_t n = (end - begin + width - 1) / width, count = 0;
        Pair mask = poisoned(DTYPE_F32, n / 4 + 1, 0);
        uint8_t *used = mask.cpu.data;
        for (int64_t r = 0; r < n; r++) {
            int64_t left = end - begin - r * width;
            used[r] = n == 2 ? r == 0 : philox_bits(3, PURPOSE_TEST, (uint32_t)i, (uint64_t)r) % 3 == 0;
            count += used[r] ? left < width ? left : width : 0;
        }
        rig.cuda->upload(rig.cuda, mask.cuda.data, used, (size_t)n);
        s.cpu[i].used = used;
        s.cuda[i].used = mask.cuda.data;
        s.cpu[i].width = s.cuda[i].width = width;
        s.cpu[i].count = s.cuda[i].count = count;
    }
    return s;
}

static bool takes_part(const Masked *s, int64_t e) {
    for (int i = 0; i < MASKED; i++)
        if (e >= s->cpu[i].begin && e < s->cpu[i].end)
            return !s->cpu[i].used || s->cpu[i].used[(e - s->cpu[i].begin) / s->cpu[i].width];
    return false;
}

/* Fails unless numbers that take part have the bits of `want`, all others those of `before`. */
static void expect_masked(const char *what, const Masked *s, Pair got, Pair want, Pair before) {
    float *a = pair_download(&rig, got), *b = pair_download(&rig, want), *c = pair_download(&rig, before);
    for (int64_t e = 0; e < PARAMS; e++)
        if (memcmp(&a[e], takes_part(s, e) ? &b[e] : &c[e], sizeof *a))
            fail_msg("%s, element %lld: %g", what, (long long)e, (double)a[e]);
    free(a), free(b), free(c);
}

/* An update with masks, where gradients that are left out are NaN, and one without, where they are 0. */
static void check_masked_updates(DType type, const Masked *s) {
    const AdamW o = {0.8f, 0.95f, 1e-8f, 1.0f, 7, false};
    const AdamWBuffers nothing = {.copy = tensor_none()};
    AdamWBuffers with[2] = {nothing, nothing}; /* on the cuda device, masked and plain */
    Pair all[2][5], before = normal(DTYPE_F32, PARAMS, 0), norm[2], zeros = poisoned(DTYPE_F32, PARAMS, 0);
    for (int i = 0; i < 2; i++) {
        Pair *b = all[i]; /* params, m, v, grads, copy */
        rig.draws = 50;
        for (int k = 0; k < 5; k++) b[k] = normal(k < 4 ? DTYPE_F32 : type, PARAMS, 0);
        for (int64_t e = 0; e < PARAMS; e++) {
            floats(b[0])[e] = floats(before)[e];
            floats(b[2])[e] *= floats(b[2])[e];
            if (!takes_part(s, e)) floats(b[1])[e] = floats(b[2])[e] = 0, floats(b[3])[e] = i ? 0 : NAN;
            floats(b[4])[e] = NAN;
            floats(zeros)[e] = 0;
        }
        for (int k = 0; k < 5; k++) pair_upload(&rig, b[k]);
        norm[i] = poisoned(DTYPE_F32, 1, 0);
        global_norm(rig.cuda, norm[i].cuda, b[3].cuda, tensor_none(), i ? s->plain : s->cuda, MASKED);
        with[i] = (AdamWBuffers){.params = b[0].cuda, .m = b[1].cuda, .v = b[2].cuda, .grads = b[3].cuda};
        if (type != DTYPE_F32) with[i].copy = b[4].cuda;
        adamw_update(rig.cuda, with[i], norm[i].cuda, tensor_none(), i ? s->plain : s->cuda, MASKED, o);
    }
    expect_same_bits(&rig, "global_norm with rows left out", norm[0], norm[1]);
    expect_masked("adamw_update params with rows left out", s, all[0][0], all[1][0], before);
    pair_upload(&rig, zeros);
    for (int k = 1; k < 3; k++)
        expect_masked("adamw_update moments with rows left out", s, all[0][k], all[1][k], zeros);
    Pair none = poisoned(type, PARAMS, 0);
    if (type != DTYPE_F32) expect_masked("adamw_update copy with rows left out", s, all[0][4], all[1][4], none);
    Pair *b = all[0];
    global_norm(rig.cpu, norm[0].cpu, b[3].cpu, tensor_none(), s->cpu, MASKED);
    adamw_update(rig.cpu, (AdamWBuffers){.params = b[0].cpu, .m = b[1].cpu, .v = b[2].cpu, .grads = b[3].cpu},
                 norm[0].cpu, tensor_none(), s->cpu, MASKED, o);
    check_output("global_norm with rows left out", norm[0], 4 * U);
    for (int k = 0; k < 3; k++) check_output("adamw_update with rows left out", b[k], 16 * U);
}

TEST_IN_EVERY_TYPE(masks) {
    Masked s = masked_segments();
    check_masked_updates(type, &s);
    Pair to = normal(DTYPE_F32, PARAMS, 0), from = normal(DTYPE_F32, PARAMS, 0);
    copy_segments(rig.cpu, to.cpu, from.cpu, tensor_none(), s.cpu, MASKED);
    copy_segments(rig.cuda, to.cuda, from.cuda, tensor_none(), s.cuda, MASKED);
    check_output("copy_segments with rows left out", to, 0);
    clear_segments(rig.cpu, from.cpu, s.cpu, MASKED);
    clear_segments(rig.cuda, from.cuda, s.cuda, MASKED);
    check_output("clear_segments with rows left out", from, 0);
}

TEST(a_target_outside_dies) {
    op_must_die(OP_cross_entropy_forward, "targets[0]=10",
                ": cross_entropy: targets[0] is 10, expected less than 10 and not negative");
    op_must_die(OP_soft_cross_entropy_forward, "labels[1]=10",
                ": soft_cross_entropy: labels[1] is 10, expected less than 10");
}

int main(void) { return tests_run(open_rig, close_rig); }
