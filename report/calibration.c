/* Newton's method for two small likelihoods. */
#include "report/calibration.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- Newton ---- */

/* Returns the value at at[n]. Adds to gradient[n] and hessian[n, n] (lower triangle), which begin as zeros, unless both
 * are NULL. */
typedef double (*Objective)(void *context, const double *at, double *gradient, double *hessian);

enum { MAX_STEPS = 200, MAX_HALVINGS = 60 };
/* Done when a step is this many standard errors of the parameters long: in the metric of the Hessian, which is the
 * inverse of their covariance. Steps shrink quadratically, so that the remaining error is far smaller. */
static const double STEP_DONE = 1e-8;
/* The relative rounding error of a sum of values: a rise that small does not reject a step. */
static const double VALUE_ROUNDING = 1e-12;

/* a[n, n] = L L' (lower triangles). False: a is not positive definite. */
static bool cholesky(double *a, int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double sum = a[i * n + j];
            for (int k = 0; k < j; k++) sum -= a[i * n + k] * a[j * n + k];
            if (i == j && !(sum > 0)) return false;
            a[i * n + j] = i == j ? sqrt(sum) : sum / a[j * n + j];
        }
    return true;
}

/* x becomes the solution of L L' x = x. */
static void cholesky_solve(const double *l, int n, double *x) {
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++) x[i] -= l[i * n + k] * x[k];
        x[i] /= l[i * n + i];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++) x[i] -= l[k * n + i] * x[k];
        x[i] /= l[i * n + i];
    }
}

/* step = (hessian + damping)^-1 gradient, with the least damping of 0, 1, 10, .. that makes it go downhill: away from a
 * minimum the Hessian may be indefinite. Returns step . gradient, the squared length of the step. */
static double newton_step(const double *gradient, const double *hessian, int n, double *factor, double *step) {
    size_t cells = (size_t)n * (size_t)n;
    double damping = 0, length = 0;
    memcpy(factor, hessian, cells * sizeof *factor);
    while (!cholesky(factor, n) && isfinite(damping)) {
        damping = damping > 0 ? 10 * damping : 1;
        memcpy(factor, hessian, cells * sizeof *factor);
        for (int i = 0; i < n; i++) factor[i * n + i] += damping;
    }
    memcpy(step, gradient, (size_t)n * sizeof *step);
    cholesky_solve(factor, n, step);
    for (int i = 0; i < n; i++) length += step[i] * gradient[i];
    return length;
}

/* Shortens the step by halves until the value falls by a quarter of what its slope promises. */
static bool step_down(Objective objective, void *context, int n, double *at, const double *step, double value,
                      double length, double *trial) {
    double share = 1;
    for (int i = 0; i < MAX_HALVINGS; i++, share /= 2) {
        for (int k = 0; k < n; k++) trial[k] = at[k] - share * step[k];
        double reached = objective(context, trial, NULL, NULL);
        if (reached <= value - share * length / 4 + VALUE_ROUNDING * (1 + fabs(value))) { /* false for a NaN */
            memcpy(at, trial, (size_t)n * sizeof *at);
            return true;
        }
    }
    return false;
}

/* Moves at[n] to the minimum. */
static bool newton(Objective objective, void *context, int n, double *at, int *steps, Error *error) {
    size_t cells = (size_t)n * (size_t)n;
    OWNED double *work = xmalloc((3 * (size_t)n + 2 * cells) * sizeof *work);
    double *gradient = work, *step = gradient + n, *trial = step + n, *hessian = trial + n, *factor = hessian + cells;
    double length = INFINITY;
    bool ok = true;
    for (*steps = 0; ok && length > STEP_DONE * STEP_DONE && *steps < MAX_STEPS; ++*steps) {
        memset(work, 0, (3 * (size_t)n + cells) * sizeof *work);
        double value = objective(context, at, gradient, hessian);
        if (!isfinite(value)) break;
        length = newton_step(gradient, hessian, n, factor, step);
        ok = step_down(objective, context, n, at, step, value, length, trial);
    }
    if (!(length <= STEP_DONE * STEP_DONE))
        return error_set(error,
                         "the fit has not converged after %d Newton steps: the last was %.3g standard errors long",
                         *steps, sqrt(length));
    return true;
}

