/* Opens a device by its name. */
#pragma once

#include "kernels/cpu/device.h"
#include "kernels/cuda/device.h"

/* Chooses which of the GPUs that this process sees device_open opens; by default the first, 0. */
void device_choose_card(int index);
/* Opens "cpu", "cuda", or "auto": the GPU if there is one. Dies with the reason if the device is not available, or
 * "auto" finds a card that cannot be used: hours on a CPU are not what it is paid for. *why is the reason why the
 * device is not the GPU; NULL if the device is the GPU, or "cpu" was asked for. no_tf32 makes f32 products exact. */
Device *device_open(const char *which, int n_threads, bool no_tf32, const char **why);
