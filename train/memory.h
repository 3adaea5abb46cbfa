/* What a run needs of a device's memory, by group, known before anything is allocated. */
#ifndef TRAIN_MEMORY_H
#define TRAIN_MEMORY_H

#include "model/model.h"

typedef struct {
    size_t weights, gradients, optimizer, activations, batches; /* bytes */
} MemoryPlan;

/* train and validation are batches at least as large as any that will come (either may be NULL). half: the type of the
 * activations; f32: no 16-bit type is used. */
MemoryPlan memory_plan(Model *model, DType half, const Batch *train, const Batch *validation, bool recompute);
size_t memory_total(const MemoryPlan *plan);
void memory_print(const MemoryPlan *plan);
size_t memory_available(const Device *device); /* bytes that can still be allocated */

#endif
