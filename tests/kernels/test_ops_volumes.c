/* The operations of kernels/ops_volumes.c, on every instruction set of the processor and with 1, 2 and 3 threads,
 * tested as the layers in test_ops_layers.c. */
#include "tests/kernels/ops_rig.h"

/* Windows of rows. */

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

static void check_unfold_matches_the_reference(Rig *rig) {
    assert_int_equal(window_positions((Window){200, 7, 2, 3}), 100); /* the lengths of the CNN baseline */
    assert_int_equal(window_positions((Window){25, 3, 2, 1}), 13);
    check_unfold(rig, 1, 1, (Window){1, 1, 1, 0});
    check_unfold(rig, 3, 1, (Window){200, 7, 2, 3});
    check_unfold(rig, 4, 64, (Window){25, 3, 2, 1});
    check_unfold(rig, 2, 35, (Window){13, 3, 1, 1});
    check_unfold(rig, 3, 17, (Window){26, 1, 2, 0});
    check_unfold(rig, 2, 8, (Window){9, 2, 3, 0});  /* rows outside all windows */
    check_unfold(rig, 2, 5, (Window){2, 9, 4, 7});  /* windows without rows */
    check_unfold(rig, 2, 3, (Window){3, 12, 1, 9}); /* taps without rows */
}

/* Convolutions. */

static int64_t volume(const int sizes[3]) { return (int64_t)sizes[0] * sizes[1] * sizes[2]; }

/* Splits a row index into three indices within sizes[0] x sizes[1] x sizes[2]. Returns the sample. */
static int64_t split(int64_t row, const int sizes[3], int64_t at[3]) {
    for (int i = 2; i >= 0; i--) {
        at[i] = row % sizes[i];
        row /= sizes[i];
    }
    return row;
}

/* Returns the row of x that tap `tap` of output row `row` reads; -1 if it lies in the padding. */
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

/* Compares both passes with their definition. A convolution is linear in each of x, w and bias, so finite differences
 * would add nothing. */
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
    LayerGradients gradients = {.dw = dw};
    if (whole) gradients.dx = dx, gradients.dbias = dbias;
    conv3d_backward(rig->device, gradients, dy, x, w, c, false);
    expect(rig, "conv3d_forward y", y, wy, sum_error(in * taps, 1));
    if (whole) expect(rig, "conv3d_backward dx", dx, wdx, sum_error(out * taps, 0));
    expect(rig, "conv3d_backward dw", dw, wdw, sum_error(tall, 1));
    if (whole) expect(rig, "conv3d_backward dbias", dbias, wdbias, sum_error(tall, 1));
    double products = pairs * (double)in * (double)out, added = whole ? (double)(tall * out) : 0;
    assert_true(rig->device->counters[OP_conv3d_forward].flops - forward == 2 * products + added);
    assert_true(*counted - backward == (whole ? 4 : 2) * products + added);
    backward = *counted;
    conv3d_backward(rig->device, (LayerGradients){.dx = sum, .dw = dw}, dy, x, w, c, true);
    expect(rig, "conv3d_backward dx, added", sum, wsum, sum_error(out * taps, 1));
    assert_true(*counted - backward == 4 * products + (double)(rows * in));
}

static void check_convolutions_match_the_reference(Rig *rig) {
    Convolution network = {{128, 21, 21}, {3, 3, 3}, {1, 2, 2}, {1, 1, 1}}; /* two strides of 2 */
    assert_int_equal(convolution_positions(network, 0), 128);
    assert_int_equal(convolution_positions(network, 1), 11);
    check_conv3d(rig, 0, 3, 4, true, network);
    check_conv3d(rig, 2, 2, 32, false, (Convolution){{20, 3, 3}, {7, 1, 1}, {1, 1, 1}, {3, 0, 0}}); /* the stem */
    check_conv3d(rig, 2, 32, 32, true, (Convolution){{12, 3, 3}, {3, 1, 1}, {2, 1, 1}, {1, 0, 0}});
    check_conv3d(rig, 1, 32, 64, true, (Convolution){{5, 7, 7}, {3, 3, 3}, {1, 2, 2}, {1, 1, 1}});
    check_conv3d(rig, 1, 64, 32, true, (Convolution){{4, 5, 5}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}});
    check_conv3d(rig, 3, 32, 64, true, (Convolution){{4, 5, 6}, {1, 1, 1}, {1, 2, 2}, {0, 0, 0}});
    check_conv3d(rig, 2, 5, 7, true,
                 (Convolution){{6, 5, 9}, {2, 3, 1}, {3, 2, 4}, {0, 1, 0}}); /* rows that no tap reads */
    check_conv3d(rig, 1, 1, 1, false, (Convolution){{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}});
}

