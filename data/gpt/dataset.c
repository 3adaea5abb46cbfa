#include "data/gpt/dataset.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/kmeans.h"
#include "kernels/philox.h"

enum { SPEED_ROWS = 2 };

typedef struct {
    GptLayout layout;
    GptSamples samples;
    bool lengths_only;      /* samples have no codes or paths */
    int32_t *texts, *codes; /* their lengths in descending order, made when gpt_largest_batch is first called */
} GptDataset;

static const GptSample *sample_at(const Dataset *dataset, int64_t i) {
    return &((const GptDataset *)dataset->state)->samples.items[i];
}

static int64_t sample_tokens(const GptLayout *l, const GptSample *s) {
    return l->n_conditioning + SPEED_ROWS + s->text_len + 2 + s->code_len + 1;
}

static int64_t gpt_tokens(const Dataset *dataset, int64_t i) {
    return sample_tokens(&((const GptDataset *)dataset->state)->layout, sample_at(dataset, i));
}

static void gpt_counts(const Dataset *dataset, int64_t i, double *counts) {
    counts[GPT_COUNT_TEXT] += (double)sample_at(dataset, i)->text_len + 1;
    counts[GPT_COUNT_MEL] += (double)sample_at(dataset, i)->code_len + 1;
}

static const char *gpt_sample_id(const Dataset *dataset, int64_t i) { return sample_at(dataset, i)->id; }

static uint64_t gpt_content(const Dataset *dataset, int64_t i) {
    const GptSample *s = sample_at(dataset, i);
    assert(s->text && s->codes); /* lengths alone train nothing */
    uint64_t sum = checksum(s->vectors, s->text, (size_t)s->text_len * sizeof *s->text);
    return checksum(sum, s->codes, (size_t)s->code_len * sizeof *s->codes);
}

static size_t gpt_batch_bytes(const Dataset *dataset, const int32_t *samples, int n) {
    const GptDataset *d = dataset->state;
    const GptLayout *l = &d->layout;
    size_t text = 0, mel = 0;
    for (int i = 0; i < n; i++) {
        text += (size_t)sample_at(dataset, samples[i])->text_len + 2;
        mel += (size_t)sample_at(dataset, samples[i])->code_len + 1;
    }
    size_t conditioning = (size_t)n * (size_t)l->n_conditioning * ((size_t)l->d_model + 1);
    return 4 * (conditioning + (size_t)(5 * n + 1) + 5 * text + 4 * mel) + (size_t)GPT_FIELDS * BATCH_LINE +
           (size_t)l->d_model * 4 + d->samples.largest_file;
}

/* Memory behind the fields of a batch, to read files into: fill must not allocate. */
typedef struct {
    float *emotion; /* [d_model] */
    char *file;
    size_t size;
} Scratch;

static bool read_vectors(const char *path, int64_t rows, int64_t d_model, const Scratch *scratch, float *out,
                         Error *error) {
    size_t size;
    Npy npy;
    bool ok = read_file_into(path, scratch->file, scratch->size, &size, error) &&
              npy_parse(scratch->file, size, &npy, error) && gpt_vectors_parse(&npy, rows, d_model, out, error);
    return ok || error_before(error, "%s: ", path);
}

/* Writes the conditioning latents, with the emotion vector added to each. */
static bool fill_conditioning(const GptLayout *l, const GptSample *s, int64_t sample, float *out,
                              const Scratch *scratch, Error *error) {
    int64_t n = (int64_t)l->n_conditioning * l->d_model;
    if (!s->condition_path) {
        for (int64_t i = 0; i < n; i++) out[i] = 0.5f * philox_normal((uint64_t)sample, PURPOSE_TEST, 0, (uint64_t)i);
        return true;
    }
    if (!read_vectors(s->condition_path, l->n_conditioning, l->d_model, scratch, out, error)) return false;
    if (!read_vectors(s->emo_vec_path, 1, l->d_model, scratch, scratch->emotion, error)) return false;
    for (int row = 0; row < l->n_conditioning; row++)
        for (int i = 0; i < l->d_model; i++) out[(int64_t)row * l->d_model + i] += scratch->emotion[i];
    return true;
}

/* The next element of each field of whole numbers, moving on as samples are added. */
typedef struct {
    int32_t *at[GPT_FIELDS];
} Cursor;

static Cursor push_fields(Batch *b, const GptLayout *l, int64_t n, int64_t nt, int64_t nm) {
    const int64_t latents = n * l->n_conditioning, speeds = SPEED_ROWS * n;
    const int64_t sizes[GPT_FIELDS] = {n + 1, latents, latents, speeds, speeds, nt,     nt,
                                       nt,    nm,      nm,      nm,     nt - n, nt - n, nm};
    Cursor c = {.at = {NULL}};
    for (int field = 0; field < GPT_FIELDS; field++)
        if (field == GPT_CONDITIONING)
            batch_push_2d(b, field, DTYPE_F32, latents, l->d_model);
        else
            c.at[field] = batch_push_1d(b, field, DTYPE_I32, sizes[field]).data;
    return c;
}

