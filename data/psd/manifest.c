#include "data/psd/manifest.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text_file.h"
#include "data/formats/csv.h"
#include "data/formats/text_source.h"
#include "data/text/label.h"

const char *const PSD_LABEL_NAMES[PSD_LABELS] = {"dab", "dvbt", "fm", "gsm", "lte", "tetra", "unkn"};

/* Returns the label of this name; -1 if there is none. */
static int label_of(const char *name) {
    for (int i = 0; i < PSD_LABELS; i++)
        if (!strcmp(name, PSD_LABEL_NAMES[i])) return i;
    return -1;
}

/* The columns, in the reference's order. */
enum { NPY_PATH, ROW_INDEX, SENSOR_ID, NUM_BINS, CENTER, BEGIN, END, SNR, LABEL, LABEL_IDX, COLUMNS };
static const struct {
    const char *name;
    bool required;
} columns[COLUMNS] = {[NPY_PATH] = {"npy_path", true},
                      [ROW_INDEX] = {"row_index", true},
                      [SENSOR_ID] = {"sensor_id", true},
                      [NUM_BINS] = {"num_bins", true},
                      [CENTER] = {"center_freq_mhz", false},
                      [BEGIN] = {"begin_freq", false},
                      [END] = {"end_freq", false},
                      [SNR] = {"snr", false},
                      [LABEL] = {"label", true},
                      [LABEL_IDX] = {"label_idx", false}};

PsdManifest psd_manifest_new(int64_t n, int n_files, int n_sensors) {
    PsdManifest m = {.file_paths = xcalloc((size_t)n_files, sizeof(char *)),
                     .sensor_names = xcalloc((size_t)n_sensors, sizeof(char *))};
    int32_t **const small[] = {&m.files, &m.sensors, &m.labels};
    int64_t **const large[] = {&m.row_index, &m.num_bins};
    double **const reals[] = {&m.center, &m.begin, &m.end, &m.snr};
    for (int i = 0; i < 3; i++) *small[i] = xcalloc((size_t)n, sizeof(int32_t));
    for (int i = 0; i < 2; i++) *large[i] = xcalloc((size_t)n, sizeof(int64_t));
    for (int i = 0; i < 4; i++) *reals[i] = xcalloc((size_t)n, sizeof(double));
    return m;
}

void psd_manifest_close(PsdManifest *m) {
    for (int i = 0; i < m->n_files; i++) free(m->file_paths[i]);
    for (int i = 0; i < m->n_sensors; i++) free(m->sensor_names[i]);
    FREE(m->file_paths, m->sensor_names, m->files, m->sensors, m->labels, m->row_index, m->num_bins, m->center,
         m->begin, m->end, m->snr, m->lines);
    *m = (PsdManifest){0};
}

PsdRows psd_manifest_rows(const PsdManifest *m) {
    return (PsdRows){m->n, PSD_UNKNOWN, m->labels, m->sensors, m->files, (const char *const *)m->sensor_names};
}

char *psd_manifest_file(const char *manifest_path, const char *file_path) {
    if (*file_path == '/') return xstrdup(file_path);
    OWNED char *directory = path_directory(manifest_path);
    char *beside = path_join(directory, file_path);
    if (!access(beside, F_OK)) return beside;
    free(beside);
    return xstrdup(file_path);
}

/* ---- reading ---- */

/* A list of distinct texts, and the index of each. */
typedef struct {
    json_t *places;
    char ***texts;
    int *count;
} Names;

/* Returns the index of the text with this key, which is added if there is none. */
static int32_t name_place(Names *names, const char *text, const char *key) {
    json_t *known = json_object_get(names->places, key);
    if (known) return (int32_t)json_integer_value(known);
    *names->texts = xgrow(*names->texts, (size_t)*names->count, sizeof **names->texts);
    (*names->texts)[*names->count] = xstrdup(text);
    if (json_object_set_new(names->places, key, json_integer(*names->count))) die("out of memory for names");
    return (*names->count)++;
}

/* The reader's state. places: the field of each column, -1 if the column is absent. */
typedef struct {
    Csv csv;
    PsdManifest *manifest;
    int places[COLUMNS];
    Names files, sensors;
} Reader;

static bool read_head(Reader *r, Error *error) {
    if (!csv_next(&r->csv, error))
        return error->text[0] ? false : error_set(error, "1: the file is empty; expected a line of column names");
    for (int c = 0; c < COLUMNS; c++)
        if (!csv_column(&r->csv, columns[c].name, columns[c].required ? "" : NULL, &r->places[c], error)) return false;
    return true;
}

