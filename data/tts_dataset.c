/* Every line and every file is checked when the data set is opened, by threads; text ids and codes stay in memory (they
 * are small), conditioning and emotion vectors are read again for each batch. */
#include "data/tts_dataset.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/manifest.h"
#include "data/npy.h"
#include "kernels/philox.h"

typedef struct {
    char *id, *condition_path, *emo_vec_path; /* resolved; paths NULL: synthetic */
    int32_t *text, *codes;
    int32_t text_len, code_len;
    uint64_t vectors; /* the checksum of conditioning and emotion, as the check read them; 0: synthetic */
} Sample;

typedef struct {
    TtsLayout layout;
    Sample *samples;
    int64_t n_samples;
    size_t largest_file;    /* of conditioning and emotion: room to read one into, behind a batch's fields */
    bool lengths_only;      /* samples have no ids, codes or paths */
    int32_t *texts, *codes; /* their lengths, the longest first: made once tts_largest_batch asks for them */
} TtsDataset;

enum { SPEED_ROWS = 2, CODES_A_SECOND = 50 };

/* One line of a manifest on its way to a sample. */
typedef struct {
    const char *manifest, *directory, *text;
    size_t size;
    int64_t number;
    bool bad, included, paired, padded, repaired;
    Sample sample;
    char *target_id, *prompt_id;     /* prompt_id NULL: no pair, or its duration is not said */
    double duration, prompt_seconds; /* of the target, NAN: not known; of the prompt, if prompt_id */
    int64_t unknown, code_len;       /* code_len before a repair */
    size_t largest_file;
    Error error;
} Line;

typedef struct {
    const TtsDatasetOptions *options;
    Line *lines;
    int64_t n_lines;
    _Atomic int64_t next;
} Check;

/* Reads an npy file named by a line; the error names key and path. bytes: free(). */
static bool load_npy(Line *line, const char *key, const char *path, char **resolved, char **bytes, Npy *npy,
                     Error *error) {
    size_t size;
    Error why;
    *resolved = path_join(line->directory, path);
    if (!read_file(*resolved, bytes, &size, &why)) {
        *bytes = NULL;
        return error_set(error, "%s %s: %s", key, path, why.text);
    }
    if (size > line->largest_file) line->largest_file = size;
    if (!npy_parse(*bytes, size, npy, &why)) return error_set(error, "%s %s: %s", key, path, why.text);
    return true;
}

/* "[2, 3]" */
static const char *dims_text(const Npy *npy, char text[192]) {
    int n = snprintf(text, 192, "[");
    for (int i = 0; i < npy->rank; i++)
        n += snprintf(text + n, 192 - (size_t)n, "%s%lld", i ? ", " : "", (long long)npy->dims[i]);
    snprintf(text + n, 192 - (size_t)n, "]");
    return text;
}

/* A 1-d array of ids below `limit`, as long as the manifest says. *out: free(). */
static bool load_ids(Line *line, const char *key, const char *path, int64_t length, int64_t limit, int32_t **out,
                     Error *error) {
    char *resolved, *bytes, shape[192];
    Npy npy;
    Error why;
    bool fine = load_npy(line, key, path, &resolved, &bytes, &npy, error);
    if (fine && npy.rank != 1)
        fine = error_set(error, "%s %s: has shape %s, expected [%lld]", key, path, dims_text(&npy, shape),
                         (long long)length);
    if (fine && npy.count != length)
        fine = error_set(error, "%s %s: has %lld elements, the manifest says %lld", key, path, (long long)npy.count,
                         (long long)length);
    if (fine) {
        *out = xmalloc((size_t)npy.count * sizeof **out);
        if (!npy_to_i32(&npy, *out, &why)) fine = error_set(error, "%s %s: %s", key, path, why.text);
    }
    for (int64_t i = 0; fine && i < length; i++)
        if ((*out)[i] < 0 || (*out)[i] >= limit)
            fine = error_set(error, "%s %s: element %lld is %d, expected 0 to %lld", key, path, (long long)i, (*out)[i],
                             (long long)limit - 1);
    free(bytes);
    free(resolved);
    return fine;
}

