#include "train/run/step.h"

#include <math.h>
#include <signal.h>
#include <string.h>

#include "base/stop.h"
#include "train/parallel/ranks.h"
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

static bool is_dumped(const Run *run) {
    return run->t->spec.options->debug_dump && run->t->state.step == run->first_step;
}

void step_begin(Run *run) {
    Training *t = run->t;
    Device *device = t->spec.device;
    double bytes;
    run->dumps = is_dumped(run);
    run->dump = run->dumps && ranks_write() ? dump_open(device) : NULL;
    device_totals(device, &run->flops_before, &bytes);
    run->queued[run->n_queued].before = t->state;
    run->queued[run->n_queued].n_samples = 0;
    if (!t->exchange) return;
    exchange_begin(t->exchange);
    run->step_start = seconds_now();
    run->exchanged_before = t->exchange->group->seconds;
    run->own_tokens = 0;
}

static const Batch *next_batch(Run *run) {
    Error error;
    const Batch *batch = loader_try(run->loader, &error);
    if (batch) return batch;
    run->t->state = run->queued[run->n_queued].before;
    results_stop_without_data(run, &error);
}

/* Adds a micro-batch to the step's record. */
static void count_batch(Run *run, const Batch *batch, int64_t micro) {
    QueuedStep *step = &run->queued[run->n_queued];
    memcpy(step->counts + micro * BATCH_MAX_COUNTS, batch->counts, sizeof batch->counts);
    memcpy(step->samples + step->n_samples, batch->samples, (size_t)batch->n_sequences * sizeof *batch->samples);
    step->n_samples += batch->n_sequences;
    run->own_tokens += (double)batch->n_tokens;
    meter_batch(&run->meter, batch);
}

/* Adds all micro-batches of a step to the state and to the window. */
static void count_step(Run *run, const BatchGroup *group) {
    TrainState *state = &run->t->state;
    state->step++;
    state->micro_step += run->accumulation;
    state->samples_seen += group->samples;
    state->tokens_seen += group->tokens;
    state->epoch = group->epoch;
    state->batch_index = group->index + 1;
    run->window.tokens += group->tokens;
    run->epoch_ended = group->ends_epoch;
}

/* ---- the operations of a micro-batch, which the device may record and repeat ---- */

typedef struct {
    Run *run;
    bool first, last; /* of its step */
} MicroBatch;

/* Copies the buffers that training updates: at the start of a step to the memory where the step changes them, and, with
 * its norm, back after the update. */
static void copy_moving(const Run *run, Tensor to, Tensor from, Tensor norm) {
    if (run->n_moving) copy_segments(run->t->spec.device, to, from, norm, run->moving, run->n_moving);
}

static void before_pass(void *context, const StepNumbers *numbers) {
    const MicroBatch *m = context;
    Run *run = m->run;
    const Model *model = run->t->spec.model;
    Exchange *exchange = run->t->exchange;
    (void)numbers;
    if (m->last) gradient_norm_begin(&run->norm);
    if (m->first) clear_segments(run->t->spec.device, model->gradients, run->updates.cleared, run->updates.n_cleared);
    if (exchange)
        exchange_before_pass(exchange, m->first, m->last);
    else if (m->first)
        copy_moving(run, model->gradients, model->weights, tensor_none());
}

/* Returns the flag that stops all queued steps after one that is not finite; none if such steps are only skipped. */
static Tensor stop_flag(const Run *run) { return run->t->spec.options->skip_nonfinite ? tensor_none() : run->stopped; }

/* Waits for a checkpoint that is written from the very weights that are about to change, on a device that uses host
 * memory. */
static void wait_for_weights(Run *run) {
    double before = seconds_now();
    if (run->t->spec.device->host_memory) keep_wait(run);
    double waited = seconds_now() - before;
    meter_waited(&run->meter, waited);
    run->window.start += waited; /* the time does not count as training */
    run->forecast.from += waited;
    eta_wait(&run->eta, waited);
}

