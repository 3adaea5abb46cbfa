/* Softmax cross-entropy against a distribution: with the differences d = max - z, which are not negative, loss = sum t
 * log(sum exp(-d)) + sum t d, in which nothing cancels. With GRADIENT the logits become scale (sum t softmax(z) - t).
 *
 * Classes are few: a row has as many lanes of a warp as it has classes, up to all 32, and its second and third reading
 * are from cache. Grid: n rows, BLOCK / lanes a block. Bytes: n K times (the size of T, with GRADIENT twice; 4), 12 n.
 */
#include <float.h>

#include "kernels/cuda/check_index.h"
#include "kernels/cuda/memory.h"

namespace {

enum { BLOCK = 256 };

/* The maximum begins at -FLT_MAX, not at -infinity: a lane without a class must not add NaN. A NaN does not show in a
 * maximum but does in the sum, and so in the loss. */
template <bool GRADIENT, class T>
__global__ void __launch_bounds__(BLOCK)
    soft_cross_entropy(float *loss, float *correct, T *logits, const float *targets, const int32_t *labels, int64_t n,
                       int classes, int lanes, const float *scale_of, const float *loss_scale) {
    int64_t row = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / lanes;
    int lane = threadIdx.x % lanes, end = row < n ? classes : 0, first = INT32_MAX;
    int64_t begin = row * classes;
    float largest = -FLT_MAX, sum = 0, total = 0, distance = 0;
    for (int j = lane; j < end; j += lanes) {
        float z = to_float(logits[begin + j]);
        if (z > largest) largest = z, first = j;
    }
    float top = row_max(largest, lanes);
    first = largest == top ? first : INT32_MAX;
    for (int other = lanes / 2; other; other /= 2) first = min(first, __shfl_xor_sync(0xFFFFFFFFu, first, other));
    for (int j = lane; j < end; j += lanes) {
        float d = top - to_float(logits[begin + j]), target = targets[begin + j];
        sum += expf(-d);
        total += target;
        if (target != 0) distance += target * d;
    }
    sum = row_sum(sum, lanes);
    total = row_sum(total, lanes);
    distance = row_sum(distance, lanes);
    if (row >= n) return;
    if (lane == 0) {
        int label = labels[row];
        if (label >= classes) complain("soft_cross_entropy: labels", row, label, classes);
        loss[row] = total * logf(sum) + distance;
        correct[row] = first == label && sum == sum ? 1.0f : 0.0f;
    }
    if (!GRADIENT) return;
    float scale = *scale_of * (loss_scale ? loss_scale[LOSS_SCALE_FACTOR] : 1.0f), factor = scale * total / sum;
    for (int j = lane; j < classes; j += lanes) {
        float e = expf(to_float(logits[begin + j]) - top);
        logits[begin + j] = from_float<T>(e * factor - scale * targets[begin + j]);
    }
}

template <bool GRADIENT>
void launch(Device *device, const char *op, Tensor loss, Tensor correct, Tensor logits, Tensor targets, Tensor labels,
            Tensor scale, Tensor loss_scale) {
    int64_t n = logits.dims[0], classes = logits.dims[1];
    int lanes = lanes_of_row(classes);
    if (n == 0) return;
    with_type(logits.dtype, [&](auto zero) {
        using T = decltype(zero);
        cuda_check(gpu_launch(soft_cross_entropy<GRADIENT, T>, grid_of(op, ceil_div(n * lanes, BLOCK)), BLOCK, 0,
                              cuda_stream(device), (float *)loss.data, (float *)correct.data, (T *)logits.data,
                              (const float *)targets.data, (const int32_t *)labels.data, n, (int)classes, lanes,
                              (const float *)scale.data, (const float *)loss_scale.data),
                   op);
    });
}

} // namespace

void cuda_soft_cross_entropy_forward(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets,
                                     Tensor labels) {
    launch<false>(device, "soft_cross_entropy_forward", loss, correct, logits, targets, labels, tensor_none(),
                  tensor_none());
}

void cuda_soft_cross_entropy_forward_backward(Device *device, Tensor loss, Tensor correct, Tensor logits,
                                              Tensor targets, Tensor labels, Tensor scale, Tensor loss_scale) {
    launch<true>(device, "soft_cross_entropy_forward_backward", loss, correct, logits, targets, labels, scale,
                 loss_scale);
}
