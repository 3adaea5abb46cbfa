/* Streams of tokens for tests, and batches of them. In streams of rows, id p stands at position p, so that a batch
 * tells which rows it has. */
#pragma once

#include "data/slm/batch.h"
#include "data/slm/dataset.h"

enum { MOST_DOCUMENTS = 5100, MOST_IDS = 6000 };

/* Opens a stream of n documents of so many rows. Document d has 7 d % 31 bytes, so some have none, and some fewer than
 * rows. */
SlmStream *slm_stream_of_rows(const int64_t *rows, int n);
/* Opens documents of single rows (kind 0); of at most 3 (1); one document (2); of all lengths (3); about as long as a
 * context of 16 (4). */
enum { STREAM_KINDS = 5 };
SlmStream *slm_stream_of_kind(int kind);
/* Opens a data set with seed 5. Fails the test if that is an error. */
Dataset *slm_dataset_of(const SlmStream *stream, int context, SlmSampling sampling, bool separate);
/* Fills a batch with samples first .. first + n - 1. */
Batch slm_batch_filled(const Dataset *dataset, int64_t epoch, int32_t first, int n);
/* Returns the numbers of a field. */
const int32_t *slm_field(const Batch *batch, int which);
