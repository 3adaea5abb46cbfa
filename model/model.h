/* A network as the training loop sees it: parameters, metrics, and one function that computes a micro-batch. */
#pragma once

#include "data/padding.h"
#include "model/params.h"

enum { MODEL_MAX_METRICS = 8 };

/* A metric: a sum over rows, divided by the number of those rows (Batch.counts[count]). */
typedef struct {
    const char *name; /* "text_loss" */
    int count;        /* index into Batch.counts */
    float weight;     /* in the objective; 0: only reported */
} Metric;

/* The request to compute one micro-batch. loss_scale, step and sums lie on the device, so that calls which differ only
 * in their values and in the batch's numbers queue the same operations (Device.repeat). */
typedef struct {
    bool train;        /* forward and backward, adding to the gradients; false: forward without dropout */
    bool recompute;    /* gradient checkpointing: keep only block inputs, recompute the rest in the backward */
    Tensor loss_scale; /* f32 [n_metrics]: the backward starts from sum_i loss_scale[i] * (sum of metric i) */
    /* [params.count], optional: the gradients that nothing of the step has been written to, whose memory may hold
     * anything (context_begin). The first product overwrites one. NULL: all gradients are added to. */
    bool *unwritten;
    uint64_t seed;        /* of dropout */
    const uint32_t *step; /* micro-batches since the start of the training, for dropout */
    Tensor sums;          /* out: f32 [n_metrics] on the device, overwritten */
    Tensor outputs;       /* out, optional: f32 [n_sequences, n_outputs] on the device, logits per sequence */
    /* Optional: told as early as it is known, in the order of the operations, that nothing of the pass will change the
     * gradients of elements begin .. end - 1 of the flat buffer any more. Ranges come from the last to the first;
     * gradients that are in none are final when the pass has returned. */
    void (*finished)(void *context, int64_t begin, int64_t end);
    void *finished_context;
    /* Optional: told in front of each block, in the order of the operations, that the parameters in elements begin ..
     * end - 1 of the flat buffer are about to be read; nothing has read them before, if their Param.reader is a block.
     */
    void (*needed)(void *context, int64_t begin, int64_t end);
    void *needed_context;
    void (*dump)(void *context, const char *name,
                 Tensor tensor); /* for debugging, called with each named activation; NULL: none */
    void *dump_context;
} Pass;

/* The numbers of a pass that lie on the device. */
typedef struct {
    uint32_t step;
    float loss_scale[MODEL_MAX_METRICS];
} PassNumbers;

typedef struct Model Model;
struct Model {
    const char *name;
    ParamTable params;
    /* Flat buffers [flat_count] on the device, allocated and set by the loop. */
    Tensor weights, gradients; /* f32 */
    Tensor half_weights;       /* a 16-bit copy of the weights, whose type the activations have; none: all is f32 */
    Tensor loss_scale;         /* see ops.h; none: the type of the activations needs no scaling */
    Metric metrics[MODEL_MAX_METRICS];
    int n_metrics;
    double (*metric_value)(int metric, double mean); /* what a metric's mean stands for; NULL: the mean itself */
    int n_outputs;                                   /* per sequence; 0: the model has no outputs for whole sequences */
    /* The padding of batches that are trained on, [BATCH_MAX_FIELDS]; NULL: they have few sizes without it. */
    const FieldPad *pads;
    /* Computes the forward of one micro-batch and, if the pass trains, the backward; gradients are accumulated.
     * fields[] are the batch's fields on the device, followed by the device dataset (fields[batch->n_fields]);
     * batch->fields are the same on the host. All activations come from the arena and are popped before the function
     * returns. */
    void (*forward_backward)(Model *model, Device *device, Arena *activations, const Batch *batch, const Tensor *fields,
                             const Pass *pass);
    void (*close)(Model *model);
};
