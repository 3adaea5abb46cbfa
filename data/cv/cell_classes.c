#include "data/cv/cell_classes.h"

#include <stdlib.h>
#include <string.h>

#include "data/formats/csv.h"
#include "data/formats/text_source.h"

const char *const CV_CLASS_NAMES[CV_CLASSES] = {"quiescent", "active"};
static const char *const usual[CV_CLASSES] = {"in/inact/inactive/inactivated/quiescent", "act/active/activated"};
static const char ADVICE[] = "say which words are classes, as in --class-words rest,act, or name the cells' classes in "
                             "a table, --class-table FILE";

/* ---- words ---- */

/* Returns the length of the first of the words that `text` is, or begins with before the end of a word; 0: none. */
static size_t match(const char *words, const char *text, bool whole) {
    for (size_t n; n = strcspn(words, "/"), *words; words += n + (words[n] == '/'))
        if (n && !strncasecmp(words, text, n) && (!text[n] || (!whole && strchr("_.0123456789", text[n])))) return n;
    return 0;
}

/* Returns the first '_' before one of the words; the name itself if it begins with one of the user's own; or NULL. */
static const char *find_word(const CellClasses *c, int label, const char *name) {
    if (c->own && match(c->words[label], name, false)) return name;
    const char *at = strchr(name, '_');
    while (at && !match(c->words[label], at + 1, false)) at = strchr(at + 1, '_');
    return at;
}

int cell_classes_of_folder(const CellClasses *c, const char *folder) {
    for (int label = 0; label < CV_CLASSES; label++)
        if (match(c->words[label], folder, true)) return label;
    return -1;
}

/* Sets the lengths of "d01" and of the "m2" behind it, which end before a class word; without one, before a '_'. */
static void find_field(const char *name, const char *word, CvCellName *parsed) {
    int n = (int)(word ? (size_t)(word - name) : strcspn(name, "_")), digits = 0;
    while (digits < n && strchr("0123456789", name[n - 1 - digits])) digits++;
    bool marked = digits && digits < n && name[n - 1 - digits] == 'm';
    if (!marked && !word) return;
    parsed->field = marked ? digits + 1 : n;
    parsed->prefix = n - parsed->field;
}

/* Reads the class and the field of view of a file's name. An error says that it has two classes: the label is then
 * CV_QUIESCENT, as the reference takes it. */
static bool take_name(const CellClasses *c, const char *name, CvCellName *parsed, Error *error) {
    const char *in = find_word(c, CV_QUIESCENT, name), *act = find_word(c, CV_ACTIVE, name);
    /* The reference takes "_in" for quiescent wherever it is, in "_insulin", too. */
    const char *hidden = !c->own && act && !in ? strcasestr(name, "_in") : NULL;
    const char *words[2] = {in ? in : hidden, act};
    *parsed = (CvCellName){.label = words[0] ? CV_QUIESCENT : act ? CV_ACTIVE : -1, .both = words[0] && act};
    const char *word = in && (!act || in < act) ? in : act;
    if (word) find_field(name, word, parsed);
    if (!parsed->both) return true;
    for (int i = 0; i < 2; i++) words[i] += *words[i] == '_';
    return error_set(error, "two classes in one name: \"%.*s\" is %s, and \"%.*s\" %s; %s",
                     (int)strcspn(words[1], "_.0123456789"), words[1], CV_CLASS_NAMES[1],
                     (int)strcspn(words[0], "_.0123456789"), words[0],
                     hidden ? "begins as the reference's quiescent cells do" : "is quiescent", ADVICE);
}

CvCellName cv_cells_parse_name(const char *name) {
    const CellClasses plain = {.words = {usual[0], usual[1]}};
    CvCellName parsed;
    take_name(&plain, name, &parsed, NULL);
    return parsed;
}

/* Takes QUIESCENT,ACTIVE, of one or more words each. */
static bool take_words(CellClasses *c, const char *words, Error *error) {
    c->own = xstrdup(words);
    char *comma = strchr(c->own, ','), *end = comma ? comma + 1 : c->own;
    if (comma) *comma = 0;
    c->words[0] = c->own;
    c->words[1] = end;
    bool ok = comma && *c->own && *end && !strpbrk(words, " \t") && !strchr(end, ',') && !strstr(words, "//");
    for (int label = 0; ok && label < CV_CLASSES; label++)
        ok = c->words[label][0] != '/' && !ends_with(c->words[label], "/");
    if (!ok)
        return error_set(error,
                         "--class-words %s: expected a word of quiescent cells, a comma and a word of active "
                         "ones, as in rest,act; further words behind a '/': rest/ctrl,act",
                         words);
    for (const char *at = c->words[0]; *at; at += strcspn(at, "/"), at += *at == '/') {
        OWNED char *word = xformat("%.*s", (int)strcspn(at, "/"), at);
        if (match(c->words[1], word, true))
            return error_set(error, "--class-words %s: a word is named for both classes", words);
    }
    return true;
}

/* ---- the table ---- */

/* Returns the label of a class in the table; -1: it is none. */
static int table_label(const CellClasses *c, const char *text) {
    for (int label = 0; label < CV_CLASSES; label++)
        if (!strcasecmp(text, CV_CLASS_NAMES[label]) || !strcmp(text, label ? "1" : "0")) return label;
    return cell_classes_of_folder(c, text);
}

