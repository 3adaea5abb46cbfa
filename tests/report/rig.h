/* Makes and reads reports in tests, and checks that plots are valid XML. */
#pragma once

#include <jansson.h>

#include "report/evaluation.h"
#include "tests/files.h"

typedef struct {
    char *text, *cells[512][64];
    int rows, columns; /* rows counts the header, which has the names of the columns */
} Grid;

/* Reads a CSV file; free(grid.text). Fails the test if a row has more or fewer fields than the first. */
Grid grid_read(const char *directory, const char *name);
/* Returns the field of this column in the row that begins with `key`, or in the first row if key is NULL. */
const char *grid_field(const Grid *csv, const char *key, const char *column);
double grid_number(const Grid *csv, const char *key, const char *column);

/* Reads a JSON file; json_decref(). */
json_t *json_in(const char *directory, const char *name);
/* Return the value of this key, or a number. Fail the test if there is none. */
json_t *json_at(const json_t *object, const char *key);
double number_at(const json_t *object, const char *key);

/* Fails unless the text is XML: one root, tags closed in order, attributes quoted and unique, text escaped. */
void assert_xml(const char *text);
/* Reads an SVG file, which must be XML. */
char *svg_in(const char *directory, const char *name);
/* Returns how often `part` occurs in a text. */
int occurrences(const char *text, const char *part);

/* Returns the covariate "snr" in dB, of values per row, in bins of 5. */
Covariate snr_of(const double *values);
/* Evaluates predictions at the temperature 1; evaluation_free(). */
Evaluation evaluate(const Predictions *predictions);
