/* Matrix products by our own kernels, for whichever type they have; fingerprints of results. */
#include "kernels/cuda/gemm/gemm.h"

namespace {

/* *sum += a mixture of each 16 bits of x and their index: the order of the additions does not matter. Bytes: 2 n. */
__global__ void __launch_bounds__(256) add_fingerprint(unsigned long long *sum, const uint16_t *x, int64_t n) {
    unsigned long long own = 0;
    for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x; i < n; i += (int64_t)gridDim.x * 256) {
        unsigned long long mixed = ((unsigned long long)i << 16 | x[i]) * 0x9E3779B97F4A7C15ull;
        own += (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9ull;
    }
    atomicAdd(sum, own);
}

} // namespace

void gemm_own(Device *device, const Gemm *gemm) {
    if (gemm->m > INT32_MAX || gemm->n > INT32_MAX || gemm->k > INT32_MAX - 1024)
        die("a matrix product of %lld x %lld x %lld is too large", (long long)gemm->m, (long long)gemm->n,
            (long long)gemm->k);
    with_type(gemm->type, [&](auto zero) { gemm_of<decltype(zero)>(device, *gemm); });
}

uint64_t gemm_fingerprint(Device *device, const void *data, size_t bytes) {
    unsigned long long *sum = (unsigned long long *)cuda_scratch(device, sizeof *sum), result;
    cuda_check(cudaMemsetAsync(sum, 0, sizeof *sum, cuda_stream(device)), "clearing a fingerprint");
    cuda_check(gpu_launch(add_fingerprint, 4 * cuda_state(device)->n_multiprocessors, 256, 0, cuda_stream(device), sum,
                          (const uint16_t *)data, (int64_t)(bytes / 2)),
               "a fingerprint");
    device->download(device, &result, sum, sizeof result);
    return result;
}
