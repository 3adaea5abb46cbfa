/* The cpu device. */
#pragma once

#include "kernels/device.h"

/* Restarts the program with a lower limit on the spinning of waiting threads, unless the environment sets one. Call
 * this first in main. */
void cpu_limit_spinning(char **argv);
Device *cpu_device_open(int n_threads); /* 0: one thread per core */
