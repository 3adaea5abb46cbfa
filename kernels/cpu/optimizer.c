/* The gradient's norm and AdamW over segments of the flat buffers. Both are limited by memory bandwidth: 4 and 28 bytes
 * per parameter. The norm's squares are summed as doubles in pieces of fixed size, which are combined in their order.
 */
#include "kernels/cpu/simd.h"

enum { NORM_PIECE = 16384, NORM_ROUND = 1024 }; /* elements per piece; pieces whose sums are kept at a time */

static double sum_of_squares(const float *g, int64_t n) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += (double)g[i] * (double)g[i];
    return sum;
}

/* Returns the factor by which the gradients were multiplied. */
static double factor_of(Tensor loss_scale) {
    return tensor_given(loss_scale) ? (double)((const float *)loss_scale.data)[LOSS_SCALE_FACTOR] : 1;
}

static void cpu_global_norm(Device *device, Tensor norm, Tensor grads, Tensor loss_scale, const Segment *segments,
                            int n_segments) {
    double total = 0, *sums = (double *)(void *)cpu_scratch(device, 2 * NORM_ROUND);
    for (int s = 0; s < n_segments; s++) {
        const float *g = (const float *)grads.data + segments[s].begin;
        int64_t n = segments[s].end - segments[s].begin, pieces = (n + NORM_PIECE - 1) / NORM_PIECE;
        for (int64_t base = 0; base < pieces; base += NORM_ROUND) {
            int64_t count = pieces - base < NORM_ROUND ? pieces - base : NORM_ROUND;
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
            for (int64_t i = 0; i < count; i++) {
                int64_t at = (base + i) * NORM_PIECE;
                sums[i] = sum_of_squares(g + at, n - at < NORM_PIECE ? n - at : NORM_PIECE);
            }
            for (int64_t i = 0; i < count; i++) total += sums[i];
        }
    }
    *(float *)norm.data = (float)(sqrt(total) / factor_of(loss_scale));
}

/* With g the clipped gradient, t the step, and lr times the segment's rate:
 *   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
 *   p = p (1 - lr wd) - lr / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + eps);
 * coupled, g is the clipped gradient plus wd p, and p is not multiplied. */
static void cpu_adamw_update(Device *device, AdamWBuffers of, Tensor norm, Tensor loss_scale, const Segment *segments,
                             int n_segments, AdamW o) {
    double length = (double)*(const float *)norm.data + 1e-6, t = (double)o.step;
    if (!isfinite(length)) return;
    if (tensor_given(of.copy)) die("adamw_update: the cpu device has no 16-bit parameters");
    if (tensor_given(loss_scale)) t = (double)((const float *)loss_scale.data)[LOSS_SCALE_DONE] + 1;
    float clip = (float)((o.clip > 0 && length > (double)o.clip ? (double)o.clip / length : 1) / factor_of(loss_scale));
    double correction = 1 - pow((double)o.beta1, t);
    float root = (float)(1 / sqrt(1 - pow((double)o.beta2, t)));
    float old1 = o.beta1, new1 = (float)(1 - (double)o.beta1), old2 = o.beta2, new2 = (float)(1 - (double)o.beta2);
    float epsilon = o.epsilon;
    for (int s = 0; s < n_segments; s++) {
        int64_t begin = segments[s].begin, n = segments[s].end - begin;
        double lr = (double)o.learning_rate * (double)segments[s].rate;
        float decay = o.coupled ? segments[s].weight_decay : 0, rate = (float)(lr / correction);
        float keep = o.coupled ? 1 : (float)(1 - lr * (double)segments[s].weight_decay);
        float *p = (float *)of.params.data + begin, *mean = (float *)of.m.data + begin,
              *square = (float *)of.v.data + begin;
        const float *g = (const float *)of.grads.data + begin;
#pragma omp parallel for simd num_threads(device->n_threads) schedule(static)
        for (int64_t i = 0; i < n; i++) {
            float gradient = g[i] * clip + decay * p[i];
            mean[i] = old1 * mean[i] + new1 * gradient;
            square[i] = old2 * square[i] + new2 * gradient * gradient;
            p[i] = p[i] * keep - rate * mean[i] / (sqrtf(square[i]) * root + epsilon);
        }
    }
}

static void cpu_loss_scale_update(Device *device, Tensor loss_scale, Tensor norm, Tensor stopped) {
    (void)device;
    float *s = loss_scale.data;
    if (tensor_given(stopped) && *(const float *)stopped.data != 0) return;
    bool finite = isfinite(*(const float *)norm.data);
    s[LOSS_SCALE_DONE] += finite;
    s[LOSS_SCALE_SKIPPED] += !finite;
    s[LOSS_SCALE_GOOD] = finite ? s[LOSS_SCALE_GOOD] + 1 : 0;
    if (!finite) s[LOSS_SCALE_FACTOR] *= 0.5f;
    if (s[LOSS_SCALE_GOOD] < 2000) return;
    s[LOSS_SCALE_FACTOR] *= 2;
    s[LOSS_SCALE_GOOD] = 0;
}

static void cpu_norm_guard(Device *device, Tensor norm, Tensor stopped, Tensor sums, bool overflow_is_fine) {
    (void)device;
    float *result = norm.data, *stop = stopped.data;
    const float *sum = sums.data;
    bool finite = true;
    for (int64_t i = 0; i < sums.dims[0]; i++) finite = finite && isfinite(sum[i]);
    if (stop && (!finite || !(isfinite(*result) || overflow_is_fine))) *stop = 1;
    if (!finite || (stop && *stop != 0)) *result = NAN;
}

static void cpu_copy_segments(Device *device, Tensor to, Tensor from, Tensor norm, const Segment *segments,
                              int n_segments) {
    (void)device;
    if (tensor_given(norm) && !isfinite(*(const float *)norm.data)) return;
    for (int s = 0; s < n_segments; s++) {
        int64_t begin = segments[s].begin, n = segments[s].end - begin;
        memcpy((float *)to.data + begin, (const float *)from.data + begin, (size_t)n * sizeof(float));
    }
}
