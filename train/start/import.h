/* Imports the weights of a base checkpoint. */
#pragma once

#include "train/training.h"

/* Returns the program's name for the option of the base checkpoint. */
const char *train_base_option(const TrainSpec *spec);
/* Reads the base checkpoint into the weights on the host, and prints what was imported. Dies if the checkpoint does not
 * fit the model. */
void import_base(Training *training, const ImportRules *rules);
