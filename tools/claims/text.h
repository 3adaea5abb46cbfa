/* Counts the operations of one training step of a text GPT whose token table is also its head, on the dry device only:
 * closed forms beside those of the trainers, and what a validation takes. */
#pragma once

#include "estimate/estimate.h"

typedef struct {
    const char *name;
    int64_t vocabulary, positions;
    int layers, width, heads;
    bool biases;
} TextModel;

/* A batch of `accumulation` micro-batches, each with `sequences` sequences of `length` tokens. half: DTYPE_F32, or the
 * 16-bit type of mixed precision; recompute: gradient checkpointing. */
typedef struct {
    int sequences, length, accumulation;
    DType half;
    bool recompute;
} TextBatch;

typedef struct {
    Work step, validation; /* per optimizer step; per micro-batch of a validation */
    MemoryPlan memory, evaluation;
    double parameters;
} TextStep;

/* Returns the work and memory of one training step. */
TextStep text_step(const TextModel *model, TextBatch batch);
