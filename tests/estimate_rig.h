/* Helpers for tests of --estimate. */
#pragma once

#include <jansson.h>

#include "tests/test.h"

extern char estimate_output[1 << 17]; /* what the last run printed */

/* Runs a trainer, which must exit with `status`. Keeps its stdout and, unless only_stdout, its stderr. */
void estimate_command(int status, bool only_stdout, const char *arguments);
/* Runs a trainer with --estimate --json. Returns the estimate; json_decref. */
json_t *estimate_parsed(const char *arguments);
double estimate_number(const json_t *object, const char *key);
const json_t *estimate_card(const json_t *root);
/* Returns "flops", "bytes", "calls" and so on of an operation on the first card; 0 if the step never calls it. */
double estimate_of_op(const json_t *root, const char *name, const char *key);
/* Fail unless got equals want, exactly or within `relative` times want. */
void estimate_expect(const char *what, double got, double want);
void estimate_expect_near(const char *what, double got, double want, double relative);
/* Returns the FLOPs of the forward of attention in a block: 4 d per pair of rows; 5 per pair and head for scale,
 * maximum, exponential, sum and normalisation; 2 more with dropout. */
double attention_flops(double pairs, double d, double heads, bool dropout);
/* Runs a trainer with --estimate. Returns whether the step fits on the first card. */
bool estimate_fits(const char *arguments);
/* Returns the i-th proposed change that would make the step fit on the first card; NULL if there are fewer. */
const char *estimate_change(const json_t *root, size_t i);
