/* ROC and precision-recall curves of judged cells: a table and a picture each. */
#include <stdlib.h>

#include "train/binary_diagrams.h"
#include "train/binary_parts.h"

/* A curve that is being drawn: x and y are its own. */
typedef struct {
    MetricsPoint *points;
    int64_t count;
    double *x, *y;
} Drawing;

/* False: the rows are of one class, and have no curve. */
static bool drawing_make(const BinaryCurve *curve, Drawing *d) {
    double *p = xmalloc(((size_t)curve->n + 1) * sizeof *p);
    int32_t *labels = xmalloc(((size_t)curve->n + 1) * sizeof *labels);
    for (int64_t i = 0; i < curve->n; i++) p[i] = curve->rows[i].p, labels[i] = curve->rows[i].label;
    *d = (Drawing){.points = xmalloc(((size_t)curve->n + 1) * sizeof *d->points)};
    d->x = xmalloc(((size_t)curve->n + 2) * sizeof *d->x);
    d->y = xmalloc(((size_t)curve->n + 2) * sizeof *d->y);
    bool both = metrics_curve(p, labels, curve->n, d->points, &d->count, NULL);
    free(p);
    free(labels);
    return both;
}

static void drawing_free(Drawing *d) {
    free(d->points);
    free(d->x);
    free(d->y);
}

/* ROC: true over false positive rate, from (0, 0). Otherwise precision over recall, from recall 0. Into x, y[count + 1]
 * and the table. */
static void drawing_fill(Drawing *d, bool roc, const char *name, Table *table) {
    double positives = (double)d->points[d->count - 1].true_positives;
    double negatives = (double)d->points[d->count - 1].false_positives;
    for (int64_t i = 0; i < d->count; i++) {
        double hits = (double)d->points[i].true_positives, alarms = (double)d->points[i].false_positives;
        d->x[i + 1] = roc ? alarms / negatives : hits / positives;
        d->y[i + 1] = roc ? hits / positives : hits / (hits + alarms);
        table_text(table, "curve", name);
        table_real(table, "threshold", d->points[i].threshold);
        table_real(table, roc ? "false_positive_rate" : "recall", d->x[i + 1]);
        table_real(table, roc ? "true_positive_rate" : "precision", d->y[i + 1]);
    }
    d->x[0] = 0;
    d->y[0] = roc ? 0 : d->y[1];
}

/* The area belongs to the name in the legend. */
static char *curve_name(const char *name, const Drawing *d, bool roc) {
    MetricsAreas areas = metrics_areas(d->points, d->count);
    return xformat("%s: %.4f", name, roc ? areas.roc_auc : areas.average_precision);
}

bool binary_write_curves(const BinaryParts *p, bool roc, Error *error) {
    const char *what = roc ? "roc" : "precision_recall";
    Drawing *drawings = xmalloc((size_t)p->n_curves * sizeof *drawings);
    UnitCurve *curves = xmalloc((size_t)p->n_curves * sizeof *curves);
    char **names = xmalloc((size_t)p->n_curves * sizeof *names);
    Table table = {0};
    int n = 0;
    for (int c = 0; c < p->n_curves; c++) {
        Drawing *d = &drawings[n];
        if (!drawing_make(&p->curves[c], d)) {
            drawing_free(d);
            continue;
        }
        drawing_fill(d, roc, p->curves[c].name, &table);
        names[n] = curve_name(p->curves[c].name, d, roc);
        curves[n] = (UnitCurve){names[n], d->x, d->y, d->count + 1};
        n++;
    }
    char *picture = binary_file_name(p, what, "svg");
    bool fine = !n || (binary_write_table(p, &table, what, error) &&
                       diagram_unit_curves(picture, curves, n, roc, p->title, roc ? "false positive rate" : "recall",
                                           roc ? "true positive rate" : "precision", error));
    for (int c = 0; c < n; c++) {
        drawing_free(&drawings[c]);
        free(names[c]);
    }
    free(picture);
    free(drawings);
    free(curves);
    free(names);
    table_free(&table);
    return fine;
}
