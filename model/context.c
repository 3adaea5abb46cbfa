#include "model/context.h"

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

static Tensor view(const Context *context, Tensor flat, int row) {
    Tensor t = param_view(context->table, flat, row);
    if (tensor_given(t)) t.dims[0] *= 1 + context->table->items[row].joined;
    return t;
}

Tensor context_weight(const Context *context, int row) { return view(context, context->weights, row); }
Tensor context_matmul_weight(const Context *context, int row) { return view(context, context->matmul_weights, row); }
Tensor context_gradient(const Context *context, int row) { return view(context, context->gradients, row); }

LayerGradients context_layer_gradients(const Context *context, int weight, int bias, Tensor dx) {
    return (LayerGradients){
        .dx = dx, .dw = context_gradient(context, weight), .dbias = context_gradient(context, bias)};
}

NormGradients context_norm_gradients(const Context *context, int gain, int bias, Tensor dx) {
    return (NormGradients){
        .dx = dx, .dgain = context_gradient(context, gain), .dbias = context_gradient(context, bias)};
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
