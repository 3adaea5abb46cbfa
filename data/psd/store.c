#include "data/psd/store.h"

#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "data/formats/csv.h"
#include "data/formats/foreign.h"
#include "data/formats/npy.h"
#include "data/formats/tensor_file_open.h"
#include "data/formats/text_source.h"
#include "data/psd/levels.h"
#include "data/psd/manifest.h"

static const char FORM[] = "5"; /* how samples are computed; a store of another form is made again */
static const PsdOptions DEFAULTS = {false, PSD_LIMIT};

char *psd_store_path(const char *manifest) {
    return xformat("%.*s.psd.safetensors", (int)(strlen(manifest) - strlen(".csv")), manifest);
}

/* ---- opening ---- */

/* Returns the data of a tensor with this type and these sizes (-1: any). NULL with an error; NULL without one if the
 * tensor is absent and not required. */
static void *take(const TensorFile *file, const char *name, const char *dtype, int64_t rows, int64_t width,
                  bool required, Error *error) {
    const StoredTensor *t = tensor_file_find(file, name);
    char text[128];
    if (!t) {
        if (required) error_set(error, "has no tensor '%s': it is no store of spectra", name);
        return NULL;
    }
    bool fits = !strcmp(t->dtype, dtype) && t->rank == (width ? 2 : 1) && (rows < 0 || t->dims[0] == rows) &&
                (width <= 0 || t->dims[1] == width);
    if (!fits) {
        char want[64] = "n";
        if (rows >= 0) snprintf(want, sizeof want, "%lld", (long long)rows);
        error_set(error, "tensor '%s' is %s; expected %s [%s%s]", name, shape_text(t->dtype, t->rank, t->dims, text),
                  dtype, want,
                  width > 0   ? ", 200"
                  : width < 0 ? ", V"
                              : "");
        return NULL;
    }
    if ((uintptr_t)t->data % sizeof(float)) {
        error_set(error, "tensor '%s' does not begin at a multiple of 4 bytes", name);
        return NULL;
    }
    return (void *)(uintptr_t)t->data;
}

/* Returns NULL if there is no such key. */
static const char *metadata(const PsdStore *s, const char *key) { return tensor_file_metadata(&s->file, key); }

static bool take_sensors(PsdStore *s, Error *error) {
    const char *text = metadata(s, "sensors");
    json_t *list = s->sensor_list = text ? json_loads(text, 0, NULL) : NULL;
    if (!json_is_array(list)) return error_set(error, "its metadata have no \"sensors\", a JSON list of names");
    s->n_sensors = (int)json_array_size(list);
    s->sensor_names = xcalloc((size_t)s->n_sensors, sizeof *s->sensor_names);
    for (int i = 0; i < s->n_sensors; i++) {
        s->sensor_names[i] = json_string_value(json_array_get(list, (size_t)i));
        if (!s->sensor_names[i]) return error_set(error, "name %d of \"sensors\" is not a text", i);
    }
    return true;
}

/* Reads from what and with what options the store was made, as far as it says. */
static bool take_origin(PsdStore *s, Error *error) {
    const char *hash = metadata(s, "manifest"), *hop = metadata(s, "hop"), *limit = metadata(s, "limit");
    s->options = DEFAULTS;
    s->manifest_hash = hash ? strtoull(hash, NULL, 16) : 0;
    if (hop) s->options.hop = !strcmp(hop, "true");
    if (hop && !s->options.hop && strcmp(hop, "false"))
        return error_set(error, "its metadata's \"hop\" is %.40s; expected true or false", hop);
    if (limit && (!csv_number(limit, &s->options.limit) || s->options.limit < 0))
        return error_set(error, "its metadata's \"limit\" is %.40s; expected 0 or a number above", limit);
    return true;
}

static bool check_range(const char *name, const int32_t *values, int64_t n, int64_t end, Error *error) {
    for (int64_t i = 0; i < n; i++)
        if (values[i] < 0 || values[i] >= end)
            return error_set(error, "%s[%lld] is %d; expected 0 to %lld", name, (long long)i, (int)values[i],
                             (long long)end - 1);
    return true;
}

