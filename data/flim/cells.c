#include "data/flim/cells.h"

#include <fts.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unistr.h>

#include "base/file.h"
#include "base/json.h"
#include "data/flim/cell_formats.h"
#include "data/formats/foreign.h"
#include "data/formats/tensor_file_open.h"
#include "data/text/label.h"
#include "data/unfinished.h"

const char FLIM_CELLS_ENDING[] = ".flim.safetensors";
static const char FOLDER[] = "isolated_cells_";

char *flim_cells_path(const char *root, const char *ending) {
    int n = (int)strlen(root);
    while (n > 1 && root[n - 1] == '/') n--;
    return xformat("%.*s%s", n, root, ending);
}

/* ---- files ---- */

/* The file of one cell. */
typedef struct {
    char *path;        /* below the root: "isolated_cells_D1/d01m2_act_cell_7.npy" */
    const char *name;  /* the end of path */
    const char *donor; /* [donor_length] in path, after isolated_cells_; of a file in the root: the root's name */
    int donor_length, folder; /* folder: the length of the donor's folder in path; 0: the file is in the root */
    FlimCellName parsed;
    int64_t size, seconds, nanoseconds; /* bytes; the time of the last change */
} File;

/* Kinds of files and folders that are counted while the folder is listed, and then reported. */
enum { UNLABELLED = CELL_KINDS, BOTH, ROWS, OTHERS, NOT_REGULAR, DEEPER, PALETTE, INVERTED, FINDINGS };
static const struct {
    const char *key, *text;
} findings[FINDINGS] = {
    [CELL_NPY] = {"npy", "cells are .npy files"},
    [CELL_TIFF] = {"tiff", "cells are TIFF stacks"},
    [CELL_SDT] = {"sdt", "cells are .sdt files"},
    [UNLABELLED] = {"unlabelled",
                    "files have no class: neither a word in their names (_in, _act; --class-words), nor a "
                    "folder of a class, nor a row in a table (--class-table): left out"},
    [BOTH] = {"both", "files have two classes in their names: no label is shown"},
    [ROWS] = {"rows", "rows of the table of classes name no file that is here"},
    [OTHERS] = {"others", "files have other formats: left out"},
    [NOT_REGULAR] = {"not_regular", "entries are not regular files (FIFOs, devices, broken links): left out"},
    [DEEPER] = {"deeper", "folders lie inside donors' folders: left out with all files in them (expected: "
                          "DIR/DONOR/NAME, or DIR/DONOR/CLASS/NAME with a class word as the folder's name)"},
    [PALETTE] = {"palette", "cells are TIFF stacks with a palette: its indices are taken for counts"},
    [INVERTED] = {"inverted",
                  "cells are TIFF stacks that say that 0 is white: their numbers are taken as they are; check "
                  "that dark pixels have few photons"}};

typedef struct {
    const char *root;
    bool compat, unlabelled; /* FlimCellsOptions */
    CellClasses classes;
    File *files;
    int64_t n, found[FINDINGS], foreign[FOREIGN_FORMATS];
    AugmentShape shape;
    uint16_t *counts;
    unsigned char *footprints;
    int32_t *labels, *donors, *fields, *sizes, *peaks, *same_as;
    double *photons, *entropy;
    uint64_t *hashes;
    json_t *donor_names, *field_names, *field_numbers; /* lists; an object */
    int64_t bad;                                       /* the first bad file so far; n: none */
    Error *error;
} StoreMaker;

/* ---- finding files ---- */

