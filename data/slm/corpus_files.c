#include "data/slm/corpus_files.h"

#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

#include "base/file.h"
#include "data/formats/text_source.h"
#include "data/text/utf8.h"

CorpusFormat corpus_format(const char *name) {
    static const char *const names[] = {[CORPUS_BY_NAME] = "auto",
                                        [CORPUS_TEXT] = "text",
                                        [CORPUS_JSON] = "json",
                                        [CORPUS_CSV] = "csv",
                                        [CORPUS_TSV] = "tsv"};
    int format = 0;
    while (strcmp(names[format], name) != 0) format++; /* one of the choices */
    return (CorpusFormat)format;
}

/* The format that the end of a name tells. */
typedef struct {
    const char *ending;
    CorpusFormat format;
    bool of_folder; /* taken from a folder if no format is given */
} Kind;

static const Kind kinds[] = {{".txt", CORPUS_TEXT, true},    {".text", CORPUS_TEXT, true},
                             {".md", CORPUS_TEXT, true},     {".jsonl", CORPUS_JSON, true},
                             {".ndjson", CORPUS_JSON, true}, {".json", CORPUS_JSON, false},
                             {".csv", CORPUS_CSV, false},    {".tsv", CORPUS_TSV, false}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Returns NULL if the name says nothing. */
static const Kind *kind_of(const char *name) {
    for (const Kind *kind = kinds; kind < kinds + KINDS; kind++)
        if (text_ending(name, kind->ending)) return kind;
    return NULL;
}

/* Returns whether files of a kind are taken from a folder. */
static bool is_taken(const CorpusFiles *files, const Kind *kind) {
    return kind && (files->format ? kind->format == files->format : kind->of_folder);
}

/* Returns the endings of the files that are taken from a folder, ".a, .b or .c"; free(). */
static char *endings_of(const CorpusFiles *files) {
    char *list = xstrdup("");
    int left = 0;
    for (int k = 0; k < KINDS; k++) left += is_taken(files, &kinds[k]);
    for (int k = 0; k < KINDS; k++) {
        if (!is_taken(files, &kinds[k])) continue;
        xappend(&list, "%s%s", !*list ? "" : left == 1 ? " or " : ", ", kinds[k].ending);
        left--;
    }
    return list;
}

static bool add_file(CorpusFiles *files, const char *path, const char *name, bool held_out, Error *error) {
    if (u8_check((const uint8_t *)name, strlen(name))) return error_set(error, "%s: its name is not UTF-8", path);
    files->files = xgrow(files->files, (size_t)files->n, sizeof *files->files);
    const Kind *kind = kind_of(path);
    files->files[files->n++] = (CorpusFile){.path = xstrdup(path),
                                            .name = xstrdup(name),
                                            .format = files->format ? files->format
                                                      : kind        ? kind->format
                                                                    : CORPUS_BY_NAME,
                                            .usual = !kind || kind->of_folder,
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
    bool hidden = entry->fts_level > 0 && *entry->fts_name == '.',
         text = !hidden && is_taken(files, kind_of(entry->fts_name));
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
    if (ok && files->n == before) {
        OWNED char *endings = endings_of(files);
        return error_set(
            error,
            "%s: holds no text files; expected names that end in %s, or in one of these and .gz (--input-format "
            "json, csv or tsv takes others; name a file itself to have it read whatever its name)",
            folder, endings);
    }
    if (ok) qsort(files->files + before, (size_t)(files->n - before), sizeof *files->files, compare_files);
    return ok;
}

bool corpus_files_add(CorpusFiles *files, const char *path, bool held_out, Error *error) {
    return path_is_folder(path) ? add_folder(files, path, held_out, error)
                                : add_file(files, path, path_name(path), held_out, error);
}

/* ---- what a file is whose name does not say it ---- */

/* Returns whether a line may be one of column names: two or more words between separators, without blanks. */
static bool is_head(const char *line, size_t n, char separator) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.\"";
    int fields = 1;
    size_t length = 0; /* of the field */
    for (size_t i = 0; i < n; i++) {
        bool ends = line[i] == separator;
        if (ends ? !length : !line[i] || !strchr(letters, line[i])) return false;
        length = ends ? 0 : length + 1;
        fields += ends;
    }
    return fields > 1 && length;
}

static int count(const char *line, size_t n, char c) {
    int found = 0;
    for (size_t i = 0; i < n; i++) found += line[i] == c;
    return found;
}

/* Returns the separator of a table, if the first line has names and the second as many fields or more; 0: no table. */
static char table_separator(const char *text, size_t n) {
    const char *end = memchr(text, '\n', n), *stop = end ? memchr(end + 1, '\n', n - (size_t)(end + 1 - text)) : NULL;
    if (!end) return 0;
    size_t first = (size_t)(end - text), second = (size_t)((stop ? stop : text + n) - end - 1);
    if (first && text[first - 1] == '\r') first--;
    for (const char *separator = ",;\t"; *separator; separator++)
        if (is_head(text, first, *separator) && count(end + 1, second, *separator) >= count(text, first, *separator))
            return *separator;
    return 0;
}

static bool begins_with(const char *text, const char *end, char first, const char *then) {
    if (text == end || *text++ != first) return false;
    while (text < end && strchr(" \t\r\n", *text)) text++;
    return text < end && *text && strchr(then, *text);
}

/* Decides that a file is plain text, or fails. */
static bool decide(CorpusFile *file, Error *error) {
    enum { BEGINNING = 1 << 16 };
    TextSource source;
    size_t n = 0;
    OWNED char *bytes = xmalloc(BEGINNING + 1);
    bool ok = text_source_open(&source, file->path, error);
    ok = ok && text_source_read(&source, bytes, BEGINNING, &n, error);
    if (!ok) error_before(error, "%s: ", file->path);
    text_source_close(&source);
    bytes[n] = 0;
    const char *text = bytes + utf8_mark(bytes, n), *end = bytes + n;
    while (text < end && strchr(" \t\r\n", *text)) text++;
    bool json = begins_with(text, end, '{', "\"}") || begins_with(text, end, '[', "{");
    char separator = ok && !json ? table_separator(text, (size_t)(end - text)) : 0;
    if (ok && (json || separator))
        ok = error_set(error,
                       "%s: its name does not say what it is, and it begins as %s: say --input-format %s, or "
                       "--input-format text if it is plain text",
                       file->path, json ? "JSON" : "a table",
                       json                ? "json"
                       : separator == '\t' ? "tsv"
                                           : "csv");
    file->format = CORPUS_TEXT;
    return ok;
}

bool corpus_files_measure(CorpusFiles *files, int n_threads, Error *error) {
    int64_t bad = INT64_MAX;
#pragma omp parallel for schedule(dynamic) num_threads(n_threads) reduction(min : bad)
    for (int64_t i = 0; i < files->n; i++) {
        CorpusFile *f = &files->files[i];
        if (!text_source_measure(f->path, &f->size, &f->sum, NULL) && i < bad) bad = i;
    }
    for (int64_t i = 0; bad == INT64_MAX && i < files->n; i++)
        if (!files->files[i].format && !decide(&files->files[i], error)) return false;
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
