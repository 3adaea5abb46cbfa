#include "page/log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

double log_number(const json_t *record, const char *name) {
    const json_t *value = json_object_get(record, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

bool log_is_kind(const json_t *record, const char *kind) {
    const char *text = json_string_value(json_object_get(record, "kind"));
    return text && !strcmp(text, kind);
}

/* Appends the record of a line. Returns false with the reason if the line is no JSON. */
static bool read_line(json_t *records, const char *line, size_t size, Error *error) {
    json_error_t where;
    json_t *record = json_loadb(line, size, 0, &where);
    if (!record) return error_set(error, "column %d: %s", where.column, where.text);
    json_array_append_new(records, record);
    return true;
}

/* The same for a record of a log, which has a step. */
static bool read_record(json_t *records, const char *line, size_t size, Error *error) {
    if (!read_line(records, line, size, error)) return false;
    size_t last = json_array_size(records) - 1;
    if (json_is_integer(json_object_get(json_array_get(records, last), "step"))) return true;
    json_array_remove(records, last);
    return error_set(error, "expected a record with a whole number \"step\"");
}

json_t *log_read(const char *path) {
    json_t *records = json_array();
    OWNED char *text = NULL;
    char *end;
    size_t size;
    if (!read_file(path, &text, &size, NULL)) return records;
    for (char *line = text; line < text + size; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + size - line));
        if (!end) end = text + size;
        read_line(records, line, (size_t)(end - line), NULL);
    }
    return records;
}

json_t *log_read_whole(const char *path, int64_t *torn, Error *error) {
    json_auto_t *records = json_array();
    OWNED char *text = NULL;
    char *end;
    size_t size;
    int64_t number = 0;
    Error why;
    *torn = 0;
    bool ok = read_file(path, &text, &size, &why) || error_set(error, "%s: %s", path, why.text);
    for (char *line = text; ok && line < text + size; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + size - line));
        bool whole = end != NULL;
        if (!whole) end = text + size;
        number++;
        if (read_record(records, line, (size_t)(end - line), &why)) continue;
        if (!whole) *torn = number;
        ok = !whole || error_set(error, "%s:%lld: %s; remove the line, or the file", path, (long long)number, why.text);
    }
    return ok ? json_incref(records) : NULL;
}
