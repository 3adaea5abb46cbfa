/* cuDNN, NVIDIA's convolutions, loaded when the first convolution is wanted: the program is built without its headers,
 * is not linked with it, and works without. Its state is CudaState.convolutions. */
#ifndef KERNELS_CUDA_LIBRARIES_CUDNN_H
#define KERNELS_CUDA_LIBRARIES_CUDNN_H

#include "kernels/cuda/conv3d/conv3d_product.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The functions of the library that we use, as cudnn_functions.h lists them: a test gives its own. */
typedef struct CudnnFunctions CudnnFunctions;

/* Finds and opens the library, version 9 or 8, whose path TRAINC_CUDNN may name ("none": do without). functions: NULL,
 * or those to use instead. What fails is told by cudnn_description. */
void cudnn_open(Device *device, const CudnnFunctions *functions);

/* Who computes convolutions: "cuDNN 9.19.0", or "our own convolutions: ..." and why. */
const char *cudnn_description(const Device *device);

/* Queues the product; false: it is for our own kernels, and nothing was done.
 *
 * The first time that one of this shape is asked for, ours and the library's ways are timed on the tensors themselves,
 * and the fastest is kept; a line on stderr says which. A way counts only if its result is ours but for rounding, and
 * only if it is a twentieth faster than those before it, ours being the first: where there is little to gain, noise
 * does not decide. All ways add in a fixed order, but not in the same: another choice changes the last bits of a
 * result. So a resumed run loads the autotune cache of the earlier run, and TRAINC_CUDNN=none makes runs the same on
 * all machines with one card. While a CUDA graph is captured nothing is timed and ours is taken. The weights' gradient
 * in a 16-bit type is rounded to it before it is added. */
bool cudnn_convolve(Device *device, const ConvProduct *product);

/* See Device.autotune_cache and Device.load_autotune_cache. */
char *cudnn_autotune_cache(const Device *device);
bool cudnn_load_autotune_cache(Device *device, const char *text, Error *error);

void cudnn_close(Device *device);

#ifdef __cplusplus
}
#endif
#endif
