/* Ends a run. */
#pragma once

#include "train/run/run.h"

/* Saves what is not saved yet, logs the summary, draws the plot and closes the run. Returns the exit status. */
int run_finish(Run *run);
