#include "data/bert/comments.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "data/formats/csv.h"
#include "data/formats/json_records.h"
#include "data/formats/text_source.h"
#include "data/text/characters.h"
#include "data/text/label.h"
#include "data/text/utf8.h"

enum { TEXT, LABEL, ID, COLUMNS };
static const char *const column_options[COLUMNS] = {"--text-column", "--label-column", "--id-column"};

typedef struct {
    Comments *out;
    const char *names[COLUMNS];
    bool needed[COLUMNS]; /* the column must be there */
    bool any[COLUMNS];    /* it is there */
    bool skip_bad, refuse_empty;
    int64_t line; /* of the first byte */
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

/* Keeps a string that is not in the buffer. Returns it. */
static char *keep(Comments *c, char *text) {
    c->others = xgrow(c->others, (size_t)c->n_others, sizeof *c->others);
    return c->others[c->n_others++] = text;
}

/* Returns a label in its normal form, and counts those that were written in another way. */
static char *normal_label(Comments *c, char *label) {
    char *normal = label_normal(label);
    size_t size = strlen(normal);
    c->counts.labels += strcmp(normal, label) != 0;
    if (size > strlen(label)) return keep(c, normal);
    memcpy(label, normal, size + 1);
    free(normal);
    return label;
}

/* Counts a record that cannot be used, with the reason "LINE: ...", if it may be left out. Returns whether it may. */
static bool leave_out(Reader *r, Error *error) {
    CommentCounts *counts = &r->out->counts;
    Error why = *error;
    if (!r->skip_bad)
        return error_set(error, "%s; --skip-bad leaves records out that cannot be used, and counts them", why.text);
    if (!counts->bad++) counts->first_bad = xstrdup(why.text);
    error->text[0] = 0;
    return true;
}

static void reserve(Comments *c) {
    size_t n = (size_t)c->n;
    c->texts = xgrow(c->texts, n, sizeof *c->texts);
    c->labels = xgrow(c->labels, n, sizeof *c->labels);
    c->ids = xgrow(c->ids, n, sizeof *c->ids);
    c->lines = xgrow(c->lines, n, sizeof *c->lines);
}

/* Leaves out a record without a visible character in its text, where labels are needed. */
static bool add_empty(Reader *r, int64_t line, Error *error) {
    CommentCounts *counts = &r->out->counts;
    if (r->refuse_empty)
        return error_set(error, "%lld: %s is empty; give it or take the record out (--empty skip leaves it out)",
                         (long long)line, r->names[TEXT]);
    counts->lines = xgrow(counts->lines, (size_t)counts->empty, sizeof *counts->lines);
    counts->lines[counts->empty++] = line;
    return true;
}

/* Adds a record; fields that are not there are NULL. */
static bool add_record(Reader *r, int64_t line, char *const *fields, Error *error) {
    static char none[] = "";
    Comments *c = r->out;
    if (c->n == INT32_MAX) return error_set(error, "%lld: more than 2^31 - 1 texts", (long long)line);
    for (int k = 0; k < COLUMNS; k++) r->any[k] = r->any[k] || fields[k];
    if (r->needed[LABEL] && fields[TEXT] && is_blank(fields[TEXT])) return add_empty(r, line, error);
    for (int k = 0; k < COLUMNS; k++)
        if (!fields[k] && r->needed[k]) {
            error_set(error, "%lld: there is no \"%s\" (%s names another)", (long long)line, r->names[k],
                      column_options[k]);
            return leave_out(r, error);
        }
    reserve(c);
    c->texts[c->n] = fields[TEXT];
    c->labels[c->n] = fields[LABEL] ? normal_label(c, fields[LABEL]) : none;
    c->ids[c->n] = fields[ID] ? fields[ID] : none;
    c->lines[c->n] = line;
    if (r->needed[LABEL] && !*c->labels[c->n]) {
        error_set(error, "%lld: %s is empty; give it or take the record out", (long long)line, r->names[LABEL]);
        return leave_out(r, error);
    }
    if (!label_check(c->labels[c->n], error)) {
        error_before(error, "%lld: %s: ", (long long)line, r->names[LABEL]);
        return leave_out(r, error);
    }
    c->n++;
    return true;
}

/* ---- tables ---- */

/* Sets places[COLUMNS] to the fields of the columns; -1: not there. */
static bool read_head(const Reader *r, Csv *csv, int *places, Error *error) {
    if (!csv_next(csv, error))
        return error->text[0] ? false : error_set(error, "1: the file is empty; expected a line of column names");
    for (int k = 0; k < COLUMNS; k++) {
        places[k] = -1;
        if (!r->names[k]) continue;
        OWNED char *advice = r->needed[k] ? xformat(" (%s names another)", column_options[k]) : NULL;
        bool ok = csv_column(csv, r->names[k], advice, &places[k], error);
        if (!ok) return false;
    }
    return true;
}

/* Adds the record that csv_next has read below n names. */
static bool add_row(Reader *r, const Csv *csv, int n, const int *places, Error *error) {
    char *fields[COLUMNS];
    for (int k = 0; k < COLUMNS; k++) fields[k] = places[k] < 0 || places[k] >= csv->n ? NULL : csv->fields[places[k]];
    if (csv->n == n) return add_record(r, csv->line, fields, error);
    error_set(error, "%lld: has %d fields; the line of column names has %d; a field with separators in it needs quotes",
              (long long)csv->line, csv->n, n);
    return leave_out(r, error);
}

static bool read_table(Reader *r, char *text, size_t size, char separator, Error *error) {
    OWNED_BY(csv_close) Csv csv = {0};
    int places[COLUMNS];
    if (!csv_open(&csv, text, size, separator, error)) return false;
    bool ok = read_head(r, &csv, places, error), more = ok;
    int n = csv.n;
    while (ok && more) {
        more = csv_next(&csv, error);
        if (more)
            ok = add_row(r, &csv, n, places, error);
        else if (error->text[0]) /* a quote in the wrong place */
            ok = more = csv_skip(&csv) && leave_out(r, error);
    }
    return ok;
}

/* ---- objects ---- */

/* Copies a text to *at, and moves that behind it. Returns the copy. */
static char *put_text(char **at, const char *text) {
    const size_t size = strlen(text) + 1;
    char *copy = memcpy(*at, text, size);
    *at += size;
    return copy;
}

/* Copies a field of an object to *at, where its record has enough room: decoded, a string is shorter than it is
 * written, and every field has a name. */
static bool take_field(const Reader *r, int column, const json_t *object, char **at, char **field, Error *error) {
    const char *name = r->names[column];
    const json_t *value = name ? json_object_get(object, name) : NULL;
    const char *text = json_string_value(value);
    *field = NULL;
    if (!value || json_is_null(value)) return true;
    if (column != TEXT && json_large_number(value)) text = json_large_number(value);
    if (!text && (column == TEXT || json_is_object(value) || json_is_array(value)))
        return error_set(error, "\"%s\" is not a string%s", name, column == TEXT ? "" : ", a number, true or false");
    if (json_is_real(value)) { /* may be longer than it is written */
        *field = keep(r->out, json_text(name, value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)));
        return true;
    }
    OWNED char *other = text ? NULL : json_text(name, value, JSON_ENCODE_ANY);
    *field = put_text(at, text ? text : other);
    return true;
}

