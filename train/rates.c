#include "train/rates.h"

#include <math.h>

#include "kernels/ops_table.h"

/* Kernels of a call, where they are not one: of the cuda device, with its usual shapes. */
static const unsigned char kernels[OP_COUNT] = {
    [OP_embedding_backward] = 8,     /* a sort in steps, the sums of pieces, twice */
    [OP_layernorm_backward] = 2,     /* rows; the sums of columns */
    [OP_linear_backward] = 3,        /* dx, dw, dbias */
    [OP_gelu_linear_backward] = 3,   /* the same */
    [OP_attention_backward] = 2,     /* dots; the rest */
    [OP_batchnorm_forward] = 2,      /* sums; the rest */
    [OP_batchnorm_backward] = 2,     /* the same */
    [OP_batchnorm_statistics] = 2,   /* sums of blocks; their sum */
    [OP_norm_activate_backward] = 3, /* sums of blocks; their sum; the rest */
    [OP_conv3d_forward] = 2,         /* weights in another order; the product */
    [OP_conv3d_backward] = 4,        /* the same for dx; dw in parts, their sum */
    [OP_stem_statistics] = 3,        /* moments of blocks; their sum; the statistics */
    [OP_stem_forward] = 2,           /* weights in another order; the rest */
    [OP_stem_backward] = 4,          /* the same; the sums of blocks; what follows from them */
    [OP_augment_cells] = 2,          /* footprints; counts */
    [OP_sum_forward] = 2,            /* sums of pieces; their sum */
    [OP_global_norm] = 2,            /* the same */
    [OP_adamw_update] = 2,           /* its factors; the weights */
};

double op_kernels(int op) { return op < OP_COUNT && kernels[op] ? kernels[op] : 1; }

WorkKind work_kind(int op) {
    switch (op) {
    case OP_linear_forward:
    case OP_linear_backward:
    case OP_linear_gelu_forward:
    case OP_gelu_linear_backward:
        return WORK_PRODUCT;
    case OP_conv3d_forward:
    case OP_conv3d_backward:
    case OP_stem_forward:
    case OP_stem_backward:
        return WORK_CONVOLUTION;
    case OP_attention_forward:
    case OP_attention_backward:
        return WORK_ATTENTION;
    default:
        return WORK_OTHER;
    }
}

double curve_at(const Curve *c, double size) {
    int i = 1;
    if (size <= c->size[0] || c->n == 1) return c->rate[0];
    while (i < c->n && c->size[i] < size) i++;
    if (i == c->n) return c->rate[c->n - 1];
    double part = log(size / c->size[i - 1]) / log(c->size[i] / c->size[i - 1]);
    return c->rate[i - 1] * pow(c->rate[i] / c->rate[i - 1], part);
}
