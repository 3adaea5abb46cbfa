/* The loop itself. Read train_step first: it is the whole training; the rest is what happens around it.
 *
 * A run is a pure function of (options, data, seed): batches come in an order that depends on the seed and the epoch
 * only, dropout on the seed and the number of the micro-batch. That is why a run that was stopped anywhere goes on bit
 * by bit as if it had not been: the checkpoint holds weights, moments and these counters. */
#include "train/loop.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/stop.h"
#include "kernels/cards.h"
#include "train/log.h"
#include "train/meter.h"
#include "train/pass.h"
#include "train/report.h"

/* A step whose numbers nobody has read yet. */
typedef struct {
    TrainState before; /* of the step */
    double *counts;    /* [g, BATCH_MAX_COUNTS] rows with a loss */
    int32_t *samples;  /* for the message about a loss that is not finite */
    int64_t n_samples;
} Queued;

enum { MAX_GROUPS = 8 };

typedef struct {
    double value;
    int64_t step;
} Best;

typedef struct {
    Training *t;
    Log *log;
    Loader *loader, *validation;
    Checkpointer *checkpointer;
    Segment *segments, *moving; /* of the parameters; of the buffers that move */
    int n_segments, n_moving;
    int n_groups; /* of parameters with rates of their own */

    int64_t total_steps;    /* the run's last; */
    int64_t schedule_steps; /* where the learning rate reaches 0: --max-steps, if that is given */
    int64_t batches_an_epoch, validation_batches;
    /* What steps measure stays on the device until it is wanted (a log line, a validation, a checkpoint), so that the
     * host need not wait for a step before it queues the next: a row [1 + g n_metrics] a step, the gradient norm and
     * the sums of each micro-batch. The host works ahead of a device with memory of its own only. */
    Queued queued[TRAIN_MAX_QUEUED];
    int n_queued, max_queued;
    Tensor results, stopped; /* f32 [max_queued, 1 + g n_metrics]; [1]: see norm_guard */
    float *host_results;
    float *loss_scale;      /* [g, n_metrics]: what a row of each counts for in the objective */
    Tensor validation_sums; /* f32 [validation_batches, n_metrics] on the device */
    Tensor outputs;         /* f32 [validation samples, n_outputs] there, if there is a judge */
    float *host_validation_sums, *host_outputs;
    Passes passes;

    /* Since the last train line of log.jsonl, the checkpoint's; and since that or the start of the program, for rates.
     */
    double window_sums[MODEL_MAX_METRICS], window_counts[BATCH_MAX_COUNTS];
    int64_t window_tokens, window_steps;
    double window_flops; /* of training */
    double window_start, run_start, seconds_before, shown_at;
    double peak_flops; /* what the card is stated to do in the type of the matrix products; 0: not known */
    float grad_norm;
    int64_t step_epoch; /* of the last step's first micro-batch */
    bool epoch_ended;   /* in the last step */
    int64_t first_step, saved_step, allocations_at_first_step, allocations_at_last_step;
    int64_t faults;            /* steps that were skipped, but not because the loss scale was too large */
    int64_t allocations_apart; /* the judge's and of what is kept beside a checkpoint, freed at once */
    Meter meter;
    bool save_failed;
    Best kept, written; /* on the disk; and what it will be when the write under way has ended */
    double lost;        /* the best value whose weights could not be kept; INFINITY: none */
    TrainState waiting; /* of a best checkpoint that waits in the other staging memory than `slot` */
    bool is_waiting;
    char *aside; /* the log of what the run goes back behind, until it has a checkpoint of its own; or NULL */
    int slot;    /* of the one that is written, or was */
} Run;

LoaderOptions train_loader_options(const TrainOptions *o, const TrainState *from) {
    return (LoaderOptions){.batch_size = (int)o->batch_size,
                           .token_budget = o->token_budget,
                           .accumulate = (int)o->grad_accumulation,
                           .shuffle = true,
                           .bucket = !strcmp(o->bucketing, "on"),
                           .seed = (uint64_t)o->seed,
                           .n_workers = (int)o->num_workers,
                           .start_epoch = from ? from->epoch : 0,
                           .start_index = from ? from->batch_index : 0,
                           .stop_after = -1};
}

/* Validation visits the first max_val_batches batches in file order, again and again. */
LoaderOptions validation_loader_options(const TrainOptions *o) {
    return (LoaderOptions){.batch_size = (int)o->val_batch_size,
                           .accumulate = 1,
                           .n_workers = 1,
                           .epoch_limit = o->max_val_batches,
                           .stop_after = -1};
}

int64_t validation_samples(const Dataset *dataset, const LoaderOptions *o) {
    int64_t samples = loader_epoch_batches(dataset, o, 0) * o->batch_size;
    return samples < dataset->n_samples ? samples : dataset->n_samples;
}

/* With those that were added. */
static int64_t epochs_of(const Training *t) { return t->options->epochs + t->state.extensions * t->extension_epochs; }

int64_t train_steps(const Training *t, const LoaderOptions *options) {
    const TrainOptions *o = t->options;
    int64_t epochs = epochs_of(t);
    int64_t batches = 0, first = loader_epoch_batches(t->train, options, 0);
    if (options->drop_last && o->token_budget)
        die("--token-budget makes micro-batches of any size, and only full ones are trained on; give -b instead");
    if (!first)
        die("the training data has %lld samples, and micro-batches of fewer than -b %lld are left out: lower -b",
            (long long)t->train->n_samples, (long long)o->batch_size);
    if (!o->token_budget)
        batches = first * epochs;
    else
        for (int64_t epoch = 0; epoch < epochs; epoch++) batches += loader_epoch_batches(t->train, options, epoch);
    int64_t steps = batches / o->grad_accumulation;
    if (!steps)
        die("nothing to do: %lld epochs have %lld micro-batches, fewer than the %lld of one optimizer step; lower %s",
            (long long)epochs, (long long)batches, (long long)o->grad_accumulation,
            o->auto_batch ? "--effective-batch" : "-g or -b");
    return o->max_steps && o->max_steps < steps ? o->max_steps : steps;
}

