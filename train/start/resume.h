/* Resumes a run from one of its checkpoints. */
#pragma once

#include "train/training.h"

/* For -b auto: sets -b and -g to the values of the run that is resumed, so that the results stay the same to the bit.
 * Returns false if the checkpoint does not state them. */
bool resume_batch(Training *training);
/* Returns TrainState.sums_by of the checkpoint; free(). */
char *resume_sums_by(const Training *training);
/* Sets -g so that a step keeps its samples: other ranks than before may share it, and -b may be another. Dies if they
 * cannot. Leaves what makes another run of one process to resume(), which refuses it. */
void resume_step_size(Training *training);
/* Reads the checkpoint's weights, moments and state. Dies if the run had other options or data. */
void resume(Training *training);