/* Finite floats of `rows` x d_model (rows 1: also a plain vector) into out. */
static bool vectors_from(const Npy *npy, int64_t rows, int64_t d_model, float *out, Error *error) {
    bool shape = (npy->rank == 2 && npy->dims[0] == rows && npy->dims[1] == d_model) ||
                 (rows == 1 && npy->rank == 1 && npy->dims[0] == d_model);
    if (!shape) {
        char found[192];
        dims_text(npy, found);
        const char *advice = "the model's width is --model-dim, that of prepared vectors prepare_tts --d-model";
        if (rows == 1) return error_set(error, "has shape %s, expected [%lld]; %s", found, (long long)d_model, advice);
        return error_set(error, "has shape %s, expected [%lld, %lld]; %s", found, (long long)rows, (long long)d_model,
                         advice);
    }
    if (!npy_to_f32(npy, out, error)) return false;
    for (int64_t i = 0; i < rows * d_model; i++)
        if (!isfinite(out[i])) return error_set(error, "element %lld is not finite", (long long)i);
    return true;
}

static bool check_vectors(Line *line, const char *key, const char *path, int64_t rows, int64_t d_model, float *scratch,
                          char **resolved, Error *error) {
    char *bytes;
    Npy npy;
    Error why;
    bool fine = load_npy(line, key, path, resolved, &bytes, &npy, error);
    if (fine && !vectors_from(&npy, rows, d_model, scratch, &why))
        fine = error_set(error, "%s %s: %s", key, path, why.text);
    if (fine)
        line->sample.vectors = checksum(line->sample.vectors, scratch, (size_t)(rows * d_model) * sizeof *scratch);
    free(bytes);
    return fine;
}

/* Codes that a clip of so many seconds should have: frames of 25 ms every 10 ms at 16 kHz, two a code. */
static int64_t expected_codes(double seconds) {
    double samples = floor(seconds * 16000);
    if (samples < 400) return 0;
    return (int64_t)ceil((1 + floor((samples - 400) / 160)) / 2);
}

static void check_padding(Line *line, bool repair) {
    if (isnan(line->duration)) return;
    int64_t expected = expected_codes(line->duration);
    line->padded = llabs((long long)(line->sample.code_len - expected)) > 3;
    if (!line->padded || !repair || line->sample.code_len < expected || expected < 1) return;
    line->sample.code_len = (int32_t)expected;
    line->repaired = true;
}

static bool check_lengths(const ManifestRecord *r, const TtsLayout *l, Error *error) {
    const char *part = r->paired ? "target_" : "";
    if (r->text_len < 1) return error_set(error, "%stext_len is 0: the text is empty", part);
    if (r->code_len < 1) return error_set(error, "%scode_len is 0: the audio is empty", part);
    if (r->text_len > l->max_text)
        return error_set(error, "%stext_len is %lld, the model takes at most %d", part, (long long)r->text_len,
                         l->max_text);
    if (r->code_len > l->max_codes)
        return error_set(error, "%scode_len is %lld, the model takes at most %d", part, (long long)r->code_len,
                         l->max_codes);
    if (r->condition_len != l->n_conditioning)
        return error_set(error, "%scondition_len is %lld, expected %d", r->paired ? "prompt_" : "",
                         (long long)r->condition_len, l->n_conditioning);
    return true;
}

static bool in_split(const TtsDatasetOptions *o, const char *id) {
    if (o->split == SPLIT_ALL) return true;
    return split_is_validation(id, o->val_ratio) == (o->split == SPLIT_VALIDATION);
}