static bool check_visible(const PsdStore *s, Error *error) {
    if (!s->visible) return true;
    if (!s->n_visible || s->n_visible > PSD_PATCHES)
        return error_set(error, "visible names %d of %d patches", s->n_visible, PSD_PATCHES);
    if (!check_range("visible", s->visible, s->n * s->n_visible, PSD_PATCHES, error)) return false;
    for (int64_t i = 1; i < s->n * s->n_visible; i++)
        if (i % s->n_visible && s->visible[i] <= s->visible[i - 1])
            return error_set(error, "visible[%lld] does not ascend", (long long)(i / s->n_visible));
    return true;
}

static bool check_rows(PsdStore *s, Error *error) {
    const char *text = metadata(s, "rows");
    for (int64_t i = 1; i < s->n; i++)
        if (s->rows[i] < s->rows[i - 1])
            return error_set(error, "row[%lld] is %d, behind %d; rows may not descend", (long long)i, s->rows[i],
                             s->rows[i - 1]);
    int64_t least = (int64_t)s->rows[s->n - 1] + 1;
    s->n_rows = text ? atoll(text) : least;
    return s->n_rows >= least ||
           error_set(error, "its metadata's \"rows\" is %.40s; row %lld has a sample", text, (long long)least - 1);
}

static bool check_values(PsdStore *s, int n_threads, Error *error) {
    int64_t bad = INT64_MAX;
#pragma omp parallel for num_threads(n_threads) reduction(min : bad)
    for (int64_t i = 0; i < s->n * PSD_BINS; i++)
        if (!isfinite(s->psd[i]) && i < bad) bad = i;
    if (bad < INT64_MAX) return error_set(error, "psd[%lld] is not finite", (long long)(bad / PSD_BINS));
    bool ok = check_range("label", s->labels, s->n, PSD_LABELS, error) &&
              check_range("sensor", s->sensors, s->n, s->n_sensors, error) &&
              check_range("file", s->files, s->n, INT32_MAX, error) &&
              check_range("row", s->rows, s->n, INT32_MAX, error) && check_rows(s, error) &&
              (!s->positive || check_range("positive", s->positive, s->n, s->n, error)) && check_visible(s, error);
    for (int64_t i = 0; i < s->n && ok; i++)
        if (s->files[i] >= s->n_files) s->n_files = s->files[i] + 1;
    return ok;
}

static bool take_tensors(PsdStore *s, int n_threads, Error *error) {
    const TensorFile *f = &s->file;
    error->text[0] = 0;
    s->psd = take(f, "psd", "F32", -1, PSD_BINS, true, error);
    if (!s->psd) return false;
    s->n = tensor_file_find(f, "psd")->dims[0];
    if (!s->n || s->n > INT32_MAX) return error_set(error, "has %lld samples", (long long)s->n);
    bool ok = (s->labels = take(f, "label", "I32", s->n, 0, true, error)) &&
              (s->sensors = take(f, "sensor", "I32", s->n, 0, true, error)) &&
              (s->files = take(f, "file", "I32", s->n, 0, true, error)) &&
              (s->rows = take(f, "row", "I32", s->n, 0, true, error)) &&
              (s->snr = take(f, "snr", "F32", s->n, 0, true, error));
    if (!ok) return false;
    s->positive = take(f, "positive", "I32", s->n, 0, false, error);
    s->visible = take(f, "visible", "I32", s->n, -1, false, error);
    if (s->visible) s->n_visible = (int)tensor_file_find(f, "visible")->dims[1];
    return !error->text[0] && take_sensors(s, error) && take_origin(s, error) && check_values(s, n_threads, error);
}

static bool open_store(PsdStore *s, const char *path, int n_threads, Error *error) {
    Error why;
    *s = (PsdStore){0};
    if (tensor_file_open(path, &s->file, &why) && take_tensors(s, n_threads, &why)) return true;
    psd_store_close(s);
    return error_set(error, "%s: %s", path, why.text);
}

void psd_store_close(PsdStore *s) {
    free(s->sensor_names);
    json_decref(s->sensor_list);
    tensor_file_close(&s->file);
    *s = (PsdStore){0};
}

/* ---- the recordings that the store was made from ---- */

/* The state of a file when it was read. */
typedef struct {
    int64_t size, changed; /* bytes; time of the last change, nanoseconds */
    uint64_t sum;          /* checksum of its bytes */
} Recording;

