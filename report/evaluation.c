/* Computes scores from predictions. */
#include "report/evaluation.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

#include "report/threshold.h"

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

/* Labels and logits are checked where they are read. */
bool predictions_check(const Predictions *p, Error *error) {
    const Covariate *v = &p->covariate;
    if (p->n < 1) return error_set(error, "there are no rows to score");
    if (!names_check("class", p->class_names, p->classes, error)) return false;
    if (p->group && !names_check(p->group_kind, p->group_names, p->n_groups, error)) return false;
    for (int64_t i = 0; i < p->n; i++) {
        if (p->group && (p->group[i] < 0 || p->group[i] >= p->n_groups))
            return error_set(error, "the %s of row %lld is %d, not one of 0 .. %d", p->group_kind, (long long)p->ids[i],
                             p->group[i], p->n_groups - 1);
        if (v->values && !(fabs(v->values[i]) <= v->limit))
            return error_set(error, "the %s of row %lld is %g %s, not within %g .. %g", v->title, (long long)p->ids[i],
                             v->values[i], v->unit, -v->limit, v->limit);
    }
    return true;
}

/* ---- K classes ---- */

/* Fills an evaluation that has its probabilities and predictions. */
static bool evaluation_fill(const Predictions *p, Evaluation *e, Error *error) {
    int classes = e->classes = p->classes;
    e->confusion = xcalloc((size_t)classes * (size_t)classes, sizeof *e->confusion);
    e->each = xcalloc((size_t)classes, sizeof *e->each);
    return metrics_confusion_add(e->confusion, classes, p->truth, e->predicted, p->n, error) &&
           metrics_scores(e->confusion, classes, p->class_names, e->each, &e->scores, error) &&
           metrics_calibration(e->probabilities, p->truth, p->n, classes, &e->calibration, error) &&
           metrics_adaptive_ece(e->probabilities, p->truth, p->n, classes, &e->adaptive_ece, error);
}

/* Predicts the second of two classes where its probability is above the threshold. */
static void decide(const Predictions *p, double threshold, Evaluation *e) {
    e->threshold = threshold;
    for (int64_t i = 0; i < p->n; i++) e->predicted[i] = threshold_decide(threshold, e->probabilities + 2 * i, 2);
}

/* Computes the area of the second of two classes, if both have rows. */
static void take_area(const Predictions *p, Evaluation *e) {
    OWNED MetricsPoint *points = xmalloc((size_t)p->n * sizeof *points);
    OWNED double *second = xmalloc((size_t)p->n * sizeof *second);
    int64_t count;
    for (int64_t i = 0; i < p->n; i++) second[i] = e->probabilities[2 * i + 1];
    if (metrics_curve(second, p->truth, p->n, points, &count, NULL)) e->roc_auc = metrics_areas(points, count).roc_auc;
}

/* Evaluates the predictions. probabilities NULL: softmax(logits / temperature). threshold NaN: the most probable class
 * is predicted. */
static bool evaluate(const Predictions *p, double temperature, const double *probabilities, double threshold,
                     Evaluation *e, Error *error) {
    *e = (Evaluation){.threshold = NAN, .roc_auc = NAN};
    if (!predictions_check(p, error)) return false;
    if (!isnan(threshold) && p->classes != 2)
        return error_set(error, "a threshold of %g is of two classes, and there are %d", threshold, p->classes);
    size_t count = (size_t)p->n * (size_t)p->classes;
    e->probabilities = xmalloc(count * sizeof *e->probabilities);
    e->predicted = xmalloc((size_t)p->n * sizeof *e->predicted);
    bool ok = true;
    if (probabilities)
        memcpy(e->probabilities, probabilities, count * sizeof *probabilities);
    else
        ok = metrics_softmax(p->logits, p->n, p->classes, temperature, e->probabilities, error);
    ok = ok && metrics_predict(e->probabilities, p->n, p->classes, e->predicted, error);
    if (ok && p->classes == 2) take_area(p, e);
    if (ok && !isnan(threshold)) decide(p, threshold, e);
    ok = ok && evaluation_fill(p, e, error);
    if (!ok) evaluation_free(e);
    return ok;
}

