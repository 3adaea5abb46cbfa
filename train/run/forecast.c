#include "train/run/forecast.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/format.h"
#include "base/stop.h"
#include "train/stream.h"

enum { DAY = 24 * 3600 };
static const double LEAST_SECONDS = 1; /* a shorter time says little */
/* Runs that take longer are rather a mistake: on a CPU, on a GPU. */
static const double LONG[] = {2 * DAY, 30 * DAY};

EtaLeft forecast_left(const Run *run) {
    const TrainState *state = &run->t->state;
    const TrainOptions *o = run->t->spec.options;
    EtaLeft left = eta_left(&(EtaPlan){.step = state->step > 0 ? state->step : 1,
                                       .last = run->total_steps,
                                       .save_interval = o->save_interval,
                                       .validates = run->validation.loader != NULL,
                                       .val_interval = o->val_interval,
                                       .batch_index = state->batch_index,
                                       .epoch_batches = run->epoch_batches,
                                       .batches_per_step = o->grad_accumulation});
    left.steps = run->total_steps - state->step;
    return left;
}

/* Writes "23:40 UTC", with the date unless the time is today. */
static const char *clock_text(double seconds, char text[48]) {
    time_t now = time(NULL), then = now + (time_t)fmin(seconds, 1e11); /* the year 5000 */
    struct tm today, day;
    localtime_r(&now, &today);
    localtime_r(&then, &day);
    bool same = today.tm_year == day.tm_year && today.tm_yday == day.tm_yday;
    strftime(text, 48, same ? "%H:%M %Z" : "%a %d %b %Y %H:%M %Z", &day);
    return text;
}

/* Warns of a run that is too long for its device, with the options that it has for less. */
static void warn_if_long(const Run *run, double seconds) {
    const TrainSpec *spec = &run->t->spec;
    const Option *size = options_find(spec->set, "size");
    bool cpu = spec->device->host_memory;
    char text[32];
    bool tiny = size && size->row.metavar && strstr(size->row.metavar, "tiny") &&
                strcmp(*(const char *const *)size->value, "tiny") != 0;
    if (seconds < LONG[!cpu]) return;
    warn("the run will take about %s on this %s: give %sa smaller --epochs or --max-steps; --estimate tells how long "
         "%s",
         format_days(seconds, text), cpu ? "CPU" : "GPU", tiny ? "--size tiny, or " : "",
         cpu ? "a GPU needs" : "other cards need");
}

/* Tells what a run takes whose steps take step_seconds each. */
static void tell(Run *run, double step_seconds, const char *by) {
    const TrainSpec *spec = &run->t->spec;
    const Price *price = &spec->options->price;
    const char *part = spec->labels.part;
    char text[32], whole[32], until[48], money[64], cost[80] = "";
    Eta eta = run->eta;
    EtaLeft left = forecast_left(run);
    eta.step_seconds = step_seconds;
    double seconds = eta_seconds(&eta, &left);
    double all = seconds + spec->labels.follow * seconds * (double)run->total_steps / (double)left.steps;
    run->forecast.told = true;
    if (price->per_hour > 0)
        snprintf(cost, sizeof cost, ", %s", price_amount(price, price_cost(price, seconds), money));
    printf("[Run] %s%sabout %s, until %s%s, by %s", part ? part : "", part ? ": " : "", format_days(seconds, text),
           clock_text(seconds, until), cost, by);
    if (spec->labels.follow)
        printf("; with the trainings that follow, %d, about %s", spec->labels.follow, format_days(all, whole));
    printf("\n");
    warn_if_long(run, all);
}

/* Returns the rows of a mean micro-batch. */
static double mean_tokens(const Run *run) {
    const Dataset *data = run->t->spec.train;
    double tokens = 0;
    for (int64_t i = 0; i < data->n_samples; i++) tokens += (double)data->tokens(data, i);
    return tokens / (double)run->epoch_batches;
}

/* Returns the time on the machine of what a dry device has counted. */
static double counted_seconds(const Run *run, const Device *dry, double cleared) {
    Work work = {0};
    work_add_counters(&work, dry, 1);
    if (cleared > 0) work_add_calls(&work.ops[WORK_CLEAR], (CallWork){1, 0, cleared});
    return cost_of_work(&run->machine, &work).seconds;
}

void forecast_begin(Run *run) {
    const TrainSpec *spec = &run->t->spec;
    const TrainOptions *o = spec->options;
    run->forecast.mean_tokens = mean_tokens(run);
    if (!run->has_machine || run->t->state.step >= run->total_steps) return;
    Batch largest = train_largest_batch(spec, o), none = {0};
    double share = run->forecast.mean_tokens / (double)largest.n_tokens, seconds = 0;
    for (int update = 0; update < 2; update++) {
        Device *dry = dry_device_open();
        dry->half = train_half(spec);
        if (update)
            memory_dry_step(spec->model, dry, &none, 0, train_step_options(spec, o));
        else
            memory_dry_pass(spec->model, dry, &largest, true, o->grad_checkpointing);
        seconds += (update ? 1 : (double)o->grad_accumulation * (share < 1 ? share : 1)) *
                   counted_seconds(run, dry, update ? params_uncounted_clear(&spec->model->params) : 0);
        device_close(dry);
    }
    batch_close(&largest);
    tell(run, seconds, run->machine.rates ? "the rates of --calibrate" : "the card's stated rates");
}

void forecast_before_micro_batch(Run *run) {
    Forecast *f = &run->forecast;
    if (!f->told && !f->tokens) f->from = seconds_now();
}

/* In the first micro-batch memory is touched and code compiled for the first time: it counts only if the time is long,
 * and there is no other. */
void forecast_after_micro_batch(Run *run, const Batch *batch) {
    Forecast *f = &run->forecast;
    const Training *t = run->t;
    if (f->told || !t->spec.device->host_memory || t->state.step != run->first_step) return;
    double seconds = seconds_now() - f->from;
    f->tokens += batch->n_tokens;
    if (seconds >= LEAST_SECONDS && f->tokens && !stop_signal())
        tell(run, seconds / (double)f->tokens * f->mean_tokens * (double)run->accumulation,
             f->first_left_out ? "the first micro-batches" : "the first micro-batch");
    else if (!f->first_left_out)
        f->tokens = 0, f->first_left_out = true;
}

void forecast_after_step(Run *run) {
    if (!run->forecast.told && run->eta.step_seconds > 0) tell(run, run->eta.step_seconds, "the first steps");
}
