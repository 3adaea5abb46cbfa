/* Opens and closes a run. */
#pragma once

#include "train/run/run.h"

/* Opens the folder, the log, the loaders and the buffers of a run, and begins it. Signals then wait for run_finish. */
void run_open(Run *run, Training *training);
/* Frees what run_open has taken. */
void run_close(Run *run);
