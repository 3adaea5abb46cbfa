#include "data/cv/dataset.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const CvCells *cells;
    CvDatasetOptions options;
    int32_t *ids; /* [n] ascending */
    int64_t n;
} CvDataset;

static const CvDataset *cv_dataset(const Dataset *dataset) { return dataset->state; }

/* ---- what a sample is ---- */

static AugmentDraws view_draws(int view) {
    return (AugmentDraws){.scale = 1,
                          .turns = view == 1,
                          .flips = view == 2   ? AUGMENT_FLIP_X
                                   : view == 3 ? AUGMENT_FLIP_Y
                                               : 0};
}

/* Returns the cell of a sample in an epoch, and draws its augmentation. */
static int32_t sample_cell(const CvDataset *d, int32_t sample, int64_t epoch, AugmentDraws *draws) {
    const CvDatasetOptions *o = &d->options;
    if (!o->train) {
        *draws = view_draws(sample % o->views);
        return d->ids[sample / o->views];
    }
    *draws = o->augment ? cv_augment_draw(o->seed, (uint32_t)epoch, (uint64_t)sample, d->cells->shape.H, o->max_shift)
                        : (AugmentDraws){.scale = 1};
    return o->sampler ? cv_sampler_draw(o->sampler, o->seed, (uint32_t)epoch, (uint64_t)sample) : d->ids[sample];
}

/* Adds each cell's partner for mixup. Returns false if the batch is not mixed; it then has the fields only if `always`
 * is set. */
static bool push_partners(const CvDataset *d, Batch *batch, int n, bool always) {
    int32_t *partners = batch_push_1d(batch, CV_PARTNERS, DTYPE_I32, n).data;
    float *share = batch_push_1d(batch, CV_SHARE, DTYPE_F32, 1).data;
    bool mixes = cv_augment_mixup(d->options.seed, (uint32_t)batch->epoch, (uint64_t)batch->index, n, share, partners);
    if (!mixes && !always) batch->fields[CV_PARTNERS] = batch->fields[CV_SHARE] = tensor_none();
    return mixes;
}

/* Returns the smoothed target, mixed like the cells: the loss is linear in the target, so this equals mixing the
 * losses.
 */
static float sample_target(const CvDataset *d, const Batch *batch, const int32_t *cells, int i, bool mixed) {
    double smoothing = d->options.train ? d->options.smoothing : 0, label = d->cells->labels[cells[i]];
    if (mixed) {
        double share = (double)*(const float *)batch->fields[CV_SHARE].data;
        int partner = ((const int32_t *)batch->fields[CV_PARTNERS].data)[i];
        label = share * label + (1 - share) * d->cells->labels[cells[partner]];
    }
    return (float)((1 - smoothing) * label + smoothing / 2);
}

/* always_mixed: adds the fields of mixup even to a batch that is not mixed. */
static void fill(const CvDataset *d, Batch *batch, const int32_t *samples, int n, bool always_mixed) {
    const CvDatasetOptions *o = &d->options;
    batch_begin_rows(batch, samples, n);
    int32_t *cells = batch_push_1d(batch, CV_CELLS, DTYPE_I32, n).data;
    int32_t *draws = batch_push_2d(batch, CV_DRAWS, DTYPE_I32, n, AUGMENT_DRAW_WORDS).data;
    bool mixed = o->train && o->mixup && push_partners(d, batch, n, always_mixed);
    float *targets = batch_push_1d(batch, CV_TARGETS, DTYPE_F32, n).data;
    float *labels = batch_push_1d(batch, CV_LABELS, DTYPE_F32, n).data;
    for (int i = 0; i < n; i++) {
        AugmentDraws drawn;
        cells[i] = sample_cell(d, samples[i], batch->epoch, &drawn);
        memcpy(draws + (ptrdiff_t)i * AUGMENT_DRAW_WORDS, &drawn, sizeof drawn);
        labels[i] = (float)d->cells->labels[cells[i]];
        if (o->sampler) batch->samples[i] = (int32_t)first_at_least(d->ids, d->n, cells[i]);
    }
    for (int i = 0; i < n; i++) targets[i] = sample_target(d, batch, cells, i, mixed);
    batch->counts[CV_COUNT_CELLS] += n;
}

static bool cv_fill(const Dataset *dataset, Batch *batch, const int32_t *samples, int n, Error *error) {
    (void)error; /* the cells were checked when they were opened */
    fill(cv_dataset(dataset), batch, samples, n, false);
    return true;
}

/* ---- the data set ---- */

static int64_t cv_tokens(const Dataset *dataset, int64_t sample) {
    (void)dataset, (void)sample;
    return 1;
}

static void cv_counts(const Dataset *dataset, int64_t sample, double *counts) {
    (void)dataset, (void)sample;
    counts[CV_COUNT_CELLS] += 1;
}

static const char *cv_sample_id(const Dataset *dataset, int64_t sample) {
    const CvDataset *d = cv_dataset(dataset);
    return d->cells->file_names[d->ids[sample / d->options.views]];
}

static uint64_t cv_content(const Dataset *dataset, int64_t sample) {
    const CvDataset *d = cv_dataset(dataset);
    return cv_cells_checksum(d->cells, d->ids[sample / d->options.views]);
}

static size_t cv_batch_bytes(const Dataset *dataset, const int32_t *samples, int n) {
    (void)dataset, (void)samples;
    return 4 * ((size_t)n * (5 + AUGMENT_DRAW_WORDS) + 2) + (size_t)CV_FIELDS * BATCH_LINE;
}

static void cv_close(Dataset *dataset) {
    CvDataset *d = dataset->state;
    FREE(d->ids, d, dataset);
}

Dataset *cv_dataset_open(const CvCells *cells, const CvIds *ids, const CvDatasetOptions *options) {
    static const char *const field_names[CV_FIELDS] = {"offsets", "cells",   "draws", "partners",
                                                       "share",   "targets", "labels"};
    CvDataset *d = xcalloc(1, sizeof *d);
    AugmentShape s = cells->shape;
    assert(options->views == 1 || (options->views == CV_VIEWS && !options->train));
    *d = (CvDataset){.cells = cells, .options = *options, .n = ids->n};
    d->ids = xmalloc((size_t)(ids->n + 1) * sizeof *d->ids);
    memcpy(d->ids, ids->at, (size_t)ids->n * sizeof *d->ids);
    return dataset_new(
        (Dataset){.n_samples = ids->n * options->views,
                  .field_names = field_names,
                  .device_data = tensor_2d((void *)(uintptr_t)cells->counts, cells->bits == 8 ? DTYPE_U8 : DTYPE_U16,
                                           cells->n, (int64_t)s.T * s.H * s.W),
                  .tokens = cv_tokens,
                  .counts = cv_counts,
                  .sample_id = cv_sample_id,
                  .content = cv_content,
                  .fill = cv_fill,
                  .batch_bytes = cv_batch_bytes,
                  .close = cv_close,
                  .state = d});
}

Batch cv_dataset_largest_batch(const Dataset *dataset, int64_t batch_size, int64_t token_budget) {
    (void)token_budget; /* the program has no such option */
    int n = (int)(batch_size < dataset->n_samples ? batch_size : dataset->n_samples);
    OWNED int32_t *samples = xcalloc((size_t)n + 1, sizeof *samples);
    Batch batch = batch_open(cv_batch_bytes(dataset, samples, n), n);
    fill(cv_dataset(dataset), &batch, samples, n, true);
    return batch;
}
