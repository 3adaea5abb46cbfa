/* Scores of binary classifiers: what metrics has for any number of classes, as it is said of two. */
#include "train/binary_scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const BINARY_OUTCOME_NAMES[BINARY_OUTCOMES] = {"TN", "FP", "FN", "TP"};
const char *const BINARY_SCORE_NAMES[BINARY_SCORES] = {
    [BINARY_ACCURACY] = "accuracy",
    [BINARY_BALANCED_ACCURACY] = "balanced_accuracy",
    [BINARY_MCC] = "mcc",
    [BINARY_F1] = "f1",
    [BINARY_AUROC] = "auroc",
    [BINARY_AUPRC] = "auprc",
    [BINARY_PRECISION] = "precision",
    [BINARY_RECALL] = "recall",
    [BINARY_SPECIFICITY] = "specificity",
    [BINARY_ECE] = "ece",
    [BINARY_BRIER] = "brier",
    [BINARY_LOSS] = "loss",
};
static const char *const CLASSES[2] = {"inactive", "active"};

double binary_sigmoid(double logit) { return 1 / (1 + exp(-logit)); }

double binary_loss(double logit, int label) { return fmax(logit, 0) - label * logit + log1p(exp(-fabs(logit))); }

int binary_outcome(const BinaryRow *row) { return 2 * row->label + (row->p > row->threshold); }

double binary_score(const BinaryScores *s, int which) {
    const double values[BINARY_SCORES] = {
        [BINARY_ACCURACY] = s->accuracy,
        [BINARY_BALANCED_ACCURACY] = s->balanced_accuracy,
        [BINARY_MCC] = s->mcc,
        [BINARY_F1] = s->f1,
        [BINARY_AUROC] = s->auroc,
        [BINARY_AUPRC] = s->auprc,
        [BINARY_PRECISION] = s->precision,
        [BINARY_RECALL] = s->recall,
        [BINARY_SPECIFICITY] = s->specificity,
        [BINARY_ECE] = s->ece,
        [BINARY_BRIER] = s->brier,
        [BINARY_LOSS] = s->loss,
    };
    return values[which];
}

/* ---- scores ---- */

/* What follows from the confusion matrix. */
static bool scores_of_confusion(BinaryScores *s, Error *error) {
    MetricsClass each[2];
    MetricsScores scores;
    if (!metrics_scores(s->confusion, 2, CLASSES, each, &scores, error)) return false;
    s->n = scores.rows;
    s->accuracy = scores.accuracy;
    s->balanced_accuracy = scores.balanced_accuracy;
    s->mcc = scores.mcc;
    s->f1 = each[1].score.f1;
    s->precision = each[1].score.precision;
    s->recall = each[1].score.recall;
    s->specificity = each[0].score.recall;
    return true;
}

/* The columns that metrics reads. */
typedef struct {
    int32_t *labels;       /* [n] */
    double *p;             /* [n] */
    double *probabilities; /* [n, 2] */
    MetricsPoint *points;  /* [n] */
} Columns;

static Columns columns_new(const BinaryRow *rows, int64_t n) {
    size_t room = (size_t)n + 1;
    Columns c = {xmalloc(room * sizeof *c.labels), xmalloc(room * sizeof *c.p),
                 xmalloc(2 * room * sizeof *c.probabilities), xmalloc(room * sizeof *c.points)};
    for (int64_t i = 0; i < n; i++) {
        c.labels[i] = rows[i].label;
        c.probabilities[2 * i] = 1 - rows[i].p;
        c.probabilities[2 * i + 1] = c.p[i] = rows[i].p;
    }
    return c;
}

static void columns_free(Columns *c) {
    free(c->labels);
    free(c->p);
    free(c->probabilities);
    free(c->points);
}

/* of_p: if there are no logits. */
static double mean_loss(const BinaryRow *rows, int64_t n, double of_p) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += binary_loss(rows[i].logit, rows[i].label);
    return isnan(sum) ? of_p : sum / (double)n;
}

bool binary_scores(const BinaryRow *rows, int64_t n, BinaryScores *s, MetricsCalibration *calibration, Error *error) {
    MetricsCalibration own;
    if (!calibration) calibration = &own;
    *s = (BinaryScores){.threshold = n ? rows[0].threshold : NAN, .auroc = NAN, .auprc = NAN};
    Columns c = columns_new(rows, n);
    bool fine = metrics_calibration(c.probabilities, c.labels, n, 2, calibration, error);
    for (int64_t i = 0; i < n && fine; i++) {
        s->confusion[binary_outcome(&rows[i])]++;
        if (rows[i].threshold != s->threshold) s->threshold = NAN;
    }
    fine = fine && scores_of_confusion(s, error);
    int64_t count;
    if (fine && metrics_curve(c.p, c.labels, n, c.points, &count, NULL)) {
        MetricsAreas areas = metrics_areas(c.points, count);
        s->auroc = areas.roc_auc;
        s->auprc = areas.average_precision;
    }
    if (fine) {
        s->ece = calibration->ece;
        s->brier = calibration->brier / 2; /* it has the term of both classes, which are the same */
        s->loss = mean_loss(rows, n, calibration->nll);
    }
    columns_free(&c);
    return fine;
}

