/* The interface between the loader and a data set of any format. All calls but close must be safe from several threads.
 */
#pragma once

#include "base/base.h"
#include "data/batch.h"

typedef struct Dataset Dataset;
struct Dataset {
    int64_t n_samples;
    /* The device dataset: a host tensor that the loop copies whole to the device's memory, and passes to the model
     * after the fields of every batch (fields[batch->n_fields]). Several data sets may share one. None: the batches
     * hold all data. */
    Tensor device_data;
    const char *const *field_names;                            /* names of a batch's fields, by their enum */
    int64_t (*tokens)(const Dataset *dataset, int64_t sample); /* rows of its packed sequence */
    void (*counts)(const Dataset *dataset, int64_t sample, double *counts); /* adds to counts[BATCH_MAX_COUNTS] */
    const char *(*sample_id)(const Dataset *dataset, int64_t sample);       /* valid until the thread's next call */
    /* Returns a checksum of a sample's numbers, before anything random is applied. A resumed run recognises replaced
     * data by the checksum, which does not depend on file times or on how the numbers are stored. */
    uint64_t (*content)(const Dataset *dataset, int64_t sample);
    /* Fills an empty batch with these samples, in this order. The loader has set its epoch, index, last and
     * group. Pushes the fields and sets n_sequences, n_tokens and samples[n] (`samples` may be that array), and
     * adds to batch->counts what `counts` adds for each sample; only counts that no loss is divided by may depend on
     * the epoch. batch_begin_rows does so, but for the counts, where every sample is one row. False with a reason that
     * names file and field. */
    bool (*fill)(const Dataset *dataset, Batch *batch, const int32_t *samples, int n, Error *error);
    /* Returns the bytes that fill takes at most: the sum of the fields' bytes, one BATCH_LINE per field for the end of
     * its last line, and the memory that fill uses behind the fields. It must be a constant plus a part for each
     * sample: the loader adds up the largest parts. batch_open applies batch_capacity to it. */
    size_t (*batch_bytes)(const Dataset *dataset, const int32_t *samples, int n);
    void (*close)(Dataset *dataset);
    void *state;
};

/* Returns a copy of a description, for its `close` to free(). */
Dataset *dataset_new(Dataset dataset);
/* Returns a hash of every sample's id, number of rows and number of rows with a loss, in order. */
int64_t dataset_hash(const Dataset *dataset);
/* Returns a hash of the contents of all samples, in order; 0 if `dataset` is NULL. */
int64_t dataset_content_hash(const Dataset *dataset);
