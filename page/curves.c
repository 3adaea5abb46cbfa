#include "page/curves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "page/log.h"

/* A logarithmic scale shows more than a linear one if the greatest value is this many times the least. */
static const double WIDE = 100;

#define SPEED       "train/tokens_per_second"
#define SPEED_TITLE "%s per second"

/* The numbers that are logged with the metrics, and have charts of their own or none. */
static const struct {
    const char *key, *title, *label;
} OTHERS[] = {{"train/lr", "learning rate", "learning rate"},
              {"train/grad_norm", "gradient norm", "norm before clipping"},
              {SPEED, SPEED_TITLE, NULL},
              {"train/mfu", "utilisation", "MFU, share of the peak FLOP/s"},
              {"train/hfu", "utilisation", "HFU, share of the peak FLOP/s"},
              {"gpu_memory_bytes", "GPU memory", "bytes in use on the card"},
              {"gpu_temperature_c", "GPU temperature", "degrees Celsius"},
              {"gpu_power_w", "GPU power", "watts"},
              {"gpu_utilization_percent", "GPU utilisation", "per cent of the time"},
              {"train/steps_per_second", NULL, NULL},
              {"train/epoch", NULL, NULL},
              {"val/epoch", NULL, NULL},
              {"val/best_step", NULL, NULL},
              {"val/objective", NULL, NULL}};
enum { N_OTHERS = sizeof OTHERS / sizeof *OTHERS };

/* ---- series ---- */

/* Adds a series, whose texts and numbers the plot then owns. */
static void add_series(Plot *plot, PlotSeries series) {
    PlotSeries *all = xrealloc((void *)plot->series, ((size_t)plot->n_series + 1) * sizeof *all);
    all[plot->n_series++] = series;
    plot->series = all;
}

/* Adds the values of `key`, under a name that the plot owns; nothing if the log has none. */
static void add_values(Plot *plot, const json_t *records, const char *key, char *name) {
    size_t room = json_array_size(records) + 1, r;
    double *x = xmalloc(2 * room * sizeof *x), *y = x + room;
    json_t *record;
    int n = 0;
    json_array_foreach((json_t *)records, r, record) {
        double step = log_number(record, "step"), value = log_number(record, key);
        if (isfinite(step) && isfinite(value)) x[n] = step, y[n++] = value;
    }
    if (!n) {
        FREE(x, name);
        return;
    }
    add_series(plot, (PlotSeries){.name = name, .x = x, .y = y, .n = n});
}

/* Adds a level from the first to the last step that the chart shows. */
static void add_baseline(Plot *plot, const RunLog *run) {
    double first = INFINITY, last = -INFINITY;
    for (int s = 0; s < plot->n_series; s++) {
        first = fmin(first, plot->series[s].x[0]);
        last = fmax(last, plot->series[s].x[plot->series[s].n - 1]);
    }
    double *x = xmalloc(4 * sizeof *x);
    x[0] = first, x[1] = last, x[2] = x[3] = run->baseline_value;
    char *name = xformat("%s %.3f", run->baseline, run->baseline_value);
    add_series(plot, (PlotSeries){.name = name, .x = x, .y = x + 2, .n = 2, .reference = true});
}

/* Rings the validation of the best weights, which the last record of a validation names. Its value need not be the best
 * one of this metric: another metric may decide. */
static void ring_best(Plot *plot, const json_t *records) {
    PlotSeries *series = (PlotSeries *)&plot->series[plot->n_series - 1];
    double best = NAN, epoch = NAN;
    size_t r;
    json_t *record;
    json_array_foreach((json_t *)records, r, record) {
        if (isfinite(log_number(record, "val/best_step"))) best = log_number(record, "val/best_step");
    }
    json_array_foreach((json_t *)records, r, record) {
        if (log_number(record, "step") == best && isfinite(log_number(record, "val/epoch")))
            epoch = log_number(record, "val/epoch");
    }
    for (int i = 0; i < series->n; i++)
        if (series->x[i] == best) series->best = i + 1;
    if (!series->best) return;
    double value = series->y[series->best - 1];
    series->best_text = isfinite(epoch) ? xformat("best weights: %.4g, step %.0f, epoch %.0f", value, best, epoch)
                                        : xformat("best weights: %.4g, step %.0f", value, best);
}

