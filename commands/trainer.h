/* The parts of main that are the same for every training program; commands/commands.h starts the program:
 *
 *     options_parse(&header, &set, argc, argv);
 *     train_options_resolve(&o.train, &set);
 *     trainer_begin(&o.train, &set);
 *     ... the device, the data, the model ...
 *     int status = trainer_run(&spec, (TrainerHook){0}, NULL);
 *     device_close(device);
 *     return status; */
#ifndef COMMANDS_TRAINER_H
#define COMMANDS_TRAINER_H

#include "train/train.h"

/* Dies if the weights to start from (--base-checkpoint) are not there. A run that is resumed does not need them.
 * advice: what is expected, and where it comes from; NULL: nothing. */
void trainer_require_weights(const TrainOptions *options, const OptionSet *set, const char *advice);
/* Does what must happen before any data are read: --calibrate measures the device and ends the program; --estimate
 * checks --gpu and, with --json, sends text to stderr. Requires the weights to start from, unless `set` is NULL. */
void trainer_begin(TrainOptions *options, const OptionSet *set);

/* A function that is called between train_open and train_run; {0}: none. */
typedef struct {
    void (*function)(const TrainSpec *spec, Training *training, void *context);
    void *context;
} TrainerHook;

/* Trains. With --estimate prints the estimate of the run instead; with --dry-run its memory and the work of a step.
 * Then closes the model and the data sets of the spec, and returns the exit status. Sets *ended to whether the training
 * reached its end, even if a signal came meanwhile. If `ended` is NULL nothing follows the training, and a signal does
 * not change the exit status of a training that ended. */
int trainer_run(const TrainSpec *spec, TrainerHook opened, bool *ended);

#endif
