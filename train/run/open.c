#include "train/run/open.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/file.h"
#include "base/format.h"
#include "base/program.h"
#include "base/stop.h"
#include "kernels/cards.h"
#include "train/parallel/ranks.h"
#include "train/report.h"
#include "train/run/after_step.h"
#include "train/run/forecast.h"
#include "train/run/keep.h"
#include "train/run/progress.h"
#include "train/run/results.h"
#include "train/run/selection.h"
#include "train/run/sharing.h"
#include "train/run/start.h"
#include "train/run/validation.h"
#include "train/stream.h"

static double peak_flops(const Training *t) {
    const Card *card = card_find(t->spec.device->description);
    if (!card) return 0;
    DType half = tensor_given(t->spec.model->half_weights) ? t->spec.device->half : DTYPE_F32;
    return machine_peak_flops(&(Machine){.card = card, .half = half, .tf32 = t->spec.device->tf32});
}

/* Dies if the data do not have the next micro-batch that the checkpoint names. */
static void check_place(const Training *t, const LoaderOptions *options) {
    int64_t batches = loader_epoch_batches(t->spec.train, options, t->state.epoch);
    if (t->state.batch_index > batches)
        die("--resume %s: state.json: \"batch_index\" is %lld, and epoch %lld has %lld micro-batches", t->resumed_from,
            (long long)t->state.batch_index, (long long)t->state.epoch + 1, (long long)batches);
}

/* Prints what Muon updates, if it is used. */
static void print_optimizer(const ParamUpdates *u) {
    int64_t by_adamw = 0, by_muon = 0;
    for (int i = 0; i < u->n_segments; i++) *(i < u->n_adamw ? &by_adamw : &by_muon) += segment_count(&u->segments[i]);
    if (u->n_matrices)
        printf("[Optimizer] Muon updates %d matrices (%lld parameters), AdamW the other %lld parameters\n",
               u->n_matrices, (long long)by_muon, (long long)by_adamw);
}

static void open_segments(Run *run) {
    const TrainSpec *spec = &run->t->spec;
    run->updates =
        params_updates(&spec->model->params, spec->device, (float)spec->options->weight_decay, spec->optimizer.muon);
    run->norm =
        gradient_norm_open(spec->device, spec->model->gradients, run->updates.segments, run->updates.n_segments);
    print_optimizer(&run->updates);
    run->n_moving = params_moving(&spec->model->params, &run->moving);
    if (run->t->exchange) exchange_use(run->t->exchange, &run->updates, run->moving, run->n_moving);
    run->n_groups = 1;
    for (int i = 0; spec->rate.at && i < run->updates.n_segments; i++)
        if (run->updates.segments[i].group >= run->n_groups) run->n_groups = run->updates.segments[i].group + 1;
    assert(run->n_groups <= TRAIN_MAX_GROUPS && spec->selection.n_metrics <= TRAIN_MAX_METRICS);
}

/* Opens the queue of steps, for micro-batches of up to `sequences` sequences. */
static void open_results(Run *run, int sequences) {
    const TrainSpec *spec = &run->t->spec;
    const TrainOptions *o = spec->options;
    Device *device = spec->device;
    int64_t g = o->grad_accumulation, n = spec->model->n_metrics, row = 1 + g * n;
    bool counts_skips = o->skip_nonfinite && !tensor_given(spec->model->loss_scale); /* the number of skipped steps is
                                                                                      * needed for AdamW's next step */
    bool waits = device->host_memory || counts_skips || run->t->exchange; /* all ranks read results at the same time */
    run->max_queued = waits ? 1 : TRAIN_MAX_QUEUED;
    run->results =
        tensor_2d(device->allocate(device, (size_t)(run->max_queued * row) * 4), DTYPE_F32, run->max_queued, row);
    run->stopped = tensor_1d(device->allocate(device, 4), DTYPE_F32, 1);
    run->row = tensor_1d(device->allocate(device, (size_t)row * 4), DTYPE_F32, row);
    run->host_results = xcalloc((size_t)(run->max_queued * row), sizeof(float));
    run->loss_scale = xcalloc((size_t)(g * n), sizeof(float));
    for (int i = 0; i < run->max_queued; i++) {
        run->queued[i].counts = xcalloc((size_t)g * BATCH_MAX_COUNTS, sizeof(double));
        run->queued[i].samples = xcalloc((size_t)g * (size_t)sequences, sizeof(int32_t));
    }
}

/* Warns if there is no room for the checkpoints of a fresh run: the newest, the best, and the one being written. */
static void check_room(const Training *t, const char *directory) {
    enum { AT_ONCE = 3, NUMBERS = 3 /* a weight and its two moments */ };
    struct statvfs disk;
    if (t->resumed_from || statvfs(directory, &disk)) return;
    char room[32], size[32];
    double bytes = NUMBERS * sizeof(float) * (double)params_count(&t->spec.model->params),
           free_bytes = (double)disk.f_bavail * (double)disk.f_frsize;
    if (free_bytes >= AT_ONCE * bytes) return;
    warn("the disk of %s has room for %s; a checkpoint takes about %s, and up to %d are there at once (the newest, the "
         "best, the one being written)%s: make room, or give an --output-dir on another disk",
         directory, format_bytes(free_bytes, room), format_bytes(bytes, size), AT_ONCE,
         free_bytes < bytes ? ", so that nothing can be kept" : "");
}

