/* Reports of two classes that a threshold tells apart, and the parts that they have in common. */
#pragma once

#include "report/evaluation.h"
#include "report/table.h"

/* ---- parts ---- */

/* Adds the columns of all scores, the threshold, the number of rows, called `rows`, and the four outcomes. */
void binary_score_columns(Table *table, const BinaryScores *scores, const char *rows);
/* Fills a row for each score, with its interval. */
void binary_summary(Table *table, const BinaryScores *scores, const Intervals *intervals);
/* Fills the confusion matrix, truth down. */
void binary_confusion_table(Table *table, const BinaryScores *scores, const char *const *class_names);
json_t *binary_confusion_to_json(const BinaryScores *scores); /* [[TN, FP], [FN, TP]] */

/* ---- over all thresholds ---- */

enum { SWEEP_THRESHOLDS = 101, HISTOGRAM_BINS = 50 };

/* Scores of "class 1 if p >= threshold", at thresholds 0.00, 0.01 .. 1.00. */
typedef struct {
    double threshold[SWEEP_THRESHOLDS], accuracy[SWEEP_THRESHOLDS], precision[SWEEP_THRESHOLDS],
        recall[SWEEP_THRESHOLDS], f1[SWEEP_THRESHOLDS]; /* 0 where there is nothing to divide by */
    int best;                                           /* the first with the best F1 */
} Sweep;
void sweep_make(const BinaryRow *rows, int64_t n, Sweep *sweep);

/* Counts of p in bins of equal width from the least p of a class to its greatest; the last bin has its upper end, too.
 * If all are equal, from 0.5 below to 0.5 above. */
typedef struct {
    double low, high; /* NaN: the class has no rows */
    int64_t rows[HISTOGRAM_BINS];
} Histogram;
void histogram_make(const BinaryRow *rows, int64_t n, int label, Histogram *histogram);

/* ---- the report ---- */

/* Reports rows that have one threshold. `tag` names what was evaluated ("test"). Into the directory:
 *   threshold_TAG.json .md     scores at the threshold with intervals, areas below the curves, confusion
 *   threshold_TAG.csv          scores at 101 thresholds, which are also drawn: threshold_TAG.svg
 *   histogram_TAG.csv          p of each class in 50 bins
 *   outcomes_TAG.svg           histograms of p of right and wrong predictions */
bool report_threshold(const BinaryRow *rows, int64_t n, const char *const *class_names, const char *directory,
                      const char *tag, Error *error);
