/* CSV as RFC 4180 has it: records end in LF or CRLF, fields are separated by commas, a field in double quotes may hold
 * all of these and "" for a quote. Text is UTF-8 without zero bytes; a byte order mark is skipped, empty lines are not
 * records. Anything else (a quote inside a bare field, text behind a closing quote, a quote never closed) is an error.
 */
#ifndef DATA_CSV_H
#define DATA_CSV_H

#include <stdio.h>

#include "base/base.h"

typedef struct {
    int64_t line; /* where the last record begins, counted from 1 */
    int n;        /* its fields */
    char **fields;

    char *at; /* what is left of the text, which the fields lie in */
    int64_t next_line;
    int capacity;
} Csv;

/* Begins to read text, whose zero end is at text[size], and which is changed by and must outlive the reader. */
bool csv_open(Csv *csv, char *text, size_t size, Error *error);
/* The next record; false at the end, or with an error, "LINE:COLUMN: ...", whose text otherwise is empty. */
bool csv_next(Csv *csv, Error *error);
void csv_close(Csv *csv);

/* A field as a whole number, or as a finite one. */
bool csv_integer(const char *field, int64_t *out);
bool csv_number(const char *field, double *out);

/* Writes a field, in quotes if it needs them. */
void csv_write(FILE *file, const char *field);
/* A number in the fewest digits that read back as the same, as Python prints it: "80.0", "1e-07"; nothing if it is not
 * finite. */
void csv_write_number(FILE *file, double value);

#endif
