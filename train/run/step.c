#include "train/run/step.h"

#include <math.h>
#include <string.h>

#include "train/run/forecast.h"
#include "train/run/keep.h"
#include "train/run/record.h"
#include "train/run/results.h"
#include "train/run/step_dump.h"
#include "train/schedule.h"

double step_learning_rate(const Run *run, int group, int64_t step) {
    const TrainSpec *spec = &run->t->spec;
    if (spec->rate.at) return spec->rate.at(spec->rate.context, group, step, run->step_epoch);
    return train_learning_rate(spec, step, run->schedule_steps);
}

/* Returns the rate that the update of a group takes. */
static float update_rate(const Run *run, int group) {
    const double *factors = run->t->spec.rate.factors;
    return (float)(step_learning_rate(run, group, run->t->state.step) * (factors ? factors[group] : 1));
}

double train_learning_rate(const TrainSpec *spec, int64_t step, int64_t total) {
    const TrainOptions *o = spec->options;
    if (!spec->rate.schedule) return o->learning_rate * schedule_cosine(step, o->warmup_steps, total);
    Schedule schedule = *spec->rate.schedule;
    schedule.warmup = o->warmup_steps ? o->warmup_steps : (int64_t)ceil(schedule.warmup_share * (double)total);
    schedule.total = total;
    return o->learning_rate * schedule_at(&schedule, step);
}

AdamW train_adamw(const TrainSpec *spec) {
    const OptimizerSpec *o = &spec->optimizer;
    return (AdamW){.beta1 = o->beta1 != 0 ? o->beta1 : 0.9f,
                   .beta2 = o->beta2 != 0 ? o->beta2 : 0.999f,
                   .epsilon = o->epsilon != 0 ? o->epsilon : 1e-8f,
                   .clip = (float)spec->options->grad_clip,
                   .coupled = o->coupled_decay};
}

/* Copies the buffers that training updates: at the start of a step to the memory where the step changes them, and, with
 * its norm, back after the update. */
static void copy_moving(const Run *run, Tensor to, Tensor from, Tensor norm) {
    if (run->n_moving) copy_segments(run->t->spec.device, to, from, norm, run->moving, run->n_moving);
}

void step_clear_gradients(Run *run) {
    Training *t = run->t;
    Device *device = t->spec.device;
    Model *model = t->spec.model;
    QueuedStep *step = &run->queued[run->n_queued];
    double bytes;
    run->dump = t->spec.options->debug_dump && t->state.step == run->first_step ? dump_open(device) : NULL;
    device_totals(device, &run->flops_before, &bytes);
    step->before = t->state;
    step->n_samples = 0;
    run->epoch_ended = false;
    clear_segments(device, model->gradients, run->updates.cleared, run->updates.n_cleared);
    copy_moving(run, model->gradients, model->weights, tensor_none());
}

/* Returns the weight of one row of a metric's loss in the objective of the step. */
static float loss_scale(const Run *run, int metric, const Batch *batch) {
    const TrainOptions *o = run->t->spec.options;
    const Metric *m = &run->t->spec.model->metrics[metric];
    double rows = !strcmp(o->loss_norm, "batch")
                      ? batch->group_counts[m->count]
                      : record_divisor(batch->counts[m->count]) * (double)o->grad_accumulation;
    return (float)((double)m->weight / record_divisor(rows));
}

static const Batch *next_batch(Run *run) {
    Error error;
    const Batch *batch = loader_try(run->loader, &error);
    if (batch) return batch;
    run->t->state = run->queued[run->n_queued].before;
    results_stop_without_data(run, &error);
}

/* Adds a micro-batch to the step's record, to the state and to the window. */
static void count_batch(Run *run, const Batch *batch, int64_t micro) {
    QueuedStep *step = &run->queued[run->n_queued];
    TrainState *state = &run->t->state;
    memcpy(step->counts + micro * BATCH_MAX_COUNTS, batch->counts, sizeof batch->counts);
    memcpy(step->samples + step->n_samples, batch->samples, (size_t)batch->n_sequences * sizeof *batch->samples);
    step->n_samples += batch->n_sequences;
    state->micro_step++;
    state->samples_seen += batch->n_sequences;
    state->tokens_seen += batch->n_tokens;
    state->epoch = batch->epoch;
    state->batch_index = batch->index + 1;
    run->window.tokens += batch->n_tokens;
    if (!micro) run->step_epoch = batch->epoch;
    run->epoch_ended |= batch->last;
    meter_batch(&run->meter, batch);
}

