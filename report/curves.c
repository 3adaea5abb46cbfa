/* Curves of folds are averaged vertically on a common grid, as in T. Fawcett, "An introduction to ROC analysis" (2006).
 * The area below the mean of curves is the mean of their areas, so picture and table agree; a curve of the pooled rows
 * would compare scores of different models, whose scales differ. */
#include "report/curves.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/plot.h"
#include "report/table.h"

/* The mean of curves at x = 0, 0.01 .. 1. */
enum { CURVE_GRID = 101 };
typedef struct {
    double x[CURVE_GRID], y[CURVE_GRID];
    double low[CURVE_GRID], high[CURVE_GRID]; /* the interval of the mean; NaN with one fold */
} CurveMean;

/* Points from (0, 0), or from recall 0; the threshold of that point is NaN. */
typedef struct {
    const char *name;
    double *x, *y, *threshold; /* [n] one allocation */
    int n;
    double area, share; /* below the curve; of rows that are positive */
    Interval interval;
} Curve;

/* ---- numbers ---- */

/* False: the rows have one class only, and no curve. */
static bool curve_make(const CurveRows *rows, bool roc, Curve *curve) {
    OWNED MetricsPoint *points = xmalloc(((size_t)rows->n + 1) * sizeof *points);
    int64_t count;
    if (!binary_curve(rows->rows, rows->n, points, &count)) return false;
    size_t n = (size_t)count + 1;
    double positives = (double)points[count - 1].true_positives;
    double negatives = (double)points[count - 1].false_positives, *x = xmalloc(3 * n * sizeof *x), *y = x + n;
    MetricsAreas areas = metrics_areas(points, count);
    for (int64_t i = 0; i < count; i++) {
        double hits = (double)points[i].true_positives, alarms = (double)points[i].false_positives;
        x[i + 1] = roc ? alarms / negatives : hits / positives;
        y[i + 1] = roc ? hits / positives : hits / (hits + alarms);
        x[2 * n + (size_t)i + 1] = points[i].threshold;
    }
    size_t first = 1; /* point that has a hit: its precision holds from recall 0 on */
    while (!roc && x[first] == 0) first++;
    x[0] = 0, y[0] = roc ? 0 : y[first], x[2 * n] = NAN;
    *curve = (Curve){.name = rows->name,
                     .x = x,
                     .y = y,
                     .threshold = x + 2 * n,
                     .n = (int)n,
                     .area = roc ? areas.roc_auc : areas.average_precision,
                     .share = positives / (positives + negatives),
                     .interval = {NAN, NAN}};
    if (rows->intervals) curve->interval = rows->intervals->scores[roc ? BINARY_AUROC : BINARY_AUPRC];
    return true;
}

/* Returns the rate at a false positive rate, between two points on the line that joins them; of several points at it
 * the highest. */
static double roc_at(const Curve *c, double x) {
    int i = 0;
    while (i + 1 < c->n && c->x[i + 1] <= x) i++;
    if (c->x[i] == x || i + 1 == c->n) return c->y[i];
    return c->y[i] + (x - c->x[i]) / (c->x[i + 1] - c->x[i]) * (c->y[i + 1] - c->y[i]);
}

/* Returns the precision of the highest threshold that reaches this recall, and has a hit. */
static double precision_at(const Curve *c, double recall) {
    int i = 1;
    while (i + 1 < c->n && (c->x[i] < recall || c->x[i] == 0)) i++;
    return c->y[i];
}

/* Values of folds at the grid points. */
typedef struct {
    const double *values; /* [n, CURVE_GRID] */
    int n;
} Folds;

static void fold_means(void *context, const int64_t *times, double *means) {
    const Folds *f = context;
    for (int k = 0; k < CURVE_GRID; k++) {
        double sum = 0, weight = 0;
        for (int i = 0; i < f->n; i++) {
            sum += (double)times[i] * f->values[i * CURVE_GRID + k];
            weight += (double)times[i];
        }
        means[k] = sum / weight;
    }
}

