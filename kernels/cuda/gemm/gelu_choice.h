/* How a product with GELU is computed where the library does not apply it (cublas_multiply): by the library's product
 * and our pass over its numbers, or by our own product, which applies GELU to a tile right after it is stored. Both
 * apply it to the number as rounded; their sums differ in the last bits. */
#pragma once

#include "kernels/cuda/gemm/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GELU_CHOICES = 256, GELU_TIMED_RUNS = 3 }; /* sizes that are timed, at most; runs of each way */

/* Computes a product with an epilogue in the first way. Returns false, having done nothing that counts, if our own
 * product is to be taken, because it is faster or the library cannot multiply.
 *
 * At the first call of each size, a number of tokens rounded up, both ways are timed on its tensors. While a CUDA graph
 * is captured nothing can be timed: a size that was not met before marks the recording as not to be used
 * (CudaState.unrecordable). */
bool gelu_multiply_in_two(Device *device, const Gemm *gemm);

/* Returns the choices as text, free(), or NULL if there are none. See Device.autotune_cache. */
char *gelu_choices_text(const Device *device);
/* Adds those of such a text. Returns false if it is of another library, or no such text. */
bool gelu_choices_load(Device *device, const char *text, Error *error);

/* Forgets the choices. */
void gelu_choices_close(Device *device);

#ifdef __cplusplus
}
#endif
