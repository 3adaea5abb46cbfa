/* ROC and precision-recall curves of two classes: of rows, and their mean over folds. */
#ifndef REPORT_CURVES_H
#define REPORT_CURVES_H

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

/* The mean of curves at x = 0, 0.01 .. 1. */
enum { CURVE_GRID = 101 };
typedef struct {
    double x[CURVE_GRID], y[CURVE_GRID];
    double low[CURVE_GRID], high[CURVE_GRID]; /* the 95 % interval of the mean by the bootstrap over folds */
} CurveMean;
/* Computes the mean true positive rate over the false positive rate (roc), or the mean precision over recall. Leaves
 * out folds whose rows have one class only. Returns the number of folds that are left: 0, nothing is filled; 1, the
 * interval is NaN. */
int curves_mean(const CurveRows *folds, int n, bool roc, CurveMean *mean);
/* Writes the picture alone. Writes nothing if all rows of each curve have one class. */
bool curves_write_picture(const char *path, bool roc, const CurveSet *set, const char *title, Error *error);
/* Writes BASE.csv and BASE.svg. Writes nothing if all rows of each curve have one class. */
bool curves_write(const char *base, bool roc, const CurveSet *set, const char *title, Error *error);

#endif
