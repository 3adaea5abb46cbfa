/* The cuda device; kernels/cuda_absent.c stands in for it. */
#ifndef KERNELS_CUDA_DEVICE_H
#define KERNELS_CUDA_DEVICE_H

#include "kernels/device.h"

/* Opens the index-th GPU; dies if there is none. */
Device *cuda_device_open(int index);
/* Returns why no GPU can be opened; NULL if one can. */
const char *cuda_missing(void);
/* Returns the cards that the cuda device was built for, "sm_89 (preset l4)"; NULL: the program has no such device. */
const char *cuda_built_for(void);

#endif
