#include "model/token_head.h"

#include <stdio.h>

/* Does n rows, from row `at` on. */
static void run_rows(const TokenHead *head, const Context *context, Tensor y, Tensor dy, int64_t at, int64_t n) {
    Device *device = context->device;
    int64_t classes = context->table->items[head->table].rows;
    Tensor table = context_padded_weight(context, head->table), bias = context_padded_weight(context, head->bias),
           logits = context_push(context, n, table.dims[0]), input = tensor_rows(y, at, n),
           loss = tensor_rows(head->loss, at, n), correct = tensor_rows(head->correct, at, n),
           targets = tensor_rows(head->targets, at, n), none = tensor_none();
    linear_forward(device, logits, input, table, bias, WEIGHT_OUT_IN);
    char name[32] = "logits";
    if (at) snprintf(name, sizeof name, "logits.%lld", (long long)at);
    context_dump_columns(context, logits, classes, name);
    if (!context->pass->train) {
        cross_entropy_forward(device, loss, correct, logits, classes, targets, none);
        return;
    }
    cross_entropy_forward_backward(device, loss, correct, logits, classes, targets, none,
                                   tensor_rows(context->pass->loss_scale, head->metric, 1), head->loss_scale);
    LayerGradients gradients = context_padded_gradients(context, head->table, head->bias, tensor_rows(dy, at, n));
    linear_backward(device, gradients, logits, input, table, WEIGHT_OUT_IN);
}

void token_head_run(const TokenHead *head, const Context *context, Tensor y, Tensor dy) {
    for (int64_t at = 0; at < y.dims[0]; at += TOKEN_HEAD_ROWS) {
        size_t mark = arena_mark(context->arena);
        int64_t left = y.dims[0] - at;
        run_rows(head, context, y, dy, at, left < TOKEN_HEAD_ROWS ? left : TOKEN_HEAD_ROWS);
        arena_release(context->arena, mark);
    }
}