typedef struct {
    Dump *dump;
    int64_t micro;
} DumpContext;

static void dump_activation(void *context, const char *name, Tensor tensor) {
    DumpContext *to = context;
    char full[128];
    snprintf(full, sizeof full, "micro%lld.%s", (long long)to->micro, name);
    dump_add(to->dump, full, tensor);
}

static void dump_batch(Dump *dump, const Batch *batch, const char *const *names, int64_t micro) {
    char name[96];
    for (int i = 0; i < batch->n_fields; i++) {
        if (!batch->fields[i].data) continue;
        snprintf(name, sizeof name, "micro%lld.batch.%s", (long long)micro, names[i]);
        dump_add_host(dump, name, batch->fields[i]);
    }
}

/* What a sum over rows is divided by: their number, or the sum of their weights. Without any the sum is 0. */
static double rows_of(double count) { return count > 0 ? count : 1; }

/* What one row of a metric's loss counts for in the objective of the step. */
static float loss_scale(const Run *run, int metric, const Batch *batch) {
    const TrainOptions *o = run->t->options;
    const Metric *m = &run->t->model->metrics[metric];
    double rows = !strcmp(o->loss_norm, "batch") ? batch->group_counts[m->count]
                                                 : rows_of(batch->counts[m->count]) * (double)o->grad_accumulation;
    return (float)((double)m->weight / rows_of(rows));
}

/* In the row of the step that is being queued: its gradient norm, and the sums of `n` of its micro-batches. */
static Tensor norm_of(const Run *run) {
    return tensor_1d((float *)run->results.data + run->n_queued * run->results.dims[1], DTYPE_F32, 1);
}

static Tensor sums_of(const Run *run, int64_t micro, int64_t n) {
    int n_metrics = run->t->model->n_metrics;
    return tensor_1d((float *)norm_of(run).data + 1 + micro * n_metrics, DTYPE_F32, n * n_metrics);
}

/* Forward and backward of one micro-batch; gradients are accumulated, sums of the metrics go to its place in the step's
 * row. */
static void train_micro_batch(Run *run, Queued *step, const Batch *batch, int64_t micro, Dump *dump) {
    Training *t = run->t;
    const TrainOptions *o = t->options;
    Model *model = t->model;
    DumpContext dump_context = {dump, micro};
    PassNumbers numbers = {.step = (uint32_t)t->state.micro_step};
    for (int i = 0; i < model->n_metrics; i++)
        numbers.loss_scale[i] = run->loss_scale[micro * model->n_metrics + i] = loss_scale(run, i, batch);
    t->device->set(t->device, run->passes.numbers, &numbers, sizeof numbers);
    Pass pass = {.train = true,
                 .recompute = o->grad_checkpointing,
                 .seed = (uint64_t)o->seed,
                 .step = &run->passes.numbers->step,
                 .loss_scale = tensor_1d(run->passes.numbers->loss_scale, DTYPE_F32, model->n_metrics),
                 .dump = dump ? dump_activation : NULL,
                 .dump_context = &dump_context};
    if (dump) dump_batch(dump, batch, t->train->field_names, micro);
    passes_run(&run->passes, batch, pass, sums_of(run, micro, 1), tensor_none());
    memcpy(step->counts + micro * BATCH_MAX_COUNTS, batch->counts, sizeof batch->counts);
    memcpy(step->samples + step->n_samples, batch->samples, (size_t)batch->n_sequences * sizeof *batch->samples);
    step->n_samples += batch->n_sequences;
    t->state.micro_step++;
    t->state.samples_seen += batch->n_sequences;
    t->state.tokens_seen += batch->n_tokens;
    run->window_tokens += batch->n_tokens;
    meter_batch(&run->meter, batch);
}

/* The rows of the queued steps: here the loop waits for the device. */
static void read_results(Run *run) {
    Tensor rows = run->results;
    rows.dims[0] = run->n_queued;
    run->t->device->download(run->t->device, run->host_results, rows.data, tensor_bytes(rows));
}

/* The first step's, which is the only one queued. scale: the factor that its gradients have. */
static void dump_step(Run *run, Dump *dump, float scale) {
    Training *t = run->t;
    const float *sums = run->host_results + 1;
    char name[128];
    float loss = 0;
    read_results(run);
    for (int i = 0; i < t->model->n_metrics; i++) {
        snprintf(name, sizeof name, "sum.%s", t->model->metrics[i].name);
        float sum = 0;
        for (int64_t micro = 0; micro < t->options->grad_accumulation; micro++) {
            int64_t at = micro * t->model->n_metrics + i;
            sum += sums[at];
            loss += run->loss_scale[at] * sums[at];
        }
        dump_add_host(dump, name, tensor_1d(&sum, DTYPE_F32, 1));
    }
    dump_add_host(dump, "loss", tensor_1d(&loss, DTYPE_F32, 1));
    dump_add_host(dump, "grad_norm", tensor_1d(run->host_results, DTYPE_F32, 1));
    for (int i = 0; i < t->model->params.count; i++) {
        const Param *param = &t->model->params.items[i];
        if (param->buffer) continue;
        snprintf(name, sizeof name, "grad.%s", param->name);
        float *gradient = dump_add(dump, name, param_view(&t->model->params, t->model->gradients, i));
        for (int64_t e = 0; e < param->count; e++) gradient[e] /= scale;
    }
    dump_write_close(dump, t->options->debug_dump, t->options->grad_accumulation);
    log_line(run->log, "[Debug] wrote %s: the first step's batch, activations and gradients", t->options->debug_dump);
}