/* Makes room for one more row. */
static void reserve(PsdManifest *m) {
    size_t n = (size_t)m->n;
    int32_t **const small[] = {&m->files, &m->sensors, &m->labels};
    int64_t **const large[] = {&m->row_index, &m->num_bins, &m->lines};
    double **const reals[] = {&m->center, &m->begin, &m->end, &m->snr};
    for (int i = 0; i < 3; i++) *small[i] = xgrow(*small[i], n, sizeof(int32_t));
    for (int i = 0; i < 3; i++) *large[i] = xgrow(*large[i], n, sizeof(int64_t));
    for (int i = 0; i < 4; i++) *reals[i] = xgrow(*reals[i], n, sizeof(double));
}

static const char *field(const Reader *r, int column) {
    return r->places[column] < 0 ? "" : r->csv.fields[r->places[column]];
}

static bool refuse(const Reader *r, int column, const char *expected, Error *error) {
    return error_set(error, "%lld: %s is '%s'; expected %s", (long long)r->csv.line, columns[column].name,
                     field(r, column), expected);
}

static bool take_count(const Reader *r, int column, int64_t *out, Error *error) {
    if (csv_integer(field(r, column), out) && *out >= 0) return true;
    return refuse(r, column, "a count", error);
}

static bool take_number(const Reader *r, int column, double *out, Error *error) {
    *out = (double)NAN;
    return !*field(r, column) || csv_decimal(&r->csv, field(r, column), out) ||
           refuse(r, column, "a number or nothing", error);
}

static bool take_label(Reader *r, int32_t *out, Error *error) {
    int64_t index;
    OWNED char *normal = label_normal(field(r, LABEL));
    *out = label_of(normal);
    r->manifest->respelled += *out >= 0 && strcmp(normal, field(r, LABEL)) != 0;
    if (*out < 0) return refuse(r, LABEL, "dab, dvbt, fm, gsm, lte, tetra or unkn", error);
    if (r->places[LABEL_IDX] < 0) return true;
    if (csv_integer(field(r, LABEL_IDX), &index) && index == *out) return true;
    return error_set(error, "%lld: label_idx is '%s', but the label %s has %d", (long long)r->csv.line,
                     field(r, LABEL_IDX), PSD_LABEL_NAMES[*out], (int)*out);
}

/* A sensor has one spelling: otherwise the other one would not be left out with it. */
static int32_t sensor_place(Reader *r, const char *name) {
    OWNED char *normal = label_normal(name);
    int32_t place = name_place(&r->sensors, name, normal);
    r->manifest->respelled += strcmp(r->manifest->sensor_names[place], name) != 0;
    return place;
}

static bool read_row(Reader *r, int n_columns, Error *error) {
    PsdManifest *m = r->manifest;
    reserve(m);
    int64_t i = m->n;
    if (r->csv.n != n_columns)
        return error_set(error, "%lld: has %d fields; the first line has %d", (long long)r->csv.line, r->csv.n,
                         n_columns);
    if (!*field(r, NPY_PATH)) return refuse(r, NPY_PATH, "a path", error);
    if (!*field(r, SENSOR_ID)) return refuse(r, SENSOR_ID, "a name", error);
    if (!label_check(field(r, SENSOR_ID), error))
        return error_before(error, "%lld: sensor_id: ", (long long)r->csv.line);
    if (i == INT32_MAX) return error_set(error, "%lld: more than 2^31 - 1 rows", (long long)r->csv.line);
    m->lines[i] = r->csv.line;
    m->files[i] = name_place(&r->files, field(r, NPY_PATH), field(r, NPY_PATH));
    m->sensors[i] = sensor_place(r, field(r, SENSOR_ID));
    m->n++;
    return take_count(r, ROW_INDEX, &m->row_index[i], error) && take_count(r, NUM_BINS, &m->num_bins[i], error) &&
           take_number(r, CENTER, &m->center[i], error) && take_number(r, BEGIN, &m->begin[i], error) &&
           take_number(r, END, &m->end[i], error) && take_number(r, SNR, &m->snr[i], error) &&
           take_label(r, &m->labels[i], error);
}

static int compare_recorded(const void *a, const void *b, void *manifest) {
    const PsdManifest *m = manifest;
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    if (m->files[x] != m->files[y]) return m->files[x] < m->files[y] ? -1 : 1;
    if (m->row_index[x] != m->row_index[y]) return m->row_index[x] < m->row_index[y] ? -1 : 1;
    return (x > y) - (x < y);
}

