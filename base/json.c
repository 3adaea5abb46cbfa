#include "base/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

json_t *json_build(const char *what, const char *format, ...) {
    va_list arguments;
    json_error_t error;
    va_start(arguments, format);
    json_t *value = json_vpack_ex(&error, 0, format, arguments);
    va_end(arguments);
    if (!value) die("%s cannot be written as JSON: %s (value %d of %s)", what, error.text, error.column, format);
    return value;
}

json_t *real_or_null(double value) { return isfinite(value) ? json_real(value) : json_null(); }

char *json_text(const char *what, const json_t *value, size_t flags) {
    char *text = value ? json_dumps(value, flags) : NULL;
    if (!text) die("%s cannot be written as JSON: a number is not finite, or memory is out", what);
    return text;
}

json_t *json_parse(const char *bytes, size_t size, size_t flags, Error *error) {
    json_error_t problem;
    json_t *value = json_loadb(bytes, size, flags, &problem);
    if (!value) error_set(error, "line %d, column %d: %s", problem.line, problem.column, problem.text);
    return value;
}

json_t *json_read(const char *path, size_t flags, Error *error) {
    OWNED char *bytes = NULL;
    size_t size;
    return read_file(path, &bytes, &size, error) ? json_parse(bytes, size, flags, error) : NULL;
}

bool json_write_file(const char *path, const json_t *value, size_t flags, Error *error) {
    OWNED char *text = json_text(path, value, flags);
    return file_write_atomic(path, text, strlen(text), error);
}

bool json_refuse(Error *error, const char *field, const char *expected, const json_t *found) {
    OWNED char *text = found ? json_text(field, found, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6)) : xstrdup("nothing");
    return error_set(error, "\"%s\": expected %s, found %.64s", field, expected, text);
}

static const char SUM[] = "xxh3_64";

/* A number that was read and is printed with the same digits gives the same text. */
static void sum_of(const json_t *object, int digits, uint64_t before, char text[17]) {
    json_auto_t *rest = json_copy((json_t *)(uintptr_t)object);
    json_object_del(rest, SUM);
    OWNED char *dumped = json_text("a checksum", rest, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(digits));
    snprintf(text, 17, "%016llx", (unsigned long long)checksum(before, dumped, strlen(dumped)));
}

void json_sum_set(json_t *object, int digits, uint64_t before) {
    char text[17];
    sum_of(object, digits, before, text);
    json_object_set_new(object, SUM, json_string(text));
}

bool json_sum_check(const json_t *object, int digits, uint64_t before, Error *error) {
    const json_t *stated = json_object_get(object, SUM);
    const char *stated_text = json_string_value(stated);
    char text[17];
    if (!stated) return true;
    sum_of(object, digits, before, text);
    return (stated_text && !strcmp(stated_text, text)) ||
           error_set(error, "is not as it was written: its checksum is %s, and its \"%s\" says %.32s", text, SUM,
                     stated_text ? stated_text : "no text");
}