static void collect_step(Run *run, const Queued *step, const float *sums) {
    Training *t = run->t;
    for (int64_t micro = 0; micro < t->options->grad_accumulation; micro++) {
        for (int i = 0; i < t->model->n_metrics; i++) run->window_sums[i] += sums[micro * t->model->n_metrics + i];
        for (int i = 0; i < BATCH_MAX_COUNTS; i++) run->window_counts[i] += step->counts[micro * BATCH_MAX_COUNTS + i];
    }
    run->window_steps++;
}

/* Weights that could not be written are not the best that are kept: a validation that is not as good may be it now. */
static void forget_best(Run *run) {
    TrainState *state = &run->t->state;
    if (state->best_step == run->written.step && run->written.step != run->kept.step) {
        warn("the weights of step %lld, the best so far, could not be kept", (long long)state->best_step);
        run->lost = fmin(run->lost, state->best);
        state->best = run->kept.value;
        state->best_step = run->kept.step;
    }
    run->written = run->kept;
}

/* Where the run's folder is now, or was. */
static const char *folder_of(const Run *run) {
    const char *directory = checkpointer_directory(run->checkpointer, NULL);
    return directory ? directory : run->t->options->output_dir;
}

/* The log of what the run went back behind is not needed any more. */
static void remove_aside(Run *run) {
    const char *directory = checkpointer_directory(run->checkpointer, NULL);
    char path[PATH_MAX];
    if (!directory) return;
    snprintf(path, sizeof path, "%s%s", directory, strrchr(run->aside, '/'));
    if (unlink(path)) warn("cannot remove %s: %s", path, strerror(errno));
    free(run->aside);
    run->aside = NULL;
}

static void wait_for_checkpoint(Run *run) {
    Error error;
    run->save_failed = !checkpointer_wait(run->checkpointer, &error);
    if (run->save_failed) {
        warn("the checkpoint could not be written: %s; the earlier ones are whole, training goes on", error.text);
        run->saved_step = -1;
        forget_best(run);
    } else if (run->aside && run->saved_step >= 0) {
        remove_aside(run);
    }
    run->kept = run->written;
}

/* Copies the weights and both moments to the host, where it cannot read them in place. */
static void take_copy(Run *run, int slot) {
    Training *t = run->t;
    Device *device = t->device;
    Tensor parts[] = {t->model->weights, t->m, t->v};
    for (int i = 0; i < 3 && !device->host_memory; i++)
        device->download(device, t->staging[slot][i], parts[i].data, tensor_bytes(parts[i]));
    if (tensor_given(t->model->loss_scale))
        device->download(device, t->state.loss_scale, t->model->loss_scale.data, sizeof t->state.loss_scale);
    t->state.seconds = run->seconds_before + seconds_now() - run->run_start;
    memcpy(t->state.window_sums, run->window_sums, sizeof run->window_sums);
    memcpy(t->state.window_counts, run->window_counts, sizeof run->window_counts);
}

/* Begins to write that copy. No other one may be under way. */
static void write_copy(Run *run, int slot, const TrainState *state) {
    Training *t = run->t;
    int64_t before = allocation_count();
    /* No checkpoint is without those that made it, nor without the log up to it. */
    const char *directory = checkpointer_directory(run->checkpointer, NULL);
    if (directory) train_keep_choices(t, directory);
    if (!log_flush(run->log))
        warn("the log up to the checkpoint of step %lld is not all on the disk", (long long)state->step);
    run->allocations_apart += allocation_count() - before;
    Tensor parts[] = {t->model->weights, t->m, t->v};
    const float *host[3];
    for (int i = 0; i < 3; i++) host[i] = t->device->host_memory ? parts[i].data : t->staging[slot][i];
    run->slot = slot;
    run->saved_step = state->step;
    run->written = (Best){state->best, state->best_step};
    checkpointer_save(run->checkpointer, &t->model->params, host[0], host[1], host[2], state);
}

/* The best one that waits for its turn, if there is one. */
static void write_waiting(Run *run) {
    if (!run->is_waiting) return;
    wait_for_checkpoint(run);
    run->is_waiting = false;
    write_copy(run, 1 - run->slot, &run->waiting);
}

static void save(Run *run) {
    if (run->t->state.best_step == run->t->state.step) run->is_waiting = false; /* that one is not the best any more */
    write_waiting(run);
    wait_for_checkpoint(run);
    take_copy(run, run->slot);
    write_copy(run, run->slot, &run->t->state);
}

/* Short epochs end faster than checkpoints are written. The best one then waits, and makes way for a better one. */
static void save_best(Run *run) {
    if (!run->t->staging[1][0] || !checkpointer_is_writing(run->checkpointer)) {
        save(run);
        return;
    }
    take_copy(run, 1 - run->slot);
    run->waiting = run->t->state;
    run->is_waiting = true;
}

/* A loss or a gradient that is not a number: neither this step nor those behind it have changed anything (norm_guard).
 * Stops with a checkpoint from before it. */
static void stop_nonfinite(Run *run, const Queued *step) {
    Training *t = run->t;
    char ids[2048] = "";
    size_t used = 0;
    for (int64_t i = 0; i < step->n_samples && used < sizeof ids - 128; i++)
        used += (size_t)snprintf(ids + used, 128, " %.100s", t->train->sample_id(t->train, step->samples[i]));
    TrainState now = t->state;
    t->state = step->before;
    t->state.skipped_steps = now.skipped_steps;
    t->state.best = now.best; /* forget_best may have been here since then */
    t->state.best_step = now.best_step;
    run->n_queued = 0;
    save(run);
    wait_for_checkpoint(run);
    die("step %lld: the loss or its gradient is not finite (grad_norm %g); samples of this step:%s. The checkpoint in "
        "%s/last is from before it. Look at these samples, lower --learning-rate, or go on with --skip-nonfinite",
        (long long)t->state.step + 1, (double)run->grad_norm, ids, folder_of(run));
}

