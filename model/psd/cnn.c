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
    table->items[index].moves = MOMENTUM;
    return index;
}

static CnnUnit add_unit(ParamTable *table, CnnUnit u, const char *convolution, const char *norm) {
    int64_t inputs = (int64_t)u.in * u.taps;
    u.weight =
        param_add(table, INIT_UNIFORM, 1 / sqrtf((float)inputs), true, u.out, inputs, "encoder.%s.weight", convolution);
    param_file_shape(table, 3, (const int64_t[]){u.out, u.in, u.taps});
    table->items[u.weight].product = true;
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
static Tensor unit_forward(const CnnUnit *u, const Context *context, CnnUnitActivations *a, Tensor x, int64_t length) {
    Device *device = context->device;
    a->window = (Window){length, u->taps, u->stride, u->padding};
    int64_t n = x.dims[0] / length * window_positions(a->window);
    Tensor w = context_matmul_weight(context, u->weight);
    a->windows = context_push(context, n, w.dims[1]);
    a->convolved = context_push(context, n, u->out);
    a->out = context_push(context, n, u->out);
    a->mean = arena_1d(context->arena, DTYPE_F32, u->out);
    a->rstd = arena_1d(context->arena, DTYPE_F32, u->out);
    unfold_forward(device, a->windows, x, a->window);
    linear_forward(device, a->convolved, a->windows, w, tensor_none(), WEIGHT_OUT_IN);
    Tensor gain = context_weight(context, u->gain), bias = context_weight(context, u->gain + 1);
    if (context->pass->train) /* updates the running statistics through the gradients: see params_moving */
        batchnorm_forward(device, a->out,
                          (BatchStatistics){a->mean, a->rstd, context_gradient(context, u->mean),
                                            context_gradient(context, u->mean + 1), MOMENTUM},
                          a->convolved, gain, bias);
    else
        batchnorm_apply(device, a->out, a->convolved, context_weight(context, u->mean),
                        context_weight(context, u->mean + 1), gain, bias);
    return a->out;
}

/* Returns dx (pushed; none unless want_dx), from the gradient of the unit's output. */
static Tensor unit_backward(const CnnUnit *u, const Context *context, const CnnUnitActivations *a, Tensor dy,
                            bool want_dx) {
    Device *device = context->device;
    Tensor dwindows = tensor_none(), dx = tensor_none(), dconvolved = context_push(context, dy.dims[0], dy.dims[1]);
    int64_t sequences = dy.dims[0] / window_positions(a->window);
    batchnorm_backward(device, context_norm_gradients(context, u->gain, u->gain + 1, dconvolved), dy, a->convolved,
                       a->mean, a->rstd, context_weight(context, u->gain));
    if (want_dx) {
        dx = context_push(context, sequences * a->window.length, u->in);
        dwindows = context_push(context, a->windows.dims[0], a->windows.dims[1]);
    }
    linear_backward(device, context_layer_gradients(context, u->weight, -1, dwindows), dconvolved, a->windows,
                    context_matmul_weight(context, u->weight), WEIGHT_OUT_IN);
    if (want_dx) unfold_backward(device, dx, dwindows, a->window);
    return dx;
}

static Tensor activate(const Context *context, Tensor x) {
    Tensor y = context_push(context, x.dims[0], x.dims[1]);
    gelu_forward(context->device, y, x, GELU_ERF);
    return y;
}

/* ---- the network ---- */

static const Dropout never = {0};

void cnn_forward(const Cnn *cnn, const Context *context, CnnActivations *kept, Tensor x, Tensor y) {
    int64_t n = x.dims[0], length = x.dims[1];
    const CnnUnit *u = cnn->units;
    CnnUnitActivations *a = kept->units;
    x = activate(context, unit_forward(u, context, a, tensor_2d(x.data, x.dtype, n * length, 1), length));
    for (int b = 0; b < CNN_BLOCKS; b++) {
        length = window_positions(a->window);
        u = cnn->units + 1 + (ptrdiff_t)3 * b;
        a = kept->units + 1 + (ptrdiff_t)3 * b;
        Tensor inner = activate(context, unit_forward(u, context, a, x, length));
        Tensor branch = unit_forward(u + 1, context, a + 1, inner, window_positions(a->window));
        Tensor shortcut = unit_forward(u + 2, context, a + 2, x, length);
        kept->sums[b] = context_push(context, branch.dims[0], branch.dims[1]);
        residual_forward(context->device, kept->sums[b], shortcut, branch, never);
        x = activate(context, kept->sums[b]);
    }
    kept->last = x;
    kept->means = context_push(context, n, x.dims[1]);
    mean_rows_forward(context->device, kept->means, x, window_positions(a->window));
    linear_forward(context->device, y, kept->means, context_matmul_weight(context, cnn->projector),
                   context_matmul_weight(context, cnn->projector + 1), WEIGHT_OUT_IN);
}

void cnn_backward(const Cnn *cnn, const Context *context, const CnnActivations *kept, Tensor dy) {
    Device *device = context->device;
    Tensor dmeans = context_push(context, kept->means.dims[0], kept->means.dims[1]);
    Tensor dx = context_push(context, kept->last.dims[0], kept->last.dims[1]);
    linear_backward(device, context_layer_gradients(context, cnn->projector, cnn->projector + 1, dmeans), dy,
                    kept->means, context_matmul_weight(context, cnn->projector), WEIGHT_OUT_IN);
    mean_rows_backward(device, dx, dmeans, dx.dims[0] / dmeans.dims[0]);
    for (int b = CNN_BLOCKS - 1; b >= 0; b--) {
        const CnnUnit *u = cnn->units + 1 + (ptrdiff_t)3 * b;
        const CnnUnitActivations *a = kept->units + 1 + (ptrdiff_t)3 * b;
        gelu_backward(device, dx, dx, kept->sums[b], GELU_ERF);
        Tensor dinner = unit_backward(u + 1, context, a + 1, dx, true);
        gelu_backward(device, dinner, dinner, a->out, GELU_ERF);
        Tensor done = unit_backward(u, context, a, dinner, true),
               dother = unit_backward(u + 2, context, a + 2, dx, true);
        residual_forward(device, done, done, dother, never);
        dx = done;
    }
    gelu_backward(device, dx, dx, kept->units[0].out, GELU_ERF);
    unit_backward(cnn->units, context, kept->units, dx, false);
}
