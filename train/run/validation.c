#include "train/run/validation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/parallel/ranks.h"
#include "train/run/record.h"
#include "train/run/results.h"
#include "train/run/selection.h"
#include "train/stream.h"

/* Gives each rank its own of the batches of a validation; one that has none reads none. */
static void deal_out(LoaderOptions *options, int64_t batches) {
    if (ranks_count() == 1) return;
    options->by_epoch = true;
    options->stride = ranks_count();
    options->first = ranks_rank() < batches ? ranks_rank() : 0;
}

void validation_open(Run *run, size_t *bytes) {
    const TrainSpec *spec = &run->t->spec;
    Device *device = spec->device;
    Validation *v = &run->validation;
    LoaderOptions options = validation_loader_options(spec->options);
    int64_t n = spec->model->n_metrics, n_outputs = spec->model->n_outputs;
    size_t needed = loader_batch_bytes(spec->validation, &options, NULL);
    if (needed > *bytes) *bytes = needed;
    v->batches = loader_epoch_batches(spec->validation, &options, 0);
    deal_out(&options, v->batches);
    v->loader = loader_open(spec->validation, &options);
    v->sums = tensor_2d(device->allocate(device, (size_t)(v->batches * n) * 4), DTYPE_F32, v->batches, n);
    v->counts = xcalloc((size_t)v->batches * BATCH_MAX_COUNTS, sizeof *v->counts);
    v->host_sums = xcalloc((size_t)(v->batches * n), sizeof(float));
    if (!spec->selection.evaluate) return;
    int64_t samples = validation_samples(spec->validation, &options);
    size_t size = (size_t)(samples * n_outputs) * sizeof(float);
    v->outputs = tensor_2d(device->allocate(device, size), DTYPE_F32, samples, n_outputs);
    v->host_outputs = xmalloc(size);
}

void validation_close(Run *run) {
    Device *device = run->t->spec.device;
    Validation *v = &run->validation;
    if (!v->loader) return;
    loader_close(v->loader);
    device->release(device, v->sums.data, tensor_bytes(v->sums));
    if (tensor_given(v->outputs)) device->release(device, v->outputs.data, tensor_bytes(v->outputs));
    FREE(v->counts, v->host_sums, v->host_outputs);
}

/* Clears the results, of which this rank computes some. */
static void clear(const Run *run) {
    Device *device = run->t->spec.device;
    const Validation *v = &run->validation;
    device->clear(device, v->sums.data, tensor_bytes(v->sums));
    if (tensor_given(v->outputs)) device->clear(device, v->outputs.data, tensor_bytes(v->outputs));
    memset(v->counts, 0, (size_t)v->batches * BATCH_MAX_COUNTS * sizeof *v->counts);
}

/* Makes the results of all ranks those of each: what a rank has not computed is 0 there. */
static void gather(const Run *run) {
    const Validation *v = &run->validation;
    exchange_sum(run->t->exchange, v->sums);
    if (tensor_given(v->outputs)) exchange_sum(run->t->exchange, v->outputs);
    exchange_sum_doubles(run->t->exchange, v->counts, v->batches * BATCH_MAX_COUNTS);
}

/* Sums each metric and its counts over all batches. */
static void measure(Run *run, double *sums, double *counts) {
    Training *t = run->t;
    const Validation *v = &run->validation;
    int n = t->spec.model->n_metrics;
    Error error;
    t->state.validating = 1; /* if the run is stopped here, the resumed run validates first */
    int64_t rank = ranks_rank(), own = rank < v->batches ? 1 + (v->batches - 1 - rank) / ranks_count() : 0;
    if (t->exchange) exchange_weights(t->exchange);
    if (t->exchange) clear(run);
    if (!passes_measure(&run->passes, v->loader, own, v->sums, v->outputs, v->counts, &error))
        results_stop_without_data(run, &error);
    if (t->exchange) gather(run);
    t->spec.device->download(t->spec.device, v->host_sums, v->sums.data, tensor_bytes(v->sums));
    for (int64_t i = 0; i < v->batches * n; i++) sums[i % n] += (double)v->host_sums[i];
    for (int64_t i = 0; i < v->batches * BATCH_MAX_COUNTS; i++) counts[i % BATCH_MAX_COUNTS] += v->counts[i];
}

/* Prints the line of a validation. `seconds`: its time. */
static void print_line(const Run *run, const double *means, const char *text, double seconds) {
    const Training *t = run->t;
    const LogLabels *labels = &t->spec.labels;
    const TrainState *state = &t->state;
    int64_t batches = run->validation.batches;
    if (!labels->print_validation) {
        printf("[Val] epoch=%lld step=%lld %s (%lld batch%s, %.1f s)\n", (long long)state->epoch + 1,
               (long long)state->step, text, (long long)batches, batches == 1 ? "" : "es", seconds);
        return;
    }
    double latest[MODEL_MAX_METRICS];
    char unused[RECORD_TEXT];
    record_means(t->spec.model, run->window.sums, run->window.counts, latest, unused);
    labels->print_validation(labels->context,
                             &(ValidationLine){.step = state->step,
                                               .epoch = state->epoch + 1,
                                               .train = run->window.steps ? latest : state->metric_values,
                                               .values = means,
                                               .batches = batches,
                                               .seconds = seconds});
}

/* Lets the program do its part. */
static void call_program(Run *run) {
    const ValidationHook *hook = &run->t->spec.after_validation;
    if (hook->function && ranks_write()) hook->function(hook->context, run->t, run->t->state.step);
}

/* Tells all ranks what is the best so far: in the first a write that failed may have made it an earlier one. */
static void share_best(Run *run) {
    TrainState *state = &run->t->state;
    Best best = {state->best, state->best_step};
    ranks_share(&best, sizeof best);
    state->best = best.value;
    state->best_step = best.step;
}

bool validation_run(Run *run) {
    Training *t = run->t;
    TrainState *state = &t->state;
    const SelectionSpec *selection = &t->spec.selection;
    double sums[MODEL_MAX_METRICS] = {0}, counts[BATCH_MAX_COUNTS] = {0}, means[MODEL_MAX_METRICS];
    double start = seconds_now(), metrics[TRAIN_MAX_METRICS] = {0};
    char text[RECORD_TEXT];
    measure(run, sums, counts);
    share_best(run);
    double objective = record_means(t->spec.model, sums, counts, means, text);
    double decisive = selection_evaluate(run, means, objective, metrics);
    size_t used = strlen(text);
    Record record = {.n = 0};
    record_metrics(&record, t->spec.model, "val", means);
    for (int i = 0; i < selection->n_metrics; i++) {
        record_add(&record, metrics[i], "val/%s", selection->names[i]);
        if (used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, " %s=%.4f", selection->names[i], metrics[i]);
    }
    record_remember(state, t->spec.model->n_metrics, &record);
    record_add(&record, (double)state->epoch + 1, "val/epoch");
    record_add(&record, objective, "val/objective");
    record_add(&record, (double)(decisive < state->best ? state->step : state->best_step), "val/best_step");
    record_log(run, "val", &record);
    print_line(run, means, text, seconds_now() - start);
    call_program(run);
    run->window.start += seconds_now() - start; /* the time does not count as training */
    eta_pause(&run->eta, PAUSE_VALIDATION, seconds_now() - start);
    bool best = selection_update(run, decisive);
    state->validating = 0;
    return best;
}
