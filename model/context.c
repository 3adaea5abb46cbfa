#include "model/context.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "kernels/philox.h"

Context context_of(const Model *model, Device *device, Arena *arena, const Pass *pass) {
    Tensor half = model->half_weights;
    return (Context){.device = device,
                     .arena = arena,
                     .table = &model->params,
                     .weights = model->weights,
                     .gradients = model->gradients,
                     .matmul_weights = tensor_given(half) ? half : model->weights,
                     .pass = pass};
}

Sequences context_sequences(const Batch *batch, const Tensor *fields) {
    Tensor offsets = fields[BATCH_OFFSETS];
    return (Sequences){offsets, batch->fields[BATCH_OFFSETS].data, (int)offsets.dims[0] - 1};
}

static Tensor view(const Context *context, Tensor flat, int row) {
    Tensor t = param_view(context->table, flat, row);
    if (tensor_given(t)) t.dims[0] *= 1 + context->table->items[row].joined;
    return t;
}

static Tensor padded(const Context *context, Tensor flat, int row) {
    Tensor t = view(context, flat, row);
    if (tensor_given(t)) t.dims[0] += context->table->items[row].padding;
    return t;
}

Tensor context_weight(const Context *context, int row) { return view(context, context->weights, row); }
Tensor context_matmul_weight(const Context *context, int row) { return view(context, context->matmul_weights, row); }

void context_begin(const Context *context) {
    bool *unwritten = context->pass->unwritten;
    for (int i = 0; i < context->table->count && unwritten; i++)
        unwritten[i] = param_is_overwritten(&context->table->items[i]);
}

/* Returns whether the gradient of a row, with those that are joined to it, is unwritten, which it is not any more. */
static bool take_unwritten(const Context *context, int row) {
    bool *unwritten = context->pass->unwritten;
    if (row < 0 || !unwritten || !unwritten[row]) return false;
    for (int i = 0; i <= context->table->items[row].joined; i++) unwritten[row + i] = false;
    return true;
}

Tensor context_gradient(const Context *context, int row) {
    Tensor t = padded(context, context->gradients, row);
    if (take_unwritten(context, row)) context->device->clear(context->device, t.data, tensor_bytes(t));
    return view(context, context->gradients, row);
}

void context_end(const Context *context) {
    for (int i = 0; i < context->table->count && context->pass->unwritten; i++) context_gradient(context, i);
}

Tensor context_padded_weight(const Context *context, int row) { return padded(context, context->matmul_weights, row); }

LayerGradients context_padded_gradients(const Context *context, int weight, int bias, Tensor dx) {
    return (LayerGradients){.dx = dx,
                            .dw = padded(context, context->gradients, weight),
                            .dbias = padded(context, context->gradients, bias),
                            .overwrite = take_unwritten(context, weight)};
}

LayerGradients context_layer_gradients(const Context *context, int weight, int bias, Tensor dx) {
    return (LayerGradients){.dx = dx,
                            .dw = view(context, context->gradients, weight),
                            .dbias = context_gradient(context, bias),
                            .overwrite = take_unwritten(context, weight)};
}

NormGradients context_norm_gradients(const Context *context, int gain, int bias, Tensor dx) {
    return (NormGradients){
        .dx = dx, .dgain = context_gradient(context, gain), .dbias = context_gradient(context, bias)};
}

/* Returns the element of the flat buffer at which a row begins, or behind the last row all end. */
static int64_t offset_of(const Context *context, int row) {
    const ParamTable *table = context->table;
    return row < table->count ? table->items[row].offset : table->flat_count;
}

void context_needed(const Context *context, int first, int end) {
    const Pass *pass = context->pass;
    if (pass->needed) pass->needed(pass->needed_context, offset_of(context, first), offset_of(context, end));
}

void context_finished(const Context *context, int first, int end) {
    const Pass *pass = context->pass;
    if (!pass->finished) return;
    for (int i = first; i < end && pass->unwritten; i++) assert(!pass->unwritten[i]);
    pass->finished(pass->finished_context, offset_of(context, first), offset_of(context, end));
}

Tensor context_push(const Context *context, int64_t rows, int64_t columns) {
    return arena_2d(context->arena, context->matmul_weights.dtype, rows, columns);
}

Tensor context_linear(const Context *context, int weight, Tensor x) {
    Tensor w = context_matmul_weight(context, weight), y = context_push(context, x.dims[0], w.dims[0]);
    linear_forward(context->device, y, x, w, context_matmul_weight(context, weight + 1), WEIGHT_OUT_IN);
    return y;
}

void context_linear_backward(const Context *context, int weight, Tensor dx, Tensor dy, Tensor x) {
    linear_backward(context->device, context_layer_gradients(context, weight, weight + 1, dx), dy, x,
                    context_matmul_weight(context, weight), WEIGHT_OUT_IN);
}

LayerNormOutput context_norm(const Context *context, int gain, int bias, Tensor x) {
    LayerNormOutput of = {.y = context_push(context, x.dims[0], x.dims[1]),
                          .mean = arena_1d(context->arena, DTYPE_F32, x.dims[0]),
                          .rstd = arena_1d(context->arena, DTYPE_F32, x.dims[0])};
    layernorm_forward(context->device, of, x, context_weight(context, gain), context_weight(context, bias),
                      LAYERNORM_EPSILON);
    return of;
}

void context_norm_backward(const Context *context, int gain, int bias, Tensor dx, Tensor dy, Tensor x,
                           LayerNormOutput of) {
    layernorm_backward(context->device, context_norm_gradients(context, gain, bias, dx), tensor_none(), dy, x, of.mean,
                       of.rstd, context_weight(context, gain));
}

void context_drop(const Context *context, Tensor x, float p, uint32_t site) {
    Dropout drop = pass_dropout(context->pass, p, site);
    if (drop.p > 0) dropout(context->device, x, x, drop);
}

void context_dump_columns(const Context *context, Tensor matrix, int64_t columns, const char *name) {
    Device *device = context->device;
    if (!context->pass->dump) return;
    Tensor dense = matrix;
    dense.dims[1] = columns;
    size_t row = (size_t)columns * dtype_size(matrix.dtype), pitch = tensor_bytes(matrix) / (size_t)matrix.dims[0];
    dense.data = device->allocate(device, tensor_bytes(dense)); /* the arena is planned without it */
    for (int64_t i = 0; i < matrix.dims[0]; i++)
        cast(device, tensor_1d((char *)dense.data + (size_t)i * row, matrix.dtype, columns),
             tensor_1d((char *)matrix.data + (size_t)i * pitch, matrix.dtype, columns));
    pass_dump(context->pass, dense, "%s", name);
    device->release(device, dense.data, tensor_bytes(dense));
}

Dropout pass_dropout(const Pass *pass, float p, uint32_t site) {
    return (Dropout){
        .p = pass->train ? p : 0, .seed = pass->seed, .purpose = PURPOSE_DROPOUT | site << 8, .step = pass->step};
}

void pass_dump(const Pass *pass, Tensor tensor, const char *name_format, ...) {
    if (!pass->dump) return;
    char name[96];
    va_list arguments;
    va_start(arguments, name_format);
    vsnprintf(name, sizeof name, name_format, arguments);
    va_end(arguments);
    pass->dump(pass->dump_context, name, tensor);
}
