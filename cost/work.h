/* The work of a run: calls, FLOPs and bytes of every operation, and the kind of each operation. */
#pragma once

#include "data/batch.h"
#include "kernels/ops_table.h"

/* Kinds of operations, by the resource that limits them. Operations of one kind reach similar rates at similar sizes.
 */
typedef enum {
    WORK_PRODUCT,
    WORK_PRODUCT_BACKWARD,
    WORK_GELU_PRODUCT, /* with GELU in the same pass */
    WORK_GELU_PRODUCT_BACKWARD,
    WORK_ATTENTION,
    WORK_ATTENTION_BACKWARD,
    WORK_CONVOLUTION,
    WORK_CONVOLUTION_BACKWARD,
    WORK_STEM,
    WORK_STEM_BACKWARD,
    WORK_NORM, /* layer norms */
    WORK_NORM_BACKWARD,
    WORK_ACTIVATION, /* batch norms and what follows them */
    WORK_ACTIVATION_BACKWARD,
    WORK_STATISTICS, /* of batch norms */
    WORK_LOSS,
    WORK_UPDATE, /* AdamW */
    WORK_MUON,   /* products of matrices with themselves */
    WORK_OTHER,  /* moves numbers, above all */
    WORK_KINDS
} WorkKind;
extern const char *const work_kind_names[WORK_KINDS];
WorkKind work_kind(int op);
double work_kernels(int op); /* kernels that the cuda device usually launches for one call */

/* One operation in a step or a validation, averaged over an epoch: all calls, and the calls by call_size. */
typedef struct {
    CallWork all, sizes[CALL_SIZES];
    const OpTraffic *traffic; /* of calls like these; NULL: not known, every byte is taken for the memory's */
} OpWork;

/* A step, or a validation. */
typedef struct {
    OpWork ops[OP_COUNT]; /* of kernels/ops_table.h */
    double micro_batches, sequences, tokens;
    double unaligned_flops; /* see Device */
    double batch_bytes;     /* filled by the loader and copied to the device */
} Work;

/* Adds calls of one size. */
void work_add_calls(OpWork *work, CallWork calls);
/* Adds what a device has counted since its counters were reset, so many times; -1 takes it away. */
void work_add_counters(Work *work, const Device *device, double times);
/* Takes what a dry device has followed (device_follow) for the traffic of the work, of which only shares count. The
 * device must live as long as the work. */
void work_follow(Work *work, const Device *dry);
void work_add_batch(Work *work, const Batch *batch);
void work_scale(Work *work, double by);
