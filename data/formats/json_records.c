#include "data/formats/json_records.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_white(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* ---- where a value ends ---- */

/* Goes on in a value, whose brackets and quotes the array counts. Returns the bytes that are of it; *ends: it ends
 * behind them. Brackets are not told apart: nothing is judged here. */
static size_t value_part(JsonArray *a, const char *bytes, size_t n, bool *ends) {
    *ends = true;
    for (size_t i = 0; i < n; i++) {
        const char c = bytes[i];
        if (a->escaped) {
            a->escaped = false;
        } else if (a->string) {
            a->escaped = c == '\\';
            a->string = c != '"';
            if (!a->string && !a->depth) return i + 1;
        } else if (c == '"') {
            a->string = true;
        } else if (c == '{' || c == '[') {
            a->depth++;
        } else if (!a->depth && (is_white(c) || c == ',' || c == '}' || c == ']')) {
            return i;
        } else if ((c == '}' || c == ']') && !--a->depth) {
            return i + 1;
        }
    }
    *ends = false;
    return n;
}

/* ---- one record ---- */

typedef struct {
    const char *text;
    size_t size, at;
} Scan;

static char next_character(Scan *s) {
    while (s->at < s->size && is_white(s->text[s->at])) s->at++;
    return s->at < s->size ? s->text[s->at] : 0;
}

/* Moves behind a value; stays before it, with false, if there is none, or it does not end. */
static bool take_value(Scan *s, const char **value, size_t *size) {
    JsonArray a = {0};
    bool ends;
    next_character(s);
    *value = s->text + s->at;
    *size = value_part(&a, *value, s->size - s->at, &ends);
    bool ok = *size && (ends || (!a.string && !a.depth));
    s->at += ok ? *size : 0;
    return ok;
}

/* Returns a name as text; free(). NULL if it is none that anybody could ask for. */
static char *name_of(const char *quoted, size_t size) {
    if (!memchr(quoted, '\\', size)) return xformat("%.*s", (int)(size - 2), quoted + 1);
    json_auto_t *value = json_loadb(quoted, size, JSON_DECODE_ANY, NULL);
    return value ? xstrdup(json_string_value(value)) : NULL;
}

static bool is_among(const char *const *names, const char *name) {
    for (; *names; names++)
        if (!strcmp(*names, name)) return true;
    return false;
}

/* ---- numbers that 64 bits do not hold ---- */

static const char LARGE[] = "\x01 digits"; /* the name in the object that stands for one */

const char *json_large_number(const json_t *value) { return json_string_value(json_object_get(value, LARGE)); }

static size_t number_length(const char *text) {
    return *text == '-' || (*text >= '0' && *text <= '9') ? strspn(text, "+-.0123456789Ee") : 0;
}

static bool is_large(const char *text, size_t size) {
    errno = 0;
    if (strcspn(text, ".Ee") < size) return isinf(strtod(text, NULL));
    strtoll(text, NULL, 10);
    return errno == ERANGE;
}

/* Writes null over the large numbers in an object or array, in which nobody asks for one. */
static void blank_large(char *text) {
    bool string = false;
    for (char *at = text; *at;) {
        size_t n = string ? 0 : number_length(at);
        if (n && is_large(at, n)) memcpy(memset(at, ' ', n), "null", 4); /* the shortest is 1e309 */
        bool escapes = string && *at == '\\' && at[1];
        string ^= *at == '"';
        at += n ? n : escapes ? 2 : 1;
    }
}

/* Parses a value that has such a number, or is one: then it becomes an object that json_large_number knows. */
static json_t *load_large(const char *text, size_t size, size_t flags) {
    OWNED char *copy = xformat("%.*s", (int)size, text);
    bool number = number_length(copy) == size;
    if (!number) blank_large(copy);
    return number ? json_build("a number", "{s:s}", LARGE, copy) : json_loadb(copy, strlen(copy), flags, NULL);
}

/* ---- fields ---- */

/* Adds a field to the object. */
static bool add_field(json_t *object, const char *name, const char *text, size_t size, bool asked, size_t flags,
                      Error *error) {
    json_error_t problem;
    json_t *value = NULL;
    if (asked && json_object_get(object, name)) return error_set(error, "\"%s\" is there twice", name);
    if (!asked)
        value = *text == '"' ? json_string("") : json_null();
    else if (size == 3 && !memcmp(text, "NaN", 3))
        value = json_null();
    else
        value = json_loadb(text, size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | flags, &problem);
    if (!value && json_error_code(&problem) == json_error_numeric_overflow)
        value = load_large(text, size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | flags);
    if (!value) return error_set(error, "\"%s\": %s", name, problem.text);
    json_object_set_new_nocheck(object, name, value);
    return true;
}

/* Reads a field, "name": value. */
static bool read_field(Scan *s, json_t *object, const char *const *names, size_t flags, Error *error) {
    const char *key, *value;
    size_t key_size, size;
    if (next_character(s) != '"') return error_set(error, "expected a name in double quotes");
    if (!take_value(s, &key, &key_size)) return error_set(error, "a name has no closing quote");
    if (next_character(s) != ':') return error_set(error, "expected \":\" behind a name");
    s->at++;
    if (!take_value(s, &value, &size))
        return error_set(error, size ? "a value does not end in this record" : "expected a value");
    OWNED char *name = name_of(key, key_size);
    bool ok = !name || add_field(object, name, value, size, is_among(names, name), flags, error);
    if (!ok) s->at = (size_t)(value - s->text);
    return ok;
}

static bool read_object(Scan *s, json_t *object, const char *const *names, size_t flags, Error *error) {
    s->at++;
    for (bool first = true; !(first && next_character(s) == '}'); first = false) {
        if (!read_field(s, object, names, flags, error)) return false;
        char c = next_character(s);
        if (c == '}') break;
        if (c != ',') return error_set(error, "expected \",\" or \"}\" behind a value");
        s->at++;
    }
    s->at++;
    return !next_character(s) || error_set(error, "expected nothing behind the object");
}

