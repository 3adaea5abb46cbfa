/* A micro-batch as the model sees it: named arrays in one host buffer, so that one copy brings the batch to a device.
 * Sequences are packed: the rows of all sequences lie end to end, without rows of padding between them. */
#pragma once

#include "kernels/tensor.h"

enum { BATCH_MAX_FIELDS = 20, BATCH_MAX_COUNTS = 4, BATCH_LINE = 64 };

/* The step that a micro-batch belongs to: all its micro-batches, of all ranks. */
typedef struct {
    double counts[BATCH_MAX_COUNTS]; /* the sum of Batch.counts, for --loss-norm batch */
    int64_t samples, tokens;
    int64_t first_epoch, epoch, index; /* the epoch of the first micro-batch; the place of the last one */
    bool ends_epoch;                   /* whether the last micro-batch of an epoch is among them */
} BatchGroup;

typedef struct {
    /* Host tensors inside `buffer`, each aligned to BATCH_LINE bytes; absent fields are none. fields[n_fields], after
     * the last one, is the device dataset (Dataset.device_data), which lies outside of `buffer`. */
    Tensor fields[BATCH_MAX_FIELDS + 1];
    int n_fields;
    char *buffer;
    size_t size, capacity; /* bytes used, bytes allocated */

    int n_sequences;                       /* samples; a model may make several sequences of one */
    int64_t n_tokens;                      /* rows of all sequences */
    double counts[BATCH_MAX_COUNTS]; /* per loss, the number of rows that have it, or the sum of their weights */
    BatchGroup group;
    int32_t *samples; /* [n_sequences] indices into the dataset */

    /* The batch's place in the data: micro-batch `index` of epoch `epoch`, and whether it is the epoch's last. The data
     * set may derive random numbers from them. */
    int64_t epoch, index;
    bool last;
} Batch;

/* The first field of every batch, which the host reads too: i32 [n + 1], the first row of each sequence. */
enum { BATCH_OFFSETS };

/* Returns the size of a buffer with room for so many bytes of fields; batch_open applies it. */
size_t batch_capacity(size_t bytes);
Batch batch_open(size_t bytes, int max_sequences);
void batch_close(Batch *batch);
void batch_clear(Batch *batch); /* no fields, no bytes used */
/* Begins a batch whose samples are single rows: sets samples, n_sequences and n_tokens, and pushes BATCH_OFFSETS. */
void batch_begin_rows(Batch *batch, const int32_t *samples, int n);
/* The next field: `n` numbers (or rows * columns, or a tensor of this shape) in the buffer. Fields must be pushed in the
 * order of their enum. */
Tensor batch_push_1d(Batch *batch, int field, DType dtype, int64_t n);
Tensor batch_push_2d(Batch *batch, int field, DType dtype, int64_t rows, int64_t columns);
Tensor batch_push(Batch *batch, int field, Tensor shape);
