/* The norm of gradients in one call, as operations compute it in two. */
#pragma once

#include "kernels/ops.h"

static inline void global_norm(Device *device, Tensor norm, Tensor grads, Tensor loss_scale, const Segment *segments,
                               int n_segments) {
    int64_t n = NORM_FLOATS * norm_parts(segments, n_segments);
    Tensor squares = tensor_1d(device->allocate(device, (size_t)n * sizeof(float)), DTYPE_F32, n);
    sum_squares(device, squares, grads, segments, n_segments, 0, grads.dims[0]);
    finish_norm(device, norm, squares, loss_scale);
    device->synchronize(device);
    device->release(device, squares.data, tensor_bytes(squares));
}
