/* The memory of a run before there is one. */
#ifndef TRAIN_PREPARE_H
#define TRAIN_PREPARE_H

#include "train/loop.h"
#include "train/memory.h"

/* As train_prepare would allocate it on the training's device. */
MemoryPlan train_plan(Training *training);
/* The same with other options, and another 16-bit type (f32: none). */
MemoryPlan train_plan_of(Training *training, const TrainOptions *options, DType half);
/* The bytes of it that are still to be allocated, of those that are available. */
size_t train_to_allocate(const Training *training, const MemoryPlan *plan);
/* A micro-batch that dominates all of the training data. batch_close() */
Batch train_largest_batch(const Training *training, const TrainOptions *options);
/* Samples of the smallest one that is ever trained on. */
int64_t train_least_batch(const Training *training);

#endif
