/* Pictures of binary classifiers, in pixels from the upper left. */
#include "train/binary_diagrams.h"

#include <math.h>
#include <stdio.h>

#include "data/text_file.h"
#include "train/svg.h"

/* ---- curves ---- */

enum { LEFT = 72, SIDE = 420, TOP = 56, BOTTOM = TOP + SIDE, LEGEND = LEFT + SIDE + 20, LINE = 20, COLOURS = 8 };
static const char *const COLOUR[COLOURS] = {"#333",    "#7aa6d6", "#c2410c", "#15803d",
                                            "#7e22ce", "#0e7490", "#be185d", "#a3a300"};
static const double SHORTEST = 0.5; /* pixels: what is nearer to the point before is not drawn */

static void write_square(FILE *out, const char *x_label, const char *y_label, bool diagonal) {
    for (int k = 0; k <= 5; k++) {
        double at = SIDE * k / 5.0;
        fprintf(out, "<path class=\"grid\" d=\"M%d %.1fh%d\"/>\n", LEFT, BOTTOM - at, SIDE);
        svg_label(out, LEFT - 8, BOTTOM - at + 4, "text-anchor=\"end\"", "%.1f", k / 5.0);
        svg_label(out, LEFT + at, BOTTOM + 20, SVG_CENTRED, "%.1f", k / 5.0);
    }
    fprintf(out, "<path class=\"axis\" d=\"M%d %dV%dh%d\"/>\n", LEFT, TOP, BOTTOM, SIDE);
    svg_text(out, LEFT + SIDE / 2.0, BOTTOM + 44, SVG_CENTRED, x_label);
    svg_text(out, -(TOP + BOTTOM) / 2.0, 20, SVG_CENTRED " transform=\"rotate(-90)\"", y_label);
    if (diagonal)
        fprintf(out, "<path class=\"line\" stroke=\"#555\" stroke-dasharray=\"6 4\" d=\"M%d %dL%d %d\"/>\n", LEFT,
                BOTTOM, LEFT + SIDE, TOP);
}

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

bool diagram_unit_curves(const char *path, const UnitCurve *curves, int n, bool diagonal, const char *title,
                         const char *x_label, const char *y_label, Error *error) {
    TextFile file;
    text_file_begin(&file);
    int below = TOP + LINE * n + 24;
    svg_begin(file.out, LEGEND + 280, below > BOTTOM + 60 ? below : BOTTOM + 60);
    svg_text(file.out, LEFT, 32, SVG_TITLE, title);
    write_square(file.out, x_label, y_label, diagonal);
    for (int c = n - 1; c >= 0; c--) write_curve(file.out, &curves[c], c);
    svg_end(file.out);
    return text_file_end(&file, path, error);
}

/* ---- outcomes ---- */

enum { PANEL = 300, GAP = 60, HIGH = 240, FLOOR = TOP + 24 + HIGH, BINS = 29 /* 30 edges, as the reference draws */ };
static const char *const FILLS[BINARY_OUTCOMES] = {
    "class=\"TN\" fill=\"#7aa6d6\" fill-opacity=\"0.6\"", "class=\"FP\" fill=\"#c2410c\" fill-opacity=\"0.6\"",
    "class=\"FN\" fill=\"#c2410c\" fill-opacity=\"0.6\"", "class=\"TP\" fill=\"#7aa6d6\" fill-opacity=\"0.6\""};

typedef struct {
    int64_t bins[BINARY_OUTCOMES][BINS];
} Histograms;

static void write_floor(FILE *out, int left, int64_t most) {
    fprintf(out, "<path class=\"axis\" d=\"M%d %dV%dh%d\"/>\n", left, FLOOR - HIGH, FLOOR, PANEL);
    svg_label(out, left - 6, FLOOR - HIGH + 4, "text-anchor=\"end\"", "%lld", (long long)most);
    svg_text(out, left - 6, FLOOR + 4, "text-anchor=\"end\"", "0");
}

/* Right and wrong cells of one prediction, in front of each other. */
static void write_histogram(FILE *out, int left, const Histograms *h, int right, int wrong, double threshold,
                            const char *class_name) {
    const int shown[2] = {right, wrong};
    int64_t most = 1;
    for (int b = 0; b < 2 * BINS; b++)
        if (h->bins[shown[b / BINS]][b % BINS] > most) most = h->bins[shown[b / BINS]][b % BINS];
    write_floor(out, left, most);
    svg_label(out, left, TOP + 8, "", "taken for %s", class_name);
    for (int s = 0; s < 2; s++) {
        for (int b = 0; b < BINS; b++) {
            double height = HIGH * (double)h->bins[shown[s]][b] / (double)most, width = (double)PANEL / BINS;
            if (height > 0) svg_rectangle(out, left + b * width, FLOOR - height, width, height, FILLS[shown[s]]);
        }
        svg_rectangle(out, left + 160 + 60 * s, TOP - 3, 12, 12, FILLS[shown[s]]);
        svg_text(out, left + 178 + 60 * s, TOP + 8, "", BINARY_OUTCOME_NAMES[shown[s]]);
    }
    for (int k = 0; k <= 4; k++) svg_label(out, left + PANEL * k / 4.0, FLOOR + 20, SVG_CENTRED, "%.2f", k / 4.0);
    svg_text(out, left + PANEL / 2.0, FLOOR + 42, SVG_CENTRED, "p(active)");
    if (threshold >= 0 && threshold <= 1)
        fprintf(out, "<path class=\"line\" stroke=\"#333\" stroke-dasharray=\"6 4\" d=\"M%.1f %dV%d\"/>\n",
                left + PANEL * threshold, FLOOR - HIGH, FLOOR);
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

bool diagram_outcomes(const char *path, const BinaryRow *rows, int64_t n, const BinaryScores *scores,
                      const char *const *class_names, const char *title, Error *error) {
    Histograms h = {0};
    TextFile file;
    text_file_begin(&file);
    for (int64_t i = 0; i < n; i++) {
        int bin = (int)(rows[i].p * BINS);
        h.bins[binary_outcome(&rows[i])][bin < BINS ? bin : BINS - 1]++;
    }
    svg_begin(file.out, LEFT + 3 * (PANEL + GAP), FLOOR + 60);
    svg_text(file.out, LEFT, 32, SVG_TITLE, title);
    write_histogram(file.out, LEFT, &h, BINARY_TP, BINARY_FP, scores->threshold, class_names[1]);
    write_histogram(file.out, LEFT + PANEL + GAP, &h, BINARY_TN, BINARY_FN, scores->threshold, class_names[0]);
    write_counts(file.out, LEFT + 2 * (PANEL + GAP), scores->confusion);
    svg_end(file.out);
    return text_file_end(&file, path, error);
}
