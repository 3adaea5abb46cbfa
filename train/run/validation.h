/* Validates during a run. */
#pragma once

#include "train/run/run.h"

/* Opens the validation data and buffers. *bytes is the size of the largest batch; raises it if a validation batch is
 * larger. */
void validation_open(Run *run, size_t *bytes);
void validation_close(Run *run);
/* Measures the metrics over the validation data, each as a mean over all rows, and logs them. Returns whether the
 * weights are the best so far. */
bool validation_run(Run *run);
