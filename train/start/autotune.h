/* The autotune cache: which of several kernels the device chose as the fastest for an operation. The cache is kept
 * beside the checkpoints so that a resumed run computes the same bits. */
#pragma once

#include "train/training.h"

/* Loads the autotune cache from the output folder's choices.txt, which the resumed run wrote, or which was copied there
 * from another run. Warns if the file is bad. */
void autotune_load(Training *training);
