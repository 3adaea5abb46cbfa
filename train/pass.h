/* The model's passes over batches: their fields to the device, the model's operations there or a repetition of recorded
 * ones, and its results to where they are collected. */
#ifndef TRAIN_PASS_H
#define TRAIN_PASS_H

#include "train/loop.h"

typedef struct {
    Training *t;
    PassNumbers *numbers;  /* on the device: of the micro-batch under way */
    Tensor sums;           /* f32 [n_metrics] there: its result */
    Tensor outputs;        /* f32 [sequences, n_outputs] there, the same */
    int64_t *key;          /* what decides its operations */
    char *batch_memory[2]; /* device: the fields of two batches; none where the device reads host memory */
    size_t batch_bytes;
    int64_t n_staged;
} Passes;

/* For batches of at most so many bytes and sequences. */
Passes passes_open(Training *training, size_t batch_bytes, int sequences);
void passes_close(Passes *passes);
/* One batch. What it measures goes to sums f32 [n_metrics] on the device, and what the model says of its sequences to
 * outputs f32 [n_sequences * n_outputs] there; either may be none. The pass's own are set here. */
void passes_run(Passes *passes, const Batch *batch, Pass pass, Tensor sums, Tensor outputs);
/* So many batches without training: sums f32 [batches, n_metrics] and outputs f32 [samples, n_outputs] on the device,
 * of which either may be none; counts (may be NULL) are added up. False with the reason if a batch cannot be had. */
bool passes_measure(Passes *passes, Loader *loader, int64_t batches, Tensor sums, Tensor outputs, double *counts,
                    Error *error);

/* The data set's resident tensor in the device's memory, if it is not there yet. */
void residents_add(Training *training, const Dataset *dataset);
void residents_release(Training *training, int from); /* the from-th and those added after it */

#endif
