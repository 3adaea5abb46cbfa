/* Pictures of classifiers, in pixels from the upper left. */
#include "report/diagrams.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_file.h"
#include "report/svg.h"
#include "report/table.h"

/* ---- confusion ---- */

enum { CELL_WIDTH = 76, CELL_HEIGHT = 48, MATRIX_TOP = 92 };

static int longest_name(const char *const *names, int classes) {
    size_t longest = 0;
    for (int c = 0; c < classes; c++)
        if (strlen(names[c]) > longest) longest = strlen(names[c]);
    return (int)longest;
}

/* Draws one cell, from white to blue, with dark or white text. */
static void write_cell(FILE *out, double x, double y, int64_t count, double share) {
    char fill[64], white[] = SVG_CENTRED " fill=\"#fff\"", dark[] = SVG_CENTRED;
    const char *ink = share > 0.8 ? white : dark;
    snprintf(fill, sizeof fill, "fill=\"rgb(%.0f,%.0f,%.0f)\" stroke=\"#ddd\"", 255 - 222 * share, 255 - 142 * share,
             255 - 74 * share);
    svg_rectangle(out, x, y, CELL_WIDTH, CELL_HEIGHT, fill);
    svg_label(out, x + CELL_WIDTH / 2.0, y + 21, ink, "%lld", (long long)count);
    svg_label(out, x + CELL_WIDTH / 2.0, y + 38, ink, "%.1f %%", 100 * share);
}

void diagram_confusion(FILE *out, const int64_t *confusion, int classes, const char *const *names, const char *title) {
    int left = 56 + 8 * longest_name(names, classes), width = left + classes * CELL_WIDTH + 24;
    int bottom = MATRIX_TOP + classes * CELL_HEIGHT;
    svg_begin(out, width > 480 ? width : 480, bottom + 24, title);
    svg_text(out, 24, 32, SVG_TITLE, title);
    svg_text(out, left + classes * CELL_WIDTH / 2.0, 58, SVG_CENTRED, "prediction");
    svg_text(out, -(MATRIX_TOP + bottom) / 2.0, 24, SVG_CENTRED " transform=\"rotate(-90)\"", "truth");
    for (int c = 0; c < classes; c++) {
        int64_t rows = 0;
        double y = MATRIX_TOP + c * CELL_HEIGHT;
        for (int k = 0; k < classes; k++) rows += confusion[(int64_t)c * classes + k];
        svg_text(out, left - 10, y + CELL_HEIGHT / 2.0 + 5, "text-anchor=\"end\"", names[c]);
        svg_text(out, left + (c + 0.5) * CELL_WIDTH, MATRIX_TOP - 10, SVG_CENTRED, names[c]);
        for (int k = 0; k < classes; k++) {
            int64_t count = confusion[(int64_t)c * classes + k];
            write_cell(out, left + k * CELL_WIDTH, y, count, rows ? (double)count / (double)rows : 0);
        }
    }
    svg_end(out);
}

/* ---- the unit square ---- */

enum { LEFT = 72, SIDE = 420, TOP = 56, BOTTOM = TOP + SIDE };

/* Lines and numbers in steps of 0.2; those of x are below `floor`. */
static void write_grid(FILE *out, int floor) {
    for (int k = 0; k <= 5; k++) {
        double at = SIDE * k / 5.0;
        fprintf(out, "<path class=\"grid\" d=\"M%d %.1fh%d\"/>\n", LEFT, BOTTOM - at, SIDE);
        svg_label(out, LEFT - 8, BOTTOM - at + 4, "text-anchor=\"end\"", "%.1f", k / 5.0);
        svg_label(out, LEFT + at, floor + 20, SVG_CENTRED, "%.1f", k / 5.0);
    }
}

static void write_diagonal(FILE *out) {
    fprintf(out, "<path class=\"line\" stroke=\"#555\" stroke-dasharray=\"6 4\" d=\"M%d %dL%d %d\"/>\n", LEFT, BOTTOM,
            LEFT + SIDE, TOP);
}

/* ---- reliability ---- */

enum { ROWS_TOP = BOTTOM + 32, ROWS_BOTTOM = ROWS_TOP + 100 };

