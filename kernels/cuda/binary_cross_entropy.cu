/* Binary cross-entropy, a thread a row; with GRADIENT the logits become the gradient in the same pass. With
 * e = exp(-|z|) nothing overflows, and with what the target misses of the nearer class (target - 1 if z > 0) nothing
 * cancels: loss = log(1 + e) - missing z, gradient = the other class's probability e / (1 + e), signed, - missing.
 *
 * Grid: N / BLOCK. Bytes: the size of T, with GRADIENT twice, and 16, a row. */
#include "kernels/cuda/memory.h"

namespace {

enum { BLOCK = 256 };

template <bool GRADIENT, class T>
__global__ void __launch_bounds__(BLOCK)
    binary_cross_entropy(float *loss, float *correct, T *logits, const float *targets, const float *labels, int64_t n,
                         const float *scale_of, const float *loss_scale) {
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n) return;
    float z = to_float(logits[i]), e = expf(-fabsf(z));
    bool positive = z > 0;
    float missing = positive ? targets[i] - 1 : targets[i];
    loss[i] = log1pf(e) - missing * z;
    correct[i] = positive == (labels[i] > 0) ? 1.0f : 0.0f;
    if (!GRADIENT) return;
    float scale = *scale_of * (loss_scale ? loss_scale[LOSS_SCALE_FACTOR] : 1.0f);
    logits[i] = from_float<T>(scale * ((positive ? -e : e) / (1 + e) - missing));
}

template <bool GRADIENT>
void launch(Device *device, const char *op, Tensor loss, Tensor correct, Tensor logits, Tensor targets, Tensor labels,
            Tensor scale, Tensor loss_scale) {
    int64_t n = logits.dims[0];
    if (n == 0) return;
    with_type(logits.dtype, [&](auto zero) {
        using T = decltype(zero);
        cuda_check(gpu_launch(binary_cross_entropy<GRADIENT, T>, grid_of(op, ceil_div(n, BLOCK)), BLOCK, 0,
                              cuda_stream(device), (float *)loss.data, (float *)correct.data, (T *)logits.data,
                              (const float *)targets.data, (const float *)labels.data, n, (const float *)scale.data,
                              (const float *)loss_scale.data),
                   op);
    });
}

} // namespace

void cuda_binary_cross_entropy_forward(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets,
                                       Tensor labels) {
    launch<false>(device, "binary_cross_entropy_forward", loss, correct, logits, targets, labels, tensor_none(),
                  tensor_none());
}

void cuda_binary_cross_entropy_forward_backward(Device *device, Tensor loss, Tensor correct, Tensor logits,
                                                Tensor targets, Tensor labels, Tensor scale, Tensor loss_scale) {
    launch<true>(device, "binary_cross_entropy_forward_backward", loss, correct, logits, targets, labels, scale,
                 loss_scale);
}
