/* Writes what a run is into log.jsonl when it starts, for those who read the log without its program. */
#pragma once

#include "train/run/run.h"

/* Writes the record "start": program, command, revision, machine, model, data, options and their defaults. A run that
 * was resumed has one for each start. */
void start_log(Run *run);
