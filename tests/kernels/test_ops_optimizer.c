/* The operations of kernels/ops_optimizer.c, on every instruction set of the processor and with 1, 2 and 3 threads,
 * tested as the layers in test_ops_layers.c. */
#include "tests/kernels/ops_rig.h"
#include "tests/norm.h"

/* Sums, norms, the optimizer. */

static void check_sum_matches_the_reference(Rig *rig) {
    for (int64_t n = 1; n <= 100003; n = 10 * n + 7) {
        Tensor x = normal(rig, n, 0), out = poisoned(rig, 1, 0);
        double want = 0;
        for (int64_t i = 0; i < n; i++) want += (double)floats(x)[i];
        sum_forward(rig->device, out, x);
        expect(rig, "sum", out, &want, 2 * U);
    }
}

static const Segment some_segments[] = {{0, 5, 0.1f, 1, .group = 0},
                                        {16, 40000, 0, 0.25f, .group = 0},
                                        {40001, 40001, 0, 1, .group = 0},
                                        {40010, 90001, 0.5f, 1.5f, .group = 1}};
enum { SOME_SEGMENTS = 4, SOME_PARAMS = 90010 };

static bool covered(int64_t i) {
    for (int s = 0; s < SOME_SEGMENTS; s++)
        if (i >= some_segments[s].begin && i < some_segments[s].end) return true;
    return false;
}

/* Returns gradients that are NaN outside the segments, where they must affect neither the norm nor a parameter. */
static Tensor some_gradients(Rig *rig) {
    Tensor grads = normal(rig, SOME_PARAMS, 0);
    for (int64_t i = 0; i < SOME_PARAMS; i++)
        if (!covered(i)) floats(grads)[i] = NAN;
    return grads;
}

static void check_norm_counts_only_the_segments(Rig *rig) {
    Tensor grads = some_gradients(rig), norm = poisoned(rig, 1, 0);
    double squares = 0;
    for (int64_t i = 0; i < SOME_PARAMS; i++)
        if (covered(i)) squares += (double)floats(grads)[i] * (double)floats(grads)[i];
    squares = sqrt(squares);
    global_norm(rig->device, norm, grads, tensor_none(), some_segments, SOME_SEGMENTS);
    expect(rig, "global_norm", norm, &squares, 2 * U);
}

/* Compares the numbers in the segments with `want`; the others must keep every bit of `before`. */
static void expect_updated(Rig *rig, const char *what, Tensor got, Tensor before, const double *want) {
    for (int64_t i = 0; i < SOME_PARAMS; i++)
        if (!covered(i)) assert_memory_equal(&floats(got)[i], &floats(before)[i], sizeof(float));
    expect(rig, what, got, want, 8 * U);
}

static Tensor copied(Rig *rig, Tensor t) {
    Tensor copy = tensor(rig, t.dtype, t.dims[0], 0);
    memcpy(copy.data, t.data, tensor_bytes(t));
    return copy;
}

