/* What a classifier of cells into inactive (0) and active (1) comes to, and where it errs. */
#ifndef TRAIN_BINARY_SCORES_H
#define TRAIN_BINARY_SCORES_H

#include "train/metrics.h"

/* A score without a meaning is NaN: areas where the cells are of one class. precision, recall and F1 are of active
 * cells, and 0 where there is nothing to divide by. */
typedef struct {
    int64_t n, confusion[4]; /* TN FP FN TP: truth down, prediction across */
    double threshold;        /* active: p > threshold */
    double accuracy, balanced_accuracy, mcc, precision, recall, specificity, f1;
    double auroc, auprc; /* of p; the second is the average precision */
    double ece, brier;   /* of p; Brier is the mean of (p - label)^2 */
    double loss;         /* binary cross-entropy, the mean over cells */
} BinaryScores;

enum { BINARY_TN, BINARY_FP, BINARY_FN, BINARY_TP, BINARY_OUTCOMES };
extern const char *const BINARY_OUTCOME_NAMES[BINARY_OUTCOMES]; /* "TN" ... */

enum { BINARY_SCORES = 12 };
extern const char *const BINARY_SCORE_NAMES[BINARY_SCORES]; /* as they are in files: "accuracy" ... "loss" */
double binary_score(const BinaryScores *scores, int which);

double binary_sigmoid(double logit);
/* Of the class that p and a threshold say. */
int binary_outcome(int label, double p, double threshold);
/* Of p[n]. The loss is that of logits[n], or, if NULL, of p. An error names a cell whose label or probability has no
 * meaning, or says that there are no cells. */
bool binary_scores(const double *p, const double *logits, const int32_t *labels, int64_t n, double threshold,
                   BinaryScores *scores, MetricsCalibration *calibration /* or NULL */, Error *error);

/* 95 % intervals by the bootstrap: fields of view are drawn, whose cells share background and neighbours; cells, if
 * there is one field only. NaN: some resample has no such score, as it has cells of one class only. */
typedef struct {
    int64_t drawn;
    const char *unit; /* "field", "cell" */
    double low[BINARY_SCORES], high[BINARY_SCORES];
} BinaryIntervals;
enum { BINARY_RESAMPLES = 1000 };
/* fields[n]: 0 .. n_fields - 1. Those scores that calibration is not needed for: up to and with auprc. */
void binary_intervals(const double *p, const int32_t *labels, const int32_t *fields, int n_fields, int64_t n,
                      double threshold, BinaryIntervals *intervals);

/* The mean, spread and quartiles of some values; NaN of none. */
typedef struct {
    int64_t n;
    double mean, deviation /* divisor n */, lower, median, upper;
} BinarySpread;
BinarySpread binary_spread(const double *values, int64_t n);

#endif
