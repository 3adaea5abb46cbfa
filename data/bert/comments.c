#include "data/bert/comments.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "data/formats/csv.h"
#include "data/text/characters.h"
#include "data/text/utf8.h"

enum { TEXT, LABEL, ID, COLUMNS };
static const char *const column_options[COLUMNS] = {"--text-column", "--label-column", "--id-column"};

typedef struct {
    Comments *out;
    const char *names[COLUMNS];
    bool needed[COLUMNS]; /* the column must be there */
    bool any[COLUMNS];    /* it is there */
    bool labels_needed;
    int64_t capacity, line; /* line: of the first byte */
} Reader;

/* ---- records ---- */

static bool is_blank(const char *text) {
    const uint8_t *classes = character_classes();
    const char *end = text + strlen(text);
    uint32_t c;
    for (size_t n; (n = character_at(text, end, &c)); text += n)
        if (!(classes[c] & CHARACTER_BLANK)) return false;
    return true;
}

/* Cuts white space off both ends. */
static char *trim(char *text) {
    static const char white[] = " \t\n\v\f\r";
    text += strspn(text, white);
    size_t n = strlen(text);
    while (n && strchr(white, text[n - 1])) n--;
    text[n] = 0;
    return text;
}

/* Adds a record; fields that are not there are NULL. */
static bool add_record(Reader *r, int64_t line, char *const *fields, Error *error) {
    static char none[] = "";
    Comments *c = r->out;
    char **const columns[COLUMNS] = {c->texts, c->labels, c->ids};
    if (c->n == INT32_MAX) return error_set(error, "%lld: more than 2^31 - 1 texts", (long long)line);
    if (c->n == r->capacity) {
        size_t n = (size_t)(r->capacity = 2 * r->capacity + 1024);
        c->texts = xrealloc(columns[TEXT], n * sizeof *c->texts);
        c->labels = xrealloc(columns[LABEL], n * sizeof *c->labels);
        c->ids = xrealloc(columns[ID], n * sizeof *c->ids);
        c->lines = xrealloc(c->lines, n * sizeof *c->lines);
    }
    for (int k = 0; k < COLUMNS; k++) {
        if (!fields[k] && r->needed[k])
            return error_set(error, "%lld: there is no \"%s\" (%s names another)", (long long)line, r->names[k],
                             column_options[k]);
        r->any[k] = r->any[k] || fields[k];
    }
    c->texts[c->n] = fields[TEXT];
    c->labels[c->n] = fields[LABEL] ? trim(fields[LABEL]) : none;
    c->ids[c->n] = fields[ID] ? fields[ID] : none;
    c->lines[c->n++] = line;
    for (int k = TEXT; r->labels_needed && k <= LABEL; k++)
        if (is_blank(k == TEXT ? fields[TEXT] : c->labels[c->n - 1]))
            return error_set(error, "%lld: %s is empty; give it or take the record out", (long long)line, r->names[k]);
    return true;
}

/* ---- tables ---- */

/* Returns the names of a table's columns for a message; free(). */
static char *head_names(const Csv *csv) {
    char *names = xstrdup(csv->n ? csv->fields[0] : "");
    for (int i = 1; i < csv->n && strlen(names) < 200; i++) {
        char *longer = xformat("%s, %s", names, csv->fields[i]);
        free(names);
        names = longer;
    }
    return names;
}

/* Sets places[COLUMNS] to the fields of the columns; -1: not there. */
static bool read_head(const Reader *r, Csv *csv, int *places, Error *error) {
    if (!csv_next(csv, error))
        return error->text[0] ? false : error_set(error, "1: the file is empty; expected a line of column names");
    for (int k = 0; k < COLUMNS; k++) {
        places[k] = -1;
        for (int i = 0; r->names[k] && i < csv->n; i++) {
            if (strcmp(csv->fields[i], r->names[k]) != 0) continue;
            if (places[k] >= 0)
                return error_set(error, "%lld: the column \"%s\" is there twice", (long long)csv->line, r->names[k]);
            places[k] = i;
        }
        if (places[k] >= 0 || !r->needed[k]) continue;
        char *names = head_names(csv);
        error_set(error, "%lld: there is no column \"%s\"; the columns are: %s (%s names another)",
                  (long long)csv->line, r->names[k], names, column_options[k]);
        free(names);
        return false;
    }
    return true;
}