bool evaluation_make(const Predictions *p, double temperature, Evaluation *e, Error *error) {
    return evaluate(p, temperature, NULL, NAN, e, error);
}

bool evaluation_of(const Predictions *p, const double *probabilities, Evaluation *e, Error *error) {
    return evaluate(p, 1, probabilities, NAN, e, error);
}

bool evaluation_at(const Predictions *p, double threshold, Evaluation *e, Error *error) {
    return evaluate(p, 1, NULL, threshold, e, error);
}

void evaluation_free(Evaluation *e) {
    FREE(e->probabilities, e->predicted, e->confusion, e->each);
    *e = (Evaluation){0};
}

/* ---- two classes ---- */

static const char *const CLASSES[2] = {"negative", "positive"};
const char *const BINARY_OUTCOME_NAMES[BINARY_OUTCOMES] = {"TN", "FP", "FN", "TP"};

const BinaryMetric BINARY_METRICS[BINARY_SCORES] = {
    [BINARY_ACCURACY] = {"accuracy", offsetof(BinaryScores, accuracy)},
    [BINARY_BALANCED_ACCURACY] = {"balanced_accuracy", offsetof(BinaryScores, balanced_accuracy)},
    [BINARY_MCC] = {"mcc", offsetof(BinaryScores, mcc)},
    [BINARY_F1] = {"f1", offsetof(BinaryScores, f1)},
    [BINARY_AUROC] = {"auroc", offsetof(BinaryScores, auroc)},
    [BINARY_AUPRC] = {"auprc", offsetof(BinaryScores, auprc)},
    [BINARY_PRECISION] = {"precision", offsetof(BinaryScores, precision)},
    [BINARY_RECALL] = {"recall", offsetof(BinaryScores, recall)},
    [BINARY_SPECIFICITY] = {"specificity", offsetof(BinaryScores, specificity)},
    [BINARY_ECE] = {"ece", offsetof(BinaryScores, ece)},
    [BINARY_BRIER] = {"brier", offsetof(BinaryScores, brier)},
    [BINARY_LOSS] = {"loss", offsetof(BinaryScores, loss)},
};

double binary_sigmoid(double logit) { return 1 / (1 + exp(-logit)); }

double binary_loss(double logit, int label) { return fmax(logit, 0) - label * logit + log1p(exp(-fabs(logit))); }

int binary_outcome(const BinaryRow *row) { return 2 * row->label + (row->p > row->threshold); }

double binary_score(const BinaryScores *s, int which) {
    return *(const double *)(const void *)((const char *)s + BINARY_METRICS[which].offset);
}

/* Copies what follows from a confusion matrix of two classes. */
static void take_scores(BinaryScores *s, const MetricsScores *scores, const MetricsClass *each) {
    s->n = scores->rows;
    s->accuracy = scores->accuracy;
    s->balanced_accuracy = scores->balanced_accuracy;
    s->mcc = scores->mcc;
    s->f1 = each[1].score.f1;
    s->precision = each[1].score.precision;
    s->recall = each[1].score.recall;
    s->specificity = each[0].score.recall;
}

static void take_areas(BinaryScores *s, MetricsAreas areas) {
    s->auroc = areas.roc_auc;
    s->auprc = areas.average_precision;
}

/* of_p: the loss if there are no logits. */
static double mean_loss(const BinaryRow *rows, int64_t n, double of_p) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += binary_loss(rows[i].logit, rows[i].label);
    return isnan(sum) ? of_p : sum / (double)n;
}

bool binary_curve(const BinaryRow *rows, int64_t n, MetricsPoint *points, int64_t *count) {
    OWNED double *p = xmalloc(((size_t)n + 1) * sizeof *p);
    OWNED int32_t *labels = xmalloc(((size_t)n + 1) * sizeof *labels);
    for (int64_t i = 0; i < n; i++) p[i] = rows[i].p, labels[i] = rows[i].label;
    return metrics_curve(p, labels, n, points, count, NULL);
}