/* Ids and codes; the vectors are only checked. */
static bool load_files(Line *line, const TtsLayout *l, const ManifestRecord *r, float *scratch, Error *error) {
    Sample *s = &line->sample;
    return load_ids(line, r->text_ids_key, r->text_ids_path, r->text_len, l->text_vocabulary, &s->text, error) &&
           load_ids(line, r->codes_key, r->codes_path, r->code_len, l->audio_vocabulary, &s->codes, error) &&
           check_vectors(line, r->condition_key, r->condition_path, l->n_conditioning, l->d_model, scratch,
                         &s->condition_path, error) &&
           check_vectors(line, r->emo_vec_key, r->emo_vec_path, 1, l->d_model, scratch, &s->emo_vec_path, error);
}

static bool check_record(const Check *check, Line *line, const ManifestRecord *r, float *scratch, Error *error) {
    const TtsLayout *l = &check->options->layout;
    Sample *s = &line->sample;
    line->paired = r->paired;
    if (r->prompt_id && !isnan(r->prompt_duration)) {
        line->prompt_id = xstrdup(r->prompt_id);
        line->prompt_seconds = r->prompt_duration;
    }
    if (!in_split(check->options, r->target_id)) return true;
    if (!check_lengths(r, l, error)) return false;
    if (!check->options->lengths_only && !load_files(line, l, r, scratch, error)) return false;
    s->id = xstrdup(r->id);
    line->target_id = xstrdup(r->target_id);
    line->code_len = r->code_len;
    s->text_len = (int32_t)r->text_len;
    s->code_len = (int32_t)r->code_len;
    line->duration = r->duration;
    for (int64_t i = 0; s->text && i < r->text_len; i++) line->unknown += s->text[i] == check->options->unknown_id;
    line->included = true;
    return true;
}

static void *check_worker(void *argument) {
    Check *check = argument;
    const TtsLayout *l = &check->options->layout;
    float *scratch = xmalloc((size_t)l->n_conditioning * (size_t)l->d_model * sizeof *scratch);
    for (int64_t i; (i = atomic_fetch_add(&check->next, 1)) < check->n_lines;) {
        Line *line = &check->lines[i];
        ManifestRecord record;
        Error why;
        int column;
        if (!manifest_parse_line(line->text, line->size, &record, &column, &why)) {
            line->bad = true;
            if (column)
                error_set(&line->error, "%s:%lld:%d: %s", line->manifest, (long long)line->number, column, why.text);
            else
                error_set(&line->error, "%s:%lld: %s", line->manifest, (long long)line->number, why.text);
            continue;
        }
        if (!check_record(check, line, &record, scratch, &why)) {
            line->bad = true;
            error_set(&line->error, "%s:%lld: %s", line->manifest, (long long)line->number, why.text);
        }
        manifest_record_close(&record);
    }
    free(scratch);
    return NULL;
}

static void check_lines(Check *check) {
    int n = check->options->n_threads > 1 ? check->options->n_threads : 1;
    pthread_t *threads = xcalloc((size_t)n, sizeof *threads);
    for (int i = 0; i < n; i++) thread_start(&threads[i], check_worker, check, "that reads the manifest's files");
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
    free(threads);
}

/* The first ten bad lines are told, all are counted. */
static void report_bad_lines(const Check *check) {
    enum { MOST_TOLD = 10 };
    int64_t bad = 0;
    for (int64_t i = 0; i < check->n_lines; i++)
        if (check->lines[i].bad && bad++ < MOST_TOLD) fprintf(stderr, "%s\n", check->lines[i].error.text);
    if (bad > MOST_TOLD) fprintf(stderr, "... and %lld more\n", (long long)bad - MOST_TOLD);
    if (bad) die("%lld of %lld manifest lines cannot be used", (long long)bad, (long long)check->n_lines);
}

/* A clip as the lines of its folder know it. free() */
static char *clip_name(const Line *line, const char *id) { return xformat("%s/%s", line->directory, id); }

/* The pairs of the original preprocessing say the duration of the prompt and none of the target; a target's is then
 * what any line says of it as a prompt. */
