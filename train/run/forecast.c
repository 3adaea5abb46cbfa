#include "train/run/forecast.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/format.h"
#include "base/stop.h"
#include "kernels/ops.h"

enum { DAY = 24 * 3600 };
static const double LEAST_SECONDS = 1; /* a shorter time says little */
/* Seconds of a micro-batch that are worth an estimate before it, and FLOP/s that every CPU reaches. */
static const double SOON = 10, LEAST_RATE = 1e9;
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

/* Warns once of a run that is too long for its device, with the options that it has for less. */
static void warn_if_long(Run *run, double seconds) {
    const TrainSpec *spec = &run->t->spec;
    const Option *size = options_find(spec->set, "size");
    bool cpu = spec->device->host_memory;
    char text[32];
    bool tiny = size && size->row.metavar && strstr(size->row.metavar, "tiny") &&
                strcmp(*(const char *const *)size->value, "tiny") != 0;
    if (seconds < LONG[!cpu] || run->forecast.warned) return;
    run->forecast.warned = true;
    warn("the run will take about %s on this %s: give %sa smaller --epochs or --max-steps; --estimate tells how long "
         "%s",
         format_days(seconds, text), cpu ? "CPU" : "GPU", tiny ? "--size tiny, or " : "",
         cpu ? "a GPU needs" : "other cards need");
}

/* Writes "about 5m12s, until 23:40 UTC, 1.20 USD". */
static const char *time_text(const Price *price, const char *about, double seconds, char text[192]) {
    char time[32], until[48], money[64], cost[80] = "";
    if (price->per_hour > 0)
        snprintf(cost, sizeof cost, ", %s", price_amount(price, price_cost(price, seconds), money));
    snprintf(text, 192, "%s %s, until %s%s", about, format_days(seconds, time), clock_text(seconds, until), cost);
    return text;
}

/* Tells what a run takes whose steps take step_seconds each. about: "about" or "roughly". */
static void tell(Run *run, double step_seconds, const char *about, const char *by) {
    const TrainSpec *spec = &run->t->spec;
    const Price *price = &spec->options->price;
    const char *part = spec->labels.part;
    char text[192];
    Eta eta = run->eta;
    EtaLeft left = forecast_left(run);
    eta.step_seconds = step_seconds;
    double seconds = eta_seconds(&eta, &left);
    double all = seconds + spec->labels.follow * seconds * (double)run->total_steps / (double)left.steps;
    printf("[Run] %s%s%s, by %s", part ? part : "", part ? ": " : "", time_text(price, about, seconds, text), by);
    if (left.count[PAUSE_VALIDATION] && !eta.count[PAUSE_VALIDATION])
        printf("; validations, %lld, not included", (long long)left.count[PAUSE_VALIDATION]);
    if (spec->labels.follow)
        printf("; with the trainings that follow, %d, %s", spec->labels.follow, time_text(price, about, all, text));
    printf("\n");
    warn_if_long(run, all);
}

static void tell_finally(Run *run, double step_seconds, const char *by) {
    run->forecast.told = true;
    tell(run, step_seconds, "about", by);
}

/* Returns the rows of a mean micro-batch. */
static double mean_tokens(const Run *run) {
    const Dataset *data = run->t->spec.train;
    double tokens = 0;
    for (int64_t i = 0; i < data->n_samples; i++) tokens += (double)data->tokens(data, i);
    return tokens / (double)run->epoch_batches;
}

/* Returns the time on the machine of what a dry device has counted; its traffic is what the meter takes it for. */
static double counted_seconds(const Run *run, const Device *dry) {
    Work work = {0};
    for (int op = 0; op < OP_COUNT; op++) work.ops[op].traffic = run->meter.work.ops[op].traffic;
    work_add_counters(&work, dry, 1);
    return cost_of_work(&run->machine, &work).seconds;
}

/* Returns the FLOPs that a dry device has counted. */
static double counted_flops(const Run *run, const Device *dry) {
    double flops, bytes;
    (void)run;
    device_totals(dry, &flops, &bytes);
    return flops;
}