/* rate: multiplies the learning rates of the segments */
static void check_update(Rig *rig, float rate, AdamW o) {
    Segment segments[SOME_SEGMENTS];
    for (int s = 0; s < SOME_SEGMENTS; s++) {
        segments[s] = some_segments[s];
        segments[s].learning_rate *= rate;
    }
    Tensor p = normal(rig, SOME_PARAMS, 0), m = normal(rig, SOME_PARAMS, 0), v = normal(rig, SOME_PARAMS, 0);
    Tensor g = some_gradients(rig), length = poisoned(rig, 1, 0);
    for (int64_t i = 0; i < SOME_PARAMS; i++) floats(v)[i] *= floats(v)[i];
    Tensor p0 = copied(rig, p), m0 = copied(rig, m), v0 = copied(rig, v);
    double *wp = widened(rig, p), *wm = widened(rig, m), *wv = widened(rig, v);
    global_norm(rig->device, length, g, tensor_none(), some_segments, SOME_SEGMENTS);
    double clip = o.clip > 0 ? fmin(1, (double)o.clip / ((double)floats(length)[0] + 1e-6)) : 1;
    double b1 = (double)o.beta1, b2 = (double)o.beta2;
    for (int s = 0; s < SOME_SEGMENTS; s++) {
        double lr = (double)segments[s].learning_rate;
        for (int64_t i = some_segments[s].begin; i < some_segments[s].end; i++) {
            double gradient = (double)floats(g)[i] * clip, decay = (double)some_segments[s].weight_decay;
            if (o.coupled) gradient += decay * wp[i];
            wm[i] = b1 * wm[i] + (1 - b1) * gradient;
            wv[i] = b2 * wv[i] + (1 - b2) * gradient * gradient;
            if (!o.coupled) wp[i] *= 1 - lr * decay;
            wp[i] -= lr * wm[i] / (1 - pow(b1, (double)o.step)) /
                     (sqrt(wv[i] / (1 - pow(b2, (double)o.step))) + (double)o.epsilon);
        }
    }
    adamw_update(rig->device, (AdamWBuffers){.params = p, .m = m, .v = v, .grads = g}, length, tensor_none(), segments,
                 SOME_SEGMENTS, o);
    if (rate == 0) expect_same(rig, "adamw params with no rate", p, p0);
    expect_updated(rig, "adamw params", p, p0, wp);
    expect_updated(rig, "adamw m", m, m0, wm);
    expect_updated(rig, "adamw v", v, v0, wv);
}

/* Segments that leave out rows, and the same without masks. The first begins anywhere; rows are narrow, as wide as a
 * piece of the norm and more, cut off by the end of their segment, all left out or all there. */
enum { MASKED = 5 };
static void masked_segments(Rig *rig, Segment masked[MASKED], Segment plain[MASKED]) {
    static const int64_t ranges[MASKED][3] = {
        {3, 20001, 7}, {20016, 40016, 1}, {40016, 80016, 16390}, {80016, 80996, 10}, {81000, 90001, 64}};
    for (int s = 0; s < MASKED; s++) {
        int64_t begin = ranges[s][0], end = ranges[s][1], width = ranges[s][2], n = (end - begin + width - 1) / width;
        uint8_t *used = (uint8_t *)doubles(rig, n);
        plain[s] = masked[s] = (Segment){.begin = begin,
                                         .end = end,
                                         .weight_decay = s % 2 ? 0.1f : 0,
                                         .learning_rate = 0.05f * (0.5f + (float)s),
                                         .group = s};
        masked[s].used = used;
        masked[s].width = width;
        for (int64_t r = 0; r < n; r++) {
            uint32_t bits = philox_bits(7, PURPOSE_TEST, (uint32_t)s, (uint64_t)r);
            used[r] = s == 3 ? 0 : s == 4 || bits % 4 == 0 || r == n - 1;
            int64_t left = end - begin - r * width;
            masked[s].count += used[r] ? left < width ? left : width : 0;
        }
    }
}

static bool takes_part(const Segment *segments, int64_t i) {
    for (int s = 0; s < MASKED; s++)
        if (i >= segments[s].begin && i < segments[s].end)
            return !segments[s].used || segments[s].used[(i - segments[s].begin) / segments[s].width];
    return false;
}

/* Fails unless elements that take part have the bits of `want`, and all others those of `before`. */
static void expect_masked(Rig *rig, const char *what, const Segment *masked, Tensor got, Tensor want, Tensor before) {
    for (int64_t i = 0; i < SOME_PARAMS; i++) {
        Tensor from = takes_part(masked, i) ? want : before;
        if (memcmp(&floats(got)[i], &floats(from)[i], sizeof(float)))
            fail_msg("%s, element %lld: %g, expected %g (%s)", what, (long long)i, (double)floats(got)[i],
                     (double)floats(from)[i], rig->device->description);
    }
    hash_output(rig, got);
}

/* Three steps with masks and three without, in which the gradients of rows that are left out are 0. With masks these
 * gradients are NaN: they are not read. Rows that are left out and do not decay end with the same bits, too. */
