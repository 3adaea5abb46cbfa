/* A convolution is computed as a linear layer over the windows of its input. */
#include "model/psd/cnn.h"

#include <math.h>
#include <stdio.h>

static const float MOMENTUM = 0.1f; /* momentum of the running statistics */

/* ---- parameters ---- */

/* Adds a running statistic of a norm: a buffer that training updates. */
static int add_statistic(ParamTable *table, InitKind init, int64_t n, const char *norm, const char *name) {
    char full[80];
    snprintf(full, sizeof full, "encoder.%s.%s", norm, name);
    int index = param_add_buffer(table, NULL, n, 0, full);
    table->items[index].init = init;
    table->items[index].moves = true;
    return index;
}

static CnnUnit add_unit(ParamTable *table, CnnUnit u, const char *convolution, const char *norm) {
    int64_t inputs = (int64_t)u.in * u.taps;
    u.weight =
        param_add(table, INIT_UNIFORM, 1 / sqrtf((float)inputs), true, u.out, inputs, "encoder.%s.weight", convolution);
    param_file_shape(table, 3, (const int64_t[]){u.out, u.in, u.taps});
    u.gain = param_add(table, INIT_ONE, 0, true, u.out, 0, "encoder.%s.weight", norm);
    param_add(table, INIT_ZERO, 0, true, u.out, 0, "encoder.%s.bias", norm);
    u.mean = add_statistic(table, INIT_ZERO, u.out, norm, "running_mean");
    add_statistic(table, INIT_ONE, u.out, norm, "running_var");
    return u;
}

Cnn cnn_open(ParamTable *table, int64_t width) {
    static const int channels[CNN_BLOCKS + 1] = {64, 64, 128, 256};
    Cnn cnn = {.units[0] = add_unit(table, (CnnUnit){1, channels[0], 7, 2, 3, 0, 0, 0}, "stem.0", "stem.1")};
    for (int b = 0; b < CNN_BLOCKS; b++) {
        int in = channels[b], out = channels[b + 1];
        const CnnUnit units[] = {
            {in, out, 3, 2, 1, 0, 0, 0}, {out, out, 3, 1, 1, 0, 0, 0}, {in, out, 1, 2, 0, 0, 0, 0}};
        static const char *const convolutions[] = {"conv1", "conv2", "shortcut.0"}, *const norms[] = {"bn1", "bn2",
                                                                                                      "shortcut.1"};
        for (int i = 0; i < 3; i++) {
            char convolution[32], norm[32];
            snprintf(convolution, sizeof convolution, "blocks.%d.%s", b, convolutions[i]);
            snprintf(norm, sizeof norm, "blocks.%d.%s", b, norms[i]);
            cnn.units[1 + 3 * b + i] = add_unit(table, units[i], convolution, norm);
        }
    }
    cnn.projector = param_add_linear(table, channels[CNN_BLOCKS], width, "encoder.projector");
    return cnn;
}

/* ---- one unit ---- */

/* Computes bn(conv x) for sequences of `length` rows. */
static Tensor unit_forward(const CnnUnit *u, const BlockRun *run, CnnUnitActivations *a, Tensor x, int64_t length) {
    Device *device = run->device;
    a->window = (Window){length, u->taps, u->stride, u->padding};
    int64_t n = x.dims[0] / length * window_positions(a->window);
    Tensor w = run_matmul_weight(run, u->weight);
    a->windows = push_activations(run, n, w.dims[1]);
    a->convolved = push_activations(run, n, u->out);
    a->out = push_activations(run, n, u->out);
    a->mean = arena_1d(run->arena, DTYPE_F32, u->out);
    a->rstd = arena_1d(run->arena, DTYPE_F32, u->out);
    unfold_forward(device, a->windows, x, a->window);
    linear_forward(device, a->convolved, a->windows, w, tensor_none(), WEIGHT_OUT_IN);
    Tensor gain = run_weight(run, u->gain), bias = run_weight(run, u->gain + 1);
    if (run->pass->train) /* updates the running statistics through the gradients: see params_moving */
        batchnorm_forward(
            device, a->out,
            (BatchStatistics){a->mean, a->rstd, run_gradient(run, u->mean), run_gradient(run, u->mean + 1), MOMENTUM},
            a->convolved, gain, bias);
    else
        batchnorm_apply(device, a->out, a->convolved, run_weight(run, u->mean), run_weight(run, u->mean + 1), gain,
                        bias);
    return a->out;
}

