/* What a run needs of a device's memory, by group, known before anything is allocated. */
#ifndef TRAIN_MEMORY_H
#define TRAIN_MEMORY_H

#include "model/model.h"

typedef struct {
    size_t weights, gradients, optimizer, activations; /* bytes */
    size_t data;                                       /* what lies there whole: Dataset.resident */
    size_t batches, results; /* the loop's: their fields; what steps and validations measure */
    size_t scratch;          /* the device's own */
} MemoryPlan;

/* train and validation are batches at least as large as any that will come (either may be NULL; without train there are
 * no gradients and no optimizer). half: the type of the activations; f32: no 16-bit type is used. device: what its
 * operations need of its own counts too, or NULL. What the loop needs is not counted. */
MemoryPlan memory_plan(Model *model, Device *device, DType half, const Batch *train, const Batch *validation,
                       bool recompute);
/* One optimizer step of such micro-batches, for the counters of a dry device. */
void rehearse_step(Model *model, Device *dry, const Batch *batch, int64_t micro_batches, bool recompute);
/* One micro-batch of it, without the update; or of a validation. */
void rehearse_pass(Model *model, Device *dry, const Batch *batch, bool train, bool recompute);
size_t memory_total(const MemoryPlan *plan);
void memory_print(const MemoryPlan *plan);
/* Bytes that a run can still allocate: what is free, less what the device keeps. A device that has not rehearsed the
 * run has not loaded all of its code, and will have less then. */
size_t memory_available(const Device *device);
/* " (268 MB more are kept free)", of the host " under ulimit -v (134 MB ...)"; "" if the device keeps nothing. */
const char *memory_kept_text(const Device *device, char text[64]);

#endif
