/* Batches of FLIM cells for the classifier. */
#pragma once

#include "data/cv/augment.h"
#include "data/cv/batch.h"
#include "data/cv/cells.h"
#include "data/cv/splits.h"
#include "data/dataset.h"

typedef struct {
    uint64_t seed;
    bool train; /* otherwise cells and labels stay as they are, and of the options below only `views` counts */
    const CvSampler *sampler; /* draws n cells per epoch, with replacement; NULL: each cell once */
    bool augment;
    int max_shift;    /* bins, of the augmentation */
    double smoothing; /* of labels: targets are smoothing / 2 and 1 - smoothing / 2 */
    bool mixup;
    int views; /* adjacent samples made from each cell: 1, or CV_VIEWS for test-time augmentation */
} CvDatasetOptions;

/* The views: the cell itself, turned by 90 degrees, mirrored along x, mirrored along y. */
enum { CV_VIEWS = 4 };

/* Opens the data set of the cells with these ids, which are copied. The cells and the sampler must outlive it. */
Dataset *cv_dataset_open(const CvCells *cells, const CvIds *ids, const CvDatasetOptions *options);
/* Returns a batch that needs as much memory as any of this size: one that is mixed. */
Batch cv_dataset_largest_batch(const Dataset *dataset, int64_t batch_size, int64_t token_budget);