static void mean_of(const Curve *curves, int n, bool roc, CurveMean *mean) {
    OWNED double *values = xmalloc((size_t)n * CURVE_GRID * sizeof *values);
    OWNED int64_t *once = xmalloc((size_t)n * sizeof *once);
    Folds folds = {values, n};
    for (int f = 0; f < n; f++) {
        once[f] = 1;
        for (int k = 0; k < CURVE_GRID; k++) {
            double x = k / (CURVE_GRID - 1.0);
            values[f * CURVE_GRID + k] = roc ? roc_at(&curves[f], x) : precision_at(&curves[f], x);
        }
    }
    Interval intervals[CURVE_GRID];
    Bootstrap bootstrap = {.statistic = fold_means, .context = &folds, .n_values = CURVE_GRID, .groups = n};
    if (n > 1) statistics_bootstrap(&bootstrap, intervals);
    fold_means(&folds, once, mean->y);
    for (int k = 0; k < CURVE_GRID; k++) {
        mean->x[k] = k / (CURVE_GRID - 1.0);
        mean->low[k] = n > 1 ? intervals[k].low : NAN;
        mean->high[k] = n > 1 ? intervals[k].high : NAN;
    }
}

static void curves_free(Curve *curves, int n) {
    for (int c = 0; c < n; c++) free(curves[c].x);
    free(curves);
}

/* Leaves out rows that have no curve. */
static int curves_make(const CurveRows *rows, int n_rows, bool roc, Curve **curves) {
    int n = 0;
    *curves = xmalloc(((size_t)n_rows + 1) * sizeof **curves);
    for (int c = 0; c < n_rows; c++) n += curve_make(&rows[c], roc, &(*curves)[n]);
    return n;
}

/* ---- the table ---- */

static void table_row(Table *t, bool roc, const char *name, double threshold, double x, double y) {
    table_text(t, "curve", name);
    table_real(t, "threshold", threshold);
    table_real(t, roc ? "false_positive_rate" : "recall", x);
    table_real(t, roc ? "true_positive_rate" : "precision", y);
}

/* mean: rows have the columns of the band too. */
static void table_curve(Table *t, bool roc, const Curve *c, bool mean) {
    for (int i = 1; i < c->n; i++) {
        table_row(t, roc, c->name, c->threshold[i], c->x[i], c->y[i]);
        if (mean) table_real(t, "low", NAN);
        if (mean) table_real(t, "high", NAN);
    }
}

static bool write_table(const char *path, bool roc, const Curve *curves, int n, const CurveSet *set,
                        const CurveMean *mean, Error *error) {
    Table t = {0};
    Curve pooled;
    for (int k = 0; mean && k < CURVE_GRID; k++) {
        table_row(&t, roc, "mean over folds", NAN, mean->x[k], mean->y[k]);
        table_real(&t, "low", mean->low[k]);
        table_real(&t, "high", mean->high[k]);
    }
    for (int c = 0; c < n; c++) table_curve(&t, roc, &curves[c], mean);
    if (set->pooled && curve_make(set->pooled, roc, &pooled)) {
        table_curve(&t, roc, &pooled, mean);
        free(pooled.x);
    }
    bool ok = table_write_csv(&t, path, error);
    table_free(&t);
    return ok;
}

/* ---- the picture ---- */

/* Returns the text of the legend; share: with the average precision of a classifier that knows nothing. */
static char *curve_name(const Curve *c, const char *area, bool share) {
    char interval[64] = "", chance[32] = "";
    if (!isnan(c->interval.low))
        snprintf(interval, sizeof interval, ", 95 %% %.3f to %.3f", c->interval.low, c->interval.high);
    if (share) snprintf(chance, sizeof chance, ", chance %.3f", c->share);
    return xformat("%s: %s %.3f%s%s", c->name, area, c->area, chance, interval);
}

