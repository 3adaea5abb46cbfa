/* Three-dimensional convolutions by the faster of two: our own kernels (conv3d_own.h) and cuDNN (libraries/cudnn.h). */
#pragma once

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Loads cuDNN now rather than at the first convolution. False if that was done before, or is of no use. */
bool conv3d_prepare(Device *device);

#ifdef __cplusplus
}
#endif
