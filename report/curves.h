/* ROC and precision-recall curves of two classes: of rows, and their mean over folds. */
#pragma once

#include "report/evaluation.h"

/* Rows whose curve is drawn. */
typedef struct {
    const char *name; /* in the legend */
    const BinaryRow *rows;
    int64_t n;
    const Intervals *intervals; /* of AUROC and average precision, in the legend; NULL: none */
} CurveRows;

/* A classifier's curve: of one set of rows, or of folds, which have a model each. */
typedef struct {
    const CurveRows *curves; /* [n] */
    int n;
    bool folds;              /* the curves are those of folds: their mean is drawn over them, with a band */
    const CurveRows *pooled; /* rows of all folds together: a curve in the table only; NULL: none */
} CurveSet;

/* Writes the picture alone. Leaves out curves whose rows have one class only; writes nothing if none is left. */
bool curves_write_picture(const char *path, bool roc, const CurveSet *set, const char *title, Error *error);
/* Writes BASE.csv and BASE.svg, likewise. The table has the true positive rate over the false positive rate (roc), or
 * precision over recall; the mean over folds at 0, 0.01 .. 1 with the 95 % interval of the bootstrap over folds, which
 * is empty with one fold. */
bool curves_write(const char *base, bool roc, const CurveSet *set, const char *title, Error *error);
