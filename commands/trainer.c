#include "commands/trainer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/program.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/load.h"
#include "estimate/calibrate.h"
#include "estimate/estimate_report.h"
#include "train/parallel/gpus.h"
#include "train/parallel/ranks.h"

void trainer_require_weights(const TrainOptions *o, const OptionSet *set, const char *advice) {
    if (!o->base_checkpoint || o->calibrate || checkpoint_exists(o->base_checkpoint)) return;
    int reason = errno;
    OWNED char *resumed = o->resume ? checkpoint_resolve(o->output_dir, o->resume) : NULL;
    if (!resumed)
        die("--%s %s: %s%s%s", options_holding(set, &o->base_checkpoint)->row.name, o->base_checkpoint,
            strerror(reason), advice ? "; " : "", advice ? advice : "");
}

void trainer_begin(TrainOptions *options, const OptionSet *set) {
    if (options->calibrate) exit(calibrate_device(options));
    if (set) trainer_require_weights(options, set, NULL);
    if (set) gpus_start(options);
    if (set) ranks_begin(options, set);
    if (options->estimate || options->dry_run) program_end_with_reader();
    if (options->estimate) estimate_begin(options);
}

bool trainer_only_plans(const TrainSpec *spec) {
    if (spec->options->estimate)
        estimate_report(spec, false);
    else if (spec->options->dry_run)
        train_dry_run(spec);
    return spec->options->estimate || spec->options->dry_run;
}

void trainer_close(const TrainSpec *spec) {
    spec->model->close(spec->model);
    spec->train->close(spec->train);
    if (spec->validation) spec->validation->close(spec->validation);
}

void trainer_close_device(Device *device) {
    ranks_disconnect();
    device_close(device);
}