/* ---- the likelihoods ---- */

/* Computes probabilities[classes] = softmax(scores); returns -ln of the truth's probability. The largest term, 1, is
 * kept out of the sum, so that small terms are not lost. */
static double row_nll(const double *scores, int classes, int truth, double *probabilities) {
    double others = 0;
    int top = 0;
    for (int c = 1; c < classes; c++)
        if (scores[c] > scores[top]) top = c;
    for (int c = 0; c < classes; c++) {
        probabilities[c] = exp(scores[c] - scores[top]);
        if (c != top) others += probabilities[c];
    }
    for (int c = 0; c < classes; c++) probabilities[c] /= 1 + others;
    return log1p(others) + scores[top] - scores[truth];
}

typedef struct {
    const Predictions *predictions;
    const Calibration *calibration;
    double *scores, *probabilities; /* [classes], of one row */
} Likelihood;

static double standardized(const Calibration *c, double value) {
    return c->deviation > 0 ? (fmin(fmax(value, c->low), c->high) - c->mean) / c->deviation : 0;
}

/* Parameters: scale[classes], bias[classes]. With p the softmax of scale z + bias, and q = p - unit vector of the
 * truth: d/dscale_c = q_c z_c, d/dbias_c = q_c; second derivatives (p_c [c = d] - p_c p_d) times (z_c or 1) (z_d or 1).
 */
static double vector_objective(void *context, const double *at, double *gradient, double *hessian) {
    const Likelihood *l = context;
    const Predictions *p = l->predictions;
    int classes = p->classes, n = 2 * classes;
    double value = 0;
    for (int k = 0; k < n; k++) {
        double off = at[k] - (k < classes);
        value += off * off / 2;
        if (gradient) gradient[k] += off, hessian[k * n + k] += 1;
    }
    for (int64_t i = 0; i < p->n; i++) {
        const double *z = p->logits + i * classes;
        for (int c = 0; c < classes; c++) l->scores[c] = at[c] * z[c] + at[classes + c];
        value += row_nll(l->scores, classes, p->truth[i], l->probabilities);
        for (int j = 0; gradient && j < n; j++) {
            int c = j % classes;
            double mine = j < classes ? z[c] : 1, share = l->probabilities[c];
            gradient[j] += (share - (c == p->truth[i])) * mine;
            for (int k = 0; k <= j; k++) {
                int d = k % classes;
                hessian[j * n + k] += ((c == d) - l->probabilities[d]) * share * mine * (k < classes ? z[d] : 1);
            }
        }
    }
    return value;
}

/* Parameters: intercept, slope. With a = 1 / T = exp(-(intercept + slope s)), s the standardised covariate: the NLL of
 * a row has d/da = E[z] - z_truth and d2/da2 = Var[z], so in u = ln T: -a d/da, and a^2 d2/da2 + a d/da. */
static double covariate_objective(void *context, const double *at, double *gradient, double *hessian) {
    const Likelihood *l = context;
    const Predictions *p = l->predictions;
    double value = at[1] * at[1] / 2;
    if (gradient) gradient[1] += at[1], hessian[3] += 1;
    for (int64_t i = 0; i < p->n; i++) {
        const double *z = p->logits + i * p->classes;
        double s = standardized(l->calibration, p->covariate.values[i]), a = exp(-(at[0] + at[1] * s)), mean = 0,
               variance = 0;
        for (int c = 0; c < p->classes; c++) l->scores[c] = a * z[c];
        value += row_nll(l->scores, p->classes, p->truth[i], l->probabilities);
        if (!gradient) continue;
        for (int c = 0; c < p->classes; c++) mean += l->probabilities[c] * l->scores[c];
        for (int c = 0; c < p->classes; c++)
            variance += l->probabilities[c] * (l->scores[c] - mean) * (l->scores[c] - mean);
        double slope = l->scores[p->truth[i]] - mean, curvature = variance - slope;
        gradient[0] += slope;
        gradient[1] += slope * s;
        hessian[0] += curvature;
        hessian[2] += curvature * s;
        hessian[3] += curvature * s * s;
    }
    return value;
}