/* Returns dx (pushed; none unless want_dx), from the gradient of the unit's output. */
static Tensor unit_backward(const CnnUnit *u, const BlockRun *run, const CnnUnitActivations *a, Tensor dy,
                            bool want_dx) {
    Device *device = run->device;
    Tensor dwindows = tensor_none(), dx = tensor_none(), dconvolved = push_activations(run, dy.dims[0], dy.dims[1]);
    int64_t sequences = dy.dims[0] / window_positions(a->window);
    batchnorm_backward(device, run_norm_gradients(run, u->gain, dconvolved), dy, a->convolved, a->mean, a->rstd,
                       run_weight(run, u->gain));
    if (want_dx) {
        dx = push_activations(run, sequences * a->window.length, u->in);
        dwindows = push_activations(run, a->windows.dims[0], a->windows.dims[1]);
    }
    linear_backward(device, (LayerGradients){.dx = dwindows, .dw = run_gradient(run, u->weight)}, dconvolved,
                    a->windows, run_matmul_weight(run, u->weight), WEIGHT_OUT_IN);
    if (want_dx) unfold_backward(device, dx, dwindows, a->window);
    return dx;
}

static Tensor activate(const BlockRun *run, Tensor x) {
    Tensor y = push_activations(run, x.dims[0], x.dims[1]);
    gelu_forward(run->device, y, x, GELU_ERF);
    return y;
}

/* ---- the network ---- */

static const Dropout never = {0};

void cnn_forward(const Cnn *cnn, const BlockRun *run, CnnActivations *kept, Tensor x, Tensor y) {
    int64_t n = x.dims[0], length = x.dims[1];
    const CnnUnit *u = cnn->units;
    CnnUnitActivations *a = kept->units;
    x = activate(run, unit_forward(u, run, a, tensor_2d(x.data, x.dtype, n * length, 1), length));
    for (int b = 0; b < CNN_BLOCKS; b++) {
        length = window_positions(a->window);
        u = cnn->units + 1 + (ptrdiff_t)3 * b;
        a = kept->units + 1 + (ptrdiff_t)3 * b;
        Tensor inner = activate(run, unit_forward(u, run, a, x, length));
        Tensor branch = unit_forward(u + 1, run, a + 1, inner, window_positions(a->window));
        Tensor shortcut = unit_forward(u + 2, run, a + 2, x, length);
        kept->sums[b] = push_activations(run, branch.dims[0], branch.dims[1]);
        residual_forward(run->device, kept->sums[b], shortcut, branch, never);
        x = activate(run, kept->sums[b]);
    }
    kept->last = x;
    kept->means = push_activations(run, n, x.dims[1]);
    mean_rows_forward(run->device, kept->means, x, window_positions(a->window));
    linear_forward(run->device, y, kept->means, run_matmul_weight(run, cnn->projector),
                   run_matmul_weight(run, cnn->projector + 1), WEIGHT_OUT_IN);
}

void cnn_backward(const Cnn *cnn, const BlockRun *run, const CnnActivations *kept, Tensor dy) {
    Device *device = run->device;
    Tensor dmeans = push_activations(run, kept->means.dims[0], kept->means.dims[1]);
    Tensor dx = push_activations(run, kept->last.dims[0], kept->last.dims[1]);
    linear_backward(device, run_layer_gradients(run, cnn->projector, dmeans), dy, kept->means,
                    run_matmul_weight(run, cnn->projector), WEIGHT_OUT_IN);
    mean_rows_backward(device, dx, dmeans, dx.dims[0] / dmeans.dims[0]);
    for (int b = CNN_BLOCKS - 1; b >= 0; b--) {
        const CnnUnit *u = cnn->units + 1 + (ptrdiff_t)3 * b;
        const CnnUnitActivations *a = kept->units + 1 + (ptrdiff_t)3 * b;
        gelu_backward(device, dx, dx, kept->sums[b], GELU_ERF);
        Tensor dinner = unit_backward(u + 1, run, a + 1, dx, true);
        gelu_backward(device, dinner, dinner, a->out, GELU_ERF);
        Tensor done = unit_backward(u, run, a, dinner, true), dother = unit_backward(u + 2, run, a + 2, dx, true);
        residual_forward(device, done, done, dother, never);
        dx = done;
    }
    gelu_backward(device, dx, dx, kept->units[0].out, GELU_ERF);
    unit_backward(cnn->units, run, kept->units, dx, false);
}