static void write_frame(FILE *out) {
    write_grid(out, ROWS_BOTTOM);
    svg_text(out, -(TOP + BOTTOM) / 2.0, 20, SVG_CENTRED " transform=\"rotate(-90)\"", "accuracy");
    svg_text(out, -(ROWS_TOP + ROWS_BOTTOM) / 2.0, 20, SVG_CENTRED " transform=\"rotate(-90)\"", "rows");
    svg_text(out, LEFT + SIDE / 2.0, ROWS_BOTTOM + 44, SVG_CENTRED, "confidence");
}

static void write_bins(FILE *out, const MetricsBin *bins) {
    const double width = (double)SIDE / METRICS_BINS;
    int64_t most = 1;
    for (int b = 0; b < METRICS_BINS; b++)
        if (bins[b].rows > most) most = bins[b].rows;
    for (int b = 0; b < METRICS_BINS; b++) {
        double x = LEFT + b * width, accuracy = SIDE * bins[b].accuracy, confidence = SIDE * bins[b].confidence;
        if (!bins[b].rows) continue;
        svg_rectangle(out, x, BOTTOM - accuracy, width, accuracy, "class=\"bar\" fill=\"#7aa6d6\" stroke=\"#fff\"");
        svg_rectangle(out, x, BOTTOM - fmax(accuracy, confidence), width, fabs(accuracy - confidence),
                      "class=\"gap\" fill=\"#c2410c\" fill-opacity=\"0.35\" stroke=\"#c2410c\"");
        double height = (double)(ROWS_BOTTOM - ROWS_TOP) * (double)bins[b].rows / (double)most;
        svg_rectangle(out, x, ROWS_BOTTOM - height, width, height, "class=\"rows\" fill=\"#999\" stroke=\"#fff\"");
    }
    svg_label(out, LEFT - 8, ROWS_TOP + 4, "text-anchor=\"end\"", "%lld", (long long)most);
}

void diagram_reliability(FILE *out, const MetricsCalibration *c, const char *title) {
    svg_begin(out, LEFT + SIDE + 32, ROWS_BOTTOM + 60, title);
    svg_text(out, LEFT, 32, SVG_TITLE, title);
    write_frame(out);
    write_bins(out, c->bins);
    write_diagonal(out);
    fprintf(out, "<path class=\"axis\" d=\"M%d %dV%dh%d\"/>\n<path class=\"axis\" d=\"M%d %dV%dh%d\"/>\n", LEFT, TOP,
            BOTTOM, SIDE, LEFT, ROWS_TOP, ROWS_BOTTOM, SIDE);
    svg_label(out, LEFT + 12, TOP + 24, "", "ECE %.4f", c->ece);
    svg_label(out, LEFT + 12, TOP + 42, "", "NLL %.4f", c->nll);
    svg_label(out, LEFT + 12, TOP + 60, "", "Brier %.4f", c->brier);
    svg_end(out);
}

/* ---- curves ---- */

enum { LEGEND = LEFT + SIDE + 20, LINE = 20, COLOURS = 8 };
static const char *const COLOUR[COLOURS] = {"#333",    "#7aa6d6", "#c2410c", "#15803d",
                                            "#7e22ce", "#0e7490", "#be185d", "#a3a300"};
static const double SHORTEST = 0.5; /* pixels: a point nearer to the one before is not drawn */

/* A curve within the unit square. */
typedef struct {
    char *name; /* in the legend */
    double *x, *y;
    int64_t n;
} UnitCurve;

static void write_curve(FILE *out, const UnitCurve *curve, int number) {
    double last_x = -1, last_y = -1;
    fprintf(out, "<path class=\"line\" stroke=\"%s\" stroke-width=\"%.1f\" d=\"", COLOUR[number % COLOURS],
            number ? 1.3 : 2.2);
    for (int64_t i = 0; i < curve->n; i++) {
        double x = LEFT + SIDE * curve->x[i], y = BOTTOM - SIDE * curve->y[i];
        if (i && i + 1 < curve->n && hypot(x - last_x, y - last_y) < SHORTEST) continue;
        fprintf(out, "%c%.1f %.1f", i ? 'L' : 'M', last_x = x, last_y = y);
    }
    fputs("\"/>\n", out);
    double y = TOP + LINE * (number + 0.5);
    fprintf(out, "<path class=\"line\" stroke=\"%s\" stroke-width=\"2.2\" d=\"M%d %.1fh20\"/>\n",
            COLOUR[number % COLOURS], LEGEND, y);
    svg_text(out, LEGEND + 28, y + 4, "", curve->name);
}

