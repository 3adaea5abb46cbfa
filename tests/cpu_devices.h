/* Opens cpu devices with every instruction set of the processor and with 1, 2 and 3 threads, for tests that must give
 * the same results on each. */
#pragma once

#include "kernels/ops.h"
#include "tests/test.h"

extern Device *devices[6];
extern int n_devices;

/* Set up and tear down a group of tests. Devices with 1 and 2 threads have the best instruction set; one device with 3
 * threads is opened for every instruction set of the processor, or for the one that TRAINC_CPU_SET names. */
int open_devices(void **state);
int close_devices(void **state);