static void update_weights(Run *run, Tensor norm, const StepNumbers *numbers) {
    Training *t = run->t;
    Model *model = t->spec.model;
    const ParamUpdates *u = &run->updates;
    const AdamW adamw = train_adamw(&t->spec);
    const Muon muon = {.momentum = 0.95f, .clip = adamw.clip};
    AdamWBuffers buffers = {
        .params = model->weights, .copy = model->half_weights, .m = t->m, .v = t->v, .grads = model->gradients};
    buffers.rates = tensor_1d((float *)numbers->rates, DTYPE_F32, params_n_groups(&model->params));
    buffers.step = &numbers->update;
    wait_for_weights(run);
    if (t->exchange && t->exchange->sharded) {
        exchange_update(t->exchange, buffers, norm, adamw, muon);
    } else {
        adamw_update(t->spec.device, buffers, norm, model->loss_scale, u->segments, u->n_adamw, adamw);
        for (int i = 0; i < u->n_matrices; i++)
            muon_update(t->spec.device, buffers, norm, model->loss_scale, u->matrices[i], muon);
    }
    copy_moving(run, model->weights, model->gradients, norm);
}

/* Clips and updates. If the norm is not finite, which it is not if a loss is not, the update changes nothing. */
static void update(Run *run, const StepNumbers *numbers) {
    Device *device = run->t->spec.device;
    Tensor scale = run->t->spec.model->loss_scale, norm = results_norm(run), sums = results_sums(run);
    bool scaled = tensor_given(scale);
    float factor[LOSS_SCALE_FIELDS] = {[LOSS_SCALE_FACTOR] = 1};
    if (run->t->exchange && run->t->exchange->sharded)
        exchange_norm(run->t->exchange, norm, run->norm.squares);
    else
        gradient_norm_finish(&run->norm, norm, scale);
    norm_guard(device, norm, stop_flag(run), tensor_1d(sums.data, DTYPE_F32, tensor_numel(sums)), scaled);
    if (run->t->exchange && !tensor_given(stop_flag(run))) /* a lost rank sets it */
        norm_guard(device, norm, run->stopped, tensor_1d(sums.data, DTYPE_F32, 0), true);
    update_weights(run, norm, numbers);
    if (scaled && run->dump) device->download(device, factor, scale.data, sizeof factor);
    run->dumped_scale = factor[LOSS_SCALE_FACTOR];
    if (scaled) loss_scale_update(device, scale, norm, run->stopped);
    scatter_rows(device, run->results, tensor_2d(run->row.data, DTYPE_F32, 1, run->row.dims[0]),
                 tensor_1d((int32_t *)&numbers->row, DTYPE_I32, 1));
}

/* Makes sums and gradients those of all ranks, and updates. */
static void finish_step(Run *run, const StepNumbers *numbers) {
    if (run->t->exchange) {
        exchange_sum(run->t->exchange, results_sums(run));
        exchange_gradients(run->t->exchange, run->dumps);
    }
    update(run, numbers);
}

/* Returns whether a step ends behind the recording of its last pass: running statistics go through the host. */
static bool ends_outside(const Run *run) { return run->t->exchange && run->n_moving; }

static void after_pass(void *context, const StepNumbers *numbers) {
    const MicroBatch *m = context;
    Run *run = m->run;
    Tensor sums = run->passes.sums;
    scatter_rows(run->t->spec.device, results_sums(run), tensor_2d(sums.data, DTYPE_F32, 1, sums.dims[0]),
                 tensor_1d((int32_t *)&numbers->micro, DTYPE_I32, 1));
    run->numbers = numbers;
    if (run->t->exchange) exchange_end_pass(run->t->exchange, m->first);
    if (m->last && !ends_outside(run)) finish_step(run, numbers);
}

