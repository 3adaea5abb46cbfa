/* Pictures of classifiers, in pixels from the upper left. */
#include "report/diagrams.h"

#include <math.h>
#include <string.h>

#include "report/svg.h"

enum { LEFT = 72, TOP = 56 };
static const char *const END = "text-anchor=\"end\"";

static void write_heading(FILE *out, double left, double right, const char *title) {
    OWNED char *shown = svg_text_fit(title, (right - left) * 13 / 17);
    svg_text(out, left, 32, SVG_TITLE, shown);
}

/* ---- confusion ---- */

enum { LONGEST_NAME = 220, MANY_CLASSES = 10 };
static const double DARKEST = 0.65; /* opacity of a cell with all rows, on which text is still legible in any theme */

/* The pixels of a matrix. */
typedef struct {
    int cell_width, cell_height;
    double left, top, width, bottom;
    double lean; /* degrees by which the names of columns are turned; 0: they fit */
} Matrix;

static const char ROWS_AND_SHARES[] = "rows, and their share of the true class";

static Matrix matrix_place(int classes, const char *const *names, const char *title) {
    Matrix m = {.cell_width = classes > MANY_CLASSES ? 56 : 76, .cell_height = classes > MANY_CLASSES ? 40 : 48};
    double widest = 0;
    for (int c = 0; c < classes; c++) widest = fmax(widest, fmin(svg_text_width(names[c]), LONGEST_NAME));
    bool leans = widest > m.cell_width - 8;
    m.lean = leans ? -45 : 0;
    m.left = 56 + widest;
    m.top = 76 + (leans ? 8 + widest * sqrt(0.5) : 16);
    m.bottom = m.top + classes * m.cell_height;
    m.width = fmax(m.left + classes * m.cell_width + (leans ? 8 + widest * sqrt(0.5) : 24),
                   fmin(svg_text_width(title) * 17 / 13 + 48, 720));
    m.width = fmax(m.width, m.left + svg_text_width(ROWS_AND_SHARES) + 12);
    return m;
}

/* Draws one cell, the bluer the greater its share of the row. */
static void write_cell(FILE *out, const Matrix *m, int row, int column, int64_t count, double share) {
    double x = m->left + column * m->cell_width, y = m->top + row * m->cell_height, middle = x + m->cell_width / 2.0;
    const char *attributes = count ? SVG_CENTRED : SVG_CENTRED " class=\"plot-muted\"";
    char fill[96];
    snprintf(fill, sizeof fill, "class=\"plot-grid\" fill=\"%s\" fill-opacity=\"%.3f\"", SVG_PALETTE[0],
             DARKEST * share);
    svg_rectangle(out, x, y, m->cell_width, m->cell_height, fill);
    svg_label(out, middle, y + m->cell_height / 2.0 - 3, attributes, "%lld", (long long)count);
    svg_label(out, middle, y + m->cell_height / 2.0 + 14, attributes, m->cell_width < 76 ? "%.0f %%" : "%.1f %%",
              100 * share);
}

static void write_class(FILE *out, const Matrix *m, int class, const char *name) {
    OWNED char *shown = svg_text_fit(name, LONGEST_NAME);
    svg_text(out, m->left - 10, m->top + (class + 0.5) * m->cell_height + 5, END, shown);
    svg_turned(out, m->left + (class + 0.5) * m->cell_width, m->top - 10, m->lean, m->lean < 0 ? "" : SVG_CENTRED,
               shown);
}

void diagram_confusion(FILE *out, const int64_t *confusion, int classes, const char *const *names, const char *title) {
    Matrix m = matrix_place(classes, names, title);
    svg_begin(out, m.width, m.bottom + 40, title);
    write_heading(out, 24, m.width - 12, title);
    svg_text(out, m.left, 58, "", "prediction \xE2\x86\x92");
    svg_turned(out, 26, (m.top + m.bottom) / 2, -90, SVG_CENTRED, "\xE2\x86\x90 truth");
    for (int c = 0; c < classes; c++) {
        int64_t rows = 0;
        for (int k = 0; k < classes; k++) rows += confusion[(int64_t)c * classes + k];
        write_class(out, &m, c, names[c]);
        for (int k = 0; k < classes; k++) {
            int64_t count = confusion[(int64_t)c * classes + k];
            write_cell(out, &m, c, k, count, rows ? (double)count / (double)rows : 0);
        }
    }
    svg_text(out, m.left, m.bottom + 24, "class=\"plot-muted\"", ROWS_AND_SHARES);
    svg_end(out);
}

