/* Reads and handles the results of queued steps. */
#pragma once

#include "train/run/run.h"

/* Returns where the step being queued stores its gradient norm. */
Tensor results_norm(const Run *run);
/* Returns where the step being queued stores the sums of `n` micro-batches from `micro` on. */
Tensor results_sums(const Run *run, int64_t micro, int64_t n);
/* Copies the rows of the queued steps to the host, which waits for the device. */
void results_download(Run *run);
/* Reads the results of the queued steps. Skips a step that is not finite, or stops the run with a checkpoint from
 * before that step. */
void results_read(Run *run);
/* Stops a run whose data cannot be read any more. Keeps what was trained so far. */
_Noreturn void results_stop_without_data(Run *run, const Error *reason);
