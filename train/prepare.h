/* The memory of a run before there is one: what --estimate asks of train_prepare. */
#ifndef TRAIN_PREPARE_H
#define TRAIN_PREPARE_H

#include "train/loop.h"
#include "train/memory.h"

enum { SMALLEST_CHANGE = 128 };

/* As train_prepare would allocate it on the training's device. */
MemoryPlan train_plan(Training *training);
/* With which options it fits into so many bytes, "-b 4 -g 8" or "--grad-checkpointing"; false: with none. */
bool train_smallest_change(Training *training, size_t available, char text[SMALLEST_CHANGE]);

#endif