/* The files of one manifest. */
typedef struct {
    json_t *list; /* owns the names */
    int64_t n;
    const char **names;
    Recording *all;
} Recordings;

static bool measure(const char *path, Recording *r) {
    struct stat status;
    if (stat(path, &status)) return false;
    r->size = status.st_size;
    r->changed = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
    return true;
}

static bool same_times(const Recording *a, const Recording *b) {
    return a->size == b->size && a->changed == b->changed && a->sum == b->sum;
}

/* [["a.npy", size, changed, "sum"], ...] */
static json_t *recordings_list(int64_t n, const char *const *names, const Recording *all) {
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++) {
        char sum[17];
        snprintf(sum, sizeof sum, "%016llx", (unsigned long long)all[i].sum);
        json_array_append_new(list, json_build("the names of recordings", "[s, I, I, s]", names[i],
                                               (json_int_t)all[i].size, (json_int_t)all[i].changed, sum));
    }
    return list;
}

static void recordings_close(Recordings *r) {
    json_decref(r->list);
    free(r->names);
    free(r->all);
    *r = (Recordings){0};
}

/* Takes ownership of the list, which may be NULL. */
static bool recordings_parse(json_t *list, Recordings *r) {
    *r = (Recordings){.list = list, .n = (int64_t)json_array_size(list)};
    bool ok = json_is_array(list);
    r->names = xcalloc((size_t)r->n, sizeof *r->names);
    r->all = xcalloc((size_t)r->n, sizeof *r->all);
    for (int64_t i = 0; i < r->n && ok; i++) {
        json_int_t size, changed;
        const char *sum;
        ok = !json_unpack(json_array_get(list, (size_t)i), "[s, I, I, s]", &r->names[i], &size, &changed, &sum);
        if (ok) r->all[i] = (Recording){size, changed, strtoull(sum, NULL, 16)};
    }
    if (!ok) recordings_close(r);
    return ok;
}

/* Copies of recordings have other times than those in the store. For recordings that were read and are the same, a
 * small file beside the store keeps the new times. It is used only where its checksums are those of the store. */
static char *times_path(const char *store) {
    return xformat("%.*s.times.json", (int)(strlen(store) - strlen(".safetensors")), store);
}

/* Reads the kept times; none if there is no such file, or if it is for other recordings. */
static Recordings times_read(const char *store, const Recordings *made) {
    char *path = times_path(store);
    json_t *file = json_read(path, 0, NULL);
    Recordings kept = {0};
    if (file && json_sum_check(file, 0, 0, NULL))
        recordings_parse(json_incref(json_object_get(file, "recordings")), &kept);
    if (kept.n != made->n) recordings_close(&kept);
    json_decref(file);
    free(path);
    return kept;
}

static void times_write(const char *store, const Recordings *made, const Recording *now) {
    char *path = times_path(store);
    json_t *file = json_build(path, "{s:o}", "recordings", recordings_list(made->n, made->names, now));
    json_sum_set(file, 0, 0);
    char *text = json_text(path, file, JSON_COMPACT);
    Error why;
    if (!file_write_atomic(path, text, strlen(text), &why))
        warn("%s; every start reads the recordings until their times can be kept there", why.text);
    free(text);
    json_decref(file);
    free(path);
}

/* Returns whether a file's bytes have changed. A file that cannot be read counts as absent, which is no change. */
static bool has_changed(const char *manifest, const char *name, Recording *now, const Recording *made) {
    char *path = psd_manifest_file(manifest, name), *bytes;
    size_t n;
    Error why;
    bool other = false;
    if (read_file(path, &bytes, &n, &why)) {
        other = checksum(0, bytes, n) != made->sum;
        free(bytes);
    } else {
        *now = *made;
#pragma omp critical
        warn("%s: %s; the store goes on without it", path, why.text);
    }
    free(path);
    return other;
}

/* Compares sizes and times. An absent file has not changed, because a store may be copied without its recordings.
 * Returns the first file of another size (n: none). now: [n] the present state; must_read: [n] whether the time
 * differs; *n_read: how many do. */
