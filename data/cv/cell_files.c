#include "data/cv/cell_files.h"

#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistr.h>

#include "data/unfinished.h"

static const char FOLDER[] = "isolated_cells_";

const struct CellFinding cell_findings[CELL_FINDINGS] = {
    [CELL_NPY] = {"npy", "cells are .npy files"},
    [CELL_TIFF] = {"tiff", "cells are TIFF stacks"},
    [CELL_SDT] = {"sdt", "cells are .sdt files"},
    [CELL_UNLABELLED] = {"unlabelled",
                         "files have no class: neither a word in their names (_in, _act; --class-words), nor a "
                         "folder of a class, nor a row in a table (--class-table): left out"},
    [CELL_BOTH] = {"both", "files have two classes in their names: no label is shown"},
    [CELL_ROWS] = {"rows", "rows of the table of classes name no file that is here"},
    [CELL_OTHERS] = {"others", "files have other formats: left out"},
    [CELL_NOT_REGULAR] = {"not_regular", "entries are not regular files (FIFOs, devices, broken links): left out"},
    [CELL_DEEPER] = {"deeper", "folders lie inside donors' folders: left out with all files in them (expected: "
                               "DIR/DONOR/NAME, or DIR/DONOR/CLASS/NAME with a class word as the folder's name)"},
    [CELL_PALETTE] = {"palette", "cells are TIFF stacks with a palette: its indices are taken for counts"},
    [CELL_INVERTED] = {"inverted",
                       "cells are TIFF stacks that say that 0 is white: their numbers are taken as they are; check "
                       "that dark pixels have few photons"},
    [CELL_SUMS] = {"sums", "cells have a first or last bin that is the sum of all others, as an image of the intensity "
                           "in the stack is, which is no time bin: save the time bins alone"}};

/* ---- finding files ---- */

