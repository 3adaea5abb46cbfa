/* The probability above which a row is predicted to be positive, chosen on validation rows only. */
#pragma once

#include "base/base.h"

typedef enum {
    THRESHOLD_HALF,
    THRESHOLD_F1,       /* the best F1 on validation labels */
    THRESHOLD_BALANCED, /* the best balanced accuracy */
    THRESHOLD_ACCURACY, /* the best accuracy */
    THRESHOLD_KMEANS,   /* between two clusters, shifted by the share of positives in training; reads no label */
    THRESHOLD_RULES
} ThresholdRule;
extern const char *const THRESHOLD_RULE_NAMES[THRESHOLD_RULES]; /* "0.5", "f1", "balanced", "accuracy", "kmeans" */

typedef struct {
    ThresholdRule rule;
    double value;                 /* positive: p > value */
    double reached;               /* f1, balanced, accuracy: on validation; otherwise NaN */
    double low, high;             /* kmeans: the two centres */
    double share, training_share; /* kmeans: of rows in the upper cluster; of positives in training */
    double base, adjustment;      /* kmeans: value = base - adjustment */
} Threshold;

/* Chooses a threshold from probabilities p[n] of validation rows and their labels, 0 or 1. training_share: of positives
 * in training, before any are drawn more often. An error if the rule has no answer: labels of one class, probabilities
 * that are all the same, a share of 0 or 1. */
bool threshold_choose(ThresholdRule rule, const double *p, const int32_t *labels, int64_t n, double training_share,
                      Threshold *threshold, Error *error);
/* Explains the value to a person. training_positives: what they are called, "active training cells". free() */
char *threshold_text(const Threshold *threshold, const char *training_positives);
/* Returns the class of a row by the threshold of two or, if that is NaN, the first of the most probable ones.
 * p[classes]. */
int32_t threshold_decide(double threshold, const double *p, int classes);