static void check_rows_left_out_change_no_other_bit(Rig *rig) {
    const AdamW o = {0.9f, 0.95f, 1e-8f, 1.0f, 7, false};
    Segment masked[MASKED], plain[MASKED];
    masked_segments(rig, masked, plain);
    Tensor p = normal(rig, SOME_PARAMS, 0), m = tensor(rig, DTYPE_F32, SOME_PARAMS, 0), v = copied(rig, m);
    Tensor p2 = copied(rig, p), m2 = copied(rig, m), v2 = copied(rig, v), p0 = copied(rig, p), zeros = copied(rig, m);
    for (int step = 0; step < 3; step++) {
        Tensor g = normal(rig, SOME_PARAMS, 0), g2 = copied(rig, g), norm = poisoned(rig, 1, 0);
        Tensor norm2 = poisoned(rig, 1, 0);
        for (int64_t i = 0; i < SOME_PARAMS; i++)
            if (!takes_part(masked, i)) floats(g)[i] = 0, floats(g2)[i] = NAN;
        global_norm(rig->device, norm, g, tensor_none(), plain, MASKED);
        global_norm(rig->device, norm2, g2, tensor_none(), masked, MASKED);
        expect_same(rig, "global_norm with rows left out", norm2, norm);
        adamw_update(rig->device, (AdamWBuffers){.params = p, .m = m, .v = v, .grads = g}, norm, tensor_none(), plain,
                     MASKED, o);
        adamw_update(rig->device, (AdamWBuffers){.params = p2, .m = m2, .v = v2, .grads = g2}, norm2, tensor_none(),
                     masked, MASKED, o);
        expect_masked(rig, "adamw params with rows left out", masked, p2, p, p0);
        expect_same(rig, "adamw m with rows left out", m2, m);
        expect_same(rig, "adamw v with rows left out", v2, v);
        for (int64_t i = masked[2].begin; i < masked[2].end; i++) assert_true(floats(p2)[i] == floats(p)[i]);
        clear_segments(rig->device, g2, masked, MASKED);
        for (int64_t i = 0; i < SOME_PARAMS; i++)
            assert_true(takes_part(masked, i) ? !floats(g2)[i] : isnan(floats(g2)[i]));
    }
    copy_segments(rig->device, p2, zeros, tensor_none(), masked, MASKED);
    expect_masked(rig, "copy_segments with rows left out", masked, p2, zeros, p0);
}

/* Squares that are summed range by range, in any order, give the bits of those that are summed at once; gradients
 * outside of a range are not read. Segments are masked or not, and lie in any order. */
static void check_ranges_of_squares_give_the_same_bits(Rig *rig) {
    static const int64_t cuts[] = {0, 3, 4096, 4097, 20016, 40016, 45056, 77777, 80016, 80996, 90001, SOME_PARAMS};
    enum { CUTS = sizeof cuts / sizeof *cuts };
    Segment masked[MASKED], plain[MASKED];
    masked_segments(rig, masked, plain);
    for (int way = 0; way < 2; way++) {
        const Segment *segments = way ? masked : plain;
        Tensor g = normal(rig, SOME_PARAMS, 0), part = tensor(rig, DTYPE_F32, SOME_PARAMS, 0);
        Tensor squares = poisoned(rig, NORM_FLOATS * norm_parts(segments, MASKED), 0);
        Tensor whole = poisoned(rig, 1, 0), norm = poisoned(rig, 1, 0);
        global_norm(rig->device, whole, g, tensor_none(), segments, MASKED);
        for (int k = CUTS - 2; k >= 0; k--) {
            int i = (5 * k + 3) % (CUTS - 1);
            for (int64_t e = 0; e < SOME_PARAMS; e++) floats(part)[e] = NAN;
            for (int s = 0; s < MASKED; s++) {
                NormPieces p = norm_pieces(&segments[s], cuts[i], cuts[i + 1]);
                int64_t from = p.first * NORM_PIECE, to = p.end * NORM_PIECE;
                for (int64_t e = from; e < to; e++)
                    if (e >= segments[s].begin && e < segments[s].end) floats(part)[e] = floats(g)[e];
            }
            sum_squares(rig->device, squares, part, segments, MASKED, cuts[i], cuts[i + 1]);
        }
        finish_norm(rig->device, norm, squares, tensor_none());
        expect_same(rig, "a norm of ranges", norm, whole);
    }
}

