/* The layers of kernels/ops_layers.c, on every instruction set of the processor and with 1, 2 and 3 threads. Forwards
 * are compared with double-precision references written here, backwards with central differences of their forwards too.
 * Sizes are not multiples of a vector or a tile. Overwritten outputs start as NaN, accumulated ones as random numbers.
 * Each check runs twice on each device and must give the same bits. */
#include "tests/kernels/ops_rig.h"

/* Linear. */

static void run_linear(const Call *c) {
    poison(c->y);
    linear_forward(c->device, c->y, c->x, c->w, c->bias, c->layout);
}

static double weight_at(const Call *c, int64_t i, int64_t o) {
    int64_t in = c->x.dims[1], out = c->y.dims[1];
    return (double)floats(c->w)[c->layout == WEIGHT_IN_OUT ? i * out + o : o * in + i];
}

static Call linear_call(Rig *rig, int64_t n, int64_t in, int64_t out, WeightLayout layout, bool with_bias) {
    return (Call){.device = rig->device,
                  .y = poisoned(rig, n, out),
                  .x = normal(rig, n, in),
                  .w = layout == WEIGHT_IN_OUT ? normal(rig, in, out) : normal(rig, out, in),
                  .bias = with_bias ? normal(rig, out, 0) : tensor_none(),
                  .layout = layout};
}

/* An overwritten gradient is what is added to zeros. */
static void expect_overwritten(Rig *rig, const Call *c, Tensor dy) {
    Tensor dw[2];
    for (int i = 0; i < 2; i++) {
        dw[i] = poisoned(rig, c->w.dims[0], c->w.dims[1]);
        if (i) rig->device->clear(rig->device, dw[i].data, tensor_bytes(dw[i]));
        linear_backward(rig->device, (LayerGradients){.dw = dw[i], .overwrite = !i}, dy, c->x, c->w, c->layout);
    }
    expect_same(rig, "linear_backward dw overwritten", dw[0], dw[1]);
}

static void check_linear(Rig *rig, int64_t n, int64_t in, int64_t out, WeightLayout layout, bool with_bias,
                         bool with_dx) {
    Call c = linear_call(rig, n, in, out, layout, with_bias);
    bool in_out = layout == WEIGHT_IN_OUT;
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
    linear_backward(rig->device, (LayerGradients){.dx = dx, .dw = dw, .dbias = db}, dy, c.x, c.w, layout);
    expect(rig, "linear_backward dw", dw, wdw, sum_error(n, 2));
    expect_overwritten(rig, &c, dy);
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

static void check_linear_matches_the_reference(Rig *rig) {
    static const int64_t sizes[][3] = {{1, 1, 1},    {1, 7, 5},    {2, 19, 300}, {3, 70, 129},
                                       {4, 128, 37}, {5, 128, 37}, {37, 45, 83}, {129, 65, 33}};
    for (int i = 0; i < 8; i++)
        for (int layout = 0; layout < 2; layout++)
            for (int given = 0; given < 4; given++)
                check_linear(rig, sizes[i][0], sizes[i][1], sizes[i][2], (WeightLayout)layout, given & 1, given & 2);
}

/* Large enough for oneDNN's matmul primitive: rows 0, 150 and 300 against the reference. */
static void check_large_linear_matches_the_reference(Rig *rig) {
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
        linear_backward(rig->device, (LayerGradients){.dx = dx, .dw = dw}, dy, c.x, c.w, c.layout);
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
        hash_output(rig, c.y);
        hash_output(rig, dx);
        hash_output(rig, dw);
    }
}

/* Layer normalisation. */

static void run_layernorm(const Call *c) {
    poison(c->y);
    layernorm_forward(c->device, (LayerNormOutput){.y = c->y, .mean = c->mean, .rstd = c->rstd}, c->x, c->w, c->bias,
                      c->epsilon);
}

static void reference_layernorm(const double *x, const Tensor gain, const Tensor bias, int64_t n, int64_t c,
                                double epsilon, double *y, double *mean, double *rstd) {
    for (int64_t r = 0; r < n; r++) {
        double m = 0, v = 0;
        for (int64_t j = 0; j < c; j++) m += x[r * c + j] / (double)c;
        for (int64_t j = 0; j < c; j++) v += (x[r * c + j] - m) * (x[r * c + j] - m) / (double)c;
        mean[r] = m;
        rstd[r] = 1 / sqrt(v + epsilon);
        for (int64_t j = 0; j < c; j++)
            y[r * c + j] = (x[r * c + j] - m) * rstd[r] * (double)floats(gain)[j] +
                           (tensor_given(bias) ? (double)floats(bias)[j] : 0);
    }
}