static bool read_table(Reader *r, char *text, size_t size, char separator, Error *error) {
    Csv csv;
    int places[COLUMNS];
    if (!csv_open(&csv, text, size, error)) return false;
    csv.separator = separator;
    bool ok = read_head(r, &csv, places, error);
    int n = csv.n;
    while (ok && csv_next(&csv, error)) {
        char *fields[COLUMNS];
        for (int k = 0; k < COLUMNS; k++)
            fields[k] = places[k] < 0 || places[k] >= csv.n ? NULL : csv.fields[places[k]];
        ok = csv.n == n ? add_record(r, csv.line, fields, error)
                        : error_set(error,
                                    "%lld: has %d fields; the line of column names has %d; a field with separators in "
                                    "it needs quotes",
                                    (long long)csv.line, csv.n, n);
    }
    ok = ok && !error->text[0];
    csv_close(&csv);
    return ok;
}

/* ---- lines ---- */

/* Copies a field of an object to *at, where a line has enough room: decoded, a string is shorter than it is written,
 * and every field has a name. */
static bool take_field(const Reader *r, int column, const json_t *object, char **at, char **field, Error *error) {
    const char *name = r->names[column];
    json_t *value = name ? json_object_get(object, name) : NULL;
    *field = NULL;
    if (!value || json_is_null(value)) return true;
    char digits[24];
    const char *text = json_string_value(value);
    if (!text && (!json_is_integer(value) || column == TEXT))
        return error_set(error, "\"%s\" is not a string%s", name, column == TEXT ? "" : " or a whole number");
    snprintf(digits, sizeof digits, "%lld", (long long)json_integer_value(value));
    if (!text) text = digits;
    const size_t size = strlen(text) + 1;
    *field = memcpy(*at, text, size);
    *at += size;
    return true;
}

/* Reads an object and keeps its fields in the line's own bytes. */
static bool read_object(Reader *r, int64_t number, char *line, size_t size, Error *error) {
    char *fields[COLUMNS];
    json_error_t problem;
    Error why;
    json_t *object = json_loadb(line, size, JSON_REJECT_DUPLICATES, &problem);
    if (!object)
        return error_set(error, "%lld:%d: %s", (long long)number, problem.column > 0 ? problem.column : 1,
                         problem.text);
    bool ok = json_is_object(object) || error_set(&why, "is not an object; expected {\"%s\": ...}", r->names[TEXT]);
    for (int k = 0; ok && k < COLUMNS; k++) ok = take_field(r, k, object, &line, &fields[k], &why);
    json_decref(object);
    return ok ? add_record(r, number, fields, error) : error_set(error, "%lld: %s", (long long)number, why.text);
}

static bool read_lines(Reader *r, char *text, size_t size, bool objects, Error *error) {
    int64_t number = r->line;
    Error why;
    if (!utf8_check(text, size, &why)) {
        char *rest;
        int64_t line = strtoll(why.text, &rest, 10) + r->line - 1;
        return error_set(error, "%lld%s", (long long)line, rest);
    }
    char *end = text + size;
    for (char *line = text + (number == 1 ? utf8_mark(text, size) : 0), *next; line < end; line = next, number++) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        next = stop ? stop + 1 : end;
        if (!stop) stop = end;
        if (stop > line && stop[-1] == '\r') stop--;
        *stop = 0;
        if (objects ? !is_blank(line) && !read_object(r, number, line, (size_t)(stop - line), error)
                    : !add_record(r, number, (char *[COLUMNS]){line}, error))
            return false;
    }
    return true;
}

/* ---- files ---- */

static bool read_records(Reader *r, char *text, size_t size, Error *error) {
    const char *path = r->out->path;
    if (ends_with(path, ".csv")) return read_table(r, text, size, ',', error);
    if (ends_with(path, ".tsv")) return read_table(r, text, size, '\t', error);
    if (ends_with(path, ".jsonl")) return read_lines(r, text, size, true, error);
    for (int k = LABEL; k < COLUMNS; k++)
        if (r->needed[k]) return error_set(error, "1: lines of text have no column \"%s\"", r->names[k]);
    return read_lines(r, text, size, false, error);
}

static bool same_column(const char *a, const char *b) { return a && b && !strcmp(a, b); }

static bool reader_begin(Reader *r, const CommentColumns *columns, Comments *out, Error *error) {
    *out = (Comments){0};
    *r = (Reader){
        .out = out,
        .names = {columns->text ? columns->text : "text", columns->label ? columns->label : "label", columns->id},
        .needed = {true, false, columns->id != NULL},
        .line = 1};
    for (int k = 0; k < COLUMNS; k++)
        if (same_column(r->names[k], r->names[(k + 1) % COLUMNS]))
            return error_set(error, "the column \"%s\" cannot be two of text, label and id", r->names[k]);
    return true;
}