static int by_name(const FTSENT **a, const FTSENT **b) {
    int order = strverscmp((*a)->fts_name, (*b)->fts_name);
    return order ? order : strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Sets path, name and donor of a file in the root itself. */
static void place_in_root(File *f, const char *root, const char *name) {
    size_t n = strlen(root);
    while (n > 1 && root[n - 1] == '/') n--;
    const char *slash = memrchr(root, '/', n > 1 ? n : 0);
    f->path = xstrdup(name);
    f->name = f->path;
    f->donor = slash ? slash + 1 : root;
    f->donor_length = (int)(root + n - f->donor);
}

/* Sets the same of a file in a donor's folder, or in a folder of a class there. */
static void place_in_folder(File *f, const FTSENT *entry) {
    const FTSENT *parent = entry->fts_parent, *class = entry->fts_level > 2 ? parent : NULL;
    const char *folder = class ? parent->fts_parent->fts_name : parent->fts_name;
    f->path = xformat("%s/%s%s%s", folder, class ? class->fts_name : "", class ? "/" : "", entry->fts_name);
    f->name = strrchr(f->path, '/') + 1;
    f->folder = (int)strlen(folder);
    f->donor = f->path + (!strncmp(folder, FOLDER, strlen(FOLDER)) && folder[strlen(FOLDER)] ? strlen(FOLDER) : 0);
    f->donor_length = (int)(f->path + f->folder - f->donor);
}

/* Returns the file that differs from the newest in its ending only, as the same cell, which would count twice; NULL:
 * there is none. Files whose names begin alike follow each other. */
static const File *twin_of_newest(const StoreMaker *k) {
    const File *newest = &k->files[k->n - 1];
    size_t n = (size_t)(strrchr(newest->path, '.') + 1 - newest->path);
    for (int64_t i = k->n - 2; i >= 0 && !strncmp(k->files[i].path, newest->path, n); i--)
        if (strrchr(k->files[i].path, '.') + 1 == k->files[i].path + n) return &k->files[i];
    return NULL;
}

/* Sets the label and the field of a file. In a folder to predict two classes are as good as none. */
static bool judge(StoreMaker *k, File *f, Error *error) {
    Error why;
    if (!cell_classes_of_file(&k->classes, f->path, &f->parsed, &why) && !k->unlabelled)
        return error_set(error, "%s/%s: %s", k->root, f->path, why.text);
    k->found[BOTH] += f->parsed.both;
    k->found[UNLABELLED] += f->parsed.label < 0 && !k->unlabelled;
    return true;
}

static bool keep_file(StoreMaker *k, File f, Error *error) {
    k->found[cell_kind(f.name)]++;
    if (!(k->n & (k->n - 1))) /* at 0, 1, 2, 4, 8 ... */
        k->files = xrealloc(k->files, (size_t)(k->n ? 2 * k->n : 1) * sizeof *k->files);
    k->files[k->n++] = f;
    const File *twin = twin_of_newest(k);
    if (twin)
        return error_set(error, "%s/%s and %s have one name, and would count as two cells: keep one of them", k->root,
                         twin->path, f.name);
    return (!u8_check((const uint8_t *)f.path, strlen(f.path)) &&
            !u8_check((const uint8_t *)f.donor, (size_t)f.donor_length)) ||
           error_set(error, "%s/%s: its name is not UTF-8", k->root, f.path);
}

static bool add_file(StoreMaker *k, const FTSENT *entry, Error *error) {
    File f = {.size = entry->fts_statp->st_size,
              .seconds = entry->fts_statp->st_mtim.tv_sec,
              .nanoseconds = entry->fts_statp->st_mtim.tv_nsec};
    if (entry->fts_level == 1)
        place_in_root(&f, k->root, entry->fts_name);
    else
        place_in_folder(&f, entry);
    bool ok = judge(k, &f, error), lost = f.parsed.label < 0 && !k->unlabelled && !k->classes.table;
    if (ok && lost && cell_classes_of_folder(&k->classes, entry->fts_parent->fts_name) >= 0)
        ok = error_set(error,
                       "%s: the folder %s is a class's, and does not say whose cells these are; expected "
                       "%s/DONOR/%s/NAME",
                       entry->fts_path, entry->fts_parent->fts_name, k->root, entry->fts_parent->fts_name);
    if (ok && (f.parsed.label >= 0 || k->unlabelled)) return keep_file(k, f, error);
    free(f.path);
    return ok;
}

/* Takes a folder: those of the root are donors', and in these those of classes are entered. */
static bool visit_folder(StoreMaker *k, FTS *tree, FTSENT *entry, Error *error) {
    int level = entry->fts_level;
    bool hidden = entry->fts_name[0] == '.',
         class = level == 2 && cell_classes_of_folder(&k->classes, entry->fts_name) >= 0;
    if (level > 0 && ((level > 1 && !class) || hidden)) fts_set(tree, entry, FTS_SKIP);
    if (level > 1 && !class && !hidden) k->found[DEEPER]++;
    const char *donor = level == 2 ? entry->fts_parent->fts_name : "";
    return k->unlabelled || class || hidden || cell_classes_of_folder(&k->classes, donor) < 0 ||
           error_set(error, "%s: the folder %s is a class's, and this seems to be a donor's; expected %s/%s/%s/NAME",
                     entry->fts_path, donor, k->root, entry->fts_name, donor);
}

/* Takes one entry of the tree: files in the folders of the root are cells. */
static bool visit(StoreMaker *k, FTS *tree, FTSENT *entry, Error *error) {
    int kind = entry->fts_info, level = entry->fts_level;
    if (kind == FTS_ERR || kind == FTS_DNR || kind == FTS_NS)
        return error_set(error, "%s: %s", entry->fts_path, strerror(entry->fts_errno));
    if (kind == FTS_D || kind == FTS_DC) return visit_folder(k, tree, entry, error);
    if (kind == FTS_DP || entry->fts_name[0] == '.') return true;
    if (kind != FTS_F) {
        k->found[NOT_REGULAR]++;
        return true;
    }
    int foreign = foreign_format(entry->fts_name);
    if (!level)
        return error_set(error, "%s: is a file%s%s; expected a folder of cells, DIR/DONOR/NAME (%s)", k->root,
                         foreign < 0 ? "" : ", of ", foreign < 0 ? "" : foreign_formats[foreign].what, CELL_ENDINGS);
    if (cell_kind(entry->fts_name) == CELL_KINDS) {
        if (foreign >= 0) k->foreign[foreign]++;
        k->found[OTHERS]++;
        return true;
    }
    if (level < 2 && !(level == 1 && k->unlabelled))
        return error_set(error, "%s: lies in no donor's folder; expected %s/DONOR/NAME (%s)", entry->fts_path, k->root,
                         CELL_ENDINGS);
    return add_file(k, entry, error);
}

static bool find_files(StoreMaker *k, Error *error) {
    if (!unfinished_check(k->root, error)) return false;
    char *root = flim_cells_path(k->root, "");
    FTS *tree = fts_open((char *const[]){root, NULL}, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    if (!tree) die("cannot list %s", k->root);
    bool ok = true;
    for (FTSENT *entry; ok && (entry = fts_read(tree));) ok = visit(k, tree, entry, error);
    fts_close(tree);
    free(root);
    if (ok && !k->n) {
        char *foreign = foreign_text(k->foreign);
        ok = error_set(error, "%s: no cell found; expected %s, %s%s", k->root,
                       k->unlabelled ? "NAME or DONOR/NAME"
                                     : "DONOR/NAME_in_... and DONOR/NAME_act_..., or DONOR/quiescent/NAME and "
                                       "DONOR/active/NAME, or --class-words or --class-table for others",
                       CELL_ENDINGS, foreign);
        free(foreign);
    }
    k->found[ROWS] = cell_classes_unused(&k->classes);
    return ok && (k->n <= INT32_MAX || error_set(error, "%s: more than 2^31 - 1 cells", k->root));
}

/* Returns a hash of what the store is made from: its version, what tells the classes, and the files' names, sizes and
 * times. */
static char *source_of(const StoreMaker *k) {
    uint64_t hash = hash_bytes(HASH_START, k->unlabelled ? "3u" : k->compat ? "3c" : "3 ", 2);
    if (k->classes.hash) hash = hash_bytes(hash, &k->classes.hash, sizeof k->classes.hash);
    for (int64_t i = 0; i < k->n; i++) {
        const File *f = &k->files[i];
        const int64_t numbers[3] = {f->size, f->seconds, f->nanoseconds};
        hash = hash_bytes(hash_bytes(hash, f->path, strlen(f->path) + 1), numbers, sizeof numbers);
    }
    return xformat("%016llx", (unsigned long long)hash);
}

/* ---- donors and fields ---- */

static bool check_donor(const char *name, int n, Error *error) {
    return !memchr(name, ',', (size_t)n) ||
           error_set(error,
                     "the donor %.*s has a comma in its name, which separates donors in options: rename its folder", n,
                     name);
}

/* Returns the number of the donor whose name has the same normal form, or -1. */
static int donor_number(const StoreMaker *k, const File *f) {
    char *name = xformat("%.*s", f->donor_length, f->donor), *normal = label_normal(name);
    int found = -1;
    for (size_t d = 0; found < 0 && d < json_array_size(k->donor_names); d++) {
        char *other = label_normal(json_string_value(json_array_get(k->donor_names, d)));
        if (!strcmp(normal, other)) found = (int)d;
        free(other);
    }
    free(normal);
    free(name);
    return found;
}

/* Numbers the donor of a file. Two folders of one donor are an error, unless donors decide nothing. */
static bool number_donor(StoreMaker *k, int64_t i, Error *error) {
    const File *f = &k->files[i], *last = i ? f - 1 : NULL;
    Error why;
    int n = f->donor_length, donor = last && f->donor_length == last->donor_length && f->folder == last->folder &&
                                             !strncmp(f->path, last->path, (size_t)f->folder + (f->folder > 0))
                                         ? k->donors[i - 1]
                                         : -1;
    if (donor < 0 && (donor = donor_number(k, f)) >= 0 && !k->unlabelled)
        return error_set(error, "%s: two folders belong to donor %.*s; rename one or merge them", k->root, n, f->donor);
    if (donor < 0 && !k->unlabelled && !check_donor(f->donor, n, &why))
        return error_set(error, "%s: %s", k->root, why.text);
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
        const File *f = &k->files[i];
        if (!number_donor(k, i, error)) return false;
        char *field = xformat("%.*s %.*s", f->donor_length, f->donor, f->parsed.field, f->name + f->parsed.prefix);
        json_t *number = json_object_get(k->field_numbers, field);
        if (!number) {
            json_object_set_new(k->field_numbers, field,
                                number = json_integer((json_int_t)json_array_size(k->field_names)));
            json_array_append_new(k->field_names, json_string(field));
        }
        k->fields[i] = (int32_t)json_integer_value(number);
        k->labels[i] = f->parsed.label;
        free(field);
    }
    return true;
}

/* ---- contents ---- */

double flim_cells_entropy(const uint16_t *counts, AugmentShape s, bool compat) {
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
    k->entropy[i] = flim_cells_entropy(counts, s, k->compat);
    k->hashes[i] = hash_bytes(HASH_START, counts, (size_t)(s.T * plane) * sizeof *counts);
}

static bool read_image(const StoreMaker *k, int64_t i, CellImage *image, Error *error) {
    char *path = path_join(k->root, k->files[i].path);
    bool ok = cell_image_read(path, image, error);
    free(path);
    return ok;
}

static bool read_cell(StoreMaker *k, int64_t i, Error *error) {
    AugmentShape s = k->shape;
    CellImage a = {0};
    Error why;
    char text[128];
    if (!read_image(k, i, &a, error)) return false;
    bool ok = true;
    if (a.rank != 3 || a.dims[0] != s.H || a.dims[1] != s.W || a.dims[2] != s.T)
        ok = error_set(error, "%s/%s: has shape %s, but %s has [%d, %d, %d]; all must have the same", k->root,
                       k->files[i].path, shape_of(&a, text), k->files[0].path, s.H, s.W, s.T);
    else if (!take_counts(&a, s, k->counts + i * s.T * s.H * s.W, &why))
        ok = error_set(error, "%s/%s: %s", k->root, k->files[i].path, why.text);
    else
        describe(k, i);
#pragma omp atomic
    k->found[PALETTE] += a.palette;
#pragma omp atomic
    k->found[INVERTED] += a.inverted;
    free(a.values);
    return ok;
}

/* Takes the shape of the first file. A crop must be square, so that quarter turns keep its shape. */
static bool find_shape(StoreMaker *k, Error *error) {
    CellImage a = {0};
    char text[128];
    if (!read_image(k, 0, &a, error)) return false;
    bool ok = a.rank == 3 && a.dims[0] == a.dims[1] && a.dims[0] > 0 && a.dims[2] > 0 && a.dims[0] <= 1024 &&
              a.dims[2] <= 65536;
    if (!ok)
        error_set(error, "%s/%s: has shape %s; expected [H, W, T] with H = W, the time bins last", k->root,
                  k->files[0].path, shape_of(&a, text));
    else
        k->shape = (AugmentShape){(int)a.dims[2], (int)a.dims[0], (int)a.dims[1]};
    free(a.values);
    return ok;
}

/* Reads all files. Reports the first bad file, whatever the number of threads. */
static bool read_cells(StoreMaker *k, int n_threads) {
    k->bad = k->n;
#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
    for (int64_t i = 0; i < k->n; i++) {
        Error why;
        bool ok = read_cell(k, i, &why);
#pragma omp critical
        if (!ok && i < k->bad) {
            k->bad = i;
            *k->error = why;
        }
    }
    return k->bad == k->n;
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
    Content *sorted = xmalloc((size_t)k->n * sizeof *sorted);
    for (int64_t i = 0; i < k->n; i++) sorted[i] = (Content){k->hashes[i], (int32_t)i};
    qsort(sorted, (size_t)k->n, sizeof *sorted, compare_contents);
    for (int64_t i = 0; i < k->n; i++)
        k->same_as[sorted[i].cell] =
            i && sorted[i].hash == sorted[i - 1].hash ? k->same_as[sorted[i - 1].cell] : sorted[i].cell;
    free(sorted);
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
    json_t *files = json_array(), *counted = json_object();
    for (int64_t i = 0; i < k->n; i++) json_array_append_new(files, json_string(k->files[i].path));
    for (int i = 0; i < FINDINGS; i++)
        json_object_set_new(counted, findings[i].key, json_integer((json_int_t)k->found[i]));
    char *lists[] = {json_text("the names of cells", k->donor_names, 0),
                     json_text("the names of cells", k->field_names, 0), json_text("the names of cells", files, 0),
                     json_text("the names of cells", counted, 0)};
    const char *const keys[] = {"donors", "fields", "files", "findings", "source"};
    const char *const values[] = {lists[0], lists[1], lists[2], lists[3], source};
    bool ok = safetensors_write(path, tensors, sizeof tensors / sizeof *tensors, keys, values, 5, error);
    for (int i = 0; i < 4; i++) free(lists[i]);
    json_decref(files);
    json_decref(counted);
    return ok;
}

static void free_making(StoreMaker *k) {
    for (int64_t i = 0; i < k->n; i++) free(k->files[i].path);
    void *const all[] = {k->files, k->counts, k->footprints, k->labels,  k->donors,  k->fields,
                         k->sizes, k->peaks,  k->same_as,    k->photons, k->entropy, k->hashes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    json_decref(k->donor_names);
    json_decref(k->field_names);
    json_decref(k->field_numbers);
}

static bool make_store(StoreMaker *k, const char *path, const char *source, int n_threads, Error *error) {
    size_t n = (size_t)k->n;
    if (!find_shape(k, error)) return false;
    size_t plane = (size_t)(k->shape.H * k->shape.W);
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
    if (!number_donors(k, error) || !read_cells(k, n_threads)) return false;
    find_copies(k);
    return write_store(k, path, source, error);
}

/* ---- opening ---- */

static const char *metadata(const FlimCells *c, const char *key) { return tensor_file_metadata(&c->file, key); }

/* Returns the data of a tensor of n cells, or NULL with an error. */
static const void *take(const FlimCells *c, const char *name, const char *dtype, int64_t each, size_t align,
                        Error *error) {
    const StoredTensor *t = tensor_file_find(&c->file, name);
    if (t && t->rank && !strcmp(t->dtype, dtype) && t->dims[0] == c->n && t->count == c->n * each &&
        !((uintptr_t)t->data % align))
        return t->data;
    error_set(error, "has no tensor '%s' of %s, of %lld cells: it is no store of cells", name, dtype, (long long)c->n);
    return NULL;
}

static bool take_names(FlimCells *c, int which, const char *key, const char ***names, int *n, Error *error) {
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

static bool check_donors(const FlimCells *c, Error *error) {
    for (int d = 0; d < c->n_donors; d++)
        if (!check_donor(c->donor_names[d], (int)strlen(c->donor_names[d]), error)) return false;
    return true;
}

static bool check_range(const FlimCells *c, const char *name, const int32_t *values, int64_t begin, int64_t end,
                        Error *error) {
    for (int64_t i = 0; i < c->n; i++)
        if (values[i] < begin || values[i] >= end)
            return error_set(error, "%s[%lld] is %d; expected %lld to %lld", name, (long long)i, (int)values[i],
                             (long long)begin, (long long)end - 1);
    return true;
}

static bool check_numbers(const FlimCells *c, const char *name, const double *values, Error *error) {
    for (int64_t i = 0; i < c->n; i++)
        if (!(values[i] >= 0 && isfinite(values[i])))
            return error_set(error, "%s of cell %lld (%.200s) is %g; expected a number from 0 on", name, (long long)i,
                             c->file_names[i], values[i]);
    return true;
}

static bool take_tensors(FlimCells *c, bool unlabelled, Error *error) {
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
           check_range(c, "label", c->labels, unlabelled ? -1 : 0, FLIM_CLASSES, error) &&
           check_range(c, "donor", c->donors, 0, c->n_donors, error) &&
           check_range(c, "field", c->fields, 0, c->n_fields, error) &&
           check_range(c, "peak", c->peaks, 0, c->shape.T, error) &&
           check_range(c, "same_as", c->same_as, 0, c->n, error) &&
           check_range(c, "size", c->sizes, 0, plane + 1, error) && check_numbers(c, "photons", c->photons, error) &&
           check_numbers(c, "entropy", c->entropy, error);
}

static bool open_store(FlimCells *c, const char *path, bool unlabelled, Error *error) {
    Error why;
    *c = (FlimCells){0};
    if (tensor_file_open(path, &c->file, &why) && take_tensors(c, unlabelled, &why)) return true;
    flim_cells_close(c);
    return error_set(error, "%s: %s", path, why.text);
}

void flim_cells_close(FlimCells *c) {
    free(c->donor_names);
    free(c->field_names);
    free(c->file_names);
    free(c->memory);
    for (int i = 0; i < 3; i++) json_decref(c->lists[i]);
    tensor_file_close(&c->file);
    *c = (FlimCells){0};
}

/* Prints what a store holds. k: with what was counted in the folder; NULL: take it from the store, which alone knows
 * what is odd in the files. */
static void print_store(const FlimCells *c, const char *store, const char *how, const StoreMaker *k) {
    json_t *stored = json_loads(metadata(c, "findings") ? metadata(c, "findings") : "{}", 0, NULL);
    int64_t copies = 0, dark = 0;
    for (int64_t i = 0; i < c->n; i++) {
        copies += c->same_as[i] != i;
        dark += !(c->photons[i] > 0);
    }
    printf("[Store] %s: %lld cells of %d donors, %d x %d pixels, %d bins, u%d, %s\n", store, (long long)c->n,
           c->n_donors, c->shape.H, c->shape.W, c->shape.T, c->bits, how);
    labels_warn_alike(store, "donors", c->donor_names, c->n_donors);
    for (int i = 0; i < FINDINGS; i++) {
        int64_t n = k && i < PALETTE ? k->found[i] : json_integer_value(json_object_get(stored, findings[i].key));
        bool all = i < CELL_KINDS && n == c->n; /* of one kind, which goes without saying */
        if (n && !all) printf("[Store] %lld %s\n", (long long)n, findings[i].text);
        if (k && i == OTHERS) foreign_print("Store", k->foreign);
    }
    if (dark) printf("[Store] %lld cells have no photon: they tell nothing of their class\n", (long long)dark);
    if (copies) printf("[Store] %lld cells are copies of others\n", (long long)copies);
    json_decref(stored);
}

/* Opens the store if it is whole and was made from these files. Otherwise `why` says why not; empty: there is none. */
static bool open_current(FlimCells *c, const StoreMaker *k, const char *store, const char *source, Error *why) {
    why->text[0] = 0;
    if (access(store, F_OK) || !open_store(c, store, k->unlabelled, why)) return false;
    const char *from = metadata(c, "source");
    if (from && !strcmp(from, source)) return true;
    flim_cells_close(c);
    return error_set(why, "%s was made from other files, or with another --compat or other classes", store);
}

/* Opens or makes the store. One program at a time makes it; a program that has waited for the lock checks again. */
static bool open_or_make(FlimCells *c, StoreMaker *k, const char *store, const char *source, int n_threads,
                         char how[40]) {
    FileLock lock;
    Error why;
    snprintf(how, 40, "made earlier");
    if (open_current(c, k, store, source, &why)) {
        file_remove_stale(store);
        return true;
    }
    if (!file_lock(&lock, store, k->error)) return false;
    bool ok = open_current(c, k, store, source, &why);
    if (!ok) {
        double start = seconds_now();
        if (why.text[0]) printf("[Store] %s; making it anew\n", why.text);
        ok = make_store(k, store, source, n_threads, k->error) && open_store(c, store, k->unlabelled, k->error);
        snprintf(how, 40, "read in %.1f s", seconds_now() - start);
    }
    file_unlock(&lock);
    return ok;
}

/* Opens a store itself, or the store of the folder k->root. */
static bool open_cells(FlimCells *c, StoreMaker *k, const char *ending, int n_threads, Error *error) {
    *c = (FlimCells){0};
    if (path_ending(k->root, ".safetensors")) {
        if (k->classes.hash)
            return error_set(error,
                             "%s: a store has its classes in it: give --class-words and --class-table with the "
                             "folder of the cells",
                             k->root);
        bool ok = open_store(c, k->root, k->unlabelled, error);
        if (ok) print_store(c, k->root, "given", NULL);
        return ok;
    }
    k->error = error;
    bool ok = find_files(k, error);
    char *source = source_of(k), *store = flim_cells_path(k->root, ending), how[40];
    ok = ok && open_or_make(c, k, store, source, n_threads > 0 ? n_threads : omp_get_num_procs(), how);
    if (ok) print_store(c, store, how, k);
    free_making(k);
    free(source);
    free(store);
    return ok;
}

bool flim_cells_open_with(FlimCells *c, const char *path, const FlimCellsOptions *o, Error *error) {
    StoreMaker k = {.root = path, .compat = o->compat, .unlabelled = o->unlabelled};
    *c = (FlimCells){0};
    if (!cell_classes_open(&k.classes, o->class_words, o->class_table, error)) return false;
    bool ok = open_cells(c, &k, o->unlabelled ? ".predict.flim.safetensors" : FLIM_CELLS_ENDING, o->n_threads, error);
    cell_classes_close(&k.classes);
    return ok;
}

bool flim_cells_open(FlimCells *c, const char *path, bool compat, int n_threads, Error *error) {
    return flim_cells_open_with(c, path, &(FlimCellsOptions){.compat = compat, .n_threads = n_threads}, error);
}

void flim_cells_blank(FlimCells *c, int64_t n, AugmentShape s) {
    size_t cells = (size_t)n, column = cells * sizeof(int32_t);
    double *entropy = xcalloc(1, cells * sizeof(double) + 2 * column + cells * (size_t)(s.T * s.H * s.W) * 2);
    void *after_entropy = entropy + cells;
    int32_t *labels = after_entropy, *zeros = labels + n;
    *c = (FlimCells){.n = n,
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

void flim_cells_counts(const FlimCells *c, int64_t cell, float *out) {
    int64_t n = (int64_t)c->shape.T * c->shape.H * c->shape.W, first = cell * n;
    const unsigned char *bytes = c->counts;
    const uint16_t *words = c->counts;
    for (int64_t i = 0; i < n; i++) out[i] = c->bits == 8 ? (float)bytes[first + i] : (float)words[first + i];
}

uint64_t flim_cells_checksum(const FlimCells *c, int64_t cell) {
    size_t bytes = (size_t)c->shape.T * (size_t)c->shape.H * (size_t)c->shape.W * sizeof(float);
    float *counts = xmalloc(bytes);
    flim_cells_counts(c, cell, counts);
    uint64_t sum = checksum(0, counts, bytes);
    free(counts);
    return sum;
}