/* ---- reliability ---- */

enum { SIDE = 420, BOTTOM = TOP + SIDE, ROWS_TOP = BOTTOM + 32, ROWS_BOTTOM = ROWS_TOP + 100 };
enum { BESIDE = LEFT + SIDE + 24, LEGEND_WIDTH = 220 };

/* Writes lines and numbers in steps of 0.2; those of x are at the foot of the picture. */
static void write_frame(FILE *out) {
    for (int k = 0; k <= 5; k++) {
        double at = SIDE * k / 5.0;
        fprintf(out, "<path class=\"plot-grid\" d=\"M%d %.1fh%d\"/>\n", LEFT, BOTTOM - at, SIDE);
        svg_label(out, LEFT - 8, BOTTOM - at + 4, END, "%.1f", k / 5.0);
        svg_label(out, LEFT + at, ROWS_BOTTOM + 20, SVG_CENTRED, "%.1f", k / 5.0);
    }
    svg_turned(out, 20, (TOP + BOTTOM) / 2.0, -90, SVG_CENTRED, "accuracy");
    svg_turned(out, 20, (ROWS_TOP + ROWS_BOTTOM) / 2.0, -90, SVG_CENTRED, "rows");
    svg_text(out, LEFT + SIDE / 2.0, ROWS_BOTTOM + 44, SVG_CENTRED, "confidence");
}

static void bar_fill(char text[128], const char *name, int colour) {
    snprintf(text, 128, "class=\"%s\" fill=\"%s\" fill-opacity=\"%s\" stroke=\"%s\"%s", name, SVG_PALETTE[colour],
             colour ? "0.25" : "0.6", SVG_PALETTE[colour], colour ? " stroke-width=\"2\"" : "");
}

static void write_bins(FILE *out, const MetricsBin *bins) {
    const double width = (double)SIDE / METRICS_BINS;
    int64_t most = 1;
    char bar[128], gap[128];
    bar_fill(bar, "plot-bar", 0);
    bar_fill(gap, "plot-gap", 1);
    for (int b = 0; b < METRICS_BINS; b++)
        if (bins[b].rows > most) most = bins[b].rows;
    for (int b = 0; b < METRICS_BINS; b++) {
        double x = LEFT + b * width, accuracy = SIDE * bins[b].accuracy, confidence = SIDE * bins[b].confidence;
        if (!bins[b].rows) continue;
        Interval i = statistics_share_interval(bins[b].accuracy, (double)bins[b].rows);
        svg_rectangle(out, x, BOTTOM - accuracy, width, accuracy, bar);
        svg_rectangle(out, x, BOTTOM - fmax(accuracy, confidence), width, fabs(accuracy - confidence), gap);
        fprintf(out, "<path class=\"plot-line plot-ink plot-whisker\" stroke-width=\"1.5\" d=\"M%.1f %.1fV%.1f\"/>\n",
                x + width / 2, BOTTOM - SIDE * i.low, BOTTOM - SIDE * i.high);
        double height = (double)(ROWS_BOTTOM - ROWS_TOP) * (double)bins[b].rows / (double)most;
        svg_rectangle(out, x, ROWS_BOTTOM - height, width, height, "class=\"plot-rows plot-muted\"");
    }
    svg_label(out, LEFT - 8, ROWS_TOP + 4, END, "%lld", (long long)most);
    svg_text(out, LEFT - 8, ROWS_BOTTOM + 4, END, "0");
}

