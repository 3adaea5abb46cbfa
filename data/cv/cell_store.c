#include "data/cv/cell_store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/threads.h"
#include "data/formats/safetensors.h"
#include "data/text/label.h"

typedef struct {
    CellFiles *files;
    int64_t n; /* of them */
    bool compat;
    AugmentShape shape;
    uint16_t *counts;
    unsigned char *footprints;
    int32_t *labels, *donors, *fields, *sizes, *peaks, *same_as;
    double *photons, *entropy;
    uint64_t *hashes;
    json_t *donor_names, *field_names, *field_numbers; /* lists; an object */
} StoreMaker;

/* ---- donors and fields ---- */

static int donor_number(const StoreMaker *k, const CellFile *f) {
    OWNED char *name = xformat("%.*s", f->donor_length, f->donor);
    OWNED char *normal = label_normal(name);
    for (size_t d = 0; d < json_array_size(k->donor_names); d++) {
        OWNED char *other = label_normal(json_string_value(json_array_get(k->donor_names, d)));
        if (!strcmp(normal, other)) return (int)d;
    }
    return -1;
}

/* Numbers the donor of a file. Two folders of one donor are an error, unless donors decide nothing. */
static bool number_donor(StoreMaker *k, int64_t i, Error *error) {
    const CellFile *f = &k->files->files[i], *last = i ? f - 1 : NULL;
    int n = f->donor_length, donor = last && f->donor_length == last->donor_length && f->folder == last->folder &&
                                             !strncmp(f->path, last->path, (size_t)f->folder + (f->folder > 0))
                                         ? k->donors[i - 1]
                                         : -1;
    if (donor < 0 && (donor = donor_number(k, f)) >= 0 && !k->files->unlabelled)
        return error_set(error, "%s: two folders belong to donor %.*s; rename one or merge them", k->files->root, n,
                         f->donor);
    if (donor < 0 && !k->files->unlabelled && !cell_files_check_donor(f->donor, n, error))
        return error_before(error, "%s: ", k->files->root);
    if (donor < 0) {
        donor = (int)json_array_size(k->donor_names);
        json_array_append_new(k->donor_names, json_stringn(f->donor, (size_t)n));
    }
    k->donors[i] = donor;
    return true;
}

/* Numbers donors and fields of view as they come. */
static bool number_donors(StoreMaker *k, Error *error) {
    for (int64_t i = 0; i < k->n; i++) {
        const CellFile *f = &k->files->files[i];
        if (!number_donor(k, i, error)) return false;
        OWNED char *field =
            xformat("%.*s %.*s", f->donor_length, f->donor, f->parsed.field, f->name + f->parsed.prefix);
        json_t *number = json_object_get(k->field_numbers, field);
        if (!number) {
            json_object_set_new(k->field_numbers, field,
                                number = json_integer((json_int_t)json_array_size(k->field_names)));
            json_array_append_new(k->field_names, json_string(field));
        }
        k->fields[i] = (int32_t)json_integer_value(number);
        k->labels[i] = f->parsed.label;
    }
    return true;
}

/* ---- contents ---- */

double cell_store_entropy(const uint16_t *counts, AugmentShape s, bool compat) {
    bool rows = compat && s.T < s.H; /* rows are time: an image is [T, W] */
    int plane = s.H * s.W, T = rows ? s.H : s.T, step = rows ? s.W : plane;
    int lines = rows ? s.T : 1, width = rows ? s.W : plane;
    int64_t most = 0;
    const uint16_t *peak = counts;
    for (int t = 0; t < T; t++) {
        int64_t sum = 0;
        for (int line = 0; line < lines; line++)
            for (int i = 0; i < width; i++) sum += counts[t * step + line * plane + i];
        if (sum > most) peak = counts + t * step;
        if (sum > most) most = sum;
    }
    double bits = 0;
    for (int line = 0; line < lines; line++)
        for (int i = 0; i < width; i++) {
            double p = peak[line * plane + i] / (double)most;
            if (p > 0) bits -= p * log2(p); /* false, NaN included, if there are no photons */
        }
    return bits;
}

static const char *shape_of(const CellImage *a, char text[128]) { return shape_text("", a->rank, a->dims, text) + 1; }

/* Converts to counts, time first. Values that were scaled or smoothed have fractions and are refused. */
static bool take_counts(const CellImage *a, AugmentShape s, uint16_t *out, Error *error) {
    int plane = s.H * s.W;
    for (int i = 0; i < plane; i++)
        for (int t = 0; t < s.T; t++) {
            double v = a->values[(int64_t)i * s.T + t], whole = nearbyint(v);
            if (!(v >= 0 && whole <= UINT16_MAX && fabs(v - whole) < 1e-3))
                return error_set(error, "pixel (%d, %d) has %g photons in bin %d; expected a whole number, 0 to 65535",
                                 i / s.W, i % s.W, v, t);
            out[t * plane + i] = (uint16_t)whole;
        }
    return true;
}