static int64_t compare_times(const char *manifest, const Recordings *made, const Recordings *kept, Recording *now,
                             bool *must_read, int64_t *n_read) {
    *n_read = 0;
    for (int64_t i = 0; i < made->n; i++) {
        char *path = psd_manifest_file(manifest, made->names[i]);
        now[i] = made->all[i];
        bool there = measure(path, &now[i]);
        free(path);
        if (there && now[i].size != made->all[i].size) return i;
        must_read[i] = there && !same_times(&now[i], &made->all[i]) && !(kept->n && same_times(&now[i], &kept->all[i]));
        *n_read += must_read[i];
    }
    return made->n;
}

/* Returns the first recording that has changed; n: none. Reads those with other times, because copying changes times.
 */
static int64_t find_changed(const char *manifest, const char *store, const Recordings *made, int n_threads) {
    Recordings kept = times_read(store, made);
    Recording *now = xcalloc((size_t)made->n, sizeof *now);
    bool *must_read = xcalloc((size_t)made->n, sizeof *must_read);
    int64_t n_read, first = compare_times(manifest, made, &kept, now, must_read, &n_read);
    if (first == made->n && n_read) {
        printf(
            "[Store] %s: %lld of %lld recordings have other times than before: reading them to see if they changed\n",
            store, (long long)n_read, (long long)made->n);
        fflush(stdout);
#pragma omp parallel for schedule(dynamic) num_threads(n_threads) reduction(min : first)
        for (int64_t i = 0; i < made->n; i++)
            if (must_read[i] && has_changed(manifest, made->names[i], &now[i], &made->all[i]) && i < first) first = i;
        if (first == made->n) times_write(store, made, now);
    }
    recordings_close(&kept);
    free(now);
    free(must_read);
    return first;
}

/* Checks that all recordings are unchanged. The error names the first one that is not. */
static bool check_recordings(const PsdStore *s, const char *manifest, const char *store, int n_threads, Error *error) {
    const char *text = metadata(s, "recordings");
    Recordings made;
    if (!text) return error_set(error, "%s does not say which recordings it was made from", store);
    if (!recordings_parse(json_loads(text, 0, NULL), &made))
        return error_set(error, "%s: its \"recordings\" are no list of files", store);
    int64_t changed = find_changed(manifest, store, &made, n_threads);
    bool same = changed == made.n || error_set(error, "%s: %s has changed", store, made.names[changed]);
    recordings_close(&made);
    return same;
}

/* ---- making ---- */

/* A store that is being made. */
typedef struct {
    const char *path; /* the manifest's */
    const PsdManifest *manifest;
    const PsdOptions *options;
    int64_t n, *starts;    /* [rows + 1] the first sample of each row */
    int64_t *by_file;      /* [rows] rows, file by file */
    Recording *recordings; /* [files] */
    PsdLevel *levels;      /* [sensors] */
    float *psd, *snr;
    int32_t *labels, *sensors, *files, *rows;
    int64_t padded, limited, constant, not_finite, dropped; /* counts of rows, values, rows, bins, rows */
    int64_t bad;                                            /* the first bad row; n: none so far */
    Error *error;
} StoreMaker;

/* Sorts the rows by file and keeps their order within a file. Returns where the rows of each file begin; free(). */
static int64_t *sort_by_file(const PsdManifest *m, int64_t *by_file) {
    int64_t *ends = xcalloc((size_t)m->n_files + 1, sizeof *ends);
    for (int64_t i = 0; i < m->n; i++) ends[m->files[i] + 1]++;
    for (int f = 0; f < m->n_files; f++) ends[f + 1] += ends[f];
    int64_t *at = xmalloc((size_t)m->n_files * sizeof *at);
    memcpy(at, ends, (size_t)m->n_files * sizeof *at);
    for (int64_t i = 0; i < m->n; i++) by_file[at[m->files[i]]++] = i;
    free(at);
    return ends;
}

/* Reports a bad row. The first one counts, whatever the number of threads. */
static void refuse(StoreMaker *k, int64_t row, const char *format, ...) PRINTF_LIKE(3, 4);
static void refuse(StoreMaker *k, int64_t row, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
#pragma omp critical
    if (row < k->bad) {
        k->bad = row;
        error_set(k->error, "%s:%lld: %s", k->path, (long long)k->manifest->lines[row], text);
    }
}

