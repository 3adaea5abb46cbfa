/* JSON through libjansson with checked results: a value that cannot be made or written ends the program with one line;
 * a file that cannot be read is an Error. */
#pragma once

#include <jansson.h>

#include "base/base.h"

/* Returns a new value made by the format of json_pack. Dies, naming `what`, if a number is not finite or a text is not
 * UTF-8. */
json_t *json_build(const char *what, const char *format, ...);
/* Returns the value as text, with the flags of json_dumps; free(). Dies, naming `what`, if that fails or value is NULL.
 */
char *json_text(const char *what, const json_t *value, size_t flags) __attribute__((returns_nonnull));
/* Returns the number, or JSON's null for infinity and NaN, which JSON does not have. */
json_t *real_or_null(double value);
/* Parses a text, with the flags of json_loadb. NULL with the reason, line and column. */
json_t *json_parse(const char *bytes, size_t size, size_t flags, Error *error);
/* Reads a file, with the flags of json_loadb. NULL with the reason and, for bad syntax, line and column. */
json_t *json_read(const char *path, size_t flags, Error *error);

/* Writes a value to a file with one call, with the flags of json_dumps. */
bool json_write_file(const char *path, const json_t *value, size_t flags, Error *error);

/* Sets the error to what was expected of a field and what was found; found: NULL, if the field is missing. Returns
 * false.
 */
bool json_refuse(Error *error, const char *field, const char *expected, const json_t *found);

/* Objects with their own checksum, under the key "xxh3_64", for files that a program writes and trusts later. The
 * checksum reveals damage and edits; after editing such a file by hand, remove the key. */

/* Sets the checksum of the object as json_dumps prints it with `digits` digits per real number (at most 15, or 17),
 * starting from `before`, the checksum of other bytes that belong to the object (0: none). Write the file with the same
 * digits. */
void json_sum_set(json_t *object, int digits, uint64_t before);
/* Verifies the checksum. Also true if the object has none. */
bool json_sum_check(const json_t *object, int digits, uint64_t before, Error *error);
