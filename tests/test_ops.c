/* Every operation of the cpu device, on every instruction set that the processor has and with 1, 2 and 3 threads,
 * against plain double-precision references written here, and every backward against central differences of its own
 * forward. Sizes divide no vector and no tile. Overwritten outputs start as NaN, accumulated ones as random numbers;
 * each check runs twice on each device and must give the same bits.
 *
 * Tolerances. U = 2^-24 is the rounding error of one float operation. A sum of K terms of random sign, added in any
 * order, has partial sums of up to sqrt(K) terms' size, each rounded once: a relative error of about U sqrt(K) / 1.4
 * where the terms do not cancel further; 4 U sqrt(K) is taken for the largest of many elements. A chain of c roundings
 * adds c U. Errors are measured against the largest wanted element: a row computed wrongly is as large as that. */
#include "tests/cpu_devices.h"

#include "kernels/ops_table.h"
#include "kernels/philox.h"

#include <float.h>
#include <math.h>

#define U 0x1p-24

static double sum_error(int64_t terms, double roundings) { return (roundings + 4 * sqrt((double)terms)) * U; }

/* One device, the memory of one check (freed with it, each tensor its own block so that AddressSanitizer sees its ends)
 * and a hash of all outputs. */
typedef struct {
    Device *device;
    uint64_t seed, hash;
    void *memory[2048];
    int n_memory;
} Rig;

static void *take(Rig *rig, size_t bytes) {
    assert_true(rig->n_memory < 2048);
    return rig->memory[rig->n_memory++] = xcalloc(1, bytes);
}

static double *doubles(Rig *rig, int64_t n) { return take(rig, (size_t)n * sizeof(double)); }
static float *floats(Tensor t) { return t.data; }
static int32_t *integers(Tensor t) { return t.data; }

/* [rows, columns], or [rows] if columns is 0. */
static Tensor tensor(Rig *rig, DType dtype, int64_t rows, int64_t columns) {
    void *data = take(rig, (size_t)(rows * (columns ? columns : 1)) * 4);
    return columns ? tensor_2d(data, dtype, rows, columns) : tensor_1d(data, dtype, rows);
}

static void poison(Tensor t) {
    for (int64_t i = 0; i < tensor_numel(t); i++) floats(t)[i] = NAN;
}

static Tensor poisoned(Rig *rig, int64_t rows, int64_t columns) {
    Tensor t = tensor(rig, DTYPE_F32, rows, columns);
    poison(t);
    return t;
}

static Tensor number(Rig *rig, float x) {
    Tensor t = tensor(rig, DTYPE_F32, 1, 0);
    floats(t)[0] = x;
    return t;
}

static Tensor normal(Rig *rig, int64_t rows, int64_t columns) {
    Tensor t = tensor(rig, DTYPE_F32, rows, columns);
    rig->seed++;
    for (int64_t i = 0; i < tensor_numel(t); i++) floats(t)[i] = philox_normal(rig->seed, PURPOSE_TEST, 0, (uint64_t)i);
    return t;
}

static Tensor below(Rig *rig, int64_t n, uint32_t limit) {
    Tensor t = tensor(rig, DTYPE_I32, n, 0);
    rig->seed++;
    for (int64_t i = 0; i < n; i++)
        integers(t)[i] = (int32_t)(philox_bits(rig->seed, PURPOSE_TEST, 0, (uint64_t)i) % limit);
    return t;
}

static double *widened(Rig *rig, Tensor t) {
    double *wide = doubles(rig, tensor_numel(t));
    for (int64_t i = 0; i < tensor_numel(t); i++) wide[i] = (double)floats(t)[i];
    return wide;
}

static void hash(Rig *rig, Tensor t) {
    const unsigned char *bytes = t.data;
    for (size_t i = 0; i < tensor_bytes(t); i++) rig->hash = (rig->hash ^ bytes[i]) * 0x100000001b3u;
}

static void expect(Rig *rig, const char *what, Tensor got, const double *want, double tolerance) {
    double largest = 0;
    int64_t n = tensor_numel(got);
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)floats(got)[i] - want[i]) <= tolerance * largest))
            fail_msg("%s, element %lld: %.9g, expected %.9g, largest %.3g, tolerance %.3g (%s)", what, (long long)i,
                     (double)floats(got)[i], want[i], largest, tolerance, rig->device->description);
    hash(rig, got);
}

static void expect_same(Rig *rig, const char *what, Tensor got, Tensor want) {
    if (memcmp(got.data, want.data, tensor_bytes(want))) fail_msg("%s differs (%s)", what, rig->device->description);
    hash(rig, got);
}

static double keep_factor(Dropout drop, uint64_t element) {
    uint32_t bits = philox_bits(drop.seed, drop.purpose, *drop.step, element);
    return (double)bits >= (double)drop.p * 0x1p32 ? 1 / (1 - (double)drop.p) : 0;
}

static const uint32_t step_number = 5;
static Dropout dropout_of(float p) { return (Dropout){p, 11, PURPOSE_DROPOUT | 3 << 8, &step_number}; }

/* The arguments of a forward call, for the central differences. */
typedef struct {
    Device *device;
    Tensor y, sum, mean, rstd, x, branch, w, bias, ids, rows, positions, table, position_table;
    Window window;
    WeightLayout layout;
    GeluKind gelu;
    Sequences sequences;
    Attention attention;
    Dropout drop;
    float temperature;
    Normed normed[2];
    NormActivation activation;
} Call;

/* sum of weights[i] output[i] after the forward, and the root of the sum of the squares of its terms. */
static double evaluate(const Call *call, void (*forward)(const Call *), Tensor output, const double *weights,
                       double *size) {
    double sum = 0, squares = 0;
    forward(call);
    for (int64_t i = 0; i < tensor_numel(output); i++) {
        double term = weights[i] * (double)floats(output)[i];
        sum += term;
        squares += term * term;
    }
    *size = sqrt(squares);
    return sum;
}

/* f(x + h u) - f(x - h u) and, of the numbers that the floats really became, gradient . ((x + h u) - (x - h u)). */
static double difference(const Call *call, void (*forward)(const Call *), Tensor input, Tensor output,
                         const double *weights, const double *gradient, const double *u, double h, double *expected,
                         double *size) {
    int64_t n = tensor_numel(input);
    float *x = floats(input), *middle = xmalloc((size_t)n * sizeof *middle);
    memcpy(middle, x, (size_t)n * sizeof *middle);
    double f[2];
    *expected = 0;
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < n; i++) {
            x[i] = (float)((double)middle[i] + (side ? -h : h) * u[i]);
            *expected += gradient[i] * ((double)x[i] - (double)middle[i]) * (side ? -1 : 1);
        }
        f[side] = evaluate(call, forward, output, weights, size);
    }
    memcpy(x, middle, (size_t)n * sizeof *middle);
    free(middle);
    return f[0] - f[1];
}

/* The gradient of f = sum weights output with respect to `input` (what the backward made of it, less what was there
 * `before` it, if that was accumulated) against f itself, along a random direction and along the gradient.
 *
 * With a step h of about eps^(1/3) the difference is wrong by the rounding of the outputs, `tolerance` times the size
 * of the terms, twice; and by h^2/6 of the third derivative, which is a third of what doubling h changes. Along the
 * gradient both must be below a hundredth of the difference: then the test can see an error of that size. */
static void expect_gradient(Rig *rig, const char *what, const Call *call, void (*forward)(const Call *), Tensor input,
                            Tensor gradient, const double *before, Tensor output, const double *weights,
                            double tolerance) {
    int64_t n = tensor_numel(input);
    const double h = 0x1p-8;
    double *g = widened(rig, gradient), *u = widened(rig, normal(rig, n, 0)), largest = 0, size, expected, wide;
    for (int64_t i = 0; i < n && before; i++) g[i] -= before[i];
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(g[i]));
    assert_true(largest > 0);
    for (int along = 0; along < 2; along++) {
        for (int64_t i = 0; i < n && along; i++) u[i] = g[i] / largest;
        double twice = difference(call, forward, input, output, weights, g, u, 2 * h, &wide, &size);
        double once = difference(call, forward, input, output, weights, g, u, h, &expected, &size);
        double allowed = 2 * tolerance * size + fabs(twice / 2 - once);
        if (!(fabs(once - expected) <= allowed) || (along && allowed > 0.01 * fabs(expected)))
            fail_msg("%s: difference %.9g, by the gradient %.9g, allowed %.3g (%s)", what, once, expected, allowed,
                     rig->device->description);
    }
}

/* Runs a check twice on every device; both times must give the same bits. */
static void everywhere(void (*check)(Rig *)) {
    for (int d = 0; d < n_devices; d++) {
        uint64_t first = 0;
        for (int time = 0; time < 2; time++) {
            Rig rig = {.device = devices[d], .hash = 0xcbf29ce484222325u};
            check(&rig);
            for (int i = 0; i < rig.n_memory; i++) free(rig.memory[i]);
            if (time && rig.hash != first) fail_msg("two runs differ on %s", devices[d]->description);
            first = rig.hash;
        }
    }
}

/* Linear. */

static void run_linear(const Call *c) {
    poison(c->y);
    linear_forward(c->device, c->y, c->x, c->w, c->bias, c->layout);
}

static double weight_at(const Call *c, int64_t i, int64_t o) {
    int64_t in = c->x.dims[1], out = c->y.dims[1];
    return (double)floats(c->w)[c->layout == WEIGHT_IN_OUT ? i * out + o : o * in + i];
}

static void check_linear(Rig *rig, int64_t n, int64_t in, int64_t out, WeightLayout layout, bool with_bias,
                         bool with_dx) {
    bool in_out = layout == WEIGHT_IN_OUT;
    Call c = {.device = rig->device,
              .y = poisoned(rig, n, out),
              .x = normal(rig, n, in),
              .w = in_out ? normal(rig, in, out) : normal(rig, out, in),
              .bias = with_bias ? normal(rig, out, 0) : tensor_none(),
              .layout = layout};
    double *y = doubles(rig, n * out), *wdy, *wdw, *wdb = NULL, *wdx = doubles(rig, n * in);
    for (int64_t r = 0; r < n; r++)
        for (int64_t o = 0; o < out; o++) {
            y[r * out + o] = with_bias ? (double)floats(c.bias)[o] : 0;
            for (int64_t i = 0; i < in; i++) y[r * out + o] += (double)floats(c.x)[r * in + i] * weight_at(&c, i, o);
        }
    run_linear(&c);
    expect(rig, "linear_forward y", c.y, y, sum_error(in, 2));

    Tensor dy = normal(rig, n, out), dx = with_dx ? poisoned(rig, n, in) : tensor_none();
    Tensor dw = normal(rig, c.w.dims[0], c.w.dims[1]), db = with_bias ? normal(rig, out, 0) : tensor_none();
    double *w0 = widened(rig, dw), *b0 = with_bias ? widened(rig, db) : NULL;
    wdy = widened(rig, dy);
    wdw = widened(rig, dw);
    if (with_bias) wdb = widened(rig, db);
    for (int64_t r = 0; r < n; r++)
        for (int64_t o = 0; o < out; o++) {
            if (with_bias) wdb[o] += wdy[r * out + o];
            for (int64_t i = 0; i < in; i++) {
                wdx[r * in + i] += wdy[r * out + o] * weight_at(&c, i, o);
                wdw[in_out ? i * out + o : o * in + i] += (double)floats(c.x)[r * in + i] * wdy[r * out + o];
            }
        }
    linear_backward(rig->device, dx, dw, db, dy, c.x, c.w, layout);
    expect(rig, "linear_backward dw", dw, wdw, sum_error(n, 2));
    expect_gradient(rig, "linear dw", &c, run_linear, c.w, dw, w0, c.y, wdy, sum_error(in, 2));
    if (with_bias) {
        expect(rig, "linear_backward dbias", db, wdb, sum_error(n, 2));
        expect_gradient(rig, "linear dbias", &c, run_linear, c.bias, db, b0, c.y, wdy, sum_error(in, 2));
    }
    if (with_dx) {
        expect(rig, "linear_backward dx", dx, wdx, sum_error(out, 2));
        expect_gradient(rig, "linear dx", &c, run_linear, c.x, dx, NULL, c.y, wdy, sum_error(in, 2));
    }
}

static void check_linears(Rig *rig) {
    static const int64_t sizes[][3] = {{1, 1, 1}, {1, 7, 5}, {37, 45, 83}, {129, 65, 33}};
    for (int i = 0; i < 4; i++)
        for (int layout = 0; layout < 2; layout++)
            for (int given = 0; given < 4; given++)
                check_linear(rig, sizes[i][0], sizes[i][1], sizes[i][2], (WeightLayout)layout, given & 1, given & 2);
}

static void linear(void **state) {
    (void)state;
    everywhere(check_linears);
}

/* Large enough for oneDNN's matmul primitive: rows 0, 150 and 300 against the reference. */
static void check_large_linear(Rig *rig) {
    const int64_t n = 301, in = 1001, out = 911;
    for (int layout = 0; layout < 2; layout++) {
        Call c = {.device = rig->device,
                  .y = poisoned(rig, n, out),
                  .x = normal(rig, n, in),
                  .w = layout == WEIGHT_IN_OUT ? normal(rig, in, out) : normal(rig, out, in),
                  .bias = normal(rig, out, 0),
                  .layout = (WeightLayout)layout};
        Tensor dx = poisoned(rig, n, in), dw = normal(rig, c.w.dims[0], c.w.dims[1]), dy = normal(rig, n, out);
        run_linear(&c);
        linear_backward(rig->device, dx, dw, tensor_none(), dy, c.x, c.w, c.layout);
        for (int64_t row = 0; row < n; row += 150) {
            double *y = doubles(rig, out), *back = doubles(rig, in);
            for (int64_t o = 0; o < out; o++) {
                y[o] = (double)floats(c.bias)[o];
                for (int64_t i = 0; i < in; i++) {
                    y[o] += (double)floats(c.x)[row * in + i] * weight_at(&c, i, o);
                    back[i] += (double)floats(dy)[row * out + o] * weight_at(&c, i, o);
                }
            }
            expect(rig, "large linear y", tensor_rows(c.y, row, 1), y, sum_error(in, 2));
            expect(rig, "large linear dx", tensor_rows(dx, row, 1), back, sum_error(out, 2));
        }
        hash(rig, c.y);
        hash(rig, dx);
        hash(rig, dw);
    }
}

static void large_linear(void **state) {
    (void)state;
    everywhere(check_large_linear);
}

/* Layer normalisation. */

static void run_layernorm(const Call *c) {
    poison(c->y);
    layernorm_forward(c->device, c->y, c->mean, c->rstd, c->x, c->w, c->bias);
}

