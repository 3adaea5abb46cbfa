/* The gradient's norm and AdamW over segments of the flat buffers. Both are limited by memory bandwidth: 4 and 28 bytes
 * per parameter. The norm's squares are summed as doubles in parts at fixed places, which are combined in their order.
 */
#include "kernels/cpu/simd.h"

enum { SEGMENT_PIECE = 16384 }; /* elements that a thread takes at a time */

/* A run of elements that take part. */
typedef struct {
    int64_t begin, end;
} Span;

/* Moves `span` to the next run of elements in front of `end` that take part. Returns false if there is none. Begin with
 * an empty span in front of the first element. */
static inline bool next_span(const Segment *s, int64_t end, Span *span) {
    if (!s->used) {
        *span = (Span){span->end, end};
        return span->begin < end;
    }
    int64_t row = (span->end - s->begin) / s->width, last = (end - s->begin + s->width - 1) / s->width;
    while (span->end < end && row < last && !s->used[row]) row++;
    int64_t begin = s->begin + row * s->width;
    span->begin = begin > span->end ? begin : span->end;
    while (row < last && s->used[row]) row++;
    span->end = s->begin + row * s->width < end ? s->begin + row * s->width : end;
    return span->begin < span->end;
}

static double sum_of_squares(const float *g, int64_t n) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += (double)g[i] * (double)g[i];
    return sum;
}

/* Returns that sum of elements begin .. end - 1 of a buffer, at most NORM_PIECE: those that take no part count as 0,
 * and are not read. */
static double sum_of_used_squares(const float *grads, const Segment *s, int64_t begin, int64_t end) {
    _Alignas(64) float piece[NORM_PIECE];
    Span span = {begin, begin};
    if (!s->used) return sum_of_squares(grads + begin, end - begin);
    if (!next_span(s, end, &span)) return 0;
    memset(piece, 0, (size_t)(end - begin) * sizeof *piece);
    do memcpy(piece + (span.begin - begin), grads + span.begin, (size_t)(span.end - span.begin) * sizeof *piece);
    while (next_span(s, end, &span));
    return sum_of_squares(piece, end - begin);
}

/* Returns the factor by which the gradients were multiplied. */
static double factor_of(Tensor loss_scale) {
    return tensor_given(loss_scale) ? (double)((const float *)loss_scale.data)[LOSS_SCALE_FACTOR] : 1;
}

static void cpu_sum_squares(Device *device, Tensor squares, Tensor grads, const Segment *segments, int n_segments,
                            int64_t begin, int64_t end) {
    double *out = squares.data;
    for (const Segment *s = segments; s < segments + n_segments; s++) {
        NormPieces taken = norm_pieces(s, begin, end);
        int64_t first = s->begin / NORM_PIECE;
#pragma omp parallel for num_threads(device->n_threads) schedule(static) if (taken.first < taken.end)
        for (int64_t p = taken.first; p < taken.end; p++) {
            int64_t from = p * NORM_PIECE, to = from + NORM_PIECE;
            out[p - first] =
                sum_of_used_squares(grads.data, s, from > s->begin ? from : s->begin, to < s->end ? to : s->end);
        }
        out += norm_parts(s, 1);
    }
}

static void cpu_finish_norm(Device *device, Tensor norm, Tensor squares, Tensor loss_scale) {
    (void)device;
    double total = 0;
    for (int64_t i = 0; i < squares.dims[0] / NORM_FLOATS; i++) total += ((const double *)squares.data)[i];
    *(float *)norm.data = (float)(sqrt(total) / factor_of(loss_scale));
}

/* The numbers of an update in a segment. */
typedef struct {
    float clip, decay, keep, rate, root, old1, new1, old2, new2, epsilon;
} Update;

/* Returns the learning rate of a segment or a matrix. */
static double rate_of(const AdamWBuffers *of, float learning_rate, int group) {
    return (double)(tensor_given(of->rates) ? learning_rate * ((const float *)of->rates.data)[group] : learning_rate);
}

/* With g the clipped gradient, t the step, and lr the segment's learning rate:
 *   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
 *   p = p (1 - lr wd) - lr / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + eps);
 * coupled, g is the clipped gradient plus wd p, and p is not multiplied. */
static void update_span(const AdamWBuffers *of, Span span, Update u) {
    float *p = of->params.data, *mean = of->m.data, *square = of->v.data;
    const float *g = of->grads.data;
#pragma omp simd
    for (int64_t i = span.begin; i < span.end; i++) {
        float gradient = g[i] * u.clip + u.decay * p[i];
        mean[i] = u.old1 * mean[i] + u.new1 * gradient;
        square[i] = u.old2 * square[i] + u.new2 * gradient * gradient;
        p[i] = p[i] * u.keep - u.rate * mean[i] / (sqrtf(square[i]) * u.root + u.epsilon);
    }
}

static void cpu_adamw_update(Device *device, AdamWBuffers of, Tensor norm, Tensor loss_scale, const Segment *segments,
                             int n_segments, AdamW o) {
    double length = (double)*(const float *)norm.data + 1e-6, t = of.step ? (double)*of.step : (double)o.step;
    if (!isfinite(length)) return;
    if (tensor_given(of.copy)) die("adamw_update: the cpu device has no 16-bit parameters");
    if (tensor_given(loss_scale)) t = (double)((const float *)loss_scale.data)[LOSS_SCALE_DONE] + 1;
    double correction = 1 - pow((double)o.beta1, t);
    Update u = {
        .clip = (float)((o.clip > 0 && length > (double)o.clip ? (double)o.clip / length : 1) / factor_of(loss_scale)),
        .root = (float)(1 / sqrt(1 - pow((double)o.beta2, t))),
        .old1 = o.beta1,
        .new1 = (float)(1 - (double)o.beta1),
        .old2 = o.beta2,
        .new2 = (float)(1 - (double)o.beta2),
        .epsilon = o.epsilon};
    for (int s = 0; s < n_segments; s++) {
        int64_t begin = segments[s].begin, end = segments[s].end;
        double lr = rate_of(&of, segments[s].learning_rate, segments[s].group);
        u.decay = o.coupled ? segments[s].weight_decay : 0;
        u.rate = (float)(lr / correction);
        u.keep = o.coupled ? 1 : (float)(1 - lr * (double)segments[s].weight_decay);
        /* Rows that take part may lie together: pieces are given to threads that are free. */
#pragma omp parallel for num_threads(device->n_threads) schedule(dynamic)
        for (int64_t at = begin; at < end; at += SEGMENT_PIECE) {
            Span span = {at, at};
            while (next_span(&segments[s], at + SEGMENT_PIECE < end ? at + SEGMENT_PIECE : end, &span))
                update_span(&of, span, u);
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
        Span span = {segments[s].begin, segments[s].begin};
        while (next_span(&segments[s], segments[s].end, &span))
            memcpy((float *)to.data + span.begin, (const float *)from.data + span.begin,
                   (size_t)(span.end - span.begin) * sizeof(float));
    }
}

static void cpu_clear_segments(Device *device, Tensor x, const Segment *segments, int n_segments) {
    for (int s = 0; s < n_segments; s++) {
        int64_t begin = segments[s].begin, end = segments[s].end;
#pragma omp parallel for num_threads(device->n_threads) schedule(dynamic)
        for (int64_t at = begin; at < end; at += SEGMENT_PIECE) {
            Span span = {at, at};
            while (next_span(&segments[s], at + SEGMENT_PIECE < end ? at + SEGMENT_PIECE : end, &span))
                memset((float *)x.data + span.begin, 0, (size_t)(span.end - span.begin) * sizeof(float));
        }
    }
}
