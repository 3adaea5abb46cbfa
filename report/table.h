/* A table of results: filled once, then written as CSV, Markdown and JSON and printed, so that all show the same.
 *
 * Cells are added from left to right. The first row names the columns; a cell of the first column begins a row:
 *     for (...) { table_text(&t, "class", name); table_real(&t, "f1", f1); } */
#pragma once

#include "base/json.h"
#include <stdio.h>

#include "base/base.h"

typedef struct {
    enum { CELL_TEXT, CELL_COUNT, CELL_REAL } kind;
    char *text;
    int64_t count;
    double real; /* NaN: there is no such value */
} Cell;

typedef struct {
    int columns;
    int64_t n;    /* cells */
    char **names; /* [columns] */
    Cell *cells;  /* [n], row by row */
} Table;          /* begins as {0} */

void table_text(Table *table, const char *column, const char *value);
void table_count(Table *table, const char *column, int64_t value);
void table_real(Table *table, const char *column, double value);
/* Adds the columns WHAT_NAME of n names, "p_cat", with a value each. */
void table_reals(Table *table, const char *what, const char *const *names, const double *values, int n);
int64_t table_rows(const Table *table);
void table_clear(Table *table); /* removes the rows; the columns stay */
void table_free(Table *table);

/* Writes numbers to the last bit; a field is empty where there is no value, or an infinite one. */
bool table_write_csv(const Table *table, const char *path, Error *error);
void table_print_csv(const Table *table, bool names, FILE *out); /* names: of the columns, before the rows */
/* Prints an object a line; null for a number that is not finite. */
void table_print_json_lines(const Table *table, FILE *out);
/* For people: prints the first `columns`, with four decimals. */
void table_print_markdown(const Table *table, int columns, FILE *out);
/* Prints a heading and all columns; nothing for an empty table. */
void table_print_section(const Table *table, const char *title, FILE *out);
void table_print(const Table *table, int columns, FILE *out);
json_t *table_to_json(const Table *table); /* an array of objects; null for a number that is not finite */

bool json_write(json_t *root, const char *path, Error *error); /* takes root */