static void reference_layernorm(const double *x, const Tensor gain, const Tensor bias, int64_t n, int64_t c, double *y,
                                double *mean, double *rstd) {
    for (int64_t r = 0; r < n; r++) {
        double m = 0, v = 0;
        for (int64_t j = 0; j < c; j++) m += x[r * c + j] / (double)c;
        for (int64_t j = 0; j < c; j++) v += (x[r * c + j] - m) * (x[r * c + j] - m) / (double)c;
        mean[r] = m;
        rstd[r] = 1 / sqrt(v + 1e-5);
        for (int64_t j = 0; j < c; j++)
            y[r * c + j] = (x[r * c + j] - m) * rstd[r] * (double)floats(gain)[j] +
                           (tensor_given(bias) ? (double)floats(bias)[j] : 0);
    }
}

static void check_layernorm(Rig *rig, int64_t n, int64_t c, bool with_bias, bool with_residual, bool in_place) {
    Call call = {.device = rig->device,
                 .y = poisoned(rig, n, c),
                 .mean = poisoned(rig, n, 0),
                 .rstd = poisoned(rig, n, 0),
                 .x = normal(rig, n, c),
                 .w = normal(rig, c, 0),
                 .bias = with_bias ? normal(rig, c, 0) : tensor_none()};
    double *x = widened(rig, call.x), *y = doubles(rig, n * c), *mean = doubles(rig, n), *rstd = doubles(rig, n);
    reference_layernorm(x, call.w, call.bias, n, c, y, mean, rstd);
    run_layernorm(&call);
    expect(rig, "layernorm y", call.y, y, sum_error(c, 12));
    expect(rig, "layernorm mean", call.mean, mean, sum_error(c, 4) * sqrt((double)c)); /* of terms sqrt(c) larger */
    expect(rig, "layernorm rstd", call.rstd, rstd, sum_error(c, 8));

    Tensor dy = normal(rig, n, c), past = with_residual ? normal(rig, n, c) : tensor_none();
    Tensor dx = in_place ? past : poisoned(rig, n, c), dgain = normal(rig, c, 0);
    Tensor dbias = with_bias ? normal(rig, c, 0) : tensor_none();
    double *up = widened(rig, dy), *wdx = with_residual ? widened(rig, past) : doubles(rig, n * c);
    double *residual = with_residual ? widened(rig, past) : NULL;
    double *wdg = widened(rig, dgain), *g0 = widened(rig, dgain), *wdb = NULL, *b0 = NULL;
    if (with_bias) wdb = widened(rig, dbias), b0 = widened(rig, dbias);
    for (int64_t r = 0; r < n; r++) {
        double sum = 0, dot = 0;
        for (int64_t j = 0; j < c; j++) {
            double hat = (x[r * c + j] - mean[r]) * rstd[r], g = up[r * c + j] * (double)floats(call.w)[j];
            sum += g / (double)c;
            dot += g * hat / (double)c;
            wdg[j] += up[r * c + j] * hat;
            if (with_bias) wdb[j] += up[r * c + j];
        }
        for (int64_t j = 0; j < c; j++)
            wdx[r * c + j] +=
                rstd[r] * (up[r * c + j] * (double)floats(call.w)[j] - sum - (x[r * c + j] - mean[r]) * rstd[r] * dot);
    }
    layernorm_backward(rig->device, dx, dgain, dbias, past, dy, call.x, call.mean, call.rstd, call.w);
    expect(rig, "layernorm dx", dx, wdx, sum_error(c, 24));
    expect(rig, "layernorm dgain", dgain, wdg, sum_error(n, 16));
    expect_gradient(rig, "layernorm dx", &call, run_layernorm, call.x, dx, residual, call.y, up, sum_error(c, 12));
    expect_gradient(rig, "layernorm dgain", &call, run_layernorm, call.w, dgain, g0, call.y, up, sum_error(c, 12));
    if (!with_bias) return;
    expect(rig, "layernorm dbias", dbias, wdb, sum_error(n, 2));
    expect_gradient(rig, "layernorm dbias", &call, run_layernorm, call.bias, dbias, b0, call.y, up, sum_error(c, 12));
}

static void check_layernorms(Rig *rig) {
    static const int64_t sizes[][2] = {{1, 3}, {1, 70}, {37, 45}, {70, 129}, {9, 768}};
    for (int i = 0; i < 5; i++)
        for (int given = 0; given < 4; given++) {
            check_layernorm(rig, sizes[i][0], sizes[i][1], given & 1, given & 2, false);
            if (given & 2) check_layernorm(rig, sizes[i][0], sizes[i][1], given & 1, true, true);
        }
}

static void layernorm(void **state) {
    (void)state;
    everywhere(check_layernorms);
}

static void check_residual_layernorm(Rig *rig) {
    const int64_t n = 19, c = 67;
    for (int with = 0; with < 4; with++) {
        Dropout drop = dropout_of(with & 1 ? 0.25f : 0);
        Tensor x = normal(rig, n, c), branch = normal(rig, n, c), gain = normal(rig, c, 0), bias = normal(rig, c, 0);
        Tensor sum = with & 2 ? x : poisoned(rig, n, c), y = poisoned(rig, n, c), mean = poisoned(rig, n, 0);
        Tensor rstd = poisoned(rig, n, 0);
        double *wsum = widened(rig, x), *wy = doubles(rig, n * c), *wm = doubles(rig, n), *wr = doubles(rig, n);
        for (int64_t i = 0; i < n * c; i++)
            wsum[i] += (drop.p > 0 ? keep_factor(drop, (uint64_t)i) : 1) * (double)floats(branch)[i];
        reference_layernorm(wsum, gain, bias, n, c, wy, wm, wr);
        residual_layernorm_forward(rig->device, sum, y, mean, rstd, x, branch, gain, bias, drop);
        expect(rig, "residual_layernorm sum", sum, wsum, 4 * U);
        expect(rig, "residual_layernorm y", y, wy, sum_error(c, 16));
        expect(rig, "residual_layernorm mean", mean, wm, sum_error(c, 8) * sqrt((double)c));
        expect(rig, "residual_layernorm rstd", rstd, wr, sum_error(c, 12));
    }
}

static void residual_layernorm(void **state) {
    (void)state;
    everywhere(check_residual_layernorm);
}

/* Windows in rows, and means of sequences. */

static void check_unfold(Rig *rig, int64_t sequences, int64_t c, Window w) {
    int64_t positions = window_positions(w), rows = sequences * w.length, tall = sequences * positions;
    Tensor x = normal(rig, rows, c), y = poisoned(rig, tall, c * w.taps), dx = poisoned(rig, rows, c);
    Tensor dy = normal(rig, tall, c * w.taps);
    double *wy = doubles(rig, tall * c * w.taps), *wdx = doubles(rig, rows * c), pairs = 0;
    for (int64_t row = 0; row < tall; row++)
        for (int64_t tap = 0; tap < w.taps; tap++) {
            int64_t at = row % positions * w.stride - w.padding + tap;
            if (at < 0 || at >= w.length) continue;
            pairs++;
            for (int64_t j = 0; j < c; j++) {
                int64_t window = (row * c + j) * w.taps + tap, whole = (row / positions * w.length + at) * c + j;
                wy[window] = (double)floats(x)[whole];
                wdx[whole] += (double)floats(dy)[window];
            }
        }
    unfold_forward(rig->device, y, x, w);
    expect(rig, "unfold_forward y", y, wy, 0);
    double before = rig->device->counters[OP_unfold_backward].flops;
    unfold_backward(rig->device, dx, dy, w);
    expect(rig, "unfold_backward dx", dx, wdx, sum_error(w.taps, 0));
    assert_true(rig->device->counters[OP_unfold_backward].flops - before == pairs * (double)c);
}

static void check_windows(Rig *rig) {
    assert_int_equal(window_positions((Window){200, 7, 2, 3}), 100); /* the lengths of the CNN baseline */
    assert_int_equal(window_positions((Window){25, 3, 2, 1}), 13);
    check_unfold(rig, 1, 1, (Window){1, 1, 1, 0});
    check_unfold(rig, 3, 1, (Window){200, 7, 2, 3});
    check_unfold(rig, 4, 64, (Window){25, 3, 2, 1});
    check_unfold(rig, 2, 35, (Window){13, 3, 1, 1});
    check_unfold(rig, 3, 17, (Window){26, 1, 2, 0});
    check_unfold(rig, 2, 8, (Window){9, 2, 3, 0});  /* rows that no window sees */
    check_unfold(rig, 2, 5, (Window){2, 9, 4, 7});  /* windows that see none */
    check_unfold(rig, 2, 3, (Window){3, 12, 1, 9}); /* taps that see none */
}

static void windows(void **state) {
    (void)state;
    everywhere(check_windows);
}

/* Convolutions. */

static int64_t volume(const int sizes[3]) { return (int64_t)sizes[0] * sizes[1] * sizes[2]; }

/* Splits a row of samples of sizes[0] x sizes[1] x sizes[2] into its sample and indices. */
static int64_t split(int64_t row, const int sizes[3], int64_t at[3]) {
    for (int i = 2; i >= 0; i--) {
        at[i] = row % sizes[i];
        row /= sizes[i];
    }
    return row;
}

/* The row of x that tap `tap` of position `row` sees; -1: none. */
static int64_t row_seen(Convolution c, const int out[3], int64_t row, int64_t tap) {
    int64_t at[3], taps[3], seen = split(row, out, at);
    split(tap, c.taps, taps);
    for (int i = 0; i < 3; i++) {
        int64_t to = at[i] * c.stride[i] - c.padding[i] + taps[i];
        if (to < 0 || to >= c.in[i]) return -1;
        seen = seen * c.in[i] + to;
    }
    return seen;
}

/* Both passes against their definition. The convolution is linear in x, w and bias each, so these are also what finite
 * differences would give, without their error. */
static void check_conv3d(Rig *rig, int64_t samples, int64_t in, int64_t out, bool whole, Convolution c) {
    int sizes[3] = {convolution_positions(c, 0), convolution_positions(c, 1), convolution_positions(c, 2)};
    int64_t taps = volume(c.taps), rows = samples * volume(c.in), tall = samples * volume(sizes);
    Tensor x = normal(rig, rows, in), w = normal(rig, out, in * taps), bias = normal(rig, out, 0);
    Tensor y = poisoned(rig, tall, out), dy = normal(rig, tall, out), dx = poisoned(rig, rows, in);
    Tensor dw = normal(rig, out, in * taps), dbias = normal(rig, out, 0), sum = normal(rig, rows, in);
    double *wy = doubles(rig, tall * out), *wdx = doubles(rig, rows * in), *wsum = widened(rig, sum), pairs = 0;
    double *wdw = widened(rig, dw), *wdbias = widened(rig, dbias), *counted;
    for (int64_t row = 0; row < tall; row++) {
        for (int64_t o = 0; o < out; o++) {
            wy[row * out + o] += whole ? (double)floats(bias)[o] : 0;
            wdbias[o] += (double)floats(dy)[row * out + o];
        }
        for (int64_t tap = 0; tap < taps; tap++) {
            int64_t seen = row_seen(c, sizes, row, tap);
            if (seen < 0) continue;
            pairs++;
            for (int64_t o = 0; o < out; o++)
                for (int64_t i = 0; i < in; i++) {
                    double up = (double)floats(dy)[row * out + o], number = (double)floats(x)[seen * in + i];
                    double weight = (double)floats(w)[(o * in + i) * taps + tap];
                    wy[row * out + o] += weight * number;
                    wdx[seen * in + i] += weight * up;
                    wdw[(o * in + i) * taps + tap] += number * up;
                }
        }
    }
    for (int64_t i = 0; i < rows * in; i++) wsum[i] += wdx[i];
    double forward = rig->device->counters[OP_conv3d_forward].flops;
    double backward = *(counted = &rig->device->counters[OP_conv3d_backward].flops);
    conv3d_forward(rig->device, y, x, w, whole ? bias : tensor_none(), c);
    conv3d_backward(rig->device, whole ? dx : tensor_none(), dw, whole ? dbias : tensor_none(), dy, x, w, c, false);
    expect(rig, "conv3d_forward y", y, wy, sum_error(in * taps, 1));
    if (whole) expect(rig, "conv3d_backward dx", dx, wdx, sum_error(out * taps, 0));
    expect(rig, "conv3d_backward dw", dw, wdw, sum_error(tall, 1));
    if (whole) expect(rig, "conv3d_backward dbias", dbias, wdbias, sum_error(tall, 1));
    double products = pairs * (double)in * (double)out, added = whole ? (double)(tall * out) : 0;
    assert_true(rig->device->counters[OP_conv3d_forward].flops - forward == 2 * products + added);
    assert_true(*counted - backward == (whole ? 4 : 2) * products + added);
    backward = *counted;
    conv3d_backward(rig->device, sum, dw, tensor_none(), dy, x, w, c, true);
    expect(rig, "conv3d_backward dx, added", sum, wsum, sum_error(out * taps, 1));
    assert_true(*counted - backward == 4 * products + (double)(rows * in));
}

static void check_convolutions(Rig *rig) {
    Convolution network = {{128, 21, 21}, {3, 3, 3}, {1, 2, 2}, {1, 1, 1}}; /* the first of FLIM's second block */
    assert_int_equal(convolution_positions(network, 0), 128);
    assert_int_equal(convolution_positions(network, 1), 11);
    check_conv3d(rig, 0, 3, 4, true, network);
    check_conv3d(rig, 2, 2, 32, false, (Convolution){{20, 3, 3}, {7, 1, 1}, {1, 1, 1}, {3, 0, 0}}); /* the stem */
    check_conv3d(rig, 2, 32, 32, true, (Convolution){{12, 3, 3}, {3, 1, 1}, {2, 1, 1}, {1, 0, 0}});
    check_conv3d(rig, 1, 32, 64, true, (Convolution){{5, 7, 7}, {3, 3, 3}, {1, 2, 2}, {1, 1, 1}});
    check_conv3d(rig, 1, 64, 32, true, (Convolution){{4, 5, 5}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}});
    check_conv3d(rig, 3, 32, 64, true, (Convolution){{4, 5, 6}, {1, 1, 1}, {1, 2, 2}, {0, 0, 0}});
    check_conv3d(rig, 2, 5, 7, true, (Convolution){{6, 5, 9}, {2, 3, 1}, {3, 2, 4}, {0, 1, 0}}); /* rows unseen */
    check_conv3d(rig, 1, 1, 1, false, (Convolution){{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}});
}

static void convolutions(void **state) {
    (void)state;
    everywhere(check_convolutions);
}

