/* What a network that sees a cell's decay must beat: answers that need no decay, or only what confounds it. */
#ifndef TRAIN_BINARY_BASELINES_H
#define TRAIN_BINARY_BASELINES_H

#include "train/binary_report.h"

enum { LOGISTIC_FEATURES = 3 };
static const double LOGISTIC_DECAY = 1e-6;

/* Logistic regression: p = sigmoid(bias + sum_k weight[k] (x[k] - mean[k]) / deviation[k]). */
typedef struct {
    int features;
    double mean[LOGISTIC_FEATURES], deviation[LOGISTIC_FEATURES]; /* of the training cells, divisor n; 0: has no say */
    double weight[LOGISTIC_FEATURES], bias;
    int iterations;
} Logistic;

/* The minimum of the mean cross-entropy + LOGISTIC_DECAY / 2 |weight|^2, by Newton's method. x[n, features]. balanced:
 * both classes weigh the same, together; otherwise every cell does. An error if labels are of one class, or a value is
 * not finite. */
bool logistic_fit(Logistic *logistic, const double *x, int features, const int32_t *labels, int64_t n, bool balanced,
                  Error *error);
double logistic_logit(const Logistic *logistic, const double *x);

enum {
    BASELINE_ACTIVE,     /* always active: p = 1 */
    BASELINE_INACTIVE,   /* never: p = 0 */
    BASELINE_SHARE,      /* p is the share of active cells in training: decides for its majority, and has a loss */
    BASELINE_SIZE,       /* logistic regressions on pixels of the footprint, on ln(1 + photons), and on both and the */
    BASELINE_BRIGHTNESS, /* bin of most photons */
    BASELINE_ALL,
    BINARY_BASELINES
};
extern const char *const BINARY_BASELINE_NAMES[BINARY_BASELINES]; /* "always active", ..., "size + brightness + peak" */

/* Fitted on the fold's training cells, judged on its test cells. Regressions choose their threshold as the network
 * does, by the fold's rule on the validation cells; those that say the same of all of these, and the others, have 0.5.
 */
typedef struct {
    BinaryScores scores[BINARY_BASELINES];
    Logistic logistic[BINARY_BASELINES]; /* of the regressions */
    double *p;                           /* [BINARY_BASELINES, n] of the test cells */
} BinaryBaselines;
bool binary_baselines(const BinaryFold *fold, BinaryBaselines *baselines, Error *error);
void binary_baselines_free(BinaryBaselines *baselines);

/* How near to the network a baseline may come before a warning: in balanced accuracy or AUROC. */
static const double BASELINE_MARGIN = 0.05;
/* What is to be said of a baseline beside the network's scores, or NULL. free() */
char *baseline_warning(int baseline, const BinaryScores *of_baseline, const BinaryScores *of_network);

#endif
