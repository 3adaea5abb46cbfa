#include "train/run/progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "base/program.h"
#include "base/stop.h"
#include "train/run/forecast.h"
#include "train/run/money.h"
#include "train/run/record.h"
#include "train/run/selection.h"
#include "train/run/step.h"

/* The measurements of the steps of a window. */
typedef struct {
    char text[RECORD_TEXT]; /* the means of the metrics */
    double means[MODEL_MAX_METRICS], rates[TRAIN_MAX_GROUPS];
    double steps, tokens, flops; /* per second */
    double utilisation;          /* share of the card's peak; 0: not known */
    const char *utilisation_name;
} Measured;

static Measured measure(const Run *run) {
    const Training *t = run->t;
    const LogWindow *w = &run->window;
    double elapsed = seconds_now() - w->start;
    /* Recomputed operations count too, so this is the utilisation of the hardware, not of the model. */
    Measured m = {.steps = (double)w->steps / elapsed,
                  .tokens = (double)w->tokens / elapsed,
                  .flops = w->flops / elapsed,
                  .utilisation = run->peak_flops > 0 ? w->flops / elapsed / run->peak_flops : 0,
                  .utilisation_name = t->spec.options->grad_checkpointing ? "HFU" : "MFU"};
    record_means(t->spec.model, w->sums, w->counts, m.means, m.text);
    for (int i = 0; i < run->n_groups; i++) m.rates[i] = step_learning_rate(run, i, t->state.step - 1);
    return m;
}

static const char *step_label(const Run *run) {
    const char *label = run->t->spec.labels.step;
    return label ? label : "step";
}

static const char *token_label(const Run *run) {
    const char *label = run->t->spec.labels.token;
    return label ? label : "tokens";
}

/* Writes " ETA 5m12s"; "" before the time of a step is known, and if the run ends here. */
static const char *eta_text(const Run *run, char text[48]) {
    EtaLeft left = forecast_left(run);
    double seconds = eta_seconds(&run->eta, &left);
    char duration[32];
    bool ends = selection_out_of_patience(run->t) || stop_signal();
    text[0] = 0;
    if (!isnan(seconds) && !ends) snprintf(text, 48, " ETA %s", format_duration(seconds, duration));
    return text;
}

void progress_read_sensors(Run *run) {
    Device *device = run->t->spec.device;
    double now = seconds_now();
    if (!device->read_sensors || (run->sensors_at > 0 && now - run->sensors_at < 1)) return;
    run->sensors_at = now;
    device->read_sensors(device, &run->sensors);
}

/* The sensors by their names in log.jsonl. */
enum { SENSORS = 4 };
static const struct {
    const char *name, *unit;
} sensors[SENSORS] = {
    {"gpu_memory_bytes", "B"}, {"gpu_temperature_c", "C"}, {"gpu_power_w", "W"}, {"gpu_utilization_percent", "%"}};

/* Returns the value of a sensor; NaN if there is none, or if it has not been read yet. */
static double sensor(const Run *run, int i) {
    const DeviceSensors *s = &run->sensors;
    const double values[SENSORS] = {s->memory, s->temperature, s->power, s->utilisation};
    return run->sensors_at > 0 ? values[i] : (double)NAN;
}

/* Writes "GPU 23.1 GB 71 C 312 W 98 %", or what is known of it; "" if nothing is. */
static const char *sensors_text(const Run *run, char text[192]) {
    char value[32];
    int n = 0;
    text[0] = 0;
    for (int i = 0; i < SENSORS; i++)
        if (!isnan(sensor(run, i)))
            n += snprintf(text + n, 192 - (size_t)n, "%s %s", n ? "" : "GPU",
                          format_count(sensor(run, i), sensors[i].unit, value));
    return text;
}

bool progress_is_due(Run *run) {
    double now = seconds_now();
    if (!terminal_is_open() || now - run->shown_at < 0.3) return false;
    run->shown_at = now;
    return true;
}

enum { REST_TEXT = 512 };

/* The parts stand in the order of their importance: a narrow terminal has no room for all. */
static void show_progress(Run *run, const Measured *m) {
    char eta[48], bar[128], gpu[192], money[96];
    double share = (double)run->t->state.step / (double)run->total_steps;
    const char *part = run->t->spec.labels.part;
    terminal_progress("%s%s%s %3.0f %%%s\t%s\t%s\t%s\tstep %lld/%lld\t%.3g %s/s\t%.0f %s/s", part ? part : "",
                      part ? " " : "", terminal_bar(share, bar), 100 * share, eta_text(run, eta), m->text,
                      money_text(run, money), sensors_text(run, gpu), (long long)run->t->state.step,
                      (long long)run->total_steps, m->steps, step_label(run), m->tokens, token_label(run));
}