static void find_durations(const Check *check) {
    json_t *known = json_object();
    for (int64_t i = 0; i < check->n_lines; i++) {
        const Line *line = &check->lines[i];
        if (!line->prompt_id) continue;
        char *name = clip_name(line, line->prompt_id);
        json_object_set_new_nocheck(known, name, json_real(line->prompt_seconds)); /* folders have any bytes */
        free(name);
    }
    for (int64_t i = 0; i < check->n_lines; i++) {
        Line *line = &check->lines[i];
        if (!line->included) continue;
        char *name = clip_name(line, line->target_id);
        const json_t *seconds = json_object_get(known, name);
        if (isnan(line->duration) && seconds) line->duration = json_real_value(seconds);
        free(name);
        check_padding(line, check->options->repair_codes);
    }
    json_decref(known);
}

static void check_kinds(const Check *check) {
    for (int64_t i = 1; i < check->n_lines; i++) {
        const Line *line = &check->lines[i], *before = line - 1;
        if (line->manifest != before->manifest || line->paired == before->paired) continue;
        const Line *pair = line->paired ? line : before, *single = line->paired ? before : line;
        die("%s: line %lld is a prompt/target pair and line %lld a single utterance; a manifest holds only one kind",
            line->manifest, (long long)pair->number, (long long)single->number);
    }
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void quantiles(const TtsDataset *d, bool of_text, int64_t *out) {
    int64_t n = d->n_samples, *lengths = xmalloc((size_t)(n + 1) * sizeof *lengths);
    for (int64_t i = 0; i < n; i++) lengths[i] = of_text ? d->samples[i].text_len : d->samples[i].code_len;
    qsort(lengths, (size_t)n, sizeof *lengths, ascending);
    for (int q = 0; q < 5; q++) out[q] = n ? lengths[q * (n - 1) / 4] : 0;
    free(lengths);
}

static void fill_report(const Check *check, const TtsDataset *d, TtsDatasetReport *r) {
    *r = (TtsDatasetReport){.lines = check->n_lines, .samples = d->n_samples};
    const Line *previous = NULL;
    int64_t run = 0;
    for (int64_t i = 0; i < check->n_lines; i++) {
        const Line *line = &check->lines[i];
        const Sample *s = &line->sample;
        if (!line->included) continue;
        r->paired += line->paired;
        r->single += !line->paired;
        r->padded_codes += line->padded;
        r->repaired += line->repaired;
        r->no_duration += isnan(line->duration) != 0;
        r->unknown_tokens += line->unknown;
        r->text_tokens += s->text_len;
        r->codes += s->code_len;
        if (previous && !strcmp(line->target_id, previous->target_id)) continue; /* the same codes, another prompt */
        run = previous && line->code_len == previous->code_len ? run + 1 : 1;
        r->equal_code_runs += run == 4;
        previous = line;
    }
    r->seconds_of_audio = (double)r->codes / CODES_A_SECOND;
    quantiles(d, true, r->text_length_quantiles);
    quantiles(d, false, r->code_length_quantiles);
}

/* Splits a manifest's text into its lines that are not blank. A byte order mark, which some editors put at the start,
 * is skipped. */
static void add_lines(Check *check, int64_t *capacity, const char *manifest, const char *directory, const char *text,
                      size_t size) {
    int64_t number = 0;
    size_t mark = size >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3) ? 3 : 0;
    for (const char *at = text + mark, *end; at < text + size; at = end + 1) {
        end = memchr(at, '\n', (size_t)(text + size - at));
        if (!end) end = text + size;
        number++;
        if (strspn(at, " \t\r") >= (size_t)(end - at)) continue;
        if (check->n_lines == *capacity)
            check->lines = xrealloc(check->lines, (size_t)(*capacity = 2 * *capacity + 1024) * sizeof *check->lines);
        check->lines[check->n_lines++] = (Line){
            .manifest = manifest, .directory = directory, .text = at, .size = (size_t)(end - at), .number = number};
    }
}

/* The data set's face to the loader. */

static const Sample *sample_at(const Dataset *dataset, int64_t i) {
    return &((const TtsDataset *)dataset->state)->samples[i];
}

