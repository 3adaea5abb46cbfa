/* Turns a data set into a stream of micro-batches, which worker threads build ahead of time.
 *
 * The stream is a pure function of (data set, options): epoch e visits the samples in an order drawn from (seed, e);
 * inside pools of that order samples are sorted by length, so that the sequences of a micro-batch have similar lengths,
 * and the order of the micro-batches is shuffled again. Neither the number of workers nor the moment of a restart
 * changes the stream. */
#pragma once

#include "data/dataset.h"

typedef struct {
    int batch_size;       /* sequences per micro-batch; with token_budget, the maximum (0: no limit) */
    int64_t token_budget; /* maximum of rows per micro-batch; 0: none. A longer sample is a micro-batch of its own */
    int accumulate;       /* micro-batches per optimizer step, for Batch.group. The first micro-batch delivered
                           * begins a step; steps may span two epochs */
    bool shuffle, bucket;
    bool drop_last; /* without a token budget: leaves out an epoch's last micro-batch if smaller than batch_size */
    uint64_t seed;
    int n_workers;
    int64_t start_epoch, start_index; /* the first micro-batch delivered */
    int64_t epoch_limit; /* maximum of micro-batches per epoch, the first ones; 0: all. loader_epoch_batches obeys the
                          * limit */
    int64_t stop_after;  /* number of micro-batches delivered before NULL; < 0: endless, epoch after epoch */
    bool one_epoch;      /* delivers NULL at the end of the epoch (validation) */
    /* The part of the stream that is delivered, of several ranks each its own: micro-batches first, first + stride, ...
     * of all that follow the start, or, if by_epoch, of those of each epoch. stride 0: all of them. first < stride; an
     * epoch has more than `first` micro-batches. */
    int first, stride;
    bool by_epoch;
} LoaderOptions;

typedef struct Loader Loader;

Loader *loader_open(const Dataset *dataset, const LoaderOptions *options);
/* Returns the next micro-batch, valid until the next call, or NULL at the end. Dies with the reason if the micro-batch
 * could not be filled. */
const Batch *loader_next(Loader *loader);
/* Does the same, but returns NULL with the reason if the micro-batch could not be filled; at the end error->text is "".
 */
const Batch *loader_try(Loader *loader, Error *error);
void loader_close(Loader *loader);

/* Returns the number of micro-batches of an epoch. */
int64_t loader_epoch_batches(const Dataset *dataset, const LoaderOptions *options, int64_t epoch);
/* Returns a bound on Batch.size of any micro-batch, and sets *sequences (may be NULL) to a bound on its sequences. */
size_t loader_batch_bytes(const Dataset *dataset, const LoaderOptions *options, int *sequences);
/* Return the bytes of all micro-batch buffers: of a loader with these options, and of an open loader. */
size_t loader_planned_bytes(const Dataset *dataset, const LoaderOptions *options);
size_t loader_bytes(const Loader *loader);
