/* What a network that sees a cell's decay must beat: answers that need no decay, or only what confounds it. */
#ifndef TRAIN_BINARY_BASELINES_H
#define TRAIN_BINARY_BASELINES_H

#include "train/binary_report.h"

enum { LOGISTIC_FEATURES = 3 };

/* Logistic regression: p = sigmoid(bias + sum_k weight[k] (x[k] - mean[k]) / deviation[k]). */
typedef struct {
    int features;
    double mean[LOGISTIC_FEATURES], deviation[LOGISTIC_FEATURES]; /* of the cells of the fit, divisor n; 0: no say */
    double weight[LOGISTIC_FEATURES], bias;
    int iterations; /* Newton steps */
} Logistic;

/* The minimum of the mean cross-entropy + 1e-6 / 2 |weight|^2, by Newton's method. x[n, features]. balanced: both
 * classes weigh the same, together; otherwise every cell does. An error if labels are of one class, or a value is not
 * finite. */
bool logistic_fit(Logistic *logistic, const double *x, int features, const int32_t *labels, int64_t n, bool balanced,
                  Error *error);
double logistic_logit(const Logistic *logistic, const double *x);

enum {
    BASELINE_ACTIVE,     /* always active: p = 1 */
    BASELINE_INACTIVE,   /* never: p = 0 */
    BASELINE_SHARE,      /* p is the share of active cells in training: its majority, but with a loss */
    BASELINE_SIZE,       /* logistic regression on the pixels of the footprint, */
    BASELINE_BRIGHTNESS, /* on ln(1 + photons), */
    BASELINE_ALL,        /* on both and the bin of most photons */
    BINARY_BASELINES
};
extern const char *const BINARY_BASELINE_NAMES[BINARY_BASELINES]; /* "always active", ..., "size + brightness + peak" */

/* Fitted on the fold's training cells, judged on its test cells. A regression has its threshold as the network has it,
 * by the fold's rule from the validation cells; if it says the same of all of these, it and the others have 0.5. */
typedef struct {
    BinaryRow *rows[BINARY_BASELINES]; /* [test.n] */
    BinaryScores scores[BINARY_BASELINES];
    Logistic logistic[BINARY_BASELINES]; /* of the regressions */
} BinaryBaselines;

/* The test cells as the network judged them lend the rest of their rows. After an error there is nothing to free. */
bool binary_baselines(const BinaryFold *fold, const BinaryRow *test, BinaryBaselines *baselines, Error *error);
void binary_baselines_free(BinaryBaselines *baselines);

/* Of active cells, as they are, before any are drawn more often. */
double binary_training_share(const BinaryFold *fold);

/* How near to the network a baseline may come before there is a warning: in balanced accuracy or AUROC. */
static const double BASELINE_MARGIN = 0.05;
/* What must be said of a baseline beside the network's scores, or NULL. free() */
char *baseline_warning(int baseline, const BinaryScores *of_baseline, const BinaryScores *of_network);

#endif
