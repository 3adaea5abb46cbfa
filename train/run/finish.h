/* Ends a run. */
#ifndef TRAIN_RUN_FINISH_H
#define TRAIN_RUN_FINISH_H

#include "train/run/run.h"

/* Saves what is not saved yet, logs the summary and draws the plot. Returns the exit status. */
int finish_run(Run *run);

#endif
