/* Charts of runs, made from records of a log. */
#include "tests/report/rig.h"

#include <math.h>

#include "page/curves.h"

/* A run of two epochs that was resumed at step 20. The second validation is the best by what the model selects by,
 * although its loss is not the least. */
static const char *const LOG =
    "[{\"kind\": \"train\", \"step\": 10, \"train/loss\": 4, \"train/lr\": 0.001, \"train/lr_1\": 0.0001,"
    " \"train/grad_norm\": 250, \"train/steps_per_second\": 3, \"train/tokens_per_second\": 900, \"train/epoch\": 1,"
    " \"gpu_power_w\": 300},"
    " {\"kind\": \"val\", \"step\": 10, \"val/loss\": 3.5, \"val/auroc\": 0.6, \"val/objective\": 3.5,"
    " \"val/epoch\": 1, \"val/best_step\": 10},"
    " {\"kind\": \"train\", \"step\": 20, \"train/loss\": null, \"train/lr\": 0.002, \"train/lr_1\": 0.0002,"
    " \"train/grad_norm\": 1.5, \"train/steps_per_second\": 3, \"train/tokens_per_second\": 800, \"train/epoch\": 2},"
    " {\"kind\": \"val\", \"step\": 20, \"val/loss\": 3.25, \"val/auroc\": 0.75, \"val/objective\": 3.25,"
    " \"val/epoch\": 2, \"val/best_step\": 20},"
    " {\"kind\": \"start\", \"step\": 20, \"time\": 7}, {\"kind\": \"start\", \"step\": 20, \"time\": 8},"
    " {\"kind\": \"train\", \"step\": 30, \"train/loss\": 2, \"train/lr\": 0.001, \"train/lr_1\": 0.0001,"
    " \"train/grad_norm\": 2, \"train/steps_per_second\": 3, \"train/tokens_per_second\": 850, \"train/epoch\": 3},"
    " {\"kind\": \"val\", \"step\": 30, \"val/loss\": 3, \"val/auroc\": 0.7, \"val/objective\": 3,"
    " \"val/epoch\": 3, \"val/best_step\": 20},"
    " {\"kind\": \"summary\", \"step\": 30, \"summary/seconds\": 9}]";

static json_t *records_of(const char *text) {
    json_t *records = json_loads(text, 0, NULL);
    assert_non_null(records);
    return records;
}

static const PlotSeries *series_of(const Plot *plot, const char *name) {
    for (int s = 0; s < plot->n_series; s++)
        if (!strcmp(plot->series[s].name, name)) return &plot->series[s];
    fail_msg("%s has no series '%s'", plot->title, name);
    return NULL;
}

/* Expects the unit that a model counts, such as cells; runs that count different things have tokens. */
TEST(speeds_have_the_unit_of_the_runs) {
    json_t *records = records_of(LOG);
    const RunLog runs[] = {{.name = "a", .records = records, .token = "cells"},
                           {.name = "b", .records = records, .token = "cells"},
                           {.name = "c", .records = records}};
    static const char *const titles[] = {"cells per second", "cells per second", "tokens per second"};
    for (int n = 1; n <= 3; n++) {
        RunCurves curves = run_curves_make(runs, n);
        const Plot *speed = run_curves_find(&curves, titles[n - 1]);
        assert_non_null(speed);
        assert_string_equal(speed->y_label, titles[n - 1]);
        run_curves_free(&curves);
    }
    json_decref(records);
}

TEST(every_quantity_has_a_chart) {
    static const char *const titles[] = {"loss",     "auroc", "learning rate", "gradient norm", "tokens per second",
                                         "GPU power"};
    json_t *records = records_of(LOG);
    RunCurves curves = run_curves_make(&(RunLog){.records = records}, 1);
    json_decref(records);
    assert_int_equal(curves.n, 6); /* the objective is the loss */
    for (int i = 0; i < 6; i++) assert_string_equal(curves.plots[i].title, titles[i]);
    const Plot *loss = run_curves_find(&curves, "loss");
    const PlotSeries *train = series_of(loss, "training"), *val = series_of(loss, "validation");
    assert_int_equal(train->n, 2); /* null is no value */
    assert_true(train->x[1] == 30 && train->y[1] == 2);
    assert_int_equal(val->n, 3);
    assert_string_equal(loss->x_label, "optimizer step");
    assert_false(loss->log_y);
    const Plot *norm = run_curves_find(&curves, "gradient norm"), *rate = run_curves_find(&curves, "learning rate");
    assert_true(norm->log_y); /* 250 to 1.5 */
    assert_true(series_of(rate, "group 0")->y[1] == 0.002);
    assert_true(series_of(rate, "group 1")->y[1] == 0.0002);
    assert_null(run_curves_find(&curves, "objective"));
    run_curves_free(&curves);
}

