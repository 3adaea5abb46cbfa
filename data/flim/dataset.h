/* Batches of FLIM cells for the classifier. */
#ifndef DATA_FLIM_DATASET_H
#define DATA_FLIM_DATASET_H

#include "data/dataset.h"
#include "data/flim/augment.h"
#include "data/flim/batch.h"
#include "data/flim/cells.h"
#include "data/flim/splits.h"

typedef struct {
    uint64_t seed;
    bool train; /* otherwise cells and labels stay as they are, and of the options below only `views` counts */
    const FlimSampler *sampler; /* draws n cells per epoch, with replacement; NULL: each cell once */
    bool augment;
    int max_shift;    /* bins, of the augmentation */
    double smoothing; /* of labels: targets are smoothing / 2 and 1 - smoothing / 2 */
    bool mixup;
    int views; /* adjacent samples made from each cell: 1, or FLIM_VIEWS for test-time augmentation */
} FlimDatasetOptions;

/* The views: the cell itself, turned by 90 degrees, mirrored along x, mirrored along y. */
enum { FLIM_VIEWS = 4 };

/* Opens the data set of the cells with these ids, which are copied. The cells and the sampler must outlive it. */
Dataset *flim_dataset_open(const FlimCells *cells, const FlimIds *ids, const FlimDatasetOptions *options);
/* Returns a batch that needs as much memory as any of this size: one that is mixed. */
Batch flim_dataset_largest_batch(const Dataset *dataset, int64_t batch_size, int64_t token_budget);

#endif