/* Reads what the queued steps have measured, and acts on it. */
static void read_steps(Run *run) {
    Training *t = run->t;
    bool scaled = tensor_given(t->model->loss_scale);
    if (run->n_queued) read_results(run);
    if (!checkpointer_is_writing(run->checkpointer)) wait_for_checkpoint(run); /* it may have failed */
    for (int k = 0; k < run->n_queued; k++) {
        const Queued *step = &run->queued[k];
        const float *row = run->host_results + k * run->results.dims[1];
        bool losses_finite = true;
        run->grad_norm = row[0];
        for (int64_t i = 1; i < run->results.dims[1]; i++) losses_finite = losses_finite && isfinite(row[i]);
        if (isfinite(run->grad_norm)) {
            collect_step(run, step, row + 1);
            continue;
        }
        /* A gradient too large for the 16-bit type is no fault: the scale goes down, and the next step fits. */
        bool fault = !(losses_finite && scaled);
        if (fault && !t->options->skip_nonfinite) stop_nonfinite(run, step);
        t->state.skipped_steps++;
        run->faults += fault;
        log_line(run->log, "[Train] step=%lld skipped: the loss or its gradient is not finite (%lld skipped so far)",
                 (long long)step->before.step + 1, (long long)t->state.skipped_steps);
    }
    run->n_queued = 0;
}

/* The data cannot be read any more: what was trained so far is kept. */
_Noreturn static void stop_without_data(Run *run, const Error *reason) {
    Training *t = run->t;
    int64_t step = t->state.step;
    read_steps(run);
    if (step == run->first_step) die("%s", reason->text);
    if (run->saved_step != step) save(run);
    wait_for_checkpoint(run);
    die("%s. The %lld steps until then are %s %s/last; mend the data and give the same command with --resume auto",
        reason->text, (long long)step, run->save_failed ? "not all in" : "in", folder_of(run));
}

/* Of a group of parameters in step `step` (0: the first), which is the last one whose batches were taken. */
static double learning_rate(const Run *run, int group, int64_t step) {
    const Training *t = run->t;
    const TrainOptions *o = t->options;
    if (t->learning_rate) return t->learning_rate(t, group, step, run->step_epoch);
    return o->learning_rate * schedule_cosine(step, o->warmup_steps, run->schedule_steps);
}

/* Buffers that move are copied to where a step works on them, or, with its norm, back where its update is made. */
static void copy_moving(const Run *run, Tensor to, Tensor from, Tensor norm) {
    if (run->n_moving) copy_segments(run->t->device, to, from, norm, run->moving, run->n_moving);
}

AdamW train_adamw(const Training *t) {
    return (AdamW){.learning_rate = 1,
                   .beta1 = 0.9f,
                   .beta2 = 0.999f,
                   .epsilon = 1e-8f,
                   .clip = (float)t->options->grad_clip,
                   .step = t->state.step - t->state.skipped_steps,
                   .coupled = t->coupled_decay};
}

/* One optimizer step: g micro-batches forward and backward, norm, clip, AdamW. */
static void train_step(Run *run) {
    Training *t = run->t;
    const TrainOptions *o = t->options;
    Device *device = t->device;
    Model *model = t->model;
    Queued *step = &run->queued[run->n_queued];
    Dump *dump = o->debug_dump && t->state.step == run->first_step ? dump_open(device) : NULL;

    double flops_before, bytes_before;
    device_totals(device, &flops_before, &bytes_before);
    step->before = t->state;
    step->n_samples = 0;
    run->epoch_ended = false;
    device->clear(device, model->gradients.data, tensor_bytes(model->gradients));
    copy_moving(run, model->gradients, model->weights, tensor_none());
    for (int64_t micro = 0; micro < o->grad_accumulation; micro++) {
        Error error;
        const Batch *batch = loader_try(run->loader, &error);
        if (!batch) {
            t->state = step->before;
            stop_without_data(run, &error);
        }
        train_micro_batch(run, step, batch, micro, dump);
        if (!micro) run->step_epoch = batch->epoch;
        run->epoch_ended |= batch->last;
        t->state.epoch = batch->epoch;
        t->state.batch_index = batch->index + 1;
    }
    Tensor norm = norm_of(run), stopped = o->skip_nonfinite ? tensor_none() : run->stopped;
    bool scaled = tensor_given(model->loss_scale);
    global_norm(device, norm, model->gradients, model->loss_scale, run->segments, run->n_segments);
    norm_guard(device, norm, stopped, sums_of(run, 0, o->grad_accumulation), scaled);
    double before = seconds_now();
    if (device->host_memory) wait_for_checkpoint(run); /* it reads the weights that are about to change */
    meter_waited(&run->meter, seconds_now() - before);
    for (int i = 0; i < run->n_segments; i++)
        run->segments[i].rate = (float)learning_rate(run, run->segments[i].group, t->state.step);
    AdamW adamw = train_adamw(t);
    adamw.step++;
    adamw_update(device, model->weights, model->half_weights, t->m, t->v, model->gradients, norm, model->loss_scale,
                 run->segments, run->n_segments, adamw);
    copy_moving(run, model->weights, model->gradients, norm);
    double flops, bytes;
    device_totals(device, &flops, &bytes);
    run->window_flops += flops - flops_before;
    float scale[LOSS_SCALE_FIELDS] = {[LOSS_SCALE_FACTOR] = 1};
    if (scaled && dump) device->download(device, scale, model->loss_scale.data, sizeof scale);
    if (scaled) loss_scale_update(device, model->loss_scale, norm, stopped);
    t->state.step++;
    run->n_queued++;
    if (dump) dump_step(run, dump, scale[LOSS_SCALE_FACTOR]);
}

