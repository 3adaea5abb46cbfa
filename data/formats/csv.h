/* Reads and writes CSV (RFC 4180). Records end in LF or CRLF, fields are separated by commas, and a field in double
 * quotes may contain commas, line ends and "" for a quote. Text is UTF-8 without zero bytes; a byte order mark and
 * empty lines are skipped. A quote inside a bare field, text behind a closing quote and an unclosed quote are errors.
 *
 * Excel separates fields with ";" where the decimal sign is a comma, and with tabs in Unicode text. The separator is
 * found in the line of column names, or stated by a line "sep=;" above it. text_read
 * (text_source.h) reads what else Excel writes, UTF-16, and files that are compressed. */
#pragma once

#include <stdio.h>

#include "base/base.h"

typedef struct {
    int64_t line; /* of the last record, counted from 1 */
    int n;        /* fields of the last record */
    char **fields;
    char separator; /* found by csv_open; may be set before the first record */

    char *at; /* the rest of the text */
    int64_t next_line;
    int capacity;
} Csv;

/* Returns the bytes of a line such as "sep=;" at the beginning of text[size], and sets *separator; 0: there is none. */
size_t csv_statement(const char *text, size_t size, char *separator);
/* Begins to read `text`, which ends with a zero byte at text[size]. The reader changes the text; fields point into it.
 * `usual`, a comma or a tab, separates the fields unless the first line has none of it outside quotes, and has another
 * of comma, semicolon and tab, or says which it is. False with "LINE: ..." if the text has a zero byte or is not UTF-8;
 * csv_close is then allowed, but not needed. */
bool csv_open(Csv *csv, char *text, size_t size, char usual, Error *error);
/* Reads the next record. False at the end of the text, with an empty error, or with an error "LINE:COLUMN: ...". */
bool csv_next(Csv *csv, Error *error);
/* Goes on in the line behind an error of csv_next, so that the next record is not lost with this one. False if that is
 * impossible: a quote that is not closed holds the rest of the table. */
bool csv_skip(Csv *csv);
void csv_close(Csv *csv);

/* Sets *place to the field of the last record, of column names, that has this name. Where there is none, *place is -1
 * if `advice` is NULL; otherwise that is an error, which lists the names and ends with the advice. False with "LINE:
 * ...".
 */
bool csv_column(const Csv *csv, const char *name, const char *advice, int *place, Error *error);

/* Converts a field to a whole number, or to a finite one. False: the field is something else. */
bool csv_integer(const char *field, int64_t *out);
bool csv_number(const char *field, double *out);
/* Converts a field of this table to a finite number, which has a decimal comma or a point if semicolons separate the
 * fields. */
bool csv_decimal(const Csv *csv, const char *field, double *out);

/* Writes a field, in quotes if necessary. */
void csv_write(FILE *file, const char *field);
/* Writes a number in the fewest digits that read back as the same value, as Python does: "80.0", "1e-07". Writes an
 * empty field for a number that is not finite. */
void csv_write_number(FILE *file, double value);
