/* A chart is placed through two Axis values, which map data to pixels. Points that share a column of pixels are drawn
 * as their mean within the band of their least and greatest, so that a run of a million steps makes a picture of some
 * kilobytes that still shows its noise. Curves in the unit square keep their corners instead: points nearer than
 * a pixel to the one before are left out. */
#include "report/plot.h"

#include <math.h>
#include <stdlib.h>

#include "base/text_file.h"
#include "report/axis.h"
#include "report/svg.h"

enum { LEGEND_LINE = 20, SAMPLE = 34 /* pixels of a line in the legend, and the space behind it */ };
enum { SPARSE = 60 /* curves of up to so many points have markers */, SIDE = 420 /* of a unit chart */ };
enum { WIDTH = 720, HEIGHT = 330, COLUMN = 480, COLUMN_HEIGHT = 210, NARROW = 420, NARROW_HEIGHT = 200 };
static const double CLOSE = 1; /* pixels */
static const char *const HEADING = "font-size=\"15\" font-weight=\"600\"";

/* A chart within its figure, in pixels. */
typedef struct {
    const Plot *plot;
    const char *heading;
    double left_edge, top_edge, width, height; /* all of it */
    double legend_left, legend_top, legend_width;
    Axis x, y;
} Chart;

/* ---- axes ---- */

static bool is_drawn(const Plot *plot, const PlotSeries *s, int i) {
    return isfinite(s->x[i]) && isfinite(s->y[i]) && (!plot->log_y || s->y[i] > 0);
}

static bool has_band(const Plot *plot, const PlotSeries *s, int i) {
    return s->low && isfinite(s->low[i]) && isfinite(s->high[i]) && (!plot->log_y || s->low[i] > 0);
}

/* Fits the axes to the points of all series. False: there is none, or their range exceeds that of a double. */
static bool axes_fit(const Plot *plot, Axis *x, Axis *y, Error *error) {
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    bool whole = true;
    for (int s = 0; s < plot->n_series; s++)
        for (int i = 0; i < plot->series[s].n; i++) {
            const PlotSeries *at = &plot->series[s];
            if (!is_drawn(plot, at, i)) continue;
            bool band = has_band(plot, at, i);
            low[0] = fmin(low[0], at->x[i]), high[0] = fmax(high[0], at->x[i]);
            low[1] = fmin(low[1], band ? fmin(at->y[i], at->low[i]) : at->y[i]);
            high[1] = fmax(high[1], band ? fmax(at->y[i], at->high[i]) : at->y[i]);
            whole = whole && at->x[i] == floor(at->x[i]);
        }
    if (low[0] > high[0]) return error_set(error, "nothing to draw: no series has a finite point");
    if (plot->unit) low[0] = low[1] = 0, high[0] = high[1] = 1;
    x->whole = whole && !plot->unit;
    y->logarithmic = plot->log_y;
    return axis_fit(x, low[0], high[0], error) && axis_fit(y, low[1], high[1], error) && axis_widen(y, error);
}

bool plot_can_draw(const Plot *plot, Error *error) {
    Axis x = {0}, y = {0};
    return axes_fit(plot, &x, &y, error);
}

static void write_axes(FILE *out, const Chart *c) {
    double ticks[AXIS_MAX_TICKS], left = c->x.from, bottom = c->y.from;
    char text[32];
    int n = axis_ticks(&c->y, ticks);
    for (int k = 0; k < n; k++) {
        double at = axis_pixel(&c->y, ticks[k]);
        fprintf(out, "<path class=\"plot-grid\" d=\"M%.1f %.1fH%.1f\"/>\n", left, at, c->x.to);
        svg_text(out, left - 8, at + 4, "text-anchor=\"end\"", axis_text(&c->y, ticks[k], text));
    }
    n = axis_ticks(&c->x, ticks);
    for (int k = 0; k < n; k++) {
        double at = axis_pixel(&c->x, ticks[k]);
        fprintf(out, "<path class=\"plot-axis\" d=\"M%.1f %.1fv5\"/>\n", at, bottom);
        svg_text(out, at, bottom + 20, SVG_CENTRED, axis_text(&c->x, ticks[k], text));
    }
    fprintf(out, "<path class=\"plot-axis\" d=\"M%.1f %.1fV%.1fH%.1f\"/>\n", left, c->y.to, bottom, c->x.to);
    svg_text(out, (left + c->x.to) / 2, bottom + 42, SVG_CENTRED, c->plot->x_label);
    OWNED char *label = svg_text_fit(c->plot->y_label, bottom - c->y.to);
    svg_turned(out, c->left_edge + 18, (c->y.to + bottom) / 2, -90, SVG_CENTRED, label);
}