static int by_name(const FTSENT **a, const FTSENT **b) {
    int order = strverscmp((*a)->fts_name, (*b)->fts_name);
    return order ? order : strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Sets path, name and donor of a file in the root itself. */
static void place_in_root(CellFile *f, const char *root, const char *name) {
    size_t n = strlen(root);
    while (n > 1 && root[n - 1] == '/') n--;
    const char *slash = memrchr(root, '/', n > 1 ? n : 0);
    f->path = xstrdup(name);
    f->name = f->path;
    f->donor = slash ? slash + 1 : root;
    if (root + n - f->donor > (ptrdiff_t)strlen(FOLDER) && !strncmp(f->donor, FOLDER, strlen(FOLDER)))
        f->donor += strlen(FOLDER);
    f->donor_length = (int)(root + n - f->donor);
}

/* Sets the same of a file in a donor's folder, or in a folder of a class there. */
static void place_in_folder(CellFile *f, const FTSENT *entry) {
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
static const CellFile *twin_of_newest(const CellFiles *k) {
    const CellFile *newest = &k->files[k->n - 1];
    size_t n = (size_t)(strrchr(newest->path, '.') + 1 - newest->path);
    for (int64_t i = k->n - 2; i >= 0 && !strncmp(k->files[i].path, newest->path, n); i--)
        if (strrchr(k->files[i].path, '.') + 1 == k->files[i].path + n) return &k->files[i];
    return NULL;
}

/* Sets the label and the field of a file. In a folder to predict two classes are as good as none. */
static bool judge(CellFiles *k, CellFile *f, Error *error) {
    if (!cell_classes_of_file(&k->classes, f->path, &f->parsed, error) && !(k->unlabelled && f->parsed.both))
        return error_before(error, "%s/%s: ", k->root, f->path);
    bool lost = f->parsed.label < 0 && !k->unlabelled;
    if (lost && !k->nameless) k->nameless = xstrdup(f->path);
    k->found[CELL_BOTH] += f->parsed.both;
    k->found[CELL_UNLABELLED] += lost;
    return true;
}

static bool keep_file(CellFiles *k, CellFile f, Error *error) {
    k->found[cell_kind(f.name)]++;
    k->files = xgrow(k->files, (size_t)k->n, sizeof *k->files);
    k->files[k->n++] = f;
    const CellFile *twin = twin_of_newest(k);
    if (twin)
        return error_set(error, "%s/%s and %s have one name, and would count as two cells: keep one of them", k->root,
                         twin->path, f.name);
    return (!u8_check((const uint8_t *)f.path, strlen(f.path)) &&
            !u8_check((const uint8_t *)f.donor, (size_t)f.donor_length)) ||
           error_set(error, "%s/%s: its name is not UTF-8", k->root, f.path);
}

static bool add_file(CellFiles *k, const FTSENT *entry, Error *error) {
    const struct stat *s = entry->fts_statp;
    CellFile f = {.state = {s->st_size, s->st_mtim.tv_sec, s->st_mtim.tv_nsec, s->st_ctim.tv_sec, s->st_ctim.tv_nsec}};
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
static bool visit_folder(CellFiles *k, FTS *tree, FTSENT *entry, Error *error) {
    int level = entry->fts_level;
    bool hidden = entry->fts_name[0] == '.',
         class = level == 2 && cell_classes_of_folder(&k->classes, entry->fts_name) >= 0;
    if (level > 0 && ((level > 1 && !class) || hidden)) fts_set(tree, entry, FTS_SKIP);
    if (level > 1 && !class && !hidden) k->found[CELL_DEEPER]++;
    const char *donor = level == 2 ? entry->fts_parent->fts_name : "";
    return k->unlabelled || class || hidden || cell_classes_of_folder(&k->classes, donor) < 0 ||
           error_set(error, "%s: the folder %s is a class's, and this seems to be a donor's; expected %s/%s/%s/NAME",
                     entry->fts_path, donor, k->root, entry->fts_name, donor);
}

/* Takes one entry of the tree: files in the folders of the root are cells. */
static bool visit(CellFiles *k, FTS *tree, FTSENT *entry, Error *error) {
    int kind = entry->fts_info, level = entry->fts_level;
    if (kind == FTS_ERR || kind == FTS_DNR || kind == FTS_NS)
        return error_set(error, "%s: %s", entry->fts_path, strerror(entry->fts_errno));
    if (kind == FTS_D || kind == FTS_DC) return visit_folder(k, tree, entry, error);
    if (kind == FTS_DP || entry->fts_name[0] == '.') return true;
    if (kind != FTS_F) {
        k->found[CELL_NOT_REGULAR]++;
        return true;
    }
    int foreign = foreign_format(entry->fts_name);
    if (!level)
        return error_set(error, "%s: is a file%s%s; expected a folder of cells, DIR/DONOR/NAME (%s)", k->root,
                         foreign < 0 ? "" : ", of ", foreign < 0 ? "" : foreign_formats[foreign].what, CELL_ENDINGS);
    if (cell_kind(entry->fts_name) == CELL_KINDS) {
        if (foreign >= 0) k->foreign[foreign]++;
        k->found[CELL_OTHERS]++;
        return true;
    }
    if (level < 2 && !(level == 1 && k->unlabelled))
        return error_set(error, "%s: lies in no donor's folder; expected %s/DONOR/NAME (%s)", entry->fts_path, k->root,
                         CELL_ENDINGS);
    return add_file(k, entry, error);
}

/* Says why no cell was found. */
static bool refuse_folder(const CellFiles *k, Error *error) {
    OWNED char *foreign = foreign_text(k->foreign);
    const char *row = cell_classes_first(&k->classes);
    if (!k->nameless)
        error_set(error, "%s: no cell found; expected %s, a file %s for each%s", k->root,
                  k->unlabelled ? "DIR/NAME or DIR/DONOR/NAME" : "DIR/DONOR/NAME", CELL_ENDINGS, foreign);
    else if (row)
        error_set(error,
                  "%s: %s names none of its %lld files, of which the first is %s; the first row names %.200s; expected "
                  "the path below the folder, or the file's name alone",
                  k->root, k->classes.table, (long long)k->found[CELL_UNLABELLED], k->nameless, row);
    else
        error_set(error,
                  "%s: none of its %lld files has a class, as %s; expected a word in each name (DONOR/NAME_in_1.npy, "
                  "DONOR/NAME_act_2.npy; others with --class-words), folders (DONOR/quiescent/NAME, "
                  "DONOR/active/NAME), or a table (--class-table)",
                  k->root, (long long)k->found[CELL_UNLABELLED], k->nameless);
    return false;
}

bool cell_files_find(CellFiles *k, Error *error) {
    if (!unfinished_check(k->root, error)) return false;
    OWNED char *root = xstrdup(k->root);
    for (size_t n = strlen(root); n > 1 && root[n - 1] == '/'; n--) root[n - 1] = 0;
    FTS *tree = fts_open((char *const[]){root, NULL}, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    if (!tree) die("cannot list %s", k->root);
    bool ok = true;
    for (FTSENT *entry; ok && (entry = fts_read(tree));) ok = visit(k, tree, entry, error);
    fts_close(tree);
    k->found[CELL_ROWS] = cell_classes_unused(&k->classes);
    return ok && (k->n || refuse_folder(k, error)) &&
           (k->n <= INT32_MAX || error_set(error, "%s: more than 2^31 - 1 cells", k->root));
}

void cell_files_close(CellFiles *k) {
    for (int64_t i = 0; i < k->n; i++) free(k->files[i].path);
    FREE(k->files, k->nameless);
    cell_classes_close(&k->classes);
}

/* The time of any change, also of a name or a date, tells apart what cp -p or rsync -t put in the place of a file. */
char *cell_files_source(const CellFiles *k, bool compat) {
    uint64_t hash = hash_bytes(HASH_START, k->unlabelled ? "4u" : compat ? "4c" : "4 ", 2);
    if (k->classes.hash) hash = hash_bytes(hash, &k->classes.hash, sizeof k->classes.hash);
    for (int64_t i = 0; i < k->n; i++) {
        const CellFile *f = &k->files[i];
        hash = hash_bytes(hash_bytes(hash, f->path, strlen(f->path) + 1), f->state, sizeof f->state);
    }
    return xformat("%016llx", (unsigned long long)hash);
}

bool cell_files_check_donor(const char *name, int n, Error *error) {
    return !memchr(name, ',', (size_t)n) ||
           error_set(error,
                     "the donor %.*s has a comma in its name, which separates donors in options: rename its folder", n,
                     name);
}
