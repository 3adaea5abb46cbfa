/* Three-dimensional convolutions: see conv3d_kernel.h. */
#include "kernels/cuda/conv3d.h"
#include "kernels/cuda/gemm.h"

void cuda_conv3d_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, Convolution convolution) {
    with_type(x.dtype, [&](auto zero) { Conv3d<decltype(zero)>::forward(device, y, x, w, bias, convolution); });
}

void cuda_conv3d_backward(Device *device, Tensor dx, Tensor dw, Tensor dbias, Tensor dy, Tensor x, Tensor w,
                          Convolution convolution, bool add_dx) {
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        if (dx.data) Conv3d<T>::backward_data(device, dx, dy, w, convolution, add_dx);
        Conv3d<T>::backward_weights(device, dw, dy, x, convolution);
    });
    if (dbias.data) add_column_sums(device, (float *)dbias.data, dy);
}