/* ---- curves ---- */

/* Points in pixels; NaN: a gap in the line, or no band. */
typedef struct {
    double *x, *y, *low, *high;
    int n;
} Trace;

/* Returns the column of pixels in which a point lies; the right border belongs to the last one. */
static int column_of(const Axis *x, double value) { return (int)fmin(axis_pixel(x, value), x->to - 1); }

/* Returns whether points are drawn as means, with their range as the band. */
static bool has_range(const Chart *c, const PlotSeries *s) {
    return !c->plot->unit && !s->low && !s->reference && s->n > c->x.to - c->x.from;
}

/* Adds the mean of points first .. end - 1. */
static void trace_add(Trace *t, const Chart *c, const PlotSeries *s, int first, int end) {
    double x = 0, y = 0, top = INFINITY, bottom = -INFINITY;
    for (int i = first; i < end; i++) {
        double at = axis_pixel(&c->y, s->y[i]);
        bool band = has_band(c->plot, s, i);
        x += axis_pixel(&c->x, s->x[i]), y += at;
        if (!band && !has_range(c, s)) continue;
        top = fmin(top, band ? axis_pixel(&c->y, s->high[i]) : at);
        bottom = fmax(bottom, band ? axis_pixel(&c->y, s->low[i]) : at);
    }
    t->x[t->n] = x / (end - first), t->y[t->n] = y / (end - first);
    t->low[t->n] = bottom >= top ? bottom : NAN, t->high[t->n] = bottom >= top ? top : NAN;
    t->n++;
}

static bool is_close(const Trace *t, const Chart *c, double x, double y) {
    if (!t->n) return false;
    return hypot(axis_pixel(&c->x, x) - t->x[t->n - 1], axis_pixel(&c->y, y) - t->y[t->n - 1]) < CLOSE;
}

static Trace trace_make(const Chart *c, const PlotSeries *s) {
    size_t room = (size_t)s->n + 1;
    double *values = xmalloc(4 * room * sizeof *values);
    Trace t = {values, values + room, values + 2 * room, values + 3 * room, 0};
    for (int i = 0, end; i < s->n; i = end) {
        end = i + 1;
        if (s->steps && i && s->x[i] == s->x[i - 1]) continue; /* holds nowhere */
        if (!is_drawn(c->plot, s, i)) {
            t.x[t.n] = t.y[t.n] = t.low[t.n] = t.high[t.n] = NAN;
            t.n++;
        } else if (!c->plot->unit) {
            while (end < s->n && is_drawn(c->plot, s, end) && column_of(&c->x, s->x[end]) == column_of(&c->x, s->x[i]))
                end++;
            trace_add(&t, c, s, i, end);
        } else if (end == s->n || !is_close(&t, c, s->x[i], s->y[i])) {
            trace_add(&t, c, s, i, end);
        }
    }
    return t;
}

static int number_of(const Plot *plot, const PlotSeries *series) {
    int number = 0;
    for (const PlotSeries *s = plot->series; s < series; s++) number += !s->reference && !s->mean && !s->minor;
    return number;
}

/* Begins a path in the stroke of a series: each curve has its colour and dashes, references are grey. */
static void line_begin(FILE *out, const Plot *plot, const PlotSeries *s) {
    int number = number_of(plot, s);
    if (s->reference)
        fputs("<path class=\"plot-line plot-muted\" stroke-width=\"1.3\" stroke-dasharray=\"6 4\" d=\"", out);
    else if (s->mean)
        fputs("<path class=\"plot-line plot-ink\" stroke-width=\"2.8\" d=\"", out);
    else
        fprintf(out, "<path class=\"plot-line\" stroke=\"%s\" stroke-width=\"%s\" stroke-dasharray=\"%s\" d=\"",
                SVG_PALETTE[number % SVG_COLOURS],
                s->minor                          ? "1"
                : plot->unit && s != plot->series ? "1.4"
                                                  : "2",
                SVG_DASH[number % SVG_DASHES]);
}