/* Pairs of which the first is the larger, the second, both, or one is NaN; and a frame of no pair. */
static void max_pools(void **state) {
    (void)state;
    float x[] = {3, -2, 5, NAN, 1, 1, -1, 5, 1, NAN, 7, 7, 7, 7, 7}, dy[] = {1, 2, 3, 4, 5}, y[5], dx[15];
    const float larger[] = {3, -1, 5, NAN, NAN}, back[] = {1, 0, 3, 4, 0, 0, 2, 0, 0, 5, 0, 0, 0, 0, 0};
    for (int d = 0; d < n_devices; d++) {
        Tensor whole = tensor_2d(x, DTYPE_F32, 15, 1), pooled = tensor_2d(y, DTYPE_F32, 5, 1);
        max_pool_forward(devices[d], pooled, whole, 3, 5);
        max_pool_backward(devices[d], tensor_2d(dx, DTYPE_F32, 15, 1), tensor_2d(dy, DTYPE_F32, 5, 1), whole, 3, 5);
        for (int i = 0; i < 5; i++) assert_true(y[i] == larger[i] || (isnan(y[i]) && isnan(larger[i])));
        assert_memory_equal(dx, back, sizeof dx);
        max_pool_forward(devices[d], tensor_2d(y, DTYPE_F32, 2, 2), tensor_2d(x, DTYPE_F32, 6, 2), 3,
                         1); /* 2 samples */
        const float two[] = {5, NAN, 1, NAN};
        for (int i = 0; i < 4; i++) assert_true(y[i] == two[i] || (isnan(y[i]) && isnan(two[i])));
    }
}

/* What becomes of FLIM cells is tested in test_flim_augment.c; here, that every instruction set gives the same bits. */
static void cells_are_the_same_with_every_instruction_set(void **state) {
    (void)state;
    enum { SIDE = 7, BINS = 19, ALL = BINS * SIDE * SIDE, SAMPLES = 3 };
    const FlimShape shape = {BINS, SIDE, SIDE};
    static float x[SAMPLES * ALL * 2], y[SAMPLES * ALL * 2], first[2][SAMPLES * ALL * 2];
    uint16_t counts[ALL];
    int32_t cells[SAMPLES] = {0}, partners[SAMPLES] = {1, 2, 0};
    float share = 0.3f;
    FlimDraws draws[SAMPLES] = {{.scale = 1.1f, .poisson = 1, .elastic = 1},
                                {.scale = 1, .side = 6, .blur = 0.7f},
                                {.scale = 0.9f, .poisson = 1, .side = 8, .elastic = 1, .blur = 0.4f, .position = {7}}};
    for (int i = 0; i < ALL; i++) counts[i] = (uint16_t)(i % 3 ? 0 : i);
    for (int d = 0; d < n_devices; d++) {
        Tensor to = tensor_2d(x, DTYPE_F32, SAMPLES * ALL, 2), mixed = tensor_2d(y, DTYPE_F32, SAMPLES * ALL, 2);
        augment_cells(devices[d], to, tensor_2d(counts, DTYPE_U16, 1, ALL), tensor_1d(cells, DTYPE_I32, SAMPLES),
                      tensor_2d(draws, DTYPE_I32, SAMPLES, FLIM_DRAW_WORDS), shape, d % 2);
        mixup(devices[d], mixed, to, tensor_1d(partners, DTYPE_I32, SAMPLES), tensor_1d(&share, DTYPE_F32, 1));
        for (int i = 0; i < SAMPLES * ALL * 2; i++) assert_true(isfinite(y[i]));
        if (d < 2) memcpy(first[d], y, sizeof y);
        assert_memory_equal(y, first[d % 2], sizeof y);
    }
}

static void leaky_relus(void **state) {
    (void)state;
    float x[] = {-2, -0.0f, 0, 3, -INFINITY, NAN}, dy[] = {1, 2, 3, 4, 5, 6}, y[6], dx[6];
    const float forward[] = {-0.5f, 0, 0, 3, -INFINITY}, backward[] = {0.25f, 0.5f, 0.75f, 4, 1.25f, 1.5f};
    for (int d = 0; d < n_devices; d++) {
        Tensor in = tensor_2d(x, DTYPE_F32, 2, 3);
        leaky_relu_forward(devices[d], tensor_2d(y, DTYPE_F32, 2, 3), in, 0.25f);
        leaky_relu_backward(devices[d], tensor_2d(dx, DTYPE_F32, 2, 3), tensor_2d(dy, DTYPE_F32, 2, 3), in, 0.25f);
        for (int i = 0; i < 5; i++) assert_true(y[i] == forward[i]);
        assert_true(isnan(y[5]));
        for (int i = 0; i < 6; i++) assert_true(dx[i] == backward[i]);
    }
}

static void check_mean_rows(Rig *rig) {
    static const int64_t sizes[][3] = {{1, 1, 1}, {3, 13, 256}, {5, 101, 37}};
    for (int i = 0; i < 3; i++) {
        int64_t s = sizes[i][0], length = sizes[i][1], c = sizes[i][2];
        Tensor x = normal(rig, s * length, c), y = poisoned(rig, s, c), dy = normal(rig, s, c);
        Tensor dx = poisoned(rig, s * length, c);
        double *wy = doubles(rig, s * c), *wdx = doubles(rig, s * length * c);
        for (int64_t k = 0; k < s * length * c; k++) {
            int64_t at = k / (length * c) * c + k % c;
            wy[at] += (double)floats(x)[k] / (double)length;
            wdx[k] = (double)floats(dy)[at] / (double)length;
        }
        mean_rows_forward(rig->device, y, x, length);
        expect(rig, "mean_rows_forward y", y, wy, U);
        mean_rows_backward(rig->device, dx, dy, length);
        expect(rig, "mean_rows_backward dx", dx, wdx, 3 * U);
    }
}

static void mean_rows(void **state) {
    (void)state;
    everywhere(check_mean_rows);
}

/* Batch normalisation. */

static void run_batchnorm(const Call *c) {
    poison(c->y);
    batchnorm_forward(c->device, c->y, c->mean, c->rstd, tensor_none(), tensor_none(), c->x, c->w, c->bias, 0);
}

static void reference_batchnorm(const double *x, int64_t n, int64_t c, double *mean, double *variance) {
    for (int64_t k = 0; k < n * c; k++) mean[k % c] += x[k] / (double)n;
    for (int64_t k = 0; k < n * c; k++) variance[k % c] += (x[k] - mean[k % c]) * (x[k] - mean[k % c]) / (double)n;
}

static void reference_affine(double *y, const double *x, const double *mean, const double *variance, const Call *call) {
    int64_t c = call->x.dims[1];
    for (int64_t k = 0; k < tensor_numel(call->x); k++)
        y[k] = (x[k] - mean[k % c]) / sqrt(variance[k % c] + 1e-5) * (double)floats(call->w)[k % c] +
               (double)floats(call->bias)[k % c];
}

/* The running statistics, and what is made of them instead of the batch's. */
static void check_running(Rig *rig, const Call *call, const double *x, const double *mean, const double *variance,
                          double center) {
    int64_t n = call->x.dims[0], c = call->x.dims[1];
    const double momentum = (double)0.1f;
    Tensor running_mean = normal(rig, c, 0), running_var = normal(rig, c, 0), y = poisoned(rig, n, c);
    for (int64_t j = 0; j < c; j++) floats(running_var)[j] = fabsf(floats(running_var)[j]) + 0.5f;
    double *wm = widened(rig, running_mean), *wv = widened(rig, running_var), *wy = doubles(rig, n * c);
    for (int64_t j = 0; j < c; j++) {
        wm[j] += momentum * (mean[j] - wm[j]);
        wv[j] += momentum * (variance[j] * (double)n / (double)(n - 1) - wv[j]);
    }
    batchnorm_forward(rig->device, y, call->mean, call->rstd, running_mean, running_var, call->x, call->w, call->bias,
                      0.1f);
    expect_same(rig, "batchnorm_forward y with running statistics", y, call->y);
    expect(rig, "batchnorm_forward running_mean", running_mean, wm, sum_error(n, 6));
    expect(rig, "batchnorm_forward running_var", running_var, wv, sum_error(n, 12));
    double *rm = widened(rig, running_mean), *rv = widened(rig, running_var);
    reference_affine(wy, x, rm, rv, call);
    batchnorm_apply(rig->device, y, call->x, running_mean, running_var, call->w, call->bias);
    expect(rig, "batchnorm_apply y", y, wy, (8 + center) * U);
}

/* Sums are in floats over at most 64 rows, and in doubles from there. The mean is `center` deviations away from zero:
 * its error is as many of a deviation's. */
static void check_batchnorm(Rig *rig, int64_t n, int64_t c, double center, bool in_place) {
    Call call = {.device = rig->device,
                 .y = poisoned(rig, n, c),
                 .mean = poisoned(rig, c, 0),
                 .rstd = poisoned(rig, c, 0),
                 .x = normal(rig, n, c),
                 .w = normal(rig, c, 0),
                 .bias = normal(rig, c, 0)};
    for (int64_t k = 0; k < n * c; k++) floats(call.x)[k] += (float)center;
    double *x = widened(rig, call.x), *y = doubles(rig, n * c), *mean = doubles(rig, c), *variance = doubles(rig, c);
    double *rstd = doubles(rig, c), tolerance;
    int64_t terms = n < 64 ? n : 64;
    double rounding = sum_error(terms, 2) + center * U;
    tolerance = rounding + 12 * U;
    reference_batchnorm(x, n, c, mean, variance);
    reference_affine(y, x, mean, variance, &call);
    for (int64_t j = 0; j < c; j++) rstd[j] = 1 / sqrt(variance[j] + 1e-5);
    run_batchnorm(&call);
    expect(rig, "batchnorm_forward y", call.y, y, tolerance);
    expect(rig, "batchnorm_forward mean", call.mean, mean, center > 1 ? 2 * U : sum_error(terms, 4));
    expect(rig, "batchnorm_forward rstd", call.rstd, rstd, sum_error(terms, 8));
    check_running(rig, &call, x, mean, variance, center);

    Tensor dy = normal(rig, n, c), dx = in_place ? dy : poisoned(rig, n, c), dgain = normal(rig, c, 0);
    Tensor dbias = normal(rig, c, 0);
    double *up = widened(rig, dy), *wdx = doubles(rig, n * c), *wdg = widened(rig, dgain), *wdb = widened(rig, dbias);
    double *g0 = widened(rig, dgain), *b0 = widened(rig, dbias);
    for (int64_t k = 0; k < n * c; k++) wdg[k % c] += up[k] * (x[k] - mean[k % c]) * rstd[k % c];
    for (int64_t k = 0; k < n * c; k++) wdb[k % c] += up[k];
    for (int64_t k = 0, j = 0; k < n * c; k++, j = k % c)
        wdx[k] = (double)floats(call.w)[j] * rstd[j] *
                 (up[k] - (wdb[j] - b0[j]) / (double)n - (x[k] - mean[j]) * rstd[j] * (wdg[j] - g0[j]) / (double)n);
    batchnorm_backward(rig->device, dx, dgain, dbias, dy, call.x, call.mean, call.rstd, call.w);
    expect(rig, "batchnorm_backward dx", dx, wdx, rounding + 24 * U);
    expect(rig, "batchnorm_backward dgain", dgain, wdg, rounding + sum_error(terms, 16));
    expect(rig, "batchnorm_backward dbias", dbias, wdb, sum_error(terms, 2));
    if (center > 1) return; /* for floats a step of 2^-8 has too few bits there */
    expect_gradient(rig, "batchnorm dx", &call, run_batchnorm, call.x, dx, NULL, call.y, up, tolerance);
    expect_gradient(rig, "batchnorm dgain", &call, run_batchnorm, call.w, dgain, g0, call.y, up, tolerance);
    expect_gradient(rig, "batchnorm dbias", &call, run_batchnorm, call.bias, dbias, b0, call.y, up, tolerance);
}

static void check_batchnorms(Rig *rig) {
    check_batchnorm(rig, 3, 5, 0.5, false);
    check_batchnorm(rig, 37, 45, 0.5, true);
    check_batchnorm(rig, 300, 129, 0.5, false);
    check_batchnorm(rig, 9000, 3, 0.5, false); /* more chunks than parts */
    check_batchnorm(rig, 900, 64, 1000, true); /* E[x^2] - mean^2 would leave nothing of the variance */
}

static void batchnorm(void **state) {
    (void)state;
    everywhere(check_batchnorms);
}

/* Norms, their sum, and what follows it. */

typedef struct {
    int64_t samples, frames, plane, c;
    int operands; /* 1: a; 2: and b as it is; 3: and b's norm */
    bool pool, average;
    float slope, p;
} Sum;

static void run_norm_activate(const Call *c) {
    poison(c->y);
    for (int i = 0; i < 2; i++)
        if (tensor_given(c->normed[i].mean))
            batchnorm_statistics(c->device, c->normed[i].mean, c->normed[i].rstd, tensor_none(), tensor_none(),
                                 c->normed[i].x, 0);
    norm_activate_forward(c->device, c->y, c->normed[0], c->normed[1], c->activation);
}

/* Multiples of a half: frames have the same numbers often. */
static Normed norm_of(Rig *rig, int64_t n, int64_t c, bool norm) {
    Normed in = {.x = normal(rig, n, c)};
    for (int64_t k = 0; k < n * c; k++) floats(in.x)[k] = roundf(2 * floats(in.x)[k]) / 2;
    if (norm) in = (Normed){in.x, poisoned(rig, c, 0), poisoned(rig, c, 0), normal(rig, c, 0), normal(rig, c, 0)};
    return in;
}

/* What an operand comes to in double precision, and its statistics. */
typedef struct {
    double *x, *mean, *rstd, *normed;
} Wide;

static Wide widened_norm(Rig *rig, Normed in) {
    int64_t n = in.x.dims[0], c = in.x.dims[1];
    Wide w = {widened(rig, in.x), doubles(rig, c), doubles(rig, c), widened(rig, in.x)};
    if (!tensor_given(in.mean)) return w;
    reference_batchnorm(w.x, n, c, w.mean, w.rstd);
    for (int64_t j = 0; j < c; j++) w.rstd[j] = 1 / sqrt(w.rstd[j] + 1e-5);
    for (int64_t k = 0; k < n * c; k++)
        w.normed[k] =
            (w.x[k] - w.mean[k % c]) * w.rstd[k % c] * (double)floats(in.gain)[k % c] + (double)floats(in.bias)[k % c];
    return w;
}

