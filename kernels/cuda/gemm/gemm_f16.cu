/* Matrix products of f16, if this build has it. */
#include "kernels/cuda/gemm/gemm_kernel.h"

#ifdef CUDA_HALF_F16
template void gemm_of<f16>(Device *device, const Gemm &gemm);
#endif
