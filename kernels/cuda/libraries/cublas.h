/* NVIDIA's matrix products, cuBLASLt, loaded at the first product: programs are not linked with it and work without it.
 * CudaState.library holds its state. */
#pragma once

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/libraries/library.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The functions of the library that we use, as cublas_functions.h lists them; tests pass mocks. */
typedef struct CublasFunctions CublasFunctions;

/* Finds and opens the library, whose path TRAINC_CUBLASLT may name ("none": do without), and takes its workspace.
 * functions: NULL, or those to use instead. cublas_description reports failures. */
void cublas_open(Device *device, const CublasFunctions *functions);

/* Writes the library's version and path, or what computes without it, and why. Does not start it. */
void cublas_find(char text[LIBRARY_DESCRIPTION]);

/* Returns the matrix library: "cuBLASLt 13.0.2", with " and its GELU" from 9.0 on, or "our own matrix products: ..."
 * with the reason. */
const char *cublas_description(const Device *device);

/* Returns whether the library was found and has started. */
bool cublas_is_open(const Device *device);

/* Rounds up to a multiple of 64, or from 1,024 on of an eighth of the power of two below: sizes alike, which have one
 * algorithm. */
int64_t cublas_round_tokens(int64_t n);

/* Queues the product and its epilogue. Returns false, having done nothing, if the library cannot do both, or below 9.0,
 * where its GELU is slow in bf16.
 *
 * The algorithm is the one that the library recommends for the size; a number of tokens, which varies between batches,
 * is rounded up. While a CUDA graph is captured the library cannot be asked: a product of a size that was not met
 * before marks the recording as not to be used (CudaState.unrecordable). */
bool cublas_multiply(Device *device, const Gemm *gemm);

void cublas_close(Device *device);

#ifdef __cplusplus
}
#endif