static void write_line(FILE *out, const Chart *c, const PlotSeries *s, const Trace *t) {
    bool pen_down = false;
    line_begin(out, c->plot, s);
    for (int i = 0; i < t->n; i++) {
        bool drawn = !isnan(t->x[i]);
        if (drawn && pen_down && s->steps) fprintf(out, "V%.1fH%.1f", t->y[i], t->x[i]);
        if (drawn && !(pen_down && s->steps)) fprintf(out, "%c%.1f %.1f", pen_down ? 'L' : 'M', t->x[i], t->y[i]);
        pen_down = drawn;
    }
    fputs("\"/>\n", out);
}

static void band_begin(FILE *out, const Plot *plot, const PlotSeries *s) {
    if (s->mean)
        fputs("<path class=\"plot-band plot-ink\" fill-opacity=\"0.18\" d=\"", out);
    else
        fprintf(out, "<path class=\"plot-band\" fill=\"%s\" fill-opacity=\"0.22\" d=\"",
                SVG_PALETTE[number_of(plot, s) % SVG_COLOURS]);
}

/* Fills the band: a polygon for each stretch that has one, along its upper side and back along the lower. */
static void write_band(FILE *out, const Chart *c, const PlotSeries *s, const Trace *t) {
    int bands = 0;
    for (int i = 0; i < t->n; i++) bands += !isnan(t->low[i]);
    if (bands < 2) return;
    band_begin(out, c->plot, s);
    for (int i = 0, end; i < t->n; i = end + 1) {
        for (end = i; end < t->n && !isnan(t->low[end]); end++)
            fprintf(out, "%c%.1f %.1f", end > i ? 'L' : 'M', t->x[end], t->high[end]);
        for (int back = end - 1; back >= i; back--) fprintf(out, "L%.1f %.1f", t->x[back], t->low[back]);
        if (end > i) fputc('z', out);
    }
    fputs("\"/>\n", out);
}

/* Adds a marker to a path: circle, square, triangle or diamond of some 7 pixels. */
static void write_marker(FILE *out, int number, double x, double y) {
    static const char *const shapes[] = {"m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z", "m-3-3h6v6h-6z",
                                         "m0-4l3.8 6.6h-7.6z", "m0-4.2l4.2 4.2l-4.2 4.2l-4.2-4.2z"};
    fprintf(out, "M%.1f %.1f%s", x, y, shapes[number % 4]);
}

static void markers_begin(FILE *out, int number) {
    fprintf(out, "<path class=\"plot-marker\" fill=\"%s\" d=\"", SVG_PALETTE[number % SVG_COLOURS]);
}

static bool has_markers(const Plot *plot, const PlotSeries *s) {
    return !s->reference && !s->mean && !s->minor && s->n <= SPARSE && !plot->unit;
}

static void write_series(FILE *out, const Chart *c, const PlotSeries *s) {
    Trace t = trace_make(c, s);
    write_band(out, c, s, &t);
    write_line(out, c, s, &t);
    if (has_markers(c->plot, s)) {
        markers_begin(out, number_of(c->plot, s));
        for (int i = 0; i < s->n; i++)
            if (is_drawn(c->plot, s, i))
                write_marker(out, number_of(c->plot, s), axis_pixel(&c->x, s->x[i]), axis_pixel(&c->y, s->y[i]));
        fputs("\"/>\n", out);
    }
    free(t.x);
}

/* ---- marks ---- */

static void write_restarts(FILE *out, const Chart *c) {
    const Plot *p = c->plot;
    for (int i = 0; i < p->n_restarts; i++) {
        if (!(p->restarts[i] >= c->x.low && p->restarts[i] <= c->x.high)) continue;
        fprintf(out,
                "<path class=\"plot-line plot-muted plot-restart\" stroke-dasharray=\"2 3\" d=\"M%.1f %.1fV%.1f\"/>\n",
                axis_pixel(&c->x, p->restarts[i]), c->y.to, c->y.from);
    }
}

