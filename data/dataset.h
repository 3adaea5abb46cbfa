/* What the loader needs of a data set, whatever its format. All calls but close must be safe from several threads. */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include "base/base.h"
#include "data/batch.h"

typedef struct Dataset Dataset;
struct Dataset {
    int64_t n_samples;
    /* A host tensor that the loop keeps whole in the device's memory and hands to the model behind the fields of every
     * batch (fields[batch->n_fields]); data sets may share one. None: all is in the batches. */
    Tensor resident;
    const char *const *field_names;                                         /* of a batch's fields, by their enum */
    int64_t (*tokens)(const Dataset *dataset, int64_t sample);              /* rows of its packed sequence */
    void (*counts)(const Dataset *dataset, int64_t sample, double *counts); /* adds to counts[BATCH_MAX_COUNTS] */
    const char *(*sample_id)(const Dataset *dataset, int64_t sample);
    /* Returns a checksum of the numbers that a sample is made of, before anything is drawn: a run that goes on tells
     * replaced data by it. It does not depend on files' times, or on how the numbers are stored. */
    uint64_t (*content)(const Dataset *dataset, int64_t sample);
    /* Fills an empty batch, which knows its place in the data, with these samples, in this order. False with a reason
     * that names file and field. */
    bool (*fill)(const Dataset *dataset, Batch *batch, const int32_t *samples, int n, Error *error);
    /* Bytes that fill takes, each field in whole lines of 64: a constant and a part for each sample, added up. */
    size_t (*batch_bytes)(const Dataset *dataset, const int32_t *samples, int n);
    void (*close)(Dataset *dataset);
    void *state;
};

#endif
