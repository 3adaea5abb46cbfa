#include "train/run/after_step.h"

#include "base/stop.h"
#include "train/run/forecast.h"
#include "train/run/keep.h"
#include "train/run/page.h"
#include "train/run/progress.h"
#include "train/run/results.h"
#include "train/run/selection.h"
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
    return (Due){.end = step >= run->total_steps || run_stops(run),
                 .record = step % o->log_interval == 0 || epoch || last,
                 .progress = progress_is_due(run),
                 .validate =
                     run->validation.loader && (last || epoch || (o->val_interval && step % o->val_interval == 0)),
                 .save = o->save_interval && step % o->save_interval == 0};
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
    else if (!keep_is_writing(run))
        keep_waiting(run);
    double seconds = seconds_now() - start;
    run->window.start += seconds; /* the time does not count as training */
    if (due->save)
        eta_pause(&run->eta, PAUSE_CHECKPOINT, seconds);
    else
        eta_wait(&run->eta, seconds); /* the best weights' checkpoint belongs to their validation */
}

/* All of several ranks stop after the same step: that in which they told each other of a signal. */
bool run_stops(const Run *run) { return run->t->exchange ? run->stops : stop_signal() != 0; }

bool run_is_over(const Run *run) {
    const Training *t = run->t;
    return t->state.step >= run->total_steps || selection_out_of_patience(t) || run_stops(run);
}

void after_step(Run *run) {
    const Training *t = run->t;
    results_exchange(run); /* does another rank stop? */
    Due due = due_after_step(run);
    log_step(run, &due);
    if (!due.end) forecast_after_step(run);
    bool best = due.validate && validation_run(run);
    run->over = best ? run_is_over(run) : due.end; /* a new best may extend the run */
    if (due.validate && selection_out_of_patience(t)) {
        run->over = true;
        progress_read_sensors(run);
        progress_log(run, REPORT_RECORD); /* steps that are not logged yet */
    }
    keep_step(run, &due, best);
    if (due.validate && !run->over) page_refresh(run); /* the end writes the page anyway */
    if (!run->over) meter_start(&run->meter, t->spec.device, t->state.step - run->first_step);
}
