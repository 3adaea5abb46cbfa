#include "data/bert/dataset.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/batch_bounds.h"

typedef struct {
    const TokenizedTexts *texts;
    int64_t longest;  /* tokens of a text */
    int32_t *text_of; /* [n_samples]; NULL: sample i is text i */
    int32_t *labels;  /* [n_samples] classification; NULL: unknown */
    int classes;      /* 0: masked words */
    float *weights;   /* [classes] */
    float smoothing;
    const BertMasking *masking;
    int32_t *chosen; /* [n_samples] masked words: rows that are predicted */
    bool fixed;
} BertDataset;

/* ---- samples ---- */

static const int32_t *ids_of(const BertDataset *d, int64_t sample, int64_t *n) {
    int64_t text = d->text_of ? d->text_of[sample] : sample;
    *n = d->texts->first[text + 1] - d->texts->first[text];
    return d->texts->ids + d->texts->first[text];
}

static int64_t bert_tokens(const Dataset *dataset, int64_t sample) {
    int64_t n;
    ids_of(dataset->state, sample, &n);
    return n;
}

/* Returns the rows of a sample that have a loss. */
static int64_t rows_of(const BertDataset *d, int64_t sample) { return d->chosen ? d->chosen[sample] : 1; }

static void bert_counts(const Dataset *dataset, int64_t sample, double *counts) {
    const BertDataset *d = dataset->state;
    double rows = (double)rows_of(d, sample);
    counts[BERT_COUNT_WEIGHTS] += d->labels ? (double)d->weights[d->labels[sample]] : rows;
    counts[BERT_COUNT_ROWS] += rows;
}

static const char *bert_sample_id(const Dataset *dataset, int64_t sample) {
    static _Thread_local char id[32];
    snprintf(id, sizeof id, "text %lld", (long long)bert_masked_text(dataset, sample));
    return id;
}

static uint64_t bert_content(const Dataset *dataset, int64_t sample) {
    const BertDataset *d = dataset->state;
    int64_t n;
    const int32_t *ids = ids_of(d, sample, &n);
    uint64_t label = d->labels ? 1 + (uint64_t)d->labels[sample] : 0;
    return checksum(label, ids, (size_t)n * sizeof *ids);
}

int64_t bert_masked_text(const Dataset *dataset, int64_t sample) {
    const BertDataset *d = dataset->state;
    return d->text_of ? d->text_of[sample] : sample;
}

/* ---- batches ---- */

/* Numbers the tokens of a text as Hugging Face's RoBERTa does, which leaves out <pad>. */
static void set_positions(const BertDataset *d, const int32_t *ids, int64_t n, int32_t *positions) {
    int32_t next = BERT_FIRST_POSITION;
    for (int64_t t = 0; t < n; t++) positions[t] = d->texts->padding && ids[t] == BERT_PAD ? BERT_PAD : next++;
}

typedef struct {
    int32_t *offsets, *ids, *positions, *rows, *labels;
    float *targets;
} Fields;

static size_t fields_bytes(const BertDataset *d, int64_t texts, int64_t tokens, int64_t rows) {
    return 4 * (size_t)(texts + 1 + 2 * tokens + rows * (2 + d->classes)) + (size_t)BERT_FIELDS * BATCH_LINE;
}

static size_t bert_batch_bytes(const Dataset *dataset, const int32_t *samples, int n) {
    const BertDataset *d = dataset->state;
    int64_t tokens = 0, rows = 0;
    for (int i = 0; i < n; i++) {
        tokens += bert_tokens(dataset, samples[i]);
        rows += rows_of(d, samples[i]);
    }
    return fields_bytes(d, n, tokens, rows) + 4 * (size_t)d->longest; /* the scratch of bert_masking_apply */
}

static Fields push_fields(const BertDataset *d, Batch *batch, int64_t texts, int64_t tokens, int64_t rows) {
    Fields f = {.offsets = batch_push_1d(batch, BERT_OFFSETS, DTYPE_I32, texts + 1).data,
                .ids = batch_push_1d(batch, BERT_IDS, DTYPE_I32, tokens).data,
                .positions = batch_push_1d(batch, BERT_POSITIONS, DTYPE_I32, tokens).data,
                .rows = batch_push_1d(batch, BERT_ROWS, DTYPE_I32, rows).data};
    if (d->labels || d->chosen) f.labels = batch_push_1d(batch, BERT_LABELS, DTYPE_I32, rows).data;
    if (d->labels) f.targets = batch_push_2d(batch, BERT_TARGETS, DTYPE_F32, rows, d->classes).data;
    batch->n_fields = BERT_FIELDS;
    batch->n_sequences = (int)texts;
    batch->n_tokens = tokens;
    return f;
}

static void set_targets(const BertDataset *d, int32_t label, float *targets) {
    for (int c = 0; c < d->classes; c++) targets[c] = d->smoothing / (float)d->classes * d->weights[c];
    targets[label] += (1 - d->smoothing) * d->weights[label];
}

static bool bert_fill(const Dataset *dataset, Batch *batch, const int32_t *samples, int n, Error *error) {
    const BertDataset *d = dataset->state;
    (void)error; /* the texts are in memory */
    int64_t tokens = 0, rows = 0, length;
    for (int i = 0; i < n; i++) {
        tokens += bert_tokens(dataset, samples[i]);
        rows += rows_of(d, samples[i]);
    }
    Fields f = push_fields(d, batch, n, tokens, rows);
    int32_t *scratch = (int32_t *)(void *)(batch->buffer + batch->size);
    int32_t at = 0;
    rows = 0;
    for (int i = 0; i < n; i++, at += (int32_t)length) {
        const int32_t sample = samples[i], *ids = ids_of(d, sample, &length);
        f.offsets[i] = at;
        memcpy(f.ids + at, ids, (size_t)length * sizeof *ids);
        set_positions(d, ids, length, f.positions + at);
        if (d->chosen) {
            int count = bert_masking_apply(d->masking, d->fixed ? 0 : batch->epoch, sample, f.ids + at, (int)length,
                                           scratch, f.rows + rows, f.labels + rows);
            for (int k = 0; k < count; k++) f.rows[rows++] += at;
        } else {
            if (d->labels) set_targets(d, f.labels[rows] = d->labels[sample], f.targets + rows * d->classes);
            f.rows[rows++] = at;
        }
        bert_counts(dataset, sample, batch->counts);
        batch->samples[i] = sample;
    }
    f.offsets[n] = at;
    return true;
}

