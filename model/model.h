/* A network as the training loop sees it: its parameters, what it measures, and one function for a micro-batch. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "data/batch.h"
#include "model/params.h"

enum { MODEL_MAX_METRICS = 8 };

/* A metric is a sum over rows divided by how many rows there are (Batch.counts[count]). */
typedef struct {
    const char *name; /* "text_loss" */
    int count;        /* which of Batch.counts divides it */
    float weight;     /* its weight in the objective; 0: only reported */
} Metric;

/* What one call is to do. loss_scale, step and sums lie on the device: a call that differs in their numbers only, and
 * in those of the batch, queues the same operations (Device.repeat). */
typedef struct {
    bool train;           /* forward, and backward into the gradients; else forward without dropout */
    bool recompute;       /* keep only block inputs, compute the rest again in the backward */
    Tensor loss_scale;    /* f32 [n_metrics]: the backward starts from sum_i loss_scale[i] * (sum of metric i) */
    uint64_t seed;        /* of dropout */
    const uint32_t *step; /* counts micro-batches since the start of the training: dropout's step */
    Tensor sums;          /* out: f32 [n_metrics] on the device, overwritten */
    Tensor
        outputs; /* out: f32 [n_sequences, n_outputs] there, what is said of each sequence (logits); none: unwanted */
    void (*dump)(void *context, const char *name, Tensor tensor); /* debug: shown each named activation; or NULL */
    void *dump_context;
} Pass;

/* What the device must know of a pass besides tensors; device->set takes them. */
typedef struct {
    uint32_t step;
    float loss_scale[MODEL_MAX_METRICS];
} PassNumbers;

typedef struct Model Model;
struct Model {
    const char *name;
    ParamTable params;
    /* Flat, [flat_count], on the device; the loop allocates and sets them. The copy of the weights in the device's
     * 16-bit type makes that the type of the activations; none: all is f32. */
    Tensor weights, gradients; /* f32 */
    Tensor half_weights;
    Tensor loss_scale; /* see ops.h; none: the type of the activations needs none */
    Metric metrics[MODEL_MAX_METRICS];
    int n_metrics;
    int n_outputs; /* of a sequence; 0: the model says nothing of whole sequences */
    /* One micro-batch. fields[] are the batch's on the device (offsets also needed on the host: batch->fields), and
     * behind them, fields[batch->n_fields], the data set's resident tensor. All activations come from the arena and are
     * popped again before it returns. Gradients are accumulated. */
    void (*run)(Model *model, Device *device, Arena *activations, const Batch *batch, const Tensor *fields,
                const Pass *pass);
    void (*close)(Model *model);
};

#endif