/* Writes the rows of one sample from row `row` on. Returns the row behind them. */
static int32_t fill_sample(Cursor *c, const GptLayout *l, const GptSample *s, int32_t row) {
    for (int i = 0; i < l->n_conditioning; i++) *c->at[GPT_CONDITIONING_ROWS]++ = row++;
    for (int i = 0; i < SPEED_ROWS; i++) {
        *c->at[GPT_SPEED_IDS]++ = SPEED_ROWS - 1 - i; /* row 1 of the table, then row 0 */
        *c->at[GPT_SPEED_ROWS]++ = row++;
    }
    for (int32_t i = 0; i < s->text_len + 2; i++, row++) {
        *c->at[GPT_TEXT_IDS]++ = i == 0 ? l->start_text : i <= s->text_len ? s->text[i - 1] : l->stop_text;
        *c->at[GPT_TEXT_POSITIONS]++ = i;
        *c->at[GPT_TEXT_ROWS]++ = row;
        if (i > s->text_len) continue;
        *c->at[GPT_TEXT_TARGETS]++ = i < s->text_len ? s->text[i] : l->stop_text;
        *c->at[GPT_TEXT_TARGET_ROWS]++ = row;
    }
    for (int32_t i = 0; i < s->code_len + 1; i++, row++) {
        *c->at[GPT_MEL_IDS]++ = i == 0 ? l->start_mel : s->codes[i - 1];
        *c->at[GPT_MEL_POSITIONS]++ = i;
        *c->at[GPT_MEL_ROWS]++ = row;
        *c->at[GPT_MEL_TARGETS]++ = i < s->code_len ? s->codes[i] : l->stop_mel;
    }
    return row;
}

static bool gpt_fill(const Dataset *dataset, Batch *batch, const int32_t *samples, int n, Error *error) {
    const GptDataset *d = dataset->state;
    const GptLayout *l = &d->layout;
    int64_t nt = 0, nm = 0, latents = (int64_t)l->n_conditioning * l->d_model;
    for (int i = 0; i < n; i++) {
        nt += d->samples.items[samples[i]].text_len + 2;
        nm += d->samples.items[samples[i]].code_len + 1;
    }
    Cursor c = push_fields(batch, l, n, nt, nm);
    float *conditioning = batch->fields[GPT_CONDITIONING].data;
    Scratch scratch = {.emotion = (float *)(void *)(batch->buffer + batch->size)};
    scratch.file = (char *)(scratch.emotion + l->d_model);
    scratch.size = (size_t)(batch->buffer + batch->capacity - scratch.file);
    bool ok = true;
    int32_t row = 0;
    for (int i = 0; i < n && ok; i++) {
        const GptSample *s = &d->samples.items[samples[i]];
        *c.at[GPT_OFFSETS]++ = row;
        if (d->lengths_only) {
            row += (int32_t)sample_tokens(l, s);
        } else {
            ok = fill_conditioning(l, s, samples[i], conditioning + i * latents, &scratch, error);
            row = fill_sample(&c, l, s, row);
        }
        batch->samples[i] = samples[i];
    }
    *c.at[GPT_OFFSETS] = row;
    batch->n_sequences = n;
    batch->n_tokens = row;
    batch->counts[GPT_COUNT_TEXT] = (double)(nt - n);
    batch->counts[GPT_COUNT_MEL] = (double)nm;
    return ok;
}

static void close_dataset(Dataset *dataset) {
    GptDataset *d = dataset->state;
    gpt_samples_close(&d->samples);
    free(d->texts);
    free(d->codes);
    free(d);
    free(dataset);
}

static Dataset *dataset_of(GptDataset *d) {
    static const char *const field_names[GPT_FIELDS] = {
        "offsets",  "conditioning",   "conditioning_rows", "speed_ids",  "speed_rows",
        "text_ids", "text_positions", "text_rows",         "mel_ids",    "mel_positions",
        "mel_rows", "text_targets",   "text_target_rows",  "mel_targets"};
    return dataset_new((Dataset){.n_samples = d->samples.n,
                                 .field_names = field_names,
                                 .tokens = gpt_tokens,
                                 .counts = gpt_counts,
                                 .sample_id = gpt_sample_id,
                                 .content = gpt_content,
                                 .fill = gpt_fill,
                                 .batch_bytes = gpt_batch_bytes,
                                 .close = close_dataset,
                                 .state = d});
}

Dataset *gpt_dataset_open(const char *const *specs, int n_specs, const GptDatasetOptions *options,
                          GptDatasetReport *report) {
    GptDataset *d = xcalloc(1, sizeof *d);
    d->layout = options->layout;
    d->lengths_only = options->lengths_only;
    d->samples = gpt_samples_read(specs, n_specs, options, report);
    return dataset_of(d);
}