/* Fills the line of the mean; its areas are those of the table of folds. */
static PlotSeries mean_series(const Curve *curves, int n, const CurveMean *mean, const char *area) {
    double *areas = xmalloc((size_t)n * sizeof *areas), sum = 0;
    int32_t *fold = xmalloc((size_t)n * sizeof *fold);
    for (int f = 0; f < n; f++) areas[f] = curves[f].area, sum += areas[f], fold[f] = f;
    Interval interval = statistics_mean_interval(areas, fold, n, n);
    FREE(areas, fold);
    return (PlotSeries){.name = xformat("mean of %d fold%s: %s %.3f", n, n == 1 ? "" : "s", area, sum / n),
                        .x = mean->x,
                        .y = mean->y,
                        .low = mean->low,
                        .high = mean->high,
                        .n = CURVE_GRID,
                        .mean = true,
                        .band = n > 1 ? xformat("95 %% interval of the mean: %.3f to %.3f", interval.low, interval.high)
                                      : NULL};
}

/* Returns whether one line of chance holds for all curves: those of folds are shown as their mean. */
static bool has_chance(const Curve *curves, int n, bool roc, bool folds) {
    bool same = true;
    for (int c = 1; c < n; c++) same = same && curves[c].share == curves[0].share;
    return roc || folds || same;
}

/* Returns the line of a classifier that knows nothing: the diagonal, or the mean share of positive rows. */
static PlotSeries chance_series(const Curve *curves, int n, bool roc, double ends[2]) {
    static const double zero_one[2] = {0, 1};
    double share = 0;
    for (int c = 0; c < n; c++) share += curves[c].share / n;
    ends[0] = roc ? 0 : share, ends[1] = roc ? 1 : share;
    return (PlotSeries){.name = roc ? xformat("chance: AUROC 0.500") : xformat("chance: AP %.3f", share),
                        .x = zero_one,
                        .y = ends,
                        .n = 2,
                        .reference = true};
}

static bool write_picture(const char *path, bool roc, const Curve *curves, int n, const CurveMean *mean,
                          const char *title, Error *error) {
    const char *area = roc ? "AUROC" : "AP";
    bool chance = has_chance(curves, n, roc, mean);
    OWNED PlotSeries *series = xmalloc(((size_t)n + 2) * sizeof *series);
    double ends[2];
    int s = 0;
    if (mean) series[s++] = mean_series(curves, n, mean, area);
    for (int c = 0; c < n; c++)
        series[s++] = (PlotSeries){.name = curve_name(&curves[c], area, !chance),
                                   .x = curves[c].x,
                                   .y = curves[c].y,
                                   .n = curves[c].n,
                                   .steps = !roc};
    if (chance) series[s++] = chance_series(curves, n, roc, ends);
    Plot plot = {.x_label = roc ? "false positive rate" : "recall",
                 .y_label = roc ? "true positive rate" : "precision",
                 .series = series,
                 .n_series = s,
                 .unit = true};
    bool ok = plot_write(path, &plot, 1, title, error);
    for (int i = 0; i < s; i++) {
        free((char *)series[i].name);
        free((char *)series[i].band);
    }
    return ok;
}

/* Draws the picture, and writes the table before it unless csv is NULL. */
static bool write_set(const char *csv, const char *svg, bool roc, const CurveSet *set, const char *title,
                      Error *error) {
    Curve *curves;
    CurveMean mean, *shown = NULL;
    int n = curves_make(set->curves, set->n, roc, &curves);
    if (n && set->folds) mean_of(curves, n, roc, shown = &mean);
    bool ok = !n || ((!csv || write_table(csv, roc, curves, n, set, shown, error)) &&
                     write_picture(svg, roc, curves, n, shown, title, error));
    curves_free(curves, n);
    return ok;
}

bool curves_write_picture(const char *path, bool roc, const CurveSet *set, const char *title, Error *error) {
    return write_set(NULL, path, roc, set, title, error);
}

bool curves_write(const char *base, bool roc, const CurveSet *set, const char *title, Error *error) {
    OWNED char *csv = xformat("%s.csv", base), *svg = xformat("%s.svg", base);
    return write_set(csv, svg, roc, set, title, error);
}
