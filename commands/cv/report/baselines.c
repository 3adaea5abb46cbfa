/* Baselines of a fold. */
#include "commands/cv/report/baselines.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UNKNOWNS = LOGISTIC_FEATURES + 1, MAX_STEPS = 100, MAX_HALVINGS = 40 };
static const double DECAY = 1e-6;     /* keeps weights finite where a threshold separates the classes */
static const double LAST_STEP = 1e-6; /* of any unknown: the remaining error is about its square */

const char *const BASELINE_NAMES[BASELINES] = {"always active", "always quiescent", "training share",
                                               "size",          "brightness",       "size + brightness + peak"};

/* ---- logistic regression ---- */

/* z[n, UNKNOWNS]: the standardised features, zeros, and 1 in the last place, whose weight is the bias. */
typedef struct {
    const double *z;
    const int32_t *labels;
    double weight[2]; /* of a cell of each class; all of them sum to 1 */
    int64_t n;
} Problem;

/* Returns the objective at w; fills its gradient g and Hessian h, unless NULL. */
static double objective(const Problem *p, const double *w, double *g, double (*h)[UNKNOWNS]) {
    double value = 0;
    for (int k = 0; k < LOGISTIC_FEATURES; k++) value += DECAY / 2 * w[k] * w[k];
    for (int k = 0; k < UNKNOWNS && g; k++) {
        g[k] = k < LOGISTIC_FEATURES ? DECAY * w[k] : 0;
        for (int j = 0; j < UNKNOWNS; j++) h[k][j] = k == j && k < LOGISTIC_FEATURES ? DECAY : 0;
    }
    for (int64_t i = 0; i < p->n; i++) {
        const double *z = p->z + i * UNKNOWNS;
        double logit = 0, share = p->weight[p->labels[i]];
        for (int k = 0; k < UNKNOWNS; k++) logit += w[k] * z[k];
        value += share * binary_loss(logit, p->labels[i]);
        if (!g) continue;
        double active = binary_sigmoid(logit);
        for (int k = 0; k < UNKNOWNS; k++) {
            g[k] += share * (active - p->labels[i]) * z[k];
            for (int j = 0; j < UNKNOWNS; j++) h[k][j] += share * active * (1 - active) * z[k] * z[j];
        }
    }
    return value;
}

/* step = h^-1 g by elimination, without pivoting, as h is positive definite. Overwrites both. */
static void solve(double (*h)[UNKNOWNS], double *g, double *step) {
    for (int k = 0; k < UNKNOWNS; k++)
        for (int i = k + 1; i < UNKNOWNS; i++) {
            double factor = h[i][k] / h[k][k];
            for (int j = k; j < UNKNOWNS; j++) h[i][j] -= factor * h[k][j];
            g[i] -= factor * g[k];
        }
    for (int k = UNKNOWNS - 1; k >= 0; k--) {
        step[k] = g[k];
        for (int j = k + 1; j < UNKNOWNS; j++) step[k] -= h[k][j] * step[j];
        step[k] /= h[k][k];
    }
}

/* Takes a step, halved until the objective does not rise. Returns false for the last, whose gain is lost in rounding.
 */
static bool newton_step(const Problem *p, double *w) {
    double g[UNKNOWNS], h[UNKNOWNS][UNKNOWNS], step[UNKNOWNS], next[UNKNOWNS], largest = 0, scale = 1;
    double before = objective(p, w, g, h);
    solve(h, g, step);
    for (int k = 0; k < UNKNOWNS; k++) largest = fmax(largest, fabs(step[k]));
    for (int halvings = 0; halvings < MAX_HALVINGS; halvings++, scale /= 2) {
        for (int k = 0; k < UNKNOWNS; k++) next[k] = w[k] - scale * step[k];
        if (largest <= LAST_STEP || objective(p, next, NULL, NULL) <= before) break;
    }
    memcpy(w, next, sizeof next);
    return largest > LAST_STEP;
}

static bool standardise(Logistic *l, const double *x, int64_t n, double *z, Error *error) {
    OWNED double *column = xmalloc((size_t)n * sizeof *column);
    bool ok = true;
    for (int k = 0; k < l->features && ok; k++) {
        for (int64_t i = 0; i < n; i++) column[i] = x[i * l->features + k];
        ok = statistics_deviation(column, n, 0, &l->mean[k], &l->deviation[k], error);
        for (int64_t i = 0; i < n && ok; i++)
            z[i * UNKNOWNS + k] = l->deviation[k] > 0 ? (column[i] - l->mean[k]) / l->deviation[k] : 0;
    }
    return ok;
}

bool logistic_fit(Logistic *l, const double *x, int features, const int32_t *labels, int64_t n, bool balanced,
                  Error *error) {
    int64_t active = 0;
    for (int64_t i = 0; i < n; i++) active += labels[i];
    if (active == 0 || active == n)
        return error_set(error, "a regression needs cells of both classes: %lld of the %lld are active",
                         (long long)active, (long long)n);
    *l = (Logistic){.features = features};
    double *z = xcalloc((size_t)n * UNKNOWNS, sizeof *z), w[UNKNOWNS] = {0}, all = 1 / (double)n;
    Problem problem = {z, labels, {all, all}, n};
    if (balanced) problem.weight[0] = 0.5 / (double)(n - active), problem.weight[1] = 0.5 / (double)active;
    for (int64_t i = 0; i < n; i++) z[i * UNKNOWNS + LOGISTIC_FEATURES] = 1;
    bool ok = standardise(l, x, n, z, error);
    for (bool more = ok; more; l->iterations++) {
        more = newton_step(&problem, w);
        if (!more || l->iterations < MAX_STEPS) continue;
        ok = more = error_set(error, "a logistic regression has not ended after %d steps", MAX_STEPS);
    }
    memcpy(l->weight, w, sizeof l->weight);
    l->bias = w[LOGISTIC_FEATURES];
    free(z);
    return ok;
}