/* Leaves out the columns that are not there. */
static void drop_columns(const Reader *r) {
    char ***const optional[] = {[LABEL] = &r->out->labels, [ID] = &r->out->ids};
    for (int k = LABEL; k < COLUMNS; k++) {
        if (r->any[k]) continue;
        free(*optional[k]);
        *optional[k] = NULL;
    }
}

static bool reader_end(const Reader *r, bool ok, const Error *why, Error *error) {
    drop_columns(r);
    if (ok) return true;
    error_set(error, "%s:%s", r->out->path, why->text);
    comments_free(r->out);
    return false;
}

bool comments_read(const char *path, const CommentColumns *columns, bool labels_needed, Comments *out, Error *error) {
    Reader r;
    size_t size;
    Error why = {""};
    *out = (Comments){0};
    if (!ends_with(path, ".csv") && !ends_with(path, ".tsv") && !ends_with(path, ".jsonl") && !ends_with(path, ".txt"))
        return access(path, F_OK)
                   ? error_set(error, "%s: %s", path, strerror(errno))
                   : error_set(error,
                               "%s: the name must end in .csv, .tsv, .jsonl or .txt, which says what the file is",
                               path);
    if (!reader_begin(&r, columns, out, &why) || !read_file(path, &out->buffer, &size, &why))
        return error_set(error, "%s: %s", path, why.text);
    r.labels_needed = r.needed[LABEL] = labels_needed;
    out->path = xstrdup(path);
    bool ok = read_records(&r, out->buffer, size, &why) && (out->n || error_set(&why, "1: there are no texts"));
    return reader_end(&r, ok, &why, error);
}

/* ---- standard input ---- */

/* Returns the bytes of whole lines that were read; all of them at the end of the input. */
static size_t whole_lines(const CommentInput *in) {
    const char *last = in->size && !in->ended ? memrchr(in->bytes, '\n', in->size) : NULL;
    return in->ended ? in->size : last ? (size_t)(last - in->bytes) + 1 : 0;
}

/* Reads until there is a line and no more input is ready, or there is much. */
static bool read_ready(CommentInput *in, Error *error) {
    enum { CHUNK = 1 << 16, MUCH = 1 << 20 };
    struct pollfd ready = {.fd = fileno(stdin), .events = POLLIN};
    while (!in->ended && !(whole_lines(in) && (in->size >= MUCH || poll(&ready, 1, 0) < 1))) {
        if (in->capacity - in->size < CHUNK) in->bytes = xrealloc(in->bytes, in->capacity = 2 * in->capacity + CHUNK);
        ssize_t n = read(ready.fd, in->bytes + in->size, CHUNK);
        if (n < 0 && errno != EINTR) return error_set(error, "standard input: cannot read it: %s", strerror(errno));
        if (n > 0) in->size += (size_t)n;
        in->ended = n == 0;
    }
    return true;
}

/* Takes the whole lines that were read. */
static bool take_lines(CommentInput *in, const CommentColumns *columns, Comments *out, Error *error) {
    Reader r;
    Error why = {""};
    size_t size = whole_lines(in);
    if (!reader_begin(&r, columns, out, &why)) return error_set(error, "standard input: %s", why.text);
    out->path = xstrdup("standard input");
    out->buffer = xmalloc(size + 1);
    memcpy(out->buffer, in->bytes, size);
    out->buffer[size] = 0;
    memmove(in->bytes, in->bytes + size, in->size -= size);
    if (!in->line) in->objects = out->buffer[utf8_mark(out->buffer, size)] == '{';
    r.line = in->line + 1;
    for (size_t i = 0; i < size; i++) in->line += out->buffer[i] == '\n';
    bool ok = in->objects || !r.needed[ID] || error_set(&why, "1: lines of text have no column \"%s\"", r.names[ID]);
    return reader_end(&r, ok && read_lines(&r, out->buffer, size, in->objects, &why), &why, error);
}

bool comments_next(CommentInput *in, const CommentColumns *columns, Comments *out, Error *error) {
    *out = (Comments){0};
    while (!out->n && !in->ended) { /* empty lines are no objects */
        free(out->path);
        free(out->buffer);
        *out = (Comments){0};
        if (!read_ready(in, error) || !take_lines(in, columns, out, error)) return false;
    }
    in->n += out->n;
    return in->n || error_set(error, "standard input:1: there are no texts");
}

void comments_input_close(CommentInput *in) { free(in->bytes); }

void comments_free(Comments *comments) {
    free(comments->path);
    free(comments->texts);
    free(comments->labels);
    free(comments->ids);
    free(comments->lines);
    free(comments->buffer);
    *comments = (Comments){0};
}
