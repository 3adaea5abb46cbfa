/* Squared error of rows; its gradient 2 scale (y - targets) takes the place of y. */
#include "kernels/cpu/simd.h"

static inline void squared_errors(Device *device, Tensor loss, Tensor y, Tensor targets, const float *scale) {
    int64_t c = y.dims[1];
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < y.dims[0]; i++) {
        float *row = (float *)y.data + i * c, sum = 0;
        const float *target = (const float *)targets.data + i * c;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < c; j++) sum += (row[j] - target[j]) * (row[j] - target[j]);
        ((float *)loss.data)[i] = sum;
        for (int64_t j = 0; j < c && scale; j++) row[j] = 2 * *scale * (row[j] - target[j]);
    }
}

static void cpu_squared_error_forward(Device *device, Tensor loss, Tensor y, Tensor targets) {
    squared_errors(device, loss, y, targets, NULL);
}

static void cpu_squared_error_forward_backward(Device *device, Tensor loss, Tensor y, Tensor targets, Tensor scale_of,
                                               Tensor loss_scale) {
    float scale = scale_with(scale_of, loss_scale);
    squared_errors(device, loss, y, targets, &scale);
}