/* Pairs whose first frame is larger, whose second is, with equal frames, with a NaN; and a frame without a pair. */
TEST(max_pool_takes_the_larger_frame_or_nan) {
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

/* Only compares devices. The tests of augmentations test the values. */
TEST(volumes_are_the_same_with_every_instruction_set) {
    enum { SIDE = 7, BINS = 19, ALL = BINS * SIDE * SIDE, SAMPLES = 3 };
    const AugmentShape shape = {BINS, SIDE, SIDE};
    static float x[SAMPLES * ALL * 2], y[SAMPLES * ALL * 2], first[2][SAMPLES * ALL * 2];
    uint16_t counts[ALL];
    int32_t volumes[SAMPLES] = {0}, partners[SAMPLES] = {1, 2, 0};
    float share = 0.3f;
    AugmentDraws draws[SAMPLES] = {
        {.scale = 1.1f, .poisson = 1, .elastic = 1},
        {.scale = 1, .side = 6, .blur = 0.7f},
        {.scale = 0.9f, .poisson = 1, .side = 8, .elastic = 1, .blur = 0.4f, .position = {7}}};
    for (int i = 0; i < ALL; i++) counts[i] = (uint16_t)(i % 3 ? 0 : i);
    for (int d = 0; d < n_devices; d++) {
        Tensor to = tensor_2d(x, DTYPE_F32, SAMPLES * ALL, 2), mixed = tensor_2d(y, DTYPE_F32, SAMPLES * ALL, 2);
        augment_volumes(devices[d], to, tensor_2d(counts, DTYPE_U16, 1, ALL), tensor_1d(volumes, DTYPE_I32, SAMPLES),
                        tensor_2d(draws, DTYPE_I32, SAMPLES, AUGMENT_DRAW_WORDS), shape, d % 2);
        mixup(devices[d], mixed, to, tensor_1d(partners, DTYPE_I32, SAMPLES), tensor_1d(&share, DTYPE_F32, 1));
        for (int i = 0; i < SAMPLES * ALL * 2; i++) assert_true(isfinite(y[i]));
        if (d < 2) memcpy(first[d], y, sizeof y);
        assert_memory_equal(y, first[d % 2], sizeof y);
    }
}

/* Batch normalisation. */

static void run_batchnorm(const Call *c) {
    poison(c->y);
    batchnorm_forward(c->device, c->y, (BatchStatistics){c->mean, c->rstd, tensor_none(), tensor_none(), 0}, c->x, c->w,
                      c->bias);
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

/* Checks the running statistics, and the output when they replace those of the batch. */
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
    batchnorm_forward(rig->device, y, (BatchStatistics){call->mean, call->rstd, running_mean, running_var, 0.1f},
                      call->x, call->w, call->bias);
    expect_same(rig, "batchnorm_forward y with running statistics", y, call->y);
    expect(rig, "batchnorm_forward running_mean", running_mean, wm, sum_error(n, 6));
    expect(rig, "batchnorm_forward running_var", running_var, wv, sum_error(n, 12));
    double *rm = widened(rig, running_mean), *rv = widened(rig, running_var);
    reference_affine(wy, x, rm, rv, call);
    batchnorm_apply(rig->device, y, call->x, running_mean, running_var, call->w, call->bias);
    expect(rig, "batchnorm_apply y", y, wy, (8 + center) * U);
}

/* Sums are floats over at most 64 rows, then doubles. The mean is `center` deviations away from zero, which multiplies
 * its error. */
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
    batchnorm_backward(rig->device, (NormGradients){.dx = dx, .dgain = dgain, .dbias = dbias}, dy, call.x, call.mean,
                       call.rstd, call.w);
    expect(rig, "batchnorm_backward dx", dx, wdx, rounding + 24 * U);
    expect(rig, "batchnorm_backward dgain", dgain, wdg, rounding + sum_error(terms, 16));
    expect(rig, "batchnorm_backward dbias", dbias, wdb, sum_error(terms, 2));
    if (center > 1) return; /* a step of 2^-8 has too few bits in floats of this size */
    expect_gradient(rig, "batchnorm dx", &call, run_batchnorm, call.x, dx, NULL, call.y, up, tolerance);
    expect_gradient(rig, "batchnorm dgain", &call, run_batchnorm, call.w, dgain, g0, call.y, up, tolerance);
    expect_gradient(rig, "batchnorm dbias", &call, run_batchnorm, call.bias, dbias, b0, call.y, up, tolerance);
}

/* Two rows at mean +- d have x^ +- d rstd, and dx is +- gain a eps / (d^2 + eps)^1.5 with a half of the difference of
 * the dy: what is left of dy is a share eps / (d^2 + eps) of it. A rounding of the mean by U |mean| moves x^ by U
 * |mean| rstd, and so does one of x, which no way to compute dx can undo. */