static void write_key(FILE *out) {
    char fill[128];
    bar_fill(fill, "plot-key", 0);
    svg_rectangle(out, BESIDE, TOP + 2, 28, 12, fill);
    svg_text(out, BESIDE + 36, TOP + 13, "", "accuracy");
    bar_fill(fill, "plot-key", 1);
    svg_rectangle(out, BESIDE, TOP + 26, 28, 12, fill);
    svg_text(out, BESIDE + 36, TOP + 37, "", "gap to the mean confidence");
    fprintf(out, "<path class=\"plot-line plot-ink\" stroke-width=\"1.5\" d=\"M%d %dv14\"/>\n", BESIDE + 14, TOP + 49);
    svg_text(out, BESIDE + 36, TOP + 61, "", "95 % interval of the accuracy");
    fprintf(out, "<path class=\"plot-line plot-muted\" stroke-dasharray=\"6 4\" d=\"M%d %dh28\"/>\n", BESIDE, TOP + 80);
    svg_text(out, BESIDE + 36, TOP + 85, "", "perfect calibration");
}

void diagram_reliability(FILE *out, const MetricsCalibration *c, const char *title) {
    svg_begin(out, BESIDE + LEGEND_WIDTH + 36, ROWS_BOTTOM + 60, title);
    write_heading(out, LEFT, BESIDE + LEGEND_WIDTH + 24, title);
    write_frame(out);
    write_bins(out, c->bins);
    fprintf(out, "<path class=\"plot-line plot-muted\" stroke-dasharray=\"6 4\" d=\"M%d %dL%d %d\"/>\n", LEFT, BOTTOM,
            LEFT + SIDE, TOP);
    fprintf(out, "<path class=\"plot-axis\" d=\"M%d %dV%dh%d\"/>\n<path class=\"plot-axis\" d=\"M%d %dV%dh%d\"/>\n",
            LEFT, TOP, BOTTOM, SIDE, LEFT, ROWS_TOP, ROWS_BOTTOM, SIDE);
    write_key(out);
    svg_label(out, BESIDE, TOP + 128, "", "ECE %.4f", c->ece);
    if (isfinite(c->nll)) svg_label(out, BESIDE, TOP + 150, "", "NLL %.4f", c->nll);
    if (!isfinite(c->nll)) svg_text(out, BESIDE, TOP + 150, "", "NLL infinite");
    svg_label(out, BESIDE, TOP + 172, "", "Brier %.4f", c->brier);
    svg_end(out);
}

/* ---- outcomes ---- */

enum { PANEL = 300, GAP = 64, HIGH = 240, FLOOR = TOP + 44 + HIGH, BINS = 29 /* 30 edges, as the reference draws */ };

typedef struct {
    int64_t bins[BINARY_OUTCOMES][BINS];
    double threshold;
    const char *const *class_names;
} Histograms;

/* Right rows are blue; wrong ones are orange, with a stronger border. */
static void outcome_fill(char text[128], int outcome) {
    bool wrong = outcome == BINARY_FP || outcome == BINARY_FN;
    snprintf(text, 128, "class=\"plot-%s\" fill=\"%s\" fill-opacity=\"0.55\" stroke=\"%s\" stroke-width=\"%s\"",
             BINARY_OUTCOME_NAMES[outcome], SVG_PALETTE[wrong], SVG_PALETTE[wrong], wrong ? "1.6" : "0.6");
}

static void write_floor(FILE *out, int left, int64_t most) {
    fprintf(out, "<path class=\"plot-axis\" d=\"M%d %dV%dh%d\"/>\n", left, FLOOR - HIGH, FLOOR, PANEL);
    svg_label(out, left - 6, FLOOR - HIGH + 4, END, "%lld", (long long)most);
    svg_text(out, left - 6, FLOOR + 4, END, "0");
}

/* Names what a panel shows, above it, and an outcome or two with their fill. */
static void write_panel_key(FILE *out, int left, const char *text, const int *outcomes, int n) {
    OWNED char *shown = svg_text_fit(text, PANEL);
    char fill[128];
    svg_text(out, left, TOP + 8, "", shown);
    for (int s = 0; s < n; s++) {
        outcome_fill(fill, outcomes[s]);
        svg_rectangle(out, left + 60 * s, TOP + 18, 12, 12, fill);
        svg_text(out, left + 18 + 60 * s, TOP + 29, "", BINARY_OUTCOME_NAMES[outcomes[s]]);
    }
}

