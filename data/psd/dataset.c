/* Everything random is a function of (seed, epoch, sample), so that neither the number of workers nor the position in
 * an epoch can change it. */
#include "data/psd/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/psd/manifest.h"
#include "kernels/philox.h"

enum { NAME = 24 };

/* The samples of one class from one sensor: a range of the sorted list. */
typedef struct {
    int32_t label, sensor;
    int64_t begin, end;
} Cell;

typedef struct {
    const PsdStore *store;
    PsdDatasetOptions options;
    int64_t n;
    int32_t *samples; /* [n] indices into the store */
    char (*names)[NAME];
    int32_t *sorted; /* [n] the samples by class, then sensor, then index */
    Cell *cells;     /* [n_cells] in the same order */
    int n_cells;
    int first_cell[PSD_LABELS + 1]; /* of each class; behind its cells begin those of the next */
} PsdDataset;

/* ---- partners ---- */

static int compare_ids(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int by_class_and_sensor(const void *a, const void *b, void *context) {
    const PsdStore *s = context;
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    int order = compare_ids(s->labels[i], s->labels[j]);
    if (!order) order = compare_ids(s->sensors[i], s->sensors[j]);
    return order ? order : compare_ids(i, j);
}

static void make_cells(PsdDataset *d) {
    const PsdStore *s = d->store;
    d->sorted = xmalloc((size_t)(d->n + 1) * sizeof *d->sorted);
    d->cells = xmalloc((size_t)(d->n + 1) * sizeof *d->cells);
    memcpy(d->sorted, d->samples, (size_t)d->n * sizeof *d->samples);
    qsort_r(d->sorted, (size_t)d->n, sizeof *d->sorted, by_class_and_sensor, (void *)s);
    for (int64_t i = 0; i < d->n; i++) {
        int32_t label = s->labels[d->sorted[i]], sensor = s->sensors[d->sorted[i]];
        const Cell *last = d->cells + d->n_cells - 1;
        if (!i || last->label != label || last->sensor != sensor) d->cells[d->n_cells++] = (Cell){label, sensor, i, i};
        d->cells[d->n_cells - 1].end = i + 1;
    }
    for (int c = 0; c < d->n_cells; c++) d->first_cell[d->cells[c].label + 1]++;
    for (int label = 0; label < PSD_LABELS; label++) d->first_cell[label + 1] += d->first_cell[label];
}

static uint32_t draw_below(const PsdDataset *d, uint32_t purpose, uint32_t step, uint64_t element, uint32_t n) {
    return (uint32_t)((uint64_t)philox_bits(d->options.seed, purpose, step, element) * n >> 32);
}

/* Draws a sample of the same class: from another sensor, where all sensors and then all their samples are equally
 * likely; otherwise another sample of its own sensor; otherwise the sample itself. */
static int32_t draw_partner(const PsdDataset *d, int32_t sample, uint32_t step) {
    const PsdStore *s = d->store;
    if (s->positive) return s->positive[sample];
    const int *cells = d->first_cell + s->labels[sample];
    int first = cells[0], end = cells[1], own = -1;
    for (int c = first; c < end; c++)
        if (d->cells[c].sensor == s->sensors[sample]) own = c;
    uint64_t element = 2 * (uint64_t)sample;
    if (end - first > 1) {
        int c = first + (int)draw_below(d, PURPOSE_PARTNER, step, element, (uint32_t)(end - first - 1));
        const Cell *cell = &d->cells[c >= own ? c + 1 : c];
        uint32_t n = (uint32_t)(cell->end - cell->begin);
        return d->sorted[cell->begin + draw_below(d, PURPOSE_PARTNER, step, element + 1, n)];
    }
    const Cell *cell = &d->cells[own];
    int64_t n = cell->end - cell->begin, k = cell->begin;
    if (n == 1) return sample;
    k += draw_below(d, PURPOSE_PARTNER, step, element + 1, (uint32_t)(n - 1));
    return d->sorted[k] < sample ? d->sorted[k] : d->sorted[k + 1];
}

void psd_dataset_partners(const Dataset *dataset, int64_t counts[3]) {
    const PsdDataset *d = dataset->state;
    memset(counts, 0, 3 * sizeof *counts);
    for (int c = 0; c < d->n_cells; c++) {
        const int *cells = d->first_cell + d->cells[c].label;
        int64_t n = d->cells[c].end - d->cells[c].begin;
        counts[cells[1] - cells[0] > 1 ? 0 : n > 1 ? 1 : 2] += n;
    }
}

/* ---- masks ---- */

/* Chooses visible[n_visible] and masked[12 - n_visible] uniformly; both ascend. Visible are the patches with the
 * smallest of 12 random numbers. */
static void draw_mask(const PsdDataset *d, int32_t sample, uint32_t step, int32_t *visible, int32_t *masked) {
    uint64_t noise[PSD_PATCHES];
    const int32_t *given = d->store->visible;
    bool seen[PSD_PATCHES] = {false};
    int n = d->options.n_visible;
    for (uint64_t k = 0; k < PSD_PATCHES; k++)
        noise[k] = (uint64_t)philox_bits(d->options.seed, PURPOSE_MASK, step, (uint64_t)sample * PSD_PATCHES + k) << 8 |
                   k; /* makes all numbers distinct */
    for (int k = 0; given && k < n; k++) seen[given[(int64_t)sample * n + k]] = true;
    for (int k = 0; !given && k < PSD_PATCHES; k++) {
        int smaller = 0;
        for (int j = 0; j < PSD_PATCHES; j++) smaller += noise[j] < noise[k];
        seen[k] = smaller < n;
    }
    for (int k = 0; k < PSD_PATCHES; k++) *(seen[k] ? visible++ : masked++) = k;
}

/* ---- batches ---- */

static int32_t *push(Batch *batch, int field, int64_t n) { return batch_push_1d(batch, field, DTYPE_I32, n).data; }

static void push_zeros(Batch *batch, int field, int64_t n) {
    memset(push(batch, field, n), 0, (size_t)n * sizeof(int32_t));
}

/* Writes the two halves of patch k of a sample. */
static int32_t *add_pieces(int32_t *out, int32_t sample, int32_t k) {
    int32_t first = sample * (PSD_BINS / PSD_PIECE) + 2 * k;
    *out++ = first;
    *out++ = first + 1;
    return out;
}

/* The fields of the encoder's rows, bare rows first, then full sequences of 13: where the next numbers go, and the rows
 * of CLS. next_output: NULL without full sequences. */
typedef struct {
    int32_t *next_offset, *next_piece, *next_row, *next_position, *cls, *next_output;
} Rows;

static Rows push_rows(Batch *batch, int64_t bare_sequences, int64_t bare, int64_t full) {
    int64_t patches = bare + PSD_PATCHES * full;
    Rows r = {.next_offset = push(batch, PSD_OFFSETS, bare_sequences + full + 1)};
    r.next_piece = push(batch, PSD_PIECES, 2 * patches);
    r.next_row = push(batch, PSD_PATCH_ROWS, patches);
    r.next_position = push(batch, PSD_PATCH_POSITIONS, patches);
    if (!full) return r;
    r.cls = push(batch, PSD_CLS_ROWS, full);
    push_zeros(batch, PSD_CLS_ZEROS, full);
    r.next_output = push(batch, PSD_OUTPUT_ROWS, bare + full);
    return r;
}

/* Adds full sequence s, CLS and the 12 patches: its rows 13 s .. 13 s + 12 come after `bare` rows. */
static void add_full(Rows *r, int32_t s, int32_t sample, int32_t bare) {
    int32_t begin = PSD_SEQUENCE * s;
    *r->next_offset++ = bare + begin;
    r->cls[s] = begin;
    *r->next_output++ = bare + begin;
    for (int32_t k = 0; k < PSD_PATCHES; k++) {
        r->next_piece = add_pieces(r->next_piece, sample, k);
        *r->next_row++ = begin + 1 + k;
        *r->next_position++ = 1 + k;
    }
}

/* Adds the visible patches of sample b of the batch. */
static void add_bare(Rows *r, int32_t b, int32_t sample, const int32_t *visible, int32_t n_visible) {
    *r->next_offset++ = b * n_visible;
    for (int32_t k = 0; k < n_visible; k++) {
        r->next_piece = add_pieces(r->next_piece, sample, visible[k]);
        *r->next_row++ = b * n_visible + k;
        *r->next_position++ = 1 + visible[k];
        if (r->next_output) *r->next_output++ = b * n_visible + k;
    }
}

/* The fields of the decoder, written sample by sample. */
typedef struct {
    int32_t *offsets, *visible_rows, *visible_positions, *masked_rows, *masked_positions, *positions, *targets;
} Decoded;

static Decoded push_decoder(Batch *batch, int n, int v) {
    int64_t seen = (int64_t)n * v, masked = (int64_t)n * (PSD_PATCHES - v);
    Decoded d = {.offsets = push(batch, PSD_DECODER_OFFSETS, n + 1)};
    d.visible_rows = push(batch, PSD_VISIBLE_ROWS, seen);
    d.visible_positions = push(batch, PSD_VISIBLE_POSITIONS, seen);
    d.masked_rows = push(batch, PSD_MASKED_ROWS, masked);
    d.masked_positions = push(batch, PSD_MASKED_POSITIONS, masked);
    push_zeros(batch, PSD_MASKED_ZEROS, masked);
    d.positions = push(batch, PSD_DECODER_POSITIONS, (int64_t)n * PSD_PATCHES);
    d.targets = push(batch, PSD_TARGET_PIECES, 2 * masked);
    *d.offsets++ = 0;
    return d;
}

/* Adds sequence b: the patches mask[12] of a sample, of which the first v are visible. */
static void add_decoded(Decoded *d, int32_t b, int32_t sample, const int32_t *mask, int v) {
    for (int k = 0; k < PSD_PATCHES; k++) {
        bool visible = k < v;
        *(visible ? d->visible_rows++ : d->masked_rows++) = b * PSD_PATCHES + mask[k];
        *(visible ? d->visible_positions++ : d->masked_positions++) = mask[k];
        *d->positions++ = k;
        if (!visible) d->targets = add_pieces(d->targets, sample, mask[k]);
    }
    *d->offsets++ = (b + 1) * PSD_PATCHES;
}

static void fill_pretraining(const PsdDataset *d, Batch *batch, const int32_t *samples, int n) {
    const PsdDatasetOptions *o = &d->options;
    int v = o->n_visible;
    uint32_t step = o->fixed ? UINT32_MAX : (uint32_t)batch->epoch;
    Rows rows = push_rows(batch, n, (int64_t)n * v, o->cnn ? 0 : 2 * n);
    Decoded decoded = push_decoder(batch, n, v);
    int32_t *spectra = push(batch, PSD_SPECTRA, 2 * n), mask[PSD_PATCHES];
    for (int b = 0; b < n; b++) {
        spectra[b] = d->samples[samples[b]];
        spectra[n + b] = draw_partner(d, spectra[b], step);
        draw_mask(d, spectra[b], step, mask, mask + v);
        add_bare(&rows, b, spectra[b], mask, v);
        add_decoded(&decoded, b, spectra[b], mask, v);
    }
    for (int s = 0; s < 2 * n && !o->cnn; s++) add_full(&rows, s, spectra[s], n * v);
    batch->n_tokens = *rows.next_offset = n * v + (o->cnn ? 0 : 2 * n * PSD_SEQUENCE);
}

static void fill_classification(const PsdDataset *d, Batch *batch, const int32_t *samples, int n) {
    bool cnn = d->options.cnn;
    if (cnn) {
        batch_begin_rows(batch, samples, n);
    } else {
        Rows rows = push_rows(batch, 0, 0, n);
        for (int b = 0; b < n; b++) add_full(&rows, b, d->samples[samples[b]], 0);
        batch->n_tokens = *rows.next_offset = n * PSD_SEQUENCE;
    }
    int32_t *spectra = push(batch, PSD_SPECTRA, n), *labels = push(batch, PSD_TARGETS, n);
    float *weights = batch_push_1d(batch, PSD_WEIGHTS, DTYPE_F32, n).data;
    for (int b = 0; b < n; b++) {
        spectra[b] = d->samples[samples[b]];
        labels[b] = d->store->labels[spectra[b]];
        if (d->options.unlabelled && labels[b] >= d->options.classes) labels[b] = 0;
        weights[b] = d->options.class_weights ? d->options.class_weights[labels[b]] : 1;
    }
}

/* ---- the dataset ---- */

static void psd_counts(const Dataset *dataset, int64_t sample, double *counts) {
    const PsdDataset *d = dataset->state;
    const PsdDatasetOptions *o = &d->options;
    if (o->pretraining) {
        counts[PSD_COUNT_MASKED] += (PSD_PATCHES - o->n_visible) * PSD_PATCH;
        counts[PSD_COUNT_PAIRED] += 2;
    } else {
        counts[PSD_COUNT_WEIGHTS] +=
            o->class_weights ? (double)o->class_weights[d->store->labels[d->samples[sample]]] : 1;
        counts[PSD_COUNT_SPECTRA] += 1;
    }
}

static bool psd_fill(const Dataset *dataset, Batch *batch, const int32_t *samples, int n, Error *error) {
    const PsdDataset *d = dataset->state;
    (void)error; /* psd_store_open checked everything */
    batch->n_sequences = n;
    if (d->options.pretraining)
        fill_pretraining(d, batch, samples, n);
    else
        fill_classification(d, batch, samples, n);
    for (int b = 0; b < n; b++) {
        batch->samples[b] = samples[b];
        psd_counts(dataset, samples[b], batch->counts);
    }
    return true;
}

static int64_t psd_tokens(const Dataset *dataset, int64_t sample) {
    const PsdDatasetOptions *o = &((const PsdDataset *)dataset->state)->options;
    (void)sample;
    return (o->pretraining ? o->n_visible : 0) + (o->cnn ? !o->pretraining : (o->pretraining ? 2 : 1) * PSD_SEQUENCE);
}

/* Returns the bytes that psd_fill needs: so many numbers of 4 bytes per sample, one more for each list of offsets, and
 * the unused rest of each field's last line. */
static size_t psd_batch_bytes(const Dataset *dataset, const int32_t *samples, int n) {
    const PsdDatasetOptions *o = &((const PsdDataset *)dataset->state)->options;
    (void)samples;
    int v = o->pretraining ? o->n_visible : 0, m = PSD_PATCHES - v, whole = o->pretraining ? 2 : 1;
    int rows = o->cnn ? 0 : whole; /* full sequences */
    int patches = v + PSD_PATCHES * rows, sequences = (o->pretraining ? 1 : o->cnn) + rows;
    int each = sequences + 4 * patches + 2 * rows + (rows ? v + rows : 0) + whole;
    each += o->pretraining ? 1 + 2 * v + 3 * m + PSD_PATCHES + 2 * m : 2;
    return 4 * ((size_t)n * (size_t)each + 2) + (size_t)PSD_FIELDS * BATCH_LINE;
}

static const char *psd_sample_id(const Dataset *dataset, int64_t sample) {
    return ((const PsdDataset *)dataset->state)->names[sample];
}

/* Hashes the spectrum and everything that decides its partner and its mask. */
static uint64_t psd_content(const Dataset *dataset, int64_t sample) {
    const PsdDataset *d = dataset->state;
    int32_t at = d->samples[sample];
    const PsdStore *s = d->store;
    const int32_t of[] = {s->labels[at], s->sensors[at], s->positive ? s->positive[at] : 0};
    uint64_t hash = checksum(checksum(0, s->psd + (int64_t)at * PSD_BINS, PSD_BINS * sizeof(float)), of, sizeof of);
    size_t visible = (size_t)s->n_visible;
    return s->visible ? checksum(hash, s->visible + (size_t)at * visible, visible * sizeof *s->visible) : hash;
}

static void psd_close(Dataset *dataset) {
    PsdDataset *d = dataset->state;
    FREE(d->samples, d->names, d->sorted, d->cells, d, dataset);
}

static void take_rows(PsdDataset *d, const PsdIds *rows) {
    const PsdStore *s = d->store;
    int64_t missing = 0;
    d->samples = xmalloc((size_t)(s->n + 1) * sizeof *d->samples);
    for (int64_t i = 0; i < rows->n; i++) {
        int64_t at = first_at_least(s->rows, s->n, rows->at[i]); /* a row's samples are adjacent */
        if (at == s->n || s->rows[at] != rows->at[i]) {
            missing++; /* a row without a sample: it has no bins, or with --hop fewer than 200 */
            continue;
        }
        for (; at < s->n && s->rows[at] == rows->at[i]; at++) {
            if (!d->options.pretraining && !d->options.unlabelled &&
                (s->labels[at] < 0 || s->labels[at] >= d->options.classes))
                die("the class of manifest row %lld is unknown: the row can be used in pretraining, not in "
                    "classification",
                    (long long)rows->at[i]);
            if (d->n == s->n) die("the split names manifest row %lld twice", (long long)rows->at[i]);
            d->samples[d->n++] = (int32_t)at;
        }
    }
    if (missing) warn_once("%lld rows of the split have no sample in the prepared data", (long long)missing);
}

Dataset *psd_dataset_open(const PsdStore *store, const PsdIds *rows, const PsdDatasetOptions *options) {
    static const char *const field_names[PSD_FIELDS] = {
        "offsets",     "pieces",           "patch_rows",      "patch_positions",   "cls_rows",
        "cls_zeros",   "output_rows",      "decoder_offsets", "visible_rows",      "visible_positions",
        "masked_rows", "masked_positions", "masked_zeros",    "decoder_positions", "target_pieces",
        "spectra",     "labels",           "weights"};
    PsdDataset *d = xcalloc(1, sizeof *d);
    *d = (PsdDataset){.store = store, .options = *options};
    if (options->pretraining && store->visible && store->n_visible != options->n_visible)
        die("the data fixes masks of %d visible patches, and the mask ratio leaves %d visible", store->n_visible,
            options->n_visible);
    take_rows(d, rows);
    make_cells(d);
    d->names = xcalloc((size_t)d->n + 1, sizeof *d->names);
    for (int64_t i = 0; i < d->n; i++) snprintf(d->names[i], NAME, "row_%d", store->rows[d->samples[i]]);
    return dataset_new((Dataset){.n_samples = d->n,
                                 .field_names = field_names,
                                 .device_data = tensor_2d(store->psd, DTYPE_F32, store->n, PSD_BINS),
                                 .tokens = psd_tokens,
                                 .counts = psd_counts,
                                 .sample_id = psd_sample_id,
                                 .content = psd_content,
                                 .fill = psd_fill,
                                 .batch_bytes = psd_batch_bytes,
                                 .close = psd_close,
                                 .state = d});
}

Batch psd_largest_batch(const Dataset *dataset, int64_t batch_size, int64_t token_budget) {
    int64_t n = dataset->n_samples, fit = token_budget ? token_budget / psd_tokens(dataset, 0) : n;
    if (batch_size && batch_size < n) n = batch_size;
    if (token_budget && fit < n) n = fit > 1 ? fit : 1;
    OWNED int32_t *samples = xmalloc((size_t)(n + 1) * sizeof *samples);
    for (int64_t i = 0; i < n; i++) samples[i] = (int32_t)i;
    Batch batch = batch_open(psd_batch_bytes(dataset, samples, (int)n), (int)n);
    psd_fill(dataset, &batch, samples, (int)n, NULL);
    return batch;
}

int64_t psd_dataset_sample(const Dataset *dataset, int64_t sample) {
    return ((const PsdDataset *)dataset->state)->samples[sample];
}

void psd_dataset_classes(const Dataset *dataset, int64_t *counts) {
    const PsdDataset *d = dataset->state;
    memset(counts, 0, (size_t)d->options.classes * sizeof *counts);
    for (int64_t i = 0; i < d->n; i++) counts[d->store->labels[d->samples[i]]]++;
}