/* ---- the three maps ---- */

static bool fit_vector(Calibration *c, Likelihood *likelihood, Error *error) {
    int classes = c->classes;
    double *at = xcalloc(2 * (size_t)classes, sizeof *at);
    for (int k = 0; k < classes; k++) at[k] = 1 / c->temperature;
    bool ok = newton(vector_objective, likelihood, 2 * classes, at, &c->iterations, error);
    if (ok) {
        c->scale = at;
        c->bias = at + classes;
    } else {
        free(at);
    }
    return ok;
}

static bool covariate_check(const Predictions *p, Error *error) {
    return p->covariate.values || error_set(error, "a temperature by a covariate needs one: the rows have none");
}

static bool fit_covariate(Calibration *c, Likelihood *likelihood, Error *error) {
    const Predictions *p = likelihood->predictions;
    const double *values = p->covariate.values;
    if (!covariate_check(p, error)) return false;
    c->low = INFINITY, c->high = -INFINITY;
    for (int64_t i = 0; i < p->n; i++) {
        c->low = fmin(c->low, values[i]);
        c->high = fmax(c->high, values[i]);
    }
    if (!statistics_deviation(values, p->n, 0, &c->mean, &c->deviation, error)) return false;
    if (c->low == c->high) c->deviation = 0; /* the mean of equal values may be rounded */
    double at[2] = {log(c->temperature), 0};
    if (!newton(covariate_objective, likelihood, 2, at, &c->iterations, error)) return false;
    c->intercept = at[0];
    c->slope = at[1];
    return true;
}

bool calibration_fit(Calibration *c, CalibrationKind kind, const Predictions *p, Error *error) {
    *c = (Calibration){.kind = kind, .classes = p->classes};
    if (!predictions_check(p, error)) return false;
    if (!metrics_fit_temperature(p->logits, p->truth, p->n, p->classes, &c->temperature, error)) return false;
    if (kind == CALIBRATION_TEMPERATURE) return true;
    Likelihood likelihood = {.predictions = p, .calibration = c};
    likelihood.scores = xmalloc(2 * (size_t)p->classes * sizeof(double));
    likelihood.probabilities = likelihood.scores + p->classes;
    bool ok = kind == CALIBRATION_VECTOR ? fit_vector(c, &likelihood, error) : fit_covariate(c, &likelihood, error);
    free(likelihood.scores);
    return ok;
}

double calibration_temperature(const Calibration *c, double value) {
    return exp(c->intercept + c->slope * standardized(c, value));
}

bool calibration_apply(const Calibration *c, const Predictions *p, double *probabilities, Error *error) {
    int classes = p->classes;
    if (classes != c->classes)
        return error_set(error, "a calibration of %d classes is none of %d", c->classes, classes);
    if (c->kind == CALIBRATION_COVARIATE && !covariate_check(p, error)) return false;
    if (c->kind == CALIBRATION_TEMPERATURE)
        return metrics_softmax(p->logits, p->n, classes, c->temperature, probabilities, error);
    for (int64_t i = 0; i < p->n; i++)
        for (int k = 0; k < classes; k++) {
            double z = p->logits[i * classes + k];
            probabilities[i * classes + k] = c->kind == CALIBRATION_VECTOR
                                                 ? c->scale[k] * z + c->bias[k]
                                                 : z / calibration_temperature(c, p->covariate.values[i]);
        }
    return metrics_softmax(probabilities, p->n, classes, 1, probabilities, error);
}