/* Preprocesses one row of the manifest from its file. */
static bool make_row(StoreMaker *k, int64_t id, const Npy *npy, double *row, PsdScratch *scratch, PsdRow *found) {
    const PsdManifest *m = k->manifest;
    int64_t rows = npy->rank == 2 ? npy->dims[0] : 1, width = npy->dims[npy->rank - 1], at = m->row_index[id];
    Error why;
    *found = (PsdRow){0};
    if (at >= rows)
        refuse(k, id, "row_index is %lld, but %s has %lld rows", (long long)at, m->file_paths[m->files[id]],
               (long long)rows);
    else if (width != m->num_bins[id])
        refuse(k, id, "num_bins is %lld, but %s has rows of %lld", (long long)m->num_bins[id],
               m->file_paths[m->files[id]], (long long)width);
    else if (!width) /* the row has a number but no sample */
        return true;
    else {
        npy_to_f64(npy, at * width, width, row);
        if (psd_preprocess(row, width, k->options, scratch, k->psd + k->starts[id] * PSD_BINS, found, &why))
            return true;
        refuse(k, id, "row %lld of %s: %s; make the manifest with train_psd prepare, which leaves out such rows",
               (long long)at, m->file_paths[m->files[id]], why.text);
    }
    return false;
}

static void fill_columns(StoreMaker *k, int64_t id, const PsdRow *found) {
    for (int64_t s = k->starts[id]; s < k->starts[id + 1]; s++) {
        k->labels[s] = k->manifest->labels[id];
        k->sensors[s] = k->manifest->sensors[id];
        k->files[s] = k->manifest->files[id];
        k->rows[s] = (int32_t)id;
        k->snr[s] = (float)found->snr;
    }
}

/* Makes the samples of all rows of a file. */
static void make_file(StoreMaker *k, const int64_t *ids, int64_t n) {
    const char *name = k->manifest->file_paths[k->manifest->files[ids[0]]];
    char *path = psd_manifest_file(k->path, name), *bytes = NULL;
    size_t size;
    Npy npy;
    Error why;
    int64_t padded = 0, limited = 0, constant = 0, not_finite = 0, dropped = 0;
    PsdLevel *levels = xcalloc((size_t)k->manifest->n_sensors, sizeof *levels);
    Recording *recording = &k->recordings[k->manifest->files[ids[0]]];
    bool measured = measure(path, recording); /* before reading, so that a later change shows */
    if (!read_file(path, &bytes, &size, &why) || !npy_parse(bytes, size, &npy, &why)) {
        refuse(k, ids[0], "%s: %s", name, why.text);
    } else if (!measured || (int64_t)size != recording->size) {
        refuse(k, ids[0], "%s: was changed while it was read; run again", name);
    } else if (npy.rank < 1 || npy.rank > 2) {
        refuse(k, ids[0], "%s: has %d dimensions; expected rows of bins", name, npy.rank);
    } else {
        recording->sum = checksum(0, bytes, size);
        PsdScratch scratch = {0};
        double *row = xmalloc((size_t)npy.dims[npy.rank - 1] * sizeof *row);
        PsdRow found;
        for (int64_t i = 0; i < n && make_row(k, ids[i], &npy, row, &scratch, &found); i++) {
            fill_columns(k, ids[i], &found);
            psd_level_add(&levels[k->manifest->sensors[ids[i]]], &found);
            padded += found.padded > 0;
            limited += found.limited;
            constant += found.constant;
            not_finite += found.not_finite;
            dropped += k->starts[ids[i]] == k->starts[ids[i] + 1];
        }
        psd_scratch_free(&scratch);
        free(row);
    }
#pragma omp critical
    {
        k->padded += padded;
        k->limited += limited;
        k->constant += constant;
        k->not_finite += not_finite;
        k->dropped += dropped;
        for (int sensor = 0; sensor < k->manifest->n_sensors; sensor++)
            psd_level_join(&k->levels[sensor], &levels[sensor]);
    }
    free(levels);
    free(bytes);
    free(path);
}

