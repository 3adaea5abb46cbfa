#include "data/psd/store_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/formats/npy.h"
#include "data/formats/safetensors.h"
#include "data/formats/text_source.h"
#include "data/psd/levels.h"
#include "data/psd/manifest.h"
#include "data/psd/recordings.h"

const char PSD_STORE_FORM[] = "6";

/* Counts: rows, values, rows, bins, rows. */
enum { PADDED, LIMITED, CONSTANT, NOT_FINITE, DROPPED, COUNTS };

/* A store that is being made. */
typedef struct {
    const char *path; /* the manifest's */
    const PsdManifest *manifest;
    const PsdPreprocessing *options;
    int64_t n, *starts;       /* [rows + 1] the first sample of each row */
    int64_t *by_file;         /* [rows] rows, file by file */
    PsdRecording *recordings; /* [files] */
    PsdLevel *levels;         /* [sensors] */
    float *psd, *snr;
    int32_t *labels, *sensors, *files, *rows;
    int64_t counts[COUNTS];
    int64_t bad; /* the first bad row; n: none so far */
    Error *error;
} StoreMaker;

/* Sorts the rows by file and keeps their order within a file. Returns where the rows of each file begin; free(). */
static int64_t *sort_by_file(const PsdManifest *m, int64_t *by_file) {
    int64_t *ends = xcalloc((size_t)m->n_files + 1, sizeof *ends);
    for (int64_t i = 0; i < m->n; i++) ends[m->files[i] + 1]++;
    for (int f = 0; f < m->n_files; f++) ends[f + 1] += ends[f];
    OWNED int64_t *at = xmalloc((size_t)m->n_files * sizeof *at);
    memcpy(at, ends, (size_t)m->n_files * sizeof *at);
    for (int64_t i = 0; i < m->n; i++) by_file[at[m->files[i]]++] = i;
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

/* Adds the rows of a level to those of the sensor, and empties the level. */
static void join_level(StoreMaker *k, int32_t sensor, PsdLevel *level) {
#pragma omp critical
    psd_level_join(&k->levels[sensor], level);
    *level = (PsdLevel){0};
}

/* Makes the samples of all rows of a file. */
static void make_file(StoreMaker *k, const int64_t *ids, int64_t n) {
    const char *name = k->manifest->file_paths[k->manifest->files[ids[0]]];
    OWNED char *path = psd_manifest_file(k->path, name);
    OWNED char *bytes = NULL;
    size_t size;
    Npy npy;
    Error why;
    int64_t counts[COUNTS] = {0};
    PsdLevel level = {0}; /* of the rows since the last change of the sensor */
    PsdRecording *recording = &k->recordings[k->manifest->files[ids[0]]];
    bool measured = psd_recording_measure(path, recording); /* before reading, so that a later change shows */
    if (!read_file(path, &bytes, &size, &why) || !npy_parse(bytes, size, &npy, &why)) {
        refuse(k, ids[0], "%s: %s", name, why.text);
    } else if (!measured || (int64_t)size != recording->size) {
        refuse(k, ids[0], "%s: was changed while it was read; run again", name);
    } else if (npy.rank < 1 || npy.rank > 2) {
        refuse(k, ids[0], "%s: has %d dimensions; expected rows of bins", name, npy.rank);
    } else {
        recording->sum = checksum(0, bytes, size);
        OWNED_BY(psd_scratch_free) PsdScratch scratch = {0};
        OWNED double *row = xmalloc((size_t)npy.dims[npy.rank - 1] * sizeof *row);
        PsdRow found;
        for (int64_t i = 0; i < n && make_row(k, ids[i], &npy, row, &scratch, &found); i++) {
            fill_columns(k, ids[i], &found);
            psd_level_add(&level, &found);
            if (i + 1 == n || k->manifest->sensors[ids[i + 1]] != k->manifest->sensors[ids[i]])
                join_level(k, k->manifest->sensors[ids[i]], &level);
            counts[PADDED] += found.padded > 0;
            counts[LIMITED] += found.limited;
            counts[CONSTANT] += found.constant;
            counts[NOT_FINITE] += found.not_finite;
            counts[DROPPED] += k->starts[ids[i]] == k->starts[ids[i] + 1];
        }
    }
#pragma omp critical
    for (int i = 0; i < COUNTS; i++) k->counts[i] += counts[i];
}

static bool write_store(const StoreMaker *k, const char *path, uint64_t hash, Error *error) {
    const TensorToWrite tensors[] = {
        {"psd", "F32", 2, {k->n, PSD_BINS}, k->psd}, {"label", "I32", 1, {k->n}, k->labels},
        {"sensor", "I32", 1, {k->n}, k->sensors},    {"file", "I32", 1, {k->n}, k->files},
        {"row", "I32", 1, {k->n}, k->rows},          {"snr", "F32", 1, {k->n}, k->snr}};
    json_auto_t *names = json_array();
    for (int i = 0; i < k->manifest->n_sensors; i++)
        json_array_append_new(names, json_string(k->manifest->sensor_names[i]));
    OWNED char *sensors = json_text("the names of sensors", names, 0);
    OWNED char *limit = xformat("%.17g", k->options->limit);
    OWNED char *rows = xformat("%lld", (long long)k->manifest->n);
    OWNED char *manifest = xformat("%016llx", (unsigned long long)hash);
    json_auto_t *list =
        psd_recordings_list(k->manifest->n_files, (const char *const *)k->manifest->file_paths, k->recordings);
    json_auto_t *doubts =
        psd_levels_doubtful(k->levels, (const char *const *)k->manifest->sensor_names, k->manifest->n_sensors);
    OWNED char *recordings = json_text("the names of recordings", list, JSON_COMPACT);
    OWNED char *doubtful = json_text("the names of sensors", doubts, 0);
    const char *const keys[] = {"sensors", "rows", "manifest", "hop", "limit", "form", "recordings", "doubtful"};
    const char *const values[] = {sensors, rows,           manifest,   k->options->hop ? "true" : "false",
                                  limit,   PSD_STORE_FORM, recordings, doubtful};
    return safetensors_write(path, tensors, 6, keys, values, 8, error);
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
    OWNED int64_t *starts = sort_by_file(m, k->by_file);
#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
    for (int f = 0; f < m->n_files; f++) make_file(k, k->by_file + starts[f], starts[f + 1] - starts[f]);
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

bool psd_store_make(const char *manifest_path, char **text, size_t size, uint64_t hash, const char *path,
                    const PsdPreprocessing *options, int n_threads, Error *error) {
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
               path, (long long)k.n, (long long)m.n, seconds_now() - start, (long long)k.counts[PADDED],
               (long long)k.counts[CONSTANT], (long long)k.counts[DROPPED], (long long)k.counts[LIMITED],
               (long long)k.counts[NOT_FINITE]);
    FREE(k.starts, k.by_file, k.recordings, k.levels, k.psd, k.snr, k.labels, k.sensors, k.files, k.rows);
    psd_manifest_close(&m);
    return ok;
}
