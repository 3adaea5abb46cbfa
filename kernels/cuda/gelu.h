/* GELU and its slope, for kernels that have the number in a register: the elementwise ones, and matrix products. */
#pragma once

#include "kernels/cuda/cuda.h"

/* gelu(x) = x S with S = 0.5 (1 + tanh u) = 1 / (1 + e), e = exp(-2u), u = sqrt(2/pi) (x + 0.044715 x^3); or x Phi(x)
 * with Phi(x) = 0.5 (1 + erf(x / sqrt(2))). Their derivatives: S + x S (1 - S) 2u', and Phi(x) + x phi(x).
 *
 * The fast exponential's relative error grows with its argument's size |2u|; that of S is this times 1 - S, and
 * |2u| (1 - S) S stays below 0.3: to S it is the error of one rounding. */
GPU_INLINE float tanh_gelu_sigmoid(float x) {
    return __fdividef(1.0f, 1.0f + __expf(-1.59576912f * (0.044715f * x * x * x + x)));
}

GPU_INLINE float normal_distribution(float x) { return 0.5f + 0.5f * erff(0.707106781f * x); }

template <GeluKind KIND> GPU_INLINE float gelu(float x) {
    return x * (KIND == GELU_TANH ? tanh_gelu_sigmoid(x) : normal_distribution(x));
}

template <GeluKind KIND> GPU_INLINE float gelu_slope(float x) {
    if (KIND == GELU_ERF) return normal_distribution(x) + x * 0.398942280f * __expf(-0.5f * x * x);
    float s = tanh_gelu_sigmoid(x), slope = 1.59576912f * (3 * 0.044715f * x * x + 1.0f);
    return s + x * s * (1.0f - s) * slope;
}

/* The elementwise kernels: y = dropout(gelu(x)), and dx = dropout(dy gelu'(x)), where dx may be dy. */
void gelu_then_dropout(Device *device, Tensor y, Tensor x, GeluKind kind, Dropout drop);
void gelu_then_dropout_backward(Device *device, Tensor dx, Tensor dy, Tensor x, GeluKind kind, Dropout drop);
