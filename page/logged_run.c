#include "page/logged_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/folder.h"
#include "page/log.h"
#include "report/statistics.h"

const char *logged_run_text(const LoggedRun *run, const char *key) {
    return json_string_value(json_object_get(run->start, key));
}

double logged_run_number(const LoggedRun *run, const char *key) { return log_number(run->start, key); }

const json_t *logged_run_options(const LoggedRun *run) {
    const json_t *options = json_object_get(run->start, "options");
    return options ? options : json_object_get(run->state, "options");
}

/* Returns the values in the records from number `first` on. */
static LoggedValues values_from(const LoggedRun *run, const char *name, size_t first) {
    size_t records = json_array_size(run->records);
    LoggedValues v = {xmalloc((records + 1) * sizeof(double)), xmalloc((records + 1) * sizeof(double)), 0};
    for (size_t i = first; i < records; i++) {
        const json_t *record = json_array_get(run->records, i);
        double value = log_number(record, name);
        if (!isfinite(value)) continue;
        v.steps[v.n] = log_number(record, "step");
        v.values[v.n++] = value;
    }
    return v;
}

LoggedValues logged_values(const LoggedRun *run, const char *name) { return values_from(run, name, 0); }

int64_t logged_values_least(const LoggedValues *v) {
    int64_t least = 0;
    for (int64_t i = 1; i < v->n; i++)
        if (v->values[i] < v->values[least]) least = i;
    return least;
}

void logged_values_free(LoggedValues *v) {
    FREE(v->steps, v->values);
    *v = (LoggedValues){0};
}

/* Returns the last value; NaN: there is none. */
static double last_of(const LoggedRun *run, const char *name) {
    LoggedValues v = logged_values(run, name);
    double last = v.n ? v.values[v.n - 1] : NAN;
    logged_values_free(&v);
    return last;
}

/* Returns the spread of the values in the records from number `part` on. */
static Spread spread_of(const LoggedRun *run, const char *name, size_t part) {
    LoggedValues v = values_from(run, name, part);
    Spread spread = statistics_spread(v.values, v.n);
    logged_values_free(&v);
    return spread;
}

/* Returns the value in the last record of this very step; NaN: there is none. */
static double value_at(const LoggedRun *run, const char *name, int64_t step) {
    LoggedValues v = logged_values(run, name);
    double value = NAN;
    for (int64_t i = 0; i < v.n && v.steps[i] <= (double)step; i++)
        if (v.steps[i] == (double)step) value = v.values[i];
    logged_values_free(&v);
    return value;
}

/* ---- what the records say ---- */

static void read_records(LoggedRun *run) {
    size_t i;
    json_t *record;
    double seconds = 0;
    json_array_foreach(run->records, i, record) {
        if (log_is_kind(record, "start")) {
            run->start = record;
            if (!run->date) run->date = json_string_value(json_object_get(record, "date"));
            run->summary = NULL;
            run->starts++;
        }
        if (log_is_kind(record, "summary")) run->summary = record;
        run->step = json_integer_value(json_object_get(record, "step"));
        seconds = log_number(record, "time");
        if (seconds > run->seconds) run->seconds = seconds;
    }
}

static RunEnd end_of(const LoggedRun *run) {
    if (!run->summary) return RUN_UNENDED;
    if (!json_object_get(run->summary, "summary/ended")) return RUN_ENDED; /* of an older program */
    if (log_number(run->summary, "summary/out_of_patience") > 0) return RUN_OUT_OF_PATIENCE;
    return log_number(run->summary, "summary/ended") > 0 ? RUN_FINISHED : RUN_STOPPED;
}

/* Returns the name of the metric that decides: as the log says, else the objective. */
static const char *metric_of(const LoggedRun *run) {
    const char *metric = logged_run_text(run, "metric");
    if (!metric) metric = "val/objective";
    return isnan(last_of(run, metric)) ? NULL : metric;
}

/* Returns the step of the best validation: as the log says, else the checkpoint, else that of the least objective. */
static int64_t best_step_of(const LoggedRun *run) {
    double step = log_number(run->summary, "summary/best_step");
    if (!(step > 0)) step = last_of(run, "val/best_step");
    if (!(step > 0)) step = log_number(run->state, "best_step");
    if (step > 0) return (int64_t)step;
    LoggedValues v = logged_values(run, "val/objective");
    int64_t at = v.n ? (int64_t)v.steps[logged_values_least(&v)] : -1;
    logged_values_free(&v);
    return at;
}

