/* The data set of the text GPT: micro-batches of token rows from a stream of documents.
 *
 * A piece is a document, or a part of at most `context` tokens of a longer one; its last target is the token behind it.
 * SLM_EPOCH   every token is a target once an epoch. Packed: each epoch shuffles the pieces and cuts the stream of them
 *             into samples of `context` rows. Separate: a sample is one piece, which the loader shuffles.
 * SLM_RANDOM  a sample is `context` tokens from a uniformly random place, drawn with replacement from (seed, epoch,
 *             sample); an epoch has as many samples as the stream has whole contexts.
 * SLM_ORDER   as SLM_EPOCH, in the order of the stream: for validation.
 * Packed, rows attend to all earlier rows of their sample; separate, only to those of their own piece. */
#pragma once

#include "data/dataset.h"
#include "data/slm/stream.h"

typedef enum { SLM_EPOCH, SLM_RANDOM, SLM_ORDER } SlmSampling;

typedef struct {
    int context;
    SlmSampling sampling;
    bool separate;
    uint64_t seed;
} SlmDatasetOptions;

/* Opens a data set; the stream must outlive it. Returns NULL with the reason if the stream is shorter than it needs. */
Dataset *slm_dataset_open(const SlmStream *stream, const SlmDatasetOptions *options, Error *error);
/* Returns a data set of n_samples full contexts of made-up tokens. */
Dataset *slm_dataset_synthetic(int context, int64_t n_samples, int vocabulary);
/* See BatchSpec.largest. */
Batch slm_largest_batch(const Dataset *dataset, int64_t batch_size, int64_t token_budget);
