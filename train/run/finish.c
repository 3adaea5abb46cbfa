#include "train/run/finish.h"

#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/format.h"
#include "base/program.h"
#include "base/stop.h"
#include "checkpoint/folder.h"
#include "kernels/ops_table.h"
#include "page/page.h"
#include "train/parallel/ranks.h"
#include "train/report.h"
#include "train/run/keep.h"
#include "train/run/money.h"
#include "train/run/open.h"
#include "train/run/record.h"
#include "train/run/selection.h"

/* Returns the peak of the device's allocated bytes, plus the data that the device reads in place. */
static size_t peak_bytes(const Run *run) {
    const Training *t = run->t;
    size_t bytes = t->spec.device->peak_allocated;
    if (!t->spec.device->host_memory) return bytes;
    Tensor data = t->spec.train->device_data,
           other = t->spec.validation ? t->spec.validation->device_data : tensor_none();
    bytes += loader_bytes(run->loader) + (run->validation.loader ? loader_bytes(run->validation.loader) : 0);
    if (tensor_given(data)) bytes += tensor_bytes(data);
    if (tensor_given(other) && other.data != data.data) bytes += tensor_bytes(other);
    return bytes;
}

/* Logs measured time and memory beside the estimate. */
static void log_summary(Run *run) {
    const Training *t = run->t;
    double now = seconds_now(), elapsed = now - run->run_start, flops, bytes, peak = (double)peak_bytes(run);
    char text[4][32], step[256], money[96];
    Record record = {.n = 0};
    const char *part = t->spec.labels.part;
    StepTime time = meter_step_time(&run->meter, run->has_machine ? &run->machine : NULL);
    device_totals(t->spec.device, &flops, &bytes);
    record_add(&record, elapsed, "summary/seconds");
    record_add(&record, flops, "summary/flops");
    record_add(&record, (double)t->state.skipped_steps, "summary/skipped_steps");
    record_add(&record, t->ended, "summary/ended");
    record_add(&record, selection_out_of_patience(t), "summary/out_of_patience");
    record_add(&record, stop_signal(), "summary/signal");
    record_add(&record, (double)t->state.best_step, "summary/best_step");
    record_add(&record, (double)t->planned_bytes, "summary/planned_bytes");
    record_add(&record, peak, "summary/peak_bytes");
    if (time.steps) record_add(&record, time.seconds, "summary/step_seconds");
    if (time.known) record_add(&record, time.predicted.seconds, "summary/predicted_step_seconds");
    if (!isnan(money_spent(run, now))) record_add(&record, money_spent(run, now), "summary/cost");
    record_log(run, "summary", &record);
    printf("[Done] step %lld of %lld in %s, %s/s\n", (long long)t->state.step, (long long)run->total_steps,
           format_duration(elapsed, text[0]), format_count(flops / elapsed, "FLOP", text[1]));
    if (*money_text(run, money)) printf("[Done] cost%s%s: %s\n", part ? " of " : "", part ? part : "", money);
    meter_text(&time, &t->spec, step);
    printf("[Done] a step: %s\n", step);
    printf("[Done] memory: %s at most, planned %s (measured / planned %.2f)\n", format_bytes(peak, text[2]),
           format_bytes((double)t->planned_bytes, text[3]), peak / (double)t->planned_bytes);
}

/* Returns whether all steps of an ended run were skipped, and warns then. A run that will be resumed may do better. */
static bool trained_nothing(const Run *run) {
    if (!run->faults || run->faults != run->t->state.step - run->first_step || stop_signal()) return false;
    warn("all %lld steps were skipped, since their losses or gradients were not finite: nothing was trained. Look "
         "at the data, or lower --learning-rate",
         (long long)run->faults);
    return true;
}

/* Prints how the run ended, and plots its curves if it ended by itself. How several trainings continue is said behind
 * the last of them. */
static bool report_end(Run *run, const char *directory) {
    const Training *t = run->t;
    const BaselineSpec *baseline = &t->spec.baseline;
    if (selection_out_of_patience(t))
        printf("[Done] no better %s for %lld validations: stopped at epoch %lld; best at step %lld\n",
               selection_name(&t->spec), (long long)t->state.validations_since_best, (long long)t->state.epoch + 1,
               (long long)t->state.best_step);
    if (t->ended) return report_plot(directory, t->spec.model, baseline);
    printf("[Stopped] by signal %d after step %lld%s\n", stop_signal(), (long long)t->state.step,
           t->spec.labels.part ? "" : "; continue with the same command and --resume auto");
    return true;
}

/* Warns of weights and logs that could not be written. Returns the exit status. */
static int check_kept(Run *run, const char *directory) {
    const char *output_dir = run->t->spec.options->output_dir;
    bool lost = run->keeping.lost < run->keeping.kept.value; /* no better weights have been kept since */
    if (lost) warn("weights that were the best so far could not be written, and are lost");
    bool logged = log_flush(run->log);
    if (!logged) warn("%s lacks what could not be written of the log", directory);
    bool moved = !file_is_same(directory, output_dir);
    if (moved)
        warn("%s is not the run's folder any more: what it has written is in %s, and what follows a run was left out",
             output_dir, directory);
    return lost || !logged || (moved && run->t->ended);
}

/* Says what is lost with the last checkpoint, which could not be written. */
static void warn_of_loss(const Run *run) {
    const char *folder = keep_folder(run);
    StepName last;
    folder_link(folder, LAST_LINK, last);
    if (last[0])
        warn("the last checkpoint was not written: what was trained after %s/%s is lost. Make room, then continue with "
             "the same command and --resume auto",
             folder, last);
    else
        warn("no checkpoint was written: what was trained is lost, and there are no weights in %s. Make room, or give "
             "an --output-dir on another disk, and train again",
             folder);
}

static int finish(Run *run) {
    Training *t = run->t;
    const TrainOptions *o = t->spec.options;
    Error error;
    terminal_progress_end();
    keep_waiting(run);
    bool save = run->keeping.saved_step != t->state.step;
    ranks_share(&save, sizeof save);
    if (save) keep_save(run);
    keep_wait(run);
    t->ended = t->state.step >= run->total_steps || selection_out_of_patience(t);
    log_summary(run);
    if (!ranks_write()) return 0; /* the first rank tells the status */
    if (o->debug_dump && t->state.step == run->first_step)
        warn("--debug-dump %s: no step was done, nothing is written", o->debug_dump);
    if (o->profile) ops_print_counters(t->spec.device, stdout);
    if (run->keeping.failed) warn_of_loss(run);
    bool failed = run->keeping.failed || trained_nothing(run);
    const char *directory = checkpointer_directory(run->keeping.checkpointer, &error);
    if (!directory) die("%s", error.text);
    bool reported = failed || report_end(run, directory);
    if (page_write_or_warn(directory, 0, false)) printf("[Done] report: %s/report.html\n", directory);
    int status = check_kept(run, directory);
    return failed || !reported ? 1 : status;
}

/* Has all ranks know of a signal to one of them, so that no other goes on. */
static void share_signal(const Run *run) {
    if (!run->t->exchange) return;
    int signal = ranks_largest(stop_signal());
    if (signal && !stop_signal()) stop_remember(signal);
}

int run_finish(Run *run) {
    int status = finish(run);
    ranks_share(&status, sizeof status);
    share_signal(run);
    bool only = !run->t->spec.labels.part;
    run_close(run);
    if (only) ranks_end(status); /* other ranks wait there for the first, whatever signals they get */
    stop_defer(false);
    return status;
}
