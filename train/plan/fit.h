/* Checks that a run fits into the available memory, and chooses the batch of -b auto. */
#pragma once

#include "train/plan/sizing.h"

/* Dies if a run of this plan does not fit, with what would make it fit. */
void fit_check(const TrainSpec *spec, const MemoryPlan *plan);
/* Chooses the batch of -b auto by the memory that is available, and prints it. Dies if nothing fits. */
void fit_choose_batch(const TrainSpec *spec, DType half);
