/* Reads and handles the results of queued steps. */
#pragma once

#include "train/run/run.h"

/* Returns where the step being queued stores its gradient norm, f32 [1]. */
Tensor results_norm(const Run *run);
/* Returns where it stores the sums of its micro-batches, f32 [g, n_metrics]. */
Tensor results_sums(const Run *run);
/* Copies the rows of the queued steps to the host, which waits for the device. */
void results_download(Run *run);
/* Tells the other ranks what the host knows of the queued step, and takes what theirs know, unless that is done. */
void results_exchange(Run *run);
/* Reads the results of the queued steps. Skips a step that is not finite, or stops the run with a checkpoint from
 * before that step. */
void results_read(Run *run);
/* Keeps what is whole when another rank is lost: what ranks_on_loss takes, with a Run. */
char *results_after_loss(void *run);
/* Stops a run whose data cannot be read any more. Keeps what was trained so far. */
_Noreturn void results_stop_without_data(Run *run, const Error *reason);
