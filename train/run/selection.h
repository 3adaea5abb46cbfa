/* Decides which weights are the best so far, and whether a run ends early or is extended. */
#pragma once

#include "train/run/run.h"

/* Returns the number that decides, less is better: a metric's mean, or the result of SelectionSpec.evaluate, which also
 * computes metrics[n_metrics]. */
double selection_evaluate(Run *run, const double *means, double objective, double *metrics);
/* Records the decisive number of a validation. Returns whether it is the best so far. Extends a run that still improves
 * near its end. */
bool selection_update(Run *run, double decisive);
/* Returns the name of the number that decides. */
const char *selection_name(const TrainSpec *spec);
/* Returns the number of epochs of the run, with those that were added. */
int64_t selection_epochs(const Training *training);
bool selection_out_of_patience(const Training *training);
