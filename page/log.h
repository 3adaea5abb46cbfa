/* Reads log.jsonl, which train/log.h writes. */
#pragma once

#include <jansson.h>

#include "base/base.h"

/* Returns a number of a record; NaN: it has none of this name. */
double log_number(const json_t *record, const char *name);
/* Returns whether a record is of this kind: "start", "train". */
bool log_is_kind(const json_t *record, const char *kind);
/* Returns the records of a log file as an array, json_decref(). A missing file has no records. Lines that are damaged
 * are left out. */
json_t *log_read(const char *path);
/* Reads the records of a log file that must be whole, json_decref(): NULL with "PATH:LINE: ..." if a line is no record.
 * A last line without an end, which a killed run may leave, is left out if it is no record: then *torn is its number,
 * else 0. */
json_t *log_read_whole(const char *path, int64_t *torn, Error *error);
