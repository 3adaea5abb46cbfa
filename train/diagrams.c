/* Pictures of classifiers, in pixels from the upper left. */
#include "train/diagrams.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/text_file.h"
#include "train/svg.h"

/* ---- confusion ---- */

enum { CELL_WIDTH = 76, CELL_HEIGHT = 48, MATRIX_TOP = 92 };

static int longest_name(const char *const *names, int classes) {
    size_t longest = 0;
    for (int c = 0; c < classes; c++)
        if (strlen(names[c]) > longest) longest = strlen(names[c]);
    return (int)longest;
}

/* White to blue; the text on it is dark or white. */
static void write_cell(FILE *out, double x, double y, int64_t count, double share) {
    char fill[64], white[] = SVG_CENTRED " fill=\"#fff\"", dark[] = SVG_CENTRED;
    const char *ink = share > 0.8 ? white : dark;
    snprintf(fill, sizeof fill, "fill=\"rgb(%.0f,%.0f,%.0f)\" stroke=\"#ddd\"", 255 - 222 * share, 255 - 142 * share,
             255 - 74 * share);
    svg_rectangle(out, x, y, CELL_WIDTH, CELL_HEIGHT, fill);
    svg_label(out, x + CELL_WIDTH / 2.0, y + 21, ink, "%lld", (long long)count);
    svg_label(out, x + CELL_WIDTH / 2.0, y + 38, ink, "%.1f %%", 100 * share);
}

static void write_matrix(FILE *out, const int64_t *confusion, int classes, const char *const *names,
                         const char *title) {
    int left = 56 + 8 * longest_name(names, classes), width = left + classes * CELL_WIDTH + 24;
    int bottom = MATRIX_TOP + classes * CELL_HEIGHT;
    svg_begin(out, width > 480 ? width : 480, bottom + 24);
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

bool diagram_confusion(const char *path, const int64_t *confusion, int classes, const char *const *names,
                       const char *title, Error *error) {
    TextFile file;
    text_file_begin(&file);
    write_matrix(file.out, confusion, classes, names, title);
    return text_file_end(&file, path, error);
}

/* ---- reliability ---- */

enum { LEFT = 72, SIDE = 420, TOP = 56, BOTTOM = TOP + SIDE, ROWS_TOP = BOTTOM + 32, ROWS_BOTTOM = ROWS_TOP + 100 };

static void write_frame(FILE *out) {
    for (int k = 0; k <= 5; k++) {
        double at = SIDE * k / 5.0;
        fprintf(out, "<path class=\"grid\" d=\"M%d %.1fh%d\"/>\n", LEFT, BOTTOM - at, SIDE);
        svg_label(out, LEFT - 8, BOTTOM - at + 4, "text-anchor=\"end\"", "%.1f", k / 5.0);
        svg_label(out, LEFT + at, ROWS_BOTTOM + 20, SVG_CENTRED, "%.1f", k / 5.0);
    }
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

static void write_reliability(FILE *out, const MetricsCalibration *c, const char *title) {
    svg_begin(out, LEFT + SIDE + 32, ROWS_BOTTOM + 60);
    svg_text(out, LEFT, 32, SVG_TITLE, title);
    write_frame(out);
    write_bins(out, c->bins);
    fprintf(out, "<path class=\"line\" stroke=\"#555\" stroke-dasharray=\"6 4\" d=\"M%d %dL%d %d\"/>\n", LEFT, BOTTOM,
            LEFT + SIDE, TOP);
    fprintf(out, "<path class=\"axis\" d=\"M%d %dV%dh%d\"/>\n<path class=\"axis\" d=\"M%d %dV%dh%d\"/>\n", LEFT, TOP,
            BOTTOM, SIDE, LEFT, ROWS_TOP, ROWS_BOTTOM, SIDE);
    svg_label(out, LEFT + 12, TOP + 24, "", "ECE %.4f", c->ece);
    svg_label(out, LEFT + 12, TOP + 42, "", "NLL %.4f", c->nll);
    svg_label(out, LEFT + 12, TOP + 60, "", "Brier %.4f", c->brier);
    svg_end(out);
}

bool diagram_reliability(const char *path, const MetricsCalibration *calibration, const char *title, Error *error) {
    TextFile file;
    text_file_begin(&file);
    write_reliability(file.out, calibration, title);
    return text_file_end(&file, path, error);
}