/* y, and the gradient g of the sum from that of y. */
static void reference_sum(const Sum *s, const double *sum, const Dropout *drop, double *y, const double *dy,
                          double *g) {
    int64_t frame = s->plane * s->c, frames = s->pool ? s->frames / 2 : s->frames;
    for (int64_t k = 0; k < s->samples * frames * frame; k++) {
        int64_t sample = k / (frames * frame), t = k / frame % frames;
        int64_t first = s->pool ? (sample * s->frames + 2 * t) * frame + k % frame : k;
        double factor = s->p > 0 ? keep_factor(*drop, (uint64_t)(sample * s->c + k % s->c)) : 1, value[2], share[2];
        for (int i = 0; i < 1 + s->pool; i++) {
            value[i] = sum[first + i * frame];
            if (!(value[i] > 0)) value[i] *= (double)s->slope;
        }
        share[1] = s->average ? 0.5 : s->pool && value[1] > value[0] ? 1 : 0;
        share[0] = s->average ? 0.5 : 1 - share[1];
        y[k] = 0;
        for (int i = 0; i < 1 + s->pool; i++) {
            y[k] += factor * share[i] * value[i];
            g[first + i * frame] = factor * share[i] * dy[k] * (sum[first + i * frame] > 0 ? 1 : (double)s->slope);
        }
    }
}

/* The gradient of an operand, and of its gain and bias, from that of the sum. */
static void reference_norm_gradient(Normed in, Wide w, const double *g, double *dx, double *dgain, double *dbias) {
    int64_t n = in.x.dims[0], c = in.x.dims[1];
    for (int64_t j = 0; j < c; j++) {
        double sum = 0, dot = 0;
        for (int64_t k = j; k < n * c; k += c) {
            sum += g[k];
            dot += g[k] * (w.x[k] - w.mean[j]) * w.rstd[j];
        }
        dbias[j] += sum;
        dgain[j] += dot;
        for (int64_t k = j; k < n * c; k += c)
            dx[k] = (double)floats(in.gain)[j] * w.rstd[j] *
                    (g[k] - sum / (double)n - (w.x[k] - w.mean[j]) * w.rstd[j] * dot / (double)n);
    }
}

/* The same out of the other operations, one after the other: y, and the gradients of a.x and b.x. */
static void composed(Rig *rig, const Call *call, Sum s, Tensor dy, const double *factors, Tensor y, Tensor dx[2]) {
    Device *device = call->device;
    const Normed *in = call->normed;
    int64_t n = in[0].x.dims[0], tall = y.dims[0], c = s.c;
    Tensor sum = poisoned(rig, n, c), other = poisoned(rig, n, c), mean = poisoned(rig, c, 0), none = tensor_none();
    Tensor rstd = poisoned(rig, c, 0), up = poisoned(rig, tall, c), active = poisoned(rig, n, c);
    batchnorm_forward(device, sum, mean, rstd, none, none, in[0].x, in[0].gain, in[0].bias, 0);
    if (s.operands == 3) batchnorm_forward(device, other, mean, rstd, none, none, in[1].x, in[1].gain, in[1].bias, 0);
    if (s.operands > 1) residual_forward(device, sum, sum, s.operands == 3 ? other : in[1].x, dropout_of(0));
    leaky_relu_forward(device, active, sum, s.slope);
    if (s.pool) max_pool_forward(device, y, active, s.frames, s.plane);
    for (int64_t k = 0; k < tall * c; k++) {
        floats(y)[k] = (s.pool ? floats(y) : floats(active))[k] * (float)factors[k];
        floats(up)[k] = floats(dy)[k] * (float)factors[k];
    }
    if (s.pool) max_pool_backward(device, other, up, active, s.frames, s.plane);
    leaky_relu_backward(device, other, s.pool ? other : up, sum, s.slope);
    for (int i = 0; i < 2; i++) {
        dx[i] = other;
        if (!tensor_given(in[i].mean)) continue;
        dx[i] = poisoned(rig, n, c);
        batchnorm_backward(device, dx[i], poisoned(rig, c, 0), poisoned(rig, c, 0), other, in[i].x, in[i].mean,
                           in[i].rstd, in[i].gain);
    }
}

/* Tolerances as of check_batchnorm, of two norms; both reductions start from sums in floats over 64 steps, of two rows
 * each. dx of a is taken in place of a.x, db in place of b.x at the end. */
static void check_norm_activate(Rig *rig, Sum s) {
    int64_t n = s.samples * s.frames * s.plane, c = s.c,
            tall = s.samples * (s.pool ? s.frames / 2 : s.frames) * s.plane;
    Dropout drop = dropout_of(s.p);
    Call call = {.device = rig->device,
                 .y = poisoned(rig, tall, c),
                 .normed = {norm_of(rig, n, c, true)},
                 .activation = {s.slope, s.frames, s.plane, s.pool, s.average, drop}};
    if (s.operands > 1) call.normed[1] = norm_of(rig, n, c, s.operands == 3);
    const Normed *in = call.normed;
    Tensor dy = normal(rig, tall, c), dx[2] = {0}, dgain[2] = {0}, dbias[2] = {0}, parts[2];
    Wide wide[2];
    double *sum = doubles(rig, n * c), *y = doubles(rig, tall * c), *g = doubles(rig, n * c), *before[2][2];
    double *factors = doubles(rig, tall * c), *up = widened(rig, dy),
           rounding = sum_error(n < 128 ? n : 128, 4) + 24 * U;
    for (int64_t k = 0; k < tall * c; k++)
        factors[k] = s.p > 0 ? keep_factor(drop, (uint64_t)(k / (tall / s.samples * c) * c + k % c)) : 1;
    for (int i = 0; i < 2 && tensor_given(in[i].x); i++) {
        wide[i] = widened_norm(rig, in[i]);
        for (int64_t k = 0; k < n * c; k++) sum[k] += wide[i].normed[k];
        dx[i] = poisoned(rig, n, c);
        if (!tensor_given(in[i].mean)) continue;
        dgain[i] = normal(rig, c, 0), dbias[i] = normal(rig, c, 0);
        before[i][0] = widened(rig, dgain[i]), before[i][1] = widened(rig, dbias[i]);
    }
    reference_sum(&s, sum, &drop, y, up, g);
    run_norm_activate(&call);
    expect(rig, "norm_activate_forward y", call.y, y, rounding);
    norm_activate_backward(rig->device, dx[0], dgain[0], dbias[0], dx[1], dgain[1], dbias[1], dy, in[0], in[1],
                           call.activation);
    Tensor other = poisoned(rig, tall, c);
    if (!s.average) {
        composed(rig, &call, s, dy, factors, other, parts);
        expect(rig, "norm_activate_forward y and the operations it is made of", other, widened(rig, call.y), rounding);
    }
    for (int i = 0; i < 2 && tensor_given(in[i].x); i++) {
        double *wdx = doubles(rig, n * c), *wdg = doubles(rig, c), *wdb = doubles(rig, c);
        if (!s.average) expect(rig, "norm_activate_backward and those", parts[i], widened(rig, dx[i]), 2 * rounding);
        if (!tensor_given(in[i].mean)) {
            expect(rig, "norm_activate_backward db", dx[i], g, 4 * U);
            continue;
        }
        for (int64_t j = 0; j < c; j++) wdg[j] = before[i][0][j], wdb[j] = before[i][1][j];
        reference_norm_gradient(in[i], wide[i], g, wdx, wdg, wdb);
        expect(rig, "norm_activate_backward dx", dx[i], wdx, rounding);
        expect(rig, "norm_activate_backward dgain", dgain[i], wdg, rounding + sum_error(128, 16));
        expect(rig, "norm_activate_backward dbias", dbias[i], wdb, sum_error(128, 4));
        if (s.slope != 1 || (s.pool && !s.average)) continue; /* differences would step over kinks */
        expect_gradient(rig, "norm_activate dx", &call, run_norm_activate, in[i].x, dx[i], NULL, call.y, up, rounding);
        expect_gradient(rig, "norm_activate dgain", &call, run_norm_activate, in[i].gain, dgain[i], before[i][0],
                        call.y, up, rounding);
        expect_gradient(rig, "norm_activate dbias", &call, run_norm_activate, in[i].bias, dbias[i], before[i][1],
                        call.y, up, rounding);
    }
    if (s.operands == 2 && s.slope == 1 && !s.pool)
        expect_gradient(rig, "norm_activate db", &call, run_norm_activate, in[1].x, dx[1], NULL, call.y, up, rounding);
    /* In place: of dy, if it has the rows, and of the inputs. */
    Tensor place = s.pool ? in[0].x : dy;
    norm_activate_backward(rig->device, place, dgain[0], dbias[0], s.operands > 1 ? in[1].x : tensor_none(), dgain[1],
                           dbias[1], dy, in[0], in[1], call.activation);
    expect_same(rig, "norm_activate_backward da in place", place, dx[0]);
    if (s.operands > 1) expect_same(rig, "norm_activate_backward db in place", in[1].x, dx[1]);
}

static void check_norm_activates(Rig *rig) {
    for (int operands = 1; operands <= 3; operands++) {
        check_norm_activate(rig, (Sum){2, 3, 5, 7, operands, false, false, 0.01f, 0});
        check_norm_activate(rig, (Sum){3, 5, 4, 67, operands, true, false, 0.01f, 0.25f});
        check_norm_activate(rig, (Sum){2, 4, 9, 32, operands, true, true, 1, 0.25f});
        check_norm_activate(rig, (Sum){13, 1, 1, 64, operands, false, false, 1, 0.25f});
        check_norm_activate(rig, (Sum){3, 6, 501, 3, operands, true, false, 0, 0}); /* more chunks than parts */
    }
}

static void norm_activate(void **state) {
    (void)state;
    everywhere(check_norm_activates);
}

/* With statistics that change nothing the pool is max_pool_forward, NaN and all, and no other number comes in. */
static void pools_of_norms_choose_as_pools_do(void **state) {
    (void)state;
    float x[] = {3, -2, 5, NAN, 1, 1, -1, 5, 1, NAN, 7, 7, 7, 7, 7}, y[5], want[5];
    float zero[] = {0}, one[] = {1}, variance[] = {1 - 1e-5f}, rstd[] = {0};
    for (int d = 0; d < n_devices; d++) {
        Tensor whole = tensor_2d(x, DTYPE_F32, 15, 1), none = tensor_none();
        batchnorm_from_running(devices[d], tensor_1d(rstd, DTYPE_F32, 1), tensor_1d(variance, DTYPE_F32, 1));
        assert_true(rstd[0] == 1);
        max_pool_forward(devices[d], tensor_2d(want, DTYPE_F32, 5, 1), whole, 3, 5);
        Normed a = {whole, tensor_1d(zero, DTYPE_F32, 1), tensor_1d(rstd, DTYPE_F32, 1), tensor_1d(one, DTYPE_F32, 1),
                    tensor_1d(zero, DTYPE_F32, 1)};
        norm_activate_forward(devices[d], tensor_2d(y, DTYPE_F32, 5, 1), a, (Normed){none, none, none, none, none},
                              (NormActivation){.slope = 1, .frames = 3, .plane = 5, .pool = true});
        for (int i = 0; i < 5; i++) assert_true(y[i] == want[i] || (isnan(y[i]) && isnan(want[i])));
    }
}

/* The halves of batchnorm_forward and of batchnorm_apply. */
static void check_halves(Rig *rig) {
    int64_t n = 131, c = 45;
    Tensor x = normal(rig, n, c), gain = normal(rig, c, 0), bias = normal(rig, c, 0), stat[2][4], y[2], none = {0};
    Tensor rstd = poisoned(rig, c, 0), out = poisoned(rig, n, c);
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 4; i++) stat[half][i] = tensor(rig, DTYPE_F32, c, 0);
        for (int64_t j = 0; j < c; j++) floats(stat[half][2])[j] = 0.5f, floats(stat[half][3])[j] = 2;
        y[half] = poisoned(rig, n, c);
    }
    batchnorm_forward(rig->device, y[0], stat[0][0], stat[0][1], stat[0][2], stat[0][3], x, gain, bias, 0.1f);
    batchnorm_statistics(rig->device, stat[1][0], stat[1][1], stat[1][2], stat[1][3], x, 0.1f);
    for (int i = 0; i < 4; i++) expect_same(rig, "batchnorm_statistics", stat[1][i], stat[0][i]);
    NormActivation alone = {.slope = 1, .frames = 1, .plane = 1};
    Normed a = {x, stat[1][0], stat[1][1], gain, bias}, b = {none, none, none, none, none};
    norm_activate_forward(rig->device, y[1], a, b, alone);
    expect(rig, "norm_activate_forward of a norm alone", y[1], widened(rig, y[0]), 4 * U);
    batchnorm_apply(rig->device, y[0], x, stat[0][2], stat[0][3], gain, bias);
    batchnorm_from_running(rig->device, rstd, stat[1][3]);
    a.mean = stat[1][2], a.rstd = rstd;
    norm_activate_forward(rig->device, out, a, b, alone);
    expect(rig, "norm_activate_forward from running statistics", out, widened(rig, y[0]), 8 * U);
}

static void halves_of_batchnorm(void **state) {
    (void)state;
    everywhere(check_halves);
}

/* Elementwise. */

static void run_gelu(const Call *c) {
    poison(c->y);
    gelu_forward(c->device, c->y, c->x, c->gelu);
}

static double reference_gelu(double x, GeluKind kind, double *slope) {
    if (kind == GELU_ERF) {
        double p = 0.5 * erfc(-x / sqrt(2));
        *slope = p + x * exp(-x * x / 2) / sqrt(2 * M_PI);
        return x * p;
    }
    double t = tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
    *slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    return 0.5 * x * (1 + t);
}

/* Each gate is right to about 8 U, gelu's is multiplied by x; the slope has a second term up to x^2 in size. */
static void check_gelu(Rig *rig) {
    for (int kind = 0; kind < 2; kind++) {
        Call c = {.device = rig->device, .y = poisoned(rig, 41, 61), .x = normal(rig, 41, 61), .gelu = (GeluKind)kind};
        int64_t n = tensor_numel(c.x);
        for (int64_t i = 0; i < n / 2; i++) floats(c.x)[i] = (float)i / (float)(n / 4) * 14 - 14;
        Tensor dy = normal(rig, 41, 61), dx = poisoned(rig, 41, 61), x = normal(rig, 41, 61);
        double *y = doubles(rig, n), *want = doubles(rig, n), *up = widened(rig, dy);
        run_gelu(&c);
        gelu_backward(rig->device, dx, dy, c.x, c.gelu);
        for (int64_t i = 0; i < n; i++) {
            double at = (double)floats(c.x)[i], slope;
            y[i] = reference_gelu(at, c.gelu, &slope);
            want[i] = up[i] * slope;
            assert_true(fabs((double)floats(c.y)[i] - y[i]) <= 8 * U * fmin(fabs(at), 14));
            assert_true(fabs((double)floats(dx)[i] - want[i]) <= 16 * U * fabs(up[i]));
        }
        expect(rig, "gelu y", c.y, y, 8 * U);
        expect(rig, "gelu dx", dx, want, 16 * U);
        expect_gradient(rig, "gelu dx", &c, run_gelu, c.x, dx, NULL, c.y, up, 8 * U);
        memcpy(x.data, c.x.data, tensor_bytes(x));
        run_gelu(&c);
        gelu_forward(rig->device, x, x, c.gelu);
        expect_same(rig, "gelu in place", x, c.y);
        gelu_backward(rig->device, dy, dy, c.x, c.gelu);
        expect_same(rig, "gelu_backward in place", dy, dx);
    }
}

