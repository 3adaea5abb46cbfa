/* The plot: positions of points, round ticks, gaps, bands, marks and refusals. A chart of one curve, whose ticks are
 * three characters wide, has the frame 58..696 by 64..394 pixels; ticks of one digit begin it at 45. */
#include "tests/report/rig.h"

#include <math.h>
#include <unistd.h>

#include "report/plot.h"

/* Returns the SVG of a chart, which must be XML without numbers that are none. */
static char *draw(const Plot *plots, int n, const char *title) {
    char *directory = kept_folder(), *path = kept_path(directory, "plot.svg"), *drawn;
    size_t size;
    Error error;
    if (!plot_write(path, plots, n, title, &error)) fail_msg("%s", error.text);
    FILE *out = open_memstream(&drawn, &size);
    assert_true(plot_draw(out, plots, n, title, &error));
    fclose(out);
    char *text = read_text(path);
    assert_string_equal(text, drawn); /* in a page as in a file */
    assert_xml(text);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    assert_null(strstr(text, " id=\""));
    free(drawn);
    return text;
}

static char *draw_series(const PlotSeries *series, int n_series, const char *title) {
    return keep(draw(&(Plot){.title = "", .x_label = "step", .y_label = "loss", .series = series, .n_series = n_series},
                     1, title));
}

TEST(points_land_where_their_values_say) {
    const double x[] = {0, 50, 100}, y[] = {6, 3.5, 4};
    char *svg = draw_series(&(PlotSeries){.name = "val/loss", .x = x, .y = y, .n = 3}, 1, "A run");
    /* x: 6.38 pixels a step; y: 3.5 .. 6 is shown, 132 pixels a unit */
    assert_contains(svg, "d=\"M58.0 64.0L377.0 394.0L696.0 328.0\"");
    assert_contains(svg, "M377.0 394.0m-3.5 0a3.5 3.5"); /* few points: markers */
    assert_contains(svg, "<title>A run</title>");
    assert_contains(svg, ">A run</text>");
    assert_contains(svg, ">step</text>");
    assert_contains(svg, ">loss</text>");
    assert_contains(svg, ">val/loss</text>");
}

TEST(ticks_are_round) {
    const double x[] = {1, 299}, y[] = {-0.07, 0.31};
    char *svg = draw_series(&(PlotSeries){.name = "a", .x = x, .y = y, .n = 2}, 1, "t");
    static const char *const there[] = {">50<", ">100<", ">250<", ">-0.1<", ">-0.05<", ">0<", ">0.05<", ">0.35<"};
    static const char *const absent[] = {">0.4<", ">-0<", ">300<", ">1<"};
    for (int i = 0; i < 8; i++) assert_contains(svg, there[i]);
    for (int i = 0; i < 4; i++) assert_null(strstr(svg, absent[i]));
    assert_int_equal(occurrences(svg, "class=\"plot-grid\""), 10); /* -0.1, -0.05 .. 0.35 */
}

/* Returns the texts that are anchored at their middle or end: the ticks and labels, separated by a bar. */
static char *ticks_of(double x0, double x1, double y0, double y1, bool log_y) {
    const double x[] = {x0, x1}, y[] = {y0, y1};
    const PlotSeries series = {.name = "", .x = x, .y = y, .n = 2};
    char *svg = keep(draw(
        &(Plot){.title = "", .x_label = "", .y_label = "", .series = &series, .n_series = 1, .log_y = log_y}, 1, ""));
    char *ticks = xcalloc(1, strlen(svg));
    for (const char *at = svg; (at = strstr(at, "text-anchor=")); at++) {
        const char *text = strchr(at, '>') + 1;
        strncat(ticks, text, (size_t)(strchr(text, '<') - text));
        strcat(ticks, "|");
    }
    return keep(keep(ticks));
}

