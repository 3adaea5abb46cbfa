/* From predictions to scores. */
#include "train/evaluation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

static const double MOST_DECIBELS = 1000; /* what is beyond is not in dB */

/* ---- checks ---- */

bool name_check(const char *what, const char *name, Error *error) {
    if (name && *name && !u8_check((const uint8_t *)name, strlen(name))) return true;
    return error_set(error, "the name of a %s, '%.100s', is empty or no UTF-8", what, name ? name : "");
}

static bool names_check(const char *what, const char *const *names, int n, Error *error) {
    for (int i = 0; i < n; i++)
        if (!name_check(what, names[i], error)) return false;
    return true;
}

/* Labels and logits are checked where they are counted. */
bool predictions_check(const Predictions *p, Error *error) {
    if (p->n < 1) return error_set(error, "there are no rows to score");
    if (!names_check("class", p->class_names, p->classes, error)) return false;
    if (p->group && !names_check(p->group_kind, p->group_names, p->n_groups, error)) return false;
    for (int64_t i = 0; i < p->n; i++) {
        if (p->group && (p->group[i] < 0 || p->group[i] >= p->n_groups))
            return error_set(error, "the %s of row %lld is %d, not one of 0 .. %d", p->group_kind, (long long)p->ids[i],
                             p->group[i], p->n_groups - 1);
        if (p->snr && !(fabs(p->snr[i]) <= MOST_DECIBELS))
            return error_set(error, "the SNR of row %lld is %g dB, not within %g .. %g", (long long)p->ids[i],
                             p->snr[i], -MOST_DECIBELS, MOST_DECIBELS);
    }
    return true;
}

/* ---- scores ---- */

/* Fills an evaluation that has its probabilities. */
static bool evaluation_fill(const Predictions *p, Evaluation *e, Error *error) {
    int classes = e->classes = p->classes;
    e->predicted = xmalloc((size_t)p->n * sizeof *e->predicted);
    e->confusion = xcalloc((size_t)classes * (size_t)classes, sizeof *e->confusion);
    e->each = xcalloc((size_t)classes, sizeof *e->each);
    bool fine = metrics_predict(e->probabilities, p->n, classes, e->predicted, error) &&
                metrics_confusion_add(e->confusion, classes, p->truth, e->predicted, p->n, error) &&
                metrics_scores(e->confusion, classes, p->class_names, e->each, &e->scores, error) &&
                metrics_calibration(e->probabilities, p->truth, p->n, classes, &e->calibration, error) &&
                metrics_adaptive_ece(e->probabilities, p->truth, p->n, classes, &e->adaptive_ece, error);
    if (!fine) evaluation_free(e);
    return fine;
}

static double *probabilities_new(const Predictions *p) {
    return xmalloc((size_t)p->n * (size_t)p->classes * sizeof(double));
}

bool evaluation_make(const Predictions *p, double temperature, Evaluation *e, Error *error) {
    *e = (Evaluation){0};
    if (!predictions_check(p, error)) return false;
    e->probabilities = probabilities_new(p);
    if (!metrics_softmax(p->logits, p->n, p->classes, temperature, e->probabilities, error)) {
        evaluation_free(e);
        return false;
    }
    return evaluation_fill(p, e, error);
}

bool evaluation_of(const Predictions *p, const double *probabilities, Evaluation *e, Error *error) {
    *e = (Evaluation){0};
    if (!predictions_check(p, error)) return false;
    e->probabilities = probabilities_new(p);
    memcpy(e->probabilities, probabilities, (size_t)p->n * (size_t)p->classes * sizeof *probabilities);
    return evaluation_fill(p, e, error);
}

void evaluation_free(Evaluation *e) {
    free(e->probabilities);
    free(e->predicted);
    free(e->confusion);
    free(e->each);
    *e = (Evaluation){0};
}

/* ---- intervals ---- */

/* What the resamples are drawn from. */
typedef struct {
    const Predictions *predictions;
    const Evaluation *evaluation;
    const int32_t *place; /* [n_groups]: of a group among those that have rows; NULL: rows are drawn */
    int64_t *confusion;   /* [classes, classes], of one resample */
    MetricsClass *each;
} Resampling;

static MetricsScores resample(Resampling *r, const int64_t *times) {
    const Predictions *p = r->predictions;
    size_t cells = (size_t)p->classes * (size_t)p->classes;
    memset(r->confusion, 0, cells * sizeof *r->confusion);
    for (int64_t i = 0; i < p->n; i++)
        r->confusion[(int64_t)p->truth[i] * p->classes + r->evaluation->predicted[i]] +=
            times[r->place ? r->place[p->group[i]] : i];
    MetricsScores scores = {.accuracy = NAN};
    metrics_scores(r->confusion, p->classes, p->class_names, r->each, &scores, NULL);
    return scores;
}

static double resampled_accuracy(void *context, const int64_t *times, int64_t groups) {
    (void)groups;
    return resample(context, times).accuracy;
}

static double resampled_macro_f1(void *context, const int64_t *times, int64_t groups) {
    (void)groups;
    return resample(context, times).macro.f1;
}

/* Numbers the groups that have rows. */
static int64_t groups_number(const Predictions *p, int32_t *place) {
    int32_t number = 0;
    for (int g = 0; g < p->n_groups; g++) place[g] = -1;
    for (int64_t i = 0; i < p->n; i++)
        if (place[p->group[i]] < 0) place[p->group[i]] = number++;
    return number;
}

bool intervals_make(const Predictions *p, const Evaluation *e, Intervals *out, Error *error) {
    int32_t *place = xcalloc((size_t)p->n_groups + 1, sizeof *place);
    Resampling r = {.predictions = p, .evaluation = e};
    r.confusion = xmalloc((size_t)p->classes * (size_t)p->classes * sizeof *r.confusion);
    r.each = xmalloc((size_t)p->classes * sizeof *r.each);
    *out = (Intervals){.drawn = p->n, .unit = "row"};
    int64_t groups = p->group ? groups_number(p, place) : 0;
    if (groups > 1) {
        *out = (Intervals){.drawn = groups, .unit = p->group_kind};
        r.place = place;
    }
    bool fine = metrics_bootstrap(resampled_accuracy, &r, out->drawn, INTERVAL_RESAMPLES, 0.95, 0, &out->accuracy[0],
                                  &out->accuracy[1], error) &&
                metrics_bootstrap(resampled_macro_f1, &r, out->drawn, INTERVAL_RESAMPLES, 0.95, 0, &out->macro_f1[0],
                                  &out->macro_f1[1], error);
    free(place);
    free(r.confusion);
    free(r.each);
    return fine;
}
