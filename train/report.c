/* Prints what a run is at its start, and plots its loss at its end. */
#include "train/report.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/format.h"
#include "report/plot.h"
#include "train/log.h"
#include "train/schedule.h"

void report_check_warmup(const TrainSpec *spec, int64_t total_steps) {
    const TrainOptions *o = spec->options;
    if (spec->rate.at || !total_steps || o->warmup_steps < total_steps) return;
    warn("--warmup-steps %lld with %lld step%s: the learning rate of %.3g is never reached; the last step has %.2g. "
         "A tenth of the steps is usual: --warmup-steps %lld",
         (long long)o->warmup_steps, (long long)total_steps, total_steps == 1 ? "" : "s", o->learning_rate,
         o->learning_rate * schedule_cosine(total_steps - 1, o->warmup_steps, total_steps),
         (long long)(total_steps > 1 ? (total_steps + 9) / 10 : 0));
}

void report_start(const TrainSpec *spec, int64_t total_steps, int64_t batches_an_epoch, int64_t validation_batches) {
    const TrainOptions *o = spec->options;
    char count[32];
    printf("[Device] %s%s%s\n", spec->device->description, spec->device_why ? "; no GPU is used: " : "",
           spec->device_why ? spec->device_why : "");
    const char *card = spec->device->card;
    if (card[0]) printf("[%s Optimizations] %s\n", card, spec->device->notes);
    if (card[0] && o->amp && spec->device->half == DTYPE_BF16)
        printf("[%s Optimizations] Using bfloat16 AMP (native %s support, no loss scaling needed)\n", card, card);
    if (card[0] && o->amp && spec->device->half == DTYPE_F16)
        printf("[%s Optimizations] Using float16 AMP with gradient scaling\n", card);
    if (o->amp && spec->device->half == DTYPE_F32)
        printf("[Device] --amp has no effect on the cpu device: it computes in float32\n");
    int64_t all = params_count(&spec->model->params), trained = params_trainable_count(&spec->model->params);
    printf("[Model] %s: %s parameters%s in %d tensors", spec->model->name, format_count((double)all, "", count),
           trained == all ? ", trained," : "", params_n_trained(&spec->model->params));
    if (trained != all) printf(", %s trained", format_count((double)trained, "", count));
    printf("\n");
    if (o->token_budget)
        printf("[Run] up to %lld tokens x %lld micro-batch%s a step", (long long)o->token_budget,
               (long long)o->grad_accumulation, o->grad_accumulation == 1 ? "" : "es");
    else
        printf("[Run] effective batch %lld x %lld = %lld", (long long)o->batch_size, (long long)o->grad_accumulation,
               (long long)(o->batch_size * o->grad_accumulation));
    printf("; %lld samples, %lld micro-batch%s an epoch, %lld step%s; validation on %lld batch%s\n",
           (long long)spec->train->n_samples, (long long)batches_an_epoch, batches_an_epoch == 1 ? "" : "es",
           (long long)total_steps, total_steps == 1 ? "" : "s", (long long)validation_batches,
           validation_batches == 1 ? "" : "es");
    report_check_warmup(spec, total_steps);
}

typedef struct {
    double *x, *y;
    int n;
} Curve;

static void curve_add(Curve *curve, double x, double y) {
    curve->x = xrealloc(curve->x, (size_t)(curve->n + 1) * sizeof(double));
    curve->y = xrealloc(curve->y, (size_t)(curve->n + 1) * sizeof(double));
    curve->x[curve->n] = x;
    curve->y[curve->n++] = y;
}

/* Returns the values of `name` in the records of a log. */
static Curve curve_of(const json_t *records, const char *name) {
    Curve curve = {0};
    size_t i;
    json_t *record;
    json_array_foreach(records, i, record) {
        const json_t *value = json_object_get(record, name);
        if (json_is_number(value))
            curve_add(&curve, json_number_value(json_object_get(record, "step")), json_number_value(value));
    }
    return curve;
}

bool report_plot(const char *directory, const Model *model, const BaselineSpec *baseline) {
    int metric = baseline->metric;
    char *log = path_join(directory, "log.jsonl"), *picture = path_join(directory, "loss.svg"), *label = NULL;
    char train_name[64], val_name[64];
    snprintf(train_name, sizeof train_name, "train/%s", model->metrics[metric].name);
    snprintf(val_name, sizeof val_name, "val/%s", model->metrics[metric].name);
    json_t *records = log_read(log);
    Curve train = curve_of(records, train_name), val = curve_of(records, val_name);
    json_decref(records);
    PlotSeries series[3] = {{.name = train_name, .x = train.x, .y = train.y, .n = train.n},
                            {.name = val_name, .x = val.x, .y = val.y, .n = val.n}};
    double ends[2] = {0, train.n ? train.x[train.n - 1] : 0}, level[2] = {baseline->value, baseline->value};
    int n_series = 2;
    if (baseline->name) {
        label = xformat("%s %.3f", baseline->name, baseline->value);
        series[n_series++] = (PlotSeries){.name = label, .x = ends, .y = level, .n = 2, .dashed = true};
    }
    Error error;
    bool drawn = plot_can_draw(series, n_series, &error), ok = true;
    if (drawn)
        ok = plot_write_svg(picture, series, n_series, model->name, "optimizer step", model->metrics[metric].name,
                            &error);
    if (!drawn)
        warn("%s: %s", picture, error.text);
    else if (!ok)
        warn("%s", error.text);
    else
        printf("[Done] loss curve: %s\n", picture);
    if (baseline->name && val.n)
        printf("[Done] last %s %.4f; %s %.4f\n", val_name, val.y[val.n - 1], baseline->name, baseline->value);
    free(label);
    free(train.x);
    free(train.y);
    free(val.x);
    free(val.y);
    free(log);
    free(picture);
    return ok;
}