static bool has_best(const Plot *plot, const PlotSeries *s) {
    return s->best >= 1 && s->best <= s->n && is_drawn(plot, s, s->best - 1);
}

static void write_ring(FILE *out, double x, double y) {
    fprintf(out,
            "<circle class=\"plot-line plot-ink plot-best\" cx=\"%.1f\" cy=\"%.1f\" r=\"7\" stroke-width=\"2\"/>\n", x,
            y);
}

/* Rings the best point of a series. What it is stands in the legend, where no curve crosses the text. */
static void write_best(FILE *out, const Chart *c, const PlotSeries *s) {
    if (has_best(c->plot, s))
        write_ring(out, axis_pixel(&c->x, s->x[s->best - 1]), axis_pixel(&c->y, s->y[s->best - 1]));
}

/* ---- legend ---- */

/* Places entry after entry, from left to right and from line to line. */
typedef struct {
    FILE *out; /* NULL: only measured */
    const Chart *chart;
    double x, y; /* of the next entry, relative to the legend */
    int lines;
} Legend;

/* Begins an entry and writes its text; the sample of the line follows at *x, *y. False: nothing is to be drawn. */
static bool legend_entry(Legend *l, const char *name, double *x, double *y) {
    double room = l->chart->legend_width, width = fmin(SAMPLE + svg_text_width(name), room);
    if (!l->lines || l->x + width > room || l->chart->plot->unit) l->x = 0, l->y = LEGEND_LINE * l->lines++;
    *x = l->chart->legend_left + l->x, *y = l->chart->legend_top + l->y + LEGEND_LINE / 2.0;
    l->x += width + 18;
    if (!l->out) return false;
    OWNED char *shown = svg_text_fit(name, room - SAMPLE);
    svg_text(l->out, *x + SAMPLE, *y + 4, "", shown);
    return true;
}

static void legend_series(Legend *l, const PlotSeries *s) {
    const Plot *plot = l->chart->plot;
    double x, y;
    if (s->name[0] && legend_entry(l, s->name, &x, &y)) {
        line_begin(l->out, plot, s);
        fprintf(l->out, "M%.1f %.1fh28\"/>\n", x, y);
        if (has_markers(plot, s)) {
            markers_begin(l->out, number_of(plot, s));
            write_marker(l->out, number_of(plot, s), x + 14, y);
            fputs("\"/>\n", l->out);
        }
    }
    const char *band = s->band ? s->band : has_range(l->chart, s) ? (s->name[0] ? "its range" : "range") : NULL;
    if (band && legend_entry(l, band, &x, &y)) {
        band_begin(l->out, plot, s);
        fprintf(l->out, "M%.1f %.1fh28v12h-28z\"/>\n", x, y - 6);
    }
    if (s->best_text && has_best(plot, s) && legend_entry(l, s->best_text, &x, &y)) write_ring(l->out, x + 14, y);
}

/* Returns the number of lines. Where restarts may come they have their place from the beginning, so that a chart of a
 * run that was stopped differs in nothing but their lines. */
static int write_legend(FILE *out, const Chart *c) {
    Legend l = {.out = out, .chart = c};
    double x, y;
    for (int s = 0; s < c->plot->n_series; s++) legend_series(&l, &c->plot->series[s]);
    if ((c->plot->n_restarts || (!out && c->plot->restarts)) && l.lines && legend_entry(&l, "restart", &x, &y))
        fprintf(out, "<path class=\"plot-line plot-muted\" stroke-dasharray=\"2 3\" d=\"M%.1f %.1fv14\"/>\n", x + 14,
                y - 7);
    return l.lines;
}

/* ---- layout ---- */

