/* Plans the memory of a run before anything is allocated. */
#pragma once

#include "cost/work.h"
#include "train/plan/memory.h"
#include "train/spec.h"

/* Maximum of steps whose results a device with memory of its own keeps until the host reads them. */
enum { TRAIN_MAX_QUEUED = 16 };

/* Returns what train_open would allocate on the spec's device. */
MemoryPlan train_plan(const TrainSpec *spec);
/* Does the same with other options, and another 16-bit type (f32: none). */
MemoryPlan train_plan_of(const TrainSpec *spec, const TrainOptions *options, DType half);
/* Returns what train_open_inference would allocate. */
MemoryPlan train_plan_inference(const TrainSpec *spec);
/* Returns the bytes of the plan that are still to be allocated, for comparison with memory_available. */
size_t train_to_allocate(const TrainSpec *spec, const MemoryPlan *plan);
/* Returns a micro-batch that dominates all of the training data. batch_close() */
Batch train_largest_batch(const TrainSpec *spec, const TrainOptions *options);
/* Returns the number of samples of the smallest micro-batch that is trained on. */
int64_t train_min_samples(const TrainSpec *spec);
StepOptions train_step_options(const TrainSpec *spec, const TrainOptions *options);
/* Returns the number of ranks that share a step: of this job, or of the one that is planned. */
int train_ranks(const TrainOptions *options);
/* Returns the 16-bit type of the activations; f32: there is none. */
DType train_half(const TrainSpec *spec);
/* Follows a step of such micro-batches through caches, and gives the work its traffic, which lives as long as the
 * process. */
void train_follow(const TrainSpec *spec, const Batch *batch, Work *work);