/* ---- opening ---- */

static void bert_close(Dataset *dataset) {
    BertDataset *d = dataset->state;
    FREE(d->text_of, d->labels, d->weights, d->chosen, d, dataset);
}

static Dataset *dataset_of(BertDataset *d, int64_t n_samples) {
    static const char *const field_names[BERT_FIELDS] = {
        [BERT_OFFSETS] = "offsets", [BERT_IDS] = "ids",       [BERT_POSITIONS] = "positions",
        [BERT_ROWS] = "rows",       [BERT_LABELS] = "labels", [BERT_TARGETS] = "targets"};
    Dataset *dataset = dataset_new((Dataset){.n_samples = n_samples,
                                             .field_names = field_names,
                                             .tokens = bert_tokens,
                                             .counts = bert_counts,
                                             .sample_id = bert_sample_id,
                                             .content = bert_content,
                                             .fill = bert_fill,
                                             .batch_bytes = bert_batch_bytes,
                                             .close = bert_close,
                                             .state = d});
    for (int64_t i = 0; i < n_samples; i++) {
        int64_t length = bert_tokens(dataset, i);
        if (length > d->longest) d->longest = length;
    }
    return dataset;
}

Dataset *bert_labelled_open(const TokenizedTexts *texts, const int32_t *labels, const BertLoss *loss) {
    BertDataset *d = xcalloc(1, sizeof *d);
    *d = (BertDataset){.texts = texts,
                       .classes = loss->classes,
                       .smoothing = loss->smoothing,
                       .weights = xmalloc((size_t)loss->classes * sizeof *d->weights)};
    for (int c = 0; c < loss->classes; c++) d->weights[c] = loss->weights ? loss->weights[c] : 1;
    size_t bytes = (size_t)texts->n * sizeof *labels;
    if (labels) d->labels = memcpy(xmalloc(bytes), labels, bytes);
    return dataset_of(d, texts->n);
}

Dataset *bert_masked_open(const TokenizedTexts *texts, const BertMasking *masking, bool fixed, Error *error) {
    int32_t *text_of = xmalloc((size_t)texts->n * sizeof *text_of),
            *chosen = xmalloc((size_t)texts->n * sizeof *chosen);
    int64_t n = 0;
    for (int64_t i = 0; i < texts->n; i++) {
        const int64_t *first = texts->first + i;
        chosen[n] = bert_masking_count(masking, texts->ids + first[0], (int)(first[1] - first[0]));
        text_of[n] = (int32_t)i;
        n += chosen[n] > 0;
    }
    if (!n) {
        FREE(text_of, chosen);
        error_set(error, "none of the %lld texts has a token that can be predicted", (long long)texts->n);
        return NULL;
    }
    BertDataset *d = xcalloc(1, sizeof *d);
    *d = (BertDataset){.texts = texts, .text_of = text_of, .masking = masking, .chosen = chosen, .fixed = fixed};
    return dataset_of(d, n);
}

/* ---- the largest batch ---- */

/* Returns a bound of the rows that `samples` samples of so many tokens predict: m of a text of T tokens is at most
 * share T plus the largest excess over that of any text. */
static int64_t most_rows(const Dataset *dataset, int64_t samples, int64_t tokens) {
    const BertDataset *d = dataset->state;
    double excess = 0;
    if (!d->chosen) return samples;
    for (int64_t i = 0; i < dataset->n_samples; i++)
        excess = fmax(excess, d->chosen[i] - d->masking->share * (double)bert_tokens(dataset, i));
    int64_t rows = (int64_t)ceil(d->masking->share * (double)tokens + excess * (double)samples);
    return rows < tokens ? rows : tokens;
}

Batch bert_largest_batch(const Dataset *dataset, int64_t batch_size, int64_t token_budget) {
    const BertDataset *d = dataset->state;
    BatchBounds b = batch_bounds(dataset, batch_size, token_budget);
    int64_t texts = batch_bounds_fit(&b, b.samples), rows = most_rows(dataset, texts, b.rows);
    Batch batch = batch_open(fields_bytes(d, texts, b.rows, rows), (int)texts);
    Fields f = push_fields(d, &batch, texts, b.rows, rows);
    batch_bounds_offsets(&b, texts, f.offsets);
    memset(f.ids, 0, (size_t)b.rows * sizeof *f.ids);
    for (int64_t s = 0; s < texts; s++)
        for (int32_t i = f.offsets[s]; i < f.offsets[s + 1]; i++)
            f.positions[i] = BERT_FIRST_POSITION + i - f.offsets[s];
    for (int64_t i = 0; i < rows; i++) f.rows[i] = d->chosen ? (int32_t)(i * b.rows / rows) : f.offsets[i];
    if (f.labels) memset(f.labels, 0, (size_t)rows * sizeof *f.labels);
    for (int64_t i = 0; f.targets && i < rows; i++) set_targets(d, 0, f.targets + i * d->classes);
    batch.counts[BERT_COUNT_WEIGHTS] = batch.counts[BERT_COUNT_ROWS] = (double)rows;
    return batch;
}
