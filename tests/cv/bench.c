/* The benchmark of the FLIM classifier, on noise. */
#include <stdlib.h>

#include "data/cv/dataset.h"
#include "kernels/philox.h"
#include "model/cv/cv.h"
#include "tests/bench/bench.h"

/* Cells with a few photons in every voxel, which stay: the data set reads them. */
static const CvCells *cv_noise(int n) {
    AugmentShape shape = {256, 21, 21};
    int64_t voxels = (int64_t)n * shape.T * shape.H * shape.W;
    uint16_t *counts = xmalloc((size_t)voxels * sizeof *counts);
    for (int64_t i = 0; i < voxels; i++)
        counts[i] = (uint16_t)(philox_bits(1, PURPOSE_SYNTHETIC, 0, (uint64_t)i) >> 29);
    CvCells *cells = xmalloc(sizeof *cells);
    cv_cells_blank(cells, n, shape);
    cells->counts = counts;
    return cells;
}

static void open_cv(const char *name, const char *const *arguments, TrainSpec *spec) {
    int n = BENCH_BATCHES * (int)spec->options->batch_size;
    CvDatasetOptions options = {
        .seed = 1, .train = true, .augment = true, .max_shift = 5, .smoothing = 0.05, .mixup = true, .views = 1};
    OWNED int32_t *ids = xcalloc((size_t)n, sizeof *ids);
    (void)name;
    (void)arguments;
    for (int i = 0; i < n; i++) ids[i] = i;
    spec->train = cv_dataset_open(cv_noise(n), &(CvIds){ids, n}, &options);
    spec->model = cv_open(
        &(CvConfig){.channels = {32, 64, 128}, .bins = 256, .side = 21, .dropout = 0.25f, .head_dropout = 0.25f});
}

__attribute__((constructor)) static void register_cases(void) {
    static const BenchCase flim = {
        "flim", "the FLIM classifier, cells augmented and mixed", 0, 64, 1, cv_dataset_largest_batch, open_cv};
    bench_register(&flim);
}
