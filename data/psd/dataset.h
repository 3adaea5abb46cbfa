/* Batches of power spectra: which samples, which of their patches are visible, and which other sample of the same class
 * is each sample's partner. A batch holds indices; the spectra themselves lie in the device's memory. */
#pragma once

#include "data/dataset.h"
#include "data/psd/splits.h"
#include "data/psd/store.h"

typedef struct {
    bool pretraining; /* false: classification */
    bool cnn;         /* the encoder reads whole spectra, not rows of patches */
    int n_visible;    /* how many of the 12 patches are visible, in pretraining */
    bool fixed;       /* the same masks and partners in every epoch: for validation */
    uint64_t seed;
    const float *class_weights; /* [classes] weights of the loss; NULL: all 1 */
    int classes;
    bool unlabelled; /* for prediction: the class of a row may be unknown; its target is then any */
} PsdDatasetOptions;

/* Opens the samples of the manifest rows in `rows`, in that order. The store must outlive the dataset. Warns of rows
 * without a sample (they are too narrow). For classification, dies if a row's class is unknown. */
Dataset *psd_dataset_open(const PsdStore *store, const PsdIds *rows, const PsdDatasetOptions *options);
/* Returns a batch that is at least as large as any other of this size. */
Batch psd_largest_batch(const Dataset *dataset, int64_t batch_size, int64_t token_budget);
/* Returns the index in the store of a sample. */
int64_t psd_dataset_sample(const Dataset *dataset, int64_t sample);
/* Counts the samples whose partner is from another sensor, from their own sensor, or the sample itself. */
void psd_dataset_partners(const Dataset *dataset, int64_t counts[3]);
/* Counts the samples of each class: counts[classes]. */
void psd_dataset_classes(const Dataset *dataset, int64_t *counts);
