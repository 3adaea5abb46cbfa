/* Pictures of a classifier: each function draws one <svg> element, for a page or for a file of its own (TextFile). */
#pragma once

#include <stdio.h>

#include "report/evaluation.h"

/* Draws confusion[classes, classes], truth down: each cell is as dark as its share of the row, with count and share. */
void diagram_confusion(FILE *out, const int64_t *confusion, int classes, const char *const *names, const char *title);
/* Draws accuracy over confidence: a bar per bin, Wilson's 95 % interval of it, the gap to its mean
 * confidence; below, the rows of each bin. */
void diagram_reliability(FILE *out, const MetricsCalibration *calibration, const char *title);
/* Draws histograms of p: rows of each predicted class, right and wrong; and the four counts. */
void diagram_outcomes(FILE *out, const BinaryRow *rows, int64_t n, const BinaryScores *scores,
                      const char *const *class_names, const char *title);
