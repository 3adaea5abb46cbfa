/* A line chart as SVG text: axes with round values, curves, a legend in the upper right, where a falling loss is not.
 *
 * Everything is placed through two Axis values, which map data to pixels. Points that share a column of pixels are
 * drawn as their mean, so that a run of a million steps makes a picture of some kilobytes. */
#include "report/plot.h"

#include <math.h>
#include <stdio.h>

#include "base/text_file.h"
#include "report/svg.h"

enum { WIDTH = 800, HEIGHT = 480, LEFT = 72, RIGHT = 776, TOP = 56, BOTTOM = 424, LEGEND_LINE = 20, SPARSE = 60 };

typedef struct {
    double low, high, step; /* of the data that is shown; between two ticks */
    double from, to;        /* pixels */
} Axis;

static double axis_pixel(const Axis *axis, double value) {
    return axis->from + (value - axis->low) / (axis->high - axis->low) * (axis->to - axis->from);
}

/* Returns the round distance (1, 2 or 5 times a power of ten) that divides `range` into 4 to 10 parts. */
static double round_step(double range) {
    double power = pow(10, floor(log10(range / 4))), times = range / 4 / power;
    return power * (times < 2 ? 1 : times < 5 ? 2 : 5);
}

/* Fits the axes to the finite points of all series. False: there is none, or their range exceeds that of a double. */
static bool axes_fit(const PlotSeries *series, int n_series, Axis *x, Axis *y, Error *error) {
    x->low = y->low = INFINITY;
    x->high = y->high = -INFINITY;
    for (int s = 0; s < n_series; s++)
        for (int i = 0; i < series[s].n; i++) {
            double px = series[s].x[i], py = series[s].y[i];
            if (!isfinite(px) || !isfinite(py)) continue;
            x->low = fmin(x->low, px), x->high = fmax(x->high, px);
            y->low = fmin(y->low, py), y->high = fmax(y->high, py);
        }
    if (x->low > x->high) return error_set(error, "nothing to draw: no series has a finite point");
    Axis *axes[] = {x, y};
    for (int a = 0; a < 2; a++) {
        Axis *axis = axes[a];
        double range = axis->high - axis->low, size = fmax(fabs(axis->low), fabs(axis->high));
        if (range <= 1e-12 * size || range < 1e-300) /* no ticks can be told apart */
            axis->low -= size / 2 + 0.5, axis->high += size / 2 + 0.5;
        if (!isfinite(axis->high - axis->low)) return error_set(error, "the values are too far apart to draw");
        axis->step = round_step(axis->high - axis->low);
    }
    y->low = floor(y->low / y->step) * y->step; /* the frame begins and ends at a tick */
    y->high = ceil(y->high / y->step) * y->step;
    return isfinite(y->high - y->low) || error_set(error, "the values are too far apart to draw");
}

static void write_ticks(FILE *out, const Axis *axis, bool vertical) {
    char label[32];
    double first = ceil(axis->low / axis->step - 1e-9);
    int last = (int)(axis->high / axis->step + 1e-9 - first);
    for (int k = 0; k <= last; k++) {
        double value = (first + k) * axis->step, at = axis_pixel(axis, value);
        snprintf(label, sizeof label, "%.8g", value + 0.0); /* + 0.0: no "-0" */
        if (vertical) {
            fprintf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", LEFT, at, RIGHT);
            svg_text(out, LEFT - 8, at + 4, "text-anchor=\"end\"", label);
        } else {
            fprintf(out, "<path class=\"axis\" d=\"M%.1f %dv5\"/>\n", at, BOTTOM);
            svg_text(out, at, BOTTOM + 20, SVG_CENTRED, label);
        }
    }
}

/* Begins a path in the stroke of series `s`: each curve has its colour, references are grey and dashed. */
static void path_begin(FILE *out, const PlotSeries *series, int s, double width) {
    static const char *const colours[] = {"#7aa6d6", "#c2410c", "#15803d", "#7e22ce",
                                          "#b45309", "#0e7490", "#be185d", "#a3a300"};
    int curves = 0;
    for (int before = 0; before < s; before++) curves += !series[before].reference;
    fprintf(out, "<path class=\"line\" stroke=\"%s\" stroke-width=\"%.1f\"%s d=\"",
            series[s].reference ? "#555" : colours[curves % 8], width,
            series[s].reference ? " stroke-dasharray=\"6 4\"" : "");
}

