/* ROC and precision-recall curves of two classes: of rows, and their mean over folds. */
#ifndef REPORT_CURVES_H
#define REPORT_CURVES_H

#include "report/evaluation.h"

/* Rows whose curve is drawn. */
typedef struct {
    const char *name; /* in the legend */
    const BinaryRow *rows;
    int64_t n;
    Interval auroc, auprc; /* in the legend; NaN: none */
} CurveRows;

/* A classifier's curve: of one set of rows, or of folds, which have a model each. */
typedef struct {
    const CurveRows *curves; /* [n]; the first is drawn over the others */
    int n;
    bool folds;              /* the curves are those of folds: their mean is drawn over them, with a band */
    const CurveRows *pooled; /* rows of all folds together: a curve in the table only; NULL: none */
} CurveSet;

/* The points of the grid 0, 0.01 .. 1 at which curves of folds are averaged. */
enum { CURVE_GRID = 101 };
/* Computes the mean over folds at each grid point, and the 95 % interval of the mean by the bootstrap over folds (NaN
 * for one fold): of the true positive rate over the false positive rate (roc), or of precision over recall. Leaves out
 * folds whose rows have one class only. Returns the number of folds that are left; 0: nothing is filled. */
int curves_mean(const CurveRows *folds, int n, bool roc, double mean[CURVE_GRID], double low[CURVE_GRID],
                double high[CURVE_GRID]);
/* Writes BASE.csv and BASE.svg. Writes nothing if all rows of each curve have one class. */
bool curves_write(const char *base, bool roc, const CurveSet *set, const char *title, Error *error);

#endif
