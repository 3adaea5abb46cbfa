/* Matrix products of f32. */
#include "kernels/cuda/gemm/gemm_kernel.h"

template void gemm_of<float>(Device *device, const Gemm &gemm);