/* Rates and a step that lie on the device give the bits of the same numbers in the arguments. */
static void check_numbers_on_the_device(Rig *rig, bool coupled) {
    float rates[] = {0.37f, 0, 0.011f};
    const uint32_t step = 9;
    AdamW o = {0.9f, 0.95f, 1e-8f, 1.0f, 9, coupled}, other = o;
    Segment by_group[SOME_SEGMENTS], own[SOME_SEGMENTS];
    Tensor p = normal(rig, SOME_PARAMS, 0), m = normal(rig, SOME_PARAMS, 0), v = normal(rig, SOME_PARAMS, 0);
    for (int64_t i = 0; i < SOME_PARAMS; i++) floats(v)[i] *= floats(v)[i];
    Tensor g = some_gradients(rig), p2 = copied(rig, p), m2 = copied(rig, m), v2 = copied(rig, v);
    for (int s = 0; s < SOME_SEGMENTS; s++) {
        by_group[s] = own[s] = some_segments[s];
        by_group[s].group = s % 2 ? 2 : 0;
        own[s].learning_rate *= rates[by_group[s].group];
    }
    other.step = 1;
    AdamWBuffers at = {
        .params = p2, .m = m2, .v = v2, .grads = g, .rates = tensor_1d(rates, DTYPE_F32, 3), .step = &step};
    adamw_update(rig->device, (AdamWBuffers){.params = p, .m = m, .v = v, .grads = g}, number(rig, 3), tensor_none(),
                 own, SOME_SEGMENTS, o);
    adamw_update(rig->device, at, number(rig, 3), tensor_none(), by_group, SOME_SEGMENTS, other);
    expect_same(rig, "adamw params with numbers on the device", p2, p);
    expect_same(rig, "adamw m with numbers on the device", m2, m);
    expect_same(rig, "adamw v with numbers on the device", v2, v);
}

static void check_numbers_can_lie_on_the_device(Rig *rig) {
    check_numbers_on_the_device(rig, false);
    check_numbers_on_the_device(rig, true);
}

static void check_adamw_matches_the_reference(Rig *rig) {
    check_update(rig, 0.05f, (AdamW){0.9f, 0.999f, 1e-3f, 0, 1, false});
    check_update(rig, 0.05f, (AdamW){0.9f, 0.95f, 1e-8f, 1.0f, 7, false});
    check_update(rig, 0.05f, (AdamW){0.8f, 0.99f, 1e-8f, 1e6f, 100000, false});
    check_update(rig, 0, (AdamW){0.9f, 0.999f, 1e-8f, 1.0f, 3, false});
    check_update(rig, 0.05f, (AdamW){0.9f, 0.999f, 1e-8f, 1.0f, 3, true});
    check_update(rig, 0.05f, (AdamW){0.9f, 0.999f, 1e-3f, 0, 1, true});
}

/* Gradients times a power of two, with that loss scale, give the same update to the bit. Gradients that are not finite
 * give no update. */
