/* The plot: positions of points, round ticks, gaps, dots and refusals. Its frame is 72..776 by 56..424 pixels. */
#include "tests/report/rig.h"

#include <math.h>

#include "report/plot.h"

/* Returns the SVG of these series. */
static char *draw(const PlotSeries *series, int n_series, const char *title) {
    char *directory = scratch_directory(), *path = path_join(directory, "plot.svg");
    Error error;
    if (!plot_write_svg(path, series, n_series, title, "step", "loss", &error)) fail_msg("%s", error.text);
    char *text = read_text(path);
    free(directory);
    free(path);
    return text;
}

static void points_land_where_their_values_say(void **state) {
    (void)state;
    const double x[] = {0, 50, 100}, y[] = {6, 3.5, 4};
    char *svg = draw(&(PlotSeries){.name = "val/loss", .x = x, .y = y, .n = 3}, 1, "A run");
    /* x: 7.04 pixels a step; y: 3.5 .. 6 is shown, 147.2 pixels a unit */
    assert_contains(svg, "d=\"M72.0 56.0L424.0 424.0L776.0 350.4\"");
    assert_contains(svg, "d=\"M72.0 56.0h0M424.0 424.0h0M776.0 350.4h0\""); /* few points: dots */
    assert_contains(svg, ">A run</text>");
    assert_contains(svg, ">step</text>");
    assert_contains(svg, ">loss</text>");
    assert_contains(svg, ">val/loss</text>");
    free(svg);
}

static void ticks_are_round(void **state) {
    (void)state;
    const double x[] = {1, 299}, y[] = {-0.07, 0.31};
    char *svg = draw(&(PlotSeries){.name = "a", .x = x, .y = y, .n = 2}, 1, "t");
    static const char *const there[] = {">50<", ">100<", ">250<", ">-0.1<", ">-0.05<", ">0<", ">0.05<", ">0.35<"};
    static const char *const absent[] = {">0.4<", ">-0<", ">300<", ">1<"};
    for (int i = 0; i < 8; i++) assert_contains(svg, there[i]);
    for (int i = 0; i < 4; i++) assert_null(strstr(svg, absent[i]));
    assert_int_equal(occurrences(svg, "class=\"grid\""), 10); /* -0.1, -0.05 .. 0.35 */
    free(svg);
}

static void a_value_that_is_not_finite_is_a_gap(void **state) {
    (void)state;
    const double x[] = {0, 1, 2, 3, 4}, y[] = {1, 1, NAN, INFINITY, 2};
    char *svg = draw(&(PlotSeries){.name = "a", .x = x, .y = y, .n = 5}, 1, "t");
    assert_contains(svg, "d=\"M72.0 424.0L248.0 424.0M776.0 56.0\"");
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
    free(svg);
}

static void a_reference_is_dashed_and_names_are_escaped(void **state) {
    (void)state;
    const double x[] = {0, 10}, y[] = {2, 1}, level[] = {1.5, 1.5};
    const PlotSeries series[] = {{.name = "loss < 2 & more", .x = x, .y = y, .n = 2},
                                 {.name = "floor", .x = x, .y = level, .n = 2, .reference = true}};
    char *svg = draw(series, 2, "<b>");
    assert_contains(svg, ">loss &lt; 2 &amp; more</text>");
    assert_contains(svg, ">&lt;b&gt;</text>");
    assert_int_equal(occurrences(svg, "stroke-dasharray"), 2); /* the line, and its sample in the legend */
    assert_contains(svg, "stroke-dasharray=\"6 4\" d=\"M72.0 240.0L776.0 240.0\"");
    assert_int_equal(occurrences(svg, "<text"), occurrences(svg, "</text>"));
    assert_int_equal(occurrences(svg, "</svg>"), 1);
    free(svg);
}

static void a_long_run_makes_a_small_picture(void **state) {
    (void)state;
    enum { N = 200000 };
    double *x = xmalloc(N * sizeof *x), *y = xmalloc(N * sizeof *y);
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = i % 2 ? 1 : 3;
    }
    char *svg = draw(&(PlotSeries){.name = "a", .x = x, .y = y, .n = N}, 1, "t");
    assert_true(strlen(svg) < 20000);
    assert_int_equal(occurrences(svg, "L"), 776 - 72 - 1); /* a point a column */
    /* Each point is a mean of hundreds of values 1 and 3. There are 200000 / 704 = 284 values per column, so the mean
     * is at most 1/283 of 184 pixels from the middle. */
    for (const char *at = strchr(strstr(svg, "class=\"line\""), 'M'); *at != '"'; at = strpbrk(at + 1, "L\""))
        assert_true(fabs(strtod(strchr(at, ' '), NULL) - 240) < 184.0 / 283 + 0.05);
    free(svg);
    free(x);
    free(y);
}

static void one_point_is_a_dot(void **state) {
    (void)state;
    const double x[] = {7}, y[] = {2};
    char *svg = draw(&(PlotSeries){.name = "a", .x = x, .y = y, .n = 1}, 1, "t");
    assert_contains(svg, "M424.0 240.0h0");
    free(svg);
}

/* Draws values that ticks cannot separate. The plot is not larger than that of any two points. */
static void nearly_equal_values_make_a_plot_of_bounded_size(void **state) {
    (void)state;
    const double x[] = {1, 2}, all[][2] = {{0, 5e-324}, {1e300, 1.0000000000000002e300}, {-1, -1 + 1e-16}};
    for (int i = 0; i < 3; i++) {
        char *svg = draw(&(PlotSeries){.name = "a", .x = x, .y = all[i], .n = 2}, 1, "t");
        assert_true(strlen(svg) < 20000);
        assert_null(strstr(svg, "nan"));
        free(svg);
    }
}

static void points_that_cannot_be_drawn_are_refused(void **state) {
    (void)state;
    const double x[] = {0, 1}, nan[] = {NAN, NAN}, huge[] = {-1e308, 1e308}, y[] = {1, 2};
    char *directory = scratch_directory(), *path = path_join(directory, "plot.svg");
    Error error;
    assert_false(plot_write_svg(path, NULL, 0, "t", "x", "y", &error));
    assert_contains(error.text, "no series has a finite point");
    assert_false(plot_write_svg(path, &(PlotSeries){.name = "a", .x = x, .y = nan, .n = 2}, 1, "t", "x", "y", &error));
    assert_contains(error.text, "no series has a finite point");
    assert_false(plot_write_svg(path, &(PlotSeries){.name = "a", .x = x, .y = huge, .n = 2}, 1, "t", "x", "y", &error));
    assert_contains(error.text, "too far apart");
    assert_false(
        plot_write_svg("/nowhere/a.svg", &(PlotSeries){.name = "a", .x = x, .y = y, .n = 2}, 1, "t", "x", "y", &error));
    assert_contains(error.text, "/nowhere/a.svg");
    free(directory);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_land_where_their_values_say),
        cmocka_unit_test(ticks_are_round),
        cmocka_unit_test(a_value_that_is_not_finite_is_a_gap),
        cmocka_unit_test(a_reference_is_dashed_and_names_are_escaped),
        cmocka_unit_test(a_long_run_makes_a_small_picture),
        cmocka_unit_test(one_point_is_a_dot),
        cmocka_unit_test(nearly_equal_values_make_a_plot_of_bounded_size),
        cmocka_unit_test(points_that_cannot_be_drawn_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
