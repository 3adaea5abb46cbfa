/* One product of a three-dimensional convolution, and our own kernels for it: conv3d_<type>.cu instantiates those of
 * conv3d_kernel.h for one type. */
#pragma once

#include "kernels/cuda/cuda.h"

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

#ifdef __cplusplus
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
