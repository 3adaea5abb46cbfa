/* Plans the memory that a run needs on a device, by group, before anything is allocated. */
#pragma once

#include "model/model.h"

typedef struct {
    size_t weights, gradients, optimizer, activations; /* bytes */
    size_t data;                                       /* device datasets: Dataset.device_data */
    size_t batches, results; /* of the loop: the fields of batches; the results of steps and validations */
    size_t scratch;          /* of the device's operations */
} MemoryPlan;

/* How a step is made: with gradient checkpointing; with Muon for the matrices of the blocks. */
typedef struct {
    bool recompute, muon;
} StepOptions;

/* Plans the memory for batches that are at least as large as all in the data; either may be NULL. Without `train` there
 * are no gradients and no optimizer. `half` is the 16-bit type of the activations, or f32. The scratch of `device` is
 * included unless device is NULL. Leaves `batches` at 0, and has of `results` the squares of the norm: the loop adds
 * its own. */
MemoryPlan memory_plan(Model *model, Device *device, DType half, const Batch *train, const Batch *validation,
                       StepOptions options);
/* Runs an optimizer step of micro_batches times `batch` on a dry device, for its counters. A device that follows its
 * operations (device_follow) counts the second of two such steps. */
void memory_dry_step(Model *model, Device *dry, const Batch *batch, int64_t micro_batches, StepOptions options);
/* Runs a micro-batch, without the update. */
typedef enum { PASS_FIRST, PASS_LATER, PASS_VALIDATION } PassKind; /* of a step: the first overwrites gradients */
void memory_dry_pass(Model *model, Device *dry, const Batch *batch, PassKind kind, bool recompute);
/* Is told of the pass: Pass.finished and Pass.needed, with one context. */
typedef struct {
    void (*finished)(void *context, int64_t begin, int64_t end);
    void (*needed)(void *context, int64_t begin, int64_t end);
    void *context;
} PassListener;
void memory_dry_pass_told(Model *model, Device *dry, const Batch *batch, PassKind kind, bool recompute,
                          const PassListener *listener);
size_t memory_total(const MemoryPlan *plan);
void memory_print(const MemoryPlan *plan);
/* Returns the bytes that a run can still allocate: the free bytes, minus those that the device keeps free. Call it
 * after memory_plan: by then the device has loaded all of its code. */
size_t memory_available(const Device *device);
/* Writes " (268 MB more are kept free)", for the host " under ulimit -v (134 MB ...)"; "" if nothing is kept free and
 * no limit decides. */
enum { MEMORY_TEXT = 512 };
const char *memory_headroom_text(const Device *device, char text[MEMORY_TEXT]);
/* Prints how much memory is available, if a limit below the machine's memory decides it. */
void memory_print_limit(const Device *device);