/* Writes " ETA 5m12s of fold 2 of 6 GPU 71 C cost 1.20 USD", what is known of it. */
static void rest_text(const Run *run, char text[REST_TEXT]) {
    const char *part = run->t->spec.labels.part;
    char eta[48], gpu[192], money[96];
    bool left = *eta_text(run, eta);
    snprintf(text, REST_TEXT, "%s%s%s%s%s%s%s", eta, left && part ? " of " : "", left && part ? part : "",
             *sensors_text(run, gpu) ? " " : "", gpu, *money_text(run, money) ? " " : "", money);
}

static void show_line(const Run *run, const Measured *m) {
    const TrainState *state = &run->t->state;
    const LogLabels *labels = &run->t->spec.labels;
    char rest[REST_TEXT], utilisation[24] = "";
    rest_text(run, rest);
    if (labels->print_step) {
        labels->print_step(labels->context, &(StepLine){.step = state->step,
                                                        .epoch = state->epoch + 1,
                                                        .values = m->means,
                                                        .step_seconds = 1 / m->steps,
                                                        .tokens = m->tokens,
                                                        .flops = m->flops,
                                                        .peak = run->peak_flops,
                                                        .learning_rate = m->rates[0],
                                                        .grad_norm = (double)run->grad_norm,
                                                        .rest = rest});
        return;
    }
    if (m->utilisation > 0)
        snprintf(utilisation, sizeof utilisation, " %s=%.1f%%", m->utilisation_name, 100 * m->utilisation);
    printf("[Train] epoch=%lld step=%lld %s lr=%.2e grad_norm=%.3f %s/s=%.3g %s/s=%.0f%s%s\n",
           (long long)state->epoch + 1, (long long)state->step, m->text, m->rates[0], (double)run->grad_norm,
           step_label(run), m->steps, token_label(run), m->tokens, utilisation, rest);
}

/* Adds how fast each rank is while it computes, which is the slowest, and what share of the time this one exchanges and
 * waits for others. */
static void add_ranks(Record *record, const Run *run) {
    enum { MOST = 16 }; /* of which each has a number */
    Exchange *x = run->t->exchange;
    double elapsed = seconds_now() - run->window.start;
    int slowest = 0;
    if (x->group->queues) return; /* the device exchanges while it computes */
    for (int r = 0; r < x->group->size; r++) {
        double rate = x->speeds[r].tokens / x->speeds[r].busy;
        if (rate < x->speeds[slowest].tokens / x->speeds[slowest].busy) slowest = r;
        if (x->group->size <= MOST) record_add(record, rate, "ranks/%d/tokens_per_second", r);
    }
    record_add(record, slowest, "ranks/slowest");
    record_add(record, (x->group->seconds - x->before) / elapsed, "ranks/exchange_share");
    exchange_forget_speeds(x);
}

static void write_record(Run *run, const Measured *m) {
    Training *t = run->t;
    Record record = {.n = 0};
    record_metrics(&record, t->spec.model, "train", m->means);
    record_remember(&t->state, 0, &record);
    record_add(&record, m->rates[0], "train/lr");
    for (int i = 1; i < run->n_groups; i++) record_add(&record, m->rates[i], "train/lr_%d", i);
    record_add(&record, (double)run->grad_norm, "train/grad_norm");
    record_add(&record, m->steps, "train/steps_per_second");
    record_add(&record, m->tokens, "train/tokens_per_second");
    record_add(&record, (double)t->state.epoch + 1, "train/epoch");
    if (m->utilisation > 0)
        record_add(&record, m->utilisation, t->spec.options->grad_checkpointing ? "train/hfu" : "train/mfu");
    if (t->exchange) add_ranks(&record, run);
    for (int i = 0; i < SENSORS; i++)
        if (!isnan(sensor(run, i))) record_add(&record, sensor(run, i), "%s", sensors[i].name);
    record_log(run, "train", &record);
}

void progress_log(Run *run, ReportForm form) {
    if (!run->window.steps) return;
    Measured m = measure(run);
    if (form == REPORT_PROGRESS) {
        show_progress(run, &m);
        return;
    }
    show_line(run, &m);
    if (form == REPORT_LINE) return;
    write_record(run, &m);
    run->window = (LogWindow){.start = seconds_now()};
}