static double remaining_seconds(const Run *run) {
    double done = (double)(run->t->state.step - run->first_step);
    return (seconds_now() - run->run_start) / done * (double)(run->total_steps - run->t->state.step);
}

/* "text_loss=5.1234 mel_loss=..." of sums over counts; also into values[] as "PREFIX/name". */
static double metrics_text(const Model *model, const double *sums, const double *counts, char *text, size_t size,
                           double *values) {
    double objective = 0;
    size_t used = 0;
    for (int i = 0; i < model->n_metrics; i++) {
        values[i] = sums[i] / rows_of(counts[model->metrics[i].count]);
        objective += (double)model->metrics[i].weight * values[i];
        if (used >= size) continue;
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s=%.4f", i ? " " : "", model->metrics[i].name, values[i]);
    }
    return objective;
}

/* In the checkpoint's record of last values: n from place `at` on. */
static void remember(TrainState *state, int at, const LogValue *values, int n) {
    for (int i = 0; i < n; i++) {
        snprintf(state->metric_names[at + i], sizeof state->metric_names[0], "%s", values[i].name);
        state->metric_values[at + i] = values[i].value;
    }
    if (state->n_metrics < at + n) state->n_metrics = at + n;
}

enum { LOG_NAME = 48, LOG_MOST = MODEL_MAX_METRICS + TRAIN_MAX_JUDGED + 16 };

/* A record's values, whose names are made here. */
typedef struct {
    char names[LOG_MOST][LOG_NAME];
    LogValue values[LOG_MOST];
    int n;
} Record;

PRINTF_LIKE(3, 4) static void record_add(Record *record, double value, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(record->names[record->n], LOG_NAME, format, arguments);
    va_end(arguments);
    record->values[record->n] = (LogValue){record->names[record->n], value};
    record->n++;
}

static void record_metrics(Record *record, const Model *model, const char *kind, const double *values) {
    for (int i = 0; i < model->n_metrics; i++) record_add(record, values[i], "%s/%s", kind, model->metrics[i].name);
}

static void record_log(Run *run, const char *kind, const Record *record) {
    log_values(run->log, kind, run->t->state.step, run->seconds_before + seconds_now() - run->run_start, record->values,
               record->n);
}

static const char *step_name(const Training *t) { return t->step_name ? t->step_name : "step"; }
static const char *token_name(const Training *t) { return t->token_name ? t->token_name : "tokens"; }

static void show_progress(Run *run, const char *text) {
    char eta[32];
    double elapsed = seconds_now() - run->window_start;
    log_progress(run->log, "step %lld/%lld  %s  %.3g %s/s  %.0f %s/s  ETA %s", (long long)run->t->state.step,
                 (long long)run->total_steps, text, (double)run->window_steps / elapsed, step_name(run->t),
                 (double)run->window_tokens / elapsed, token_name(run->t),
                 format_duration(remaining_seconds(run), eta));
}

/* On a terminal, a few times a second: it costs a wait for the device. */
static bool progress_is_due(Run *run) {
    double now = seconds_now();
    if (!log_is_terminal(run->log) || now - run->shown_at < 0.3) return false;
    run->shown_at = now;
    return true;
}

/* What of a window is told: the progress line; a line on the terminal, where a signal ends the run within a window,
 * which the resumed run's next record will be the mean over; or that and a record, with which the next window begins.
 */
typedef enum { TELL_PROGRESS, TELL_LINE, TELL_RECORD } Telling;

static void log_train(Run *run, Telling telling) {
    Training *t = run->t;
    char text[256], eta[32];
    double values[MODEL_MAX_METRICS] = {0}, elapsed = seconds_now() - run->window_start;
    metrics_text(t->model, run->window_sums, run->window_counts, text, sizeof text, values);
    if (!run->window_steps) return;
    if (telling == TELL_PROGRESS) {
        show_progress(run, text);
        return;
    }
    double rate = (double)run->window_steps / elapsed, tokens = (double)run->window_tokens / elapsed;
    double of_peak = run->peak_flops > 0 ? run->window_flops / elapsed / run->peak_flops : 0;
    char utilisation[24] = "";
    /* Operations that are done again count too: then it is the hardware's utilisation, not the model's. */
    const char *name = t->options->grad_checkpointing ? "HFU" : "MFU";
    double rate_of_groups[MAX_GROUPS] = {0};
    for (int i = 0; i < run->n_groups; i++) rate_of_groups[i] = learning_rate(run, i, t->state.step - 1);
    if (of_peak > 0) snprintf(utilisation, sizeof utilisation, " %s=%.1f%%", name, 100 * of_peak);
    log_line(run->log, "[Train] epoch=%lld step=%lld %s lr=%.2e grad_norm=%.3f %s/s=%.3g %s/s=%.0f%s ETA %s",
             (long long)t->state.epoch, (long long)t->state.step, text, rate_of_groups[0], (double)run->grad_norm,
             step_name(t), rate, token_name(t), tokens, utilisation, format_duration(remaining_seconds(run), eta));
    if (telling == TELL_LINE) return;
    Record record = {.n = 0};
    record_metrics(&record, t->model, "train", values);
    remember(&t->state, 0, record.values, record.n);
    record_add(&record, rate_of_groups[0], "train/lr");
    for (int i = 1; i < run->n_groups; i++) record_add(&record, rate_of_groups[i], "train/lr_%d", i);
    record_add(&record, (double)run->grad_norm, "train/grad_norm");
    record_add(&record, rate, "train/steps_per_second");
    record_add(&record, tokens, "train/tokens_per_second");
    record_add(&record, (double)t->state.epoch, "train/epoch");
    if (of_peak > 0) record_add(&record, of_peak, t->options->grad_checkpointing ? "train/hfu" : "train/mfu");
    record_log(run, "train", &record);
    memset(run->window_sums, 0, sizeof run->window_sums);
    memset(run->window_counts, 0, sizeof run->window_counts);
    run->window_tokens = run->window_steps = 0;
    run->window_flops = 0;
    run->window_start = seconds_now();
}

