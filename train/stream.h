/* The streams of micro-batches that a run trains and validates on, and the number of steps that they make. */
#pragma once

#include "data/loader.h"
#include "train/spec.h"

/* Returns the loader options of the training data, starting at the state `from`; NULL: at the beginning. */
LoaderOptions train_loader_options(const TrainOptions *options, const TrainState *from);
/* Returns the loader options of the validation data: the first --max-val-batches in file order, endlessly repeated. */
LoaderOptions validation_loader_options(const TrainOptions *options);
/* Returns the number of samples that a validation visits. */
int64_t validation_samples(const Dataset *dataset, const LoaderOptions *options);
/* Returns the number of optimizer steps in `epochs` epochs: floor(micro-batches / accumulation), at most --max-steps.
 * Dies if there are none. */
int64_t train_steps(const TrainSpec *spec, const LoaderOptions *options, int64_t epochs);
