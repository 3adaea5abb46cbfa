/* What a classifier of cells into inactive (0) and active (1) comes to. */
#ifndef TRAIN_BINARY_SCORES_H
#define TRAIN_BINARY_SCORES_H

#include "train/metrics.h"

/* One cell that was judged. */
typedef struct {
    int32_t id, label, field;   /* field: of view, 0 .. n_fields - 1 */
    int32_t fold, at;           /* of which fold, and which of its test cells */
    bool kept;                  /* by the filter of training cells */
    double p, logit, threshold; /* active: p > threshold. logit: what the loss is of; NaN: of p */
} BinaryRow;

enum { BINARY_TN, BINARY_FP, BINARY_FN, BINARY_TP, BINARY_OUTCOMES };
extern const char *const BINARY_OUTCOME_NAMES[BINARY_OUTCOMES]; /* "TN" ... */
int binary_outcome(const BinaryRow *row);

/* A score without a meaning is NaN: areas where the cells are of one class. precision, recall and F1 are of active
 * cells, and 0 where there is nothing to divide by. */
typedef struct {
    int64_t n, confusion[BINARY_OUTCOMES]; /* truth down, prediction across: TN FP / FN TP */
    double threshold;                      /* NaN: not the same for all */
    double accuracy, balanced_accuracy, mcc, f1;
    double auroc, auprc; /* of p; the second is the average precision */
    double precision, recall, specificity;
    double ece, brier; /* of p; Brier is the mean of (p - label)^2 */
    double loss;       /* binary cross-entropy, the mean over cells; infinite if a p of 0 or 1 is wrong */
} BinaryScores;

/* Places of scores in tables and files. */
enum {
    BINARY_ACCURACY,
    BINARY_BALANCED_ACCURACY,
    BINARY_MCC,
    BINARY_F1,
    BINARY_AUROC,
    BINARY_AUPRC,
    BINARY_PRECISION,
    BINARY_RECALL,
    BINARY_SPECIFICITY,
    BINARY_INTERVALS, /* those above have one */
    BINARY_ECE = BINARY_INTERVALS,
    BINARY_BRIER,
    BINARY_LOSS,
    BINARY_SCORES
};
extern const char *const BINARY_SCORE_NAMES[BINARY_SCORES]; /* as they are in files */
double binary_score(const BinaryScores *scores, int which);

/* calibration: filled too, unless NULL. An error names a cell whose label or probability has no meaning, or says that
 * there are no cells. */
bool binary_scores(const BinaryRow *rows, int64_t n, BinaryScores *scores, MetricsCalibration *calibration,
                   Error *error);

/* 95 % intervals of the first scores by the bootstrap: fields of view are drawn, whose cells share background and
 * neighbours; cells, if there is one field only. NaN: some resample has no such score, having cells of one class only.
 */
typedef struct {
    int64_t drawn;
    const char *unit; /* "field", "cell" */
    double low[BINARY_INTERVALS], high[BINARY_INTERVALS];
} BinaryIntervals;
enum { BINARY_RESAMPLES = 1000 };
BinaryIntervals binary_intervals(const BinaryRow *rows, int64_t n, int n_fields);

/* The mean, spread and quartiles of some values; NaN of none. */
typedef struct {
    int64_t n;
    double mean, deviation /* divisor n */, lower, median, upper;
} BinarySpread;
BinarySpread binary_spread(const double *values, int64_t n);

double binary_sigmoid(double logit);
double binary_loss(double logit, int label); /* -ln of the label's probability, of a logit of any size */

#endif