static void check_scaled_gradients(Rig *rig, bool coupled) {
    Device *device = rig->device;
    const AdamW o = {0.9f, 0.95f, 1e-8f, 1.0f, 7, coupled};
    Tensor scale = tensor(rig, DTYPE_F32, LOSS_SCALE_FIELDS, 0), norm = poisoned(rig, 1, 0),
           scaled = poisoned(rig, 1, 0);
    Tensor p = normal(rig, SOME_PARAMS, 0), m = normal(rig, SOME_PARAMS, 0), v = normal(rig, SOME_PARAMS, 0);
    for (int64_t i = 0; i < SOME_PARAMS; i++) floats(v)[i] *= floats(v)[i];
    Tensor g = some_gradients(rig), p2 = copied(rig, p), m2 = copied(rig, m), v2 = copied(rig, v), g2 = copied(rig, g);
    for (int64_t i = 0; i < SOME_PARAMS; i++) floats(g2)[i] *= 1024;
    floats(scale)[LOSS_SCALE_FACTOR] = 1024;
    floats(scale)[LOSS_SCALE_DONE] = (float)o.step - 1;
    global_norm(device, norm, g, tensor_none(), some_segments, SOME_SEGMENTS);
    global_norm(device, scaled, g2, scale, some_segments, SOME_SEGMENTS);
    expect_same(rig, "global_norm of scaled gradients", scaled, norm);
    adamw_update(device, (AdamWBuffers){.params = p, .m = m, .v = v, .grads = g}, norm, tensor_none(), some_segments,
                 SOME_SEGMENTS, o);
    adamw_update(device, (AdamWBuffers){.params = p2, .m = m2, .v = v2, .grads = g2}, norm, scale, some_segments,
                 SOME_SEGMENTS, o);
    expect_same(rig, "adamw params of scaled gradients", p2, p);
    expect_same(rig, "adamw v of scaled gradients", v2, v);
    floats(norm)[0] = INFINITY;
    adamw_update(device, (AdamWBuffers){.params = p2, .m = m2, .v = v2, .grads = g2}, norm, scale, some_segments,
                 SOME_SEGMENTS, o);
    expect_same(rig, "adamw params after an overflow", p2, p);

    Tensor x = normal(rig, 4, 9), x2 = tensor(rig, DTYPE_F32, 4, 9), loss = poisoned(rig, 4, 0),
           hit = poisoned(rig, 4, 0);
    memcpy(x2.data, x.data, tensor_bytes(x));
    Tensor targets = below(rig, 4, 9);
    Tensor none = tensor_none();
    cross_entropy_forward_backward(device, loss, hit, x, x.dims[1], targets, none, number(rig, 0.5f * 1024), none);
    cross_entropy_forward_backward(device, loss, hit, x2, x2.dims[1], targets, none, number(rig, 0.5f), scale);
    expect_same(rig, "cross_entropy dlogits, scaled", x2, x);
    Tensor soft = normal(rig, 4, 9);
    soft_cross_entropy_forward_backward(device, loss, hit, x, soft, targets, number(rig, 0.5f * 1024), none);
    soft_cross_entropy_forward_backward(device, loss, hit, x2, soft, targets, number(rig, 0.5f), scale);
    expect_same(rig, "soft_cross_entropy dlogits, scaled", x2, x);
    squared_error_forward_backward(device, loss, x, normal(rig, 4, 9), number(rig, 0.5f * 1024), none);
    rig->seed--; /* the same targets again */
    squared_error_forward_backward(device, loss, x2, normal(rig, 4, 9), number(rig, 0.5f), scale);
    expect_same(rig, "squared_error dy, scaled", x2, x);
    Tensor z = normal(rig, 4, 1), z2 = tensor(rig, DTYPE_F32, 4, 1), t = normal(rig, 4, 0);
    memcpy(z2.data, z.data, tensor_bytes(z));
    binary_cross_entropy_forward_backward(device, loss, hit, z, t, t, number(rig, 0.5f * 1024), none);
    binary_cross_entropy_forward_backward(device, loss, hit, z2, t, t, number(rig, 0.5f), scale);
    expect_same(rig, "binary_cross_entropy dlogits, scaled", z2, z);
}

static void check_loss_scale_does_not_change_the_update(Rig *rig) {
    check_scaled_gradients(rig, false);
    check_scaled_gradients(rig, true);
}

