#include "train/run/results.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>

#include "base/stop.h"
#include "train/parallel/ranks.h"
#include "train/run/keep.h"
#include "train/run/record.h"

Tensor results_norm(const Run *run) { return tensor_1d(run->row.data, DTYPE_F32, 1); }

Tensor results_sums(const Run *run) {
    int64_t n = run->t->spec.model->n_metrics;
    return tensor_2d((float *)run->row.data + 1, DTYPE_F32, run->accumulation, n);
}

void results_download(Run *run) {
    Tensor rows = run->results;
    rows.dims[0] = run->n_queued;
    run->t->spec.device->download(run->t->spec.device, run->host_results, rows.data, tensor_bytes(rows));
}

static void collect_step(Run *run, const QueuedStep *step, const float *sums) {
    Training *t = run->t;
    for (int64_t micro = 0; micro < t->spec.options->grad_accumulation; micro++) {
        for (int i = 0; i < t->spec.model->n_metrics; i++)
            run->window.sums[i] += sums[micro * t->spec.model->n_metrics + i];
        for (int i = 0; i < BATCH_MAX_COUNTS; i++) run->window.counts[i] += step->counts[micro * BATCH_MAX_COUNTS + i];
    }
    run->window.steps++;
}

/* Stops the run at a step whose loss or gradient is not finite, with a checkpoint from before the step. Neither this
 * step nor the queued ones after it have changed anything (norm_guard). */
static void stop_nonfinite(Run *run, const QueuedStep *step) {
    Training *t = run->t;
    char ids[2048] = "";
    size_t used = 0;
    for (int64_t i = 0; i < step->n_samples && used < sizeof ids - 128; i++)
        used += (size_t)snprintf(ids + used, 128, " %.100s", t->spec.train->sample_id(t->spec.train, step->samples[i]));
    if (!ranks_write()) warn("samples of step %lld on this rank:%s", (long long)step->before.step + 1, ids);
    TrainState now = t->state;
    t->state = step->before;
    t->state.skipped_steps = now.skipped_steps;
    t->state.best = now.best; /* forget_best may have changed it since then */
    t->state.best_step = now.best_step;
    run->n_queued = 0;
    keep_save(run);
    keep_wait(run);
    ranks_wait_for_first();
    die("step %lld: the loss or its gradient is not finite (grad_norm %g); samples of this step:%s. The checkpoint in "
        "%s/last is from before it. Look at these samples, lower --learning-rate, or go on with --skip-nonfinite",
        (long long)t->state.step + 1, (double)run->grad_norm, ids, keep_folder(run));
}

/* The exchange of a step on a device that only queues it is not timed. */
static double busy_seconds(const Run *run) {
    const Group *group = run->t->exchange->group;
    return group->queues ? 0 : seconds_now() - run->step_start - (group->seconds - run->exchanged_before);
}

void results_exchange(Run *run) {
    int n = run->t->spec.model->n_metrics;
    if (!run->untold) return;
    StepFacts facts = {.counts = run->queued[0].counts,
                       .flops = run->step_flops,
                       .stop = stop_signal() != 0,
                       .tokens = run->own_tokens,
                       .busy = busy_seconds(run)};
    exchange_facts(run->t->exchange, &facts);
    run->untold = false;
    for (int64_t k = 0; k < run->accumulation; k++)
        for (int i = 0; i < n; i++)
            run->loss_scale[k * n + i] =
                record_loss_scale(run, i, facts.counts + k * BATCH_MAX_COUNTS, run->group_counts);
    run->window.flops += facts.flops - run->step_flops; /* of the other ranks */
    run->stops |= facts.stop > 0;
    if (facts.stop > 0 && !stop_signal()) stop_remember(SIGTERM);
}

void results_read(Run *run) {
    Training *t = run->t;
    bool scaled = tensor_given(t->spec.model->loss_scale);
    results_exchange(run);
    if (run->n_queued) results_download(run);
    if (!keep_is_writing(run)) keep_wait(run); /* the last write may have failed */
    for (int k = 0; k < run->n_queued; k++) {
        const QueuedStep *step = &run->queued[k];
        const float *row = run->host_results + k * run->results.dims[1];
        bool losses_finite = true;
        run->grad_norm = row[0];
        for (int64_t i = 1; i <= run->accumulation * t->spec.model->n_metrics; i++)
            losses_finite = losses_finite && isfinite(row[i]);
        if (isfinite(run->grad_norm)) {
            collect_step(run, step, row + 1);
            continue;
        }
        /* A gradient too large for the 16-bit type is no fault: the loss scale is halved, and a later step fits. */
        bool fault = !(losses_finite && scaled);
        if (fault && !t->spec.options->skip_nonfinite) stop_nonfinite(run, step);
        t->state.skipped_steps++;
        run->faults += fault;
        printf("[Train] step=%lld skipped: the loss or its gradient is not finite (%lld skipped so far)\n",
               (long long)step->before.step + 1, (long long)t->state.skipped_steps);
    }
    run->n_queued = 0;
}

/* Lets the device end what waits for the lost rank, without an update of its sums. */
static void end_exchange(Run *run) {
    Training *t = run->t;
    Device *device = t->spec.device;
    const float yes = 1;
    if (device->poke) device->poke(device, run->stopped.data, &yes, sizeof yes);
    group_leave(t->exchange->group);
    if (!run->n_queued) return;
    results_download(run);
    if (!isfinite(run->host_results[0])) t->state = run->queued[0].before; /* the update has changed nothing */
}

char *results_after_loss(void *run) {
    end_exchange(run);
    return keep_after_loss(run);
}

_Noreturn void results_stop_without_data(Run *run, const Error *reason) {
    Training *t = run->t;
    int64_t step = t->state.step;
    bool alone = !t->exchange || (ranks_write() && !t->exchange->sharded);
    if (!alone) die("%s", reason->text); /* the first rank hears of it, and keeps what is whole */
    results_read(run);
    if (step == run->first_step) die("%s", reason->text);
    if (run->keeping.saved_step != step) keep_save(run);
    keep_wait(run);
    die("%s. The %lld steps until then are %s %s/last; mend the data and give the same command with --resume auto",
        reason->text, (long long)step, run->keeping.failed ? "not all in" : "in", keep_folder(run));
}