/* Reads an object and keeps its fields in the record's own bytes. */
static bool read_object(Reader *r, const JsonRecords *records, Error *error) {
    const char *names[COLUMNS + 1] = {r->names[TEXT]}, **name = names + 1;
    char *fields[COLUMNS], *at = (char *)(uintptr_t)records->text;
    for (int k = LABEL; k < COLUMNS; k++)
        if (r->names[k]) *name++ = r->names[k];
    json_auto_t *object = json_records_parse(records, names, 0, error);
    if (!object) return leave_out(r, error);
    bool ok = json_is_object(object) || error_set(error, "is not an object; expected {\"%s\": ...}", r->names[TEXT]);
    for (int k = 0; ok && k < COLUMNS; k++) ok = take_field(r, k, object, &at, &fields[k], error);
    if (ok) return add_record(r, records->line, fields, error);
    error_before(error, "%lld: ", (long long)records->line);
    return leave_out(r, error);
}

static bool read_objects(Reader *r, char *text, size_t size, Error *error) {
    JsonRecords records = json_records_open(text, size, r->line, r->line == 1);
    while (json_records_next(&records, error))
        if (!read_object(r, &records, error)) return false;
    return !error->text[0];
}

/* ---- lines ---- */

static bool read_lines(Reader *r, char *text, size_t size, Error *error) {
    int64_t number = r->line;
    char *end = text + size;
    for (char *line = text, *next; line < end; line = next, number++) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        next = stop ? stop + 1 : end;
        if (!stop) stop = end;
        if (stop > line && stop[-1] == '\r') stop--;
        *stop = 0;
        if (!add_record(r, number, (char *[COLUMNS]){line}, error)) return false;
    }
    return true;
}

/* Reads lines of text, or of objects, of which `r->line` is the first. */
static bool read_text(Reader *r, char *text, size_t size, bool objects, Error *error) {
    Error why;
    if (!utf8_check(text, size, &why)) {
        char *rest;
        int64_t line = strtoll(why.text, &rest, 10) + r->line - 1;
        return error_set(error, "%lld%s", (long long)line, rest);
    }
    size_t mark = r->line == 1 ? utf8_mark(text, size) : 0;
    return objects ? read_objects(r, text + mark, size - mark, error) : read_lines(r, text + mark, size - mark, error);
}

/* ---- files ---- */