/* What decides about best: a metric's mean, or what the judge makes of the outputs, which fills values[n_judged]. */
static double judge(Run *run, const double *means, double objective, double *values) {
    Training *t = run->t;
    if (!t->judge) return t->monitor < 0 ? objective : means[t->monitor];
    t->device->download(t->device, run->host_outputs, run->outputs.data, tensor_bytes(run->outputs));
    int64_t before = allocation_count();
    double decisive = t->judge(t, run->host_outputs, run->outputs.dims[0], values);
    run->allocations_apart += allocation_count() - before;
    return decisive;
}

/* After a new best: a run that still gets better near its end gets more epochs. */
static void extend(Run *run) {
    Training *t = run->t;
    int64_t epochs = epochs_of(t);
    if (t->state.extensions >= t->most_extensions || t->state.epoch + 1 < epochs - 2) return;
    LoaderOptions options = train_loader_options(t->options, &t->state);
    options.drop_last = t->drop_last;
    t->state.extensions++;
    run->total_steps = train_steps(t, &options);
    log_line(run->log, "[Run] the best so far came in epoch %lld, the last is %lld: %lld more (%lld of %lld times)",
             (long long)t->state.epoch, (long long)(epochs - 1), (long long)t->extension_epochs,
             (long long)t->state.extensions, (long long)t->most_extensions);
}

static bool out_of_patience(const Training *t) { return t->patience > 0 && t->state.worse >= t->patience; }

/* Metrics over the validation subset, each a mean over all its rows. True if it is the best so far. */
static bool validate(Run *run) {
    Training *t = run->t;
    TrainState *state = &t->state;
    double sums[MODEL_MAX_METRICS] = {0}, counts[BATCH_MAX_COUNTS] = {0}, means[MODEL_MAX_METRICS];
    double start = seconds_now(), judged[TRAIN_MAX_JUDGED] = {0};
    int n = t->model->n_metrics;
    Error error;
    state->validating = 1; /* a run that must end here validates first when it goes on */
    if (!passes_measure(&run->passes, run->validation, run->validation_batches, run->validation_sums, run->outputs,
                        counts, &error))
        stop_without_data(run, &error);
    state->validating = 0;
    t->device->download(t->device, run->host_validation_sums, run->validation_sums.data,
                        tensor_bytes(run->validation_sums));
    for (int64_t i = 0; i < run->validation_batches * n; i++) sums[i % n] += (double)run->host_validation_sums[i];
    char text[512];
    double objective = metrics_text(t->model, sums, counts, text, sizeof text, means);
    double decisive = judge(run, means, objective, judged);
    size_t used = strlen(text);
    Record record = {.n = 0};
    record_metrics(&record, t->model, "val", means);
    for (int i = 0; i < t->n_judged; i++) {
        record_add(&record, judged[i], "val/%s", t->judged[i]);
        if (used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, " %s=%.4f", t->judged[i], judged[i]);
    }
    remember(state, n, record.values, record.n);
    record_add(&record, objective, "val/objective");
    record_log(run, "val", &record);
    log_line(run->log, "[Val] epoch=%lld step=%lld %s (%lld batches, %.1f s)", (long long)state->epoch,
             (long long)state->step, text, (long long)run->validation_batches, seconds_now() - start);
    run->window_start += seconds_now() - start; /* not the training's time */
    bool best = decisive < state->best;
    state->worse = best ? 0 : state->worse + 1;
    if (!best) return false;
    state->best = decisive;
    state->best_step = state->step;
    return true;
}

static double peak_flops(const Training *t) {
    const Card *card = card_find(t->device->description);
    if (!card) return 0;
    DType half = tensor_given(t->model->half_weights) ? t->device->half : DTYPE_F32;
    return estimate_peak(&(Machine){.card = card, .half = half, .tf32 = t->device->tf32});
}

/* Its buffers, and the bytes of its batches if they are larger. */
static void open_validation(Run *run, size_t *bytes) {
    Training *t = run->t;
    LoaderOptions options = validation_loader_options(t->options);
    int64_t n = t->model->n_metrics, batches = loader_epoch_batches(t->validation, &options, 0);
    int64_t samples = validation_samples(t->validation, &options);
    size_t needed = loader_batch_bytes(t->validation, &options, NULL);
    if (needed > *bytes) *bytes = needed;
    run->validation_batches = batches;
    run->validation = loader_open(t->validation, &options);
    run->validation_sums = tensor_2d(t->device->allocate(t->device, (size_t)(batches * n) * 4), DTYPE_F32, batches, n);
    run->host_validation_sums = xcalloc((size_t)(batches * n), sizeof(float));
    if (!t->judge) return;
    size_t outputs = (size_t)(samples * t->model->n_outputs) * sizeof(float);
    run->outputs = tensor_2d(t->device->allocate(t->device, outputs), DTYPE_F32, samples, t->model->n_outputs);
    run->host_outputs = xmalloc(outputs);
}

/* Whether the data have the place that the checkpoint says comes next. */
static void check_place(const Training *t, const LoaderOptions *options) {
    int64_t batches = loader_epoch_batches(t->train, options, t->state.epoch);
    if (t->state.batch_index > batches)
        die("--resume %s: state.json: \"batch_index\" is %lld, and epoch %lld has %lld micro-batches", t->resumed_from,
            (long long)t->state.batch_index, (long long)t->state.epoch, (long long)batches);
}