static bool write_store(const StoreMaker *k, const char *path, uint64_t hash, Error *error) {
    const TensorToWrite tensors[] = {
        {"psd", "F32", 2, {k->n, PSD_BINS}, k->psd}, {"label", "I32", 1, {k->n}, k->labels},
        {"sensor", "I32", 1, {k->n}, k->sensors},    {"file", "I32", 1, {k->n}, k->files},
        {"row", "I32", 1, {k->n}, k->rows},          {"snr", "F32", 1, {k->n}, k->snr}};
    json_t *names = json_array(), *list, *doubts;
    for (int i = 0; i < k->manifest->n_sensors; i++)
        json_array_append_new(names, json_string(k->manifest->sensor_names[i]));
    char *sensors = json_text("the names of sensors", names, 0), *limit = xformat("%.17g", k->options->limit);
    char *rows = xformat("%lld", (long long)k->manifest->n), *manifest = xformat("%016llx", (unsigned long long)hash);
    list = recordings_list(k->manifest->n_files, (const char *const *)k->manifest->file_paths, k->recordings);
    doubts = psd_levels_doubtful(k->levels, (const char *const *)k->manifest->sensor_names, k->manifest->n_sensors);
    char *recordings = json_text("the names of recordings", list, JSON_COMPACT);
    char *doubtful = json_text("the names of sensors", doubts, 0);
    const char *const keys[] = {"sensors", "rows", "manifest", "hop", "limit", "form", "recordings", "doubtful"};
    const char *const values[] = {sensors, rows, manifest,   k->options->hop ? "true" : "false",
                                  limit,   FORM, recordings, doubtful};
    bool ok = safetensors_write(path, tensors, 6, keys, values, 8, error);
    json_decref(names);
    json_decref(list);
    json_decref(doubts);
    free(sensors);
    free(rows);
    free(manifest);
    free(recordings);
    free(doubtful);
    free(limit);
    return ok;
}

static bool make_samples(StoreMaker *k, int n_threads) {
    const PsdManifest *m = k->manifest;
    size_t n = (size_t)k->n;
    k->by_file = xmalloc((size_t)m->n * sizeof *k->by_file);
    k->psd = xmalloc(n * PSD_BINS * sizeof *k->psd);
    k->snr = xmalloc(n * sizeof *k->snr);
    k->recordings = xcalloc((size_t)m->n_files, sizeof *k->recordings);
    k->levels = xcalloc((size_t)m->n_sensors, sizeof *k->levels);
    int32_t **const columns[] = {&k->labels, &k->sensors, &k->files, &k->rows};
    for (int i = 0; i < 4; i++) *columns[i] = xmalloc(n * sizeof(int32_t));
    int64_t *starts = sort_by_file(m, k->by_file);
#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
    for (int f = 0; f < m->n_files; f++) make_file(k, k->by_file + starts[f], starts[f + 1] - starts[f]);
    free(starts);
    return k->bad == m->n;
}

static bool count_samples(StoreMaker *k, Error *error) {
    const PsdManifest *m = k->manifest;
    k->starts = xmalloc((size_t)(m->n + 1) * sizeof *k->starts);
    k->starts[0] = 0;
    for (int64_t i = 0; i < m->n; i++)
        if (__builtin_add_overflow(k->starts[i], psd_samples(m->num_bins[i], k->options), &k->starts[i + 1]) ||
            k->starts[i + 1] > INT32_MAX)
            return error_set(error, "%s:%lld: more than 2^31 - 1 samples", k->path, (long long)m->lines[i]);
    k->n = k->starts[m->n];
    k->bad = m->n;
    return true;
}

/* Makes the store of the manifest (*text)[size], whose hash is `hash`. Modifies or replaces the text. */
static bool make_store(const char *manifest_path, char **text, size_t size, uint64_t hash, const char *path,
                       const PsdOptions *options, int n_threads, Error *error) {
    PsdManifest m;
    double start = seconds_now();
    Error why;
    if (!text_decode(text, &size, &why)) return error_set(error, "%s: %s", manifest_path, why.text);
    if (!psd_manifest_parse(*text, size, &m, &why)) return error_set(error, "%s:%s", manifest_path, why.text);
    psd_manifest_print_sensors(manifest_path, &m);
    StoreMaker k = {.path = manifest_path, .manifest = &m, .options = options, .error = error};
    bool ok = count_samples(&k, error) && make_samples(&k, n_threads);
    if (ok && !k.n) ok = error_set(error, "%s: no row has the %d bins of a sample", manifest_path, PSD_BINS);
    if (ok) ok = write_store(&k, path, hash, error);
    if (ok)
        printf("[Store] %s: %lld samples of %lld rows in %.1f s; %lld rows padded, %lld constant, %lld dropped as too "
               "narrow; %lld values limited, %lld bins not finite\n",
               path, (long long)k.n, (long long)m.n, seconds_now() - start, (long long)k.padded, (long long)k.constant,
               (long long)k.dropped, (long long)k.limited, (long long)k.not_finite);
    void *const all[] = {k.starts, k.by_file, k.recordings, k.levels, k.psd,
                         k.snr,    k.labels,  k.sensors,    k.files,  k.rows};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    psd_manifest_close(&m);
    return ok;
}