static void add_restarts(Plot *plot, const json_t *records) {
    double *at = xmalloc((json_array_size(records) + 1) * sizeof *at);
    size_t r;
    json_t *record;
    json_array_foreach((json_t *)records, r, record) {
        double step = log_number(record, "step");
        bool again = plot->n_restarts && at[plot->n_restarts - 1] == step;
        if (log_is_kind(record, "start") && step > 0 && !again) at[plot->n_restarts++] = step;
    }
    plot->restarts = at;
}

/* ---- charts ---- */

static bool is_wide(const Plot *plot) {
    double least = INFINITY, greatest = 0;
    for (int s = 0; s < plot->n_series; s++)
        for (int i = 0; i < plot->series[s].n; i++) {
            least = fmin(least, plot->series[s].y[i]);
            greatest = fmax(greatest, plot->series[s].y[i]);
        }
    return least > 1e-12 && greatest < 1e12 && greatest / least >= WIDE;
}

static void plot_free(Plot *plot) {
    for (int s = 0; s < plot->n_series; s++) {
        free((void *)plot->series[s].name);
        free((void *)plot->series[s].best_text);
        free((void *)plot->series[s].x); /* and y */
    }
    free((void *)plot->series);
    free((void *)plot->restarts);
    free((void *)plot->title);
    free((void *)plot->y_label);
}

/* Adds a chart, or drops it if it has nothing to show. */
static void add_plot(RunCurves *curves, Plot plot, const RunLog *runs, int n_runs) {
    if (!plot.n_series) {
        plot_free(&plot);
        return;
    }
    plot.x_label = "optimizer step";
    if (n_runs == 1) add_restarts(&plot, runs[0].records);
    curves->plots = xrealloc(curves->plots, ((size_t)curves->n + 1) * sizeof *curves->plots);
    curves->plots[curves->n++] = plot;
}

static char *series_name(const RunLog *run, int n_runs, const char *what) {
    return n_runs == 1 ? xformat("%s", what) : xformat("%s%s%s", run->name, what[0] ? " " : "", what);
}

static bool is_logged(const RunLog *run, const char *key) {
    for (size_t r = 0; r < json_array_size(run->records); r++)
        if (isfinite(log_number(json_array_get(run->records, r), key))) return true;
    return false;
}

static bool has_baseline(const RunLog *run, const char *metric) {
    return run->baseline && run->baseline_metric && isfinite(run->baseline_value) &&
           !strcmp(run->baseline_metric, metric);
}

/* Adds the chart of "train/NAME" and "val/NAME": of several runs, both of a run in one colour. */
static void add_metric(RunCurves *curves, const RunLog *runs, int n_runs, const char *name) {
    Plot plot = {.title = xformat("%s", name)};
    OWNED char *train = xformat("train/%s", name), *val = xformat("val/%s", name);
    bool thin = false;
    for (int r = 0; r < n_runs; r++) {
        bool both = n_runs > 1 && is_logged(&runs[r], train) && is_logged(&runs[r], val);
        add_values(&plot, runs[r].records, train, both ? xstrdup("") : series_name(&runs[r], n_runs, "training"));
        if (both && plot.n_series) ((PlotSeries *)plot.series)[plot.n_series - 1].minor = thin = true;
        int before = plot.n_series;
        add_values(&plot, runs[r].records, val, series_name(&runs[r], n_runs, "validation"));
        if (n_runs == 1 && plot.n_series > before) ring_best(&plot, runs[r].records);
    }
    plot.y_label = xformat("%s%s", name, thin ? " (thin: training)" : "");
    plot.log_y = is_wide(&plot);
    for (int r = 0; r < n_runs && plot.n_series; r++)
        if (has_baseline(&runs[r], name)) add_baseline(&plot, &runs[r]);
    add_plot(curves, plot, runs, n_runs);
}

