/* Reads JSON records: objects, one per line (JSON Lines) or the elements of an array.
 *
 * Only the fields that are asked for are judged. In all others stands what JSON does not know and other programs write:
 * NaN, whole numbers of more than 64 bits, half of a surrogate pair (an emoji that was cut in two). In a field that is
 * asked for, NaN is null: Python writes a missing value so. A number that 64 bits do not hold (18446744073709551615,
 * 1e999) keeps its digits, which may be a name, and inside an array or object it is null. The rest is an error of that
 * record alone. */
#pragma once

#include "base/json.h"

/* ---- one record ---- */

/* Parses the record text[size]. Of an object only the fields names[...], the last of which is NULL, have their values;
 * the others are there with "" for a string and null for all else, so that a message can list them. A value that is no
 * object is returned as it is. flags: of json_loadb. NULL with an error, and *at the byte where it is, if the text is
 * no JSON, or a field that was asked for is no JSON or is there twice. */
json_t *json_record(const char *text, size_t size, const char *const *names, size_t flags, size_t *at, Error *error);

/* Returns the digits of a number that 64 bits do not hold; NULL: the value is another. */
const char *json_large_number(const json_t *value);

/* Adds the line ends before the byte `at` of a text to *line, and returns its column, in characters from 1. column: in
 * which the text begins. */
int json_column(const char *text, size_t at, int column, int64_t *line);

/* ---- a text of records ---- */

/* An array whose bytes come in pieces; begin with {0}. */
typedef struct {
    int state, depth;
    bool string, escaped; /* in a string; behind a backslash of it */
} JsonArray;

typedef enum {
    JSON_BETWEEN,  /* brackets, commas and white space around elements */
    JSON_PART,     /* of an element, which goes on */
    JSON_LAST_PART /* of an element, which ends behind these bytes */
} JsonPiece;

/* Takes the first of the n bytes (at least 1), as many as are of one kind, and sets *piece. Returns their number, which
 * is 0 behind a number, true, false or null, and false with an error in place of bytes that cannot stand there. */
bool json_array_take(JsonArray *array, const char *bytes, size_t n, size_t *taken, JsonPiece *piece, Error *error);
/* Returns whether the array has ended, so that nothing is missing at the end of the file. */
bool json_array_is_closed(const JsonArray *array);
/* Returns whether a text begins as an array: with "[" behind white space. */
bool json_begins_array(const char *text, size_t size);

/* The records of a text in memory. */
typedef struct {
    const char *text; /* [size] of the record */
    size_t size;
    int64_t line; /* where it begins */
    int column;   /* in characters, from 1; of a record that is a line, 1 */

    const char *at, *end; /* the rest */
    int64_t next_line;
    int next_column;
    bool is_array;
    JsonArray array;
} JsonRecords;

/* Begins to read text[size], of which `line` is the first, with an array if it begins as one and may. */
JsonRecords json_records_open(const char *text, size_t size, int64_t line, bool may_be_array);
/* Finds the next record; white space alone is none. False at the end, with an empty error, or with "LINE: ..." if an
 * array is not well-formed around its elements, or cut off. */
bool json_records_next(JsonRecords *records, Error *error);
/* Parses the record as json_record does. The error begins with "LINE: ", or "LINE:COLUMN: " if the text is no JSON. */
json_t *json_records_parse(const JsonRecords *records, const char *const *names, size_t flags, Error *error);
