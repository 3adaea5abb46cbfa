/* What a classifier is judged by: scores of a confusion matrix, ranking curves, calibration, spreads.
 *
 * Everything is computed in double, one row after the other. A row is an example; a class is its place 0 .. classes-1
 * in the list of names, whether or not the rows at hand have it. A function that returns bool fails, naming the row, on
 * a value without a meaning: one that is not finite, a label that is no class. Only the bootstrap and the adaptive bins
 * allocate. */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include "base/base.h"

/* ---- decisions ---- */

/* probabilities[n, classes] = softmax(logits / temperature), temperature > 0; may be done in place. */
bool metrics_softmax(const double *logits, int64_t n, int classes, double temperature, double *probabilities,
                     Error *error);
/* predicted[n]: the class with the largest score[n, classes], the lowest of equals. */
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
    int64_t support, predicted; /* rows that are of this class, rows taken for it */
    MetricsTriple score;
} MetricsClass;

typedef struct {
    int64_t rows;
    double accuracy;
    double balanced_accuracy;         /* mean recall of the classes that the truth has */
    double mcc;                       /* Matthews' correlation, of any number of classes; 0 where undefined */
    MetricsTriple macro, macro_all;   /* mean of the classes in truth or prediction; of all classes */
    MetricsTriple weighted;           /* mean weighted by support */
    int classes_present, classes_all; /* what the two macro means divide by */
} MetricsScores;

/* Fills each[classes] and the averages. An error if the matrix is empty. */
bool metrics_scores(const int64_t *confusion, int classes, const char *const *names, MetricsClass *each,
                    MetricsScores *scores, Error *error);
/* The class of this name, or NULL. */
const MetricsClass *metrics_find(const MetricsClass *each, int classes, const char *name);

/* ---- a binary classifier over all thresholds ---- */

/* What lies at or above a threshold that is some row's score. */
typedef struct {
    double threshold;
    int64_t true_positives, false_positives;
} MetricsPoint;

/* The curve of these scores[n]; truth[n] is 0 or 1 and has both. points has room for n; *count of them are filled, with
 * thresholds strictly descending. ROC: false_positives to true_positives, from (0, 0). */
bool metrics_curve(const double *scores, const int32_t *truth, int64_t n, MetricsPoint *points, int64_t *count,
                   Error *error);

typedef struct {
    double roc_auc;           /* the chance that a positive row is above a negative one, ties half */
    double average_precision; /* precision summed over steps of recall */
    double pr_auc;            /* trapezoids below precision over recall: flatters, but others report it */
} MetricsAreas;

MetricsAreas metrics_areas(const MetricsPoint *points, int64_t count);

typedef enum { METRICS_GOAL_F1, METRICS_GOAL_BALANCED_ACCURACY } MetricsGoal;

/* Of the thresholds k / steps, k = 0 .. steps, the lowest that is best for "positive if score >= threshold". */
double metrics_best_threshold(const MetricsPoint *points, int64_t count, int steps, MetricsGoal goal, double *value);

/* ---- calibration ---- */

enum { METRICS_BINS = 15 };

/* Rows whose confidence (largest probability) is in (bin / METRICS_BINS, (bin + 1) / METRICS_BINS]. */
typedef struct {
    int64_t rows;
    double confidence, accuracy; /* means; 0 in an empty bin */
} MetricsBin;

typedef struct {
    double ece;   /* share of the bin * |accuracy - confidence|, summed */
    double brier; /* squared distance to the truth's unit vector, mean: with two classes twice that of P(1) alone */
    double nll;   /* -ln of the truth's probability, mean; infinite if one is 0 */
    MetricsBin bins[METRICS_BINS];
} MetricsCalibration;

/* Of probabilities[n, classes], n > 0, whose rows sum to 1 as well as bf16 can. */
bool metrics_calibration(const double *probabilities, const int32_t *truth, int64_t n, int classes,
                         MetricsCalibration *out, Error *error);
/* The same error over METRICS_BINS bins of as many rows each, from the least confident up; rows of equal confidence
 * stay in one bin, so that their order does not matter. Bins of equal width leave nearly all rows of a good classifier
 * in the last one. */
bool metrics_adaptive_ece(const double *probabilities, const int32_t *truth, int64_t n, int classes, double *ece,
                          Error *error);
/* The temperature at which softmax(logits / temperature) has the least NLL. An error if there is none: every row is
 * right (it would be 0), or the logits say nothing of the truth (it would be infinite). */
bool metrics_fit_temperature(const double *logits, const int32_t *truth, int64_t n, int classes, double *temperature,
                             Error *error);

/* ---- weights and spreads ---- */

/* Weights in proportion to 1 / count, 1 for a class without rows. The rest sum to their number, or, balanced, weigh the
 * rows 1 on the mean: rows / (classes that have some * count). */
typedef enum { METRICS_WEIGHTS_INVERSE, METRICS_WEIGHTS_BALANCED } MetricsWeights;
void metrics_class_weights(const int64_t *counts, int classes, MetricsWeights rule, double *weights);

/* Standard deviation with divisor n - ddof: 0 of a population, 1 of a sample. An error if that is not positive. */
bool metrics_mean_deviation(const double *values, int64_t n, int ddof, double *mean, double *deviation, Error *error);

void metrics_sort(double *values, int64_t n); /* ascending */
/* Of n > 0 sorted values: what a share of them lies below, interpolated between neighbours. */
double metrics_quantile(const double *sorted, int64_t n, double share);

/* A statistic of the data in which group g is there times[g] times. A group is what is drawn as one: a row, or all rows
 * of a recording, which are no independent witnesses. */
typedef double (*MetricsStatistic)(void *context, const int64_t *times, int64_t groups);

/* The percentile bootstrap: between which values the middle `level` (say 0.95) of the statistic lies, over `resamples`
 * draws of as many groups as there are, with replacement. */
bool metrics_bootstrap(MetricsStatistic statistic, void *context, int64_t groups, int resamples, double level,
                       uint64_t seed, double *low, double *high, Error *error);

#endif