/* Writes the curves as SVG, the first one over the others. */
static bool write_curves(const char *path, const UnitCurve *curves, int n, bool roc, const char *title, Error *error) {
    const char *x_label = roc ? "false positive rate" : "recall", *y_label = roc ? "true positive rate" : "precision";
    int below = TOP + LINE * n + 24;
    TextFile file;
    text_file_begin(&file);
    svg_begin(file.out, LEGEND + 280, below > BOTTOM + 60 ? below : BOTTOM + 60, title);
    svg_text(file.out, LEFT, 32, SVG_TITLE, title);
    write_grid(file.out, BOTTOM);
    fprintf(file.out, "<path class=\"axis\" d=\"M%d %dV%dh%d\"/>\n", LEFT, TOP, BOTTOM, SIDE);
    svg_text(file.out, LEFT + SIDE / 2.0, BOTTOM + 44, SVG_CENTRED, x_label);
    svg_text(file.out, -(TOP + BOTTOM) / 2.0, 20, SVG_CENTRED " transform=\"rotate(-90)\"", y_label);
    if (roc) write_diagonal(file.out);
    for (int c = n - 1; c >= 0; c--) write_curve(file.out, &curves[c], c);
    svg_end(file.out);
    return text_file_end(&file, path, error);
}

/* Adds the points to the table, and to a new curve from (0, 0), or from recall 0. The legend has the area. False: the
 * rows have one class only, and no curve. */
static bool curve_make(const CurveRows *rows, bool roc, UnitCurve *curve, Table *table) {
    MetricsPoint *points = xmalloc(((size_t)rows->n + 1) * sizeof *points);
    int64_t count;
    bool both = binary_curve(rows->rows, rows->n, points, &count);
    if (both) {
        double positives = (double)points[count - 1].true_positives;
        double negatives = (double)points[count - 1].false_positives;
        MetricsAreas areas = metrics_areas(points, count);
        *curve = (UnitCurve){xformat("%s: %.4f", rows->name, roc ? areas.roc_auc : areas.average_precision),
                             xmalloc(((size_t)count + 1) * sizeof *curve->x),
                             xmalloc(((size_t)count + 1) * sizeof *curve->y), count + 1};
        double *x = curve->x + 1, *y = curve->y + 1;
        for (int64_t i = 0; i < count; i++) {
            double hits = (double)points[i].true_positives, alarms = (double)points[i].false_positives;
            x[i] = roc ? alarms / negatives : hits / positives;
            y[i] = roc ? hits / positives : hits / (hits + alarms);
            table_text(table, "curve", rows->name);
            table_real(table, "threshold", points[i].threshold);
            table_real(table, roc ? "false_positive_rate" : "recall", x[i]);
            table_real(table, roc ? "true_positive_rate" : "precision", y[i]);
        }
        curve->x[0] = 0;
        curve->y[0] = roc ? 0 : y[0];
    }
    free(points);
    return both;
}

bool diagram_curves(const char *base, bool roc, const CurveRows *rows, int n_rows, const char *title, Error *error) {
    UnitCurve *curves = xmalloc(((size_t)n_rows + 1) * sizeof *curves);
    char *csv = xformat("%s.csv", base), *svg = xformat("%s.svg", base);
    Table table = {0};
    int n = 0;
    for (int c = 0; c < n_rows; c++) n += curve_make(&rows[c], roc, &curves[n], &table);
    bool ok = !n || (table_write_csv(&table, csv, error) && write_curves(svg, curves, n, roc, title, error));
    for (int c = 0; c < n; c++) {
        free(curves[c].name);
        free(curves[c].x);
        free(curves[c].y);
    }
    free(csv);
    free(svg);
    free(curves);
    table_free(&table);
    return ok;
}

/* ---- outcomes ---- */

enum { PANEL = 300, GAP = 60, HIGH = 240, FLOOR = TOP + 24 + HIGH, BINS = 29 /* 30 edges, as the reference draws */ };
static const char *const FILLS[BINARY_OUTCOMES] = {
    "class=\"TN\" fill=\"#7aa6d6\" fill-opacity=\"0.6\"", "class=\"FP\" fill=\"#c2410c\" fill-opacity=\"0.6\"",
    "class=\"FN\" fill=\"#c2410c\" fill-opacity=\"0.6\"", "class=\"TP\" fill=\"#7aa6d6\" fill-opacity=\"0.6\""};

