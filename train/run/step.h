/* Runs one optimizer step: micro-batches forward and backward, clip, update. */
#pragma once

#include "train/run/run.h"

/* Begins a step, and the debug dump if one is due. */
void step_begin(Run *run);
/* Runs the step's next micro-batch forward and backward, between what surrounds it in a recording: the first clears the
 * gradients, the last computes their norm and updates the weights with the optimizer of the spec. Writes the results to
 * the step's row. */
void step_micro_batch(Run *run, int64_t micro);
/* Ends a step whose operations are queued. */
void step_end(Run *run);
/* Returns the learning rate of a parameter group in step `step` (0: the first), the latest step whose batches were
 * loaded, without RateSpec.factors. */
double step_learning_rate(const Run *run, int group, int64_t step);
