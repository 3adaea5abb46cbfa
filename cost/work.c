#include "cost/work.h"

#include "kernels/ops_table.h"

const char *const work_kind_names[WORK_KINDS] = {
    [WORK_PRODUCT] = "product",
    [WORK_PRODUCT_BACKWARD] = "product_backward",
    [WORK_GELU_PRODUCT] = "gelu_product",
    [WORK_GELU_PRODUCT_BACKWARD] = "gelu_product_backward",
    [WORK_ATTENTION] = "attention",
    [WORK_ATTENTION_BACKWARD] = "attention_backward",
    [WORK_CONVOLUTION] = "convolution",
    [WORK_CONVOLUTION_BACKWARD] = "convolution_backward",
    [WORK_STEM] = "stem",
    [WORK_STEM_BACKWARD] = "stem_backward",
    [WORK_NORM] = "norm",
    [WORK_NORM_BACKWARD] = "norm_backward",
    [WORK_ACTIVATION] = "activation",
    [WORK_ACTIVATION_BACKWARD] = "activation_backward",
    [WORK_STATISTICS] = "statistics",
    [WORK_LOSS] = "loss",
    [WORK_UPDATE] = "update",
    [WORK_MUON] = "muon",
    [WORK_OTHER] = "other",
};

/* Kernels per call on the cuda device with its usual shapes, where it is not one. */
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
    [OP_augment_volumes] = 2,        /* footprints; counts */
    [OP_sum_forward] = 2,            /* sums of pieces; their sum */
    [OP_adamw_update] = 2,           /* its factors; the weights */
    [OP_muon_update] = 24,           /* five steps of three products and a sum; before and behind them four */
};

double work_kernels(int op) { return op < OP_COUNT && kernels[op] ? kernels[op] : 1; }

WorkKind work_kind(int op) {
    static const unsigned char kinds[OP_COUNT] = {
    /* 1 + the kind; 0: other */
#define KIND(op, kind) [OP_##op] = 1 + WORK_##kind
        KIND(linear_forward, PRODUCT),
        KIND(linear_backward, PRODUCT_BACKWARD),
        KIND(linear_gelu_forward, GELU_PRODUCT),
        KIND(gelu_linear_backward, GELU_PRODUCT_BACKWARD),
        KIND(attention_forward, ATTENTION),
        KIND(attention_terms_forward, ATTENTION),
        KIND(attention_backward, ATTENTION_BACKWARD),
        KIND(conv3d_forward, CONVOLUTION),
        KIND(conv3d_backward, CONVOLUTION_BACKWARD),
        KIND(stem_forward, STEM),
        KIND(stem_backward, STEM_BACKWARD),
        KIND(layernorm_forward, NORM),
        KIND(residual_layernorm_forward, NORM),
        KIND(layernorm_backward, NORM_BACKWARD),
        KIND(norm_activate_forward, ACTIVATION),
        KIND(norm_activate_backward, ACTIVATION_BACKWARD),
        KIND(batchnorm_statistics, STATISTICS),
        KIND(cross_entropy_forward, LOSS),
        KIND(cross_entropy_forward_backward, LOSS),
        KIND(adamw_update, UPDATE),
        KIND(muon_update, MUON),
#undef KIND
    };
    return op < OP_COUNT && kinds[op] ? (WorkKind)(kinds[op] - 1) : WORK_OTHER;
}

/* ---- sums ---- */

static void add_calls(OpWork *work, int size, CallWork calls, double times) {
    CallWork *to[] = {&work->all, &work->sizes[size]};
    for (int i = 0; i < 2; i++) {
        to[i]->calls += times * calls.calls;
        to[i]->flops += times * calls.flops;
        to[i]->bytes += times * calls.bytes;
    }
}

void work_add_calls(OpWork *work, CallWork calls) {
    add_calls(work, call_size(calls.flops / calls.calls, calls.bytes / calls.calls), calls, 1);
}

void work_add_counters(Work *work, const Device *device, double times) {
    for (int op = 0; op < OP_COUNT; op++)
        for (int i = 0; i < CALL_SIZES && device->counters[op].calls; i++)
            add_calls(&work->ops[op], i, device->counters[op].sizes[i], times);
    work->unaligned_flops += times * device->unaligned_flops;
}

void work_follow(Work *work, const Device *dry) {
    for (int op = 0; op < OP_COUNT; op++) {
        const OpTraffic *traffic = traffic_of(dry->traffic, op);
        work->ops[op].traffic = traffic->counted > 0 ? traffic : NULL;
    }
}

void work_add_batch(Work *work, const Batch *batch) {
    work->micro_batches++;
    work->sequences += batch->n_sequences;
    work->tokens += (double)batch->n_tokens;
    work->batch_bytes += (double)batch->size;
}

void work_scale(Work *work, double by) {
    for (int op = 0; op < OP_COUNT; op++) {
        OpWork scaled = {.traffic = work->ops[op].traffic};
        for (int i = 0; i < CALL_SIZES; i++) add_calls(&scaled, i, work->ops[op].sizes[i], by);
        work->ops[op] = scaled;
    }
    work->micro_batches *= by;
    work->sequences *= by;
    work->tokens *= by;
    work->batch_bytes *= by;
    work->unaligned_flops *= by;
}
