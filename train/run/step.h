/* Runs one optimizer step: micro-batches forward and backward, clip, update. */
#pragma once

#include "train/run/run.h"

/* Clears the gradients, and begins the debug dump if one is due. */
void step_clear_gradients(Run *run);
/* Runs the next micro-batch forward and backward. Accumulates gradients, and writes the sums of the metrics to the
 * step's row of the results. */
void step_forward_backward(Run *run, int64_t micro);
/* Computes the norm of the gradients, by which the update clips. If the norm is not finite, the update changes nothing.
 */
void step_clip(Run *run);
/* Updates the weights with the optimizer of the spec, and ends the step. */
void step_update(Run *run);
/* Returns the learning rate of a parameter group in step `step` (0: the first), the latest step whose batches were
 * loaded, without RateSpec.factors. */
double step_learning_rate(const Run *run, int group, int64_t step);
