/* Reads and writes CSV (RFC 4180). Records end in LF or CRLF, fields are separated by commas, and a field in double
 * quotes may contain commas, line ends and "" for a quote. Text is UTF-8 without zero bytes; a byte order mark and
 * empty lines are skipped. A quote inside a bare field, text behind a closing quote and an unclosed quote are errors.
 */
#ifndef DATA_FORMATS_CSV_H
#define DATA_FORMATS_CSV_H

#include <stdio.h>

#include "base/base.h"

typedef struct {
    int64_t line; /* of the last record, counted from 1 */
    int n;        /* fields of the last record */
    char **fields;
    char separator; /* ',' after csv_open; '\t', set before the first record, reads tables of that kind */

    char *at; /* the rest of the text */
    int64_t next_line;
    int capacity;
} Csv;

/* Begins to read `text`, which ends with a zero byte at text[size]. The reader changes the text; fields point into it.
 * False with "LINE: ..." if the text has a zero byte or is not UTF-8; csv_close is then allowed, but not needed. */
bool csv_open(Csv *csv, char *text, size_t size, Error *error);
/* Reads the next record. False at the end of the text, with an empty error, or with an error "LINE:COLUMN: ...". */
bool csv_next(Csv *csv, Error *error);
void csv_close(Csv *csv);

/* Converts a field to a whole number, or to a finite one. False: the field is something else. */
bool csv_integer(const char *field, int64_t *out);
bool csv_number(const char *field, double *out);

/* Writes a field, in quotes if necessary. */
void csv_write(FILE *file, const char *field);
/* Writes a number in the fewest digits that read back as the same value, as Python does: "80.0", "1e-07". Writes an
 * empty field for a number that is not finite. */
void csv_write_number(FILE *file, double value);

#endif
