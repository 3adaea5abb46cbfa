/* Predictions of a classifier and their scores: of K classes, and of two by a threshold. */
#pragma once

#include "base/json.h"
#include "report/metrics.h"
#include "report/statistics.h"

/* ---- K classes ---- */

/* A number of each row that its confidence may depend on, such as a signal-to-noise ratio. */
typedef struct {
    const double *values; /* [n] within +-limit; NULL: there is none, and nothing else is read */
    double limit, bin;    /* bin: the width of the bins of tables */
    const char *name;     /* in files: "snr" */
    const char *title;    /* for people: "SNR" */
    const char *unit;     /* "dB" */
} Covariate;

/* Names are plain UTF-8 and outlive what is made of them. A class without rows keeps its index and its name. */
typedef struct {
    int64_t n;
    int classes;
    const char *const *class_names;
    const double *logits;     /* [n, classes] */
    const int32_t *truth;     /* [n] */
    const int64_t *ids;       /* [n] names of the rows */
    const char *const *files; /* [n] the file of each, in which that is its name; or NULL */
    Covariate covariate;
    const int32_t *group; /* [n] 0 .. n_groups - 1: rows that are not independent; or NULL */
    int n_groups;
    const char *const *group_names;
    const char *group_kind; /* "sensor" */
    const char *cause;      /* why the classifier is at chance, if it is (chance_text); or NULL */
} Predictions;

/* Reports a name that is empty or not UTF-8: "the name of a sensor, '..'". */
bool name_check(const char *what, const char *name, Error *error);
/* Reports a row or a name without a meaning. */
bool predictions_check(const Predictions *predictions, Error *error);

typedef struct {
    int classes;
    double *probabilities; /* [n, classes] */
    int32_t *predicted;    /* [n] */
    int64_t *confusion;    /* [classes, classes], truth down */
    MetricsClass *each;    /* [classes] */
    MetricsScores scores;
    MetricsCalibration calibration; /* of the most probable class, whatever is predicted */
    double adaptive_ece;
    double threshold; /* two classes at a threshold; else NaN */
    double roc_auc;   /* of the second of two classes; else NaN, and if a class has no rows */
} Evaluation;

/* Evaluates probabilities softmax(logits / temperature), or those given, [n, classes]; the most probable class is
 * predicted. After an error there is nothing to free. */
bool evaluation_make(const Predictions *predictions, double temperature, Evaluation *evaluation, Error *error);
bool evaluation_of(const Predictions *predictions, const double *probabilities, Evaluation *evaluation, Error *error);
/* The same with softmax(logits) of two classes, of which the second is predicted if its probability is above the
 * threshold. NaN: evaluation_make. */
bool evaluation_at(const Predictions *predictions, double threshold, Evaluation *evaluation, Error *error);
void evaluation_free(Evaluation *evaluation);

/* ---- two classes ---- */

/* An example whose class, 0 or 1, is predicted by a threshold. */
typedef struct {
    int32_t id, label, group;   /* group: 0 .. n_groups - 1, rows that are not independent */
    int32_t fold, at;           /* where it was tested: the fold, and its index there */
    bool kept;                  /* by a filter of the caller */
    double p, logit, threshold; /* class 1 if p > threshold. logit: the loss is computed from it; NaN: from p */
} BinaryRow;

enum { BINARY_TN, BINARY_FP, BINARY_FN, BINARY_TP, BINARY_OUTCOMES };
extern const char *const BINARY_OUTCOME_NAMES[BINARY_OUTCOMES]; /* "TN" ... */
int binary_outcome(const BinaryRow *row);

/* precision, recall and F1 are those of class 1. A score that is undefined is NaN, such as areas where the rows have
 * one class only. */
typedef struct {
    int64_t n, confusion[BINARY_OUTCOMES]; /* truth down, prediction across: TN FP / FN TP */
    double threshold;                      /* NaN: not the same for all */
    double accuracy, balanced_accuracy, mcc, f1;
    double auroc, auprc; /* of p; the second is the average precision */
    double precision, recall, specificity;
    double ece, brier; /* of p; Brier is the mean of (p - label)^2 */
    double loss;       /* mean binary cross-entropy; infinite if a p of 0 or 1 is wrong */
} BinaryScores;

/* The order of scores in tables and files. */
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
    BINARY_INTERVALS, /* the scores above have one */
    BINARY_ECE = BINARY_INTERVALS,
    BINARY_BRIER,
    BINARY_LOSS,
    BINARY_SCORES
};
typedef struct {
    const char *name; /* in files */
    size_t offset;    /* in BinaryScores */
} BinaryMetric;
extern const BinaryMetric BINARY_METRICS[BINARY_SCORES];
double binary_score(const BinaryScores *scores, int which);

/* Scores rows; fills the calibration too, unless it is NULL. An error names a row whose label or probability has no
 * meaning, or says that there are no rows. */
bool binary_scores(const BinaryRow *rows, int64_t n, BinaryScores *scores, MetricsCalibration *calibration,
                   Error *error);

/* Fills *count of the n points of the curve over thresholds of p. False: the rows have one class only. */
bool binary_curve(const BinaryRow *rows, int64_t n, MetricsPoint *points, int64_t *count);
/* Returns the areas below the curves; NaN if the rows have one class only. */
MetricsAreas binary_areas(const BinaryRow *rows, int64_t n);

double binary_sigmoid(double logit);
double binary_loss(double logit, int label); /* -ln of the label's probability, for a logit of any size */

/* ---- intervals ---- */

enum { INTERVAL_ACCURACY, INTERVAL_MACRO_F1 }; /* scores of K classes that have one */

/* 95 % intervals by the bootstrap. What is drawn are the groups that have rows; or rows, without groups or with a
 * single one. */
typedef struct {
    int64_t drawn;    /* how many groups or rows there are */
    const char *unit; /* "row", or the kind of group */
    Interval scores[BINARY_INTERVALS];
} Intervals;

Intervals intervals_make(const Predictions *predictions, const Evaluation *evaluation);
/* The kinds name what is drawn: "field", "cell". An interval is NaN if some resample has rows of one class only, where
 * its score is undefined. */
Intervals binary_intervals(const BinaryRow *rows, int64_t n, int n_groups, const char *group_kind,
                           const char *row_kind);

/* Returns a clause for reports if there are so few of what is drawn that intervals are too narrow; "" otherwise. */
const char *intervals_caution(const Intervals *intervals);

/* ---- JSON of both ---- */

json_t *intervals_to_json(const Intervals *intervals); /* level, resamples and what was drawn */
json_t *reliability_to_json(const MetricsCalibration *calibration);
