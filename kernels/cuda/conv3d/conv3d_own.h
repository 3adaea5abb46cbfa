/* Convolutions by our own kernels, for whichever type a product has, and what cuDNN needs beside its own. */
#pragma once

#include "kernels/cuda/conv3d/conv3d_product.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Computes the product with our own kernels, which give the same bits every time. */
void conv3d_own(Device *device, const ConvProduct *product);

/* to T [O, taps, C] = w, T [O, C, taps]; and back: w += from. */
void conv3d_order_weights(Device *device, void *to, const ConvProduct *product);
void conv3d_add_weights(Device *device, const ConvProduct *product, const void *from);

/* Returns a checksum of the result and waits for the stream. sum: of the numbers with pseudo-random signs, which
 * differs between arrays that are not nearly the same. norm: the root of the sum of squares, the scale of such a
 * difference. */
typedef struct {
    double sum, norm;
} ConvChecksum;
ConvChecksum conv3d_checksum(Device *device, const ConvProduct *product);

#ifdef __cplusplus
}
#endif
