/* JSON by libjansson, whose failures nobody has to look for: what cannot be made or written ends the program with one
 * line, what cannot be read is an Error. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>

#include "base/base.h"

/* Returns a new value, by the format of json_pack. Dies, naming what was to be made, if there is none: for a number
 * that is not finite, a text that is not UTF-8. */
json_t *json_build(const char *what, const char *format, ...);
/* Returns the value as text, by the flags of json_dumps; free(). Dies, naming what was to be written, if there is no
 * such text, or no value. */
char *json_text(const char *what, const json_t *value, size_t flags);
/* Returns the number, or null for one that is not finite: JSON has neither infinity nor NaN. */
json_t *real_or_null(double value);
/* Reads a file, by the flags of json_loadb. NULL with the reason, and the place in the file where it is about that. */
json_t *json_read(const char *path, size_t flags, Error *error);

#endif