TEST(ticks_are_short_and_whole_where_the_values_are) {
    assert_string_equal(ticks_of(0, 200000, 0, 3e-4, false),
                        "0|0.5e-4|1e-4|1.5e-4|2e-4|2.5e-4|3e-4|0|50k|100k|150k|200k|||");
    assert_string_equal(ticks_of(1, 3, 1e6, 5e6, false), "1M|2M|3M|4M|5M|1|2|3|||"); /* no epoch 1.5 */
    assert_string_equal(ticks_of(0, 4, 0.03, 7, true), "0.02|0.05|0.1|0.2|0.5|1|2|5|10|0|1|2|3|4|||");
    assert_string_equal(ticks_of(0, 4, 2e-3, 30000, true), "1e-3|0.01|0.1|1|10|100|1000|10k|100k|0|1|2|3|4|||");
}

TEST(a_logarithmic_scale_has_equal_decades) {
    const double x[] = {0, 1, 2, 3}, y[] = {1, 10, 0, 100};
    const PlotSeries series = {.name = "", .x = x, .y = y, .n = 4};
    char *svg = keep(draw(
        &(Plot){.title = "", .x_label = "", .y_label = "", .series = &series, .n_series = 1, .log_y = true}, 1, ""));
    /* without title and legend: 16 .. 346; three characters "100"; 0 is a gap */
    assert_contains(svg, "d=\"M61.0 346.0L272.7 181.0M696.0 16.0\"");
}

TEST(a_value_that_is_not_finite_is_a_gap) {
    const double x[] = {0, 1, 2, 3, 4}, y[] = {1, 1, NAN, INFINITY, 2};
    char *svg = draw_series(&(PlotSeries){.name = "a", .x = x, .y = y, .n = 5}, 1, "t");
    assert_contains(svg, "d=\"M58.0 394.0L217.5 394.0M696.0 64.0\"");
}

TEST(a_reference_is_dashed_and_names_are_escaped) {
    const double x[] = {0, 10}, y[] = {2, 1}, level[] = {1.5, 1.5};
    const PlotSeries series[] = {{.name = "loss < 2 & more", .x = x, .y = y, .n = 2},
                                 {.name = "floor", .x = x, .y = level, .n = 2, .reference = true}};
    char *svg = draw_series(series, 2, "<b>\xFF");
    assert_contains(svg, ">loss &lt; 2 &amp; more</text>");
    assert_contains(svg, ">&lt;b&gt; </text>");
    assert_contains(svg, "stroke-dasharray=\"6 4\" d=\"M58.0 229.0L696.0 229.0\"");
    assert_int_equal(occurrences(svg, "<text"), occurrences(svg, "</text>"));
    assert_int_equal(occurrences(svg, "</svg>"), 1);
}

/* Curves differ in colour, dashes and marker. The legend is above the frame, and its lines are as long as the frame. */
TEST(curves_differ_and_the_legend_is_outside) {
    enum { N = 12 };
    const double x[] = {0, 1}, y[] = {0, 1};
    PlotSeries series[N];
    for (int s = 0; s < N; s++) series[s] = (PlotSeries){.name = "a curve with a long name", .x = x, .y = y, .n = 2};
    char *svg = draw_series(series, N, "t");
    char *first = strstr(svg, "class=\"plot-line\" stroke="),
         *second = strstr(first + 1, "class=\"plot-line\" stroke=");
    assert_memory_equal(first, "class=\"plot-line\" stroke=\"#126bda\" stroke-width=\"2\" stroke-dasharray=\"none\"",
                        70);
    assert_memory_equal(second, "class=\"plot-line\" stroke=\"#e77300\" stroke-width=\"2\" stroke-dasharray=\"9 4\"",
                        69);
    const char *axis = strstr(svg, "V394.0H696.0"); /* down and to the right */
    if (!axis) axis = strstr(svg, "H696.0\"/>\n<text x=");
    double top = strtod(strchr(strstr(svg, "class=\"plot-grid\""), 'M') + 1, NULL);
    assert_true(top > 0 && axis);
    double frame = INFINITY, lowest = 0, last_x = 0;
    for (const char *at = svg; (at = strstr(at, "class=\"plot-grid\" d=\"M")); at++)
        frame = fmin(frame, strtod(strchr(strchr(at, 'M'), ' ') + 1, NULL));
    for (const char *at = svg; (at = strstr(at, ">a curve with a long name<")); at++) {
        const char *text = at;
        while (strncmp(text, "<text", 5)) text--;
        last_x = fmax(last_x, strtod(strstr(text, "x=\"") + 3, NULL));
        lowest = fmax(lowest, strtod(strstr(text, "y=\"") + 3, NULL));
    }
    assert_true(lowest > 0 && lowest < frame);
    assert_true(last_x + 24 * 5 < 720);
}

