/* The gradient's norm and AdamW over segments of the flat buffers, in pieces of fixed size: partial sums are combined
 * in the order of the pieces, whoever computed them. AdamW moves 28 bytes a parameter and is limited by that. */
#ifndef KERNELS_CPU_OPTIMIZER_H
#define KERNELS_CPU_OPTIMIZER_H

#include "kernels/cpu/simd.h"

enum { SEGMENT_PIECE = 16384 };

static double piece_squares(const float *g, int64_t n) {
    float lanes[16] = {
        0}; /* 1,024 squares a lane: their sum has a relative error below 1e-4 eps^-1.. in float, then double */
    double sum = 0;
    for (int64_t at = 0; at < n; at += 4096) {
        int64_t end = n - at < 4096 ? n : at + 4096, j = at;
        memset(lanes, 0, sizeof lanes);
        for (; j + 16 <= end; j += 16)
            for (int l = 0; l < 16; l++) lanes[l] += g[j + l] * g[j + l];
        for (; j < end; j++) lanes[0] += g[j] * g[j];
        for (int l = 0; l < 16; l++) sum += (double)lanes[l];
    }
    return sum;
}

static void cpu_global_norm(Device *device, Tensor norm, Tensor grads, const Segment *segments, int n_segments) {
    double total = 0;
    enum { ROUND = 1024 }; /* pieces whose sums are kept before they are added up */
    double *sums = (double *)(void *)cpu_scratch(device, 2 * ROUND);
    for (int s = 0; s < n_segments; s++) {
        const float *g = (const float *)grads.data + segments[s].begin;
        int64_t n = segments[s].end - segments[s].begin, pieces = (n + SEGMENT_PIECE - 1) / SEGMENT_PIECE;
        for (int64_t base = 0; base < pieces; base += ROUND) {
            int64_t count = pieces - base < ROUND ? pieces - base : ROUND;
#pragma omp parallel for schedule(static)
            for (int64_t i = 0; i < count; i++) {
                int64_t at = (base + i) * SEGMENT_PIECE;
                sums[i] = piece_squares(g + at, n - at < SEGMENT_PIECE ? n - at : SEGMENT_PIECE);
            }
            for (int64_t i = 0; i < count; i++) total += sums[i];
        }
    }
    *(float *)norm.data = (float)sqrt(total);
}

static void cpu_adamw_update(Device *device, Tensor params, Tensor m, Tensor v, Tensor grads, Tensor norm,
                             const Segment *segments, int n_segments, AdamW o) {
    (void)device;
    double length = (double)*(const float *)norm.data;
    float clip = o.clip > 0 && length + 1e-6 > (double)o.clip ? (float)((double)o.clip / (length + 1e-6)) : 1.0f;
    double correction1 = 1 - pow((double)o.beta1, (double)o.step),
           correction2 = 1 - pow((double)o.beta2, (double)o.step);
    float rate = (float)((double)o.learning_rate / correction1), root = (float)(1 / sqrt(correction2));
    float keep1 = o.beta1, keep2 = o.beta2, epsilon = o.epsilon;
    for (int s = 0; s < n_segments; s++) {
        int64_t begin = segments[s].begin, n = segments[s].end - begin;
        float decay = (float)(1 - (double)o.learning_rate * (double)segments[s].weight_decay);
        float *p = (float *)params.data + begin, *mean = (float *)m.data + begin, *square = (float *)v.data + begin;
        const float *g = (const float *)grads.data + begin;
#pragma omp parallel for simd schedule(static)
        for (int64_t i = 0; i < n; i++) {
            float gradient = g[i] * clip;
            mean[i] = keep1 * mean[i] + (1 - keep1) * gradient;
            square[i] = keep2 * square[i] + (1 - keep2) * gradient * gradient;
            p[i] = p[i] * decay - rate * mean[i] / (sqrtf(square[i]) * root + epsilon);
        }
    }
}

#endif
