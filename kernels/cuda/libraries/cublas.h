/* cuBLASLt, NVIDIA's matrix products, loaded when the first product is wanted: the program is not linked with it, and
 * works without. Its state is CudaState.library. */
#ifndef KERNELS_CUDA_LIBRARIES_CUBLAS_H
#define KERNELS_CUDA_LIBRARIES_CUBLAS_H

#include "kernels/cuda/gemm/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The functions of the library that we use, as cublas.c lists them: a test gives its own. */
typedef struct CublasFunctions CublasFunctions;

/* Finds and opens the library, whose path TRAINC_CUBLASLT may name ("none": do without), and takes its workspace.
 * functions: NULL, or those to use instead. cublas_description reports failures. */
void cublas_open(Device *device, const CublasFunctions *functions);

/* Returns the matrix library: "cuBLASLt 13.0.2", or "our own matrix products: ..." with the reason. */
const char *cublas_description(const Device *device);

/* Queues the product and its epilogue; false: the library is not there or has no way to both, and nothing was done.
 *
 * The library offers several ways to a product. The first time that one of this size is asked for (a number of tokens
 * is rounded up: it is another in each batch) up to 8 are timed, and the fastest is kept whose result has the same bits
 * as that of the way the library recommends: so which one wins a race does not change what is computed. While a CUDA
 * graph is captured nothing is timed and the recommended way is taken. */
bool cublas_multiply(Device *device, const Gemm *gemm);

void cublas_close(Device *device);

#ifdef __cplusplus
}
#endif
#endif