MetricsAreas binary_areas(const BinaryRow *rows, int64_t n) {
    OWNED MetricsPoint *points = xmalloc(((size_t)n + 1) * sizeof *points);
    int64_t count;
    return binary_curve(rows, n, points, &count) ? metrics_areas(points, count) : (MetricsAreas){NAN, NAN, NAN};
}

bool binary_scores(const BinaryRow *rows, int64_t n, BinaryScores *s, MetricsCalibration *calibration, Error *error) {
    size_t room = (size_t)n + 1;
    OWNED int32_t *labels = xmalloc(room * sizeof *labels);
    Evaluation e = {.probabilities = xmalloc(2 * room * sizeof *e.probabilities),
                    .predicted = xmalloc(room * sizeof *e.predicted)};
    *s = (BinaryScores){.threshold = n ? rows[0].threshold : NAN, .auroc = NAN, .auprc = NAN};
    for (int64_t i = 0; i < n; i++) {
        labels[i] = rows[i].label;
        e.probabilities[2 * i] = 1 - rows[i].p;
        e.probabilities[2 * i + 1] = rows[i].p;
        e.predicted[i] = rows[i].p > rows[i].threshold;
        if (rows[i].threshold != s->threshold) s->threshold = NAN;
    }
    const Predictions p = {.n = n, .classes = 2, .class_names = CLASSES, .truth = labels};
    bool ok = evaluation_fill(&p, &e, error);
    if (ok) {
        memcpy(s->confusion, e.confusion, sizeof s->confusion);
        take_scores(s, &e.scores, e.each);
        take_areas(s, binary_areas(rows, n));
        s->ece = e.calibration.ece;
        e.calibration.brier /= 2; /* it was summed over both classes, whose terms are equal */
        s->brier = e.calibration.brier;
        s->loss = mean_loss(rows, n, e.calibration.nll);
        if (calibration) *calibration = e.calibration;
    }
    evaluation_free(&e);
    return ok;
}

/* ---- intervals ---- */

/* A row that is drawn with all others of its unit, which is a group or the row itself. */
typedef struct {
    double p;
    int32_t unit, outcome; /* truth * classes + predicted */
} Drawn;

typedef struct {
    Drawn *rows;
    int64_t n;
    const char *const *class_names;
    int classes;
    int64_t *confusion;   /* [classes, classes] of one resample */
    MetricsClass *each;   /* [classes] */
    MetricsPoint *points; /* two classes: [n], and the rows are sorted by descending p; or NULL */
} Resampling;

/* Computes the curve of a resample, in which each row counts as often as its unit was drawn. Returns its number of
 * points. */
static int64_t resampled_curve(const Resampling *r, const int64_t *times) {
    MetricsPoint sum = {0};
    int64_t count = 0;
    for (int64_t i = 0; i < r->n; i++) {
        int64_t weight = times[r->rows[i].unit];
        bool positive = r->rows[i].outcome >= BINARY_FN;
        sum.true_positives += positive ? weight : 0;
        sum.false_positives += positive ? 0 : weight;
        bool last = i + 1 == r->n || r->rows[i + 1].p < r->rows[i].p;
        if (last && sum.true_positives + sum.false_positives) r->points[count++] = sum;
    }
    return count;
}

static void resampled_scores(void *context, const int64_t *times, double *values) {
    Resampling *r = context;
    MetricsScores scores;
    BinaryScores s;
    memset(r->confusion, 0, (size_t)r->classes * (size_t)r->classes * sizeof *r->confusion);
    for (int64_t i = 0; i < r->n; i++) r->confusion[r->rows[i].outcome] += times[r->rows[i].unit];
    metrics_scores(r->confusion, r->classes, r->class_names, r->each, &scores, NULL);
    values[INTERVAL_ACCURACY] = scores.accuracy;
    if (!r->points) {
        values[INTERVAL_MACRO_F1] = scores.macro.f1;
        return;
    }
    bool both = r->each[0].support && r->each[1].support;
    take_scores(&s, &scores, r->each);
    if (both) take_areas(&s, metrics_areas(r->points, resampled_curve(r, times)));
    for (int k = 0; k < BINARY_INTERVALS; k++)
        if (k != BINARY_ACCURACY) values[k] = both ? binary_score(&s, k) : (double)NAN;
}