double logistic_logit(const Logistic *l, const double *x) {
    assert(l->features <= LOGISTIC_FEATURES);
    double logit = l->bias;
    for (int k = 0; k < l->features; k++)
        if (l->deviation[k] > 0) logit += l->weight[k] * (x[k] - l->mean[k]) / l->deviation[k];
    return logit;
}

/* ---- baselines ---- */

/* Fills the features of a regression for a cell; returns how many they are. */
static int features_of(int baseline, const CvCells *c, int32_t id, double *x) {
    double size = c->sizes[id], brightness = log1p(c->photons[id]);
    x[0] = baseline == BASELINE_BRIGHTNESS ? brightness : size;
    x[1] = brightness;
    x[2] = c->peaks[id];
    return baseline == BASELINE_ALL ? 3 : 1;
}

static bool fit(const TestedFold *fold, int baseline, Logistic *logistic, Error *error) {
    double *x = xmalloc(((size_t)fold->n_train + 1) * LOGISTIC_FEATURES * sizeof *x), of_cell[LOGISTIC_FEATURES];
    OWNED int32_t *labels = xmalloc(((size_t)fold->n_train + 1) * sizeof *labels);
    int features = 0;
    for (int64_t i = 0; i < fold->n_train; i++) {
        features = features_of(baseline, fold->cells, fold->train[i], of_cell);
        memcpy(x + i * features, of_cell, (size_t)features * sizeof *x);
        labels[i] = fold->cells->labels[fold->train[i]];
    }
    bool ok = logistic_fit(logistic, x, features, labels, fold->n_train, fold->balanced, error);
    free(x);
    return ok;
}

static double logit_of(const Logistic *logistic, int baseline, const CvCells *cells, int32_t id) {
    double x[LOGISTIC_FEATURES];
    features_of(baseline, cells, id, x);
    return logistic_logit(logistic, x);
}

double training_share(const TestedFold *fold) {
    double active = 0;
    for (int64_t i = 0; i < fold->n_train; i++) active += fold->cells->labels[fold->train[i]];
    return active / (double)fold->n_train;
}

/* Chooses by the fold's rule from the predictions of the regression for validation cells. */
static bool choose(const TestedFold *fold, int baseline, const Logistic *logistic, double *threshold, Error *error) {
    const CellPredictions *v = &fold->validation;
    OWNED double *p = xmalloc(((size_t)v->n + 1) * sizeof *p);
    OWNED int32_t *labels = xmalloc(((size_t)v->n + 1) * sizeof *labels);
    bool differ = false;
    for (int64_t i = 0; i < v->n; i++) {
        p[i] = binary_sigmoid(logit_of(logistic, baseline, fold->cells, v->ids[i]));
        labels[i] = fold->cells->labels[v->ids[i]];
        differ |= p[i] != p[0];
    }
    Threshold chosen = {.value = 0.5};
    bool ok = !differ || threshold_choose(fold->rule, p, labels, v->n, training_share(fold), &chosen, error);
    *threshold = chosen.value;
    return ok;
}

static bool score(const TestedFold *fold, int baseline, Baselines *b, Error *error) {
    bool regression = baseline >= BASELINE_SIZE;
    double threshold = 0.5, share = baseline == BASELINE_SHARE ? training_share(fold) : baseline == BASELINE_ACTIVE;
    Logistic *logistic = &b->logistic[baseline];
    BinaryRow *rows = b->rows[baseline];
    if (regression && !(fit(fold, baseline, logistic, error) && choose(fold, baseline, logistic, &threshold, error)))
        return false;
    for (int64_t i = 0; i < fold->test.n; i++) {
        rows[i].logit = regression ? logit_of(logistic, baseline, fold->cells, rows[i].id) : (double)NAN;
        rows[i].p = regression ? binary_sigmoid(rows[i].logit) : share;
        rows[i].threshold = threshold;
    }
    return binary_scores(rows, fold->test.n, &b->scores[baseline], NULL, error);
}

bool baselines_make(const TestedFold *fold, const BinaryRow *test, Baselines *b, Error *error) {
    *b = (Baselines){0};
    for (int k = 0; k < BASELINES; k++) {
        b->rows[k] = xmalloc(((size_t)fold->test.n + 1) * sizeof **b->rows);
        memcpy(b->rows[k], test, (size_t)fold->test.n * sizeof **b->rows);
        if (score(fold, k, b, error)) continue;
        baselines_free(b);
        return error_before(error, "baseline '%s': ", BASELINE_NAMES[k]);
    }
    return true;
}

void baselines_free(Baselines *b) {
    for (int k = 0; k < BASELINES; k++) free(b->rows[k]);
    *b = (Baselines){0};
}

char *baseline_warning(int baseline, const BinaryScores *b, const BinaryScores *network) {
    double accuracy = network->balanced_accuracy - b->balanced_accuracy, area = network->auroc - b->auroc;
    if (!(accuracy < BASELINE_MARGIN || area < BASELINE_MARGIN)) return NULL;
    return xformat("'%s' has balanced accuracy %.4f and AUROC %.4f, the network %.4f and %.4f: %s",
                   BASELINE_NAMES[baseline], b->balanced_accuracy, b->auroc, network->balanced_accuracy, network->auroc,
                   accuracy <= 0 || area <= 0 ? "the network has not beaten it"
                   : baseline < BASELINE_SIZE ? "the network has learnt little"
                                              : "the network may have learnt little else");
}
