/* Pictures of a classifier as SVG files. */
#ifndef REPORT_DIAGRAMS_H
#define REPORT_DIAGRAMS_H

#include "report/evaluation.h"

/* Draws confusion[classes, classes], truth down: each cell is as dark as its share of the row, with count and share. */
bool diagram_confusion(const char *path, const int64_t *confusion, int classes, const char *const *names,
                       const char *title, Error *error);
/* Draws accuracy over confidence: a bar per bin, the gap to its mean confidence shaded; below, the rows of each bin. */
bool diagram_reliability(const char *path, const MetricsCalibration *calibration, const char *title, Error *error);

/* ---- two classes ---- */

/* Rows whose curve is drawn. */
typedef struct {
    const char *name; /* in the legend */
    const BinaryRow *rows;
    int64_t n;
} CurveRows;

/* Writes BASE.csv and BASE.svg: ROC curves, or those of precision over recall; the first one is drawn over the others.
 * Writes nothing if all rows of each curve have one class. */
bool diagram_curves(const char *base, bool roc, const CurveRows *rows, int n_rows, const char *title, Error *error);
/* Draws histograms of p: rows of each predicted class, right and wrong; and the four counts. */
bool diagram_outcomes(const char *path, const BinaryRow *rows, int64_t n, const BinaryScores *scores,
                      const char *const *class_names, const char *title, Error *error);

#endif