void step_forward_backward(Run *run, int64_t micro) {
    Training *t = run->t;
    Device *device = t->spec.device;
    const TrainOptions *o = t->spec.options;
    const Batch *batch = next_batch(run);
    StepDump dump = {run->dump, micro};
    PassNumbers numbers = {.step = (uint32_t)t->state.micro_step};
    int n = t->spec.model->n_metrics;
    for (int i = 0; i < n; i++) numbers.loss_scale[i] = run->loss_scale[micro * n + i] = loss_scale(run, i, batch);
    device->set(device, run->passes.numbers, &numbers, sizeof numbers);
    Pass pass = {.train = true,
                 .recompute = o->grad_checkpointing,
                 .unwritten = micro ? NULL : run->passes.unwritten,
                 .seed = (uint64_t)o->seed,
                 .step = &run->passes.numbers->step,
                 .loss_scale = tensor_1d(run->passes.numbers->loss_scale, DTYPE_F32, n),
                 .dump = run->dump ? step_dump_activation : NULL,
                 .dump_context = &dump};
    if (run->dump) step_dump_batch(&dump, batch, t->spec.train->field_names);
    forecast_before_micro_batch(run);
    passes_run(&run->passes, batch, pass, results_sums(run, micro, 1), tensor_none());
    count_batch(run, batch, micro);
    forecast_after_micro_batch(run, batch);
}

/* Returns the flag that stops all queued steps after one that is not finite; none if such steps are only skipped. */
static Tensor stop_flag(const Run *run) { return run->t->spec.options->skip_nonfinite ? tensor_none() : run->stopped; }

void step_clip(Run *run) {
    const TrainSpec *spec = &run->t->spec;
    Model *model = spec->model;
    Tensor norm = results_norm(run), sums = results_sums(run, 0, spec->options->grad_accumulation);
    global_norm(spec->device, norm, model->gradients, model->loss_scale, run->updates.segments,
                run->updates.n_segments);
    norm_guard(spec->device, norm, stop_flag(run), sums, tensor_given(model->loss_scale));
}

/* Waits for a checkpoint that is written from the very weights that are about to change, on a device that uses host
 * memory. */
static void wait_for_weights(Run *run) {
    double before = seconds_now();
    if (run->t->spec.device->host_memory) keep_wait(run);
    double waited = seconds_now() - before;
    meter_waited(&run->meter, waited);
    run->window.start += waited; /* the time does not count as training */
    eta_wait(&run->eta, waited);
}

static void update_weights(Run *run, Tensor norm) {
    Training *t = run->t;
    Model *model = t->spec.model;
    ParamUpdates *u = &run->updates;
    AdamW adamw = train_adamw(&t->spec);
    const Muon muon = {.momentum = 0.95f, .clip = adamw.clip};
    adamw.step = t->state.step - t->state.skipped_steps + 1;
    for (int i = 0; i < u->n_segments; i++) u->segments[i].learning_rate = update_rate(run, u->segments[i].group);
    for (int i = 0; i < u->n_matrices; i++) u->matrices[i].learning_rate = update_rate(run, u->matrices[i].group);
    AdamWBuffers buffers = {
        .params = model->weights, .copy = model->half_weights, .m = t->m, .v = t->v, .grads = model->gradients};
    adamw_update(t->spec.device, buffers, norm, model->loss_scale, u->segments, u->n_adamw, adamw);
    for (int i = 0; i < u->n_matrices; i++)
        muon_update(t->spec.device, buffers, norm, model->loss_scale, u->matrices[i], muon);
}

void step_update(Run *run) {
    Training *t = run->t;
    Device *device = t->spec.device;
    Model *model = t->spec.model;
    Tensor norm = results_norm(run);
    wait_for_weights(run);
    update_weights(run, norm);
    copy_moving(run, model->weights, model->gradients, norm);
    double flops, bytes;
    device_totals(device, &flops, &bytes);
    run->window.flops += flops - run->flops_before;
    bool scaled = tensor_given(model->loss_scale);
    float scale[LOSS_SCALE_FIELDS] = {[LOSS_SCALE_FACTOR] = 1};
    if (scaled && run->dump) device->download(device, scale, model->loss_scale.data, sizeof scale);
    if (scaled) loss_scale_update(device, model->loss_scale, norm, stop_flag(run));
    t->state.step++;
    run->n_queued++;
    if (run->dump) step_dump_write(run, scale[LOSS_SCALE_FACTOR]);
}
