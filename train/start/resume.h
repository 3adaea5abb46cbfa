/* Resumes a run from one of its checkpoints. */
#pragma once

#include "train/training.h"

/* For -b auto: sets -b and -g to the values of the run that is resumed, so that the results stay the same to the bit.
 * Returns false if the checkpoint does not state them. */
bool resume_batch(Training *training);
/* Reads the checkpoint's weights, moments and state. Dies if the run had other options or data. */
void resume(Training *training);