/* Adds every metric that is in a record of this kind and has no chart yet. */
static void add_metrics(RunCurves *curves, const RunLog *runs, int n_runs, const char *prefix) {
    for (int run = 0; run < n_runs; run++) {
        size_t r;
        json_t *record, *value;
        const char *key;
        json_array_foreach((json_t *)runs[run].records, r, record) {
            json_object_foreach(record, key, value) {
                bool other = strncmp(key, prefix, strlen(prefix)) || !strncmp(key, "train/lr_", 9);
                for (int o = 0; o < N_OTHERS; o++) other |= !strcmp(key, OTHERS[o].key);
                if (!other && json_is_number(value) && !run_curves_find(curves, key + strlen(prefix)))
                    add_metric(curves, runs, n_runs, key + strlen(prefix));
            }
        }
    }
}

/* Returns whether the objective is one of the metrics, as it is with a single loss. */
static bool objective_is_metric(const RunCurves *curves, const json_t *records) {
    for (int p = 0; p < curves->n; p++) {
        OWNED char *key = xformat("val/%s", curves->plots[p].title);
        bool same = true;
        size_t r;
        json_t *record;
        json_array_foreach((json_t *)records, r, record) {
            double objective = log_number(record, "val/objective"), value = log_number(record, key);
            same = same && (isnan(objective) || fabs(value - objective) <= 1e-6 * fabs(objective));
        }
        if (same) return true;
    }
    return false;
}

/* Returns what all runs count in a second, "tokens" if they differ. */
static const char *token_of(const RunLog *runs, int n_runs) {
    const char *token = n_runs ? runs[0].token : NULL;
    for (int r = 1; r < n_runs && token; r++)
        if (!runs[r].token || strcmp(runs[r].token, token) != 0) token = NULL;
    return token ? token : "tokens";
}

/* Adds a chart of what is logged in training only; the rate has a line per group of parameters. */
static void add_other(RunCurves *curves, const RunLog *runs, int n_runs, int other) {
    bool speed = !strcmp(OTHERS[other].key, SPEED);
    Plot plot = {.title = speed ? xformat(SPEED_TITLE, token_of(runs, n_runs)) : xstrdup(OTHERS[other].title)};
    plot.y_label = xstrdup(speed ? plot.title : OTHERS[other].label);
    bool rate = !strcmp(OTHERS[other].key, "train/lr");
    for (int r = 0; r < n_runs; r++) {
        int before = plot.n_series;
        add_values(&plot, runs[r].records, OTHERS[other].key, series_name(&runs[r], n_runs, ""));
        for (int g = 1, n = plot.n_series; rate && g < 16 && n == plot.n_series; g++, n++) {
            OWNED char *key = xformat("train/lr_%d", g), *group = xformat("group %d", g);
            add_values(&plot, runs[r].records, key, series_name(&runs[r], n_runs, group));
        }
        if (plot.n_series < before + 2) continue;
        free((void *)plot.series[before].name);
        ((PlotSeries *)plot.series)[before].name = series_name(&runs[r], n_runs, "group 0");
    }
    plot.log_y = strcmp(OTHERS[other].title, "gradient norm") == 0 && is_wide(&plot);
    add_plot(curves, plot, runs, n_runs);
}

RunCurves run_curves_make(const RunLog *runs, int n_runs) {
    RunCurves curves = {0};
    add_metrics(&curves, runs, n_runs, "train/");
    add_metrics(&curves, runs, n_runs, "val/");
    bool metric = true;
    for (int r = 0; r < n_runs; r++) metric = metric && objective_is_metric(&curves, runs[r].records);
    if (!metric) add_metric(&curves, runs, n_runs, "objective");
    for (int o = 0; o < N_OTHERS; o++)
        if (OTHERS[o].title) add_other(&curves, runs, n_runs, o);
    return curves;
}

const Plot *run_curves_find(const RunCurves *curves, const char *title) {
    for (int p = 0; p < curves->n; p++)
        if (!strcmp(curves->plots[p].title, title)) return &curves->plots[p];
    return NULL;
}

void run_curves_free(RunCurves *curves) {
    for (int p = 0; p < curves->n; p++) plot_free(&curves->plots[p]);
    free(curves->plots);
    *curves = (RunCurves){0};
}
