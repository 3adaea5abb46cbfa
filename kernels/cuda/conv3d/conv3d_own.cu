/* Chooses the kernels of a convolution by its type; computes checksums of results. */
#include "kernels/cuda/conv3d/conv3d_own.h"

#include "kernels/cuda/memory.h"

namespace {

constexpr int64_t CHECKSUM_BLOCKS = 256;

/* parts[b], parts[blocks + b] = the sums of +-x and of x^2 of block b's numbers. Bytes: x once. */
template <class T> __global__ void __launch_bounds__(256) checksum_parts(double *parts, const T *x, int64_t n) {
    SHARED(double, scratch, [2][32]);
    double sum = 0, squares = 0;
    for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x; i < n; i += (int64_t)gridDim.x * 256) {
        double number = to_float(x[i]);
        uint64_t coin = ((uint64_t)i + 1) * 0x9E3779B97F4A7C15ull;
        sum += (coin ^ coin >> 31) * 0xBF58476D1CE4E5B9ull >> 63 ? number : -number;
        squares += number * number;
    }
    sum = block_sum_double(sum, scratch[0]);
    squares = block_sum_double(squares, scratch[1]);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum, parts[gridDim.x + blockIdx.x] = squares;
}

} // namespace

ConvChecksum conv3d_checksum(Device *device, const ConvProduct *p) {
    Tensor result = p->pass == CONV_FORWARD ? p->y : p->pass == CONV_DATA ? p->x : p->w;
    int64_t n = tensor_numel(result), wanted = ceil_div(n, 4096);
    int blocks = (int)(wanted < CHECKSUM_BLOCKS ? wanted : CHECKSUM_BLOCKS);
    double parts[2 * CHECKSUM_BLOCKS], *on_device = (double *)cuda_scratch(device, sizeof parts);
    with_type(result.dtype, [&](auto zero) {
        using T = decltype(zero);
        cuda_check(
            gpu_launch(checksum_parts<T>, blocks, 256, 0, cuda_stream(device), on_device, (const T *)result.data, n),
            "a checksum");
    });
    device->download(device, parts, on_device, 2 * blocks * sizeof *parts);
    ConvChecksum all = {0, 0};
    for (int i = 0; i < blocks; i++) all.sum += parts[i], all.norm += parts[blocks + i];
    all.norm = sqrt(all.norm);
    return all;
}

void conv3d_own(Device *device, const ConvProduct *p) {
    with_type(p->y.dtype, [&](auto zero) {
        using Own = Conv3d<decltype(zero)>;
        if (p->pass == CONV_FORWARD) Own::forward(device, *p);
        if (p->pass == CONV_DATA) Own::backward_data(device, *p);
        if (p->pass == CONV_WEIGHTS) Own::backward_weights(device, *p);
    });
}

void conv3d_order_weights(Device *device, void *to, const ConvProduct *p) {
    with_type(p->y.dtype, [&](auto zero) {
        using T = decltype(zero);
        Conv3d<T>::order(device, (T *)to, *p);
    });
}

void conv3d_add_weights(Device *device, const ConvProduct *p, const void *from) {
    with_type(p->y.dtype, [&](auto zero) {
        using T = decltype(zero);
        Conv3d<T>::add_ordered(device, *p, (const T *)from);
    });
}
