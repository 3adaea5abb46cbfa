/* Softmax cross-entropy, a row at a time: loss = log(sum exp(z - max)) + max - z[target]; its gradient, softmax(z)
 * minus one at the target, replaces the logits while the row is still in cache. */
#include "kernels/cpu/simd.h"

/* Sets *sum to the sum of exp(z - max); with `keep` the row then holds exp(z - max). A NaN makes the loss of its row
 * NaN: a maximum may overlook the NaN, the sum does not. */
static inline void cross_entropy_row(float *z, int64_t classes, int32_t target, float *loss, float *correct, bool keep,
                                     float *sum) {
    float largest = z[0], total = 0;
#pragma omp simd reduction(max : largest)
    for (int64_t j = 0; j < classes; j++) largest = z[j] > largest ? z[j] : largest;
    float wanted = target < 0 ? largest : z[target];
    *correct = 0;
    if (target >= 0 && wanted == largest) {
        int64_t first = 0;
        while (z[first] != largest) first++;
        *correct = first == target;
    }
    if (keep) {
#pragma omp simd reduction(+ : total)
        for (int64_t j = 0; j < classes; j++) {
            z[j] = exp_approximate(z[j] - largest);
            total += z[j];
        }
    } else {
#pragma omp simd reduction(+ : total)
        for (int64_t j = 0; j < classes; j++) total += exp_approximate(z[j] - largest);
    }
    *loss = target < 0 ? 0 : logf(total) + largest - wanted;
    *sum = total;
}

static void cpu_cross_entropy_forward(Device *device, Tensor loss, Tensor correct, Tensor logits, int64_t classes,
                                      Tensor targets, Tensor weights) {
    const int32_t *target = targets.data;
    const float *weight = weights.data;
    int64_t n = logits.dims[0], pitch = logits.dims[1];
    check_indices("cross_entropy_forward", "targets", targets, INT32_MIN, classes);
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float sum;
        cross_entropy_row((float *)logits.data + i * pitch, classes, target[i], (float *)loss.data + i,
                          (float *)correct.data + i, false, &sum);
        if (weight) ((float *)loss.data)[i] *= weight[i];
    }
}

static void cpu_cross_entropy_forward_backward(Device *device, Tensor loss, Tensor correct, Tensor logits,
                                               int64_t classes, Tensor targets, Tensor weights, Tensor scale_of,
                                               Tensor loss_scale) {
    const int32_t *target = targets.data;
    const float *weight = weights.data;
    int64_t n = logits.dims[0], pitch = logits.dims[1];
    check_indices("cross_entropy_forward_backward", "targets", targets, INT32_MIN, classes);
    float scale_of_all = scale_with(scale_of, loss_scale);
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float *z = (float *)logits.data + i * pitch, sum;
        cross_entropy_row(z, classes, target[i], (float *)loss.data + i, (float *)correct.data + i, true, &sum);
        float scale = weight ? scale_of_all * weight[i] : scale_of_all, factor = target[i] < 0 ? 0 : scale / sum;
        if (weight) ((float *)loss.data)[i] *= weight[i];
        for (int64_t j = 0; j < classes; j++) z[j] *= factor;
        for (int64_t j = classes; j < pitch; j++) z[j] = 0;
        if (target[i] >= 0) z[target[i]] -= scale;
    }
}
