#include "commands/trainer.h"

#include <stdlib.h>

#include "base/stop.h"
#include "estimate/calibrate.h"
#include "estimate/estimate_report.h"

void trainer_begin(TrainOptions *options) {
    if (options->calibrate) exit(calibrate_device(options));
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
