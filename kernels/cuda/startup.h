/* Why CUDA does not start, and what to do; kernels/cuda_absent.c stands in for it. */
#ifndef KERNELS_CUDA_STARTUP_H
#define KERNELS_CUDA_STARTUP_H

#include "kernels/cuda/libraries/library.h"

/* Returns why no GPU can be opened: what was found, what is needed, what to do, in one line. NULL if one can. */
const char *cuda_missing(void);

/* Writes the driver's version and file, or why there is none. Does not start the driver. */
void startup_find_driver(char text[LIBRARY_DESCRIPTION]);

#endif