static int64_t sample_tokens(const TtsLayout *l, const Sample *s) {
    return l->n_conditioning + SPEED_ROWS + s->text_len + 2 + s->code_len + 1;
}

static int64_t tts_tokens(const Dataset *dataset, int64_t i) {
    return sample_tokens(&((const TtsDataset *)dataset->state)->layout, sample_at(dataset, i));
}

static void tts_counts(const Dataset *dataset, int64_t i, double *counts) {
    counts[TTS_COUNT_TEXT] += (double)sample_at(dataset, i)->text_len + 1;
    counts[TTS_COUNT_MEL] += (double)sample_at(dataset, i)->code_len + 1;
}

static const char *tts_sample_id(const Dataset *dataset, int64_t i) { return sample_at(dataset, i)->id; }

static uint64_t tts_content(const Dataset *dataset, int64_t i) {
    const Sample *s = sample_at(dataset, i);
    assert(s->text && s->codes); /* lengths alone train nothing */
    uint64_t sum = checksum(s->vectors, s->text, (size_t)s->text_len * sizeof *s->text);
    return checksum(sum, s->codes, (size_t)s->code_len * sizeof *s->codes);
}

static size_t tts_batch_bytes(const Dataset *dataset, const int32_t *samples, int n) {
    const TtsDataset *d = dataset->state;
    const TtsLayout *l = &d->layout;
    size_t text = 0, mel = 0;
    for (int i = 0; i < n; i++) {
        text += (size_t)sample_at(dataset, samples[i])->text_len + 2;
        mel += (size_t)sample_at(dataset, samples[i])->code_len + 1;
    }
    size_t conditioning = (size_t)n * (size_t)l->n_conditioning * ((size_t)l->d_model + 1);
    return 4 * (conditioning + (size_t)(5 * n + 1) + 5 * text + 4 * mel) + (size_t)TTS_FIELDS * BATCH_LINE +
           (size_t)l->d_model * 4 + d->largest_file;
}

/* Memory behind a batch's fields, for reading files: fill must not allocate. */
typedef struct {
    float *emotion; /* [d_model] */
    char *file;
    size_t size;
} Scratch;

static bool read_vectors(const char *path, int64_t rows, int64_t d_model, const Scratch *scratch, float *out,
                         Error *error) {
    size_t size;
    Npy npy;
    Error why;
    bool fine = read_file_into(path, scratch->file, scratch->size, &size, &why) &&
                npy_parse(scratch->file, size, &npy, &why) && vectors_from(&npy, rows, d_model, out, &why);
    return fine || error_set(error, "%s: %s", path, why.text);
}