TEST(a_long_run_makes_a_small_picture) {
    enum { N = 200000 };
    double *x = xmalloc(N * sizeof *x), *y = xmalloc(N * sizeof *y);
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = i % 2 ? 1 : 3;
    }
    char *svg = draw_series(&(PlotSeries){.name = "a", .x = x, .y = y, .n = N}, 1, "t");
    assert_true(strlen(svg) < 40000);
    char *line = strstr(strstr(svg, "class=\"plot-line\" "), " d=\"");
    *strstr(line, "/>") = 0;
    assert_int_equal(occurrences(line, "L"), 696 - 58 - 1); /* a point a column */
    /* Each point is a mean of hundreds of values 1 and 3. There are 200000 / 638 = 313 values per column, so the mean
     * is at most 1/312 of 165 pixels from the middle. */
    for (const char *at = strchr(line, 'M'); *at != '"'; at = strpbrk(at + 1, "L\""))
        assert_true(fabs(strtod(strchr(at, ' '), NULL) - 229) < 165.0 / 312 + 0.05);
    char *band = strstr(svg, "class=\"plot-band\""); /* from 1 to 3, the whole height */
    assert_contains(band, "M58.5 64.0L");
    assert_contains(band, "L58.5 394.0z");
    free(x);
    free(y);
}

/* Most columns of pixels have one point, whose range is nothing: the band goes on through them. */
TEST(the_range_of_a_run_of_middle_length_is_one_band) {
    enum { COLUMNS = 696 - 58, N = COLUMNS * 11 / 10 };
    double x[N], y[N];
    for (int i = 0; i < N; i++) x[i] = i, y[i] = i % 2 ? 1 : 3;
    char *svg = draw_series(&(PlotSeries){.name = "a", .x = x, .y = y, .n = N}, 1, "t");
    char *band = strstr(strstr(svg, "class=\"plot-band\""), " d=\"");
    *strstr(band, "/>") = 0;
    assert_int_equal(occurrences(band, "M"), 1);
    assert_int_equal(occurrences(band, "z"), 1);
    assert_int_equal(occurrences(band, "L"), 2 * COLUMNS - 1);
}

TEST(one_point_is_a_marker) {
    const double x[] = {7}, y[] = {2};
    char *svg = draw_series(&(PlotSeries){.name = "a", .x = x, .y = y, .n = 1}, 1, "t");
    assert_contains(svg, "229.0m-3.5 0a");
}

TEST(the_best_point_is_ringed_and_restarts_are_lines) {
    const double x[] = {0, 50, 100}, y[] = {6, 3.5, 4}, restarts[] = {25, 1000};
    const PlotSeries series = {.name = "val", .x = x, .y = y, .n = 3, .best = 2, .best_text = "best: 3.5 <at> 50"};
    char *svg = keep(draw(&(Plot){.title = "",
                                  .x_label = "step",
                                  .y_label = "loss",
                                  .series = &series,
                                  .n_series = 1,
                                  .restarts = restarts,
                                  .n_restarts = 2},
                          1, "t"));
    assert_int_equal(occurrences(svg, "<circle"), 2); /* on the curve, and in the legend, where its text is */
    assert_contains(svg, "plot-best\" cx=\"377.0\" cy=\"394.0\" r=\"7\"");
    assert_contains(svg, ">best: 3.5 &lt;at&gt; 50</text>");
    assert_int_equal(occurrences(svg, "plot-restart"), 1); /* step 1000 is outside */
    assert_contains(svg, "d=\"M217.5 64.0V394.0\"");
    assert_contains(svg, ">restart</text>");
}