/* Computes a cell's columns from its counts. */
static void describe(StoreMaker *k, int64_t i) {
    AugmentShape s = k->shape;
    int plane = s.H * s.W;
    const uint16_t *counts = k->counts + i * s.T * plane;
    unsigned char *footprint = k->footprints + i * plane;
    int64_t photons = 0, most = -1;
    for (int t = 0; t < s.T; t++) {
        int64_t sum = 0;
        for (int p = 0; p < plane; p++) {
            sum += counts[t * plane + p];
            footprint[p] |= counts[t * plane + p] > 0;
        }
        if (sum > most) {
            most = sum;
            k->peaks[i] = t;
        }
        photons += sum;
    }
    for (int p = 0; p < plane; p++) k->sizes[i] += footprint[p];
    k->photons[i] = (double)photons;
    k->entropy[i] = cell_store_entropy(counts, s, k->compat);
    k->hashes[i] = hash_bytes(HASH_START, counts, (size_t)(s.T * plane) * sizeof *counts);
}

/* Returns whether a bin is the sum of all others in every pixel. */
static bool is_sum(const uint16_t *counts, AugmentShape s, int bin) {
    int plane = s.H * s.W;
    bool same = true;
    for (int p = 0; same && p < plane; p++) {
        int64_t sum = 0;
        for (int t = 0; t < s.T; t++) sum += counts[t * plane + p];
        same = sum == 2 * (int64_t)counts[bin * plane + p];
    }
    return same;
}

static bool read_image(const StoreMaker *k, int64_t i, CellImage *image, Error *error) {
    OWNED char *path = path_join(k->files->root, k->files->files[i].path);
    return cell_image_read(path, image, error);
}

static bool read_cell(void *maker, int64_t i, Error *error) {
    StoreMaker *k = maker;
    AugmentShape s = k->shape;
    CellImage a = {0};
    Error why;
    char text[128];
    if (!read_image(k, i, &a, error)) return false;
    bool ok = true;
    if (a.rank != 3 || a.dims[0] != s.H || a.dims[1] != s.W || a.dims[2] != s.T)
        ok = error_set(error, "%s/%s: has shape %s, but %s has [%d, %d, %d]; all must have the same", k->files->root,
                       k->files->files[i].path, shape_of(&a, text), k->files->files[0].path, s.H, s.W, s.T);
    else if (!take_counts(&a, s, k->counts + i * s.T * s.H * s.W, &why))
        ok = error_set(error, "%s/%s: %s", k->files->root, k->files->files[i].path, why.text);
    else
        describe(k, i);
    const uint16_t *counts = k->counts + i * s.T * s.H * s.W;
    bool sums = ok && k->photons[i] > 0 && s.T > 2 && (is_sum(counts, s, 0) || is_sum(counts, s, s.T - 1));
#pragma omp atomic
    k->files->found[CELL_SUMS] += sums;
#pragma omp atomic
    k->files->found[CELL_PALETTE] += a.palette;
#pragma omp atomic
    k->files->found[CELL_INVERTED] += a.inverted;
    free(a.values);
    return ok;
}

/* Takes the shape of the first file. A crop must be square, so that quarter turns keep its shape. */
static bool find_shape(StoreMaker *k, Error *error) {
    CellImage a = {0};
    char text[128];
    if (!read_image(k, 0, &a, error)) return false;
    bool ok = a.rank == 3 && a.dims[0] == a.dims[1] && a.dims[0] > 0 && a.dims[2] > 0 && a.dims[0] <= 1024 &&
              a.dims[2] <= 65536 && a.dims[0] * a.dims[1] * a.dims[2] <= 1 << 28;
    if (!ok)
        error_set(error, "%s/%s: has shape %s; expected [H, W, T] with H = W, the time bins last", k->files->root,
                  k->files->files[0].path, shape_of(&a, text));
    else
        k->shape = (AugmentShape){(int)a.dims[2], (int)a.dims[0], (int)a.dims[1]};
    free(a.values);
    return ok;
}

typedef struct {
    uint64_t hash;
    int32_t cell;
} Content;

static int compare_contents(const void *a, const void *b) {
    const Content *x = a, *y = b;
    return x->hash != y->hash ? (x->hash < y->hash ? -1 : 1) : (x->cell > y->cell) - (x->cell < y->cell);
}

