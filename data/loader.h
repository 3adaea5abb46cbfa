/* From a data set to a stream of micro-batches, built ahead of need by worker threads.
 *
 * The stream is a pure function of (data set, options): epoch e visits the samples in an order drawn from (seed, e);
 * inside pools of that order samples are sorted by length, so that the sequences of a micro-batch are alike, and the
 * order of the micro-batches is shuffled again. Neither the number of workers nor the moment of a restart can change
 * it. */
#ifndef DATA_LOADER_H
#define DATA_LOADER_H

#include "data/dataset.h"

typedef struct {
    int batch_size;       /* sequences a micro-batch; with token_budget, at most (0: no limit) */
    int64_t token_budget; /* rows a micro-batch, 0: none. A sample longer than it is a micro-batch of its own */
    int accumulate;       /* micro-batches an optimizer step: for group_counts. Groups go on across epochs; the first
                           * micro-batch delivered begins one */
    bool shuffle, bucket;
    bool drop_last; /* without a token budget: what is left for a micro-batch smaller than batch_size is left out */
    uint64_t seed;
    int n_workers;
    int64_t start_epoch, start_index; /* the first micro-batch delivered */
    int64_t epoch_limit; /* an epoch is only its first so many micro-batches; 0: all (loader_epoch_batches obeys it) */
    int64_t stop_after;  /* deliver so many micro-batches, then NULL; < 0: endless, epoch after epoch */
    bool one_epoch;      /* NULL at the end of the epoch (validation) */
} LoaderOptions;

typedef struct Loader Loader;

Loader *loader_open(const Dataset *dataset, const LoaderOptions *options);
/* The next micro-batch, or NULL at the end; valid until the next call. Dies if it could not be filled, with the reason.
 */
const Batch *loader_next(Loader *loader);
/* The same, but NULL with the reason if it could not be filled; at the end error->text is "". */
const Batch *loader_try(Loader *loader, Error *error);
void loader_close(Loader *loader);

/* How many micro-batches epoch `epoch` has. */
int64_t loader_epoch_batches(const Dataset *dataset, const LoaderOptions *options, int64_t epoch);
/* A bound on Batch.size of any micro-batch, and on its sequences (may be NULL). */
size_t loader_batch_bytes(const Dataset *dataset, const LoaderOptions *options, int *sequences);
/* Of the buffers of all the micro-batches that it has at a time: as it would be, and as it is. */
size_t loader_planned_bytes(const Dataset *dataset, const LoaderOptions *options);
size_t loader_bytes(const Loader *loader);
#endif
