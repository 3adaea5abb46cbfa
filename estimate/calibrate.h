/* --calibrate: measures how fast the device is. */
#pragma once

#include "train/spec.h"

/* Measures the device of --device, prints what it can do, and keeps that in the file of --calibration. Returns the exit
 * status. */
int calibrate_device(const TrainOptions *options);
