/* Matrix products by our own kernels, for whichever type they have. */
#include "kernels/cuda/gemm/gemm.h"

void gemm_own(Device *device, const Gemm *gemm) {
    if (gemm->m > INT32_MAX || gemm->n > INT32_MAX || gemm->k > INT32_MAX - 1024)
        die("a matrix product of %lld x %lld x %lld is too large", (long long)gemm->m, (long long)gemm->n,
            (long long)gemm->k);
    with_type(gemm->type, [&](auto zero) { gemm_of<decltype(zero)>(device, *gemm); });
}
