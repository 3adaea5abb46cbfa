/* Our own three-dimensional convolutions: conv3d_<type>.cu makes of conv3d_kernel.h those of one type. */
#ifndef KERNELS_CUDA_CONV3D_H
#define KERNELS_CUDA_CONV3D_H

#include "kernels/cuda/cuda.h"

template <class T> struct Conv3d {
    static void forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, Convolution convolution);
    static void backward_data(Device *device, Tensor dx, Tensor dy, Tensor w, Convolution convolution, bool add);
    static void backward_weights(Device *device, Tensor dw, Tensor dy, Tensor x, Convolution convolution);
};
extern template struct Conv3d<float>; /* there, and nowhere else */
extern template struct Conv3d<bf16>;
extern template struct Conv3d<f16>;

#endif