static bool take_row(CellClasses *c, const Csv *row, int file, int class, Error *error) {
    if (file >= row->n || class >= row->n)
        return error_set(error, "%lld: has %d fields; the columns file and class are fields %d and %d",
                         (long long)row->line, row->n, file + 1, class + 1);
    int label = table_label(c, row->fields[class]);
    if (label < 0)
        return error_set(error, "%lld: the class is '%.100s'; expected %s or %s, 0 or 1, or one of the words %s and %s",
                         (long long)row->line, row->fields[class], CV_CLASS_NAMES[0], CV_CLASS_NAMES[1], c->words[0],
                         c->words[1]);
    const json_t *before = json_object_get(c->labels, row->fields[file]);
    if (before && json_integer_value(json_array_get(before, 0)) != label)
        return error_set(error, "%lld: %.200s is %s here and %s above", (long long)row->line, row->fields[file],
                         CV_CLASS_NAMES[label], CV_CLASS_NAMES[!label]);
    if (!before) json_object_set_new(c->labels, row->fields[file], json_pack("[i]", label));
    return true;
}

static bool parse_table(CellClasses *c, char *text, size_t size, Error *error) {
    static const char advice[] = "; a table of classes has the columns file and class";
    OWNED_BY(csv_close) Csv csv = {0};
    int file = -1, class = -1;
    if (!csv_open(&csv, text, size, ',', error)) return false;
    bool ok = csv_next(&csv, error);
    if (!ok && !error->text[0]) error_set(error, "is empty%s", advice);
    ok = ok && csv_column(&csv, "file", advice, &file, error) && csv_column(&csv, "class", NULL, &class, error) &&
         (class >= 0 || csv_column(&csv, "label", NULL, &class, error)) &&
         (class >= 0 || csv_column(&csv, "class", advice, &class, error));
    while (ok && (ok = csv_next(&csv, error))) ok = take_row(c, &csv, file, class, error);
    return !error->text[0] &&
           (json_object_size(c->labels) || error_set(error, "has no row behind the names of columns"));
}

static bool take_table(CellClasses *c, Error *error) {
    OWNED char *text = NULL;
    size_t size;
    c->labels = json_object();
    if (!text_read(c->table, &text, &size, error)) return error_before(error, "--class-table %s: ", c->table);
    c->hash = hash_bytes(c->hash, text, size);
    return parse_table(c, text, size, error) || error_before(error, "--class-table %s: ", c->table);
}

bool cell_classes_open(CellClasses *c, const char *words, const char *table, Error *error) {
    *c = (CellClasses){.words = {usual[0], usual[1]}, .table = table};
    if (words || table) c->hash = hash_bytes(HASH_START, words ? words : "", words ? strlen(words) : 0);
    if ((!words || take_words(c, words, error)) && (!table || take_table(c, error))) return true;
    cell_classes_close(c);
    return false;
}

void cell_classes_close(CellClasses *c) {
    free(c->own);
    json_decref(c->labels);
    *c = (CellClasses){0};
}

/* ---- files ---- */

/* Takes the label of a file's row, by its path or else by its name alone, which only one file may have. */
static bool take_label(CellClasses *c, const char *path, const char *name, int *label, Error *error) {
    json_t *row = json_object_get(c->labels, path);
    bool by_name = !row && (row = json_object_get(c->labels, name));
    if (by_name && json_array_size(row) > 1)
        return error_set(error, "%s: the name %s has one row, and %s has it, too: write paths, as DONOR/NAME", c->table,
                         name, json_string_value(json_array_get(row, 1)));
    if (!row) return true;
    *label = (int)json_integer_value(json_array_get(row, 0));
    if (json_array_size(row) == 1) json_array_append_new(row, json_string(path));
    return true;
}

bool cell_classes_of_file(CellClasses *c, const char *path, CvCellName *parsed, Error *error) {
    const char *slash = strrchr(path, '/'), *name = path_name(path);
    bool one = take_name(c, name, parsed, error);
    if (!parsed->field) find_field(name, NULL, parsed);
    if (c->table) {
        parsed->label = -1;
        parsed->both = false;
        return take_label(c, path, name, &parsed->label, error);
    }
    const char *first = strchr(path, '/');
    OWNED char *folder = xformat("%.*s", slash > first ? (int)(slash - first - 1) : 0, first ? first + 1 : "");
    int by_folder = *folder ? cell_classes_of_folder(c, folder) : -1;
    if (one && by_folder >= 0 && parsed->label == !by_folder) {
        one = error_set(error, "two classes: its name says %s, and its folder %s says %s; %s",
                        CV_CLASS_NAMES[parsed->label], folder, CV_CLASS_NAMES[by_folder], ADVICE);
        parsed->both = true;
    }
    if (!one) {
        parsed->label = -1;
        return false;
    }
    if (by_folder >= 0) parsed->label = by_folder;
    return true;
}

const char *cell_classes_first(const CellClasses *c) { return json_object_iter_key(json_object_iter(c->labels)); }

int64_t cell_classes_unused(const CellClasses *c) {
    int64_t n = 0;
    const char *file;
    json_t *row;
    json_object_foreach(c->labels, file, row) n += json_array_size(row) == 1;
    return n;
}
