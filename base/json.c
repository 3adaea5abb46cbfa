#include "base/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

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

json_t *json_read(const char *path, size_t flags, Error *error) {
    char *bytes;
    size_t size;
    json_error_t problem;
    if (!read_file(path, &bytes, &size, error)) return NULL;
    json_t *value = json_loadb(bytes, size, flags, &problem);
    free(bytes);
    if (!value) error_set(error, "line %d, column %d: %s", problem.line, problem.column, problem.text);
    return value;
}
