/* The probability above which a cell is taken for active, chosen on validation cells only. */
#ifndef TRAIN_THRESHOLD_H
#define TRAIN_THRESHOLD_H

#include "base/base.h"

typedef enum {
    THRESHOLD_HALF,
    THRESHOLD_F1, /* the best F1, or the best balanced accuracy, on the labels of validation */
    THRESHOLD_BALANCED,
    THRESHOLD_KMEANS, /* the reference's: reads no label, and leans on the share of active cells in training */
    THRESHOLD_RULES
} ThresholdRule;
extern const char *const THRESHOLD_RULE_NAMES[THRESHOLD_RULES]; /* "0.5", "f1", "balanced", "kmeans" */

typedef struct {
    ThresholdRule rule;
    double value;                 /* active: p > value */
    double reached;               /* f1, balanced: on validation; otherwise NaN */
    double low, high;             /* kmeans: the two centres */
    double share, training_share; /* kmeans: of cells in the upper cluster; of active cells in training */
    double base, adjustment;      /* kmeans: value = base - adjustment */
} Threshold;

/* From probabilities p[n] of validation cells and their labels, 0 or 1. training_share: of active cells in training as
 * they are, before any are drawn more often. An error if the rule says nothing: labels of one class, probabilities that
 * are all the same, a share of 0 or 1. */
bool threshold_choose(ThresholdRule rule, const double *p, const int32_t *labels, int64_t n, double training_share,
                      Threshold *threshold, Error *error);
/* What was done, for a person. free() */
char *threshold_text(const Threshold *threshold);

#endif
