#include "data/cv/cells.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "data/cv/cell_store.h"
#include "data/formats/tensor_file_open.h"
#include "data/text/label.h"

const char CV_CELLS_ENDING[] = ".flim.safetensors";

char *cv_cells_path(const char *root, const char *ending) {
    int n = (int)strlen(root);
    while (n > 1 && root[n - 1] == '/') n--;
    return xformat("%.*s%s", n, root, ending);
}

/* ---- opening ---- */

static const char *metadata(const CvCells *c, const char *key) { return tensor_file_metadata(&c->file, key); }

/* Returns the data of a tensor of n cells, or NULL with an error. */
static const void *take(const CvCells *c, const char *name, const char *dtype, int64_t each, size_t align,
                        Error *error) {
    const StoredTensor *t = tensor_file_find(&c->file, name);
    if (t && t->rank && !strcmp(t->dtype, dtype) && t->dims[0] == c->n && t->count == c->n * each &&
        !((uintptr_t)t->data % align))
        return t->data;
    error_set(error, "has no tensor '%s' of %s, of %lld cells: it is no store of cells", name, dtype, (long long)c->n);
    return NULL;
}

static bool take_names(CvCells *c, int which, const char *key, const char ***names, int *n, Error *error) {
    const char *text = metadata(c, key);
    json_t *list = c->lists[which] = text ? json_loads(text, 0, NULL) : NULL;
    if (!json_is_array(list)) return error_set(error, "its metadata have no \"%s\", a JSON list of names", key);
    *n = (int)json_array_size(list);
    *names = xcalloc((size_t)*n + 1, sizeof **names);
    for (int i = 0; i < *n; i++) {
        (*names)[i] = json_string_value(json_array_get(list, (size_t)i));
        if (!(*names)[i] || !*(*names)[i]) return error_set(error, "name %d of \"%s\" is empty or no text", i, key);
    }
    return true;
}

static bool check_donors(const CvCells *c, Error *error) {
    for (int d = 0; d < c->n_donors; d++)
        if (!cell_files_check_donor(c->donor_names[d], (int)strlen(c->donor_names[d]), error)) return false;
    return true;
}

static bool check_range(const CvCells *c, const char *name, const int32_t *values, int64_t begin, int64_t end,
                        Error *error) {
    for (int64_t i = 0; i < c->n; i++)
        if (values[i] < begin || values[i] >= end)
            return error_set(error, "%s[%lld] is %d; expected %lld to %lld", name, (long long)i, (int)values[i],
                             (long long)begin, (long long)end - 1);
    return true;
}

static bool check_numbers(const CvCells *c, const char *name, const double *values, Error *error) {
    for (int64_t i = 0; i < c->n; i++)
        if (!(values[i] >= 0 && isfinite(values[i])))
            return error_set(error, "%s of cell %lld (%.200s) is %g; expected a number from 0 on", name, (long long)i,
                             c->file_names[i], values[i]);
    return true;
}

