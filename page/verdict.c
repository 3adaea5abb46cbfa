#include "page/verdict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/html.h"

/* ---- how it ended ---- */

const char *verdict_state(const LoggedRun *run, bool is_running) {
    static const char *const names[] = {[RUN_FINISHED] = "finished",
                                        [RUN_OUT_OF_PATIENCE] = "ended early",
                                        [RUN_STOPPED] = "stopped",
                                        [RUN_ENDED] = "ended",
                                        [RUN_UNENDED] = "no end recorded"};
    return is_running && run->end == RUN_UNENDED ? "running" : names[run->end];
}

/* Returns "step 300 of 800"; free(). */
static char *place_text(const LoggedRun *run) {
    return run->total_steps < 0 ? xformat("step %lld", (long long)run->step)
                                : xformat("step %lld of %lld", (long long)run->step, (long long)run->total_steps);
}

static char *end_text(const LoggedRun *run, bool is_running) {
    OWNED char *place = place_text(run);
    switch (run->end) {
    case RUN_FINISHED:
        return xformat("Finished after all %lld steps.", (long long)run->step);
    case RUN_OUT_OF_PATIENCE:
        return xformat("Ended early at %s: the validation had stopped improving.", place);
    case RUN_STOPPED:
        return xformat("Stopped at %s by signal %lld; the same command with --resume auto continues.", place,
                       (long long)run->signal);
    case RUN_ENDED:
        return xformat("Ended at %s.", place);
    default:
        return is_running ? xformat("Running: %s when this page was written.", place)
                          : xformat("No end is recorded after %s: the run was killed, or is still running.", place);
    }
}

char *verdict_text(const LoggedRun *run, bool is_running) {
    OWNED char *end = end_text(run, is_running);
    const char *last = run->best_step == run->step ? ", the last" : "";
    if (run->best_step < 0) return xformat("%s Nothing was validated, so there is no best checkpoint.", end);
    if (isfinite(run->best))
        return xformat("%s Best %s %.4g at step %lld%s.", end, run->metric, run->best, (long long)run->best_step, last);
    return xformat("%s Best %s at step %lld%s; the log does not have its value.", end, run->metric,
                   (long long)run->best_step, last);
}

/* ---- findings ---- */

enum { FEWEST = 4 /* validations from which a trend is read */ };
static const double RISE = 0.05, FALL = 0.02, GAIN = 0.01; /* relative changes that count */

/* The losses of training and validation under one name. */
typedef struct {
    LoggedValues train, val;
    char *name;
} Losses;

/* Finds the loss that both have: that of the baseline, else the first with "loss" in its name. */
static Losses losses_of(const LoggedRun *run) {
    const char *preferred = logged_run_text(run, "baseline_metric"), *key;
    char *name = preferred ? xstrdup(preferred) : NULL;
    json_t *record, *value;
    size_t i;
    json_array_foreach(run->records, i, record) {
        json_object_foreach(record, key, value) {
            if (!name && !strncmp(key, "val/", 4) && strstr(key, "loss")) name = xstrdup(key + 4);
        }
        if (name) break;
    }
    Losses l = {.name = name};
    OWNED char *train = xformat("train/%s", name ? name : ""), *val = xformat("val/%s", name ? name : "");
    l.train = logged_values(run, train);
    l.val = logged_values(run, val);
    return l;
}

/* Returns the mean of up to five values of training that end at a step; NaN: there are none. */
static double train_near(const LoggedValues *v, double step) {
    double sum = 0;
    int64_t end = 0, n = 0;
    while (end < v->n && v->steps[end] <= step) end++;
    for (int64_t i = end; i > 0 && n < 5; i--, n++) sum += v->values[i - 1];
    return n ? sum / (double)n : NAN;
}

static int item(FILE *out, const char *name, char *text) {
    html_print(out, "<li>%s%s%s</li>\n", name, *name ? ": " : "", text);
    free(text);
    return 1;
}

/* Says how the loss went on after its least value in validation, if that is clear. */
static int trend(FILE *out, const LoggedRun *run, const Losses *l, const char *name) {
    const LoggedValues *v = &l->val;
    if (v->n < FEWEST) return 0;
    int64_t best = logged_values_least(v), last = v->n - 1, before = 3 * last / 4;
    double rise = v->values[last] / v->values[best] - 1, gain = 1 - v->values[last] / v->values[before];
    double then = train_near(&l->train, v->steps[best]), now = train_near(&l->train, v->steps[last]);
    if (v->values[best] <= 0) return 0;
    if (rise > RISE && last - best >= 2 && now < then * (1 - FALL))
        return item(out, name,
                    xformat("Overfitting: val/%s rose from %.4g (step %.0f) to %.4g at the end (+%.0f %%), while "
                            "train/%s fell from %.4g to %.4g.",
                            l->name, v->values[best], v->steps[best], v->values[last], 100 * rise, l->name, then, now));
    if (run->end == RUN_FINISHED && best == last && (double)run->best_step >= v->steps[last] && gain > GAIN)
        return item(out, name,
                    xformat("Not at its end: val/%s was still falling, by %.1f %% in the last quarter of the "
                            "validations; more steps would probably lower it further.",
                            l->name, 100 * gain));
    return 0;
}

static int baseline(FILE *out, const LoggedRun *run, const Losses *l, const char *name) {
    const char *what = logged_run_text(run, "baseline");
    double value = logged_run_number(run, "baseline_value");
    if (!what || !logged_run_text(run, "baseline_metric") || isnan(value) || !l->val.n) return 0;
    double best = l->val.values[logged_values_least(&l->val)];
    bool goes_on = run->end == RUN_UNENDED || run->end == RUN_STOPPED;
    if (best >= value && goes_on && l->val.n < FEWEST) return 0; /* too early to tell */
    return item(out, name,
                best < value ? xformat("The least val/%s, %.4g, is below the %s, %.4g.", l->name, best, what, value)
                             : xformat("Underfitting: the least val/%s, %.4g, is not below the %s, %.4g.", l->name,
                                       best, what, value));
}

int verdict_findings(FILE *out, const LoggedRun *run, const char *name) {
    Losses l = losses_of(run);
    double skipped = json_number_value(json_object_get(run->summary, "summary/skipped_steps"));
    int n = trend(out, run, &l, name) + baseline(out, run, &l, name);
    if (skipped > 0)
        n += item(out, name,
                  xformat("%.0f step%s skipped, because the loss or its gradient was not finite.", skipped,
                          skipped == 1 ? " was" : "s were"));
    if (run->torn)
        n += item(out, name,
                  xformat("Line %lld of log.jsonl, the last, is half-written, as a killed run leaves it; it is left "
                          "out.",
                          (long long)run->torn));
    logged_values_free(&l.train);
    logged_values_free(&l.val);
    free(l.name);
    return n;
}
