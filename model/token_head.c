#include "model/token_head.h"

/* Does n rows, from row `at` on. */
static void run_rows(const TokenHead *head, const BlockRun *run, Tensor y, Tensor dy, int64_t at, int64_t n) {
    Device *device = run->device;
    Tensor table = run_matmul_weight(run, head->table), bias = run_matmul_weight(run, head->bias),
           logits = push_activations(run, n, table.dims[0]), input = tensor_rows(y, at, n),
           loss = tensor_rows(head->loss, at, n), correct = tensor_rows(head->correct, at, n),
           targets = tensor_rows(head->targets, at, n), none = tensor_none();
    linear_forward(device, logits, input, table, bias, WEIGHT_OUT_IN);
    pass_dump(run->pass, logits, at ? "logits.%lld" : "logits", (long long)at);
    if (!run->pass->train) {
        cross_entropy_forward(device, loss, correct, logits, targets, none);
        return;
    }
    cross_entropy_forward_backward(device, loss, correct, logits, targets, none,
                                   tensor_rows(run->pass->loss_scale, head->metric, 1), head->loss_scale);
    LayerGradients gradients = {
        .dx = tensor_rows(dy, at, n), .dw = run_gradient(run, head->table), .dbias = run_gradient(run, head->bias)};
    linear_backward(device, gradients, logits, input, table, WEIGHT_OUT_IN);
}

void token_head_run(const TokenHead *head, const BlockRun *run, Tensor y, Tensor dy) {
    for (int64_t at = 0; at < y.dims[0]; at += TOKEN_HEAD_ROWS) {
        size_t mark = arena_mark(run->arena);
        int64_t left = y.dims[0] - at;
        run_rows(head, run, y, dy, at, left < TOKEN_HEAD_ROWS ? left : TOKEN_HEAD_ROWS);
        arena_release(run->arena, mark);
    }
}
