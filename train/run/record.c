#include "train/run/record.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

double record_divisor(double count) { return count > 0 ? count : 1; }

float record_loss_scale(const Run *run, int metric, const double *counts, const double *all) {
    const TrainOptions *o = run->t->spec.options;
    const Metric *m = &run->t->spec.model->metrics[metric];
    double rows = !strcmp(o->loss_norm, "batch") ? all[m->count]
                                                 : record_divisor(counts[m->count]) * (double)o->grad_accumulation;
    return (float)((double)m->weight / record_divisor(rows));
}

double record_means(const Model *model, const double *sums, const double *counts, double *means,
                    char text[RECORD_TEXT]) {
    double objective = 0;
    size_t used = 0;
    for (int i = 0; i < model->n_metrics; i++) {
        means[i] = sums[i] / record_divisor(counts[model->metrics[i].count]);
        objective += (double)model->metrics[i].weight * means[i];
        if (model->metric_value) means[i] = model->metric_value(i, means[i]);
        if (used < RECORD_TEXT)
            used += (size_t)snprintf(text + used, RECORD_TEXT - used, "%s%s=%.4f", i ? " " : "", model->metrics[i].name,
                                     means[i]);
    }
    return objective;
}

void record_remember(TrainState *state, int at, const Record *record) {
    for (int i = 0; i < record->n; i++) {
        snprintf(state->metric_names[at + i], sizeof state->metric_names[0], "%s", record->values[i].name);
        state->metric_values[at + i] = record->values[i].value;
    }
    if (state->n_metrics < at + record->n) state->n_metrics = at + record->n;
}

void record_add(Record *record, double value, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(record->names[record->n], RECORD_NAME, format, arguments);
    va_end(arguments);
    record->values[record->n] = (LogValue){record->names[record->n], value};
    record->n++;
}

void record_metrics(Record *record, const Model *model, const char *kind, const double *values) {
    for (int i = 0; i < model->n_metrics; i++) record_add(record, values[i], "%s/%s", kind, model->metrics[i].name);
}

static double run_seconds(const Run *run) { return run->seconds_before + seconds_now() - run->run_start; }

void record_log(Run *run, const char *kind, const Record *record) {
    if (run->log) log_values(run->log, kind, run->t->state.step, run_seconds(run), record->values, record->n);
}

void train_log_text(Training *t, const char *name, const char *text) {
    const Run *run = t->run;
    assert(run);
    if (run->log) log_text(run->log, t->state.step, run_seconds(run), name, text);
}
