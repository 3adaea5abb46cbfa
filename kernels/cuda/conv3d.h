/* Three-dimensional convolutions: what the operations ask for, and the two that can do it: our own kernels, which are
 * always there, and cuDNN, where it is installed (cudnn.h). conv3d_<type>.cu makes of conv3d_kernel.h our own for one
 * type. */
#ifndef KERNELS_CUDA_CONV3D_H
#define KERNELS_CUDA_CONV3D_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { CONV_FORWARD, CONV_DATA, CONV_WEIGHTS } ConvPass;

/* One of the three products of a convolution. Its result is y, or x (the data's gradient), or w (the weights', f32, to
 * which it is added); the others are as in ops.h, of y's type. */
typedef struct {
    ConvPass pass;
    Tensor x, y, w;
    Tensor bias; /* of CONV_FORWARD, or none */
    bool add;    /* the data's gradient is added to x */
    Convolution c;
} ConvProduct;

static inline int64_t conv3d_samples(const ConvProduct *p) {
    return p->x.dims[0] / ((int64_t)p->c.in[0] * p->c.in[1] * p->c.in[2]);
}

/* Our own kernels. The same bits every time. */
void conv3d_own(Device *device, const ConvProduct *product);

/* to T [O, taps, C] = w, T [O, C, taps]; and back: w += from. */
void conv3d_order_weights(Device *device, void *to, const ConvProduct *product);
void conv3d_add_weights(Device *device, const ConvProduct *product, const void *from);

/* Of the result's numbers: their sum with signs as of a coin, which differs between two arrays unless they are nearly
 * the same, and their root of the sum of squares, which says what is near. Waits for the stream. */
typedef struct {
    double sum, norm;
} ConvChecksum;
ConvChecksum conv3d_checksum(Device *device, const ConvProduct *product);

/* Looks for cuDNN now rather than at the first convolution; false: that has been done, or is of no use. */
bool conv3d_prepare(Device *device);

#ifdef __cplusplus
}

template <class T> struct Conv3d {
    static void forward(Device *device, const ConvProduct &product);
    static void backward_data(Device *device, const ConvProduct &product);
    static void backward_weights(Device *device, const ConvProduct &product);
    static void order(Device *device, T *to, const ConvProduct &product);
    static void add_ordered(Device *device, const ConvProduct &product, const T *from);
};
extern template struct Conv3d<float>; /* there, and nowhere else */
extern template struct Conv3d<bf16>;
extern template struct Conv3d<f16>;
#endif

#endif