/* Returns the currency of the last part that has a price; NULL: none has. */
static const char *currency_of(const LoggedRun *run) {
    const char *currency = NULL;
    size_t i;
    json_t *record;
    json_array_foreach(run->records, i, record) {
        const char *own = log_is_kind(record, "start") ? json_string_value(json_object_get(record, "currency")) : NULL;
        if (own) currency = own;
    }
    return currency;
}

/* Sets the costs: the sum over the parts of the run of their prices times their seconds, and that of the last part. */
static void add_cost(LoggedRun *run) {
    double price = NAN, before = 0;
    size_t i;
    json_t *record;
    run->price = logged_run_number(run, "price_per_hour");
    run->currency = currency_of(run);
    run->cost = run->part_cost = 0;
    json_array_foreach(run->records, i, record) {
        double seconds = log_number(record, "time"), cost = seconds > before ? price * (seconds - before) / 3600 : 0;
        run->cost += cost;
        run->part_cost += cost;
        if (isfinite(seconds)) before = seconds; /* a resumed part may begin earlier than the last one ended */
        if (!log_is_kind(record, "start")) continue;
        const char *own = json_string_value(json_object_get(record, "currency"));
        price = own && !strcmp(own, run->currency) ? log_number(record, "price_per_hour") : NAN;
        run->part_cost = 0;
    }
}

/* Returns the number of the first record of the last part with train records; sets run->measured. */
static size_t find_measured(LoggedRun *run) {
    size_t i, start = 0, part = 0;
    json_t *record;
    json_array_foreach(run->records, i, record) {
        if (log_is_kind(record, "start")) start = i;
        if (log_is_kind(record, "train")) part = start;
    }
    const json_t *first = json_array_get(run->records, part);
    run->measured = log_is_kind(first, "start") ? first : NULL;
    return part;
}

static void measure(LoggedRun *run) {
    size_t part = find_measured(run);
    double mfu = spread_of(run, "train/mfu", part).mean, hfu = spread_of(run, "train/hfu", part).mean;
    run->recomputes = isnan(mfu) && !isnan(hfu);
    run->utilisation = run->recomputes ? hfu : mfu;
    run->peak_flops = log_number(run->measured, "peak_flops");
    run->steps_rate = spread_of(run, "train/steps_per_second", part).median;
    run->tokens_rate = spread_of(run, "train/tokens_per_second", part).median;
    run->planned_bytes = logged_run_number(run, "planned_bytes");
    if (isnan(run->planned_bytes)) run->planned_bytes = log_number(run->summary, "summary/planned_bytes");
    run->peak_bytes = log_number(run->summary, "summary/peak_bytes");
    add_cost(run);
}

static json_t *read_state(const char *directory) {
    OWNED char *path = path_join(directory, "last/state.json");
    size_t size;
    int file = checkpoint_file_open(path, &size, NULL);
    json_t *state = file < 0 ? NULL : json_loadfd(file, 0, NULL);
    if (file >= 0) close(file);
    return state;
}

bool logged_run_open(LoggedRun *run, const char *directory, const char *name, Error *error) {
    OWNED char *path = path_join(directory, "log.jsonl");
    *run = (LoggedRun){.total_steps = -1, .best_step = -1, .best = NAN};
    run->records = log_read_whole(path, &run->torn, error);
    if (!run->records) return false;
    run->directory = xstrdup(directory);
    run->name = xstrdup(name);
    run->state = read_state(directory);
    read_records(run);
    run->end = end_of(run);
    run->signal = json_integer_value(json_object_get(run->summary, "summary/signal"));
    double total = last_of(run, "total_steps"); /* of a start or an extension */
    if (total > 0) run->total_steps = (int64_t)total;
    run->epoch = last_of(run, "train/epoch");
    run->metric = metric_of(run);
    if (run->metric) run->best_step = best_step_of(run);
    if (run->best_step >= 0) {
        run->best = value_at(run, run->metric, run->best_step);
        run->best_epoch = value_at(run, "val/epoch", run->best_step);
    }
    measure(run);
    return true;
}

void logged_run_close(LoggedRun *run) {
    json_decref(run->records);
    json_decref(run->state);
    FREE(run->directory, run->name);
    *run = (LoggedRun){0};
}