static void check_layernorm(Rig *rig, int64_t n, int64_t c, bool with_bias, bool with_residual, bool in_place) {
    float epsilon = n % 2 ? LAYERNORM_EPSILON : 1e-3f;
    Call call = {.device = rig->device,
                 .y = poisoned(rig, n, c),
                 .mean = poisoned(rig, n, 0),
                 .rstd = poisoned(rig, n, 0),
                 .x = normal(rig, n, c),
                 .w = normal(rig, c, 0),
                 .bias = with_bias ? normal(rig, c, 0) : tensor_none(),
                 .epsilon = epsilon};
    double *x = widened(rig, call.x), *y = doubles(rig, n * c), *mean = doubles(rig, n), *rstd = doubles(rig, n);
    reference_layernorm(x, call.w, call.bias, n, c, (double)epsilon, y, mean, rstd);
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
    layernorm_backward(rig->device, (NormGradients){.dx = dx, .dgain = dgain, .dbias = dbias}, past, dy, call.x,
                       call.mean, call.rstd, call.w);
    expect(rig, "layernorm dx", dx, wdx, sum_error(c, 24));
    expect(rig, "layernorm dgain", dgain, wdg, sum_error(n, 16));
    expect_gradient(rig, "layernorm dx", &call, run_layernorm, call.x, dx, residual, call.y, up, sum_error(c, 12));
    expect_gradient(rig, "layernorm dgain", &call, run_layernorm, call.w, dgain, g0, call.y, up, sum_error(c, 12));
    if (!with_bias) return;
    expect(rig, "layernorm dbias", dbias, wdb, sum_error(n, 2));
    expect_gradient(rig, "layernorm dbias", &call, run_layernorm, call.bias, dbias, b0, call.y, up, sum_error(c, 12));
}

static void check_layernorm_matches_the_reference(Rig *rig) {
    static const int64_t sizes[][2] = {{1, 3}, {1, 70}, {37, 45}, {70, 129}, {9, 768}};
    for (int i = 0; i < 5; i++)
        for (int given = 0; given < 4; given++) {
            check_layernorm(rig, sizes[i][0], sizes[i][1], given & 1, given & 2, false);
            if (given & 2) check_layernorm(rig, sizes[i][0], sizes[i][1], given & 1, true, true);
        }
}

static void check_residual_layernorm_matches_the_reference(Rig *rig) {
    const int64_t n = 19, c = 67;
    for (int with = 0; with < 4; with++) {
        Dropout drop = dropout_of(with & 1 ? 0.25f : 0);
        Tensor x = normal(rig, n, c), branch = normal(rig, n, c), gain = normal(rig, c, 0), bias = normal(rig, c, 0);
        Tensor sum = with & 2 ? x : poisoned(rig, n, c), y = poisoned(rig, n, c), mean = poisoned(rig, n, 0);
        Tensor rstd = poisoned(rig, n, 0);
        double *wsum = widened(rig, x), *wy = doubles(rig, n * c), *wm = doubles(rig, n), *wr = doubles(rig, n);
        for (int64_t i = 0; i < n * c; i++)
            wsum[i] += (drop.p > 0 ? keep_factor(drop, (uint64_t)i) : 1) * (double)floats(branch)[i];
        reference_layernorm(wsum, gain, bias, n, c, (double)LAYERNORM_EPSILON, wy, wm, wr);
        residual_layernorm_forward(rig->device, sum, (LayerNormOutput){.y = y, .mean = mean, .rstd = rstd}, x, branch,
                                   gain, bias, drop);
        expect(rig, "residual_layernorm sum", sum, wsum, 4 * U);
        expect(rig, "residual_layernorm y", y, wy, sum_error(c, 16));
        expect(rig, "residual_layernorm mean", mean, wm, sum_error(c, 8) * sqrt((double)c));
        expect(rig, "residual_layernorm rstd", rstd, wr, sum_error(c, 12));
    }
}

