/* Runs the model on batches: uploads the fields, runs the model's operations or repeats recorded ones, and collects the
 * results. */
#pragma once

#include "data/loader.h"
#include "train/training.h"

typedef struct {
    Training *t;
    PassNumbers *numbers;  /* numbers of the current micro-batch, on the device */
    Tensor sums;           /* f32 [n_metrics] on the device: the results of the current micro-batch */
    Tensor outputs;        /* f32 [sequences, n_outputs] on the device: its outputs */
    bool *unwritten;       /* of a step's first micro-batch: see Pass */
    int64_t *key;          /* what decides the operations of the current micro-batch */
    char *batch_memory[2]; /* the fields of two batches on the device; NULL if the device reads host memory */
    size_t batch_bytes;
    int64_t n_staged;
    int64_t shown_total;   /* passes_measure shows how many of so many samples are done; 0: nothing */
    double started, shown; /* then: seconds_now() of the beginning and of what is shown */
} Passes;

/* Allocates memory for batches of at most batch_bytes bytes and `sequences` sequences. */
Passes passes_open(Training *training, size_t batch_bytes, int sequences);
void passes_close(Passes *passes);
/* Runs one batch. Writes the metrics to sums f32 [n_metrics] and the model's outputs to outputs f32 [n_sequences *
 * n_outputs], both on the device; either may be none. Sets pass.sums and pass.outputs itself. */
void passes_run(Passes *passes, const Batch *batch, Pass pass, Tensor sums, Tensor outputs);
/* Runs `batches` batches without training. Writes sums f32 [batches, n_metrics] and outputs f32 [samples, n_outputs] on
 * the device; either may be none. Adds up counts, which may be NULL. Returns false with the reason if a batch cannot be
 * loaded. */
bool passes_measure(Passes *passes, Loader *loader, int64_t batches, Tensor sums, Tensor outputs, double *counts,
                    Error *error);
