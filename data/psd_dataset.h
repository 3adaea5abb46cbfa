/* Batches of power spectra: which samples, which patches of them are visible, and which sample of the same class from
 * another sensor is a sample's partner. The spectra themselves are never copied into a batch: they lie in the device's
 * memory, and a batch is indices. */
#ifndef DATA_PSD_DATASET_H
#define DATA_PSD_DATASET_H

#include "data/dataset.h"
#include "data/psd_splits.h"
#include "data/psd_store.h"

typedef struct {
    bool pretraining; /* else classification */
    bool cnn;         /* the encoder reads whole spectra, not rows of patches */
    int n_visible;    /* of 12 patches, in pretraining */
    bool fixed;       /* masks and partners that are the same in every epoch: for validation */
    uint64_t seed;
    const float *class_weights; /* [classes] of the loss; NULL: 1 each */
    int classes;
} PsdDatasetOptions;

/* The samples of the store whose manifest rows are in `rows`, in that order; the store must outlive it. Rows without a
 * sample, which are too narrow, are counted in a warning. Dies, for classification, if a row's class is unknown. */
Dataset *psd_dataset_open(const PsdStore *store, const PsdIds *rows, const PsdDatasetOptions *options);
/* A batch as large as any of this size. */
Batch psd_largest_batch(const Dataset *dataset, int64_t batch_size, int64_t token_budget);
/* Where in the store a sample is. */
int64_t psd_dataset_sample(const Dataset *dataset, int64_t sample);
/* How many samples have a partner from another sensor, how many only one from their own, how many none. */
void psd_dataset_partners(const Dataset *dataset, int64_t counts[3]);
/* samples of each class: counts[classes]. */
void psd_dataset_classes(const Dataset *dataset, int64_t *counts);

#endif
