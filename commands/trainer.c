#include "commands/trainer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/program.h"
#include "base/stop.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/load.h"
#include "estimate/calibrate.h"
#include "estimate/estimate_report.h"

void trainer_require_weights(const TrainOptions *o, const OptionSet *set, const char *advice) {
    if (!o->base_checkpoint || o->calibrate || checkpoint_exists(o->base_checkpoint)) return;
    int reason = errno;
    char *resumed = o->resume ? checkpoint_resolve(o->output_dir, o->resume) : NULL;
    if (!resumed)
        die("--%s %s: %s%s%s", options_holding(set, &o->base_checkpoint)->row.name, o->base_checkpoint,
            strerror(reason), advice ? "; " : "", advice ? advice : "");
    free(resumed);
}

void trainer_begin(TrainOptions *options, const OptionSet *set) {
    if (options->calibrate) exit(calibrate_device(options));
    if (set) trainer_require_weights(options, set, NULL);
    if (options->estimate || options->dry_run) program_end_with_reader();
    if (options->estimate) estimate_begin(options);
}

static int train(const TrainSpec *spec, TrainerHook opened, bool *ended) {
    Training *training = train_open(spec);
    if (opened.function) opened.function(spec, training, opened.context);
    int status = train_run(training);
    if (ended)
        *ended = train_ended(training);
    else if (train_ended(training))
        stop_forget();
    train_close(training);
    return status;
}

int trainer_run(const TrainSpec *spec, TrainerHook opened, bool *ended) {
    int status = 0;
    if (spec->options->estimate)
        estimate_report(spec);
    else if (spec->options->dry_run)
        train_dry_run(spec);
    else
        status = train(spec, opened, ended);
    spec->model->close(spec->model);
    spec->train->close(spec->train);
    if (spec->validation) spec->validation->close(spec->validation);
    return status;
}
