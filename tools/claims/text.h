/* Counts the operations of one training step of two models that have no trainer: the text GPT, whose token table is
 * also its head, and PhoBERT with a classification head. The models run on the dry device only. Their time and memory
 * are estimated as for models that have a trainer. */
#ifndef TOOLS_CLAIMS_TEXT_H
#define TOOLS_CLAIMS_TEXT_H

#include "estimate/estimate.h"

typedef struct {
    const char *name;
    int64_t vocabulary, positions;
    int layers, width, heads;
    bool biases;
    int classes; /* classes of a sequence, predicted from its first row by bidirectional post-norm blocks; 0: the model
                  * predicts the next token at every row with causal pre-norm blocks */
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

#endif
