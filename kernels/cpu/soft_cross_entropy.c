/* Softmax cross-entropy against a distribution: with the differences d = max - z, which are not negative, loss = sum t
 * log(sum exp(-d)) + sum t d, in which nothing cancels. The gradient sum t softmax(z) - t replaces the logits. */
#include "kernels/cpu/simd.h"

/* Returns the row's loss and sets *correct. With `scale` the row becomes its gradient. A NaN makes the loss NaN: a
 * maximum may overlook the NaN, the sum does not. */
static inline float soft_cross_entropy_row(float *z, const float *target, int64_t classes, int32_t label,
                                           float *correct, const float *scale) {
    float sum = 0, targets = 0, distance = 0;
    int64_t first = 0;
    for (int64_t j = 1; j < classes; j++) first = z[j] > z[first] ? j : first;
    float largest = z[first];
    for (int64_t j = 0; j < classes; j++) {
        sum += exp_approximate(z[j] - largest);
        targets += target[j];
        if (target[j] != 0) distance = multiply_add(target[j], largest - z[j], distance);
    }
    float factor = scale ? *scale * targets / sum : 0;
    for (int64_t j = 0; j < classes && scale; j++)
        z[j] = multiply_add(factor, exp_approximate(z[j] - largest), -*scale * target[j]);
    *correct = first == label && sum == sum;
    return multiply_add(targets, logf(sum), distance);
}

static inline void soft_cross_entropies(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets,
                                        Tensor labels, const float *scale) {
    int64_t classes = logits.dims[1];
    check_indices("soft_cross_entropy", "labels", labels, INT32_MIN, classes);
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < logits.dims[0]; i++)
        ((float *)loss.data)[i] =
            soft_cross_entropy_row((float *)logits.data + i * classes, (const float *)targets.data + i * classes,
                                   classes, ((const int32_t *)labels.data)[i], (float *)correct.data + i, scale);
}

static void cpu_soft_cross_entropy_forward(Device *device, Tensor loss, Tensor correct, Tensor logits, Tensor targets,
                                           Tensor labels) {
    soft_cross_entropies(device, loss, correct, logits, targets, labels, NULL);
}

static void cpu_soft_cross_entropy_forward_backward(Device *device, Tensor loss, Tensor correct, Tensor logits,
                                                    Tensor targets, Tensor labels, Tensor scale_of, Tensor loss_scale) {
    float scale = scale_with(scale_of, loss_scale);
    soft_cross_entropies(device, loss, correct, logits, targets, labels, &scale);
}