/* Places title, legend (above the frame, below a unit chart's) and axes; all have left_edge, top_edge and width. */
static bool chart_place(Chart *c, double high, Error *error) {
    double ticks[AXIS_MAX_TICKS], widest = 0;
    char text[32];
    if (!axes_fit(c->plot, &c->x, &c->y, error)) return false;
    int n = axis_ticks(&c->y, ticks);
    for (int k = 0; k < n; k++) widest = fmax(widest, svg_text_width(axis_text(&c->y, ticks[k], text)));
    double top = c->top_edge + (c->heading[0] ? 36 : 12);
    c->x.from = c->left_edge + 36 + ceil(widest);
    bool unit = c->plot->unit;
    c->x.to = unit ? c->x.from + SIDE : c->left_edge + c->width - 24;
    c->legend_left = unit || c->plot->narrow ? c->left_edge + 24 : c->x.from;
    c->legend_width = c->x.to - c->legend_left;
    int lines = write_legend(NULL, c);
    c->y.to = top + (unit || !lines ? 4 : lines * LEGEND_LINE + 8);
    c->y.from = c->y.to + high;
    c->legend_top = unit ? c->y.from + 56 : top;
    c->height = c->y.from + 56 + (unit ? lines * LEGEND_LINE + 12 : 0) - c->top_edge;
    if (unit) c->width = c->x.to + 24 - c->left_edge;
    return true;
}

static void write_chart(FILE *out, const Chart *c) {
    OWNED char *heading = svg_text_fit(c->heading, (c->left_edge + c->width - 12 - c->x.from) * 13 / 15);
    svg_text(out, c->x.from, c->top_edge + 24, HEADING, heading);
    write_axes(out, c);
    write_restarts(out, c);
    for (int k = 0; k < c->plot->n_series; k++) /* in the unit square the first is drawn over the others */
        write_series(out, c, &c->plot->series[c->plot->unit ? c->plot->n_series - 1 - k : k]);
    for (int k = 0; k < c->plot->n_series; k++) write_best(out, c, &c->plot->series[k]);
    write_legend(out, c);
}

static void chart_lower(Chart *c, double by) { c->y.from += by, c->y.to += by, c->height += by; }

/* Places charts in two columns, or one in one; size: of the figure. */
static bool charts_place(Chart *charts, const Plot *plots, int n, const char *title, double size[2], Error *error) {
    double top = n > 1 && title[0] ? 44 : 0;
    size[0] = 0;
    for (int i = 0; i < n; i++) {
        charts[i] = (Chart){.plot = &plots[i],
                            .heading = n > 1 || !title[0] ? plots[i].title : title,
                            .top_edge = top,
                            .left_edge = i % 2 ? COLUMN : 0,
                            .width = n > 1             ? COLUMN
                                     : plots[i].narrow ? NARROW
                                                       : WIDTH};
        int high = plots[i].unit ? SIDE : n > 1 ? COLUMN_HEIGHT : plots[i].narrow ? NARROW_HEIGHT : HEIGHT;
        if (!chart_place(&charts[i], high, error)) return false;
        double lower = i % 2 ? charts[i - 1].y.to - charts[i].y.to : 0; /* frames of a row begin at the same height */
        if (lower > 0) chart_lower(&charts[i], lower);
        if (lower < 0) chart_lower(&charts[i - 1], -lower);
        size[0] = fmax(size[0], charts[i].left_edge + charts[i].width);
        if (i % 2 || i + 1 == n) top += fmax(charts[i].height, i % 2 ? charts[i - 1].height : 0);
    }
    size[1] = top;
    return true;
}

bool plot_draw(FILE *out, const Plot *plots, int n, const char *title, Error *error) {
    if (n < 1) return error_set(error, "nothing to draw: there is no chart");
    OWNED Chart *charts = xmalloc((size_t)n * sizeof *charts);
    double size[2];
    bool ok = charts_place(charts, plots, n, title, size, error);
    if (ok) {
        svg_begin(out, size[0], size[1], title[0] ? title : plots[0].title);
        if (n > 1 && title[0]) svg_text(out, 24, 30, SVG_TITLE, title);
        for (int i = 0; i < n; i++) write_chart(out, &charts[i]);
        svg_end(out);
    }
    return ok;
}

bool plot_write(const char *path, const Plot *plots, int n, const char *title, Error *error) {
    for (int i = 0; i < n; i++)
        if (!plot_can_draw(&plots[i], error)) return false;
    if (n < 1) return error_set(error, "nothing to draw: there is no chart");
    TextFile file;
    text_file_begin(&file);
    plot_draw(file.out, plots, n, title, error);
    return text_file_end(&file, path, error);
}
