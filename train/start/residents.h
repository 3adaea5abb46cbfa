/* Device datasets (Dataset.resident) in the memory of the device. */
#ifndef TRAIN_START_RESIDENTS_H
#define TRAIN_START_RESIDENTS_H

#include "train/training.h"

/* Copies the device dataset of a data set to the device, unless it is already there. */
void residents_add(Training *training, const Dataset *dataset);
/* Releases device dataset number `from` and all added after it. */
void residents_release(Training *training, int from);
/* Returns the device's copy of a device dataset, given the tensor on the host. */
Tensor resident_on_device(const Training *training, Tensor host);

#endif