Dataset *gpt_dataset_lengths(const GptLayout *layout, const int32_t *text_lengths, const int32_t *code_lengths,
                             int64_t n_samples) {
    GptDataset *d = xcalloc(1, sizeof *d);
    d->layout = *layout;
    d->samples.n = n_samples;
    d->lengths_only = true;
    d->samples.items = xcalloc((size_t)n_samples, sizeof *d->samples.items);
    for (int64_t i = 0; i < n_samples; i++)
        d->samples.items[i] = (GptSample){
            .id = xformat("synthetic_%lld", (long long)i), .text_len = text_lengths[i], .code_len = code_lengths[i]};
    return dataset_of(d);
}

Dataset *gpt_dataset_synthetic(const GptLayout *layout, const int32_t *text_lengths, const int32_t *code_lengths,
                               int64_t n_samples) {
    Dataset *dataset = gpt_dataset_lengths(layout, text_lengths, code_lengths, n_samples);
    GptDataset *d = dataset->state;
    d->lengths_only = false;
    for (int64_t i = 0; i < n_samples; i++) {
        GptSample *s = &d->samples.items[i];
        s->text = xmalloc((size_t)s->text_len * sizeof *s->text);
        s->codes = xmalloc((size_t)s->code_len * sizeof *s->codes);
        for (int32_t t = 0; t < s->text_len; t++)
            s->text[t] =
                (int32_t)(philox_bits((uint64_t)i, PURPOSE_TEST, 1, (uint64_t)t) % (uint32_t)layout->text_vocabulary);
        for (int32_t t = 0; t < s->code_len; t++)
            s->codes[t] =
                (int32_t)(philox_bits((uint64_t)i, PURPOSE_TEST, 2, (uint64_t)t) % (uint32_t)layout->audio_vocabulary);
    }
    return dataset;
}

static int descending(const void *a, const void *b) { return *(const int32_t *)b - *(const int32_t *)a; }

/* Returns how many of the longest texts (or codes) reach the budget together with the other rows that every sequence
 * has: no micro-batch has more rows of this kind. */
static int64_t reach_budget(const int32_t *lengths, int64_t n, int64_t other_rows, int64_t budget) {
    int64_t rows = 0, count = 0;
    while (count < n && rows < budget) rows += lengths[count++] + other_rows;
    return count;
}

static void sort_lengths(GptDataset *d) {
    size_t n = (size_t)d->samples.n;
    d->texts = xmalloc(n * sizeof *d->texts);
    d->codes = xmalloc(n * sizeof *d->codes);
    for (size_t i = 0; i < n; i++) {
        d->texts[i] = d->samples.items[i].text_len;
        d->codes[i] = d->samples.items[i].code_len;
    }
    qsort(d->texts, n, sizeof *d->texts, descending);
    qsort(d->codes, n, sizeof *d->codes, descending);
}

Batch gpt_largest_batch(const Dataset *dataset, int64_t batch_size, int64_t token_budget) {
    GptDataset *d = dataset->state;
    int64_t n = d->samples.n, most = batch_size > 0 && batch_size < n ? batch_size : n;
    if (!d->texts) sort_lengths(d);
    OWNED int32_t *text = xmalloc((size_t)most * sizeof *text), *codes = xmalloc((size_t)most * sizeof *codes);
    memcpy(text, d->texts, (size_t)most * sizeof *text);
    memcpy(codes, d->codes, (size_t)most * sizeof *codes);
    if (token_budget > 0) {
        int64_t other_rows = d->layout.n_conditioning + SPEED_ROWS + 3;
        int64_t texts = reach_budget(text, most, other_rows, token_budget),
                mels = reach_budget(codes, most, other_rows, token_budget);
        most = texts > mels ? texts : mels;
        for (int64_t i = texts; i < most; i++) text[i] = 1;
        for (int64_t i = mels; i < most; i++) codes[i] = 1;
    }
    Dataset *synthetic = gpt_dataset_lengths(&d->layout, text, codes, most);
    OWNED int32_t *samples = xmalloc((size_t)(most + 1) * sizeof *samples);
    for (int64_t i = 0; i < most; i++) samples[i] = (int32_t)i;
    Batch batch = batch_open(gpt_batch_bytes(synthetic, samples, (int)most), (int)most);
    MUST(gpt_fill(synthetic, &batch, samples, (int)most, &error));
    synthetic->close(synthetic);
    return batch;
}

double gpt_code_entropy(const Dataset *dataset) {
    const GptDataset *d = dataset->state;
    int64_t classes = d->layout.stop_mel + 1;
    OWNED int64_t *counts = xcalloc((size_t)classes, sizeof *counts);
    for (int64_t i = 0; i < d->samples.n; i++) {
        for (int32_t t = 0; t < d->samples.items[i].code_len; t++) counts[d->samples.items[i].codes[t]]++;
        counts[d->layout.stop_mel]++;
    }
    return codebook_entropy(counts, classes);
}