static bool take_tensors(CvCells *c, bool unlabelled, Error *error) {
    const StoredTensor *t = tensor_file_find(&c->file, "counts");
    bool bytes = t && !strcmp(t->dtype, "U8"), ok = t && t->rank == 4 && t->count && t->dims[0] <= INT32_MAX;
    for (int d = 1; ok && d < 4; d++) ok = t->dims[d] <= 65536;
    if (!ok || t->dims[2] != t->dims[3]) return error_set(error, "has no tensor 'counts' of cells, [n, T, H, H]");
    c->n = t->dims[0];
    c->bits = bytes ? 8 : 16;
    c->shape = (AugmentShape){(int)t->dims[1], (int)t->dims[2], (int)t->dims[3]};
    int64_t plane = t->dims[2] * t->dims[3];
    int n_files = 0;
    return (c->counts = take(c, "counts", bytes ? "U8" : "U16", t->dims[1] * plane, 2, error)) &&
           (c->footprints = take(c, "footprint", "U8", plane, 1, error)) &&
           (c->labels = take(c, "label", "I32", 1, 4, error)) && (c->donors = take(c, "donor", "I32", 1, 4, error)) &&
           (c->fields = take(c, "field", "I32", 1, 4, error)) && (c->sizes = take(c, "size", "I32", 1, 4, error)) &&
           (c->peaks = take(c, "peak", "I32", 1, 4, error)) && (c->same_as = take(c, "same_as", "I32", 1, 4, error)) &&
           (c->photons = take(c, "photons", "F64", 1, 8, error)) &&
           (c->entropy = take(c, "entropy", "F64", 1, 8, error)) &&
           take_names(c, 0, "donors", &c->donor_names, &c->n_donors, error) && (unlabelled || check_donors(c, error)) &&
           take_names(c, 1, "fields", &c->field_names, &c->n_fields, error) &&
           take_names(c, 2, "files", &c->file_names, &n_files, error) &&
           (n_files == c->n || error_set(error, "names %d files of %lld cells", n_files, (long long)c->n)) &&
           check_range(c, "label", c->labels, unlabelled ? -1 : 0, CV_CLASSES, error) &&
           check_range(c, "donor", c->donors, 0, c->n_donors, error) &&
           check_range(c, "field", c->fields, 0, c->n_fields, error) &&
           check_range(c, "peak", c->peaks, 0, c->shape.T, error) &&
           check_range(c, "same_as", c->same_as, 0, c->n, error) &&
           check_range(c, "size", c->sizes, 0, plane + 1, error) && check_numbers(c, "photons", c->photons, error) &&
           check_numbers(c, "entropy", c->entropy, error);
}

static bool open_store(CvCells *c, const char *path, bool unlabelled, Error *error) {
    *c = (CvCells){0};
    if (tensor_file_open(path, &c->file, error) && take_tensors(c, unlabelled, error)) return true;
    cv_cells_close(c);
    return error_before(error, "%s: ", path);
}

void cv_cells_close(CvCells *c) {
    FREE(c->donor_names, c->field_names, c->file_names, c->memory);
    for (int i = 0; i < 3; i++) json_decref(c->lists[i]);
    tensor_file_close(&c->file);
    *c = (CvCells){0};
}

/* Prints what a store holds. k: with what was counted in the folder; NULL: take it from the store, which alone knows
 * what is odd in the files. */
static void print_store(const CvCells *c, const char *store, const char *how, const CellFiles *k) {
    json_auto_t *stored = json_loads(metadata(c, "findings") ? metadata(c, "findings") : "{}", 0, NULL);
    int64_t copies = 0, dark = 0;
    for (int64_t i = 0; i < c->n; i++) {
        copies += c->same_as[i] != i;
        dark += !(c->photons[i] > 0);
    }
    printf("[Store] %s: %lld cells of %d donors, %d x %d pixels, %d bins, u%d, %s\n", store, (long long)c->n,
           c->n_donors, c->shape.H, c->shape.W, c->shape.T, c->bits, how);
    labels_warn_alike(store, "donors", c->donor_names, c->n_donors);
    for (int i = 0; i < CELL_FINDINGS; i++) {
        int64_t n =
            k && i < CELL_PALETTE ? k->found[i] : json_integer_value(json_object_get(stored, cell_findings[i].key));
        bool all = i < CELL_KINDS && n == c->n; /* of one kind, which goes without saying */
        if (n && !all) printf("[Store] %lld %s\n", (long long)n, cell_findings[i].text);
        if (k && i == CELL_OTHERS) foreign_print("Store", k->foreign);
    }
    if (dark) printf("[Store] %lld cells have no photon: they tell nothing of their class\n", (long long)dark);
    if (copies) printf("[Store] %lld cells are copies of others\n", (long long)copies);
}

/* The store of a folder, and what it is to be made from. */
typedef struct {
    CellFiles files;
    char *path, *source; /* the store's; cell_files_source */
    bool compat;
    int n_threads;
} Wanted;

/* Opens the store if it is whole and was made from these files. Otherwise `why` says why not; empty: there is none. */
static bool open_current(CvCells *c, const Wanted *w, Error *why) {
    why->text[0] = 0;
    if (access(w->path, F_OK) || !open_store(c, w->path, w->files.unlabelled, why)) return false;
    const char *from = metadata(c, "source");
    if (from && !strcmp(from, w->source)) return true;
    cv_cells_close(c);
    return error_set(why, "%s was made from other files or earlier copies, or with another --compat or other classes",
                     w->path);
}

