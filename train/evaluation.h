/* What a classifier said of some rows, and what that comes to. */
#ifndef TRAIN_EVALUATION_H
#define TRAIN_EVALUATION_H

#include "train/metrics.h"

/* Names are plain UTF-8 and outlive what is made of them. A class that no row has keeps its place and its name. */
typedef struct {
    int64_t n;
    int classes;
    const char *const *class_names;
    const double *logits; /* [n, classes] */
    const int32_t *truth; /* [n] */
    const int64_t *ids;   /* [n]: what a row is called */
    const double *snr;    /* [n] dB, within +-1000; or NULL */
    const int32_t *group; /* [n]: 0 .. n_groups - 1, rows that are no independent witnesses; or NULL */
    int n_groups;
    const char *const *group_names;
    const char *group_kind; /* "sensor" */
} Predictions;

/* An error if a name is empty or no UTF-8: "the name of the sensor is ..". */
bool name_check(const char *what, const char *name, Error *error);
/* An error that names the row or the name without a meaning. */
bool predictions_check(const Predictions *predictions, Error *error);

typedef struct {
    int classes;
    double *probabilities; /* [n, classes] */
    int32_t *predicted;    /* [n] */
    int64_t *confusion;    /* [classes, classes], truth down */
    MetricsClass *each;    /* [classes] */
    MetricsScores scores;
    MetricsCalibration calibration;
    double adaptive_ece;
} Evaluation;

/* With probabilities softmax(logits / temperature); or those given, [n, classes]. After an error there is nothing to
 * free. */
bool evaluation_make(const Predictions *predictions, double temperature, Evaluation *evaluation, Error *error);
bool evaluation_of(const Predictions *predictions, const double *probabilities, Evaluation *evaluation, Error *error);
void evaluation_free(Evaluation *evaluation);

enum { INTERVAL_RESAMPLES = 1000 };

/* 95 % intervals by the bootstrap. Drawn are the groups that have rows, or, without groups or with a single one, rows.
 */
typedef struct {
    double accuracy[2], macro_f1[2]; /* low, high */
    int64_t drawn;                   /* how many groups or rows there are */
    const char *unit;                /* "row", or the kind of group */
} Intervals;

bool intervals_make(const Predictions *predictions, const Evaluation *evaluation, Intervals *intervals, Error *error);

#endif