static void check_loss_scale_adapts_to_overflow(Rig *rig) {
    Tensor scale = tensor(rig, DTYPE_F32, LOSS_SCALE_FIELDS, 0), norm = tensor(rig, DTYPE_F32, 1, 0);
    const float start[] = {65536, 1998, 5000, 3};
    memcpy(scale.data, start, sizeof start);
    const struct {
        float norm, want[LOSS_SCALE_FIELDS];
    } steps[] = {{1, {65536, 1999, 5001, 3}},
                 {2, {131072, 0, 5002, 3}},
                 {INFINITY, {65536, 0, 5002, 4}},
                 {NAN, {32768, 0, 5002, 5}},
                 {1, {32768, 1, 5003, 5}}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        floats(norm)[0] = steps[i].norm;
        loss_scale_update(rig->device, scale, norm, tensor_none());
        assert_memory_equal(scale.data, steps[i].want, sizeof start);
    }
    Tensor stopped = tensor(rig, DTYPE_F32, 1, 0);
    floats(stopped)[0] = 1;
    floats(norm)[0] = NAN;
    loss_scale_update(rig->device, scale, norm, stopped);
    assert_memory_equal(scale.data, steps[4].want, sizeof start);
    floats(stopped)[0] = 0;
    loss_scale_update(rig->device, scale, norm, stopped);
    assert_true(floats(scale)[LOSS_SCALE_FACTOR] == 16384);
}

static void check_norm_guard_stops_at_what_is_not_finite(Rig *rig) {
    Tensor norm = tensor(rig, DTYPE_F32, 1, 0), stopped = tensor(rig, DTYPE_F32, 1, 0), sums = normal(rig, 40, 0);
    const struct {
        float norm, sum;
        bool overflow_is_fine, remember;
        bool ok, stopped; /* expected */
    } calls[] = {{2, 1, false, true, true, false},          {INFINITY, 1, true, true, false, false},
                 {2, INFINITY, true, false, false, false},  {2, -3, false, true, true, false},
                 {INFINITY, 1, false, false, false, false}, {INFINITY, 1, false, true, false, true},
                 {2, 1, false, true, false, true}};
    for (int last = 0; last < 2; last++) {
        floats(stopped)[0] = 0;
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            floats(norm)[0] = calls[i].norm;
            floats(sums)[last ? 39 : 0] = calls[i].sum;
            norm_guard(rig->device, norm, calls[i].remember ? stopped : tensor_none(), sums, calls[i].overflow_is_fine);
            if (calls[i].ok)
                assert_true(floats(norm)[0] == calls[i].norm);
            else
                assert_false(isfinite(floats(norm)[0]));
            assert_true(floats(stopped)[0] == (calls[i].stopped ? 1 : 0));
        }
        floats(stopped)[0] = 0;
        floats(norm)[0] = 2;
        floats(sums)[last ? 39 : 0] = NAN;
        norm_guard(rig->device, norm, stopped, sums, true);
        assert_true(isnan(floats(norm)[0]) && floats(stopped)[0] == 1);
        floats(sums)[last ? 39 : 0] = 1;
    }
}

static void check_copy_segments_copies_only_the_segments(Rig *rig) {
    Tensor from = normal(rig, SOME_PARAMS, 0), to = normal(rig, SOME_PARAMS, 0), before = copied(rig, to);
    const float norms[] = {INFINITY, NAN, 0, 1};
    for (int i = 0; i < 4; i++) { /* the last call has no norm */
        memcpy(to.data, before.data, tensor_bytes(to));
        copy_segments(rig->device, to, from, i < 3 ? number(rig, norms[i]) : tensor_none(), some_segments,
                      SOME_SEGMENTS);
        for (int64_t e = 0; e < SOME_PARAMS; e++)
            assert_true(floats(to)[e] == floats(i >= 2 && covered(e) ? from : before)[e]);
    }
}

static void check_cast_copies_the_numbers(Rig *rig) {
    Tensor x = normal(rig, 77, 0), y = poisoned(rig, 77, 0);
    cast(rig->device, y, x);
    expect_same(rig, "cast", y, x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ops_test(sum_matches_the_reference),
        ops_test(norm_counts_only_the_segments),
        ops_test(rows_left_out_change_no_other_bit),
        ops_test(ranges_of_squares_give_the_same_bits),
        ops_test(numbers_can_lie_on_the_device),
        ops_test(adamw_matches_the_reference),
        ops_test(loss_scale_does_not_change_the_update),
        ops_test(loss_scale_adapts_to_overflow),
        ops_test(norm_guard_stops_at_what_is_not_finite),
        ops_test(cast_copies_the_numbers),
        ops_test(copy_segments_copies_only_the_segments),
        ops_last_test,
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