static void find_copies(StoreMaker *k) {
    OWNED Content *sorted = xmalloc((size_t)k->n * sizeof *sorted);
    for (int64_t i = 0; i < k->n; i++) sorted[i] = (Content){k->hashes[i], (int32_t)i};
    qsort(sorted, (size_t)k->n, sizeof *sorted, compare_contents);
    for (int64_t i = 0; i < k->n; i++)
        k->same_as[sorted[i].cell] = i && sorted[i].hash == sorted[i - 1].hash && k->photons[sorted[i].cell] > 0
                                         ? k->same_as[sorted[i - 1].cell]
                                         : sorted[i].cell;
}

/* ---- the store ---- */

/* Converts the counts to bytes in place if the largest fits; returns whether it does. */
static bool narrow(uint16_t *counts, int64_t n) {
    uint16_t most = 0;
    for (int64_t i = 0; i < n; i++) most = counts[i] > most ? counts[i] : most;
    unsigned char *bytes = (unsigned char *)counts;
    for (int64_t i = 0; i < n && most <= UINT8_MAX; i++) bytes[i] = (unsigned char)counts[i];
    return most <= UINT8_MAX;
}

static bool write_store(StoreMaker *k, const char *path, const char *source, Error *error) {
    AugmentShape s = k->shape;
    bool bytes = narrow(k->counts, k->n * s.T * s.H * s.W);
    const TensorToWrite tensors[] = {{"counts", bytes ? "U8" : "U16", 4, {k->n, s.T, s.H, s.W}, k->counts},
                                     {"footprint", "U8", 3, {k->n, s.H, s.W}, k->footprints},
                                     {"label", "I32", 1, {k->n}, k->labels},
                                     {"donor", "I32", 1, {k->n}, k->donors},
                                     {"field", "I32", 1, {k->n}, k->fields},
                                     {"size", "I32", 1, {k->n}, k->sizes},
                                     {"peak", "I32", 1, {k->n}, k->peaks},
                                     {"same_as", "I32", 1, {k->n}, k->same_as},
                                     {"photons", "F64", 1, {k->n}, k->photons},
                                     {"entropy", "F64", 1, {k->n}, k->entropy}};
    json_auto_t *files = json_array();
    json_auto_t *counted = json_object();
    for (int64_t i = 0; i < k->n; i++) json_array_append_new(files, json_string(k->files->files[i].path));
    for (int i = 0; i < CELL_FINDINGS; i++)
        json_object_set_new(counted, cell_findings[i].key, json_integer((json_int_t)k->files->found[i]));
    OWNED char *donors = json_text("the names of cells", k->donor_names, 0);
    OWNED char *fields = json_text("the names of cells", k->field_names, 0);
    OWNED char *names = json_text("the names of cells", files, 0);
    OWNED char *findings = json_text("the names of cells", counted, 0);
    const char *const keys[] = {"donors", "fields", "files", "findings", "source"};
    const char *const values[] = {donors, fields, names, findings, source};
    return safetensors_write(path, tensors, sizeof tensors / sizeof *tensors, keys, values, 5, error);
}

static void free_making(StoreMaker *k) {
    FREE(k->counts, k->footprints, k->labels, k->donors, k->fields, k->sizes, k->peaks, k->same_as, k->photons,
         k->entropy, k->hashes);
    json_decref(k->donor_names);
    json_decref(k->field_names);
    json_decref(k->field_numbers);
}

static void allocate(StoreMaker *k) {
    size_t n = (size_t)k->n, plane = (size_t)(k->shape.H * k->shape.W);
    int32_t **const columns[] = {&k->labels, &k->donors, &k->fields, &k->sizes, &k->peaks, &k->same_as};
    for (int i = 0; i < 6; i++) *columns[i] = xcalloc(n, sizeof(int32_t));
    k->photons = xmalloc(n * sizeof *k->photons);
    k->entropy = xmalloc(n * sizeof *k->entropy);
    k->hashes = xmalloc(n * sizeof *k->hashes);
    k->counts = xmalloc(n * plane * (size_t)k->shape.T * sizeof *k->counts);
    k->footprints = xcalloc(n, plane);
    k->donor_names = json_array();
    k->field_names = json_array();
    k->field_numbers = json_object();
}

bool cell_store_make(CellFiles *files, bool compat, const char *path, const char *source, int n_threads, Error *error) {
    StoreMaker k = {.files = files, .n = files->n, .compat = compat};
    if (!find_shape(&k, error)) return false;
    allocate(&k);
    bool ok = number_donors(&k, error) && threads_each(k.n, n_threads, read_cell, &k, error);
    if (ok) find_copies(&k);
    ok = ok && write_store(&k, path, source, error);
    free_making(&k);
    return ok;
}
