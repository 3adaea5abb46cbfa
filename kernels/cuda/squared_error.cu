/* Squared error of rows: loss = sum of (y - t)^2; with GRADIENT y becomes 2 scale (y - t) in the same pass.
 *
 * A row has as many lanes of a warp as it has packs, up to all 32. Grid: n rows, BLOCK / lanes a block. Bytes: n c
 * times (the size of T, with GRADIENT twice; 4); 4 n. */
#include "kernels/cuda/memory.h"

namespace {

enum { BLOCK = 256 };

template <bool GRADIENT, int W, class T>
__global__ void __launch_bounds__(BLOCK) squared_error(float *loss, T *y, const float *targets, int64_t n, int64_t c,
                                                       int lanes, const float *scale_of, const float *loss_scale) {
    int64_t row = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / lanes;
    int lane = threadIdx.x % lanes;
    float scale = 0, sum = 0;
    if (GRADIENT) scale = 2 * *scale_of * (loss_scale ? loss_scale[LOSS_SCALE_FACTOR] : 1.0f);
#pragma unroll 4
    for (int64_t j = lane * W; j < c && row < n; j += lanes * W) {
        Pack<float, W> difference = convert<float>(load_pack<W>(y + row * c + j));
        Pack<float, W> target = load_pack<W>(targets + row * c + j);
#pragma unroll
        for (int e = 0; e < W; e++) {
            difference[e] -= target[e];
            sum += difference[e] * difference[e];
            if (GRADIENT) difference[e] *= scale;
        }
        if (GRADIENT) store_pack(y + row * c + j, convert<T>(difference));
    }
    sum = row_sum(sum, lanes);
    if (lane == 0 && row < n) loss[row] = sum;
}

template <bool GRADIENT>
void launch(Device *device, const char *op, Tensor loss, Tensor y, Tensor targets, Tensor scale, Tensor loss_scale) {
    int64_t n = y.dims[0], c = y.dims[1];
    if (n == 0) return;
    with_packs(y.dtype, c, {y.data, targets.data}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int W = decltype(width)::value;
        int lanes = lanes_of_row(ceil_div(c, W));
        cuda_check(gpu_launch(squared_error<GRADIENT, W, T>, grid_of(op, ceil_div(n * lanes, BLOCK)), BLOCK, 0,
                              cuda_stream(device), (float *)loss.data, (T *)y.data, (const float *)targets.data, n, c,
                              lanes, (const float *)scale.data, (const float *)loss_scale.data),
                   op);
    });
}

} // namespace

void cuda_squared_error_forward(Device *device, Tensor loss, Tensor y, Tensor targets) {
    launch<false>(device, "squared_error_forward", loss, y, targets, tensor_none(), tensor_none());
}

void cuda_squared_error_forward_backward(Device *device, Tensor loss, Tensor y, Tensor targets, Tensor scale,
                                         Tensor loss_scale) {
    launch<true>(device, "squared_error_forward_backward", loss, y, targets, scale, loss_scale);
}
