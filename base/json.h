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

/* Objects that carry their own checksum, under the key "xxh3_64", in files that programs keep for themselves and
 * believe later. It tells damage, and changes by hand: who makes one removes the key. */

/* Sets the checksum of the object, as json_dumps prints it with so many digits of each real number (at most 15, or all
 * 17), behind that of other bytes that belong to it (`before`; 0: none). The file must have the same digits. */
void json_sum_set(json_t *object, int digits, uint64_t before);
/* Compares it. True too if the object has none: an older program's, or one from elsewhere. */
bool json_sum_check(const json_t *object, int digits, uint64_t before, Error *error);

#endif