static Run run_open(Training *t) {
    const TrainOptions *o = t->options;
    Run run = {.t = t,
               .peak_flops = peak_flops(t),
               .saved_step = -1,
               .lost = INFINITY,
               .first_step = t->state.step,
               .seconds_before = t->state.seconds};
    int64_t g = o->grad_accumulation;
    int n = t->model->n_metrics, sequences;
    LoaderOptions options = train_loader_options(o, &t->state);
    size_t bytes = loader_batch_bytes(t->train, &options, &sequences);
    options.drop_last = t->drop_last;
    check_place(t, &options);
    run.total_steps = train_steps(t, &options);
    run.batches_an_epoch = loader_epoch_batches(t->train, &options, 0);
    run.schedule_steps = o->max_steps ? o->max_steps : run.total_steps;
    free(t->state.options_json); /* those of the run before */
    t->state.options_json = options_to_json(t->rows, t->n_rows);
    run.n_segments = params_segments(&t->model->params, (float)o->weight_decay, &run.segments);
    run.n_moving = params_moving(&t->model->params, &run.moving);
    run.n_groups = 1;
    for (int i = 0; i < run.n_segments; i++)
        if (run.segments[i].group >= run.n_groups) run.n_groups = run.segments[i].group + 1;
    assert(run.n_groups <= MAX_GROUPS && t->n_judged <= TRAIN_MAX_JUDGED);
    bool counts_skips = o->skip_nonfinite && !tensor_given(t->model->loss_scale); /* for AdamW's next step */
    run.max_queued = t->device->host_memory || counts_skips ? 1 : TRAIN_MAX_QUEUED;
    run.results = tensor_2d(t->device->allocate(t->device, (size_t)(run.max_queued * (1 + g * n)) * 4), DTYPE_F32,
                            run.max_queued, 1 + g * n);
    run.stopped = tensor_1d(t->device->allocate(t->device, 4), DTYPE_F32, 1);
    if (o->val_batch_size > sequences) sequences = (int)o->val_batch_size;
    run.host_results = xcalloc((size_t)(run.max_queued * (1 + g * n)), sizeof(float));
    run.loss_scale = xcalloc((size_t)(g * n), sizeof(float));
    for (int i = 0; i < run.max_queued; i++) {
        run.queued[i].counts = xcalloc((size_t)g * BATCH_MAX_COUNTS, sizeof(double));
        run.queued[i].samples = xcalloc((size_t)g * (size_t)sequences, sizeof(int32_t));
    }
    make_directories(o->output_dir);
    directory_remove_leftovers(o->output_dir);
    run.checkpointer = checkpointer_open(o->output_dir, (int)o->keep_checkpoints);
    if (!t->resumed_from)
        checkpointer_begin(run.checkpointer);
    else if (checkpointer_resume(run.checkpointer, &t->state))
        run.saved_step = t->state.step;
    run.kept = run.written = (Best){t->state.best, t->state.best_step};
    memcpy(run.window_sums, t->state.window_sums, sizeof run.window_sums);
    memcpy(run.window_counts, t->state.window_counts, sizeof run.window_counts);
    if (t->n_carried) checkpointer_carry(run.checkpointer, t->carried, t->n_carried);
    int64_t newest = checkpointer_newest(run.checkpointer);
    run.aside = log_set_aside(o->output_dir, newest, newest && newest != t->state.serial);
    run.log = log_open(o->output_dir, t->state.step);
    run.loader = loader_open(t->train, &options);
    if (t->validation) open_validation(&run, &bytes);
    run.passes = passes_open(t, bytes, sequences);
    return run;
}

static void run_close(Run *run) {
    Device *device = run->t->device;
    loader_close(run->loader);
    if (run->validation) loader_close(run->validation);
    checkpointer_close(run->checkpointer);
    log_close(run->log);
    passes_close(&run->passes);
    device->release(device, run->results.data, tensor_bytes(run->results));
    device->release(device, run->stopped.data, 4);
    if (run->validation) device->release(device, run->validation_sums.data, tensor_bytes(run->validation_sums));
    if (tensor_given(run->outputs)) device->release(device, run->outputs.data, tensor_bytes(run->outputs));
    for (int i = 0; i < run->max_queued; i++) {
        free(run->queued[i].counts);
        free(run->queued[i].samples);
    }
    free(run->aside);
    free(run->host_results);
    free(run->host_validation_sums);
    free(run->host_outputs);
    free(run->loss_scale);
    free(run->segments);
    free(run->moving);
    free(run->t->state.options_json);
    run->t->state.options_json = NULL;
}

/* What decides about best. */
static const char *monitored(const Training *t) {
    return t->judge ? t->judged[0] : t->monitor < 0 ? "objective" : t->model->metrics[t->monitor].name;
}

/* The most that the device has had of its memory at a time, and what it reads of the host's in place. */
static size_t peak_bytes(const Run *run) {
    const Training *t = run->t;
    size_t bytes = t->device->peak_allocated;
    if (!t->device->host_memory) return bytes;
    Tensor data = t->train->resident, other = t->validation ? t->validation->resident : tensor_none();
    bytes += loader_bytes(run->loader) + (run->validation ? loader_bytes(run->validation) : 0);
    if (tensor_given(data)) bytes += tensor_bytes(data);
    if (tensor_given(other) && other.data != data.data) bytes += tensor_bytes(other);
    return bytes;
}

