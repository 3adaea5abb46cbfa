#include "train/run/progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "base/program.h"
#include "train/run/record.h"
#include "train/run/step.h"

/* The measurements of the steps of a window. */
typedef struct {
    char text[RECORD_TEXT]; /* the means of the metrics */
    double means[MODEL_MAX_METRICS], rates[TRAIN_MAX_GROUPS];
    double steps, tokens; /* per second */
    double utilisation;   /* share of the card's peak; 0: not known */
    const char *utilisation_name;
} Measured;

static Measured measure(const Run *run) {
    const Training *t = run->t;
    const LogWindow *w = &run->window;
    double elapsed = seconds_now() - w->start;
    /* Recomputed operations count too, so this is the utilisation of the hardware, not of the model. */
    Measured m = {.steps = (double)w->steps / elapsed,
                  .tokens = (double)w->tokens / elapsed,
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

static const char *remaining_time(const Run *run, char text[32]) {
    double done = (double)(run->t->state.step - run->first_step);
    double left = (double)(run->total_steps - run->t->state.step);
    return format_duration((seconds_now() - run->run_start) / done * left, text);
}

bool progress_is_due(Run *run) {
    double now = seconds_now();
    if (!terminal_is_open() || now - run->shown_at < 0.3) return false;
    run->shown_at = now;
    return true;
}

/* Writes a bar of 20 columns, of which this share is filled, in colour if the terminal has colours. */
static const char *bar_text(double share, char text[128]) {
    enum { WIDTH = 20 };
    bool colours = terminal_has_colours();
    int filled = (int)(WIDTH * fmin(fmax(share, 0), 1)), n = sprintf(text, colours ? "\033[36m" : "[");
    for (int i = 0; i < WIDTH; i++) {
        if (colours && i == filled) n += sprintf(text + n, "\033[90m");
        n += sprintf(text + n, "%s", colours ? "━" : i < filled ? "#" : "-");
    }
    sprintf(text + n, colours ? "\033[0m" : "]");
    return text;
}

static void show_progress(Run *run, const Measured *m) {
    char eta[32], bar[128];
    double share = (double)run->t->state.step / (double)run->total_steps;
    terminal_progress("%s %3.0f %%  ETA %s  step %lld/%lld  %s  %.3g %s/s  %.0f %s/s", bar_text(share, bar),
                      100 * share, remaining_time(run, eta), (long long)run->t->state.step, (long long)run->total_steps,
                      m->text, m->steps, step_label(run), m->tokens, token_label(run));
}

static void show_line(Run *run, const Measured *m) {
    const TrainState *state = &run->t->state;
    char eta[32], utilisation[24] = "";
    if (m->utilisation > 0)
        snprintf(utilisation, sizeof utilisation, " %s=%.1f%%", m->utilisation_name, 100 * m->utilisation);
    printf("[Train] epoch=%lld step=%lld %s lr=%.2e grad_norm=%.3f %s/s=%.3g %s/s=%.0f%s ETA %s\n",
           (long long)state->epoch + 1, (long long)state->step, m->text, m->rates[0], (double)run->grad_norm,
           step_label(run), m->steps, token_label(run), m->tokens, utilisation, remaining_time(run, eta));
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