/* Refuses a manifest that has a row twice: a split could put one copy into training and the other into the test. */
static bool check_rows_once(const PsdManifest *m, Error *error) {
    size_t n = (size_t)m->n;
    OWNED int32_t *order = xmalloc(n * sizeof *order);
    int32_t first = INT32_MAX, of = 0;
    int64_t copies = 0;
    for (int32_t i = 0; i < m->n; i++) order[i] = i;
    qsort_r(order, n, sizeof *order, compare_recorded, (void *)(uintptr_t)m);
    for (size_t i = 1; i < n; i++) {
        int32_t before = order[i - 1], at = order[i];
        if (m->files[before] != m->files[at] || m->row_index[before] != m->row_index[at]) continue;
        copies++;
        if (at < first) of = before;
        if (at < first) first = at;
    }
    return !copies ||
           error_set(
               error,
               "%lld: row %lld of %.200s stands on line %lld already (rows that stand twice: %lld); a split would "
               "put copies into training and test: leave each row in once",
               (long long)m->lines[first], (long long)m->row_index[first], m->file_paths[m->files[first]],
               (long long)m->lines[of], (long long)copies);
}

bool psd_manifest_parse(char *text, size_t size, PsdManifest *m, Error *error) {
    *m = (PsdManifest){0};
    Reader r = {.manifest = m,
                .files = {json_object(), &m->file_paths, &m->n_files},
                .sensors = {json_object(), &m->sensor_names, &m->n_sensors}};
    bool ok = csv_open(&r.csv, text, size, ',', error) && read_head(&r, error);
    int n_columns = r.csv.n;
    while (ok && csv_next(&r.csv, error)) ok = read_row(&r, n_columns, error);
    ok = ok && !error->text[0] && (m->n || error_set(error, "1: there are no rows below the column names"));
    ok = ok && check_rows_once(m, error);
    csv_close(&r.csv);
    json_decref(r.files.places);
    json_decref(r.sensors.places);
    if (!ok) psd_manifest_close(m);
    return ok;
}

bool psd_manifest_read(const char *path, PsdManifest *manifest, Error *error) {
    OWNED char *text = NULL;
    size_t size;
    *manifest = (PsdManifest){0};
    if (!text_read(path, &text, &size, error)) return error_before(error, "%s: ", path);
    return psd_manifest_parse(text, size, manifest, error) || error_before(error, "%s:", path);
}

void psd_manifest_print_sensors(const char *path, const PsdManifest *m) {
    if (m->respelled)
        printf("[Manifest] %s: labels with blanks around them, and sensors that are written otherwise than before (not "
               "composed, no-break or outer blanks): %lld\n",
               path, (long long)m->respelled);
    labels_warn_alike(path, "sensors", (const char *const *)m->sensor_names, m->n_sensors);
}

uint64_t psd_manifest_hash_text(const char *text, size_t size) {
    uint64_t hash = hash_bytes(HASH_START, text, size);
    return hash ? hash : 1;
}

bool psd_manifest_hash(const char *path, uint64_t *hash, Error *error) {
    OWNED char *bytes = NULL;
    size_t size;
    if (!read_file(path, &bytes, &size, error)) return error_before(error, "%s: ", path);
    *hash = psd_manifest_hash_text(bytes, size);
    return true;
}

/* ---- writing ---- */

static void write_row(FILE *file, const PsdManifest *m, int64_t i) {
    csv_write(file, m->file_paths[m->files[i]]);
    fprintf(file, ",%lld,", (long long)m->row_index[i]);
    csv_write(file, m->sensor_names[m->sensors[i]]);
    fprintf(file, ",%lld,", (long long)m->num_bins[i]);
    const double numbers[] = {m->center[i], m->begin[i], m->end[i], m->snr[i]};
    for (int k = 0; k < 4; k++) {
        csv_write_number(file, numbers[k]);
        fputc(',', file);
    }
    fprintf(file, "%s,%d\n", PSD_LABEL_NAMES[m->labels[i]], (int)m->labels[i]);
}

static void write_all(FILE *file, const PsdManifest *m) {
    for (int c = 0; c < COLUMNS; c++) fprintf(file, "%s%s", c ? "," : "", columns[c].name);
    fputc('\n', file);
    for (int64_t i = 0; i < m->n; i++) write_row(file, m, i);
}

bool psd_manifest_write(const char *path, const PsdManifest *m, Error *error) {
    TextFile file;
    text_file_begin(&file);
    write_all(file.out, m);
    return text_file_end(&file, path, error);
}

uint64_t psd_manifest_hash_of(const PsdManifest *m) {
    OWNED char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    if (file) write_all(file, m);
    if (!file || fclose(file)) die("out of memory for a manifest");
    return psd_manifest_hash_text(text, size);
}
