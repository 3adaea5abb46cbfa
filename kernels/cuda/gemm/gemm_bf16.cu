/* Matrix products of bf16, if this build has it. */
#include "kernels/cuda/gemm/gemm_kernel.h"

#ifdef CUDA_HALF_BF16
template void gemm_of<bf16>(Device *device, const Gemm &gemm);
#endif