/* Returns whether the frame of a pass has operations between ranks. */
static bool is_together(const MicroBatch *m) {
    const Exchange *exchange = m->run->t->exchange;
    return exchange && ((m->last && !ends_outside(m->run)) || (m->first && exchange->sharded));
}

/* ---- a micro-batch ---- */

/* Clears the results of micro-batches that other ranks compute. */
static void clear_results(const Run *run) {
    Device *device = run->t->spec.device;
    device->clear(device, run->row.data, tensor_bytes(run->row));
    memset(run->queued[run->n_queued].counts, 0, (size_t)run->accumulation * BATCH_MAX_COUNTS * sizeof(double));
}

/* Has a pass tell whoever uses gradients before it has ended, and who has weights for it that come meanwhile. */
static void set_hooks(Run *run, const MicroBatch *m, Pass *pass) {
    Exchange *exchange = run->t->exchange;
    if (exchange && m->first) exchange_needs(exchange, pass);
    if (!m->last || ends_outside(run)) return; /* running statistics are taken after the pass */
    pass->finished = exchange ? reducer_finished : gradient_norm_finished;
    pass->finished_context = exchange ? (void *)&exchange->reducer : &run->norm;
}

static void set_numbers(Run *run, const Batch *batch, int64_t micro) {
    const TrainState *state = &run->t->state;
    StepNumbers *numbers = run->passes.numbers;
    int n = run->t->spec.model->n_metrics;
    numbers->pass.step = (uint32_t)(state->micro_step + micro);
    numbers->micro = (int32_t)micro;
    numbers->row = run->n_queued;
    numbers->update = (uint32_t)(state->step - state->skipped_steps + 1);
    for (int i = 0; i < n; i++)
        numbers->pass.loss_scale[i] = run->loss_scale[micro * n + i] =
            record_loss_scale(run, i, batch->counts, batch->group.counts);
    int groups = micro + ranks_count() >= run->accumulation ? params_n_groups(&run->t->spec.model->params) : 0;
    for (int g = 0; g < groups; g++) numbers->rates[g] = update_rate(run, g);
}

void step_micro_batch(Run *run, int64_t micro) {
    Training *t = run->t;
    const TrainOptions *o = t->spec.options;
    const Batch *batch = next_batch(run);
    MicroBatch m = {run, micro == ranks_rank(), micro + ranks_count() >= run->accumulation};
    PassFrame frame = {before_pass, after_pass, &m, m.first + 2 * m.last, is_together(&m), run->dumps};
    StepDump dump = {run->dump, micro};
    run->step_epoch = batch->group.first_epoch;
    if (m.first && t->exchange) clear_results(run);
    set_numbers(run, batch, micro);
    Pass pass = {.train = true,
                 .recompute = o->grad_checkpointing,
                 .unwritten = m.first ? run->passes.unwritten : NULL,
                 .seed = (uint64_t)o->seed,
                 .dump = run->dump ? step_dump_activation : NULL,
                 .dump_context = &dump};
    set_hooks(run, &m, &pass);
    if (run->dump) step_dump_batch(&dump, batch, t->spec.train->field_names);
    forecast_before_micro_batch(run);
    passes_run(&run->passes, batch, pass, &frame, tensor_none());
    count_batch(run, batch, micro);
    if (t->exchange) exchange_after_pass(t->exchange, micro);
    forecast_after_micro_batch(run, batch);
    if (!m.last) return;
    if (ends_outside(run)) finish_step(run, run->numbers);
    memcpy(run->group_counts, batch->group.counts, sizeof run->group_counts);
    count_step(run, &batch->group);
}

void step_end(Run *run) {
    double flops, bytes;
    device_totals(run->t->spec.device, &flops, &bytes);
    run->window.flops += flops - run->flops_before;
    run->n_queued++;
    run->step_flops = flops - run->flops_before;
    run->untold = run->t->exchange != NULL;
    if (run->dumps) results_exchange(run);
    if (run->dump) step_dump_write(run, run->dumped_scale);
}
