/* Batches of FLIM cells for the classifier. */
#ifndef DATA_FLIM_DATASET_H
#define DATA_FLIM_DATASET_H

#include "data/dataset.h"
#include "data/flim_augment.h"
#include "data/flim_cells.h"
#include "data/flim_splits.h"

typedef struct {
    uint64_t seed;
    bool train; /* else cells are as they are, with their own labels: then nothing below has a meaning but `views` */
    const FlimSampler *sampler; /* draws as many cells an epoch as there are, with replacement; NULL: each is one */
    bool augment;
    int most_shift;   /* bins, of the augmentations */
    double smoothing; /* targets are smoothing / 2 and 1 - smoothing / 2 */
    bool mixup;
    int views; /* samples made of each cell that lie side by side: 1, or FLIM_VIEWS for test-time augmentation */
} FlimDatasetOptions;

/* The cell as it is, a quarter turn, mirrored along x, along y. */
enum { FLIM_VIEWS = 4 };

/* Of the cells with these ids, which are copied; the cells, and the sampler, must live as long as the data set. */
Dataset *flim_dataset_open(const FlimCells *cells, const FlimIds *ids, const FlimDatasetOptions *options);
/* For the loop: all batches of a size are alike. */
Batch flim_largest_batch(const Dataset *dataset, int64_t batch_size, int64_t token_budget);

#endif
