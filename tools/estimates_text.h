/* One step of the two models that have no trainer yet, by its operations: the text GPT (its token table is its head
 * too) and PhoBERT with a head for classes. They compute nothing: they are for the dry device, and what they need and
 * how long they take follows as it does for models that can be trained. */
#ifndef ESTIMATES_TEXT_H
#define ESTIMATES_TEXT_H

#include "train/estimate.h"

typedef struct {
    const char *name;
    int64_t vocabulary, positions;
    int layers, width, heads;
    bool biases;
    int classes; /* of a whole sequence, by its first row, behind post-norm blocks that see all rows; 0: the next token
                  * at every row, behind causal pre-norm blocks */
} TextModel;

/* `sequences` of `length` tokens a micro-batch. half: f32, or the 16-bit type; recompute: gradient checkpointing. */
typedef struct {
    int sequences, length, accumulation;
    DType half;
    bool recompute;
} TextBatch;

typedef struct {
    Work step, validation; /* an optimizer step; a micro-batch of a validation */
    MemoryPlan memory, evaluation;
    double parameters;
} TextStep;

TextStep text_step(const TextModel *model, TextBatch batch);
/* FLOPs of the matrix products alone of one training step, as utilisations are given: three times the forward's, of
 * attention too. Causal attention counts the pairs that are seen. */
double text_model_flops(const TextModel *model, TextBatch batch);

#endif