TEST(the_best_validation_and_restarts_are_marked) {
    json_t *records = records_of(LOG);
    RunCurves curves = run_curves_make(&(RunLog){.records = records}, 1);
    const PlotSeries *loss = series_of(run_curves_find(&curves, "loss"), "validation"),
                     *auroc = series_of(run_curves_find(&curves, "auroc"), "validation");
    assert_int_equal(loss->best, 2);
    assert_string_equal(loss->best_text, "best weights: 3.25, step 20, epoch 2");
    assert_string_equal(auroc->best_text, "best weights: 0.75, step 20, epoch 2");
    assert_int_equal(series_of(run_curves_find(&curves, "loss"), "training")->best, 0);
    for (int p = 0; p < curves.n; p++) {
        assert_int_equal(curves.plots[p].n_restarts, 1);
        assert_near(curves.plots[p].restarts[0], 20, 0);
    }
    run_curves_free(&curves);
    json_decref(records);
}

TEST(an_objective_that_is_no_metric_has_a_chart) {
    json_t *records =
        records_of("[{\"kind\": \"val\", \"step\": 1, \"val/a\": 1, \"val/b\": 2, \"val/objective\": 2.5},"
                   " {\"kind\": \"val\", \"step\": 2, \"val/a\": 1, \"val/b\": 1, \"val/objective\": 2}]");
    RunCurves curves = run_curves_make(&(RunLog){.records = records}, 1);
    assert_int_equal(curves.n, 3);
    assert_string_equal(curves.plots[2].title, "objective");
    assert_int_equal(curves.plots[2].series[0].best, 0); /* a log that does not name the best */
    run_curves_free(&curves);
    json_decref(records);
}

TEST(a_baseline_is_a_level_and_does_not_choose_the_scale) {
    json_t *records = records_of(LOG);
    RunCurves curves = run_curves_make(
        &(RunLog){.records = records, .baseline = "entropy", .baseline_metric = "loss", .baseline_value = 0.001}, 1);
    const Plot *loss = run_curves_find(&curves, "loss");
    const PlotSeries *level = series_of(loss, "entropy 0.001");
    assert_true(level->reference && level->x[0] == 10 && level->x[1] == 30 && level->y[1] == 0.001);
    assert_false(loss->log_y);
    assert_int_equal(run_curves_find(&curves, "auroc")->n_series, 1);
    run_curves_free(&curves);
    json_decref(records);
}

TEST(a_baseline_that_is_not_whole_is_not_drawn) {
    static const RunLog logs[] = {{.baseline = "entropy", .baseline_value = 1},
                                  {.baseline_metric = "loss", .baseline_value = 1},
                                  {.baseline = "entropy", .baseline_metric = "loss", .baseline_value = NAN}};
    json_t *records = records_of(LOG);
    for (int i = 0; i < 3; i++) {
        RunLog log = logs[i];
        log.records = records;
        RunCurves curves = run_curves_make(&log, 1);
        assert_int_equal(run_curves_find(&curves, "loss")->n_series, 2);
        run_curves_free(&curves);
    }
    json_decref(records);
}

TEST(runs_share_charts_under_their_names) {
    json_t *first = records_of(LOG);
    json_t *second = records_of("[{\"kind\": \"train\", \"step\": 5, \"train/loss\": 7, \"train/lr\": 0.1}]");
    const RunLog runs[] = {{.name = "a", .records = first}, {.name = "b<", .records = second}};
    RunCurves curves = run_curves_make(runs, 2);
    const Plot *loss = run_curves_find(&curves, "loss");
    assert_int_equal(loss->n_series, 3);
    assert_true(series_of(loss, "b< training")->y[0] == 7);
    assert_int_equal(series_of(loss, "a validation")->best, 0);
    assert_true(series_of(loss, "")->minor && !series_of(loss, "b< training")->minor);
    assert_string_equal(loss->y_label, "loss (thin: training)");
    assert_int_equal(loss->n_restarts, 0);
    series_of(run_curves_find(&curves, "learning rate"), "b<");
    series_of(run_curves_find(&curves, "gradient norm"), "a");
    Error error;
    char *directory = kept_folder(), *path = kept_path(directory, "all.svg");
    if (!plot_write(path, curves.plots, curves.n, "a & b<", &error)) fail_msg("%s", error.text);
    char *svg = svg_in(directory, "all.svg");
    assert_contains(svg, ">b&lt; training</text>");
    assert_null(strstr(svg, "nan"));
    run_curves_free(&curves);
    json_decref(first);
    json_decref(second);
}

TEST(a_log_without_values_has_no_charts) {
    static const char *const logs[] = {"[]", "[{\"kind\": \"train\", \"step\": 1, \"train/loss\": null}]",
                                       "[3, {\"step\": \"x\", \"train/loss\": 2}, {\"train/lr\": {}}]"};
    for (int i = 0; i < 3; i++) {
        json_t *records = records_of(logs[i]);
        RunCurves curves = run_curves_make(&(RunLog){.records = records}, 1);
        assert_int_equal(curves.n, 0);
        run_curves_free(&curves);
        json_decref(records);
    }
}
