/* The autotune cache: which of several kernels the device chose as the fastest for an operation. The cache is kept
 * beside the checkpoints so that a resumed run computes the same bits. */
#ifndef TRAIN_START_CHOICES_H
#define TRAIN_START_CHOICES_H

#include "train/training.h"

/* Gives the device the choices in the output folder's choices.txt: those of the run that is resumed, or of another run
 * whose file was copied there. A bad file is a warning. */
void choices_take(Training *training);

#endif
