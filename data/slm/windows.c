#include "data/slm/windows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/slm/batch.h"

typedef struct {
    const SlmWindows *list;
    const int32_t *ids;
} Windows;

void slm_windows_add(SlmWindows *list, SlmWindow window) {
    list->windows = xgrow(list->windows, (size_t)list->n, sizeof *list->windows);
    list->windows[list->n++] = window;
}

void slm_windows_cut(SlmWindows *list, int64_t begin, int64_t end, int64_t context, int64_t stride, int32_t owner) {
    for (int64_t from = begin, scored = begin, to; scored < end; from += stride, scored = to) {
        to = from + context < end ? from + context : end;
        slm_windows_add(list, (SlmWindow){from, (int32_t)(to - from), (int32_t)(to - scored), owner});
    }
}

/* ---- the data set ---- */

static const SlmWindow *window_of(const Dataset *dataset, int64_t sample) {
    const Windows *w = dataset->state;
    return &w->list->windows[sample];
}

static int64_t windows_tokens(const Dataset *dataset, int64_t sample) { return window_of(dataset, sample)->rows; }

static void windows_counts(const Dataset *dataset, int64_t sample, double *counts) {
    counts[SLM_COUNT_TOKENS] += window_of(dataset, sample)->scored;
}

static const char *windows_sample_id(const Dataset *dataset, int64_t sample) {
    static _Thread_local char id[64];
    const SlmWindow *w = window_of(dataset, sample);
    snprintf(id, sizeof id, "tokens %lld..%lld", (long long)w->begin, (long long)w->begin + w->rows - 1);
    return id;
}

static uint64_t windows_content(const Dataset *dataset, int64_t sample) {
    const Windows *w = dataset->state;
    const SlmWindow *window = window_of(dataset, sample);
    return checksum((uint64_t)window->scored, w->ids + window->begin, (size_t)(window->rows + 1) * sizeof *w->ids);
}

static size_t bytes_of(int64_t rows, int64_t n) { return 4 * (size_t)(3 * rows + n + 1) + SLM_FIELDS * BATCH_LINE; }

static size_t windows_bytes(const Dataset *dataset, const int32_t *samples, int n) {
    int64_t rows = 0;
    for (int i = 0; i < n; i++) rows += windows_tokens(dataset, samples[i]);
    return bytes_of(rows, n);
}

/* Pushes the fields of n windows with so many rows together. */
static void push_fields(Batch *batch, int64_t rows, int n) {
    batch_push_1d(batch, SLM_OFFSETS, DTYPE_I32, n + 1);
    for (int field = SLM_IDS; field < SLM_FIELDS; field++) batch_push_1d(batch, field, DTYPE_I32, rows);
    batch->n_sequences = n;
    batch->n_tokens = rows;
}

static void fill_window(const Batch *batch, const int32_t *ids, const SlmWindow *window, int32_t at) {
    int32_t *input = (int32_t *)batch->fields[SLM_IDS].data + at,
            *position = (int32_t *)batch->fields[SLM_POSITIONS].data + at,
            *target = (int32_t *)batch->fields[SLM_TARGETS].data + at;
    for (int32_t r = 0; r < window->rows; r++) {
        input[r] = ids[window->begin + r];
        position[r] = r;
        target[r] = r < window->rows - window->scored ? -1 : ids[window->begin + r + 1];
    }
}

static bool windows_fill(const Dataset *dataset, Batch *batch, const int32_t *samples, int n, Error *error) {
    const Windows *w = dataset->state;
    int64_t rows = 0;
    (void)error; /* everything is in memory */
    for (int i = 0; i < n; i++) rows += windows_tokens(dataset, samples[i]);
    push_fields(batch, rows, n);
    int32_t *offsets = batch->fields[SLM_OFFSETS].data;
    offsets[0] = 0;
    for (int i = 0; i < n; i++) {
        const SlmWindow *window = window_of(dataset, samples[i]);
        fill_window(batch, w->ids, window, offsets[i]);
        offsets[i + 1] = offsets[i] + window->rows;
        batch->samples[i] = samples[i];
        batch->counts[SLM_COUNT_TOKENS] += window->scored;
    }
    return true;
}

static void windows_close(Dataset *dataset) {
    free(dataset->state);
    free(dataset);
}

Dataset *slm_windows_open(const SlmWindows *list, const int32_t *ids) {
    static const char *const names[SLM_FIELDS] = {"offsets", "ids", "positions", "targets"};
    Windows *w = xcalloc(1, sizeof *w);
    *w = (Windows){list, ids};
    return dataset_new((Dataset){.n_samples = list->n,
                                 .field_names = names,
                                 .tokens = windows_tokens,
                                 .counts = windows_counts,
                                 .sample_id = windows_sample_id,
                                 .content = windows_content,
                                 .fill = windows_fill,
                                 .batch_bytes = windows_bytes,
                                 .close = windows_close,
                                 .state = w});
}

Batch slm_windows_largest(const Dataset *dataset, int64_t batch_size, int64_t token_budget) {
    (void)token_budget; /* evaluation has none */
    int64_t longest = 1;
    for (int64_t i = 0; i < dataset->n_samples; i++)
        if (windows_tokens(dataset, i) > longest) longest = windows_tokens(dataset, i);
    int n = (int)(batch_size < dataset->n_samples ? batch_size : dataset->n_samples);
    Batch batch = batch_open(bytes_of(n * longest, n), n);
    push_fields(&batch, n * longest, n);
    memset(batch.buffer, 0, batch.size);
    for (int i = 0; i <= n; i++) ((int32_t *)batch.fields[SLM_OFFSETS].data)[i] = (int32_t)(i * longest);
    return batch;
}
