#include "data/slm/corpus_files.h"

#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

#include "base/file.h"
#include "data/formats/text_source.h"

typedef enum { KIND_OTHER, KIND_TEXT, KIND_JSONL } Kind;

static Kind kind_of(const char *name) {
    static const struct {
        const char *ending;
        Kind kind;
    } kinds[] = {
        {".txt", KIND_TEXT}, {".text", KIND_TEXT}, {".md", KIND_TEXT}, {".jsonl", KIND_JSONL}, {".ndjson", KIND_JSONL}};
    size_t n = strlen(name);
    if (n > 3 && !strcasecmp(name + n - 3, ".gz")) n -= 3;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t m = strlen(kinds[i].ending);
        if (n > m && !strncasecmp(name + n - m, kinds[i].ending, m)) return kinds[i].kind;
    }
    return KIND_OTHER;
}

static bool add_file(CorpusFiles *files, const char *path, const char *name, bool held_out, Error *error) {
    if (u8_check((const uint8_t *)name, strlen(name))) return error_set(error, "%s: its name is not UTF-8", path);
    if (files->n == files->capacity) {
        files->capacity = 2 * files->capacity + 16;
        files->files = xrealloc(files->files, (size_t)files->capacity * sizeof *files->files);
    }
    files->files[files->n++] = (CorpusFile){.path = xstrdup(path),
                                            .name = xstrdup(name),
                                            .jsonl = kind_of(path) == KIND_JSONL,
                                            .held_out = held_out,
                                            .size = -1};
    return true;
}

/* Counts a file that is left out, and keeps the first name. */
static void leave_out(CorpusFiles *files, const char *path) {
    if (files->left_out++ && strcmp(files->first_left_out, path) <= 0) return;
    free(files->first_left_out);
    files->first_left_out = xstrdup(path);
}

static bool take_entry(CorpusFiles *files, FTS *tree, FTSENT *entry, size_t root, bool held_out, Error *error) {
    const char *path = entry->fts_path, *below = path + root + strspn(path + root, "/");
    bool hidden = entry->fts_level > 0 && *entry->fts_name == '.', text = !hidden && kind_of(entry->fts_name);
    switch (entry->fts_info) {
    case FTS_ERR:
    case FTS_DNR:
    case FTS_NS:
        return error_set(error, "%s: %s", path, strerror(entry->fts_errno));
    case FTS_DC:
        return error_set(error, "%s: the folder contains a link to itself", path);
    case FTS_D:
        if (hidden) leave_out(files, path);
        if (hidden) fts_set(tree, entry, FTS_SKIP);
        return true;
    case FTS_DP:
        return true;
    case FTS_SLNONE:
        if (text) return error_set(error, "%s: is a link to a file that does not exist", path);
        break;
    case FTS_F:
        if (text) return add_file(files, path, below, held_out, error);
        break;
    default:
        break;
    }
    leave_out(files, path);
    return true;
}

static int compare_files(const void *a, const void *b) {
    return strcmp(((const CorpusFile *)a)->name, ((const CorpusFile *)b)->name);
}

static bool add_folder(CorpusFiles *files, const char *folder, bool held_out, Error *error) {
    int64_t before = files->n;
    FTS *tree = fts_open((char *const[]){(char *)folder, NULL}, FTS_LOGICAL | FTS_NOCHDIR, NULL);
    if (!tree) die("cannot list %s", folder);
    bool ok = true;
    for (FTSENT *entry; ok && (entry = fts_read(tree));)
        ok = take_entry(files, tree, entry, strlen(folder), held_out, error);
    fts_close(tree);
    if (ok && files->n == before)
        return error_set(
            error,
            "%s: holds no text files; expected names that end in .txt, .text, .md, .jsonl or .ndjson, or in "
            "one of these and .gz (name a file itself to have it read whatever its name)",
            folder);
    if (ok) qsort(files->files + before, (size_t)(files->n - before), sizeof *files->files, compare_files);
    return ok;
}

bool corpus_files_add(CorpusFiles *files, const char *path, bool held_out, Error *error) {
    const char *slash = strrchr(path, '/');
    return path_is_folder(path) ? add_folder(files, path, held_out, error)
                                : add_file(files, path, slash ? slash + 1 : path, held_out, error);
}

bool corpus_files_measure(CorpusFiles *files, int n_threads, Error *error) {
    int64_t bad = INT64_MAX;
#pragma omp parallel for schedule(dynamic) num_threads(n_threads) reduction(min : bad)
    for (int64_t i = 0; i < files->n; i++) {
        CorpusFile *f = &files->files[i];
        if (!text_source_measure(f->path, &f->size, &f->sum, NULL) && i < bad) bad = i;
    }
    if (bad == INT64_MAX) return true;
    CorpusFile *f = &files->files[bad];
    Error why = {.text = "changed while it was read"};
    text_source_measure(f->path, &f->size, &f->sum, &why);
    return error_set(error, "%s: %s", f->path, why.text);
}

void corpus_files_close(CorpusFiles *files) {
    for (int64_t i = 0; i < files->n; i++) {
        free(files->files[i].path);
        free(files->files[i].name);
    }
    free(files->files);
    free(files->first_left_out);
    *files = (CorpusFiles){0};
}