/* ---- intervals ---- */

/* What resamples are drawn from: units, which are fields of view or cells. */
typedef struct {
    const BinaryRow **sorted;              /* [n], p descending */
    int32_t *unit;                         /* [n], of sorted */
    int64_t (*confusion)[BINARY_OUTCOMES]; /* [units] */
    MetricsPoint *points;                  /* [n]: room */
    int64_t n;
    int which; /* score */
} Resampling;

/* The areas of a resample: each cell is there as often as its unit was drawn. */
static MetricsAreas resampled_areas(Resampling *r, const int64_t *times) {
    MetricsPoint sum = {0};
    int64_t count = 0;
    for (int64_t i = 0; i < r->n; i++) {
        int64_t weight = times[r->unit[i]];
        sum.true_positives += r->sorted[i]->label ? weight : 0;
        sum.false_positives += r->sorted[i]->label ? 0 : weight;
        bool last = i + 1 == r->n || r->sorted[i + 1]->p < r->sorted[i]->p;
        if (last && sum.true_positives + sum.false_positives) r->points[count++] = sum;
    }
    return metrics_areas(r->points, count);
}

static double resampled_score(void *context, const int64_t *times, int64_t units) {
    Resampling *r = context;
    BinaryScores s = {0};
    for (int64_t u = 0; u < units; u++)
        for (int o = 0; o < BINARY_OUTCOMES; o++) s.confusion[o] += times[u] * r->confusion[u][o];
    bool both = s.confusion[BINARY_TN] + s.confusion[BINARY_FP] && s.confusion[BINARY_FN] + s.confusion[BINARY_TP];
    if (!scores_of_confusion(&s, NULL) || (!both && r->which != BINARY_ACCURACY)) return NAN;
    if (r->which == BINARY_AUROC || r->which == BINARY_AUPRC) {
        MetricsAreas areas = resampled_areas(r, times);
        s.auroc = areas.roc_auc;
        s.auprc = areas.average_precision;
    }
    return binary_score(&s, r->which);
}

static int by_descending_p(const void *left, const void *right) {
    const BinaryRow *a = *(const BinaryRow *const *)left, *b = *(const BinaryRow *const *)right;
    return a->p != b->p ? (a->p < b->p) - (a->p > b->p) : (a > b) - (a < b);
}

/* Numbers the fields that have cells. */
static int32_t units_number(const BinaryRow *rows, int64_t n, int n_fields, int32_t *unit) {
    int32_t units = 0;
    for (int f = 0; f < n_fields; f++) unit[f] = -1;
    for (int64_t i = 0; i < n; i++)
        if (unit[rows[i].field] < 0) unit[rows[i].field] = units++;
    return units;
}

BinaryIntervals binary_intervals(const BinaryRow *rows, int64_t n, int n_fields) {
    int32_t *unit = xmalloc(((size_t)n_fields + 1) * sizeof *unit), units = units_number(rows, n, n_fields, unit);
    bool fields = units > 1;
    BinaryIntervals out = {.drawn = fields ? units : n, .unit = fields ? "field" : "cell"};
    size_t room = (size_t)n + 1;
    Resampling r = {.n = n,
                    .sorted = xmalloc(room * sizeof *r.sorted),
                    .unit = xmalloc(room * sizeof *r.unit),
                    .confusion = xcalloc((size_t)out.drawn + 1, sizeof *r.confusion),
                    .points = xmalloc(room * sizeof *r.points)};
    for (int64_t i = 0; i < n; i++) r.sorted[i] = &rows[i];
    qsort(r.sorted, (size_t)n, sizeof *r.sorted, by_descending_p);
    for (int64_t i = 0; i < n; i++) {
        r.unit[i] = fields ? unit[r.sorted[i]->field] : (int32_t)i;
        r.confusion[r.unit[i]][binary_outcome(r.sorted[i])]++;
    }
    for (r.which = 0; r.which < BINARY_INTERVALS; r.which++) {
        double *low = &out.low[r.which], *high = &out.high[r.which];
        *low = *high = NAN;
        if (n) metrics_bootstrap(resampled_score, &r, out.drawn, BINARY_RESAMPLES, 0.95, 0, low, high, NULL);
    }
    free(unit);
    free(r.sorted);
    free(r.unit);
    free(r.confusion);
    free(r.points);
    return out;
}

/* ---- spreads ---- */

BinarySpread binary_spread(const double *values, int64_t n) {
    BinarySpread s = {n, NAN, NAN, NAN, NAN, NAN};
    if (!n || !metrics_mean_deviation(values, n, 0, &s.mean, &s.deviation, NULL)) return s;
    double *sorted = xmalloc((size_t)n * sizeof *sorted);
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    metrics_sort(sorted, n);
    s.lower = metrics_quantile(sorted, n, 0.25);
    s.median = metrics_quantile(sorted, n, 0.5);
    s.upper = metrics_quantile(sorted, n, 0.75);
    free(sorted);
    return s;
}
