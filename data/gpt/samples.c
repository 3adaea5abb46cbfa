/* Threads check lines and files. Conditioning and emotion vectors are only checked here, and read again for each batch.
 */
#include "data/gpt/samples.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/formats/json_records.h"
#include "data/formats/tensor_file.h"
#include "data/formats/text_source.h"
#include "data/gpt/manifest.h"
#include "data/text/utf8.h"

enum { CODES_PER_SECOND = 50 };

/* One line of a manifest, from its text to a sample. */
typedef struct {
    const char *manifest, *directory, *text;
    size_t size;
    int64_t number;
    int column; /* of a record in an array; else 0, until a syntax error has one */
    bool bad, included, paired, padded, repaired;
    GptSample sample;
    char *target_id, *prompt_id;     /* prompt_id NULL: no pair, or its duration is not given */
    double duration, prompt_seconds; /* of the target (NAN: not known) and of the prompt */
    int64_t unknown, code_len;       /* code_len before a repair */
    size_t largest_file;
    Error error;
} Line;

typedef struct {
    const GptDatasetOptions *options;
    Line *lines;
    int64_t n_lines;
    _Atomic int64_t next;
} Check;

/* Reads an npy file that a line names; free() *bytes and *resolved. */
static bool load_npy(Line *line, const char *path, char **resolved, char **bytes, Npy *npy, Error *error) {
    size_t size;
    *resolved = path_join(line->directory, path);
    *bytes = NULL;
    if (!read_file(*resolved, bytes, &size, error)) return false;
    if (size > line->largest_file) line->largest_file = size;
    return npy_parse(*bytes, size, npy, error);
}

/* Reads a row of `length` ids below `limit`; free() *out. */
static bool load_ids(Line *line, const char *key, const char *path, int64_t length, int64_t limit, int32_t **out,
                     Error *error) {
    OWNED char *resolved = NULL, *bytes = NULL;
    char shape[128]; /* " [2, 3]" */
    Npy npy;
    bool ok = load_npy(line, path, &resolved, &bytes, &npy, error);
    if (ok && npy.rank != 1)
        ok = error_set(error, "has shape%s, expected [%lld]", shape_text("", npy.rank, npy.dims, shape),
                       (long long)length);
    if (ok && npy.count != length)
        ok = error_set(error, "has %lld elements, the manifest says %lld", (long long)npy.count, (long long)length);
    if (ok) *out = xmalloc((size_t)npy.count * sizeof **out);
    ok = ok && npy_to_i32(&npy, *out, error);
    for (int64_t i = 0; ok && i < length; i++)
        if ((*out)[i] < 0 || (*out)[i] >= limit)
            ok = error_set(error, "element %lld is %d, expected 0 to %lld", (long long)i, (*out)[i],
                           (long long)limit - 1);
    return ok || error_before(error, "%s %s: ", key, path);
}

bool gpt_vectors_parse(const Npy *npy, int64_t rows, int64_t d_model, float *out, Error *error) {
    bool shape = (npy->rank == 2 && npy->dims[0] == rows && npy->dims[1] == d_model) ||
                 (rows == 1 && npy->rank == 1 && npy->dims[0] == d_model);
    if (!shape) {
        char found[128]; /* " [2, 3]" */
        shape_text("", npy->rank, npy->dims, found);
        const char *advice = "the model's width is --model-dim, that of prepared vectors train_gpt prepare --d-model";
        if (rows == 1) return error_set(error, "has shape%s, expected [%lld]; %s", found, (long long)d_model, advice);
        return error_set(error, "has shape%s, expected [%lld, %lld]; %s", found, (long long)rows, (long long)d_model,
                         advice);
    }
    if (!npy_to_f32(npy, out, error)) return false;
    for (int64_t i = 0; i < rows * d_model; i++)
        if (!isfinite(out[i])) return error_set(error, "element %lld is not finite", (long long)i);
    return true;
}

static bool check_vectors(Line *line, const char *key, const char *path, int64_t rows, int64_t d_model, float *scratch,
                          char **resolved, Error *error) {
    OWNED char *bytes = NULL;
    Npy npy;
    bool ok =
        load_npy(line, path, resolved, &bytes, &npy, error) && gpt_vectors_parse(&npy, rows, d_model, scratch, error);
    if (ok) line->sample.vectors = checksum(line->sample.vectors, scratch, (size_t)(rows * d_model) * sizeof *scratch);
    return ok || error_before(error, "%s %s: ", key, path);
}

/* Returns how many codes a clip should have: frames of 25 ms every 10 ms at 16 kHz, two per code. */
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