/* Only the first rank writes. */
static void open_folder(Run *run) {
    Training *t = run->t;
    const TrainOptions *o = t->spec.options;
    Keeping *k = &run->keeping;
    *k = (Keeping){.saved_step = -1, .lost = INFINITY};
    k->kept = k->written = (Best){t->state.best, t->state.best_step};
    free(t->state.options_json); /* the options of the previous run */
    t->state.options_json = options_to_json(t->spec.set);
    if (!ranks_write()) return;
    make_directories(o->output_dir);
    directory_remove_leftovers(o->output_dir);
    check_room(t, o->output_dir);
    k->checkpointer = checkpointer_open(o->output_dir, (int)o->keep_checkpoints);
    if (!t->resumed_from)
        checkpointer_begin(k->checkpointer);
    else if (checkpointer_resume(k->checkpointer, &t->state))
        k->saved_step = t->state.step;
    checkpointer_describe(k->checkpointer, description_text(&t->spec.description, t->spec.model, t->spec.set));
    k->kept = k->written = (Best){t->state.best, t->state.best_step};
    if (t->carried.n) checkpointer_carry(k->checkpointer, t->carried.tensors, t->carried.n);
    int64_t newest = checkpointer_newest(k->checkpointer);
    k->aside = log_set_aside(o->output_dir, newest, newest && newest != t->state.serial);
    run->log = log_open(o->output_dir, t->spec.labels.run, t->state.step);
}

/* Begins the run, logs where it resumes, and does a validation that the stopped run still owed. */
static void begin(Run *run) {
    const TrainSpec *spec = &run->t->spec;
    report_start(spec, run->total_steps, run->epoch_batches, run->validation.batches);
    report_check_epochs(spec, run->total_steps, run->epoch_batches);
    if (!run->t->state.step || !run_is_over(run)) start_log(run);
    forecast_begin(run);
    device_reset_counters(spec->device);
    spec->device->profile = spec->options->profile;
    progress_read_sensors(run);
    run->sensors_at = 0; /* the first call has only loaded what later ones need */
    run->run_start = run->window.start = seconds_now();
    if (!run->t->state.validating || !run->validation.loader) return;
    validation_run(run);
    keep_save(run); /* so that the validation is not repeated on the next start */
    run->window.start = seconds_now();
}

void run_open(Run *run, Training *t) {
    const TrainSpec *spec = &t->spec;
    const TrainOptions *o = spec->options;
    int sequences;
    LoaderOptions options = train_loader_options(o, &t->state);
    size_t bytes = loader_batch_bytes(spec->train, &options, &sequences);
    options.drop_last = spec->batch.drop_last;
    options.first = ranks_rank(), options.stride = ranks_count();
    check_place(t, &options);
    *run = (Run){.t = t,
                 .peak_flops = peak_flops(t),
                 .first_step = t->state.step,
                 .seconds_before = t->state.seconds,
                 .cost_before = t->state.cost,
                 .accumulation = o->grad_accumulation,
                 .total_steps = train_steps(spec, &options, selection_epochs(t)),
                 .epoch_batches = loader_epoch_batches(spec->train, &options, 0)};
    t->run = run;
    run->schedule_steps = o->max_steps ? o->max_steps : run->total_steps;
    memcpy(run->window.sums, t->state.window_sums, sizeof run->window.sums);
    memcpy(run->window.counts, t->state.window_counts, sizeof run->window.counts);
    if (o->val_batch_size > sequences) sequences = (int)o->val_batch_size;
    MachineOptions machine = train_machine_options(o);
    run->has_machine = machine_of_device(spec->device, &machine, &run->machine);
    open_segments(run);
    sharing_begin(run);
    open_results(run, sequences);
    open_folder(run);
    run->loader = loader_open(spec->train, &options);
    if (spec->validation) validation_open(run, &bytes);
    run->passes = passes_open(t, bytes, sequences);
    if (t->exchange) ranks_on_loss(results_after_loss, run);
    stop_defer(true);
    program_outlive_reader();
    begin(run);
    run->over = run_is_over(run);
}

void run_close(Run *run) {
    Device *device = run->t->spec.device;
    loader_close(run->loader);
    validation_close(run);
    if (run->keeping.checkpointer) checkpointer_close(run->keeping.checkpointer);
    if (run->log) log_close(run->log);
    if (run->t->exchange) ranks_on_loss(NULL, NULL);
    passes_close(&run->passes);
    device->release(device, run->results.data, tensor_bytes(run->results));
    device->release(device, run->stopped.data, 4);
    device->release(device, run->row.data, tensor_bytes(run->row));
    gradient_norm_close(&run->norm);
    for (int i = 0; i < run->max_queued; i++) {
        free(run->queued[i].counts);
        free(run->queued[i].samples);
    }
    free(run->keeping.aside);
    free(run->host_results);
    free(run->loss_scale);
    params_updates_free(&run->updates);
    free(run->moving);
    run->t->run = NULL;
    free(run->t->state.options_json);
    run->t->state.options_json = NULL;
}
