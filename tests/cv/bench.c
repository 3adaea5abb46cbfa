/* Training steps of the FLIM classifier, without dropout, on noise. */
#include <stdlib.h>

#include "data/cv/dataset.h"
#include "kernels/philox.h"
#include "model/cv/cv.h"
#include "tests/bench/bench.h"

/* Cells of a few photons in every voxel, as they are: the peer has no augmentation either. */
static Batch cv_batch(int n) {
    AugmentShape shape = {256, 21, 21};
    int64_t voxels = (int64_t)n * shape.T * shape.H * shape.W;
    uint16_t *counts = xmalloc((size_t)voxels * sizeof *counts); /* the batch reads it: stays */
    int32_t *labels = xcalloc((size_t)n, sizeof *labels), *ids = xcalloc((size_t)n, sizeof *ids);
    for (int64_t i = 0; i < voxels; i++)
        counts[i] = (uint16_t)(philox_bits(1, PURPOSE_SYNTHETIC, 0, (uint64_t)i) >> 29);
    for (int i = 0; i < n; i++) {
        labels[i] = i % 2;
        ids[i] = i;
    }
    CvCells cells = {.n = n, .shape = shape, .bits = 16, .counts = counts, .labels = labels};
    Dataset *data = cv_dataset_open(&cells, &(CvIds){ids, n}, &(CvDatasetOptions){.views = 1});
    Batch batch = cv_dataset_largest_batch(data, n, 0);
    batch.fields[batch.n_fields] = data->device_data;
    data->close(data);
    free(labels);
    free(ids);
    return batch;
}

static Model *open_cv(const char *name, char **arguments, int n_arguments, Batch *batch) {
    (void)name;
    (void)n_arguments;
    *batch = cv_batch(atoi(arguments[0]));
    return cv_open(&(CvConfig){.channels = {32, 64, 128}, .bins = 256, .side = 21});
}

__attribute__((constructor)) static void register_cases(void) {
    static const BenchCase flim = {"flim", "B: the FLIM classifier, without dropout", 1, open_cv};
    bench_register(&flim);
}