/* Replaces the rows' groups by units, which are rows if there is one group only. Returns how many there are. */
static int64_t units_make(Drawn *rows, int64_t n, int n_groups, bool *grouped) {
    OWNED int32_t *group = xmalloc((size_t)n * sizeof *group);
    for (int64_t i = 0; i < n; i++) group[i] = rows[i].unit;
    int32_t groups = statistics_number_groups(group, n, n_groups);
    *grouped = groups > 1;
    for (int64_t i = 0; i < n; i++) rows[i].unit = *grouped ? group[i] : (int32_t)i;
    return *grouped ? groups : n;
}

static int by_descending_p(const void *left, const void *right) {
    double a = ((const Drawn *)left)->p, b = ((const Drawn *)right)->p;
    return (a < b) - (a > b);
}

/* Computes intervals by resampling groups, or rows if there is only one group. Frees what r owns. */
static Intervals intervals_of(Resampling *r, int n_values, int n_groups, const char *group_kind, const char *row_kind) {
    bool grouped;
    Intervals out = {.drawn = units_make(r->rows, r->n, n_groups, &grouped)};
    out.unit = grouped ? group_kind : row_kind;
    if (r->points)
        qsort(r->rows, (size_t)r->n, sizeof *r->rows,
              by_descending_p); /* after the numbering, which goes by the order of rows */
    r->confusion = xmalloc((size_t)r->classes * (size_t)r->classes * sizeof *r->confusion);
    r->each = xmalloc((size_t)r->classes * sizeof *r->each);
    statistics_bootstrap(
        &(Bootstrap){.statistic = resampled_scores, .context = r, .n_values = n_values, .groups = out.drawn},
        out.scores);
    FREE(r->rows, r->confusion, r->each, r->points);
    return out;
}

Intervals intervals_make(const Predictions *p, const Evaluation *e) {
    Resampling r = {.rows = xmalloc((size_t)p->n * sizeof *r.rows),
                    .n = p->n,
                    .class_names = p->class_names,
                    .classes = p->classes};
    for (int64_t i = 0; i < p->n; i++)
        r.rows[i] = (Drawn){.unit = p->group ? p->group[i] : 0, .outcome = p->truth[i] * p->classes + e->predicted[i]};
    return intervals_of(&r, 2, p->group ? p->n_groups : 1, p->group_kind, "row");
}

Intervals binary_intervals(const BinaryRow *rows, int64_t n, int n_groups, const char *group_kind,
                           const char *row_kind) {
    Resampling r = {.rows = xmalloc((size_t)n * sizeof *r.rows),
                    .n = n,
                    .class_names = CLASSES,
                    .classes = 2,
                    .points = xmalloc((size_t)n * sizeof *r.points)};
    for (int64_t i = 0; i < n; i++)
        r.rows[i] = (Drawn){.p = rows[i].p, .unit = rows[i].group, .outcome = binary_outcome(&rows[i])};
    return intervals_of(&r, BINARY_INTERVALS, n_groups, group_kind, row_kind);
}

const char *intervals_caution(const Intervals *i) {
    enum { FEW = 8 };
    return i->drawn < FEW ? "; from so few they are rough, and rather too narrow" : "";
}

/* ---- JSON of both ---- */

json_t *intervals_to_json(const Intervals *i) {
    return json_build("the report", "{s:f, s:i, s:s, s:I}", "level", INTERVAL_LEVEL, "resamples", INTERVAL_RESAMPLES,
                      "drawn_unit", i->unit, "drawn", (json_int_t)i->drawn);
}

json_t *reliability_to_json(const MetricsCalibration *calibration) {
    json_t *array = json_array();
    for (const MetricsBin *b = calibration->bins; b < calibration->bins + METRICS_BINS; b++)
        json_array_append_new(array, json_build("the report", "{s:I, s:f, s:f}", "rows", (json_int_t)b->rows,
                                                "confidence", b->confidence, "accuracy", b->accuracy));
    return array;
}
