/* Device datasets (Dataset.device_data) in the memory of the device. */
#pragma once

#include "train/training.h"

/* Copies the device dataset of a data set to the device, unless it is already there. */
void device_data_add(Training *training, const Dataset *dataset);
/* Releases device dataset number `from` and all added after it. */
void device_data_release(Training *training, int from);
/* Returns the device's copy of a device dataset, given the tensor on the host. */
Tensor device_data_of(const Training *training, Tensor host);