/* ---- open or make ---- */

static bool same_options(PsdOptions a, PsdOptions b) { return a.hop == b.hop && a.limit == b.limit; }

static const char *options_text(PsdOptions options, char text[64]) {
    snprintf(text, 64, "%s --hop, with --limit %g", options.hop ? "with" : "without", options.limit);
    return text;
}

/* Opens a store by its own name. If it does not say how it was made, it is trusted to have the wanted options. */
static bool open_alone(PsdStore *s, const char *path, const bool *hop, const double *limit, int n_threads,
                       Error *error) {
    if (!open_store(s, path, n_threads, error)) return false;
    char asked_text[64], made_text[64];
    PsdOptions asked = {hop ? *hop : s->options.hop, limit ? *limit : s->options.limit};
    bool trusted = (hop && !metadata(s, "hop")) || (limit && !metadata(s, "limit"));
    if (!metadata(s, "hop")) s->options.hop = asked.hop;
    if (!metadata(s, "limit")) s->options.limit = asked.limit;
    options_text(asked, asked_text);
    options_text(s->options, made_text);
    if (same_options(asked, s->options)) {
        if (trusted) printf("[Store] %s does not say how it was made: taken as %s\n", path, made_text);
        return true;
    }
    psd_store_close(s);
    return error_set(error,
                     "%s: was made %s, not %s; leave these options out, or give the manifest, from which "
                     "another store is made",
                     path, made_text, asked_text);
}

/* A request for the store of a manifest. */
typedef struct {
    const char *manifest, *path; /* files: the manifest, the store */
    uint64_t hash;               /* of the manifest */
    const bool *hop;             /* NULL: as in the present store */
    const double *limit;
    int n_threads;
    PsdOptions options; /* the resulting options */
} StoreRequest;

/* Returns whether a file, which may be damaged, begins like a store that was made from a manifest. */
static bool looks_made(int fd) {
    enum { LENGTH = 8, HEAD = 1 << 20 }; /* the text follows its length */
    char *head = xcalloc(HEAD + 1, 1);
    bool made = pread(fd, head, HEAD, LENGTH) > 0 &&
                (strstr(head, "\"__metadata__\":{\"sensors\":\"") || strstr(head, "\"manifest\":\""));
    free(head);
    return made;
}

/* Checks that the present file, if any, may be replaced: it is a store that was made from a manifest, and the options
 * for the new one are known. s: the store, NULL if it could not be opened. */
static bool check_replaceable(const StoreRequest *w, const PsdStore *s, const Error *why, Error *error) {
    size_t size;
    Error reason;
    if (access(w->path, F_OK) && errno == ENOENT) return true;
    int fd = file_open(w->path, &size, &reason);
    if (fd < 0) return error_set(error, "%s: %s", w->path, reason.text);
    bool made = s ? metadata(s, "manifest") != NULL : looks_made(fd);
    close(fd);
    if (!made)
        return error_set(error, "%s is not a store that was made from a manifest, so it is not replaced; move it away",
                         w->path);
    return s || (w->hop && w->limit) ||
           error_set(error, "%s; the options it was made with cannot be read: give --hop (true or false) and --limit",
                     why->text);
}

typedef enum { STORE_USABLE, STORE_TO_MAKE, STORE_REFUSED } StoreState;

/* Opens the present store if it can be used. Otherwise says whether to make it (`why` has the reason, or is empty if
 * there is no store), or that the present file may be neither used nor replaced (*error). */