/* Returns the sum over a mean step of what `count` tells of a dry device: of the micro-batches, the first and the
 * others, and of the update. */
static double mean_step(const Run *run, double (*count)(const Run *run, const Device *dry)) {
    enum { UPDATE = PASS_LATER + 1 };
    const TrainSpec *spec = &run->t->spec;
    const TrainOptions *o = spec->options;
    Batch largest = train_largest_batch(spec, o), none = {0};
    double share = fmin(run->forecast.mean_tokens / (double)largest.n_tokens, 1), sum = 0;
    const double times[] = {share, share * (double)(o->grad_accumulation - 1), 1};
    for (int part = PASS_FIRST; part <= UPDATE; part++) {
        Device *dry = dry_device_open();
        dry->half = train_half(spec);
        if (part == UPDATE)
            memory_dry_step(spec->model, dry, &none, 0, train_step_options(spec, o));
        else
            memory_dry_pass(spec->model, dry, &largest, part, o->grad_checkpointing);
        sum += times[part] * count(run, dry);
        device_close(dry);
    }
    batch_close(&largest);
    return sum;
}

/* Measures the FLOP/s of a matrix product on a CPU, of which the device's counters know nothing afterwards. */
static double product_rate(Device *device) {
    enum { SIDE = 512, TIMES = 3 };
    const double flops = 2.0 * SIDE * SIDE * SIDE;
    float *numbers = xaligned(sizeof(float) * 3 * SIDE * SIDE);
    Tensor t[3];
    double least = INFINITY;
    memset(numbers, 0, sizeof(float) * 3 * SIDE * SIDE);
    for (int i = 0; i < 3; i++) t[i] = tensor_2d(numbers + (size_t)i * SIDE * SIDE, DTYPE_F32, SIDE, SIDE);
    device->uncounted = true;
    for (int i = 0; i < TIMES; i++) {
        double start = seconds_now();
        linear_forward(device, t[0], t[1], t[2], tensor_none(), WEIGHT_IN_OUT);
        least = fmin(least, seconds_now() - start);
    }
    device->uncounted = false;
    free(numbers);
    return flops / fmax(least, 1e-6);
}

/* Tells roughly, where nothing is known of a CPU and a micro-batch takes long, so that the first one is not waited for.
 */
static void tell_roughly(Run *run) {
    Device *device = run->t->spec.device;
    double flops = mean_step(run, counted_flops), micro_batches = (double)run->accumulation;
    if (!device->host_memory || flops < SOON * LEAST_RATE * micro_batches) return;
    double seconds = flops / product_rate(device);
    if (seconds >= SOON * micro_batches)
        tell(run, seconds, "roughly", "the FLOPs of a step at the rate of a matrix product");
}

/* Follows a step for the predictions of a card of which only the data sheet is known. */
static void follow(Run *run) {
    const TrainSpec *spec = &run->t->spec;
    Batch largest = train_largest_batch(spec, spec->options);
    train_follow(spec, &largest, &run->meter.work);
    batch_close(&largest);
}

void forecast_begin(Run *run) {
    run->forecast.mean_tokens = mean_tokens(run);
    if (run->t->state.step >= run->total_steps) return;
    if (run->has_machine && !run->machine.rates) follow(run);
    if (run->has_machine)
        tell_finally(run, mean_step(run, counted_seconds),
                     run->machine.rates ? "the rates of --calibrate" : "the card's stated rates");
    else
        tell_roughly(run);
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
        tell_finally(run, seconds / (double)f->tokens * f->mean_tokens * (double)run->accumulation,
                     f->first_left_out ? "the first micro-batches" : "the first micro-batch");
    else if (!f->first_left_out)
        f->tokens = 0, f->first_left_out = true;
}

void forecast_after_step(Run *run) {
    if (!run->forecast.told && run->eta.step_seconds > 0) tell_finally(run, run->eta.step_seconds, "the first steps");
}
