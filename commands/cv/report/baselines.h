/* Baselines that a network which sees the decay of a cell must beat: they see no decay, or only what confounds it. */
#pragma once

#include "commands/cv/report/tested_fold.h"

enum { LOGISTIC_FEATURES = 3 };

/* Logistic regression: p = sigmoid(bias + sum_k weight[k] (x[k] - mean[k]) / deviation[k]). */
typedef struct {
    int features;
    double mean[LOGISTIC_FEATURES],
        deviation[LOGISTIC_FEATURES]; /* of the cells of the fit, divisor n; 0: the feature is ignored */
    double weight[LOGISTIC_FEATURES], bias;
    int iterations; /* Newton steps */
} Logistic;

/* Minimises the mean cross-entropy + 1e-6 / 2 |weight|^2 by Newton's method. x[n, features]. balanced: both classes
 * have the same total weight; otherwise every cell has the same. An error if labels have one class only, or a value is
 * not finite. */
bool logistic_fit(Logistic *logistic, const double *x, int features, const int32_t *labels, int64_t n, bool balanced,
                  Error *error);
double logistic_logit(const Logistic *logistic, const double *x);

enum {
    BASELINE_ACTIVE,     /* always active: p = 1 */
    BASELINE_INACTIVE,   /* never: p = 0 */
    BASELINE_SHARE,      /* p is the share of active cells in training: the majority class, with a finite loss */
    BASELINE_SIZE,       /* logistic regression on the pixels of the footprint, */
    BASELINE_BRIGHTNESS, /* on ln(1 + photons), */
    BASELINE_ALL,        /* on both and the time bin of most photons */
    BASELINES
};
extern const char *const BASELINE_NAMES[BASELINES]; /* "always active", ..., "size + brightness + peak" */

/* Baselines are fitted on the training cells and scored on the test cells. The threshold of a regression is chosen as
 * that of the network, by the fold's rule on validation cells; it is 0.5 if all of these have the same p, and for the
 * other baselines. */
typedef struct {
    BinaryRow *rows[BASELINES]; /* [test.n] */
    BinaryScores scores[BASELINES];
    Logistic logistic[BASELINES]; /* of the regressions */
} Baselines;

/* test: the rows of the network, whose p, logit and threshold are replaced. After an error there is nothing to free. */
bool baselines_make(const TestedFold *fold, const BinaryRow *test, Baselines *baselines, Error *error);
void baselines_free(Baselines *baselines);

/* Returns the share of active training cells, before any are drawn more often. */
double training_share(const TestedFold *fold);

/* A baseline that is less than this below the network, in balanced accuracy or AUROC, causes a warning. */
static const double BASELINE_MARGIN = 0.05;
/* Returns the warning about a baseline, or NULL. free() */
char *baseline_warning(int baseline, const BinaryScores *of_baseline, const BinaryScores *of_network);