TEST(a_band_is_filled_between_its_sides) {
    const double x[] = {0, 50, 100}, y[] = {1, 1.5, 1}, low[] = {0.5, 1, NAN}, high[] = {1.5, 2, NAN};
    const PlotSeries series = {
        .name = "m", .x = x, .y = y, .low = low, .high = high, .n = 3, .band = "95 %", .mean = true};
    char *svg = draw_series(&series, 1, "t");
    /* 0.4 .. 2 is shown */
    assert_contains(svg,
                    "plot-band plot-ink\" fill-opacity=\"0.18\" d=\"M58.0 167.1L377.0 64.0L377.0 270.2L58.0 373.4z\"");
    assert_contains(svg, ">95 %</text>");
}

/* A phone's screen has some 330 pixels for a chart. The legend's lines are as long as the chart. */
TEST(a_narrow_chart_is_legible_on_a_phone) {
    const double x[] = {1, 2}, y[] = {0.01, 0.025};
    const PlotSeries series = {.name = "validation",
                               .x = x,
                               .y = y,
                               .n = 2,
                               .best = 2,
                               .best_text = "best weights: 0.02459, step 123456, epoch 12"};
    Plot plot = {.title = "", .x_label = "", .y_label = "", .series = &series, .n_series = 1, .narrow = true};
    char *svg = keep(draw(&plot, 1, "t"));
    assert_contains(svg, " width=\"420\"");
    assert_contains(svg, ">best weights: 0.02459, step 123456, epoch 12</text>");
    assert_contains(svg, "H396.0\"/>"); /* the axis ends within the chart */
}

/* Draws the unit square, whose legend is below. */
TEST(the_unit_square_keeps_corners_and_steps) {
    const double x[] = {0, 0, 0.0005, 0.5, 1}, y[] = {0, 0.6, 0.6, 1, 1};
    const double recall[] = {0, 0.5, 0.5, 1}, precision[] = {1, 1, 0.2, 0.5};
    const PlotSeries roc = {.name = "roc", .x = x, .y = y, .n = 5},
                     pr = {.name = "pr", .x = recall, .y = precision, .n = 4, .steps = true};
    Plot plot = {.title = "", .x_label = "", .y_label = "", .series = &roc, .n_series = 1, .unit = true};
    char *svg = keep(draw(&plot, 1, "t")); /* 58..478 by 40..460; a point a fifth of a pixel away is left out */
    assert_contains(svg, "d=\"M58.0 460.0L58.0 208.0L268.0 40.0L478.0 40.0\"");
    assert_contains(svg, " width=\"502\"");
    assert_contains(svg, "<text x=\"58.0\" y=\"530.0\" >roc</text>");
    plot.series = &pr;
    svg = keep(draw(&plot, 1, "t")); /* a precision holds up to its recall; one without a new recall holds nowhere */
    assert_contains(svg, "d=\"M58.0 40.0V40.0H268.0V250.0H478.0\"");
}

TEST(charts_of_a_figure_stand_in_two_columns) {
    const double x[] = {0, 1}, y[] = {0, 1};
    const PlotSeries one = {.name = "a", .x = x, .y = y, .n = 2}, none = {.name = "", .x = x, .y = y, .n = 2};
    const Plot plots[3] = {{.title = "first", .x_label = "x", .y_label = "y", .series = &one, .n_series = 1},
                           {.title = "second", .x_label = "x", .y_label = "y", .series = &none, .n_series = 1},
                           {.title = "third", .x_label = "x", .y_label = "y", .series = &none, .n_series = 1}};
    char *svg = keep(draw(plots, 3, "figure"));
    static const char *const there[] = {">figure</text>", ">first</text>", ">second</text>", ">third</text>"};
    for (int i = 0; i < 4; i++) assert_contains(svg, there[i]);
    assert_contains(svg, "width=\"960\"");
    assert_contains(svg, "M58.0 108.0V318.0H456.0");  /* below its legend */
    assert_contains(svg, "M538.0 108.0V318.0H936.0"); /* at the same height without one */
    assert_int_equal(occurrences(svg, "<svg"), 1);
}