void calibration_free(Calibration *c) {
    free(c->scale);
    *c = (Calibration){0};
}

/* ---- JSON ---- */

const char *const CALIBRATION_NAMES[CALIBRATION_KINDS] = {"temperature", "vector", "covariate"};

/* The numbers of a temperature by a covariate. */
static const struct {
    const char *name;
    size_t offset;
} numbers[] = {{"intercept", offsetof(Calibration, intercept)},
               {"slope", offsetof(Calibration, slope)},
               {"mean", offsetof(Calibration, mean)},
               {"deviation", offsetof(Calibration, deviation)},
               {"low", offsetof(Calibration, low)},
               {"high", offsetof(Calibration, high)}};

json_t *calibration_to_json(const Calibration *c) {
    json_t *root =
        json_build("the calibration", "{s:s, s:f}", "kind", CALIBRATION_NAMES[c->kind], "temperature", c->temperature);
    json_auto_t *scale = json_array(), *bias = json_array();
    for (int k = 0; k < c->classes && c->kind == CALIBRATION_VECTOR; k++) {
        json_array_append_new(scale, json_real(c->scale[k]));
        json_array_append_new(bias, json_real(c->bias[k]));
    }
    if (c->kind == CALIBRATION_VECTOR) json_object_set(root, "scale", scale), json_object_set(root, "bias", bias);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && c->kind == CALIBRATION_COVARIATE; i++)
        json_object_set_new(root, numbers[i].name, json_real(*(const double *)((const char *)c + numbers[i].offset)));
    return root;
}

static bool take_number(const json_t *value, const char *name, double *out, Error *error) {
    if (!json_is_number(value)) return json_refuse(error, name, "a number", value);
    *out = json_number_value(value);
    return true;
}

bool calibration_from_json(const json_t *json, int classes, Calibration *c, Error *error) {
    const char *kind = json_string_value(json_object_get(json, "kind"));
    *c = (Calibration){.kind = CALIBRATION_KINDS, .classes = classes};
    for (int k = 0; kind && k < CALIBRATION_KINDS; k++)
        if (!strcmp(kind, CALIBRATION_NAMES[k])) c->kind = (CalibrationKind)k;
    if (c->kind == CALIBRATION_KINDS)
        return json_refuse(error, "kind", "temperature, vector or covariate", json_object_get(json, "kind"));
    bool ok = take_number(json_object_get(json, "temperature"), "temperature", &c->temperature, error) &&
              (c->temperature > 0 || error_set(error, "\"temperature\" is %g", c->temperature));
    if (c->kind == CALIBRATION_VECTOR) {
        c->scale = xcalloc(2 * (size_t)classes, sizeof *c->scale);
        c->bias = c->scale + classes;
    }
    for (int bias = 0; ok && c->scale && bias < 2; bias++) {
        const char *name = bias ? "bias" : "scale";
        size_t n = json_array_size(json_object_get(json, name));
        ok = n == (size_t)classes ||
             error_set(error, "\"%s\" has %zu numbers, and there are %d classes", name, n, classes);
    }
    for (size_t k = 0; ok && c->scale && k < (size_t)classes; k++)
        ok = take_number(json_array_get(json_object_get(json, "scale"), k), "scale", &c->scale[k], error) &&
             take_number(json_array_get(json_object_get(json, "bias"), k), "bias", &c->bias[k], error);
    for (size_t i = 0; ok && c->kind == CALIBRATION_COVARIATE && i < sizeof numbers / sizeof *numbers; i++)
        ok = take_number(json_object_get(json, numbers[i].name), numbers[i].name,
                         (double *)(void *)((char *)c + numbers[i].offset), error);
    if (ok && c->kind == CALIBRATION_COVARIATE && !(c->deviation >= 0 && c->low <= c->high))
        ok = error_set(error, "\"deviation\" is below 0, or \"low\" above \"high\"");
    if (!ok) calibration_free(c);
    return ok;
}