static void check_batchnorm_of_two_rows(Rig *rig) {
    enum { C = 129 };
    Call call = {.device = rig->device,
                 .y = poisoned(rig, 2, C),
                 .mean = poisoned(rig, C, 0),
                 .rstd = poisoned(rig, C, 0),
                 .x = normal(rig, 2, C),
                 .w = normal(rig, C, 0),
                 .bias = normal(rig, C, 0)};
    Tensor dy = normal(rig, 2, C), dx = poisoned(rig, 2, C), dgain = normal(rig, C, 0), dbias = normal(rig, C, 0);
    double *want = doubles(rig, 2 * C), most = 0;
    for (int64_t j = 0; j < C; j++) {
        float *x = floats(call.x) + j, *up = floats(dy) + j;
        x[C] = x[0] + 0.01f * x[C];
        double d = ((double)x[0] - (double)x[C]) / 2, a = ((double)up[0] - (double)up[C]) / 2, spread = d * d + 1e-5;
        want[j] = (double)floats(call.w)[j] * a * 1e-5 / (spread * sqrt(spread));
        want[C + j] = -want[j];
        most = fmax(most, fabs((double)x[0]) / sqrt(spread));
    }
    run_batchnorm(&call);
    batchnorm_backward(rig->device, (NormGradients){.dx = dx, .dgain = dgain, .dbias = dbias}, dy, call.x, call.mean,
                       call.rstd, call.w);
    expect(rig, "batchnorm_backward dx of two rows", dx, want, (24 + most) * U);
}

static void check_batchnorm_matches_the_reference(Rig *rig) {
    check_batchnorm_of_two_rows(rig);
    check_batchnorm(rig, 3, 5, 0.5, false);
    check_batchnorm(rig, 37, 45, 0.5, true);
    check_batchnorm(rig, 300, 129, 0.5, false);
    check_batchnorm(rig, 9000, 3, 0.5, false); /* more chunks than parts */
    check_batchnorm(rig, 900, 64, 1000, true); /* E[x^2] - mean^2 would lose the variance */
}

/* Norms, their sum, activation and pool in one operation. */

typedef struct {
    int64_t samples, frames, plane, c;
    int operands; /* 1: only a; 2: a and b, b without a norm; 3: both with a norm */
    bool pool, average;
    float slope, p;
} Sum;

static void run_norm_activate(const Call *c) {
    poison(c->y);
    for (int i = 0; i < 2; i++)
        if (tensor_given(c->normed[i].mean))
            batchnorm_statistics(
                c->device, (BatchStatistics){c->normed[i].mean, c->normed[i].rstd, tensor_none(), tensor_none(), 0},
                c->normed[i].x);
    norm_activate_forward(c->device, c->y, c->normed[0], c->normed[1], c->activation);
}

/* Returns an operand of multiples of a half, so that frames often have equal numbers. */
static Normed norm_of(Rig *rig, int64_t n, int64_t c, bool norm) {
    Normed in = {.x = normal(rig, n, c)};
    for (int64_t k = 0; k < n * c; k++) floats(in.x)[k] = roundf(2 * floats(in.x)[k]) / 2;
    if (norm) in = (Normed){in.x, poisoned(rig, c, 0), poisoned(rig, c, 0), normal(rig, c, 0), normal(rig, c, 0)};
    return in;
}

/* Returns an operand after its norm in double precision, and its statistics. */
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

/* Computes y, and from the gradient of y the gradient g of the sum. */
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

/* Computes the gradients of an operand and of its gain and bias from that of the sum. */
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

/* Computes y and the gradients of a.x and b.x with the separate operations. */
static void composed(Rig *rig, const Call *call, Sum s, Tensor dy, const double *factors, Tensor y, Tensor dx[2]) {
    Device *device = call->device;
    const Normed *in = call->normed;
    int64_t n = in[0].x.dims[0], tall = y.dims[0], c = s.c;
    Tensor sum = poisoned(rig, n, c), other = poisoned(rig, n, c), mean = poisoned(rig, c, 0), none = tensor_none();
    Tensor rstd = poisoned(rig, c, 0), up = poisoned(rig, tall, c), active = poisoned(rig, n, c);
    batchnorm_forward(device, sum, (BatchStatistics){mean, rstd, none, none, 0}, in[0].x, in[0].gain, in[0].bias);
    if (s.operands == 3)
        batchnorm_forward(device, other, (BatchStatistics){mean, rstd, none, none, 0}, in[1].x, in[1].gain, in[1].bias);
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
        batchnorm_backward(device,
                           (NormGradients){.dx = dx[i], .dgain = poisoned(rig, c, 0), .dbias = poisoned(rig, c, 0)},
                           other, in[i].x, in[i].mean, in[i].rstd, in[i].gain);
    }
}

