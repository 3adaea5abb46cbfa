/* Two pictures of a binary classifier as SVG files: a curve over all thresholds, and what it errs on. */
#ifndef TRAIN_BINARY_DIAGRAMS_H
#define TRAIN_BINARY_DIAGRAMS_H

#include "train/binary_scores.h"

/* A curve within the unit square. */
typedef struct {
    const char *name;    /* in the legend */
    const double *x, *y; /* [n] */
    int64_t n;
} UnitCurve;

/* The first curve is drawn over the others. diagonal: what guessing would give, dashed. */
bool diagram_unit_curves(const char *path, const UnitCurve *curves, int n, bool diagonal, const char *title,
                         const char *x_label, const char *y_label, Error *error);
/* Histograms of p: cells taken for active, and for inactive, each rightly and wrongly; the four counts. */
bool diagram_outcomes(const char *path, const BinaryRow *rows, int64_t n, const BinaryScores *scores,
                      const char *const *class_names, const char *title, Error *error);

#endif
