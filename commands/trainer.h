/* The parts of main that are the same for every training program; commands/commands.h starts the program:
 *
 *     options_parse(&header, &set, argc, argv);
 *     train_options_resolve(&o.train, &set);
 *     trainer_begin(&o.train, &set);
 *     ... the device, the data, the model, which the spec names ...
 *     if (!trainer_only_plans(&spec)) {
 *         Training *training = train_open(&spec);
 *         status = train_run(training);
 *         if (train_ended(training)) stop_forget();
 *         train_close(training);
 *     }
 *     trainer_close(&spec);
 *     trainer_close_device(device);
 *     return status; */
#pragma once

#include "train/train.h"

/* Dies if the weights to start from (--base-checkpoint) are not there. A run that is resumed does not need them.
 * advice: what is expected, and where it comes from; NULL: nothing. */
void trainer_require_weights(const TrainOptions *options, const OptionSet *set, const char *advice);
/* Does what must happen before any data are read: --calibrate measures the device and ends the program; --estimate
 * checks --gpu and, with --json, sends text to stderr. Requires the weights to start from, unless `set` is NULL. */
void trainer_begin(TrainOptions *options, const OptionSet *set);

/* Prints the estimate of the training with --estimate, its memory and the work of a step with --dry-run. Returns
 * whether one of them was given: then nothing is trained. */
bool trainer_only_plans(const TrainSpec *spec);
/* The members of the TrainSpec of a checkpoint that computes without training, which all commands set alike. */
#define TRAINER_INFERENCE(its_options, its_set, its_device, why)                                                       \
    .options = (its_options), .set = (its_set), .device = (its_device), .device_why = (why), .base_option = "checkpoint"
/* Closes the model and the data sets of a spec. */
void trainer_close(const TrainSpec *spec);
/* Closes the device, and before it what connects this process with other ranks. */
void trainer_close_device(Device *device);