typedef struct {
    int64_t bins[BINARY_OUTCOMES][BINS];
    double threshold;
    const char *const *class_names;
} Histograms;

static void write_floor(FILE *out, int left, int64_t most) {
    fprintf(out, "<path class=\"axis\" d=\"M%d %dV%dh%d\"/>\n", left, FLOOR - HIGH, FLOOR, PANEL);
    svg_label(out, left - 6, FLOOR - HIGH + 4, "text-anchor=\"end\"", "%lld", (long long)most);
    svg_text(out, left - 6, FLOOR + 4, "text-anchor=\"end\"", "0");
}

/* Draws the histograms of right and wrong rows of one predicted class, the wrong ones in front. */
static void write_histogram(FILE *out, int left, const Histograms *h, int predicted) {
    const int shown[2] = {predicted ? BINARY_TP : BINARY_TN, predicted ? BINARY_FP : BINARY_FN};
    int64_t most = 1;
    for (int b = 0; b < 2 * BINS; b++)
        if (h->bins[shown[b / BINS]][b % BINS] > most) most = h->bins[shown[b / BINS]][b % BINS];
    write_floor(out, left, most);
    svg_label(out, left, TOP + 8, "", "taken for %s", h->class_names[predicted]);
    for (int s = 0; s < 2; s++) {
        for (int b = 0; b < BINS; b++) {
            double height = HIGH * (double)h->bins[shown[s]][b] / (double)most, width = (double)PANEL / BINS;
            if (height > 0) svg_rectangle(out, left + b * width, FLOOR - height, width, height, FILLS[shown[s]]);
        }
        svg_rectangle(out, left + 160 + 60 * s, TOP - 3, 12, 12, FILLS[shown[s]]);
        svg_text(out, left + 178 + 60 * s, TOP + 8, "", BINARY_OUTCOME_NAMES[shown[s]]);
    }
    for (int k = 0; k <= 4; k++) svg_label(out, left + PANEL * k / 4.0, FLOOR + 20, SVG_CENTRED, "%.2f", k / 4.0);
    svg_label(out, left + PANEL / 2.0, FLOOR + 42, SVG_CENTRED, "p(%s)", h->class_names[1]);
    if (h->threshold >= 0 && h->threshold <= 1)
        fprintf(out, "<path class=\"line\" stroke=\"#333\" stroke-dasharray=\"6 4\" d=\"M%.1f %dV%d\"/>\n",
                left + PANEL * h->threshold, FLOOR - HIGH, FLOOR);
}

static void write_counts(FILE *out, int left, const int64_t *confusion) {
    int64_t most = 1;
    for (int o = 0; o < BINARY_OUTCOMES; o++)
        if (confusion[o] > most) most = confusion[o];
    write_floor(out, left, most);
    for (int o = 0; o < BINARY_OUTCOMES; o++) {
        double height = HIGH * (double)confusion[o] / (double)most, middle = left + PANEL * (o + 0.5) / BINARY_OUTCOMES;
        svg_rectangle(out, middle - 24, FLOOR - height, 48, height, FILLS[o]);
        svg_label(out, middle, FLOOR - height - 6, SVG_CENTRED, "%lld", (long long)confusion[o]);
        svg_text(out, middle, FLOOR + 20, SVG_CENTRED, BINARY_OUTCOME_NAMES[o]);
    }
}

void diagram_outcomes(FILE *out, const BinaryRow *rows, int64_t n, const BinaryScores *scores,
                      const char *const *class_names, const char *title) {
    Histograms h = {.threshold = scores->threshold, .class_names = class_names};
    for (int64_t i = 0; i < n; i++) {
        int bin = (int)(rows[i].p * BINS);
        h.bins[binary_outcome(&rows[i])][bin < BINS ? bin : BINS - 1]++;
    }
    svg_begin(out, LEFT + 3 * (PANEL + GAP), FLOOR + 60, title);
    svg_text(out, LEFT, 32, SVG_TITLE, title);
    write_histogram(out, LEFT, &h, 1);
    write_histogram(out, LEFT + PANEL + GAP, &h, 0);
    write_counts(out, LEFT + 2 * (PANEL + GAP), scores->confusion);
    svg_end(out);
}
