/* The cuda device; kernels/cuda_absent.c stands in for it. */
#pragma once

#include "kernels/cuda/libraries/library.h"
#include "kernels/device.h"

enum { CUDA_LIBRARIES = 5 };

typedef struct {
    const char *name;               /* "cuBLASLt" */
    char text[LIBRARY_DESCRIPTION]; /* "13.1.0: /usr/lib/libcublasLt.so.13.1.0", or what computes without it, and why */
} CudaLibrary;

/* Opens the index-th GPU; dies if there is none. */
Device *cuda_device_open(int index);
/* Returns the cards that the cuda device was built for, "sm_89 (preset l4)"; NULL: the program has no such device. */
const char *cuda_built_for(void);
/* Looks for the driver and NVIDIA's libraries without starting a GPU. Returns their number; 0 if the program has no
 * cuda device. */
int cuda_find_libraries(CudaLibrary found[CUDA_LIBRARIES]);
