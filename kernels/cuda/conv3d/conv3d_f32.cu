/* Convolutions in f32: see conv3d_kernel.h. */
#include "kernels/cuda/conv3d/conv3d_kernel.h"

template struct Conv3d<float>;
