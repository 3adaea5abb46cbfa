/* Limited-memory BFGS (Nocedal 1980) with backtracking. The objective is convex and smooth, so that any way down that
 * ends at a zero gradient ends at the minimum. */
#include "report/sparse_logistic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void sparse_logistic_free(SparseLogistic *model) {
    free(model->weights);
    *model = (SparseLogistic){.classes = 0};
}

/* Two classes need one set of weights. */
static int outputs_of(int classes) { return classes == 2 ? 1 : classes; }

void sparse_logistic_logits(const SparseLogistic *model, const SparseRows *rows, double *logits) {
    int outputs = outputs_of(model->classes);
    for (int64_t i = 0; i < rows->n; i++) {
        double *row = logits + i * model->classes;
        row[0] = 0;
        for (int o = 0; o < outputs; o++) {
            const double *w = model->weights + o * (model->features + 1);
            double sum = w[model->features];
            for (int64_t at = rows->first[i]; at < rows->first[i + 1]; at++) sum += w[rows->columns[at]];
            row[model->classes - outputs + o] = sum;
        }
    }
}

/* ---- the objective ---- */

typedef struct {
    const SparseRows *rows;
    const int32_t *labels;
    double penalty;        /* of the mean over rows */
    double *logits;        /* [n, classes] */
    SparseLogistic *model; /* its weights are the point */
    int64_t n;             /* weights */
} Fit;

/* Replaces logits by the gradient of -ln p(label) by them. Returns -ln p(label). */
static double row_loss(double *row, int classes, int32_t label) {
    double largest = row[0];
    for (int c = 1; c < classes; c++) largest = fmax(largest, row[c]);
    double sum = exp(row[0] - largest);
    for (int c = 1; c < classes; c++) sum += exp(row[c] - largest);
    double loss = log(sum) + largest - row[label];
    for (int c = 0; c < classes; c++) row[c] = exp(row[c] - largest) / sum - (c == label);
    return loss;
}

/* Returns the objective divided by inverse_penalty * rows, and its gradient. */
static double objective(const Fit *fit, double *gradient) {
    const SparseRows *rows = fit->rows;
    const SparseLogistic *model = fit->model;
    int outputs = outputs_of(model->classes);
    int64_t stride = model->features + 1;
    double loss = 0, squares = 0, share = 1 / (double)rows->n;
    sparse_logistic_logits(model, rows, fit->logits);
    for (int64_t k = 0; k < fit->n; k++) {
        double w = k % stride == model->features ? 0 : model->weights[k];
        gradient[k] = fit->penalty * w;
        squares += w * w;
    }
    for (int64_t i = 0; i < rows->n; i++) {
        double *row = fit->logits + i * model->classes;
        loss += row_loss(row, model->classes, fit->labels[i]);
        for (int o = 0; o < outputs; o++) {
            double *g = gradient + o * stride, d = share * row[model->classes - outputs + o];
            for (int64_t at = rows->first[i]; at < rows->first[i + 1]; at++) g[rows->columns[at]] += d;
            g[model->features] += d;
        }
    }
    return share * loss + fit->penalty * squares / 2;
}

/* ---- the way down ---- */

enum { MEMORY = 10, MAX_STEPS = 20000 };
static const double TOLERANCE = 1e-6;

/* Steps and what they changed in the gradient, the newest MEMORY of them in turn. */
typedef struct {
    double *step[MEMORY], *change[MEMORY], curvature[MEMORY]; /* 1 / step . change */
    int count;
} History;

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t k = 0; k < n; k++) sum += a[k] * b[k];
    return sum;
}

static void add_scaled(double *to, double factor, const double *from, int64_t n) {
    for (int64_t k = 0; k < n; k++) to[k] += factor * from[k];
}

