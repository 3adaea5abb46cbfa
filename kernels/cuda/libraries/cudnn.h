/* NVIDIA's convolutions, cuDNN, loaded at the first convolution: programs are built without its headers, are not linked
 * with it and work without it. CudaState.convolutions holds its state. */
#pragma once

#include "kernels/cuda/conv3d/conv3d_product.h"
#include "kernels/cuda/libraries/library.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The functions of the library that we use, as cudnn_functions.h lists them; tests pass mocks. */
typedef struct CudnnFunctions CudnnFunctions;

/* Finds and opens the library, version 9 or 8, whose path TRAINC_CUDNN may name ("none": do without). functions: NULL,
 * or those to use instead. cudnn_description reports failures. */
void cudnn_open(Device *device, const CudnnFunctions *functions);

/* Writes the library's version and path, or what computes without it, and why. Does not start it. */
void cudnn_find(char text[LIBRARY_DESCRIPTION]);

/* Returns the convolution library: "cuDNN 9.19.0", or "our own convolutions: ..." with the reason. */
const char *cudnn_description(const Device *device);

/* Queues the product. Returns false, having done nothing, if our own kernels should compute it.
 *
 * For the first product of each shape, our kernel and the library's algorithms are timed on the tensors themselves, the
 * fastest is put into the autotune cache, and a line on stderr names it. An algorithm qualifies only if its result
 * equals ours but for rounding, and only if it is 5 % faster than those before it, ours being the first: where there is
 * little to gain, noise does not decide. Every algorithm adds in its own fixed order, so another choice changes the
 * last bits of a result. So a resumed run loads the autotune cache of the earlier run, and TRAINC_CUDNN=none makes runs
 * the same on all machines with one card. While a CUDA graph is captured nothing is timed and ours is taken. The
 * weights' gradient in a 16-bit type is rounded to it before it is added. */
bool cudnn_convolve(Device *device, const ConvProduct *product);

/* See Device.autotune_cache and Device.load_autotune_cache. */
char *cudnn_autotune_cache(const Device *device);
bool cudnn_load_autotune_cache(Device *device, const char *text, Error *error);

void cudnn_close(Device *device);

#ifdef __cplusplus
}
#endif