/* Returns the ending of a name that says what the file is, and where it begins; NULL: it says nothing. */
static const char *kind_of(const char *path, const char **at) {
    static const char *const endings[] = {".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".txt"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if ((*at = text_ending(path, endings[i]))) return endings[i];
    return NULL;
}

size_t comments_stem(const char *name) {
    const char *at;
    return kind_of(name, &at) ? (size_t)(at - name) : 0;
}

static bool read_records(Reader *r, char *text, size_t size, Error *error) {
    const char *at, *kind = kind_of(r->out->path, &at);
    bool lines = !strcmp(kind, ".txt");
    if (ends_with(kind, "sv")) return read_table(r, text, size, kind[1] == 'c' ? ',' : '\t', error);
    for (int k = LABEL; lines && k < COLUMNS; k++)
        if (r->needed[k])
            return error_set(error, "1: lines of text have no column \"%s\"; the name of a table ends in .csv or .tsv",
                             r->names[k]);
    return read_text(r, text, size, !lines, error);
}

static bool same_column(const char *a, const char *b) { return a && b && !strcmp(a, b); }

static bool reader_begin(Reader *r, const CommentColumns *columns, CommentLabels labels, Comments *out, Error *error) {
    const char *label = columns->label ? columns->label : "label";
    *out = (Comments){0};
    *r = (Reader){.out = out,
                  .names = {columns->text ? columns->text : "text", labels ? label : NULL, columns->id},
                  .needed = {true, labels == LABELS_NEEDED, columns->id != NULL},
                  .skip_bad = columns->skip_bad,
                  .refuse_empty = columns->refuse_empty,
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

/* Says that nothing is left, and why. Returns false. */
static bool set_no_texts(const CommentCounts *counts, Error *error) {
    return counts->bad || counts->empty
               ? error_set(error, "1: there are no texts: %lld are empty, and %lld records cannot be used%s%s",
                           (long long)counts->empty, (long long)counts->bad, counts->bad ? ", the first: line " : "",
                           counts->bad ? counts->first_bad : "")
               : error_set(error, "1: there are no texts");
}

bool comments_read(const char *path, const CommentColumns *columns, CommentLabels labels, Comments *out, Error *error) {
    Reader r;
    size_t size;
    const char *at;
    Error why = {""};
    *out = (Comments){0};
    if (!kind_of(path, &at))
        return access(path, F_OK)
                   ? error_set(error, "%s: %s", path, strerror(errno))
                   : error_set(error, "%s: the name must end in " COMMENTS_ANY ": it says what the file is", path);
    if (!reader_begin(&r, columns, labels, out, &why) || !text_read(path, &out->buffer, &size, &why))
        return error_set(error, "%s: %s", path, why.text);
    out->path = xstrdup(path);
    bool ok = read_records(&r, out->buffer, size, &why) && (out->n || set_no_texts(&out->counts, &why));
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
    if (!reader_begin(&r, columns, LABELS_UNUSED, out, &why)) return error_set(error, "standard input: %s", why.text);
    out->path = xstrdup("standard input");
    out->buffer = xmalloc(size + 1);
    memcpy(out->buffer, in->bytes, size);
    out->buffer[size] = 0;
    memmove(in->bytes, in->bytes + size, in->size -= size);
    if (!in->line) in->objects = out->buffer[utf8_mark(out->buffer, size)] == '{';
    r.line = in->line + 1;
    for (size_t i = 0; i < size; i++) in->line += out->buffer[i] == '\n';
    bool ok = in->objects || !r.needed[ID] || error_set(&why, "1: lines of text have no column \"%s\"", r.names[ID]);
    ok = ok && read_text(&r, out->buffer, size, in->objects, &why);
    in->counts.bad += out->counts.bad;
    if (!in->counts.first_bad && out->counts.first_bad) in->counts.first_bad = xstrdup(out->counts.first_bad);
    return reader_end(&r, ok, &why, error);
}

bool comments_next(CommentInput *in, const CommentColumns *columns, Comments *out, Error *error) {
    *out = (Comments){0};
    while (!out->n && !in->ended) {
        if (!read_ready(in, error) || !take_lines(in, columns, out, error)) return false;
        if (!out->n && !in->ended) comments_free(out); /* empty lines are no objects */
    }
    in->n += out->n;
    return in->n || set_no_texts(&in->counts, error) || error_before(error, "standard input:");
}

void comments_input_close(CommentInput *in) { FREE(in->bytes, in->counts.first_bad); }

void comments_free(Comments *comments) {
    FREE(comments->path, comments->texts, comments->labels, comments->ids, comments->lines, comments->counts.first_bad,
         comments->counts.lines);
    for (int64_t i = 0; i < comments->n_others; i++) free(comments->others[i]);
    FREE(comments->others, comments->buffer);
    *comments = (Comments){0};
}