static void gelu(void **state) {
    (void)state;
    everywhere(check_gelu);
}

/* Linear, GELU and dropout in one: to the bit all of them one after the other, and right as their composition. */

static void run_linear_gelu(const Call *c) {
    poison(c->y);
    poison(c->sum);
    linear_gelu_forward(c->device, c->y, c->sum, c->x, c->w, c->bias, c->layout, c->gelu, c->drop);
}

/* An error of the hidden number is multiplied by GELU's slope, at most 1.13; dropout is then a factor of it all. */
static void check_linear_gelu(Rig *rig, int64_t n, int64_t in, int64_t out, WeightLayout layout, GeluKind kind,
                              bool with_bias, Dropout drop) {
    Call c = {.device = rig->device,
              .y = poisoned(rig, n, out),
              .sum = poisoned(rig, n, out),
              .x = normal(rig, n, in),
              .w = layout == WEIGHT_IN_OUT ? normal(rig, in, out) : normal(rig, out, in),
              .bias = with_bias ? normal(rig, out, 0) : tensor_none(),
              .layout = layout,
              .gelu = kind,
              .drop = drop};
    Tensor hidden = poisoned(rig, n, out), activated = poisoned(rig, n, out);
    double *y = doubles(rig, n * out), slope;
    for (int64_t r = 0; r < n; r++)
        for (int64_t o = 0; o < out; o++) {
            double sum = with_bias ? (double)floats(c.bias)[o] : 0;
            for (int64_t i = 0; i < in; i++) sum += (double)floats(c.x)[r * in + i] * weight_at(&c, i, o);
            y[r * out + o] = reference_gelu(sum, kind, &slope) * keep_factor(drop, (uint64_t)(r * out + o));
        }
    run_linear_gelu(&c);
    expect(rig, "linear_gelu_forward y", c.y, y, 1.13 * sum_error(in, 2) + 8 * U);
    linear_forward(rig->device, hidden, c.x, c.w, c.bias, layout);
    gelu_forward(rig->device, activated, hidden, kind);
    dropout(rig->device, activated, activated, drop);
    expect_same(rig, "linear_gelu_forward hidden", c.sum, hidden);
    expect_same(rig, "linear_gelu_forward y", c.y, activated);
}

/* y = dropout(gelu(x)) W + bias; what is multiplied goes to `branch`. */
static void run_gelu_linear(const Call *c) {
    gelu_forward(c->device, c->branch, c->x, c->gelu);
    dropout(c->device, c->branch, c->branch, c->drop);
    linear_forward(c->device, c->y, c->branch, c->w, c->bias, c->layout);
}

/* The slope is right to 16 U, and multiplies a sum. */
static void check_gelu_linear(Rig *rig, int64_t n, int64_t in, int64_t out, WeightLayout layout, GeluKind kind,
                              bool with_bias, Dropout drop) {
    Call c = {.device = rig->device,
              .y = poisoned(rig, n, out),
              .branch = poisoned(rig, n, in),
              .x = normal(rig, n, in),
              .w = layout == WEIGHT_IN_OUT ? normal(rig, in, out) : normal(rig, out, in),
              .bias = with_bias ? normal(rig, out, 0) : tensor_none(),
              .layout = layout,
              .gelu = kind,
              .drop = drop};
    Tensor dy = normal(rig, n, out), dx = poisoned(rig, n, in), dx2 = poisoned(rig, n, in), dw[2], db[2];
    double *up = widened(rig, dy), *want = doubles(rig, n * in), slope;
    for (int i = 0; i < 2; i++) {
        dw[i] = normal(rig, c.w.dims[0], c.w.dims[1]);
        db[i] = with_bias ? normal(rig, out, 0) : tensor_none();
        if (i) memcpy(dw[1].data, dw[0].data, tensor_bytes(dw[0]));
        if (i && with_bias) memcpy(db[1].data, db[0].data, tensor_bytes(db[0]));
    }
    double *w0 = widened(rig, dw[0]), *b0 = with_bias ? widened(rig, db[0]) : NULL;
    run_gelu_linear(&c);
    gelu_linear_backward(rig->device, dx, dw[0], db[0], dy, c.branch, c.x, c.w, layout, kind, drop);
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = 0; i < in; i++) {
            double sum = 0;
            for (int64_t o = 0; o < out; o++) sum += up[r * out + o] * weight_at(&c, i, o);
            reference_gelu((double)floats(c.x)[r * in + i], kind, &slope);
            want[r * in + i] = sum * slope * keep_factor(drop, (uint64_t)(r * in + i));
        }
    expect(rig, "gelu_linear_backward dhidden", dx, want, 1.13 * sum_error(out, 2) + 16 * U);
    expect_gradient(rig, "gelu_linear dhidden", &c, run_gelu_linear, c.x, dx, NULL, c.y, up, sum_error(in, 10));
    expect_gradient(rig, "gelu_linear dw", &c, run_gelu_linear, c.w, dw[0], w0, c.y, up, sum_error(in, 10));
    if (with_bias)
        expect_gradient(rig, "gelu_linear dbias", &c, run_gelu_linear, c.bias, db[0], b0, c.y, up, sum_error(in, 10));
    linear_backward(rig->device, dx2, dw[1], db[1], dy, c.branch, c.w, layout);
    gelu_backward(rig->device, dx2, dx2, c.x, kind);
    dropout(rig->device, dx2, dx2, drop);
    expect_same(rig, "gelu_linear_backward dhidden", dx, dx2);
    expect_same(rig, "gelu_linear_backward dw", dw[0], dw[1]);
    if (with_bias) expect_same(rig, "gelu_linear_backward dbias", db[0], db[1]);
}

static void check_gelus_of_linears(Rig *rig) {
    static const int64_t sizes[][3] = {{3, 7, 5}, {37, 45, 83}, {129, 65, 33}};
    for (int i = 0; i < 3; i++)
        for (int given = 0; given < 16; given++) {
            const int64_t *s = sizes[i];
            WeightLayout layout = (WeightLayout)(given & 1);
            GeluKind kind = (GeluKind)(given >> 1 & 1);
            Dropout drop = dropout_of(given & 8 ? 0.25f : 0);
            check_linear_gelu(rig, s[0], s[1], s[2], layout, kind, given & 4, drop);
            check_gelu_linear(rig, s[0], s[1], s[2], layout, kind, given & 4, drop);
        }
}

static void linear_and_gelu(void **state) {
    (void)state;
    everywhere(check_gelus_of_linears);
}

static void run_dropout(const Call *c) {
    poison(c->y);
    dropout(c->device, c->y, c->x, c->drop);
}

static void run_residual(const Call *c) {
    poison(c->y);
    residual_forward(c->device, c->y, c->x, c->branch, c->drop);
}

static void check_dropout(Rig *rig) {
    static const float p[] = {0, 0.1f, 0.5f, 0.999f};
    const int64_t rows = 67, columns = 131, n = rows * columns; /* more than one piece of 4096 */
    for (int k = 0; k < 4; k++) {
        Dropout drop = dropout_of(p[k]);
        Call c = {.device = rig->device,
                  .y = poisoned(rig, rows, columns),
                  .x = normal(rig, rows, columns),
                  .branch = normal(rig, rows, columns),
                  .drop = drop};
        double *y = doubles(rig, n), *sum = widened(rig, c.x), kept = 0;
        for (int64_t i = 0; i < n; i++) {
            double factor = p[k] > 0 ? keep_factor(drop, (uint64_t)i) : 1;
            y[i] = factor * (double)floats(c.x)[i];
            sum[i] += factor * (double)floats(c.branch)[i];
            kept += factor > 0;
        }
        assert_true(fabs(kept / (double)n - 1 + (double)p[k]) < 5 * sqrt(0.25 / (double)n));
        run_dropout(&c);
        expect(rig, "dropout", c.y, y, 4 * U);
        Tensor dx = poisoned(rig, rows, columns), dy = normal(rig, rows, columns);
        double *up = widened(rig, dy);
        dropout(rig->device, dx, dy, drop);
        expect_gradient(rig, "dropout dx", &c, run_dropout, c.x, dx, NULL, c.y, up, 4 * U);
        expect_gradient(rig, "residual dbranch", &c, run_residual, c.branch, dx, NULL, c.y, up, 4 * U);
        run_residual(&c);
        expect(rig, "residual", c.y, sum, 4 * U);
        dropout(rig->device, dy, dy, drop);
        expect_same(rig, "dropout in place", dy, dx);
        residual_forward(rig->device, c.x, c.x, c.branch, drop);
        expect_same(rig, "residual in place", c.x, c.y);
    }
}

static void dropout_and_residual(void **state) {
    (void)state;
    everywhere(check_dropout);
}

/* Embedding, gather, scatter. */

static void run_embedding(const Call *c) {
    poison(c->y);
    embedding_forward(c->device, c->y, c->rows, c->ids, c->table, c->positions, c->position_table);
    for (int64_t i = 0; i < tensor_numel(c->y); i++)
        if (isnan(floats(c->y)[i])) floats(c->y)[i] = 0; /* rows that were not named keep their poison */
}

/* Every other row of `of`, from the back: distinct and not in order. */
static Tensor some_rows(Rig *rig, int64_t n, int64_t of) {
    Tensor t = tensor(rig, DTYPE_I32, n, 0);
    for (int64_t i = 0; i < n; i++) integers(t)[i] = (int32_t)(of - 1 - 2 * i);
    return t;
}

static void check_embedding(Rig *rig) {
    const int64_t n = 53, c = 77, vocabulary = 11, places = 60;
    for (int given = 0; given < 4; given++) {
        bool with_rows = given & 1, with_positions = given & 2;
        int64_t all = with_rows ? 2 * n : n;
        Call call = {.device = rig->device,
                     .y = poisoned(rig, all, c),
                     .rows = with_rows ? some_rows(rig, n, all) : tensor_none(),
                     .ids = below(rig, n, (uint32_t)vocabulary),
                     .table = normal(rig, vocabulary, c),
                     .positions = with_positions ? below(rig, n, (uint32_t)places) : tensor_none(),
                     .position_table = with_positions ? normal(rig, places, c) : tensor_none()};
        Tensor dx = normal(rig, all, c), dtable = normal(rig, vocabulary, c), dplaces = normal(rig, places, c);
        double *y = doubles(rig, all * c), *up = widened(rig, dx), *wt = widened(rig, dtable);
        double *wp = widened(rig, dplaces), *t0 = widened(rig, dtable), *p0 = widened(rig, dplaces);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < c; j++) {
                int64_t at = (with_rows ? integers(call.rows)[i] : i) * c + j, id = integers(call.ids)[i];
                int64_t place = with_positions ? integers(call.positions)[i] : 0;
                y[at] = (double)floats(call.table)[id * c + j];
                if (with_positions) y[at] += (double)floats(call.position_table)[place * c + j];
                wt[id * c + j] += up[at];
                if (with_positions) wp[place * c + j] += up[at];
            }
        run_embedding(&call);
        expect(rig, "embedding x", call.y, y, U);
        embedding_backward(rig->device, dtable, with_positions ? dplaces : tensor_none(), dx, call.rows, call.ids,
                           call.positions);
        expect(rig, "embedding dtable", dtable, wt, sum_error(n, 2));
        expect_gradient(rig, "embedding dtable", &call, run_embedding, call.table, dtable, t0, call.y, up, U);
        expect(rig, "embedding dposition_table", dplaces, wp, sum_error(n, 2));
        if (with_positions)
            expect_gradient(rig, "embedding dpositions", &call, run_embedding, call.position_table, dplaces, p0, call.y,
                            up, U);
    }
}

static void embedding(void **state) {
    (void)state;
    everywhere(check_embedding);
}

static void run_place_rows(const Call *c) {
    poison(c->y);
    place_rows(c->device, c->y, c->x, c->rows, c->positions, c->table);
    for (int64_t i = 0; i < tensor_numel(c->y); i++)
        if (isnan(floats(c->y)[i])) floats(c->y)[i] = 0; /* rows that were not named keep their poison */
}

static void check_place_rows(Rig *rig) {
    const int64_t n = 53, c = 77, places = 12, all = 2 * n;
    Call call = {.device = rig->device,
                 .y = poisoned(rig, all, c),
                 .x = normal(rig, n, c),
                 .rows = some_rows(rig, n, all),
                 .positions = below(rig, n, (uint32_t)places),
                 .table = normal(rig, places, c)};
    double *want = doubles(rig, all * c);
    for (int64_t i = 0; i < n * c; i++)
        want[integers(call.rows)[i / c] * c + i % c] =
            (double)floats(call.x)[i] + (double)floats(call.table)[integers(call.positions)[i / c] * c + i % c];
    run_place_rows(&call);
    expect(rig, "place_rows", call.y, want, U);
    Tensor dx = normal(rig, all, c), dy = poisoned(rig, n, c), dtable = normal(rig, places, c);
    double *up = widened(rig, dx), *before = widened(rig, dtable);
    gather_rows(rig->device, dy, dx, call.rows);
    embedding_backward(rig->device, dtable, tensor_none(), dx, call.rows, call.positions, tensor_none());
    expect_gradient(rig, "place_rows dy", &call, run_place_rows, call.x, dy, NULL, call.y, up, U);
    expect_gradient(rig, "place_rows dtable", &call, run_place_rows, call.table, dtable, before, call.y, up,
                    sum_error(n, 0));
}

static void rows_placed(void **state) {
    (void)state;
    everywhere(check_place_rows);
}

static void check_gather_and_scatter(Rig *rig) {
    const int64_t n = 21, all = 42, c = 35;
    Tensor x = normal(rig, all, c), y = poisoned(rig, n, c), back = normal(rig, all, c), rows = some_rows(rig, n, all);
    double *want = doubles(rig, n * c), *want_back = widened(rig, back);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < c; j++) {
            int64_t at = integers(rows)[i] * c + j;
            want_back[at] = want[i * c + j] = (double)floats(x)[at];
        }
    gather_rows(rig->device, y, x, rows);
    expect(rig, "gather_rows", y, want, 0);
    scatter_rows(rig->device, back, y, rows);
    expect(rig, "scatter_rows", back, want_back, 0);
}

static void gather_and_scatter(void **state) {
    (void)state;
    everywhere(check_gather_and_scatter);
}

/* Attention. */

static void run_attention(const Call *c) {
    poison(c->y);
    poison(c->sum);
    attention_forward(c->device, c->y, c->sum, c->x, c->sequences, c->attention, c->drop);
}