TEST(leaky_relu_matches_its_definition) {
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

static void check_mean_rows_matches_the_reference(Rig *rig) {
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

/* The gate has an error of about 8 U and is multiplied by x; the slope has a second term, up to x^2 in size. */
static void check_gelu_matches_the_reference(Rig *rig) {
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

static void run_tanh(const Call *c) {
    poison(c->y);
    tanh_forward(c->device, c->y, c->x);
}

/* Each number is right by itself, however small, and so is each slope. */
static void check_tanh_matches_the_reference(Rig *rig) {
    Call c = {.device = rig->device, .y = poisoned(rig, 41, 61), .x = normal(rig, 41, 61)};
    int64_t n = tensor_numel(c.x);
    for (int64_t i = 0; i < n / 2; i++) floats(c.x)[i] = (float)i / (float)(n / 4) * 12 - 12;
    for (int64_t i = 0; i < 9; i++)
        floats(c.x)[i] = (float[]){0, 1e-30f, -1e-6f, 0.6249f, 0.6251f, 9, 100, 3e38f, -3e38f}[i];
    Tensor dy = normal(rig, 41, 61), dx = poisoned(rig, 41, 61), x = normal(rig, 41, 61);
    double *y = doubles(rig, n), *want = doubles(rig, n), *up = widened(rig, dy);
    run_tanh(&c);
    tanh_backward(rig->device, dx, dy, c.y);
    for (int64_t i = 0; i < n; i++) {
        double stored = (double)floats(c.y)[i];
        y[i] = tanh((double)floats(c.x)[i]);
        want[i] = up[i] * (1 - stored) * (1 + stored);
        assert_near(stored, y[i], 4 * U * fabs(y[i]));
        assert_near(floats(dx)[i], want[i], 4 * U * fabs(want[i]));
    }
    expect(rig, "tanh y", c.y, y, 4 * U);
    expect(rig, "tanh dx", dx, want, 4 * U);
    for (int64_t i = 0; i < n / 2; i++) floats(c.x)[i] /= 4; /* differences at 1e38 say nothing */
    for (int64_t i = 0; i < 9; i++) floats(c.x)[i] = 0.1f * (float)i;
    run_tanh(&c);
    tanh_backward(rig->device, dx, dy, c.y);
    memcpy(x.data, c.x.data, tensor_bytes(x));
    expect_gradient(rig, "tanh dx", &c, run_tanh, c.x, dx, NULL, c.y, up, 4 * U);
    run_tanh(&c);
    tanh_forward(rig->device, x, x);
    expect_same(rig, "tanh in place", x, c.y);
    tanh_backward(rig->device, dy, dy, c.y);
    expect_same(rig, "tanh_backward in place", dy, dx);
}

/* Linear, GELU and dropout in one operation: must equal the three operations to the bit, and match the reference. */

static void run_linear_gelu(const Call *c) {
    poison(c->y);
    poison(c->sum);
    linear_gelu_forward(c->device, c->y, c->sum, c->x, c->w, c->bias, c->layout, (GeluDropout){c->gelu, c->drop});
}

/* An error of the hidden number is multiplied by the slope of GELU, at most 1.13, and by the factor of dropout. */
static void check_linear_gelu(Rig *rig, int64_t n, int64_t in, int64_t out, WeightLayout layout, GeluKind kind,
                              bool with_bias, Dropout drop) {
    Call c = linear_call(rig, n, in, out, layout, with_bias);
    c.sum = poisoned(rig, n, out);
    c.gelu = kind;
    c.drop = drop;
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

/* Computes y = dropout(gelu(x)) W + bias. `branch` receives dropout(gelu(x)). */
static void run_gelu_linear(const Call *c) {
    gelu_forward(c->device, c->branch, c->x, c->gelu);
    dropout(c->device, c->branch, c->branch, c->drop);
    linear_forward(c->device, c->y, c->branch, c->w, c->bias, c->layout);
}

/* The slope has an error of 16 U and multiplies a sum. */
static void check_gelu_linear(Rig *rig, int64_t n, int64_t in, int64_t out, WeightLayout layout, GeluKind kind,
                              bool with_bias, Dropout drop) {
    Call c = linear_call(rig, n, in, out, layout, with_bias);
    c.branch = poisoned(rig, n, in);
    c.gelu = kind;
    c.drop = drop;
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
    gelu_linear_backward(rig->device, (LayerGradients){.dx = dx, .dw = dw[0], .dbias = db[0]}, dy, c.branch, c.x, c.w,
                         layout, (GeluDropout){kind, drop});
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
    linear_backward(rig->device, (LayerGradients){.dx = dx2, .dw = dw[1], .dbias = db[1]}, dy, c.branch, c.w, layout);
    gelu_backward(rig->device, dx2, dx2, c.x, kind);
    dropout(rig->device, dx2, dx2, drop);
    expect_same(rig, "gelu_linear_backward dhidden", dx, dx2);
    expect_same(rig, "gelu_linear_backward dw", dw[0], dw[1]);
    if (with_bias) expect_same(rig, "gelu_linear_backward dbias", db[0], db[1]);
    poison(dw[0]);
    rig->device->clear(rig->device, dw[1].data, tensor_bytes(dw[1]));
    for (int i = 0; i < 2; i++)
        gelu_linear_backward(rig->device, (LayerGradients){.dx = dx, .dw = dw[i], .overwrite = !i}, dy, c.branch, c.x,
                             c.w, layout, (GeluDropout){kind, drop});
    expect_same(rig, "gelu_linear_backward dw overwritten", dw[0], dw[1]);
}

static void check_linear_gelu_equals_its_parts(Rig *rig) {
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

static void run_dropout(const Call *c) {
    poison(c->y);
    dropout(c->device, c->y, c->x, c->drop);
}

static void run_residual(const Call *c) {
    poison(c->y);
    residual_forward(c->device, c->y, c->x, c->branch, c->drop);
}

static void check_dropout_matches_the_reference(Rig *rig) {
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

/* Embedding, gather, scatter. */

static void run_embedding(const Call *c) {
    poison(c->y);
    embedding_forward(c->device, c->y, c->rows, c->ids, c->table, c->positions, c->position_table);
    for (int64_t i = 0; i < tensor_numel(c->y); i++)
        if (isnan(floats(c->y)[i])) floats(c->y)[i] = 0; /* rows without an index keep their NaN */
}

/* Returns every other row of `of` rows, from the last to the first, distinct and not ascending, and now and then none.
 */
static Tensor some_rows(Rig *rig, int64_t n, int64_t of) {
    Tensor t = tensor(rig, DTYPE_I32, n, 0);
    for (int64_t i = 0; i < n; i++) integers(t)[i] = i % 6 == 5 ? -1 : (int32_t)(of - 1 - 2 * i);
    return t;
}

static void check_embedding_matches_the_reference(Rig *rig) {
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
                int64_t row = with_rows ? integers(call.rows)[i] : i, at = row * c + j, id = integers(call.ids)[i];
                if (row < 0) continue;
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

static void run_place_rows(const Call *c) {
    poison(c->y);
    place_rows(c->device, c->y, c->x, c->rows, c->positions, c->table);
    for (int64_t i = 0; i < tensor_numel(c->y); i++)
        if (isnan(floats(c->y)[i])) floats(c->y)[i] = 0; /* rows without an index keep their NaN */
}

static void check_place_rows_matches_the_reference(Rig *rig) {
    const int64_t n = 53, c = 77, places = 12, all = 2 * n;
    Call call = {.device = rig->device,
                 .y = poisoned(rig, all, c),
                 .x = normal(rig, n, c),
                 .rows = some_rows(rig, n, all),
                 .positions = below(rig, n, (uint32_t)places),
                 .table = normal(rig, places, c)};
    double *want = doubles(rig, all * c);
    for (int64_t i = 0; i < n * c; i++)
        if (integers(call.rows)[i / c] >= 0)
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

static void check_gather_and_scatter_copy_the_rows(Rig *rig) {
    const int64_t n = 21, all = 42, c = 35;
    Tensor x = normal(rig, all, c), y = poisoned(rig, n, c), back = normal(rig, all, c), rows = some_rows(rig, n, all);
    double *want = doubles(rig, n * c), *want_back = widened(rig, back);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < c; j++) {
            int64_t at = integers(rows)[i] * c + j;
            if (at < 0) continue;
            want_back[at] = want[i * c + j] = (double)floats(x)[at];
        }
    gather_rows(rig->device, y, x, rows);
    expect(rig, "gather_rows", y, want, 0);
    scatter_rows(rig->device, back, y, rows);
    expect(rig, "scatter_rows", back, want_back, 0);
}

/* Attention. */

static void run_attention(const Call *c) {
    poison(c->y);
    poison(c->sum);
    attention_forward(c->device, c->y, c->sum, c->x, c->sequences, c->attention, c->drop);
}

/* Computes one head of one sequence, query by query: out, lse, and dqkv, which starts as zero, if dout is given. */
static void reference_attention(const Call *c, const double *qkv, int64_t first, int64_t length, int head, double *out,
                                double *lse, const double *dout, double *dqkv) {
    int64_t n = c->x.dims[0], width = c->x.dims[1], channels = width / 3, size = channels / c->attention.n_heads;
    double scale = (double)c->attention.scale, *p = xmalloc((size_t)(length + 1) * sizeof *p);
    for (int64_t i = first; i < first + length; i++) {
        int64_t q = i * width + head * size, k = first * width + channels + head * size, v = k + channels;
        int64_t seen = c->attention.causal ? i - first + 1 : length, at = i * channels + head * size;
        uint64_t element = ((uint64_t)head << 44) + ((uint64_t)i << 20);
        double largest = -INFINITY, sum = 0, dot = 0;
        for (int64_t j = 0; j < seen; j++) {
            p[j] = scale * dot_product(qkv + q, qkv + k + j * width, size);
            largest = fmax(largest, p[j]);
        }
        for (int64_t j = 0; j < seen; j++) sum += p[j] = exp(p[j] - largest);
        lse[head * n + i] = largest + log(sum);
        for (int64_t e = 0; e < size; e++) out[at + e] = 0;
        for (int64_t j = 0; j < seen; j++) {
            double keep = c->drop.p > 0 ? keep_factor(c->drop, element + (uint64_t)j) : 1;
            p[j] /= sum;
            for (int64_t e = 0; e < size; e++) out[at + e] += p[j] * keep * qkv[v + j * width + e];
        }
        dot = dot_product(dout + at, out + at, size);
        for (int64_t j = 0; j < seen; j++) {
            double keep = c->drop.p > 0 ? keep_factor(c->drop, element + (uint64_t)j) : 1;
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

/* A score has the error of a sum of `size` terms, which the exponential makes relative. Rows of P and sums over queries
 * have `longest` terms. dS is a difference of numbers as large as P times dP. */
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
    attention_backward(rig->device, dqkv, dout, (AttentionActivations){.qkv = c.x, .out = c.y, .lse = c.sum}, sequences,
                       c.attention, c.drop);
    expect(rig, "attention dqkv", dqkv, want, 2 * tolerance);
    expect_gradient(rig, "attention dqkv", &c, run_attention, c.x, dqkv, NULL, c.y, up, tolerance);
}

static void check_attention_matches_the_reference(Rig *rig) {
    for (int causal = 0; causal < 2; causal++)
        for (int p = 0; p < 2; p++) {
            float drop = p ? 0.3f : 0;
            check_attention(rig, (int[]){1}, 1, 1, 7, causal, drop);
            check_attention(rig, (int[]){1, 1, 1}, 3, 2, 16, causal, drop);
            check_attention(rig, (int[]){64}, 1, 3, 5, causal, drop);
            check_attention(rig, (int[]){5, 16, 0, 13, 1, 9}, 6, 3, 32, causal, drop); /* short sequences */
            check_attention(rig, (int[]){12, 3}, 2, 1, 128, causal, drop);
            check_attention(rig, (int[]){3, 0, 66, 1}, 4, 3, 20, causal, drop);
            check_attention(rig, (int[]){2, 201, 1, 17}, 4, 1, 33, causal, drop); /* split into parts */
        }
    check_attention(rig, (int[]){300}, 1, 1, 64, true, 0);
    check_attention(rig, (int[]){260}, 1, 64, 1, true,
                    0.3f); /* dropout elements beyond 2^34: the counter's high word */
}

int main(void) {
    const struct CMUnitTest shared[] = {
        ops_test(linear_matches_the_reference),     ops_test(large_linear_matches_the_reference),
        ops_test(layernorm_matches_the_reference),  ops_test(residual_layernorm_matches_the_reference),
        ops_test(mean_rows_matches_the_reference),  ops_test(gelu_matches_the_reference),
        ops_test(tanh_matches_the_reference),       ops_test(linear_gelu_equals_its_parts),
        ops_test(dropout_matches_the_reference),    ops_test(embedding_matches_the_reference),
        ops_test(place_rows_matches_the_reference), ops_test(gather_and_scatter_copy_the_rows),
        ops_test(attention_matches_the_reference),  ops_last_test};
    tests_add(shared, sizeof shared / sizeof *shared);
    return tests_run(open_devices, close_devices);
}