/* The last ticks of an axis are its ends, also where widening makes it longer than three decades, or eight. */
TEST(a_logarithmic_axis_ends_at_ticks) {
    assert_string_equal(ticks_of(0, 4, 0.11, 105, true), "0.1|0.2|0.5|1|2|5|10|20|50|100|200|0|1|2|3|4|||");
    assert_string_equal(ticks_of(0, 4, 1.1e-4, 0.9e4, true), "1e-4|1e-3|0.01|0.1|1|10|100|1000|10k|0|1|2|3|4|||");
    assert_string_equal(ticks_of(0, 4, 0.9e-4, 0.8e4, true), "1e-5|1e-4|1e-3|0.01|0.1|1|10|100|1000|10k|0|1|2|3|4|||");
}

TEST(ticks_of_nearly_equal_values_differ) {
    assert_string_equal(ticks_of(0, 4, 1, 1 + 1e-6, false),
                        "1|1.0000002|1.0000004|1.0000006|1.0000008|1.000001|0|1|2|3|4|||");
    assert_string_equal(ticks_of(0, 4, 2, 2 + 1e-8, false), "0.5|1|1.5|2|2.5|3|3.5|0|1|2|3|4|||"); /* a level */
    assert_string_equal(ticks_of(0, 4, 1e-4, 1e-4, false),
                        "0.4e-4|0.6e-4|0.8e-4|1e-4|1.2e-4|1.4e-4|1.6e-4|0|1|2|3|4|||");
    assert_string_equal(ticks_of(0, 4, 3e-3, 3.00021e-3, false),
                        "3e-3|3.00005e-3|3.0001e-3|3.00015e-3|3.0002e-3|3.00025e-3|0|1|2|3|4|||");
}

/* Draws values that ticks cannot separate. The plot is not larger than that of any two points. */
TEST(nearly_equal_values_make_a_plot_of_bounded_size) {
    const double x[] = {1, 2}, all[][2] = {{0, 5e-324}, {1e300, 1.0000000000000002e300}, {-1, -1 + 1e-16}, {1, 1}};
    for (int i = 0; i < 8; i++) {
        const PlotSeries series = {.name = "a", .x = x, .y = all[i / 2], .n = 2};
        char *svg = keep(draw(&(Plot){.title = "",
                                      .x_label = "",
                                      .y_label = "",
                                      .series = &series,
                                      .n_series = 1,
                                      .log_y = i % 2 && all[i / 2][1] == 1},
                              1, "t"));
        assert_true(strlen(svg) < 20000);
    }
}

TEST(points_that_cannot_be_drawn_are_refused) {
    const double x[] = {0, 1}, nan[] = {NAN, NAN}, huge[] = {-1e308, 1e308}, y[] = {1, 2};
    char *directory = kept_folder(), *path = kept_path(directory, "plot.svg");
    PlotSeries series = {.name = "a", .x = x, .y = nan, .n = 2};
    Plot plot = {.title = "", .x_label = "x", .y_label = "y", .series = &series};
    Error error;
    assert_false(plot_write(path, &plot, 0, "t", &error));
    assert_contains(error.text, "there is no chart");
    assert_false(plot_write(path, &plot, 1, "t", &error));
    assert_contains(error.text, "no series has a finite point");
    plot.n_series = 1;
    assert_false(plot_write(path, &plot, 1, "t", &error));
    assert_contains(error.text, "no series has a finite point");
    series.y = huge;
    assert_false(plot_can_draw(&plot, &error));
    assert_false(plot_write(path, &plot, 1, "t", &error));
    assert_contains(error.text, "too far apart");
    series.y = (const double[]){5e-324, 1};
    plot.log_y = true;
    assert_false(plot_can_draw(&plot, &error));
    assert_contains(error.text, "too far from 1");
    plot.log_y = false;
    assert_int_equal(access(path, F_OK), -1);
    series.y = y;
    assert_true(plot_can_draw(&plot, &error));
    assert_false(plot_write("/nowhere/a.svg", &plot, 1, "t", &error));
    assert_contains(error.text, "/nowhere/a.svg");
}