/* Runs the backward in place: da replaces dy, or a.x if y is pooled; db replaces b.x. dx: the same gradients computed
 * into other tensors. */
static void check_norm_activate_in_place(Rig *rig, const Call *call, Tensor dy, const Tensor dx[2],
                                         const Tensor dgain[2], const Tensor dbias[2]) {
    const Normed *in = call->normed;
    Tensor place = call->activation.pool ? in[0].x : dy;
    norm_activate_backward(rig->device, (NormGradients){.dx = place, .dgain = dgain[0], .dbias = dbias[0]},
                           (NormGradients){.dx = in[1].x, .dgain = dgain[1], .dbias = dbias[1]}, dy, in[0], in[1],
                           call->activation);
    expect_same(rig, "norm_activate_backward da in place", place, dx[0]);
    if (tensor_given(in[1].x)) expect_same(rig, "norm_activate_backward db in place", in[1].x, dx[1]);
}

/* Tolerances are those of check_batchnorm for two norms; both reductions start with sums in floats over 64 steps of two
 * rows. */
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
    norm_activate_backward(rig->device, (NormGradients){.dx = dx[0], .dgain = dgain[0], .dbias = dbias[0]},
                           (NormGradients){.dx = dx[1], .dgain = dgain[1], .dbias = dbias[1]}, dy, in[0], in[1],
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
        if (s.slope != 1 || (s.pool && !s.average)) continue; /* differences would cross kinks */
        expect_gradient(rig, "norm_activate dx", &call, run_norm_activate, in[i].x, dx[i], NULL, call.y, up, rounding);
        expect_gradient(rig, "norm_activate dgain", &call, run_norm_activate, in[i].gain, dgain[i], before[i][0],
                        call.y, up, rounding);
        expect_gradient(rig, "norm_activate dbias", &call, run_norm_activate, in[i].bias, dbias[i], before[i][1],
                        call.y, up, rounding);
    }
    if (s.operands == 2 && s.slope == 1 && !s.pool)
        expect_gradient(rig, "norm_activate db", &call, run_norm_activate, in[1].x, dx[1], NULL, call.y, up, rounding);
    check_norm_activate_in_place(rig, &call, dy, dx, dgain, dbias);
}

static void check_norm_activate_matches_the_reference(Rig *rig) {
    for (int operands = 1; operands <= 3; operands++) {
        check_norm_activate(rig, (Sum){2, 3, 5, 7, operands, false, false, 0.01f, 0});
        check_norm_activate(rig, (Sum){3, 5, 4, 67, operands, true, false, 0.01f, 0.25f});
        check_norm_activate(rig, (Sum){2, 4, 9, 32, operands, true, true, 1, 0.25f});
        check_norm_activate(rig, (Sum){13, 1, 1, 64, operands, false, false, 1, 0.25f});
        check_norm_activate(rig, (Sum){3, 6, 501, 3, operands, true, false, 0, 0}); /* more chunks than parts */
    }
}

/* With the mean 0 and deviation 1, the result equals that of max_pool_forward, including NaN. */
TEST(norm_activate_pools_as_max_pool_does) {
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

/* batchnorm_forward equals batchnorm_statistics and norm_activate_forward; batchnorm_apply equals
 * batchnorm_from_running and norm_activate_forward. */
static void check_batchnorm_equals_its_two_halves(Rig *rig) {
    int64_t n = 131, c = 45;
    Tensor x = normal(rig, n, c), gain = normal(rig, c, 0), bias = normal(rig, c, 0), stat[2][4], y[2], none = {0};
    Tensor rstd = poisoned(rig, c, 0), out = poisoned(rig, n, c);
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 4; i++) stat[half][i] = tensor(rig, DTYPE_F32, c, 0);
        for (int64_t j = 0; j < c; j++) floats(stat[half][2])[j] = 0.5f, floats(stat[half][3])[j] = 2;
        y[half] = poisoned(rig, n, c);
    }
    batchnorm_forward(rig->device, y[0], (BatchStatistics){stat[0][0], stat[0][1], stat[0][2], stat[0][3], 0.1f}, x,
                      gain, bias);
    batchnorm_statistics(rig->device, (BatchStatistics){stat[1][0], stat[1][1], stat[1][2], stat[1][3], 0.1f}, x);
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

int main(void) {
    const struct CMUnitTest shared[] = {
        ops_test(unfold_matches_the_reference),        ops_test(convolutions_match_the_reference),
        ops_test(batchnorm_matches_the_reference),     ops_test(batchnorm_equals_its_two_halves),
        ops_test(norm_activate_matches_the_reference), ops_last_test};
    tests_add(shared, sizeof shared / sizeof *shared);
    return tests_run(open_devices, close_devices);
}
