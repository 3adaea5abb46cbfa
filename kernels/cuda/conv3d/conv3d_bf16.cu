/* Convolutions in bf16 on tensor cores: see conv3d_kernel.h. */
#include "kernels/cuda/conv3d/conv3d_kernel.h"

#ifdef CUDA_HALF_BF16
template struct Conv3d<bf16>;
#endif