/* Sets direction[n] to minus the approximate inverse Hessian times the gradient. */
static void choose_direction(const History *h, const double *gradient, double *direction, int64_t n) {
    double along[MEMORY] = {0};
    int kept = h->count < MEMORY ? h->count : MEMORY;
    for (int64_t k = 0; k < n; k++) direction[k] = -gradient[k];
    for (int i = h->count - 1; i >= h->count - kept; i--) {
        int m = i % MEMORY;
        along[m] = h->curvature[m] * dot(h->step[m], direction, n);
        add_scaled(direction, -along[m], h->change[m], n);
    }
    if (kept) {
        int last = (h->count - 1) % MEMORY;
        double scale = 1 / (h->curvature[last] * dot(h->change[last], h->change[last], n));
        for (int64_t k = 0; k < n; k++) direction[k] *= scale;
    }
    for (int i = h->count - kept; i < h->count; i++) {
        int m = i % MEMORY;
        double correction = along[m] - h->curvature[m] * dot(h->change[m], direction, n);
        add_scaled(direction, correction, h->step[m], n);
    }
}

/* Moves the weights along the direction, by half as much until the objective falls enough, and sets `next` to the
 * gradient there. Returns whether it does fall. */
static bool descend(const Fit *fit, const double *direction, double slope, double *value, double *next) {
    double *weights = fit->model->weights, length = 1, moved = 0;
    for (int halvings = 0; halvings < 50; halvings++, length /= 2) {
        add_scaled(weights, length - moved, direction, fit->n);
        moved = length;
        double found = objective(fit, next);
        if (found <= *value + 1e-4 * length * slope) {
            *value = found;
            return true;
        }
    }
    return false;
}

/* Remembers what a step has changed, if the objective curves upwards along it. */
static void remember(History *h, const double *step, const double *before, const double *after, int64_t n) {
    int m = h->count % MEMORY; /* of the oldest step, which stays as it is if this one is not remembered */
    double product = 0;
    for (int64_t k = 0; k < n; k++) product += step[k] * (after[k] - before[k]);
    if (product <= 0) return;
    for (int64_t k = 0; k < n; k++) h->change[m][k] = after[k] - before[k];
    memcpy(h->step[m], step, (size_t)n * sizeof *step);
    h->curvature[m] = 1 / product;
    h->count++;
}

static double largest(const double *values, int64_t n) {
    double most = 0;
    for (int64_t k = 0; k < n; k++) most = fmax(most, fabs(values[k]));
    return most;
}

static bool minimise(Fit *fit, double *work, Error *error) {
    int64_t n = fit->n;
    double *gradient = work, *next = work + n, *direction = work + 2 * n, *start = work + 3 * n;
    History history = {.count = 0};
    for (int m = 0; m < MEMORY; m++)
        history.step[m] = work + (4 + m) * n, history.change[m] = work + (4 + MEMORY + m) * n;
    double value = objective(fit, gradient);
    for (fit->model->steps = 0; largest(gradient, n) > TOLERANCE; fit->model->steps++) {
        if (fit->model->steps == MAX_STEPS)
            return error_set(error, "the fit has not converged after %d steps: the gradient is %.3g", MAX_STEPS,
                             largest(gradient, n));
        choose_direction(&history, gradient, direction, n);
        memcpy(start, fit->model->weights, (size_t)n * sizeof *start);
        if (!descend(fit, direction, dot(direction, gradient, n), &value, next))
            return error_set(error, "the fit has stopped at a gradient of %.3g", largest(gradient, n));
        for (int64_t k = 0; k < n; k++) start[k] = fit->model->weights[k] - start[k];
        remember(&history, start, gradient, next, n);
        memcpy(gradient, next, (size_t)n * sizeof *next);
    }
    return true;
}

bool sparse_logistic_fit(const SparseRows *rows, const int32_t *labels, int classes, int64_t features,
                         double inverse_penalty, SparseLogistic *out, Error *error) {
    *out = (SparseLogistic){.classes = classes, .features = features};
    Fit fit = {.rows = rows,
               .labels = labels,
               .penalty = 1 / (inverse_penalty * (double)rows->n),
               .logits = xcalloc((size_t)(rows->n * classes), sizeof(double)),
               .model = out,
               .n = outputs_of(classes) * (features + 1)};
    out->weights = xcalloc((size_t)fit.n, sizeof(double));
    OWNED double *work = xcalloc((size_t)(4 + 2 * MEMORY) * (size_t)fit.n, sizeof(double));
    bool ok = minimise(&fit, work, error);
    if (!ok) sparse_logistic_free(out);
    free(fit.logits);
    return ok;
}
