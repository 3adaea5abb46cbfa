/* Prints what a run is at its start, and plots its curves at its end. */
#include "train/report.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "page/curves.h"
#include "page/log.h"
#include "train/train.h"

enum { LARGE_STEP = 64 /* samples; one step of more than these is worth several smaller ones */ };

void report_check_warmup(const TrainSpec *spec, int64_t total_steps) {
    const TrainOptions *o = spec->options;
    if (spec->rate.at || !total_steps || o->warmup_steps < total_steps) return;
    warn("--warmup-steps %lld with %lld step%s: the learning rate of %.3g is never reached; the last step has %.2g. "
         "A tenth of the steps is usual: --warmup-steps %lld",
         (long long)o->warmup_steps, (long long)total_steps, total_steps == 1 ? "" : "s", o->learning_rate,
         train_learning_rate(spec, total_steps - 1, total_steps),
         (long long)(total_steps > 1 ? (total_steps + 9) / 10 : 0));
}

void report_check_epochs(const TrainSpec *spec, int64_t total_steps, int64_t epoch_batches) {
    enum { MANY = 1000, USUAL = 10 };
    int64_t g = spec->options->grad_accumulation, epochs = total_steps * g / (epoch_batches > 0 ? epoch_batches : 1);
    if (epochs < MANY || spec->synthetic) return;
    warn("%lld steps go %lld times through the data, which are then known by heart: %d epochs are --max-steps %lld",
         (long long)total_steps, (long long)epochs, USUAL, (long long)((USUAL * epoch_batches + g - 1) / g));
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
    int64_t a_step = o->batch_size * o->grad_accumulation;
    if (batches_an_epoch <= o->grad_accumulation && a_step > LARGE_STEP && !spec->synthetic)
        warn("an epoch is a single step of %lld samples, which learns slowly: a smaller -b or -g, such as -b %d, has "
             "more steps",
             (long long)spec->train->n_samples, LARGE_STEP);
}

/* Writes charts to DIRECTORY/NAME. Warns and returns false if the file cannot be written; a run without points has no
 * picture. */
static bool write_charts(const char *directory, const char *name, const Plot *plots, int n, const char *title) {
    char *path = path_join(directory, name);
    Error error;
    bool drawn = true, ok = true;
    for (int p = 0; p < n && drawn; p++) drawn = plot_can_draw(&plots[p], &error);
    if (!n) drawn = error_set(&error, "nothing to draw: the log has no values");
    if (drawn) ok = plot_write(path, plots, n, title, &error);
    if (!drawn) warn("%s: %s", path, error.text);
    if (!ok) warn("%s", error.text);
    if (drawn && ok) printf("[Done] %s: %s\n", n > 1 ? "all curves" : "loss curve", path);
    free(path);
    return ok;
}

/* Prints the last validation of the metric beside the baseline. */
static void print_baseline(const Plot *plot, const BaselineSpec *baseline) {
    for (int s = 0; plot && baseline->name && s < plot->n_series; s++)
        if (!strcmp(plot->series[s].name, "validation"))
            printf("[Done] last val/%s %.4f; %s %.4f\n", plot->title, plot->series[s].y[plot->series[s].n - 1],
                   baseline->name, baseline->value);
}

bool report_plot(const char *directory, const Model *model, const BaselineSpec *baseline) {
    const char *metric = model->metrics[baseline->metric].name;
    char *log = path_join(directory, "log.jsonl"), *title = xformat("%s: %s", model->name, metric);
    json_t *records = log_read(log);
    RunCurves curves = run_curves_make(&(RunLog){.records = records,
                                                 .baseline = baseline->name,
                                                 .baseline_metric = metric,
                                                 .baseline_value = baseline->value},
                                       1);
    const Plot *loss = run_curves_find(&curves, metric);
    bool ok = write_charts(directory, "loss.svg", loss, loss != NULL, title);
    if (loss) ok = write_charts(directory, "curves.svg", curves.plots, curves.n, model->name) && ok;
    print_baseline(loss, baseline);
    run_curves_free(&curves);
    json_decref(records);
    free(title);
    free(log);
    return ok;
}