/* What the run took, and what had been foretold. */
static void log_summary(Run *run) {
    const Training *t = run->t;
    double elapsed = seconds_now() - run->run_start, flops, bytes, peak = (double)peak_bytes(run);
    char text[4][32], step[256];
    Record record = {.n = 0};
    StepTime time = meter_step_time(&run->meter, t);
    device_totals(t->device, &flops, &bytes);
    record_add(&record, elapsed, "summary/seconds");
    record_add(&record, flops, "summary/flops");
    record_add(&record, (double)(run->allocations_at_last_step - run->allocations_at_first_step),
               "summary/allocations_after_first_step");
    record_add(&record, (double)t->state.skipped_steps, "summary/skipped_steps");
    record_add(&record, (double)t->planned_bytes, "summary/planned_bytes");
    record_add(&record, peak, "summary/peak_bytes");
    if (time.steps) record_add(&record, time.seconds, "summary/step_seconds");
    if (time.known) record_add(&record, time.predicted.seconds, "summary/predicted_step_seconds");
    record_log(run, "summary", &record);
    log_line(run->log, "[Done] step %lld of %lld in %s, %s/s", (long long)t->state.step, (long long)run->total_steps,
             format_duration(elapsed, text[0]), format_count(flops / elapsed, "FLOP", text[1]));
    meter_text(&time, t, step);
    log_line(run->log, "[Done] a step: %s", step);
    log_line(run->log, "[Done] memory: %s at most, planned %s (measured / planned %.2f)", format_bytes(peak, text[2]),
             format_bytes((double)t->planned_bytes, text[3]), peak / (double)t->planned_bytes);
}

/* The last lines of a run. Returns the exit status. */
static int finish(Run *run) {
    Training *t = run->t;
    const TrainOptions *o = t->options;
    write_waiting(run);
    if (run->saved_step != t->state.step) save(run);
    wait_for_checkpoint(run);
    t->ended = t->state.step >= run->total_steps || out_of_patience(t);
    log_summary(run);
    if (o->debug_dump && t->state.step == run->first_step)
        warn("--debug-dump %s: no step was done, nothing is written", o->debug_dump);
    if (o->profile) device_print_counters(t->device, stdout);
    if (run->save_failed) {
        warn("the last checkpoint was not written; %s/last is an earlier one", folder_of(run));
        return 1;
    }
    if (run->faults && run->faults == t->state.step - run->first_step && !stop_signal()) {
        warn("all %lld steps were skipped, since their losses or gradients were not finite: nothing was trained. Look "
             "at the data, or lower --learning-rate",
             (long long)run->faults);
        return 1;
    }
    Error error;
    const char *directory = checkpointer_directory(run->checkpointer, &error);
    if (!directory) die("%s", error.text);
    if (out_of_patience(t))
        log_line(run->log, "[Done] no better %s for %lld validations: stopped at epoch %lld; best at step %lld",
                 monitored(t), (long long)t->state.worse, (long long)t->state.epoch, (long long)t->state.best_step);
    if (!t->ended)
        log_line(run->log,
                 "[Stopped] by signal %d after step %lld; the same command with --resume auto goes on from there",
                 stop_signal(), (long long)t->state.step);
    else if (!report_plot(directory, t->model, t->floor_name, t->floor_value, t->floor_metric))
        return 1;
    bool lost = run->lost < run->kept.value; /* no better ones are kept */
    if (lost) warn("weights that were the best so far could not be written, and are lost");
    bool logged = log_flush(run->log);
    if (!logged) warn("%s lacks what could not be written of the log", directory);
    bool moved = !file_is_same(directory, o->output_dir);
    if (moved)
        warn("%s is not the run's folder any more: what it has written is in %s, and what follows a run was left out",
             o->output_dir, directory);
    return lost || !logged || (moved && t->ended);
}

/* Validates, and gives the run more epochs if they are due. */
static bool measure_best(Run *run) {
    bool best = validate(run);
    if (best) extend(run);
    return best;
}

int train_run(Training *t) {
    Run run = run_open(t);
    const TrainOptions *o = t->options;
    stop_defer(true);
    report_start(t, run.total_steps, run.batches_an_epoch, run.validation_batches);
    device_reset_counters(t->device);
    t->device->profile = o->profile;
    run.run_start = run.window_start = seconds_now();
    if (t->state.validating && run.validation) {
        measure_best(&run);
        save(&run); /* so that it is not done again, whatever it found */
    }
    for (bool go_on = t->state.step < run.total_steps && !out_of_patience(t) && !stop_signal(); go_on;) {
        train_step(&run);
        int64_t step = t->state.step;
        go_on = step < run.total_steps && !stop_signal();
        bool last = step == run.total_steps, best = false;
        bool epoch = !o->val_interval && run.epoch_ended; /* then epochs are what is reported on */
        bool record = step % o->log_interval == 0 || epoch || last, progress = progress_is_due(&run);
        bool measure = run.validation && (last || epoch || (o->val_interval && step % o->val_interval == 0));
        bool keep = o->save_interval && step % o->save_interval == 0;
        bool pause = record || !go_on || progress || measure || keep;
        int64_t done = step - run.first_step;
        if (pause || run.n_queued == run.max_queued || done == METER_LEFT_OUT) read_steps(&run);
        if (pause) meter_stop(&run.meter, t->device, done);
        if (record || !go_on || progress) log_train(&run, record ? TELL_RECORD : go_on ? TELL_PROGRESS : TELL_LINE);
        if (measure) best = measure_best(&run);
        if (best) go_on = step < run.total_steps && !stop_signal();
        if (measure && out_of_patience(t)) {
            go_on = false;
            log_train(&run, TELL_RECORD); /* what has not been told yet */
        }
        run.allocations_at_last_step = allocation_count() + t->device->allocation_calls - run.allocations_apart;
        if (step == run.first_step + 1) run.allocations_at_first_step = run.allocations_at_last_step;
        if (keep)
            save(&run);
        else if (best)
            save_best(&run);
        else if (!checkpointer_is_writing(run.checkpointer))
            write_waiting(&run);
        if (go_on) meter_start(&run.meter, t->device, done);
    }
    int status = finish(&run);
    run_close(&run);
    stop_defer(false);
    return status;
}
