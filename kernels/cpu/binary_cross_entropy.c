/* Binary cross-entropy of logits; its gradient takes the place of the logits.
 *
 * With e = exp(-|z|) nothing overflows. With `missing` = target - (1 if z > 0, else 0) nothing cancels: loss = log(1 +
 * e) - missing z, where both terms are positive. In the derivative sigmoid(z) - target, the probability of the other
 * class, e / (1 + e), keeps all its digits. */
#include "kernels/cpu/simd.h"

static inline void binary_cross_entropies(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets,
                                          Tensor labels, const float *scale) {
    float *z = logits.data;
    const float *target = targets.data, *label = labels.data;
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < logits.dims[0]; i++) {
        bool positive = z[i] > 0;
        float e = expf(-fabsf(z[i])), missing = positive ? target[i] - 1 : target[i];
        ((float *)loss.data)[i] = log1pf(e) - missing * z[i];
        ((float *)correct.data)[i] = positive == (label[i] > 0);
        if (scale) z[i] = *scale * ((positive ? -e : e) / (1 + e) - missing);
    }
}

static void cpu_binary_cross_entropy_forward(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets,
                                             Tensor labels) {
    binary_cross_entropies(device, loss, correct, logits, targets, labels, NULL);
}

static void cpu_binary_cross_entropy_forward_backward(Device *device, Tensor loss, Tensor correct, Tensor logits,
                                                      Tensor targets, Tensor labels, Tensor scale_of,
                                                      Tensor loss_scale) {
    float scale = scale_with(scale_of, loss_scale);
    binary_cross_entropies(device, loss, correct, logits, targets, labels, &scale);
}
