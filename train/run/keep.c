#include "train/run/keep.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint/folder.h"
#include "train/run/money.h"
#include "train/start/buffers.h"

const char *keep_folder(const Run *run) {
    const char *directory = run->keeping.checkpointer ? checkpointer_directory(run->keeping.checkpointer, NULL) : NULL;
    return directory ? directory : run->t->spec.options->output_dir;
}

/* Forgets a best value whose weights could not be written, so that a later, worse validation may become the best. */
static void forget_best(Run *run) {
    TrainState *state = &run->t->state;
    if (state->best_step == run->keeping.written.step && run->keeping.written.step != run->keeping.kept.step) {
        warn("the weights of step %lld, the best so far, could not be kept", (long long)state->best_step);
        run->keeping.lost = fmin(run->keeping.lost, state->best);
        state->best = run->keeping.kept.value;
        state->best_step = run->keeping.kept.step;
    }
    run->keeping.written = run->keeping.kept;
}

/* Removes the log that was set aside, which is not needed any more. */
static void remove_aside(Run *run) {
    const char *directory = checkpointer_directory(run->keeping.checkpointer, NULL);
    char path[PATH_MAX];
    if (!directory) return;
    snprintf(path, sizeof path, "%s%s", directory, strrchr(run->keeping.aside, '/'));
    if (unlink(path)) warn("cannot remove %s: %s", path, strerror(errno));
    free(run->keeping.aside);
    run->keeping.aside = NULL;
}

bool keep_is_writing(const Run *run) {
    return run->keeping.checkpointer && checkpointer_is_writing(run->keeping.checkpointer);
}

void keep_wait(Run *run) {
    Error error;
    if (!run->keeping.checkpointer) return;
    run->keeping.failed = !checkpointer_wait(run->keeping.checkpointer, &error);
    if (run->keeping.failed) {
        warn("the checkpoint could not be written: %s; the earlier ones are whole, training goes on", error.text);
        run->keeping.saved_step = -1;
        forget_best(run);
    } else if (run->keeping.aside && run->keeping.saved_step >= 0) {
        remove_aside(run);
    }
    run->keeping.kept = run->keeping.written;
}

/* Copies the weights and both moments to the host, unless the host reads them in place. */
static void take_copy(Run *run, int slot) {
    Training *t = run->t;
    Device *device = t->spec.device;
    Tensor parts[] = {t->spec.model->weights, t->m, t->v};
    if (t->exchange) exchange_weights(t->exchange);
    for (int i = 0; i < 3 && !device->host_memory; i++)
        if (t->staging[slot][i]) device->download(device, t->staging[slot][i], parts[i].data, tensor_bytes(parts[i]));
    if (t->exchange && t->exchange->sharded) exchange_collect(t->exchange, t->m, t->v, t->whole_m, t->whole_v);
    if (tensor_given(t->spec.model->loss_scale))
        device->download(device, t->state.loss_scale, t->spec.model->loss_scale.data, sizeof t->state.loss_scale);
    snprintf(t->state.device, sizeof t->state.device, "%s", device->description);
    bool ordered = t->exchange && t->exchange->group->queues; /* else sums are added in the order of ranks */
    snprintf(t->state.sums_by, sizeof t->state.sums_by, "%s", ordered ? t->exchange->group->description : "");
    double now = seconds_now();
    t->state.cost = money_spent(run, now);
    t->state.seconds = run->seconds_before + now - run->run_start;
    memcpy(t->state.window_sums, run->window.sums, sizeof run->window.sums);
    memcpy(t->state.window_counts, run->window.counts, sizeof run->window.counts);
}

/* Begins to write copy `slot` as a checkpoint. No other write may be under way. */
static void write_copy(Run *run, int slot, const TrainState *state) {
    Training *t = run->t;
    run->keeping.slot = slot;
    run->keeping.saved_step = state->step;
    run->keeping.written = (Best){state->best, state->best_step};
    if (!run->keeping.checkpointer) return; /* another rank writes */
    /* A checkpoint comes with its autotune cache and with the log up to its step. */
    const char *directory = checkpointer_directory(run->keeping.checkpointer, NULL);
    if (directory) train_write_autotune_cache(t, directory);
    if (!log_flush(run->log))
        warn("the log up to the checkpoint of step %lld is not all on the disk", (long long)state->step);
    const CheckpointBuffers copy = buffers_copy(t, slot);
    checkpointer_save(run->keeping.checkpointer, &copy, state);
}

void keep_waiting(Run *run) {
    if (!run->keeping.is_waiting) return;
    keep_wait(run);
    run->keeping.is_waiting = false;
    write_copy(run, 1 - run->keeping.slot, &run->keeping.waiting);
}

void keep_save(Run *run) {
    if (run->t->state.best_step == run->t->state.step)
        run->keeping.is_waiting = false; /* the waiting checkpoint is not the best any more */
    keep_waiting(run);
    keep_wait(run);
    take_copy(run, run->keeping.slot);
    write_copy(run, run->keeping.slot, &run->t->state);
}

void keep_best(Run *run) {
    if (!run->t->staging[1][0] || !keep_is_writing(run)) {
        keep_save(run);
        return;
    }
    take_copy(run, 1 - run->keeping.slot);
    run->keeping.waiting = run->t->state;
    run->keeping.is_waiting = true;
}

char *keep_after_loss(Run *run) {
    Training *t = run->t;
    bool whole = !t->exchange->sharded; /* else other ranks have parts of it */
    StepName last;
    if (!run->keeping.checkpointer) return NULL;
    keep_waiting(run);
    keep_wait(run);
    if (whole && run->keeping.saved_step != t->state.step) {
        take_copy(run, run->keeping.slot);
        write_copy(run, run->keeping.slot, &t->state);
        keep_wait(run);
    }
    folder_link(keep_folder(run), LAST_LINK, last);
    if (!last[0]) return xstrdup("No checkpoint was written");
    return xformat("%s/%s is whole: the same command with --resume auto goes on from it", keep_folder(run), last);
}
