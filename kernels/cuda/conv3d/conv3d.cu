/* Three-dimensional convolutions: cuDNN's where it is faster, else our own. */
#include "kernels/cuda/conv3d/conv3d.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cuda/conv3d/conv3d_own.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/libraries/cudnn.h"

namespace {

void multiply(Device *device, const ConvProduct &product) {
    CudaState *state = cuda_state(device);
    if (!state->measuring && !is_capturing(device)) conv3d_prepare(device);
    if (!cudnn_convolve(device, &product)) conv3d_own(device, &product);
}

} // namespace

bool conv3d_prepare(Device *device) {
    if (cuda_state(device)->convolutions || !LOOK_FOR_LIBRARY) return false;
    cudnn_open(device, NULL);
    size_t used = strlen(device->description);
    snprintf(device->description + used, sizeof device->description - used, ", %s", cudnn_description(device));
    return true;
}

void cuda_conv3d_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, Convolution convolution) {
    multiply(device, {CONV_FORWARD, x, y, w, bias, false, convolution});
}

void cuda_conv3d_backward(Device *device, LayerGradients to, Tensor dy, Tensor x, Tensor w, Convolution convolution,
                          bool add_dx) {
    if (to.dx.data) multiply(device, {CONV_DATA, to.dx, dy, w, tensor_none(), add_dx, convolution});
    multiply(device, {CONV_WEIGHTS, x, dy, to.dw, tensor_none(), false, convolution});
    if (to.dbias.data) add_column_sums(device, (float *)to.dbias.data, dy);
}
