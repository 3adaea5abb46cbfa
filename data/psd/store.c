#include "data/psd/store.h"

#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "data/formats/csv.h"
#include "data/formats/foreign.h"
#include "data/formats/tensor_file_open.h"
#include "data/psd/manifest.h"
#include "data/psd/recordings.h"
#include "data/psd/store_make.h"

static const PsdPreprocessing DEFAULTS = {false, PSD_LIMIT};

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

/* ---- open or make ---- */

static bool same_options(PsdPreprocessing a, PsdPreprocessing b) { return a.hop == b.hop && a.limit == b.limit; }

static const char *options_text(PsdPreprocessing options, char text[64]) {
    snprintf(text, 64, "%s --hop, with --limit %g", options.hop ? "with" : "without", options.limit);
    return text;
}

/* Opens a store by its own name. If it does not say how it was made, it is trusted to have the wanted options. */
static bool open_alone(PsdStore *s, const char *path, const bool *hop, const double *limit, int n_threads,
                       Error *error) {
    if (!open_store(s, path, n_threads, error)) return false;
    char asked_text[64], made_text[64];
    PsdPreprocessing asked = {hop ? *hop : s->options.hop, limit ? *limit : s->options.limit};
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
    PsdPreprocessing options; /* the resulting options */
} StoreRequest;

/* Returns whether a file, which may be damaged, begins like a store that was made from a manifest. */
static bool looks_made(int fd) {
    enum { LENGTH = 8, HEAD = 1 << 20 }; /* the text follows its length */
    OWNED char *head = xcalloc(HEAD + 1, 1);
    return pread(fd, head, HEAD, LENGTH) > 0 &&
           (strstr(head, "\"__metadata__\":{\"sensors\":\"") || strstr(head, "\"manifest\":\""));
}

/* Checks that the present file, if any, may be replaced: it is a store that was made from a manifest, and the options
 * for the new one are known. s: the store, NULL if it could not be opened. */
static bool check_replaceable(const StoreRequest *w, const PsdStore *s, const Error *why, Error *error) {
    size_t size;
    if (access(w->path, F_OK) && errno == ENOENT) return true;
    int fd = file_open(w->path, &size, error);
    if (fd < 0) return error_before(error, "%s: ", w->path);
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
    PsdPreprocessing made = opened ? s->options : DEFAULTS;
    if (!check_replaceable(w, opened ? s : NULL, why, error)) {
        if (opened) psd_store_close(s);
        return STORE_REFUSED;
    }
    w->options = (PsdPreprocessing){w->hop ? *w->hop : made.hop, w->limit ? *w->limit : made.limit};
    if (!opened) return STORE_TO_MAKE;
    const char *form = metadata(s, "form");
    bool usable = s->manifest_hash != w->hash             ? error_set(why, "%s belongs to another manifest", w->path)
                  : !form || strcmp(form, PSD_STORE_FORM) ? error_set(why, "%s was made by another version", w->path)
                  : !same_options(w->options, s->options)
                      ? error_set(why, "%s was made with other options", w->path)
                      : psd_recordings_check(metadata(s, "recordings"), w->manifest, w->path, w->n_threads, why);
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
    OWNED char *text = NULL;
    char asked[64];
    size_t size;
    Error why;
    if (!read_file(w->manifest, &text, &size, &why)) return error_set(error, "%s: %s", w->manifest, why.text);
    w->hash = psd_manifest_hash_text(text, size);
    StoreState state = open_made(s, w, &why, error);
    if (state != STORE_TO_MAKE) return state == STORE_USABLE && print_opened(s, w);
    if (why.text[0]) printf("[Store] %s; it is made again, %s\n", why.text, options_text(w->options, asked));
    return psd_store_make(w->manifest, &text, size, w->hash, w->path, &w->options, w->n_threads, error) &&
           open_store(s, w->path, w->n_threads, error);
}

/* Opens the store of a manifest. One program at a time makes it; a program that has waited for the lock checks again.
 */
static bool open_of_manifest(PsdStore *s, StoreRequest *w, Error *error) {
    OWNED_BY(file_unlock) FileLock lock = {.fd = -1};
    Error why;
    if (!psd_manifest_hash(w->manifest, &w->hash, error)) return false;
    StoreState state = open_made(s, w, &why, error);
    if (state == STORE_USABLE) {
        file_remove_stale(w->path);
        return print_opened(s, w);
    }
    return state == STORE_TO_MAKE && file_lock(&lock, w->path, error) && open_or_make(s, w, error);
}

json_t *psd_store_doubts(const PsdStore *s) {
    const char *text = metadata(s, "doubtful");
    json_t *list = text ? json_loads(text, 0, NULL) : NULL;
    return json_is_array(list) ? list : json_array();
}

/* Warns of sensors whose recordings seem to be in another unit. */
static bool print_doubts(const PsdStore *s) {
    json_auto_t *list = psd_store_doubts(s);
    json_t *text;
    size_t i;
    json_array_foreach(list, i, text) if (json_is_string(text)) warn_once("%s", json_string_value(text));
    return true;
}

bool psd_store_open(PsdStore *s, const char *path, const bool *hop, const double *limit, int n_threads, Error *error) {
    *s = (PsdStore){0};
    if (n_threads <= 0) n_threads = omp_get_num_procs();
    if (path_ending(path, ".safetensors")) return open_alone(s, path, hop, limit, n_threads, error) && print_doubts(s);
    int foreign = foreign_format(path);
    if (!path_ending(path, ".csv"))
        return error_set(error, "%s: expected a manifest (.csv) or a store of spectra (.safetensors)%s%s", path,
                         foreign < 0 ? "" : ", not ", foreign < 0 ? "" : foreign_formats[foreign].what);
    OWNED char *store = psd_store_path(path);
    StoreRequest request = {.manifest = path, .path = store, .hop = hop, .limit = limit, .n_threads = n_threads};
    return open_of_manifest(s, &request, error) && print_doubts(s);
}
