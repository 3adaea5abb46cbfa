#include "data/formats/csv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/text/utf8.h"

/* Returns what separates the fields of the first record at `at`. */
static char find_separator(const char *at, char usual) {
    static const char known[] = ",;\t";
    bool there[sizeof known] = {false}, quoted = false;
    for (; *at && (quoted || (*at != '\n' && *at != '\r')); at++) {
        const char *which = strchr(known, *at);
        if (which && !quoted) there[which - known] = true;
        quoted ^= *at == '"';
    }
    if (there[strchr(known, usual) - known]) return usual;
    for (int i = 0; known[i]; i++)
        if (there[i]) return known[i];
    return usual;
}

size_t csv_statement(const char *text, size_t size, char *separator) {
    const char *at = text, *end = text + size;
    bool quoted = size && *at == '"';
    at += quoted;
    if (end - at < 5 || strncasecmp(at, "sep=", 4) != 0 || !memchr(",;\t|", at[4], 4)) return 0;
    char stated = at[4];
    at += 5;
    if (quoted && (at == end || *at++ != '"')) return 0;
    at += at < end && *at == '\r';
    if (at < end && *at++ != '\n') return 0;
    *separator = stated;
    return (size_t)(at - text);
}

bool csv_open(Csv *csv, char *text, size_t size, char usual, Error *error) {
    *csv = (Csv){.next_line = 1, .separator = usual};
    if (!utf8_check(text, size, error)) return false;
    csv->at = text + utf8_mark(text, size);
    size_t stated = csv_statement(csv->at, (size_t)(text + size - csv->at), &csv->separator);
    if (!stated) csv->separator = find_separator(csv->at + strspn(csv->at, "\r\n"), usual);
    csv->next_line += stated && csv->at[stated - 1] == '\n';
    csv->at += stated;
    return true;
}

void csv_close(Csv *csv) {
    free(csv->fields);
    *csv = (Csv){0};
}

/* Returns whether a record ends here: at LF, CRLF or the end of the text. */
static bool at_end(const char *at) { return !*at || *at == '\n' || (*at == '\r' && at[1] == '\n'); }

/* Moves the field at *from, in quotes, to where its text begins, without the quotes; *from then is behind it. Returns
 * the end of the text; NULL if there is no closing quote. */
static char *unquote(Csv *csv, char **from) {
    char *to = *from, *at = *from + 1;
    for (; *at; *to++ = *at++) {
        if (*at == '"' && *++at != '"') {
            *from = at;
            return to;
        }
        csv->next_line += *at == '\n';
    }
    return NULL;
}

/* Refuses a field in which a quote is in the wrong place. */
static bool refuse(const Csv *csv, long long column, const char *what, Error *error) {
    return error_set(error, "%lld:%lld: %s; write such a field in quotes, and each quote in it twice",
                     (long long)csv->line, column, what);
}

bool csv_next(Csv *csv, Error *error) {
    error->text[0] = 0;
    csv->n = 0;
    for (; *csv->at && at_end(csv->at); csv->next_line++) csv->at += *csv->at == '\r' ? 2 : 1;
    csv->line = csv->next_line;
    if (!*csv->at) return false;
    for (char *start = csv->at, *at = start;; at++) {
        char *field = at, *end;
        long long column = at - start + 1;
        csv->at = at; /* for csv_skip */
        if (*at == '"') {
            end = unquote(csv, &at);
            if (!end) {
                csv->at += strlen(csv->at);
                return error_set(error, "%lld:%lld: the quote is not closed; close it behind the field",
                                 (long long)csv->line, column);
            }
            csv->at = at;
            if (*at != csv->separator && !at_end(at))
                return refuse(csv, (long long)(at - start) + 1, "text behind a closing quote", error);
        } else {
            while (*at != csv->separator && *at != '"' && !at_end(at)) at++;
            end = at;
            if (*at == '"')
                return refuse(csv, (long long)(at - start) + 1, "a quote inside a field that does not begin with one",
                              error);
        }
        if (csv->n == csv->capacity)
            csv->fields = xrealloc(csv->fields, (size_t)(csv->capacity = 2 * csv->capacity + 16) * sizeof(char *));
        csv->fields[csv->n++] = field;
        bool last = *at != csv->separator;
        csv->at = !*at ? at : at + (*at == '\r' ? 2 : 1);
        csv->next_line += last && *at;
        *end = 0;
        if (last) return true;
    }
}

bool csv_skip(Csv *csv) {
    char *end = strchr(csv->at, '\n');
    if (!*csv->at) return false; /* the end of a field that does not end */
    csv->at = end ? end + 1 : csv->at + strlen(csv->at);
    csv->next_line += end != NULL;
    return true;
}

/* Returns the fields of the last record for a message, not all if they are many; free(). */
static char *join_fields(const Csv *csv) {
    char *names = xstrdup(csv->n ? csv->fields[0] : "");
    for (int i = 1; i < csv->n && strlen(names) < 200; i++) {
        char *longer = xformat("%s, %s", names, csv->fields[i]);
        free(names);
        names = longer;
    }
    return names;
}

bool csv_column(const Csv *csv, const char *name, const char *advice, int *place, Error *error) {
    *place = -1;
    for (int i = 0; i < csv->n; i++) {
        if (strcmp(csv->fields[i], name) != 0) continue;
        if (*place >= 0) return error_set(error, "%lld: the column \"%s\" is there twice", (long long)csv->line, name);
        *place = i;
    }
    if (*place >= 0 || !advice) return true;
    OWNED char *names = join_fields(csv);
    error_set(error, "%lld: there is no column \"%s\"; the columns are: %s%s", (long long)csv->line, name, names,
              advice);
    return false;
}

bool csv_integer(const char *field, int64_t *out) {
    const char *digits = field + (*field == '-');
    *out = 0;
    if (!*digits) return false;
    for (const char *c = digits; *c; c++)
        if (*c < '0' || *c > '9' || __builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, *c - '0', out))
            return false;
    if (digits > field) *out = -*out;
    return true;
}

bool csv_number(const char *field, double *out) {
    char *end;
    if (!*field || strspn(field, "+-.0123456789eE") != strlen(field)) return false;
    *out = strtod(field, &end);
    return !*end && isfinite(*out);
}

bool csv_decimal(const Csv *csv, const char *field, double *out) {
    char text[64];
    const char *comma = csv->separator == ';' ? strchr(field, ',') : NULL;
    const size_t size = strlen(field) + 1;
    if (!comma || size > sizeof text || strchr(field, '.')) return csv_number(field, out);
    memcpy(text, field, size);
    text[comma - field] = '.';
    return csv_number(text, out);
}

void csv_write(FILE *file, const char *field) {
    if (!strpbrk(field, ",\"\r\n")) {
        fputs(field, file);
        return;
    }
    fputc('"', file);
    for (; *field; field++) fputs(*field == '"' ? "\"\"" : (const char[]){*field, 0}, file);
    fputc('"', file);
}

void csv_write_number(FILE *file, double value) {
    char text[40];
    if (!isfinite(value)) return;
    snprintf(text, sizeof text, "%.14e", value);
    int digits = strtod(text, NULL) == value ? 0 : 15; /* behind the first; most numbers need all */
    do snprintf(text, sizeof text, "%.*e", digits, value);
    while (strtod(text, NULL) != value && ++digits < 17);
    int exponent = atoi(strchr(text, 'e') + 1), places = digits > exponent ? digits - exponent : 1;
    if (exponent >= -4 && exponent < 16) snprintf(text, sizeof text, "%.*f", places, value);
    fputs(text, file);
}
