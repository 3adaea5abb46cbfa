/* Metrics of classifiers as formulas over arrays: scores of a confusion matrix, ranking curves, calibration.
 *
 * Everything is computed in double, one row after the other. A row is an example; a class is its index 0 .. classes-1
 * in the list of names, whether or not a row has it. A function that returns bool fails, naming the row, on a value
 * that is not finite or a label that is no class. Only the adaptive bins allocate memory. */
#pragma once

#include "base/base.h"

/* ---- decisions ---- */

/* Computes probabilities[n, classes] = softmax(logits / temperature), temperature > 0, in place if both are the same.
 */
bool metrics_softmax(const double *logits, int64_t n, int classes, double temperature, double *probabilities,
                     Error *error);
/* Computes probabilities[n, classes] = 1 / (1 + exp(-logit)), each class by itself. */
bool metrics_sigmoid(const double *logits, int64_t n, int classes, double *probabilities, Error *error);
/* Fills predicted[n] with the class of the largest score[n, classes], the lowest of equals. */
bool metrics_predict(const double *scores, int64_t n, int classes, int32_t *predicted, Error *error);

/* ---- scores of a confusion matrix ---- */

/* Adds n rows to confusion[classes, classes] (truth down, prediction across), or none of them if one is refused. */
bool metrics_confusion_add(int64_t *confusion, int classes, const int32_t *truth, const int32_t *predicted, int64_t n,
                           Error *error);

typedef struct {
    double precision, recall, f1; /* 0 where there is nothing to divide by */
} MetricsTriple;

typedef struct {
    const char *name;
    int64_t support, predicted; /* rows of this class; rows that are predicted to be */
    MetricsTriple score;
} MetricsClass;

typedef struct {
    int64_t rows;
    double accuracy;
    double balanced_accuracy;        /* mean recall of the classes that the truth has */
    double mcc;                      /* Matthews' correlation, of any number of classes; 0 where undefined */
    MetricsTriple macro, macro_all;  /* mean of the classes in truth or prediction; of all classes */
    MetricsTriple weighted;          /* mean weighted by support */
    int classes_present;             /* that the truth has */
    int classes_scored, classes_all; /* what the two macro means divide by */
} MetricsScores;

/* Fills each[classes] and the averages. An error if the matrix is empty. */
bool metrics_scores(const int64_t *confusion, int classes, const char *const *names, MetricsClass *each,
                    MetricsScores *scores, Error *error);
/* ---- a binary classifier over all thresholds ---- */

/* The rows at or above a threshold, which is the score of some row. */
typedef struct {
    double threshold;
    int64_t true_positives, false_positives;
} MetricsPoint;

/* Fills *count of the n points, with thresholds strictly descending. An error unless truth[n] has both 0 and 1.
 * The ROC curve goes from (0, 0) through (false_positives, true_positives). */
bool metrics_curve(const double *scores, const int32_t *truth, int64_t n, MetricsPoint *points, int64_t *count,
                   Error *error);

typedef struct {
    double roc_auc;           /* the chance that a positive row is above a negative one, ties half */
    double average_precision; /* precision summed over steps of recall */
    double pr_auc;            /* trapezoids below precision over recall: too high, but others report it */
} MetricsAreas;

MetricsAreas metrics_areas(const MetricsPoint *points, int64_t count);

/* ---- calibration ---- */

enum { METRICS_BINS = 15 };

/* Rows whose confidence (largest probability) is in (bin / METRICS_BINS, (bin + 1) / METRICS_BINS]. */
typedef struct {
    int64_t rows;
    double confidence, accuracy; /* means; 0 in an empty bin */
} MetricsBin;

typedef struct {
    double ece;   /* sum over bins of share of rows * |accuracy - confidence| */
    double brier; /* mean squared distance to the truth's unit vector: with two classes twice that of P(1) alone */
    double nll;   /* -ln of the truth's probability, mean; infinite if one is 0 */
    MetricsBin bins[METRICS_BINS];
} MetricsCalibration;

/* Measures probabilities[n, classes], n > 0, whose rows sum to 1 to the precision of bf16. */
bool metrics_calibration(const double *probabilities, const int32_t *truth, int64_t n, int classes,
                         MetricsCalibration *out, Error *error);
/* Computes ECE over METRICS_BINS bins of as many rows each, from the least confident up. Rows of equal confidence stay
 * in one bin, so that their order does not matter. In bins of equal width nearly all rows of a good classifier are in
 * the last one. */
bool metrics_adaptive_ece(const double *probabilities, const int32_t *truth, int64_t n, int classes, double *ece,
                          Error *error);
/* Finds the temperature at which softmax(logits / temperature) has the least NLL. An error if there is none: every row
 * is right (it would be 0), or the logits do not favour the truth (it would be infinite). */
bool metrics_fit_temperature(const double *logits, const int32_t *truth, int64_t n, int classes, double *temperature,
                             Error *error);

/* ---- weights ---- */

/* Fills weights[classes] in proportion to 1 / count; 1 for a class without rows. The others sum to their number, or,
 * balanced, average 1 over the rows: rows / (classes with rows * count). */
typedef enum { METRICS_WEIGHTS_INVERSE, METRICS_WEIGHTS_BALANCED } MetricsWeights;
void metrics_class_weights(const int64_t *counts, int classes, MetricsWeights rule, double *weights);
