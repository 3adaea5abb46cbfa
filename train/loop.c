/* The training loop: for each step, for each micro-batch forward and backward; clip; update; log; validate; keep.
 *
 * A run is a pure function of (options, data, seed): the order of batches depends on the seed and the epoch only,
 * dropout on the seed and the number of the micro-batch. The checkpoint holds weights, moments and these counters, so a
 * run that was stopped anywhere resumes with the same bits. */
#include "base/stop.h"
#include "train/report.h"
#include "train/run/finish.h"
#include "train/run/keep.h"
#include "train/run/open.h"
#include "train/run/page.h"
#include "train/run/progress.h"
#include "train/run/results.h"
#include "train/run/selection.h"
#include "train/run/start.h"
#include "train/run/step.h"
#include "train/run/validation.h"

/* The actions that are due after a step. */
typedef struct {
    bool end; /* the run's last step, or a signal */
    bool record, progress, validate, save;
} Due;

static Due due_after_step(Run *run) {
    const TrainOptions *o = run->t->spec.options;
    int64_t step = run->t->state.step;
    bool last = step == run->total_steps, epoch = !o->val_interval && run->epoch_ended;
    return (Due){.end = step >= run->total_steps || stop_signal(),
                 .record = step % o->log_interval == 0 || epoch || last,
                 .progress = progress_is_due(run),
                 .validate =
                     run->validation.loader && (last || epoch || (o->val_interval && step % o->val_interval == 0)),
                 .save = o->save_interval && step % o->save_interval == 0};
}

/* Queues one optimizer step, without waiting for the device. */
static void train_step(Run *run) {
    step_begin(run);
    for (int64_t micro = 0; micro < run->t->spec.options->grad_accumulation; micro++) step_micro_batch(run, micro);
    step_clip(run);
    step_update(run);
}

/* Reads the results of the queued steps if they are due, and logs them. */
static void log_step(Run *run, const Due *due) {
    int64_t done = run->t->state.step - run->first_step;
    bool pause = due->record || due->end || due->progress || due->validate || due->save;
    if (due->record || due->progress) progress_read_sensors(run); /* while the device still works */
    if (pause || run->n_queued == run->max_queued || eta_needs(done)) {
        results_read(run);
        eta_step(&run->eta, done, seconds_now());
    }
    if (pause) meter_stop(&run->meter, run->t->spec.device, done);
    if (due->record || due->end || due->progress)
        progress_log(run, due->record ? REPORT_RECORD : due->end ? REPORT_LINE : REPORT_PROGRESS);
}

static void keep_step(Run *run, const Due *due, bool best) {
    double start = seconds_now();
    if (due->save)
        keep_save(run);
    else if (best)
        keep_best(run);
    else if (!checkpointer_is_writing(run->keeping.checkpointer))
        keep_waiting(run);
    double seconds = seconds_now() - start;
    run->window.start += seconds; /* the time does not count as training */
    if (due->save)
        eta_pause(&run->eta, PAUSE_CHECKPOINT, seconds);
    else
        eta_wait(&run->eta, seconds); /* the best weights' checkpoint belongs to their validation */
}

/* Counts the allocations so far. After the first step there should be none, except those in allocations_apart. */
static void count_allocations(Run *run) {
    const Training *t = run->t;
    run->allocations_at_last_step = allocation_count() + t->spec.device->allocation_calls - run->allocations_apart;
    if (t->state.step == run->first_step + 1) run->allocations_at_first_step = run->allocations_at_last_step;
}

static bool is_over(const Run *run) {
    const Training *t = run->t;
    return t->state.step >= run->total_steps || selection_out_of_patience(t) || stop_signal();
}

/* Begins the run, logs where it resumes, and does a validation that the stopped run still owed. */
static void begin(Run *run) {
    const TrainSpec *spec = &run->t->spec;
    report_start(spec, run->total_steps, run->epoch_batches, run->validation.batches);
    if (!run->t->state.step || !is_over(run)) start_log(run);
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

int train_run(Training *t) {
    Run run;
    run_open(&run, t);
    stop_defer(true);
    begin(&run);
    for (bool over = is_over(&run); !over;) {
        train_step(&run);
        Due due = due_after_step(&run);
        log_step(&run, &due);
        bool best = due.validate && validation_run(&run);
        over = best ? is_over(&run) : due.end; /* a new best may extend the run */
        if (due.validate && selection_out_of_patience(t)) {
            over = true;
            progress_read_sensors(&run);
            progress_log(&run, REPORT_RECORD); /* steps that are not logged yet */
        }
        count_allocations(&run);
        keep_step(&run, &due, best);
        if (due.validate && !over) page_refresh(&run); /* the end writes the page anyway */
        if (!over) meter_start(&run.meter, t->spec.device, t->state.step - run.first_step);
    }
    int status = finish_run(&run);
    run_close(&run);
    stop_defer(false);
    return status;
}