json_t *json_record(const char *text, size_t size, const char *const *names, size_t flags, size_t *at, Error *error) {
    while (size && is_white(text[size - 1])) size--; /* an error is in the last line that has text */
    Scan s = {text, size, 0};
    json_error_t problem;
    bool object = next_character(&s) == '{';
    json_auto_t *record =
        object ? json_object() : json_loadb(text, size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | flags, &problem);
    bool ok = object ? read_object(&s, record, names, flags, error) : record || error_set(error, "%s", problem.text);
    *at = s.at;
    return ok ? json_incref(record) : NULL;
}

int json_column(const char *text, size_t at, int column, int64_t *line) {
    for (size_t i = 0; i < at; i++) {
        if (text[i] == '\n') column = 0;
        *line += text[i] == '\n';
        column += column < INT_MAX && (text[i] & 0xC0) != 0x80; /* a byte that begins a character */
    }
    return column;
}

/* ---- arrays ---- */

enum { BEFORE, OPENED, INSIDE, BEHIND, COMMA, CLOSED };

/* Takes a byte outside of elements. Returns whether it may stand there; the state INSIDE: an element begins with it. */
static bool step(JsonArray *a, char c) {
    static const int by_bracket[] = {
        [BEFORE] = OPENED, [OPENED] = INSIDE, [COMMA] = INSIDE, [BEHIND] = -1, [CLOSED] = -1};
    int next = -1;
    if (c == '[')
        next = by_bracket[a->state];
    else if (c == ']')
        next = a->state == OPENED || a->state == BEHIND ? CLOSED : -1;
    else if (c == ',')
        next = a->state == BEHIND ? COMMA : -1;
    else if (c != '}' && c != ':')
        next = a->state == OPENED || a->state == COMMA ? INSIDE : -1;
    if (next >= 0) a->state = next;
    return next >= 0;
}

static bool refuse(const JsonArray *a, char c, Error *error) {
    static const char *const expected[] = {[BEFORE] = "\"[\"",
                                           [OPENED] = "a record or \"]\"",
                                           [BEHIND] = "\",\" or \"]\" behind a record",
                                           [COMMA] = "a record behind \",\"",
                                           [CLOSED] = "nothing behind the \"]\" of the array"};
    return error_set(error, "found '%c', expected %s", c, expected[a->state]);
}

bool json_array_take(JsonArray *a, const char *bytes, size_t n, size_t *taken, JsonPiece *piece, Error *error) {
    bool ends;
    *piece = JSON_BETWEEN;
    for (*taken = 0; a->state != INSIDE && *taken < n; ++*taken) {
        const char c = bytes[*taken];
        if (is_white(c)) continue;
        if (!step(a, c)) return refuse(a, c, error);
        if (a->state == INSIDE) break;
    }
    if (a->state != INSIDE || *taken) return true;
    *taken = value_part(a, bytes, n, &ends);
    *piece = ends ? JSON_LAST_PART : JSON_PART;
    if (ends) a->state = BEHIND;
    return true;
}

bool json_array_is_closed(const JsonArray *array) { return array->state == CLOSED; }

bool json_begins_array(const char *text, size_t size) { return next_character(&(Scan){text, size, 0}) == '['; }

/* ---- the records of a text ---- */

JsonRecords json_records_open(const char *text, size_t size, int64_t line, bool may_be_array) {
    return (JsonRecords){.at = text,
                         .end = text + size,
                         .column = 1,
                         .next_line = line,
                         .next_column = 1,
                         .is_array = may_be_array && json_begins_array(text, size)};
}

/* Goes on behind n bytes. They are counted before the caller gets the record, whose bytes it may change. */
static void go_on(JsonRecords *r, size_t n) {
    r->next_column = json_column(r->at, n, r->next_column, &r->next_line);
    r->at += n;
}

static bool next_element(JsonRecords *r, Error *error) {
    JsonPiece piece = JSON_BETWEEN;
    size_t taken;
    while (piece == JSON_BETWEEN && r->at < r->end) {
        if (!json_array_take(&r->array, r->at, (size_t)(r->end - r->at), &taken, &piece, error)) {
            go_on(r, taken);
            return error_before(error, "%lld: ", (long long)r->next_line);
        }
        r->text = r->at;
        r->size = taken;
        r->line = r->next_line;
        r->column = r->next_column;
        go_on(r, taken);
    }
    if (piece == JSON_LAST_PART) return true;
    return !json_array_is_closed(&r->array) &&
           error_set(error, "%lld: the array is not closed: the file is cut off", (long long)r->next_line);
}

static bool next_line(JsonRecords *r) {
    for (r->size = 0; !r->size && r->at < r->end;) {
        const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at)), *end = stop ? stop : r->end;
        r->text = r->at;
        r->line = r->next_line++;
        r->at = stop ? stop + 1 : r->end;
        while (end > r->text && is_white(end[-1])) end--;
        r->size = (size_t)(end - r->text);
    }
    return r->size > 0;
}

bool json_records_next(JsonRecords *r, Error *error) {
    error->text[0] = 0;
    return r->is_array ? next_element(r, error) : next_line(r);
}

json_t *json_records_parse(const JsonRecords *r, const char *const *names, size_t flags, Error *error) {
    size_t at;
    json_t *record = json_record(r->text, r->size, names, flags, &at, error);
    int64_t line = r->line;
    if (record) return record;
    int column = json_column(r->text, at, r->column, &line);
    error_before(error, "%lld:%d: ", (long long)line, column);
    return NULL;
}
