/* Writes the --debug-dump of the first step: its batches, activations, losses and gradients. */
#pragma once

#include "train/run/run.h"

/* The dump of one micro-batch. */
typedef struct {
    Dump *dump;
    int64_t micro;
} StepDump;

/* Adds an activation; context: a StepDump. */
void step_dump_activation(void *context, const char *name, Tensor tensor);
/* Adds the fields of the micro-batch. */
void step_dump_batch(StepDump *to, const Batch *batch, const char *const *names);
/* Adds the results of the step, the only one queued, and writes the file. `scale` is the factor on the gradients. */
void step_dump_write(Run *run, float scale);
