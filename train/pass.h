/* Runs the model on batches: uploads the fields, runs the model's operations or repeats recorded ones, and collects the
 * results. */
#pragma once

#include "data/loader.h"
#include "train/training.h"

/* The numbers of a micro-batch and of the step that it belongs to. They come to the device with the batch. */
typedef struct {
    PassNumbers pass;
    int32_t micro, row; /* its place in the step, the place of the step among those whose results are kept */
    uint32_t update;    /* AdamW.step */
    float rates[];      /* learning rates by group */
} StepNumbers;

/* The operations around a pass, in the same recording. Both functions get the numbers on the device. */
typedef struct {
    void (*before)(void *context, const StepNumbers *numbers), (*after)(void *context, const StepNumbers *numbers);
    void *context;
    int64_t key;   /* which operations these are */
    bool together; /* some of them are between ranks */
    bool direct;   /* none is recorded */
} PassFrame;

typedef struct {
    Training *t;
    StepNumbers *numbers;  /* of the next micro-batch, on the host */
    size_t numbers_bytes;  /* a multiple of BATCH_LINE */
    Tensor sums;           /* f32 [n_metrics] on the device: the results of the current micro-batch */
    Tensor outputs;        /* f32 [sequences, n_outputs] on the device: its outputs */
    bool *unwritten;       /* of a step's first micro-batch: see Pass */
    int64_t *key;          /* what decides the operations of the current micro-batch */
    Batch padded;          /* the current batch with padding; no buffer: batches get none (passes_pad) */
    bool ragged;           /* batches without padding have too many sizes to be recorded */
    char *batch_memory;    /* the numbers and fields of a batch; NULL if the device reads host memory */
    size_t batch_bytes;    /* with the numbers */
    int64_t shown_total;   /* passes_measure shows how many of so many samples are done; 0: nothing */
    double started, shown; /* then: seconds_now() of the beginning and of what is shown */
} Passes;

/* Returns whether batches that are trained on get padding: on devices with memory of their own, which repeat what they
 * recorded, and in plans for them. */
bool passes_pad(const Device *device, const Model *model);
/* Returns a bound of what a batch of `bytes` bytes takes on the device, with the numbers. */
size_t passes_batch_bytes(const Device *device, const Model *model, size_t bytes);
/* Allocates memory for batches of at most batch_bytes bytes and `sequences` sequences. */
Passes passes_open(Training *training, size_t batch_bytes, int sequences);
void passes_close(Passes *passes);
/* Runs one batch, with the numbers that passes->numbers hold, inside a frame, which may be NULL. Writes the model's
 * outputs to outputs f32 [n_sequences * n_outputs] on the device; may be none. Sets what of the pass lies on the
 * device. */
void passes_run(Passes *passes, const Batch *batch, Pass pass, const PassFrame *frame, Tensor outputs);
/* Runs the loader's next `batches` batches, of --val-batch-size sequences, without training. Writes what batch b of the
 * epoch gives to row b of sums f32 [batches of the epoch, n_metrics] and of counts [batches of the epoch,
 * BATCH_MAX_COUNTS], and the outputs of its samples to outputs f32 [samples, n_outputs]; sums and outputs lie on the
 * device, and each of the three may be none. Returns false with the reason if a batch cannot be loaded. */
bool passes_measure(Passes *passes, Loader *loader, int64_t batches, Tensor sums, Tensor outputs, double *counts,
                    Error *error);