static double dot_product(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* One head of one sequence, query by query: out, lse, and with dout also dqkv (which starts as zero). */
static void reference_attention(const Call *c, const double *qkv, int64_t first, int64_t length, int head, double *out,
                                double *lse, const double *dout, double *dqkv) {
    int64_t n = c->x.dims[0], width = c->x.dims[1], channels = width / 3, size = channels / c->attention.n_heads;
    double scale = (double)c->attention.scale, *p = xmalloc((size_t)(length + 1) * sizeof *p);
    for (int64_t i = first; i < first + length; i++) {
        int64_t q = i * width + head * size, k = first * width + channels + head * size, v = k + channels;
        int64_t seen = c->attention.causal ? i - first + 1 : length, at = i * channels + head * size;
        double largest = -INFINITY, sum = 0, dot = 0;
        for (int64_t j = 0; j < seen; j++) {
            p[j] = scale * dot_product(qkv + q, qkv + k + j * width, size);
            largest = fmax(largest, p[j]);
        }
        for (int64_t j = 0; j < seen; j++) sum += p[j] = exp(p[j] - largest);
        lse[head * n + i] = largest + log(sum);
        for (int64_t e = 0; e < size; e++) out[at + e] = 0;
        for (int64_t j = 0; j < seen; j++) {
            double keep = c->drop.p > 0 ? keep_factor(c->drop, ((uint64_t)(head * n + i) << 20) + (uint64_t)j) : 1;
            p[j] /= sum;
            for (int64_t e = 0; e < size; e++) out[at + e] += p[j] * keep * qkv[v + j * width + e];
        }
        dot = dot_product(dout + at, out + at, size);
        for (int64_t j = 0; j < seen; j++) {
            double keep = c->drop.p > 0 ? keep_factor(c->drop, ((uint64_t)(head * n + i) << 20) + (uint64_t)j) : 1;
            double ds = p[j] * (keep * dot_product(dout + at, qkv + v + j * width, size) - dot);
            for (int64_t e = 0; e < size; e++) {
                dqkv[q + e] += scale * ds * qkv[k + j * width + e];
                dqkv[k + j * width + e] += scale * ds * qkv[q + e];
                dqkv[v + j * width + e] += p[j] * keep * dout[at + e];
            }
        }
    }
    free(p);
}

static Sequences packed(Rig *rig, const int *lengths, int count) {
    Tensor offsets = tensor(rig, DTYPE_I32, count + 1, 0);
    for (int s = 0; s < count; s++) integers(offsets)[s + 1] = integers(offsets)[s] + lengths[s];
    return (Sequences){offsets, offsets.data, count};
}

/* A score has the error of a sum of `size` terms, which the exponential turns into a relative one, and P's rows and
 * the sums over queries have `longest` terms; dS is a difference of numbers of the size of P times dP. */
static void check_attention(Rig *rig, const int *lengths, int count, int heads, int size, bool causal, float p) {
    Sequences sequences = packed(rig, lengths, count);
    int64_t n = sequences.host_offsets[count], channels = heads * size, longest = 0;
    for (int s = 0; s < count; s++) longest = lengths[s] > longest ? lengths[s] : longest;
    Call c = {.device = rig->device,
              .y = poisoned(rig, n, channels),
              .sum = poisoned(rig, heads, n),
              .x = normal(rig, n, 3 * channels),
              .sequences = sequences,
              .attention = {heads, causal, 1 / sqrtf((float)size)},
              .drop = dropout_of(p)};
    Tensor dout = normal(rig, n, channels), dqkv = poisoned(rig, n, 3 * channels);
    double *qkv = widened(rig, c.x), *up = widened(rig, dout), *out = doubles(rig, n * channels);
    double *lse = doubles(rig, heads * n), *want = doubles(rig, n * 3 * channels);
    double tolerance = sum_error(size, 32) + sum_error(longest, 0);
    for (int s = 0; s < count; s++)
        for (int head = 0; head < heads; head++)
            reference_attention(&c, qkv, sequences.host_offsets[s], lengths[s], head, out, lse, up, want);
    run_attention(&c);
    expect(rig, "attention out", c.y, out, tolerance);
    expect(rig, "attention lse", c.sum, lse, tolerance);
    attention_backward(rig->device, dqkv, dout, c.x, c.y, c.sum, sequences, c.attention, c.drop);
    expect(rig, "attention dqkv", dqkv, want, 2 * tolerance);
    expect_gradient(rig, "attention dqkv", &c, run_attention, c.x, dqkv, NULL, c.y, up, tolerance);
}

static void check_attentions(Rig *rig) {
    for (int causal = 0; causal < 2; causal++)
        for (int p = 0; p < 2; p++) {
            float drop = p ? 0.3f : 0;
            check_attention(rig, (int[]){1}, 1, 1, 7, causal, drop);
            check_attention(rig, (int[]){1, 1, 1}, 3, 2, 16, causal, drop);
            check_attention(rig, (int[]){64}, 1, 3, 5, causal, drop);
            check_attention(rig, (int[]){5, 16, 0, 13, 1, 9}, 6, 3, 32, causal, drop); /* short ones */
            check_attention(rig, (int[]){12, 3}, 2, 1, 128, causal, drop);
            check_attention(rig, (int[]){3, 0, 66, 1}, 4, 3, 20, causal, drop);
            check_attention(rig, (int[]){2, 201, 1, 17}, 4, 1, 33, causal, drop); /* split into parts */
        }
    check_attention(rig, (int[]){300}, 1, 1, 64, true, 0);
    check_attention(rig, (int[]){260}, 1, 64, 1, true,
                    0.3f); /* dropout elements beyond 2^34: the counter's high word */
}

static void attention(void **state) {
    (void)state;
    everywhere(check_attentions);
}

/* Cross-entropy. */

static void run_cross_entropy(const Call *c) {
    poison(c->y);
    cross_entropy_forward(c->device, c->y, c->sum, c->x, c->ids, c->w);
}

/* A probability has the error of its sum, and so has the loss, its logarithm. */
static void check_classes(Rig *rig, int64_t n, int64_t classes, float spread, bool weighted) {
    const float scale = 0.7f;
    Call c = {.device = rig->device,
              .y = poisoned(rig, n, 0),
              .sum = poisoned(rig, n, 0),
              .x = normal(rig, n, classes),
              .w = weighted ? normal(rig, n, 0) : tensor_none(),
              .ids = below(rig, n, (uint32_t)classes)};
    for (int64_t i = 0; i < n * classes; i++) floats(c.x)[i] *= spread;
    for (int64_t i = 1; i < n; i += 5) integers(c.ids)[i] = -1 - (int32_t)i;
    for (int64_t i = 2; i < n; i += 3) { /* the largest twice: the first one counts */
        floats(c.x)[i * classes + classes / 3] = floats(c.x)[i * classes + classes - 1] = 5 * spread;
        if (i % 2 && integers(c.ids)[i] >= 0) integers(c.ids)[i] = (int32_t)(classes / 3);
        if (i % 2 == 0 && integers(c.ids)[i] >= 0) integers(c.ids)[i] = (int32_t)(classes - 1);
    }
    double *loss = doubles(rig, n), *correct = doubles(rig, n), *dz = widened(rig, c.x), *ones = doubles(rig, n);
    for (int64_t i = 0; i < n; i++) {
        double *z = dz + i * classes, largest = z[0], sum = 0;
        int64_t first = 0, target = integers(c.ids)[i];
        for (int64_t j = 1; j < classes; j++)
            if (z[j] > largest) largest = z[first = j];
        for (int64_t j = 0; j < classes; j++) sum += exp(z[j] - largest);
        double weight = weighted ? (double)floats(c.w)[i] : 1;
        loss[i] = target < 0 ? 0 : weight * (log(sum) + largest - z[target]);
        correct[i] = first == target;
        for (int64_t j = 0; j < classes; j++)
            z[j] = target < 0 ? 0 : (double)scale * weight * (exp(z[j] - largest) / sum - (j == target));
        ones[i] = (double)scale;
    }
    Tensor before = tensor(rig, DTYPE_F32, n, classes), dlogits = tensor(rig, DTYPE_F32, n, classes);
    Tensor loss2 = poisoned(rig, n, 0), correct2 = poisoned(rig, n, 0);
    memcpy(before.data, c.x.data, tensor_bytes(c.x));
    memcpy(dlogits.data, c.x.data, tensor_bytes(c.x));
    run_cross_entropy(&c);
    double tolerance = sum_error(classes, 16);
    expect(rig, "cross_entropy loss", c.y, loss, classes == 1 ? 0 : tolerance);
    expect(rig, "cross_entropy correct", c.sum, correct, 0);
    expect_same(rig, "cross_entropy logits", c.x, before);
    cross_entropy_forward_backward(rig->device, loss2, correct2, dlogits, c.ids, c.w, number(rig, scale),
                                   tensor_none());
    expect(rig, "cross_entropy loss", loss2, loss, classes == 1 ? 0 : tolerance);
    expect_same(rig, "cross_entropy correct", correct2, c.sum);
    expect(rig, "cross_entropy dlogits", dlogits, dz, tolerance);
    if (classes > 1 && classes < 10000 && spread < 10) /* else a step sees too little of the gradient */
        expect_gradient(rig, "cross_entropy dlogits", &c, run_cross_entropy, c.x, dlogits, NULL, c.y, ones, tolerance);
}

static void check_cross_entropy(Rig *rig) {
    check_classes(rig, 3, 1, 1, false);
    check_classes(rig, 23, 7, 2, false);
    check_classes(rig, 23, 7, 2, true);
    check_classes(rig, 41, 1003, 2, true);
    check_classes(rig, 11, 129, 40, false); /* exponentials down to nothing */
    check_classes(rig, 3, 50257, 3, false);
}

static void cross_entropy(void **state) {
    (void)state;
    everywhere(check_cross_entropy);
}

/* Squared error. */

static void run_squared_error(const Call *c) {
    poison(c->y);
    squared_error_forward(c->device, c->y, c->x, c->branch);
}

static void check_squared_errors(Rig *rig) {
    static const int64_t sizes[][2] = {{1, 1}, {37, 16}, {5, 131}};
    const float scale = 0.7f;
    for (int s = 0; s < 3; s++) {
        int64_t n = sizes[s][0], columns = sizes[s][1];
        Call c = {.device = rig->device,
                  .y = poisoned(rig, n, 0),
                  .x = normal(rig, n, columns),
                  .branch = normal(rig, n, columns)};
        double *loss = doubles(rig, n), *dy = doubles(rig, n * columns), *weights = doubles(rig, n);
        for (int64_t i = 0; i < n * columns; i++) {
            double difference = (double)floats(c.x)[i] - (double)floats(c.branch)[i];
            loss[i / columns] += difference * difference;
            dy[i] = 2 * (double)scale * difference;
            weights[i / columns] = (double)scale;
        }
        Tensor y = tensor(rig, DTYPE_F32, n, columns), loss2 = poisoned(rig, n, 0);
        memcpy(y.data, c.x.data, tensor_bytes(y));
        run_squared_error(&c);
        expect(rig, "squared_error loss", c.y, loss, sum_error(columns, 4));
        squared_error_forward_backward(rig->device, loss2, y, c.branch, number(rig, scale), tensor_none());
        expect_same(rig, "squared_error loss", loss2, c.y);
        expect(rig, "squared_error dy", y, dy, 4 * U);
        expect_gradient(rig, "squared_error dy", &c, run_squared_error, c.x, y, NULL, c.y, weights,
                        sum_error(columns, 4));
    }
}

static void squared_error(void **state) {
    (void)state;
    everywhere(check_squared_errors);
}

/* Binary cross-entropy. */

static void run_binary_cross_entropy(const Call *c) {
    poison(c->y);
    binary_cross_entropy_forward(c->device, c->y, c->sum, c->x, c->w, c->bias);
}

/* log(1 + exp z) - t z and its derivative, where nothing overflows. Of the loss only its own roundings are wrong, even
 * where it is next to nothing; the gradient is a difference of what `size` adds up. */
static double binary_loss(double z, double t, double *derivative, double *size) {
    double e = exp(-fabs(z)), other = e / (1 + e), missing = z > 0 ? 1 - t : t;
    *derivative = z > 0 ? missing - other : other - missing;
    *size = missing + other;
    return missing * fabs(z) + log1p(e);
}

/* Every logit with every target, the largest that f32 and f16 have, and those whose exponential is next to nothing. */
static void check_binary_losses(Rig *rig) {
    static const float z[] = {-3e38f, -65504, -100, -89, -20, -1.5f, -1e-3f, 0, 1e-6f, 0.3f, 2, 17, 88, 100, 65504};
    static const float t[] = {0, 0.025f, 0.3f, 0.5f, 0.975f, 1};
    enum { TARGETS = sizeof t / sizeof *t, ROWS = TARGETS * (int)(sizeof z / sizeof *z) };
    const float scale = 0.7f;
    Call c = {.device = rig->device,
              .y = poisoned(rig, ROWS, 0),
              .sum = poisoned(rig, ROWS, 0),
              .x = tensor(rig, DTYPE_F32, ROWS, 1),
              .w = tensor(rig, DTYPE_F32, ROWS, 0),
              .bias = tensor(rig, DTYPE_F32, ROWS, 0)};
    Tensor dz = tensor(rig, DTYPE_F32, ROWS, 1), loss = poisoned(rig, ROWS, 0), correct = poisoned(rig, ROWS, 0);
    for (int i = 0; i < ROWS; i++) {
        floats(c.x)[i] = floats(dz)[i] = z[i / TARGETS];
        floats(c.w)[i] = t[i % TARGETS];
        floats(c.bias)[i] = (float)(i % 7 < 3);
    }
    run_binary_cross_entropy(&c);
    binary_cross_entropy_forward_backward(rig->device, loss, correct, dz, c.w, c.bias, number(rig, scale),
                                          tensor_none());
    for (int i = 0; i < ROWS; i++) {
        double derivative, size, want = binary_loss((double)z[i / TARGETS], (double)t[i % TARGETS], &derivative, &size);
        assert_near(floats(c.y)[i], want, 6 * U * want + FLT_MIN);
        assert_near(floats(dz)[i], (double)scale * derivative, 6 * U * (double)scale * size + FLT_MIN);
        assert_true(floats(c.sum)[i] == ((z[i / TARGETS] > 0) == (i % 7 < 3)));
    }
    expect_same(rig, "binary_cross_entropy loss", loss, c.y);
    expect_same(rig, "binary_cross_entropy correct", correct, c.sum);
    hash(rig, dz);
}

static void check_binary_gradients(Rig *rig) {
    enum { ROWS = 37 };
    const float scale = 0.7f;
    Call c = {.device = rig->device,
              .y = poisoned(rig, ROWS, 0),
              .sum = poisoned(rig, ROWS, 0),
              .x = normal(rig, ROWS, 1),
              .w = tensor(rig, DTYPE_F32, ROWS, 0),
              .bias = normal(rig, ROWS, 0)};
    Tensor dz = tensor(rig, DTYPE_F32, ROWS, 1);
    memcpy(dz.data, c.x.data, tensor_bytes(dz));
    double *weights = doubles(rig, ROWS);
    for (int i = 0; i < ROWS; i++) {
        floats(c.w)[i] = (float)i / (ROWS - 1);
        weights[i] = (double)scale;
    }
    binary_cross_entropy_forward_backward(rig->device, c.y, c.sum, dz, c.w, c.bias, number(rig, scale), tensor_none());
    expect_gradient(rig, "binary_cross_entropy dlogits", &c, run_binary_cross_entropy, c.x, dz, NULL, c.y, weights,
                    6 * U);
}

static void binary_cross_entropy(void **state) {
    (void)state;
    everywhere(check_binary_losses);
    everywhere(check_binary_gradients);
}

/* Rows of length one, NT-Xent. */

static void run_normalize(const Call *c) {
    poison(c->y);
    normalize_rows_forward(c->device, c->y, c->mean, c->x);
}

/* short_rows: one row is zero and one shorter than the shortest that is brought to length one. */
static void check_normalize(Rig *rig, int64_t n, int64_t columns, bool short_rows) {
    Call c = {.device = rig->device,
              .y = poisoned(rig, n, columns),
              .mean = poisoned(rig, n, 0),
              .x = normal(rig, n, columns)};
    for (int64_t j = 0; j < columns && short_rows; j++) {
        floats(c.x)[j] = 0;
        floats(c.x)[columns + j] *= 1e-14f;
    }
    Tensor dy = normal(rig, n, columns), dx = poisoned(rig, n, columns);
    double *x = widened(rig, c.x), *up = widened(rig, dy), *y = doubles(rig, columns), *want = doubles(rig, columns);
    run_normalize(&c);
    normalize_rows_backward(rig->device, dx, dy, c.y, c.mean);
    for (int64_t i = 0; i < n; i++) {
        const double *in = x + i * columns;
        double norm = sqrt(dot_product(in, in, columns)), divisor = fmax(norm, 1e-12);
        for (int64_t j = 0; j < columns; j++) y[j] = in[j] / divisor;
        double dot = norm < 1e-12 ? 0 : dot_product(y, up + i * columns, columns);
        for (int64_t j = 0; j < columns; j++) want[j] = (up[i * columns + j] - y[j] * dot) / divisor;
        expect(rig, "normalize_rows norm", tensor_rows(c.mean, i, 1), &norm, sum_error(columns, 4));
        expect(rig, "normalize_rows y", tensor_rows(c.y, i, 1), y, sum_error(columns, 8));
        if (columns > 1) expect(rig, "normalize_rows dx", tensor_rows(dx, i, 1), want, 2 * sum_error(columns, 16));
    }
    if (columns > 1 && !short_rows)
        expect_gradient(rig, "normalize_rows dx", &c, run_normalize, c.x, dx, NULL, c.y, up, sum_error(columns, 8));
}

static void check_normalizes(Rig *rig) {
    check_normalize(rig, 3, 1, false);
    check_normalize(rig, 37, 45, false);
    check_normalize(rig, 6, 128, true);
}

static void normalize_rows(void **state) {
    (void)state;
    everywhere(check_normalizes);
}

static void run_nt_xent(const Call *c) {
    poison(c->y);
    nt_xent_forward(c->device, c->y, c->sum, c->x, c->temperature);
}

/* The lse of each row, its loss, and the gradient of scale times the sum of the losses, loss by loss. */
static void reference_nt_xent(const double *z, int64_t n, int64_t c, double temperature, double scale, double *loss,
                              double *lse, double *dz) {
    for (int64_t i = 0; i < n; i++) {
        int64_t partner = (i + n / 2) % n;
        double sum = 0;
        for (int64_t j = 0; j < n; j++)
            if (j != i) sum += exp(dot_product(z + i * c, z + j * c, c) / temperature);
        lse[i] = log(sum);
        loss[i] = lse[i] - dot_product(z + i * c, z + partner * c, c) / temperature;
        for (int64_t j = 0; j < n; j++) {
            if (j == i) continue;
            double ds = exp(dot_product(z + i * c, z + j * c, c) / temperature - lse[i]) - (j == partner);
            for (int64_t e = 0; e < c; e++) {
                dz[i * c + e] += scale / temperature * ds * z[j * c + e];
                dz[j * c + e] += scale / temperature * ds * z[i * c + e];
            }
        }
    }
}

/* Rows of length one: a score has the error of a product of size 1, over the temperature, and is an exponent in sums
 * over n; losses and gradients (times the temperature) are of size 1 or more. */
static void check_nt_xent(Rig *rig, int64_t n, int64_t columns, float temperature) {
    const float scale = 0.7f;
    Call c = {.device = rig->device,
              .y = poisoned(rig, n, 0),
              .sum = poisoned(rig, n, 0),
              .x = poisoned(rig, n, columns),
              .temperature = temperature};
    normalize_rows_forward(rig->device, c.x, poisoned(rig, n, 0), normal(rig, n, columns));
    double *z = widened(rig, c.x), *loss = doubles(rig, n), *lse = doubles(rig, n), *dz = doubles(rig, n * columns);
    double *weights = doubles(rig, n), tolerance = sum_error(columns, 4) / (double)temperature + sum_error(n, 16);
    for (int64_t i = 0; i < n; i++) weights[i] = (double)scale;
    reference_nt_xent(z, n, columns, (double)temperature, (double)scale, loss, lse, dz);
    run_nt_xent(&c);
    expect(rig, "nt_xent loss", c.y, loss, tolerance);
    expect(rig, "nt_xent lse", c.sum, lse, tolerance);
    Tensor got = poisoned(rig, n, columns), again = poisoned(rig, n, columns);
    Tensor loss_scale = tensor(rig, DTYPE_F32, LOSS_SCALE_FIELDS, 0);
    floats(loss_scale)[LOSS_SCALE_FACTOR] = 1024;
    nt_xent_backward(rig->device, got, c.x, c.sum, temperature, number(rig, scale), tensor_none());
    nt_xent_backward(rig->device, again, c.x, c.sum, temperature, number(rig, scale / 1024), loss_scale);
    expect(rig, "nt_xent dz", got, dz, 2 * tolerance);
    expect_same(rig, "nt_xent dz, scaled", again, got);
    if (n > 2 && temperature > 0.2f) /* else a step is too long for the exponentials */
        expect_gradient(rig, "nt_xent dz", &c, run_nt_xent, c.x, got, NULL, c.y, weights, tolerance);
}

/* The mean over rows of sines and cosines, made with an independent framework. */
static void check_nt_xent_golden(Rig *rig) {
    Tensor x = tensor(rig, DTYPE_F32, 8, 6), z = poisoned(rig, 8, 6), norm = poisoned(rig, 8, 0);
    Tensor loss = poisoned(rig, 8, 0), lse = poisoned(rig, 8, 0);
    for (int k = 0; k < 24; k++) {
        floats(x)[k] = (float)sin(0.9 * k);
        floats(x)[24 + k] = (float)cos(0.4 * k);
    }
    normalize_rows_forward(rig->device, z, norm, x);
    nt_xent_forward(rig->device, loss, lse, z, 0.07f);
    double mean = 0;
    for (int i = 0; i < 8; i++) mean += (double)floats(loss)[i] / 8;
    assert_true(fabs(mean - 8.516661757361) <= sum_error(6, 16) / 0.07);
}

static void check_nt_xents(Rig *rig) {
    check_nt_xent(rig, 2, 5, 0.07f);
    check_nt_xent(rig, 70, 37, 0.07f);
    check_nt_xent(rig, 70, 37, 0.5f);
    check_nt_xent(rig, 258, 128, 0.07f);
    check_nt_xent(rig, 4, 1, 1);
    check_nt_xent_golden(rig);
}

static void nt_xent(void **state) {
    (void)state;
    everywhere(check_nt_xents);
}

/* Sums, norms, the optimizer. */

static void check_sum(Rig *rig) {
    for (int64_t n = 1; n <= 100003; n = 10 * n + 7) {
        Tensor x = normal(rig, n, 0), out = poisoned(rig, 1, 0);
        double want = 0;
        for (int64_t i = 0; i < n; i++) want += (double)floats(x)[i];
        sum_forward(rig->device, out, x);
        expect(rig, "sum", out, &want, 2 * U);
    }
}

static void sum(void **state) {
    (void)state;
    everywhere(check_sum);
}

static const Segment some_segments[] = {
    {0, 5, 0.1f, 1, 0}, {16, 40000, 0, 0.25f, 0}, {40001, 40001, 0, 1, 0}, {40010, 90001, 0.5f, 1.5f, 1}};
enum { SOME_SEGMENTS = 4, SOME_PARAMS = 90010 };

static bool covered(int64_t i) {
    for (int s = 0; s < SOME_SEGMENTS; s++)
        if (i >= some_segments[s].begin && i < some_segments[s].end) return true;
    return false;
}

/* Gradients that are NaN where no segment is: they must not enter the norm, nor change a parameter. */
static Tensor some_gradients(Rig *rig) {
    Tensor grads = normal(rig, SOME_PARAMS, 0);
    for (int64_t i = 0; i < SOME_PARAMS; i++)
        if (!covered(i)) floats(grads)[i] = NAN;
    return grads;
}

static void check_norm(Rig *rig) {
    Tensor grads = some_gradients(rig), norm = poisoned(rig, 1, 0);
    double squares = 0;
    for (int64_t i = 0; i < SOME_PARAMS; i++)
        if (covered(i)) squares += (double)floats(grads)[i] * (double)floats(grads)[i];
    squares = sqrt(squares);
    global_norm(rig->device, norm, grads, tensor_none(), some_segments, SOME_SEGMENTS);
    expect(rig, "global_norm", norm, &squares, 2 * U);
}

static void norm(void **state) {
    (void)state;
    everywhere(check_norm);
}

/* Outside of the segments not a bit may change. */
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

static void check_update(Rig *rig, AdamW o) {
    Tensor p = normal(rig, SOME_PARAMS, 0), m = normal(rig, SOME_PARAMS, 0), v = normal(rig, SOME_PARAMS, 0);
    Tensor g = some_gradients(rig), length = poisoned(rig, 1, 0);
    for (int64_t i = 0; i < SOME_PARAMS; i++) floats(v)[i] *= floats(v)[i];
    Tensor p0 = copied(rig, p), m0 = copied(rig, m), v0 = copied(rig, v);
    double *wp = widened(rig, p), *wm = widened(rig, m), *wv = widened(rig, v);
    global_norm(rig->device, length, g, tensor_none(), some_segments, SOME_SEGMENTS);
    double clip = o.clip > 0 ? fmin(1, (double)o.clip / ((double)floats(length)[0] + 1e-6)) : 1;
    double b1 = (double)o.beta1, b2 = (double)o.beta2;
    for (int s = 0; s < SOME_SEGMENTS; s++) {
        double lr = (double)o.learning_rate * (double)some_segments[s].rate;
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
    adamw_update(rig->device, p, tensor_none(), m, v, g, length, tensor_none(), some_segments, SOME_SEGMENTS, o);
    if (o.learning_rate == 0) expect_same(rig, "adamw params with no rate", p, p0);
    expect_updated(rig, "adamw params", p, p0, wp);
    expect_updated(rig, "adamw m", m, m0, wm);
    expect_updated(rig, "adamw v", v, v0, wv);
}

static void check_adamw(Rig *rig) {
    check_update(rig, (AdamW){0.05f, 0.9f, 0.999f, 1e-3f, 0, 1, false});
    check_update(rig, (AdamW){0.05f, 0.9f, 0.95f, 1e-8f, 1.0f, 7, false});
    check_update(rig, (AdamW){0.05f, 0.8f, 0.99f, 1e-8f, 1e6f, 100000, false});
    check_update(rig, (AdamW){0, 0.9f, 0.999f, 1e-8f, 1.0f, 3, false});
    check_update(rig, (AdamW){0.05f, 0.9f, 0.999f, 1e-8f, 1.0f, 3, true});
    check_update(rig, (AdamW){0.05f, 0.9f, 0.999f, 1e-3f, 0, 1, true});
}

static void adamw(void **state) {
    (void)state;
    everywhere(check_adamw);
}

/* Gradients times a power of two, and told so, make the same update to the bit; one that is not finite makes none. */
static void check_scaled_gradients(Rig *rig, bool coupled) {
    Device *device = rig->device;
    const AdamW o = {0.05f, 0.9f, 0.95f, 1e-8f, 1.0f, 7, coupled};
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
    adamw_update(device, p, tensor_none(), m, v, g, norm, tensor_none(), some_segments, SOME_SEGMENTS, o);
    adamw_update(device, p2, tensor_none(), m2, v2, g2, norm, scale, some_segments, SOME_SEGMENTS, o);
    expect_same(rig, "adamw params of scaled gradients", p2, p);
    expect_same(rig, "adamw v of scaled gradients", v2, v);
    floats(norm)[0] = INFINITY;
    adamw_update(device, p2, tensor_none(), m2, v2, g2, norm, scale, some_segments, SOME_SEGMENTS, o);
    expect_same(rig, "adamw params after an overflow", p2, p);

    Tensor x = normal(rig, 4, 9), x2 = tensor(rig, DTYPE_F32, 4, 9), loss = poisoned(rig, 4, 0),
           hit = poisoned(rig, 4, 0);
    memcpy(x2.data, x.data, tensor_bytes(x));
    Tensor targets = below(rig, 4, 9);
    Tensor none = tensor_none();
    cross_entropy_forward_backward(device, loss, hit, x, targets, none, number(rig, 0.5f * 1024), none);
    cross_entropy_forward_backward(device, loss, hit, x2, targets, none, number(rig, 0.5f), scale);
    expect_same(rig, "cross_entropy dlogits, scaled", x2, x);
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

static void check_loss_scale(Rig *rig) {
    check_scaled_gradients(rig, false);
    check_scaled_gradients(rig, true);
}

static void loss_scale(void **state) {
    (void)state;
    everywhere(check_loss_scale);
}

static void check_loss_scale_update(Rig *rig) {
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

static void check_norm_guard(Rig *rig) {
    Tensor norm = tensor(rig, DTYPE_F32, 1, 0), stopped = tensor(rig, DTYPE_F32, 1, 0), sums = normal(rig, 40, 0);
    const struct {
        float norm, sum;
        bool overflow_is_fine, remember;
        bool good, stopped; /* what is wanted */
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
            if (calls[i].good)
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

static void check_copy_segments(Rig *rig) {
    Tensor from = normal(rig, SOME_PARAMS, 0), to = normal(rig, SOME_PARAMS, 0), before = copied(rig, to);
    const float norms[] = {INFINITY, NAN, 0, 1};
    for (int i = 0; i < 4; i++) { /* the last without one */
        memcpy(to.data, before.data, tensor_bytes(to));
        copy_segments(rig->device, to, from, i < 3 ? number(rig, norms[i]) : tensor_none(), some_segments,
                      SOME_SEGMENTS);
        for (int64_t e = 0; e < SOME_PARAMS; e++)
            assert_true(floats(to)[e] == floats(i >= 2 && covered(e) ? from : before)[e]);
    }
}

static void copies(void **state) {
    (void)state;
    everywhere(check_copy_segments);
}

static void check_cast(Rig *rig) {
    Tensor x = normal(rig, 77, 0), y = poisoned(rig, 77, 0);
    cast(rig->device, y, x);
    expect_same(rig, "cast", y, x);
}

static void casts_and_scales(void **state) {
    (void)state;
    everywhere(check_loss_scale_update);
    everywhere(check_norm_guard);
    everywhere(check_cast);
}

/* A NaN that comes in must come out, and in the loss above all. */

static void check_nan(Rig *rig) {
    Device *device = rig->device;
    const int64_t n = 5, c = 83;
    for (int64_t at = 0; at < c; at += 41) { /* first, middle, last */
        Tensor x = normal(rig, n, c), y = normal(rig, n, c), mean = normal(rig, n, 0), rstd = normal(rig, n, 0);
        Tensor targets = below(rig, n, (uint32_t)c), one = normal(rig, 1, 0), gain = normal(rig, c, 0);
        float *bad = &floats(x)[2 * c + at];
        *bad = NAN;
        cross_entropy_forward(device, mean, rstd, x, targets, tensor_none());
        for (int64_t i = 0; i < n; i++) assert_true(isnan(floats(mean)[i]) == (i == 2));
        memcpy(y.data, x.data, tensor_bytes(x));
        cross_entropy_forward_backward(device, mean, rstd, y, targets, tensor_none(), number(rig, 1), tensor_none());
        for (int64_t i = 0; i < n * c; i++) assert_true(isnan(floats(y)[i]) == (i / c == 2));
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
        for (int64_t i = 0; i < 4; i++) assert_true(isnan(floats(mean)[i])); /* every row sees the third */
        layernorm_forward(device, y, mean, rstd, x, gain, tensor_none());
        for (int64_t i = 0; i < n * c; i++) assert_true(isnan(floats(y)[i]) == (i / c == 2));
        for (int kind = 0; kind < 2; kind++) {
            gelu_forward(device, y, x, (GeluKind)kind);
            for (int64_t i = 0; i < n * c; i++) assert_true(isnan(floats(y)[i]) == (i == 2 * c + at));
            gelu_backward(device, y, x, x, (GeluKind)kind);
            for (int64_t i = 0; i < n * c; i++) assert_true(isnan(floats(y)[i]) == (i == 2 * c + at));
        }
        global_norm(device, one, tensor_1d(x.data, DTYPE_F32, n * c), tensor_none(), (Segment[]){{0, n * c, 0, 1, 0}},
                    1);
        assert_true(isnan(floats(one)[0]));
        Tensor w = normal(rig, c, 9), product = normal(rig, n, 9);
        linear_forward(device, product, x, w, tensor_none(), WEIGHT_IN_OUT);
        for (int64_t i = 0; i < n * 9; i++) assert_true(isnan(floats(product)[i]) == (i / 9 == 2));
    }
    Tensor qkv = normal(rig, 70, 12), out = normal(rig, 70, 4), lse = normal(rig, 1, 70);
    floats(qkv)[69 * 12] = NAN; /* the last query: nobody else's business */
    attention_forward(device, out, lse, qkv, packed(rig, (int[]){70}, 1), (Attention){1, true, 0.5f}, dropout_of(0));
    for (int64_t i = 0; i < 70 * 4; i++) assert_true(isnan(floats(out)[i]) == (i / 4 == 69));
}

static void nan_comes_out(void **state) {
    (void)state;
    everywhere(check_nan);
}

/* The door: a wrong call dies, naming the operation and what was wrong. */

typedef struct {
    void (*call)(Rig *);
    const char *message;
} WrongCall;

static void wrong_linear(Rig *r) {
    linear_forward(r->device, normal(r, 3, 6), normal(r, 3, 4), normal(r, 5, 6), tensor_none(), WEIGHT_IN_OUT);
}
static void wrong_linear_backward(Rig *r) {
    linear_backward(r->device, tensor_none(), normal(r, 4, 6), normal(r, 4, 0), normal(r, 3, 6), normal(r, 3, 4),
                    normal(r, 4, 6), WEIGHT_IN_OUT);
}
static void wrong_hidden(Rig *r) {
    linear_gelu_forward(r->device, normal(r, 3, 6), normal(r, 3, 4), normal(r, 3, 4), normal(r, 4, 6), tensor_none(),
                        WEIGHT_IN_OUT, GELU_TANH, dropout_of(0));
}
static void wrong_hidden_backward(Rig *r) {
    gelu_linear_backward(r->device, normal(r, 3, 4), normal(r, 4, 6), tensor_none(), normal(r, 3, 6), normal(r, 3, 4),
                         normal(r, 3, 6), normal(r, 4, 6), WEIGHT_IN_OUT, GELU_TANH, dropout_of(0));
}
static void wrong_dtype(Rig *r) { gelu_forward(r->device, normal(r, 2, 2), tensor(r, DTYPE_I32, 2, 2), GELU_ERF); }
static void wrong_none(Rig *r) {
    layernorm_forward(r->device, normal(r, 2, 3), normal(r, 2, 0), normal(r, 2, 0), normal(r, 2, 3), tensor_none(),
                      tensor_none());
}
static void wrong_heads(Rig *r) {
    attention_forward(r->device, normal(r, 2, 4), normal(r, 3, 2), normal(r, 2, 12), packed(r, (int[]){2}, 1),
                      (Attention){3, true, 1}, dropout_of(0));
}
static void wrong_sequences(Rig *r) {
    attention_forward(r->device, normal(r, 3, 4), normal(r, 2, 3), normal(r, 3, 12), packed(r, (int[]){1, 1}, 2),
                      (Attention){2, true, 1}, dropout_of(0));
}
static void wrong_probability(Rig *r) { dropout(r->device, normal(r, 1, 4), normal(r, 1, 4), dropout_of(1)); }
static void wrong_target(Rig *r) {
    Tensor targets = below(r, 2, 1);
    integers(targets)[1] = 7;
    cross_entropy_forward(r->device, normal(r, 2, 0), normal(r, 2, 0), normal(r, 2, 7), targets, tensor_none());
}
static void wrong_weights(Rig *r) {
    cross_entropy_forward(r->device, normal(r, 2, 0), normal(r, 2, 0), normal(r, 2, 7), below(r, 2, 7),
                          normal(r, 3, 0));
}
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
                (Segment[]){{0, 4, 0, 1, 0}, {5, 11, 0, 1, 0}}, 2);
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
    conv3d_backward(r->device, tensor_none(), w, tensor_none(), x, x, w,
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
    batchnorm_forward(r->device, x, c, c, tensor_none(), tensor_none(), x, c, c, 0.1f);
}
static void wrong_running(Rig *r) {
    Tensor x = normal(r, 2, 4), c = normal(r, 4, 0);
    batchnorm_forward(r->device, x, c, c, c, tensor_none(), x, c, c, 0.1f);
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
    Tensor x = normal(r, 6, 4), c = normal(r, 4, 0), none = tensor_none();
    norm_activate_backward(r->device, x, c, c, none, none, none, normal(r, 3, 4), any_norm(r, 6, 4), (Normed){0},
                           (NormActivation){.slope = 1, .frames = 3, .plane = 2, .pool = true});
}
static void wrong_norm_gradient(Rig *r) {
    Tensor x = normal(r, 6, 4), c = normal(r, 4, 0), none = tensor_none();
    norm_activate_backward(r->device, x, c, c, x, none, none, x, any_norm(r, 6, 4), any_norm(r, 6, 4),
                           (NormActivation){.slope = 1, .frames = 3, .plane = 2});
}
static void wrong_cells(Rig *r) {
    augment_cells(r->device, normal(r, 6, 2), normal(r, 1, 6), below(r, 1, 1), below(r, 1, 1), (FlimShape){1, 2, 3}, 0);
}
static void wrong_counts(Rig *r) {
    augment_cells(r->device, normal(r, 4, 2), normal(r, 1, 4), below(r, 1, 1), below(r, 1, 1), (FlimShape){1, 2, 2}, 0);
}
static void wrong_draws(Rig *r) {
    Tensor counts = {normal(r, 1, 4).data, DTYPE_U8, 2, {1, 4}}, zeros = tensor(r, DTYPE_I32, 1, FLIM_DRAW_WORDS);
    augment_cells(r->device, normal(r, 4, 2), counts, below(r, 1, 1), zeros, (FlimShape){1, 2, 2}, 0);
}
static void wrong_cell(Rig *r) {
    Tensor counts = {normal(r, 1, 4).data, DTYPE_U8, 2, {1, 4}}, zeros = tensor(r, DTYPE_I32, 1, FLIM_DRAW_WORDS);
    Tensor cell = below(r, 1, 1);
    integers(cell)[0] = 1;
    augment_cells(r->device, normal(r, 4, 2), counts, cell, zeros, (FlimShape){1, 2, 2}, 0);
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
    {wrong_probability, "dropout: the dropout is 1, expected at least 0 and less than 1"},
    {wrong_target, "cross_entropy_forward: targets[1] is 7, expected less than 7"},
    {wrong_weights, "cross_entropy_forward: weights is f32 [3], expected f32 [2]"},
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
    {wrong_window, "unfold_forward: 7 taps, stride 1, padding 2 have no position in sequences of 2 rows"},
    {wrong_windows, "unfold_backward: dy is f32 [8, 6], expected f32 [4, 6]"},
    {wrong_convolution, "conv3d_forward: 3 taps, stride 1, padding 0 have no position in 2 along w"},
    {wrong_samples, "conv3d_forward: the 7 rows of x are no samples of 2 x 2 x 2"},
    {wrong_taps, "conv3d_backward: w is f32 [2, 4], expected f32 [2, 2]"},
    {wrong_channels, "conv3d_forward: from 0 channels to 1, expected at least one each"},
    {wrong_frames, "max_pool_forward: the 9 rows of x are no samples of 2 frames of 2 rows"},
    {wrong_pairs, "max_pool_backward: dy is f32 [3, 1], expected f32 [2, 1]"},
    {wrong_length, "mean_rows_forward: the 7 rows of x are no sequences of 3"},
    {wrong_batch, "batchnorm_forward: the batch has 1 rows, expected at least 2"},
    {wrong_running, "batchnorm_forward: running_var is none, expected f32 [4]"},
    {wrong_norm_samples, "norm_activate_forward: the 9 rows of a.x are no samples of 2 frames of 2 rows"},
    {wrong_norm, "norm_activate_forward: a.mean is none, expected f32 [4]"},
    {wrong_half_norm, "norm_activate_forward: there is b.gain, but no b.mean"},
    {wrong_lone_norm, "norm_activate_forward: b.mean is f32 [4], but there is no b.x"},
    {wrong_pooled_norm, "norm_activate_backward: dy is f32 [3, 4], expected f32 [2, 4]"},
    {wrong_norm_gradient, "norm_activate_backward: dgain_b is none, expected f32 [4]"},
    {wrong_cells, "augment_cells: cells of 1 bins of 2 x 3 pixels, expected 1 to 1024 of 1 x 1 to 64 x 64, square"},
    {wrong_counts, "augment_cells: counts is f32 [1, 4], expected u8 or u16"},
    {wrong_draws, "augment_cells: draws[0] has a number out of range"},
    {wrong_cell, "augment_cells: cells[0] is 1, expected less than 1 and not negative"},
    {wrong_samples_mixed, "mixup: the 7 rows of x are no 2 samples"},
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

static void wrong_calls_die_and_say_why(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong_calls / sizeof *wrong_calls; i++) {
        char output[1024];
        WrongCall wrong = wrong_calls[i];
        assert_int_equal(run_function(output, sizeof output, call_wrongly, &wrong), 1);
        assert_contains(output, wrong.message);
    }
}

/* Must be the last test. Those of the stem have test_stem.c, which takes all of them to each of its devices. */
static void every_operation_was_tested_on_every_device(void **state) {
    (void)state;
    for (int d = 0; d < n_devices; d++)
        for (int op = 0; op < OP_COUNT; op++)
            if (!devices[d]->counters[op].calls && strncmp(op_names[op], "stem_", 5) != 0)
                fail_msg("%s never ran on %s", op_names[op], devices[d]->description);
}

#define OP_IS_THERE(op) assert_non_null(devices[d]->ops->op);
static void every_table_is_complete(void **state) {
    (void)state;
    for (int d = 0; d < n_devices; d++) {
        FOR_EACH_OP(OP_IS_THERE)
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_table_is_complete),
        cmocka_unit_test(wrong_calls_die_and_say_why),
        cmocka_unit_test(linear),
        cmocka_unit_test(large_linear),
        cmocka_unit_test(layernorm),
        cmocka_unit_test(residual_layernorm),
        cmocka_unit_test(windows),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(max_pools),
        cmocka_unit_test(cells_are_the_same_with_every_instruction_set),
        cmocka_unit_test(leaky_relus),
        cmocka_unit_test(mean_rows),
        cmocka_unit_test(batchnorm),
        cmocka_unit_test(halves_of_batchnorm),
        cmocka_unit_test(norm_activate),
        cmocka_unit_test(pools_of_norms_choose_as_pools_do),
        cmocka_unit_test(gelu),
        cmocka_unit_test(linear_and_gelu),
        cmocka_unit_test(dropout_and_residual),
        cmocka_unit_test(embedding),
        cmocka_unit_test(rows_placed),
        cmocka_unit_test(gather_and_scatter),
        cmocka_unit_test(attention),
        cmocka_unit_test(cross_entropy),
        cmocka_unit_test(squared_error),
        cmocka_unit_test(binary_cross_entropy),
        cmocka_unit_test(normalize_rows),
        cmocka_unit_test(nt_xent),
        cmocka_unit_test(sum),
        cmocka_unit_test(norm),
        cmocka_unit_test(adamw),
        cmocka_unit_test(loss_scale),
        cmocka_unit_test(casts_and_scales),
        cmocka_unit_test(copies),
        cmocka_unit_test(nan_comes_out),
        cmocka_unit_test(every_operation_was_tested_on_every_device),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
