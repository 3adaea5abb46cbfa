/* The head over a vocabulary: logits = y table^T + bias, with the padding of both (param_pad_rows), with the softmax
 * cross-entropy of each row. The logits, by far the largest tensor, exist for TOKEN_HEAD_ROWS rows at a time, and
 * become their own gradient in place. */
#pragma once

#include "model/context.h"

enum { TOKEN_HEAD_ROWS = 8192 };

typedef struct {
    int table, bias;      /* rows of the parameter table: [V, C]; [V], -1: no bias */
    int metric;           /* the loss's, by which the pass scales it */
    Tensor targets;       /* i32 [N], negative: a row without a loss */
    Tensor loss, correct; /* out: f32 [N] */
    Tensor loss_scale;    /* the model's */
} TokenHead;

/* Computes loss and hit of each row of y [N, C]. In training it also computes dy and adds to the gradients of the
 * parameters. Dumps "logits", "logits.8192", ... */
void token_head_run(const TokenHead *head, const Context *context, Tensor y, Tensor dy);