/* Draws the histograms of right and wrong rows of one predicted class, the wrong ones in front. */
static void write_histogram(FILE *out, int left, const Histograms *h, int predicted) {
    const int shown[2] = {predicted ? BINARY_TP : BINARY_TN, predicted ? BINARY_FP : BINARY_FN};
    OWNED char *text = xformat("taken for %s", h->class_names[predicted]), *p = xformat("p(%s)", h->class_names[1]),
               *label = svg_text_fit(p, PANEL);
    char fill[128];
    int64_t most = 1;
    for (int b = 0; b < 2 * BINS; b++)
        if (h->bins[shown[b / BINS]][b % BINS] > most) most = h->bins[shown[b / BINS]][b % BINS];
    write_floor(out, left, most);
    write_panel_key(out, left, text, shown, 2);
    for (int s = 0; s < 2; s++) {
        outcome_fill(fill, shown[s]);
        for (int b = 0; b < BINS; b++) {
            double height = HIGH * (double)h->bins[shown[s]][b] / (double)most, width = (double)PANEL / BINS;
            if (height > 0) svg_rectangle(out, left + b * width, FLOOR - height, width, height, fill);
        }
    }
    for (int k = 0; k <= 4; k++) svg_label(out, left + PANEL * k / 4.0, FLOOR + 20, SVG_CENTRED, "%.2f", k / 4.0);
    svg_text(out, left + PANEL / 2.0, FLOOR + 42, SVG_CENTRED, label);
    if (!(h->threshold >= 0 && h->threshold <= 1)) return;
    fprintf(out, "<path class=\"plot-line plot-ink\" stroke-dasharray=\"6 4\" d=\"M%.1f %dV%d\"/>\n",
            left + PANEL * h->threshold, FLOOR - HIGH, FLOOR);
    fprintf(out, "<path class=\"plot-line plot-ink\" stroke-dasharray=\"6 4\" d=\"M%d %dh24\"/>\n", left + 132,
            TOP + 24);
    svg_label(out, left + 164, TOP + 29, "", "threshold %.3f", h->threshold);
}

static void write_counts(FILE *out, int left, const int64_t *confusion) {
    int64_t most = 1;
    char fill[128];
    for (int o = 0; o < BINARY_OUTCOMES; o++)
        if (confusion[o] > most) most = confusion[o];
    write_floor(out, left, most);
    write_panel_key(out, left, "rows of each outcome", NULL, 0);
    for (int o = 0; o < BINARY_OUTCOMES; o++) {
        double height = HIGH * (double)confusion[o] / (double)most, middle = left + PANEL * (o + 0.5) / BINARY_OUTCOMES;
        outcome_fill(fill, o);
        svg_rectangle(out, middle - 24, FLOOR - height, 48, height, fill);
        svg_label(out, middle, FLOOR - height - 6, SVG_CENTRED, "%lld", (long long)confusion[o]);
        svg_text(out, middle, FLOOR + 20, SVG_CENTRED, BINARY_OUTCOME_NAMES[o]);
    }
}

void diagram_outcomes(FILE *out, const BinaryRow *rows, int64_t n, const BinaryScores *scores,
                      const char *const *class_names, const char *title) {
    Histograms h = {.threshold = scores->threshold, .class_names = class_names};
    const int width = LEFT + 3 * (PANEL + GAP);
    for (int64_t i = 0; i < n; i++) {
        int bin = (int)(rows[i].p * BINS);
        h.bins[binary_outcome(&rows[i])][bin < BINS ? bin : BINS - 1]++;
    }
    svg_begin(out, width, FLOOR + 60, title);
    write_heading(out, LEFT, width - 24, title);
    write_histogram(out, LEFT, &h, 1);
    write_histogram(out, LEFT + PANEL + GAP, &h, 0);
    write_counts(out, LEFT + 2 * (PANEL + GAP), scores->confusion);
    svg_end(out);
}
