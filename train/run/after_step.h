/* Does what is due after an optimizer step. */
#pragma once

#include "train/run/run.h"

/* Returns whether no step is left to do: the last one is done, patience has run out, or a signal came. */
bool run_is_over(const Run *run);
/* Returns whether a signal asks the run to stop after this step. */
bool run_stops(const Run *run);
/* Reads and logs the results of the queued steps, validates, keeps checkpoints and writes the page, each if it is due.
 * Sets run->over. */
void after_step(Run *run);
