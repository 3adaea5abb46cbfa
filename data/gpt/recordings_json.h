/* Reads lines with a JSON object each. */
#ifndef DATA_GPT_RECORDINGS_JSON_H
#define DATA_GPT_RECORDINGS_JSON_H

#include "data/gpt/list_reader.h"

/* Sets the fields of `r` that the object has; others are ignored. Id, speaker and language may be integers, and are
 * ignored if they are of another type, unless an option names them. The first line decides whether there are ids and
 * speakers: all lines have them, or none. The object begins in line *number and, in an array, *column (0: it is a
 * line); both are moved to where the JSON is invalid. */
bool recordings_read_json(ListReader *reader, const char *line, size_t n, Recording *r, int64_t *number, int *column,
                          Error *error);
/* Returns whether a text is one object over several lines, which is no list, and says what to do. */
bool recordings_are_one_object(const char *text, size_t size, Error *words);

#endif