static bool check_lengths(const ManifestRecord *r, const GptLayout *l, Error *error) {
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

/* Reads ids and codes, and checks the vectors. */
static bool load_files(Line *line, const GptLayout *l, const ManifestRecord *r, float *scratch, Error *error) {
    GptSample *s = &line->sample;
    return load_ids(line, r->text_ids_key, r->text_ids_path, r->text_len, l->text_vocabulary, &s->text, error) &&
           load_ids(line, r->codes_key, r->codes_path, r->code_len, l->audio_vocabulary, &s->codes, error) &&
           check_vectors(line, r->condition_key, r->condition_path, l->n_conditioning, l->d_model, scratch,
                         &s->condition_path, error) &&
           check_vectors(line, r->emo_vec_key, r->emo_vec_path, 1, l->d_model, scratch, &s->emo_vec_path, error);
}

static bool check_record(const Check *check, Line *line, const ManifestRecord *r, float *scratch, Error *error) {
    const GptLayout *l = &check->options->layout;
    GptSample *s = &line->sample;
    line->paired = r->paired;
    if (r->prompt_id && !isnan(r->prompt_duration)) {
        line->prompt_id = xstrdup(r->prompt_id);
        line->prompt_seconds = r->prompt_duration;
    }
    if (!split_includes(check->options->split, r->target_id, check->options->val_ratio)) return true;
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

static void sample_close(GptSample *s) {
    void *const owned[] = {s->id, s->condition_path, s->emo_vec_path, s->text, s->codes};
    for (int k = 0; k < 5; k++) free(owned[k]);
}

/* Frees what a bad line has got so far, and puts its place before the error. */
static void make_bad(Line *line, const Error *why) {
    line->error = *why;
    error_before(&line->error, line->column ? "%s:%lld:%d: " : "%s:%lld: ", line->manifest, (long long)line->number,
                 line->column);
    sample_close(&line->sample);
    free(line->target_id);
    free(line->prompt_id);
    line->sample = (GptSample){.id = NULL};
    line->target_id = line->prompt_id = NULL;
    line->bad = true;
}

static void *check_worker(void *argument) {
    Check *check = argument;
    const GptLayout *l = &check->options->layout;
    OWNED float *scratch = xmalloc((size_t)l->n_conditioning * (size_t)l->d_model * sizeof *scratch);
    for (int64_t i; (i = atomic_fetch_add(&check->next, 1)) < check->n_lines;) {
        Line *line = &check->lines[i];
        ManifestRecord record;
        Error why;
        if (!manifest_parse_line(line->text, line->size, &record, &line->number, &line->column, &why)) {
            make_bad(line, &why);
            continue;
        }
        if (!check_record(check, line, &record, scratch, &why)) make_bad(line, &why);
        manifest_record_close(&record);
    }
    return NULL;
}

static void check_lines(Check *check) {
    int n = check->options->n_threads > 1 ? check->options->n_threads : 1;
    OWNED pthread_t *threads = xcalloc((size_t)n, sizeof *threads);
    for (int i = 0; i < n; i++) thread_start(&threads[i], check_worker, check, "that reads the files of the manifest");
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

/* Prints the first ten bad lines. They end the program, unless they may be left out. */
static void report_bad_lines(const Check *check) {
    enum { MAX_REPORTED = 10 };
    int64_t bad = 0;
    for (int64_t i = 0; i < check->n_lines; i++)
        if (check->lines[i].bad && bad++ < MAX_REPORTED) fprintf(stderr, "%s\n", check->lines[i].error.text);
    if (bad > MAX_REPORTED) fprintf(stderr, "... and %lld more\n", (long long)bad - MAX_REPORTED);
    if (bad && !check->options->skip_bad)
        die("%lld of %lld manifest lines cannot be used; --skip-bad leaves them out", (long long)bad,
            (long long)check->n_lines);
    if (bad && bad == check->n_lines) die("none of the %lld manifest lines can be used", (long long)bad);
    if (bad)
        printf("[Data] manifest lines that cannot be used left out: %lld of %lld\n", (long long)bad,
               (long long)check->n_lines);
}

/* Removes the bad lines, which own nothing. */
static void drop_bad_lines(Check *check) {
    int64_t n = 0;
    for (int64_t i = 0; i < check->n_lines; i++)
        if (!check->lines[i].bad) check->lines[n++] = check->lines[i];
    check->n_lines = n;
}

/* Returns "FOLDER/ID", which identifies a clip over all manifests; free(). */
static char *clip_name(const Line *line, const char *id) { return xformat("%s/%s", line->directory, id); }

/* Finds missing durations of targets. The pairs of the original preprocessing give the duration of the prompt only, but
 * a target may be the prompt of another line. */
static void find_durations(const Check *check) {
    json_auto_t *known = json_object();
    for (int64_t i = 0; i < check->n_lines; i++) {
        const Line *line = &check->lines[i];
        if (!line->prompt_id) continue;
        OWNED char *name = clip_name(line, line->prompt_id); /* names of folders may have any bytes */
        json_object_set_new_nocheck(known, name, json_real(line->prompt_seconds));
    }
    for (int64_t i = 0; i < check->n_lines; i++) {
        Line *line = &check->lines[i];
        if (!line->included) continue;
        OWNED char *name = clip_name(line, line->target_id);
        const json_t *seconds = json_object_get(known, name);
        if (isnan(line->duration) && seconds) line->duration = json_real_value(seconds);
        check_padding(line, check->options->repair_codes);
    }
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

static void quantiles(const GptSamples *all, bool of_text, int64_t *out) {
    int64_t n = all->n;
    OWNED int64_t *lengths = xmalloc((size_t)(n + 1) * sizeof *lengths);
    for (int64_t i = 0; i < n; i++) lengths[i] = of_text ? all->items[i].text_len : all->items[i].code_len;
    qsort(lengths, (size_t)n, sizeof *lengths, compare_integers);
    for (int q = 0; q < 5; q++) out[q] = n ? lengths[q * (n - 1) / 4] : 0;
}

static void fill_report(const Check *check, const GptSamples *all, GptDatasetReport *r) {
    *r = (GptDatasetReport){.lines = check->n_lines, .samples = all->n};
    const Line *previous = NULL;
    int64_t run = 0;
    for (int64_t i = 0; i < check->n_lines; i++) {
        const Line *line = &check->lines[i];
        const GptSample *s = &line->sample;
        if (!line->included) continue;
        r->paired += line->paired;
        r->single += !line->paired;
        r->padded_codes += line->padded;
        r->repaired += line->repaired;
        r->no_duration += isnan(line->duration) != 0;
        r->unknown_tokens += line->unknown;
        r->text_tokens += s->text_len;
        r->codes += s->code_len;
        if (previous && !strcmp(line->target_id, previous->target_id))
            continue; /* the same codes with another prompt */
        run = previous && line->code_len == previous->code_len ? run + 1 : 1;
        r->equal_code_runs += run == 4;
        previous = line;
    }
    r->seconds_of_audio = (double)r->codes / CODES_PER_SECOND;
    quantiles(all, true, r->text_length_quantiles);
    quantiles(all, false, r->code_length_quantiles);
}

/* The paths, texts and folders of the manifests: lines point into them. */
typedef struct {
    char *path, *text, *directory;
} Manifest;

/* Adds the records of a manifest: its lines, or the elements of its array. */
static void add_lines(Check *check, const Manifest *m, size_t size) {
    size_t mark = utf8_mark(m->text, size);
    JsonRecords records = json_records_open(m->text + mark, size - mark, 1, true);
    Error error;
    while (json_records_next(&records, &error)) {
        check->lines = xgrow(check->lines, (size_t)check->n_lines, sizeof *check->lines);
        check->lines[check->n_lines++] = (Line){.manifest = m->path,
                                                .directory = m->directory,
                                                .text = records.text,
                                                .size = records.size,
                                                .number = records.line,
                                                .column = records.is_array ? records.column : 0};
    }
    if (error.text[0]) die("manifest %s:%s", m->path, error.text);
}

static Manifest read_manifest(const char *spec, Check *check) {
    Manifest m;
    OWNED char *language = NULL; /* a hint for text front ends; the model does not see it */
    size_t size;
    int64_t before = check->n_lines;
    file_split_label(spec, &m.path, &language);
    MUST_OR(text_read(m.path, &m.text, &size, &error), "manifest %s: %s", m.path, error.text);
    m.directory = path_directory(m.path);
    add_lines(check, &m, size);
    if (check->n_lines == before)
        die("manifest %s: has no lines (train_gpt prepare --val-ratio X holds out more)", m.path);
    return m;
}

/* Takes the samples of the split out of the lines. */
static GptSamples collect_samples(Check *check) {
    GptSamples all = {.items = xcalloc((size_t)check->n_lines, sizeof *all.items)};
    for (int64_t i = 0; i < check->n_lines; i++) {
        const Line *line = &check->lines[i];
        if (!line->included) continue;
        all.items[all.n++] = line->sample;
        if (line->largest_file > all.largest_file) all.largest_file = line->largest_file;
    }
    return all;
}

GptSamples gpt_samples_read(const char *const *specs, int n_specs, const GptDatasetOptions *options,
                            GptDatasetReport *report) {
    Check check = {.options = options};
    OWNED Manifest *manifests = xcalloc((size_t)n_specs, sizeof *manifests);
    for (int i = 0; i < n_specs; i++) manifests[i] = read_manifest(specs[i], &check);
    check_lines(&check);
    report_bad_lines(&check);
    drop_bad_lines(&check);
    check_kinds(&check);
    find_durations(&check);
    GptSamples all = collect_samples(&check);
    fill_report(&check, &all, report);
    for (int64_t i = 0; i < check.n_lines; i++) {
        free(check.lines[i].target_id);
        free(check.lines[i].prompt_id);
    }
    for (int i = 0; i < n_specs; i++) {
        free(manifests[i].path);
        free(manifests[i].text);
        free(manifests[i].directory);
    }
    free(check.lines);
    return all;
}

void gpt_samples_close(GptSamples *samples) {
    for (int64_t i = 0; i < samples->n; i++) sample_close(&samples->items[i]);
    free(samples->items);
    *samples = (GptSamples){0};
}