/* Opens or makes the store. One program at a time makes it; a program that has waited for the lock checks again. */
static bool open_or_make(CvCells *c, Wanted *w, Error *error) {
    OWNED_BY(file_unlock) FileLock lock = {.fd = -1};
    Error why;
    char how[40] = "made earlier";
    bool current = open_current(c, w, &why);
    if (current) file_remove_stale(w->path);
    if (!current && !file_lock(&lock, w->path, error)) return false;
    if (!current && !open_current(c, w, &why)) {
        double start = seconds_now();
        if (why.text[0]) printf("[Store] %s; making it anew\n", why.text);
        if (!cell_store_make(&w->files, w->compat, w->path, w->source, w->n_threads, error) ||
            !open_store(c, w->path, w->files.unlabelled, error))
            return false;
        snprintf(how, sizeof how, "read in %.1f s", seconds_now() - start);
    }
    print_store(c, w->path, how, &w->files);
    return true;
}

/* Opens a store by its own name. */
static bool open_given(CvCells *c, const char *path, const CvCellsOptions *o, Error *error) {
    if (o->class_words || o->class_table)
        return error_set(error,
                         "%s: a store has its classes in it: give --class-words and --class-table with the folder of "
                         "the cells",
                         path);
    bool ok = open_store(c, path, o->unlabelled, error);
    if (ok) print_store(c, path, "given", NULL);
    return ok;
}

bool cv_cells_open(CvCells *c, const char *path, const CvCellsOptions *o, Error *error) {
    *c = (CvCells){0};
    if (path_ending(path, ".safetensors")) return open_given(c, path, o, error);
    Wanted w = {.files = {.root = path, .unlabelled = o->unlabelled},
                .compat = o->compat,
                .n_threads = o->n_threads > 0 ? o->n_threads : omp_get_num_procs()};
    bool ok =
        cell_classes_open(&w.files.classes, o->class_words, o->class_table, error) && cell_files_find(&w.files, error);
    if (ok) {
        w.source = cell_files_source(&w.files, o->compat);
        w.path = cv_cells_path(path, o->unlabelled ? ".predict.flim.safetensors" : CV_CELLS_ENDING);
        ok = open_or_make(c, &w, error);
    }
    cell_files_close(&w.files);
    FREE(w.source, w.path);
    return ok;
}

void cv_cells_blank(CvCells *c, int64_t n, AugmentShape s) {
    size_t cells = (size_t)n, column = cells * sizeof(int32_t);
    double *entropy = xcalloc(1, cells * sizeof(double) + 2 * column + cells * (size_t)(s.T * s.H * s.W) * 2);
    void *after_entropy = entropy + cells;
    int32_t *labels = after_entropy, *zeros = labels + n;
    *c = (CvCells){.n = n,
                   .shape = s,
                   .bits = 16,
                   .counts = zeros + n,
                   .labels = labels,
                   .donors = zeros,
                   .fields = zeros,
                   .entropy = entropy,
                   .n_donors = 2,
                   .n_fields = 1,
                   .donor_names = xcalloc(2, sizeof *c->donor_names),
                   .file_names = xcalloc(cells, sizeof *c->file_names),
                   .memory = entropy};
    for (int i = 0; i < 2; i++) c->donor_names[i] = i ? "D2" : "D1";
    for (int64_t i = 0; i < n; i++) {
        labels[i] = (int32_t)(i % 2);
        c->file_names[i] = "blank";
    }
}

void cv_cells_counts(const CvCells *c, int64_t cell, float *out) {
    int64_t n = (int64_t)c->shape.T * c->shape.H * c->shape.W, first = cell * n;
    const unsigned char *bytes = c->counts;
    const uint16_t *words = c->counts;
    for (int64_t i = 0; i < n; i++) out[i] = c->bits == 8 ? (float)bytes[first + i] : (float)words[first + i];
}

uint64_t cv_cells_checksum(const CvCells *c, int64_t cell) {
    size_t bytes = (size_t)c->shape.T * (size_t)c->shape.H * (size_t)c->shape.W * sizeof(float);
    OWNED float *counts = xmalloc(bytes);
    cv_cells_counts(c, cell, counts);
    return checksum(0, counts, bytes);
}
