/* Convolutions in f16 on tensor cores: see conv3d_kernel.h. */
#include "kernels/cuda/conv3d/conv3d_kernel.h"

#ifdef CUDA_HALF_F16
template struct Conv3d<f16>;
#endif
