#include "page/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "page/facts.h"
#include "page/verdict.h"
#include "report/html.h"

/* Returns the metric that all runs which validated have in common, or NULL. */
static const char *common_metric(const LoggedRun *runs, int n) {
    const char *metric = NULL;
    for (int i = 0; i < n; i++) {
        if (!runs[i].metric) continue;
        if (metric && strcmp(metric, runs[i].metric)) return NULL;
        metric = runs[i].metric;
    }
    return metric;
}

/* Returns "4 finished, 1 stopped"; free(). */
static char *states_text(const LoggedRun *runs, int n, bool is_running) {
    char *text = NULL;
    for (int i = 0; i < n; i++) {
        const char *state = verdict_state(&runs[i], is_running);
        int count = 0;
        bool told = false;
        for (int k = 0; k < n; k++) {
            bool same = !strcmp(verdict_state(&runs[k], is_running), state);
            told |= same && k < i;
            count += same;
        }
        if (!told) xappend(&text, "%s%d %s", text ? ", " : "", count, state);
    }
    return text;
}

char *compare_verdict(const LoggedRun *runs, int n, bool is_running) {
    const char *metric = common_metric(runs, n);
    double low = INFINITY, high = -INFINITY;
    OWNED char *states = states_text(runs, n, is_running);
    for (int i = 0; i < n; i++)
        if (runs[i].best_step >= 0) low = fmin(low, runs[i].best), high = fmax(high, runs[i].best);
    return metric && low <= high
               ? xformat("%d trainings: %s. The best %s of each is from %.4g to %.4g.", n, states, metric, low, high)
               : xformat("%d trainings: %s.", n, states);
}

static void real_cell(FILE *out, const char *format, double value) {
    char text[48];
    snprintf(text, sizeof text, format, value);
    fprintf(out, "<td class=\"n\">%s</td>", isfinite(value) ? text : "-");
}

static void text_cell(FILE *out, const char *text) { html_print(out, "<td>%s</td>", text ? text : "-"); }

static void number_cell(FILE *out, const char *text) { html_print(out, "<td class=\"n\">%s</td>", text ? text : "-"); }

/* Writes a value with its unit; "-" if it is not known. */
static void unit_cell(FILE *out, bool known, const char *value, const char *unit) {
    OWNED char *text = xformat("%s%s%s", value, *unit ? " " : "", unit);
    number_cell(out, known ? text : NULL);
}

/* Writes speed, utilisation, memory and cost. */
static void measured_cells(FILE *out, const LoggedRun *r) {
    const char *token = logged_run_text(r, "token_label");
    OWNED char *speed = xformat("%s/s", token ? token : "tokens");
    char text[48];
    unit_cell(out, isfinite(r->tokens_rate), format_count(r->tokens_rate, "", text), speed);
    snprintf(text, sizeof text, "%.1f %%", 100 * r->utilisation);
    unit_cell(out, isfinite(r->utilisation), text, r->recomputes ? "HFU" : "");
    number_cell(out, isfinite(r->peak_bytes) ? format_bytes(r->peak_bytes, text) : NULL);
    snprintf(text, sizeof text, "%.2f", r->cost);
    unit_cell(out, r->price > 0 && isfinite(r->cost), text, r->currency ? r->currency : "");
}

static void row(FILE *out, const LoggedRun *r, bool is_running) {
    char text[32];
    html_print(out, "<tr><th scope=\"row\">%s</th>", r->name);
    text_cell(out, verdict_state(r, is_running));
    text_cell(out, r->metric);
    real_cell(out, "%.4g", r->best);
    real_cell(out, "%.0f", r->best_step < 0 ? (double)NAN : (double)r->best_step);
    real_cell(out, "%.0f", (double)r->step);
    real_cell(out, "%.0f", r->total_steps < 0 ? (double)NAN : (double)r->total_steps);
    number_cell(out, format_duration(r->seconds, text));
    measured_cells(out, r);
    real_cell(out, "%.0f", logged_run_number(r, "parameters"));
    text_cell(out, logged_run_text(r, "revision"));
    fputs("</tr>\n", out);
}

enum { ROWS = 200 };

void compare_numbers(FILE *out, const LoggedRun *runs, int n, bool is_running) {
    html_table_begin(out, "Trainings side by side",
                     "training|state|decides|best:|at step:|steps:|of:|time:|speed:|MFU:|memory:|cost:|parameters:|"
                     "revision");
    for (int i = 0; i < n && i < ROWS; i++) row(out, &runs[i], is_running);
    html_table_end(out);
    if (n > ROWS) fprintf(out, "<p class=\"note\">and %d more; a page of their own shows them</p>\n", n - ROWS);
}

/* Returns whether the option has one value in all runs. */
static bool is_common(const LoggedRun *runs, int n, const char *name) {
    for (int i = 1; i < n; i++) {
        const json_t *a = json_object_get(logged_run_options(&runs[0]), name);
        const json_t *b = json_object_get(logged_run_options(&runs[i]), name);
        if (a != b && !(a && b && json_equal(a, b))) return false;
    }
    return true;
}

/* Returns all names of options of the runs as keys; json_decref(). */
static json_t *all_names(const LoggedRun *runs, int n) {
    json_t *names = json_object();
    for (int i = 0; i < n; i++) json_object_update(names, (json_t *)(uintptr_t)logged_run_options(&runs[i]));
    return names;
}

void compare_options(FILE *out, const LoggedRun *runs, int n) {
    json_auto_t *names = all_names(runs, n);
    json_t *value;
    const char *name;
    OWNED const char **header = xmalloc(((size_t)n + 1) * sizeof *header);
    header[0] = "option";
    for (int i = 0; i < n; i++) header[i + 1] = runs[i].name;
    html_table_begin_cells(out, "Options that differ between the trainings; all others are the same", header, n + 1);
    json_object_foreach(names, name, value) {
        if (is_common(runs, n, name)) continue;
        html_print(out, "<tr><th scope=\"row\">%s</th>", name);
        for (int i = 0; i < n; i++) {
            const json_t *own = json_object_get(logged_run_options(&runs[i]), name);
            OWNED char *text = facts_value_text(own);
            text_cell(out, own ? text : "-");
        }
        fputs("</tr>\n", out);
    }
    html_table_end(out);
}