static StoreState open_made(PsdStore *s, StoreRequest *w, Error *why, Error *error) {
    why->text[0] = 0;
    bool opened = !access(w->path, F_OK) && open_store(s, w->path, w->n_threads, why);
    PsdOptions made = opened ? s->options : DEFAULTS;
    if (!check_replaceable(w, opened ? s : NULL, why, error)) {
        if (opened) psd_store_close(s);
        return STORE_REFUSED;
    }
    w->options = (PsdOptions){w->hop ? *w->hop : made.hop, w->limit ? *w->limit : made.limit};
    if (!opened) return STORE_TO_MAKE;
    const char *form = metadata(s, "form");
    bool usable = s->manifest_hash != w->hash   ? error_set(why, "%s belongs to another manifest", w->path)
                  : !form || strcmp(form, FORM) ? error_set(why, "%s was made by another version", w->path)
                  : !same_options(w->options, s->options)
                      ? error_set(why, "%s was made with other options", w->path)
                      : check_recordings(s, w->manifest, w->path, w->n_threads, why);
    if (!usable) psd_store_close(s);
    return usable ? STORE_USABLE : STORE_TO_MAKE;
}

static bool print_opened(const PsdStore *s, const StoreRequest *w) {
    char text[64];
    printf("[Store] %s: %lld samples, made before, %s\n", w->path, (long long)s->n, options_text(w->options, text));
    return true;
}

/* Opens or makes the store while holding its lock. Reads the manifest again, because it may have been replaced during
 * the wait, and parses the same bytes that it hashes. */
static bool open_or_make(PsdStore *s, StoreRequest *w, Error *error) {
    char *text, asked[64];
    size_t size;
    Error why;
    if (!read_file(w->manifest, &text, &size, &why)) return error_set(error, "%s: %s", w->manifest, why.text);
    w->hash = psd_manifest_hash_text(text, size);
    StoreState state = open_made(s, w, &why, error);
    bool ok = state == STORE_USABLE && print_opened(s, w);
    if (state == STORE_TO_MAKE) {
        if (why.text[0]) printf("[Store] %s; it is made again, %s\n", why.text, options_text(w->options, asked));
        ok = make_store(w->manifest, &text, size, w->hash, w->path, &w->options, w->n_threads, error) &&
             open_store(s, w->path, w->n_threads, error);
    }
    free(text);
    return ok;
}

/* Opens the store of a manifest. One program at a time makes it; a program that has waited for the lock checks again.
 */
static bool open_of_manifest(PsdStore *s, StoreRequest *w, Error *error) {
    FileLock lock;
    Error why;
    if (!psd_manifest_hash(w->manifest, &w->hash, error)) return false;
    StoreState state = open_made(s, w, &why, error);
    if (state == STORE_USABLE) {
        file_remove_stale(w->path);
        return print_opened(s, w);
    }
    if (state == STORE_REFUSED || !file_lock(&lock, w->path, error)) return false;
    bool ok = open_or_make(s, w, error);
    file_unlock(&lock);
    return ok;
}

json_t *psd_store_doubts(const PsdStore *s) {
    const char *text = metadata(s, "doubtful");
    json_t *list = text ? json_loads(text, 0, NULL) : NULL;
    return json_is_array(list) ? list : json_array();
}

/* Warns of sensors whose recordings seem to be in another unit. */
static bool print_doubts(const PsdStore *s, const char *path) {
    json_t *list = psd_store_doubts(s), *text;
    size_t i;
    json_array_foreach(list, i, text) if (json_is_string(text)) warn_once("%s: %s", path, json_string_value(text));
    json_decref(list);
    return true;
}

bool psd_store_open(PsdStore *s, const char *path, const bool *hop, const double *limit, int n_threads, Error *error) {
    *s = (PsdStore){0};
    if (n_threads <= 0) n_threads = omp_get_num_procs();
    if (path_ending(path, ".safetensors"))
        return open_alone(s, path, hop, limit, n_threads, error) && print_doubts(s, path);
    int foreign = foreign_format(path);
    if (!path_ending(path, ".csv"))
        return error_set(error, "%s: expected a manifest (.csv) or a store of spectra (.safetensors)%s%s", path,
                         foreign < 0 ? "" : ", not ", foreign < 0 ? "" : foreign_formats[foreign].what);
    char *store = psd_store_path(path);
    StoreRequest request = {.manifest = path, .path = store, .hop = hop, .limit = limit, .n_threads = n_threads};
    bool ok = open_of_manifest(s, &request, error) && print_doubts(s, path);
    free(store);
    return ok;
}
