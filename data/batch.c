/* The buffer of a batch: fields lie one after the other, each aligned to a cache line, and are never moved. A field
 * that does not fit is a bug in the data set's batch_bytes, and ends the program. */
#include "data/batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* Alignment wastes less than a line per field. */
size_t batch_capacity(size_t bytes) { return bytes + (size_t)BATCH_MAX_FIELDS * BATCH_LINE; }

Batch batch_open(size_t bytes, int max_sequences) {
    size_t capacity = batch_capacity(bytes);
    return (Batch){.buffer = xuntouched(capacity),
                   .capacity = capacity,
                   .samples = xcalloc((size_t)max_sequences, sizeof(int32_t))};
}

void batch_close(Batch *batch) {
    free(batch->buffer);
    free(batch->samples);
    *batch = (Batch){0};
}

void batch_clear(Batch *batch) {
    *batch = (Batch){.buffer = batch->buffer, .capacity = batch->capacity, .samples = batch->samples};
}

Tensor batch_push(Batch *batch, int field, Tensor shape) {
    shape.data = batch->buffer + batch->size;
    size_t used = tensor_bytes(shape), bytes = (used + BATCH_LINE - 1) / BATCH_LINE * BATCH_LINE;
    assert(field >= 0 && field < BATCH_MAX_FIELDS);
    if (bytes > batch->capacity - batch->size)
        die("batch: field %d needs %zu bytes, %zu of %zu are in use", field, bytes, batch->size, batch->capacity);
    memset((char *)shape.data + used, 0, bytes - used); /* so that all bytes of a batch depend on its samples only */
    batch->size += bytes;
    batch->fields[field] = shape;
    if (batch->n_fields <= field) batch->n_fields = field + 1;
    return shape;
}

Tensor batch_push_1d(Batch *batch, int field, DType dtype, int64_t n) {
    return batch_push(batch, field, tensor_1d(NULL, dtype, n));
}

Tensor batch_push_2d(Batch *batch, int field, DType dtype, int64_t rows, int64_t columns) {
    return batch_push(batch, field, tensor_2d(NULL, dtype, rows, columns));
}

void batch_begin_rows(Batch *batch, const int32_t *samples, int n) {
    int32_t *offsets = batch_push_1d(batch, BATCH_OFFSETS, DTYPE_I32, n + 1).data;
    for (int i = 0; i <= n; i++) offsets[i] = i;
    memmove(batch->samples, samples, (size_t)n * sizeof *samples); /* the loader hands over batch->samples */
    batch->n_sequences = n;
    batch->n_tokens = n;
}