/* Conditioning latents with the emotion vector added to each. */
static bool fill_conditioning(const TtsLayout *l, const Sample *s, int64_t sample, float *out, const Scratch *scratch,
                              Error *error) {
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

/* Where the fields of a batch lie, each pointer moving on as samples are added. */
typedef struct {
    int32_t *offsets, *conditioning_rows, *speed_ids, *speed_rows, *text_ids, *text_positions, *text_rows, *mel_ids;
    int32_t *mel_positions, *mel_rows, *text_targets, *text_target_rows, *mel_targets;
    float *conditioning;
} Cursor;

static Cursor push_fields(Batch *b, const TtsLayout *l, int64_t n, int64_t nt, int64_t nm) {
    Cursor c;
    int64_t latents = n * l->n_conditioning;
    c.offsets = batch_push_1d(b, TTS_OFFSETS, DTYPE_I32, n + 1).data;
    c.conditioning = batch_push_2d(b, TTS_CONDITIONING, DTYPE_F32, latents, l->d_model).data;
    c.conditioning_rows = batch_push_1d(b, TTS_CONDITIONING_ROWS, DTYPE_I32, latents).data;
    c.speed_ids = batch_push_1d(b, TTS_SPEED_IDS, DTYPE_I32, SPEED_ROWS * n).data;
    c.speed_rows = batch_push_1d(b, TTS_SPEED_ROWS, DTYPE_I32, SPEED_ROWS * n).data;
    c.text_ids = batch_push_1d(b, TTS_TEXT_IDS, DTYPE_I32, nt).data;
    c.text_positions = batch_push_1d(b, TTS_TEXT_POSITIONS, DTYPE_I32, nt).data;
    c.text_rows = batch_push_1d(b, TTS_TEXT_ROWS, DTYPE_I32, nt).data;
    c.mel_ids = batch_push_1d(b, TTS_MEL_IDS, DTYPE_I32, nm).data;
    c.mel_positions = batch_push_1d(b, TTS_MEL_POSITIONS, DTYPE_I32, nm).data;
    c.mel_rows = batch_push_1d(b, TTS_MEL_ROWS, DTYPE_I32, nm).data;
    c.text_targets = batch_push_1d(b, TTS_TEXT_TARGETS, DTYPE_I32, nt - n).data;
    c.text_target_rows = batch_push_1d(b, TTS_TEXT_TARGET_ROWS, DTYPE_I32, nt - n).data;
    c.mel_targets = batch_push_1d(b, TTS_MEL_TARGETS, DTYPE_I32, nm).data;
    return c;
}

/* The rows of one sample from row `row` on; returns the row behind them. */
static int32_t fill_sample(Cursor *c, const TtsLayout *l, const Sample *s, int32_t row) {
    for (int i = 0; i < l->n_conditioning; i++) *c->conditioning_rows++ = row++;
    for (int i = 0; i < SPEED_ROWS; i++) {
        *c->speed_ids++ = SPEED_ROWS - 1 - i; /* row 1 of the table, then row 0 */
        *c->speed_rows++ = row++;
    }
    for (int32_t i = 0; i < s->text_len + 2; i++, row++) {
        *c->text_ids++ = i == 0 ? l->start_text : i <= s->text_len ? s->text[i - 1] : l->stop_text;
        *c->text_positions++ = i;
        *c->text_rows++ = row;
        if (i > s->text_len) continue;
        *c->text_targets++ = i < s->text_len ? s->text[i] : l->stop_text;
        *c->text_target_rows++ = row;
    }
    for (int32_t i = 0; i < s->code_len + 1; i++, row++) {
        *c->mel_ids++ = i == 0 ? l->start_mel : s->codes[i - 1];
        *c->mel_positions++ = i;
        *c->mel_rows++ = row;
        *c->mel_targets++ = i < s->code_len ? s->codes[i] : l->stop_mel;
    }
    return row;
}

static bool tts_fill(const Dataset *dataset, Batch *batch, const int32_t *samples, int n, Error *error) {
    const TtsDataset *d = dataset->state;
    const TtsLayout *l = &d->layout;
    int64_t nt = 0, nm = 0, latents = (int64_t)l->n_conditioning * l->d_model;
    for (int i = 0; i < n; i++) {
        nt += d->samples[samples[i]].text_len + 2;
        nm += d->samples[samples[i]].code_len + 1;
    }
    Cursor c = push_fields(batch, l, n, nt, nm);
    Scratch scratch = {.emotion = (float *)(void *)(batch->buffer + batch->size)};
    scratch.file = (char *)(scratch.emotion + l->d_model);
    scratch.size = (size_t)(batch->buffer + batch->capacity - scratch.file);
    bool fine = true;
    int32_t row = 0;
    for (int i = 0; i < n && fine; i++) {
        const Sample *s = &d->samples[samples[i]];
        *c.offsets++ = row;
        if (d->lengths_only) {
            row += (int32_t)sample_tokens(l, s);
        } else {
            fine = fill_conditioning(l, s, samples[i], c.conditioning + i * latents, &scratch, error);
            row = fill_sample(&c, l, s, row);
        }
        batch->samples[i] = samples[i];
    }
    *c.offsets = row;
    batch->n_sequences = n;
    batch->n_tokens = row;
    batch->counts[TTS_COUNT_TEXT] = (double)(nt - n);
    batch->counts[TTS_COUNT_MEL] = (double)nm;
    return fine;
}

static void tts_close(Dataset *dataset) {
    TtsDataset *d = dataset->state;
    for (int64_t i = 0; i < d->n_samples; i++) {
        free(d->samples[i].id);
        free(d->samples[i].condition_path);
        free(d->samples[i].emo_vec_path);
        free(d->samples[i].text);
        free(d->samples[i].codes);
    }
    free(d->samples);
    free(d->texts);
    free(d->codes);
    free(d);
    free(dataset);
}

static Dataset *dataset_of(TtsDataset *d) {
    Dataset *dataset = xcalloc(1, sizeof *dataset);
    static const char *const field_names[TTS_FIELDS] = {
        [TTS_OFFSETS] = "offsets",
        [TTS_CONDITIONING] = "conditioning",
        [TTS_CONDITIONING_ROWS] = "conditioning_rows",
        [TTS_SPEED_IDS] = "speed_ids",
        [TTS_SPEED_ROWS] = "speed_rows",
        [TTS_TEXT_IDS] = "text_ids",
        [TTS_TEXT_POSITIONS] = "text_positions",
        [TTS_TEXT_ROWS] = "text_rows",
        [TTS_MEL_IDS] = "mel_ids",
        [TTS_MEL_POSITIONS] = "mel_positions",
        [TTS_MEL_ROWS] = "mel_rows",
        [TTS_TEXT_TARGETS] = "text_targets",
        [TTS_TEXT_TARGET_ROWS] = "text_target_rows",
        [TTS_MEL_TARGETS] = "mel_targets",
    };
    *dataset = (Dataset){.n_samples = d->n_samples,
                         .field_names = field_names,
                         .tokens = tts_tokens,
                         .counts = tts_counts,
                         .sample_id = tts_sample_id,
                         .content = tts_content,
                         .fill = tts_fill,
                         .batch_bytes = tts_batch_bytes,
                         .close = tts_close,
                         .state = d};
    return dataset;
}

Dataset *tts_dataset_open(const char *const *specs, int n_specs, const TtsDatasetOptions *options,
                          TtsDatasetReport *report) {
    Check check = {.options = options};
    int64_t capacity = 0;
    char **paths = xcalloc((size_t)n_specs, sizeof *paths), **texts = xcalloc((size_t)n_specs, sizeof *texts);
    char **directories = xcalloc((size_t)n_specs, sizeof *directories), *language;
    for (int i = 0; i < n_specs; i++) {
        size_t size;
        Error error;
        manifest_spec_split(specs[i], &paths[i], &language);
        free(language); /* a hint for text front ends; the model does not see it */
        if (!read_file(paths[i], &texts[i], &size, &error)) die("manifest %s: %s", paths[i], error.text);
        directories[i] = path_directory(paths[i]);
        int64_t before = check.n_lines;
        add_lines(&check, &capacity, paths[i], directories[i], texts[i], size);
        if (check.n_lines == before)
            die("manifest %s: has no lines (prepare_tts --val-ratio X holds out more)", paths[i]);
    }
    check_lines(&check);
    report_bad_lines(&check);
    check_kinds(&check);
    find_durations(&check);
    TtsDataset *d = xcalloc(1, sizeof *d);
    d->layout = options->layout;
    d->lengths_only = options->lengths_only;
    d->samples = xcalloc((size_t)check.n_lines, sizeof *d->samples);
    for (int64_t i = 0; i < check.n_lines; i++)
        if (check.lines[i].included) {
            d->samples[d->n_samples++] = check.lines[i].sample;
            if (check.lines[i].largest_file > d->largest_file) d->largest_file = check.lines[i].largest_file;
        }
    fill_report(&check, d, report);
    for (int64_t i = 0; i < check.n_lines; i++) {
        free(check.lines[i].target_id);
        free(check.lines[i].prompt_id);
    }
    for (int i = 0; i < n_specs; i++) {
        free(paths[i]);
        free(texts[i]);
        free(directories[i]);
    }
    free(paths);
    free(texts);
    free(directories);
    free(check.lines);
    return dataset_of(d);
}

Dataset *tts_dataset_lengths(const TtsLayout *layout, const int32_t *text_lengths, const int32_t *code_lengths,
                             int64_t n_samples) {
    TtsDataset *d = xcalloc(1, sizeof *d);
    d->layout = *layout;
    d->n_samples = n_samples;
    d->lengths_only = true;
    d->samples = xcalloc((size_t)n_samples, sizeof *d->samples);
    for (int64_t i = 0; i < n_samples; i++)
        d->samples[i] = (Sample){
            .id = xformat("synthetic_%lld", (long long)i), .text_len = text_lengths[i], .code_len = code_lengths[i]};
    return dataset_of(d);
}

Dataset *tts_dataset_synthetic(const TtsLayout *layout, const int32_t *text_lengths, const int32_t *code_lengths,
                               int64_t n_samples) {
    Dataset *dataset = tts_dataset_lengths(layout, text_lengths, code_lengths, n_samples);
    TtsDataset *d = dataset->state;
    d->lengths_only = false;
    for (int64_t i = 0; i < n_samples; i++) {
        Sample *s = &d->samples[i];
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

/* How many of the longest, alone with the least that a sequence has besides, reach the budget: no micro-batch has more
 * rows of this kind. */
static int64_t reach_budget(const int32_t *lengths, int64_t n, int64_t besides, int64_t budget) {
    int64_t rows = 0, count = 0;
    while (count < n && rows < budget) rows += lengths[count++] + besides;
    return count;
}

static void sort_lengths(TtsDataset *d) {
    size_t n = (size_t)d->n_samples;
    d->texts = xmalloc(n * sizeof *d->texts);
    d->codes = xmalloc(n * sizeof *d->codes);
    for (size_t i = 0; i < n; i++) {
        d->texts[i] = d->samples[i].text_len;
        d->codes[i] = d->samples[i].code_len;
    }
    qsort(d->texts, n, sizeof *d->texts, descending);
    qsort(d->codes, n, sizeof *d->codes, descending);
}

Batch tts_largest_batch(const Dataset *dataset, int64_t batch_size, int64_t token_budget) {
    TtsDataset *d = dataset->state;
    int64_t n = d->n_samples, most = batch_size > 0 && batch_size < n ? batch_size : n;
    if (!d->texts) sort_lengths(d);
    int32_t *text = xmalloc((size_t)most * sizeof *text), *codes = xmalloc((size_t)most * sizeof *codes);
    memcpy(text, d->texts, (size_t)most * sizeof *text);
    memcpy(codes, d->codes, (size_t)most * sizeof *codes);
    if (token_budget > 0) {
        int64_t besides = d->layout.n_conditioning + SPEED_ROWS + 3;
        int64_t texts = reach_budget(text, most, besides, token_budget),
                mels = reach_budget(codes, most, besides, token_budget);
        most = texts > mels ? texts : mels;
        for (int64_t i = texts; i < most; i++) text[i] = 1;
        for (int64_t i = mels; i < most; i++) codes[i] = 1;
    }
    Dataset *synthetic = tts_dataset_lengths(&d->layout, text, codes, most);
    int32_t *samples = xmalloc((size_t)(most + 1) * sizeof *samples);
    Error error;
    for (int64_t i = 0; i < most; i++) samples[i] = (int32_t)i;
    Batch batch = batch_open(tts_batch_bytes(synthetic, samples, (int)most), (int)most);
    if (!tts_fill(synthetic, &batch, samples, (int)most, &error)) die("%s", error.text);
    free(samples);
    free(text);
    free(codes);
    synthetic->close(synthetic);
    return batch;
}

void tts_code_histogram(const Dataset *dataset, int64_t *counts) {
    const TtsDataset *d = dataset->state;
    for (int64_t i = 0; i < d->n_samples; i++) {
        for (int32_t t = 0; t < d->samples[i].code_len; t++) counts[d->samples[i].codes[t]]++;
        counts[d->layout.stop_mel]++;
    }
}