static bool point_finite(const PlotSeries *curve, int i) { return isfinite(curve->x[i]) && isfinite(curve->y[i]); }

/* Returns the column of pixels in which point i lies; the right border belongs to the last one. */
static int point_column(const PlotSeries *curve, int i, const Axis *x) {
    return (int)fmin(axis_pixel(x, curve->x[i]), RIGHT - 1);
}

static void write_curve(FILE *out, const PlotSeries *series, int s, const Axis *x, const Axis *y) {
    const PlotSeries *curve = &series[s];
    bool pen_down = false;
    path_begin(out, series, s, curve->reference ? 1.3 : 1.8);
    for (int i = 0; i < curve->n;) {
        double sum_x = 0, sum_y = 0;
        int n = 0;
        for (int first = i; i < curve->n && point_finite(curve, i); i++, n++) {
            if (point_column(curve, i, x) != point_column(curve, first, x)) break;
            sum_x += axis_pixel(x, curve->x[i]);
            sum_y += axis_pixel(y, curve->y[i]);
        }
        if (n) fprintf(out, "%c%.1f %.1f", pen_down ? 'L' : 'M', sum_x / n, sum_y / n);
        pen_down = n > 0;
        i += n == 0; /* a point that is not finite */
    }
    fputs("\"/>\n", out);
}

/* Dots on the points of a curve that has few of them: lines of no length, with round ends. */
static void write_dots(FILE *out, const PlotSeries *series, int s, const Axis *x, const Axis *y) {
    const PlotSeries *curve = &series[s];
    if (curve->reference || curve->n > SPARSE) return;
    path_begin(out, series, s, 5);
    for (int i = 0; i < curve->n; i++)
        if (point_finite(curve, i))
            fprintf(out, "M%.1f %.1fh0", axis_pixel(x, curve->x[i]), axis_pixel(y, curve->y[i]));
    fputs("\"/>\n", out);
}

static size_t characters(const char *utf8) {
    size_t n = 0;
    for (; *utf8; utf8++) n += (*utf8 & 0xC0) != 0x80;
    return n;
}

static void write_legend(FILE *out, const PlotSeries *series, int n_series) {
    size_t longest = 0;
    for (int s = 0; s < n_series; s++)
        if (characters(series[s].name) > longest) longest = characters(series[s].name);
    double width = 52 + 7.0 * (double)longest, left = RIGHT - 8 - width, y = TOP + 8;
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"#fff\" fill-opacity=\"0.85\"/>\n",
            left, y, width, LEGEND_LINE * n_series + 8);
    for (int s = 0; s < n_series; s++) {
        double middle = y + 4 + LEGEND_LINE * (s + 0.5);
        path_begin(out, series, s, series[s].reference ? 1.3 : 2.2);
        fprintf(out, "M%.1f %.1fh28\"/>\n", left + 8, middle);
        svg_text(out, left + 44, middle + 4, "", series[s].name);
    }
}

static void write_chart(FILE *out, const PlotSeries *series, int n_series, const char *title, const char *x_label,
                        const char *y_label, const Axis *x, const Axis *y) {
    svg_begin(out, WIDTH, HEIGHT, title);
    svg_text(out, LEFT, 32, SVG_TITLE, title);
    write_ticks(out, y, true);
    write_ticks(out, x, false);
    fprintf(out, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, BOTTOM, RIGHT);
    svg_text(out, (LEFT + RIGHT) / 2.0, BOTTOM + 44, SVG_CENTRED, x_label);
    svg_text(out, -(TOP + BOTTOM) / 2.0, 20, SVG_CENTRED " transform=\"rotate(-90)\"", y_label);
    for (int s = 0; s < n_series; s++) {
        write_curve(out, series, s, x, y);
        write_dots(out, series, s, x, y);
    }
    write_legend(out, series, n_series);
    svg_end(out);
}

bool plot_can_draw(const Plot *plot, Error *error) {
    Axis x, y;
    return axes_fit(plot->series, plot->n_series, &x, &y, error);
}

bool plot_write_svg(const char *path, const PlotSeries *series, int n_series, const char *title, const char *x_label,
                    const char *y_label, Error *error) {
    Axis x = {.from = LEFT, .to = RIGHT}, y = {.from = BOTTOM, .to = TOP};
    if (!axes_fit(series, n_series, &x, &y, error)) return false;
    TextFile file;
    text_file_begin(&file);
    write_chart(file.out, series, n_series, title, x_label, y_label, &x, &y);
    return text_file_end(&file, path, error);
}
