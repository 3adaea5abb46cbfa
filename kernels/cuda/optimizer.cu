/* The gradient's norm, AdamW, copies and zeros over segments of the flat buffers, and the loss scale. Nothing waits for
 * the GPU: whether an update is made, with what step, learning rates and clipping, is decided there.
 *
 * The buffers are cut into pieces of PIECE elements at fixed places; a block takes the part of one piece that lies in
 * one segment. Segments reach a kernel as an argument by value, SEGMENTS at a time, so that a launch can be recorded
 * and replayed. */
#include "kernels/cuda/memory.h"

namespace {

enum { BLOCK = 256, PIECE = NORM_PIECE, SEGMENTS = 128 };
static_assert(PIECE % (4 * BLOCK) == 0, "threads take packs of four");

/* Some segments: segment s is worked on by blocks first_block[s] .. first_block[s + 1] - 1. */
struct SegmentList {
    int64_t begin[SEGMENTS], end[SEGMENTS];
    int32_t first_block[SEGMENTS + 1];
    float decay[SEGMENTS], rate[SEGMENTS]; /* weight decays, learning rates ... */
    uint16_t group[SEGMENTS];              /* ... and what these are multiplied by: AdamWBuffers.rates */
    int32_t count;
    int32_t skipped;     /* pieces of the first segment that nobody works on */
    int32_t masked;      /* the one segment of which only some rows take part, if `used` is not null */
    const uint8_t *used; /* see Segment */
    int64_t width;
};

/* Appends a segment, with those of its pieces. Returns false if it belongs into the next list. */
bool append(const char *op, SegmentList &list, const Segment &s, NormPieces pieces) {
    int32_t skipped = (int32_t)(pieces.first - s.begin / PIECE);
    if (list.count == SEGMENTS || (list.count && skipped) || (s.used && list.used)) return false;
    if (s.group < 0 || s.group > UINT16_MAX) die("%s: a segment has group %d", op, s.group);
    if (s.used) {
        list.masked = list.count;
        list.used = s.used;
        list.width = s.width;
    }
    if (!list.count) list.skipped = skipped;
    list.begin[list.count] = s.begin;
    list.end[list.count] = s.end;
    list.rate[list.count] = s.learning_rate;
    list.decay[list.count] = s.weight_decay;
    list.group[list.count] = (uint16_t)s.group;
    int64_t blocks = list.first_block[list.count] + pieces.end - pieces.first;
    list.first_block[++list.count] = (int32_t)grid_of(op, blocks);
    return true;
}

/* Calls f(list, number of the first part of the list) for the parts of segments that begin at elements begin .. end - 1
 * (norm_pieces), in lists whose parts follow each other. */
template <class Function>
void for_lists(const char *op, const Segment *segments, int n_segments, int64_t begin, int64_t end, Function f) {
    SegmentList list = {};
    int64_t first = 0, at = 0; /* of the list; of the segment */
    for (int s = 0; s < n_segments; at += norm_parts(&segments[s], 1), s++) {
        NormPieces pieces = norm_pieces(&segments[s], begin, end);
        int64_t part = at + pieces.first - segments[s].begin / PIECE;
        if (pieces.first == pieces.end) continue;
        if (part != first + list.first_block[list.count] || !append(op, list, segments[s], pieces)) {
            if (list.count) f(list, first);
            list = {};
            first = part;
            append(op, list, segments[s], pieces);
        }
    }
    if (list.count) f(list, first);
}

/* Does so for all parts. */
template <class Function> void for_lists(const char *op, const Segment *segments, int n_segments, Function f) {
    for_lists(op, segments, n_segments, 0, INT64_MAX, f);
}

/* The work of a block: elements begin .. end - 1, inside the piece that begins at `piece`; of those rows only that take
 * part. */
struct Part {
    int64_t piece, begin, end;
    int segment;
    const uint8_t *used;     /* of the row of element `begin` and those behind it; null: all take part */
    uint32_t width, skipped; /* of rows; elements of the first row that lie in front of `begin` */
    GPU_INLINE uint32_t row(int64_t at) const { return (skipped + (uint32_t)(at - begin)) / width; }
    /* Whether element `at`, which lies in the part, takes part. */
    GPU_INLINE bool takes(int64_t at) const { return !used || used[row(at)]; }
    /* Whether elements at .. at + W - 1 lie in the part, and all in one row if rows matter. */
    template <int W> GPU_INLINE bool whole(int64_t at) const {
        return at >= begin && at + W <= end && (W == 1 || !used || row(at) == row(at + W - 1));
    }
};

GPU_INLINE Part part_of_block(const SegmentList &list) {
    int low = 0, high = list.count - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (list.first_block[middle] <= (int)blockIdx.x)
            low = middle;
        else
            high = middle - 1;
    }
    int64_t begin = list.begin[low], end = list.end[low];
    int64_t piece = (begin / PIECE + ((int)blockIdx.x - list.first_block[low]) + (low ? 0 : list.skipped)) * PIECE;
    Part part = {piece, begin > piece ? begin : piece, end < piece + PIECE ? end : piece + PIECE, low, nullptr, 1, 0};
    if (list.used && low == list.masked) {
        part.used = list.used + (part.begin - begin) / list.width;
        part.width = (uint32_t)list.width;
        part.skipped = (uint32_t)((part.begin - begin) % list.width);
    }
    return part;
}

/* sums[block] = the sum of the squares of the block's part.
 *
 * A thread's 16 numbers are squared and added in float, their sum is added in double: that is wrong by a few roundings
 * of float only, and costs cards whose double arithmetic is slow one operation in sixteen. Where squares would overflow
 * or vanish, they are taken in double. Grid: about P / PIECE. Bytes: 4 a parameter. */
template <int W> __global__ void __launch_bounds__(BLOCK) squares(double *sums, const float *grads, SegmentList list) {
    SHARED(double, scratch, [32]);
    constexpr int PACKS = PIECE / BLOCK / W;
    Part part = part_of_block(list);
    Pack<float, W> g[PACKS];
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        int64_t at = part.piece + ((int64_t)p * BLOCK + threadIdx.x) * W;
        if (part.whole<W>(at)) {
            g[p] = part.takes(at) ? load_pack<W>(grads + at) : zeros<W>();
            continue;
        }
#pragma unroll
        for (int e = 0; e < W; e++)
            g[p][e] = at + e >= part.begin && at + e < part.end && part.takes(at + e) ? grads[at + e] : 0.0f;
    }
    float lanes[W], largest = 0;
#pragma unroll
    for (int e = 0; e < W; e++) lanes[e] = 0;
#pragma unroll
    for (int p = 0; p < PACKS; p++)
#pragma unroll
        for (int e = 0; e < W; e++) {
            lanes[e] += g[p][e] * g[p][e];
            largest = fmaxf(largest, fabsf(g[p][e]));
        }
#pragma unroll
    for (int e = 1; e < W; e++) lanes[0] += lanes[e];
    double sum = (double)lanes[0];
    if (largest > 1e18f || (largest > 0 && largest < 1e-15f)) {
        sum = 0;
#pragma unroll
        for (int p = 0; p < PACKS; p++)
#pragma unroll
            for (int e = 0; e < W; e++) sum += (double)g[p][e] * (double)g[p][e];
    }
    sum = block_sum_double(sum, scratch);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/* norm = sqrt(the sum of n sums) / the factor of loss_scale, which may be null. One block. Bytes: 8 n. */
__global__ void __launch_bounds__(1024)
    root_of_sum(float *norm, const double *sums, int64_t n, const float *loss_scale) {
    SHARED(double, scratch, [32]);
    double sum = 0;
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += sums[i];
    sum = block_sum_double(sum, scratch);
    if (threadIdx.x == 0) *norm = (float)(sqrt(sum) / (loss_scale ? (double)loss_scale[LOSS_SCALE_FACTOR] : 1.0));
}

/* The numbers of an update that are the same for all elements. */
struct Step {
    float clip, rate, root; /* of gradients; 1 / (1 - b1^t), which a segment multiplies by its lr; 1 / sqrt(1 - b2^t) */
    int32_t wanted;         /* whether there is an update */
};

/* One thread, in double, so that no other needs powers. */
__global__ void prepare_step(Step *step, const float *norm, const float *loss_scale, const uint32_t *number, AdamW o) {
    double length = (double)*norm + 1e-6, t = number ? (double)*number : (double)o.step, factor = 1;
    if (loss_scale) {
        t = (double)loss_scale[LOSS_SCALE_DONE] + 1;
        factor = (double)loss_scale[LOSS_SCALE_FACTOR];
    }
    double clip = o.clip > 0 && length > (double)o.clip ? (double)o.clip / length : 1.0;
    step->clip = (float)(clip / factor);
    step->rate = (float)(1 / (1 - pow((double)o.beta1, t)));
    step->root = (float)(1 / sqrt(1 - pow((double)o.beta2, t)));
    step->wanted = isfinite(*norm) ? 1 : 0;
}

struct Moments {
    float old1, new1, old2, new2, epsilon;
};

/* The weight decay of a segment: p *= keep, gradients += add p. */
struct Decay {
    float keep, add;
};

/* With g the clipped gradient, coupled plus wd p, and t the step:
 *   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
 *   p = p (1 - lr wd, coupled 1) - lr / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + eps),
 * lr of the segment, elements at .. at + W - 1. copy, in type T, may be null. */
template <int W, class T>
GPU_INLINE void update(float *params, T *copy, float *m, float *v, const float *grads, int64_t at, const Decay &decay,
                       const Step &step, const Moments &o) {
    Pack<float, W> p = load_pack<W>(params + at), mean = load_pack<W>(m + at), square = load_pack<W>(v + at);
    Pack<float, W> g = load_pack<W>(grads + at);
#pragma unroll
    for (int e = 0; e < W; e++) {
        float gradient = g[e] * step.clip + decay.add * p[e];
        mean[e] = o.old1 * mean[e] + o.new1 * gradient;
        square[e] = o.old2 * square[e] + o.new2 * gradient * gradient;
        p[e] = p[e] * decay.keep - step.rate * mean[e] / (sqrtf(square[e]) * step.root + o.epsilon);
    }
    store_pack(params + at, p);
    store_pack(m + at, mean);
    store_pack(v + at, square);
    if (copy) store_pack(copy + at, convert<T>(p));
}

/* Packs of four, of 16 bytes each; those that a segment's ends cut are updated one by one. Grid: about P / PIECE.
 * Bytes: 28 a parameter, 2 more with a copy. */
template <int W, class T>
__global__ void __launch_bounds__(BLOCK)
    adamw(float *params, T *copy, float *m, float *v, const float *grads, const Step *common, const float *rates,
          bool coupled, SegmentList list, Moments moments) {
    Step step = *common;
    if (!step.wanted) return;
    Part part = part_of_block(list);
    float wd = list.decay[part.segment], rate = list.rate[part.segment];
    if (rates) rate *= rates[list.group[part.segment]];
    Decay decay = coupled ? Decay{1, wd} : Decay{(float)(1 - (double)rate * (double)wd), 0};
    step.rate *= rate;
    for (int64_t at = part.piece + threadIdx.x * W; at < part.end; at += BLOCK * W) {
        if (part.whole<W>(at)) {
            if (part.takes(at)) update<W>(params, copy, m, v, grads, at, decay, step, moments);
            continue;
        }
        for (int64_t i = at; i < at + W; i++)
            if (i >= part.begin && i < part.end && part.takes(i))
                update<1>(params, copy, m, v, grads, i, decay, step, moments);
    }
}

/* One thread: see ops.h. */
__global__ void rescale(float *s, const float *norm, const float *stopped) {
    if (stopped && *stopped != 0) return;
    bool finite = isfinite(*norm);
    s[LOSS_SCALE_DONE] += finite ? 1.0f : 0.0f;
    s[LOSS_SCALE_SKIPPED] += finite ? 0.0f : 1.0f;
    s[LOSS_SCALE_GOOD] = finite ? s[LOSS_SCALE_GOOD] + 1 : 0.0f;
    if (!finite) s[LOSS_SCALE_FACTOR] *= 0.5f;
    if (s[LOSS_SCALE_GOOD] < 2000) return;
    s[LOSS_SCALE_FACTOR] *= 2;
    s[LOSS_SCALE_GOOD] = 0;
}

/* One warp: see norm_guard in ops.h. */
__global__ void guard(float *norm, float *stopped, const float *sums, int64_t n, bool overflow_is_fine) {
    bool bad = false;
    for (int64_t i = threadIdx.x; i < n; i += 32) bad = bad || !isfinite(sums[i]);
    bad = __any_sync(~0u, bad);
    if (threadIdx.x) return;
    if (stopped && (bad || !(isfinite(*norm) || overflow_is_fine))) *stopped = 1;
    if (bad || (stopped && *stopped != 0)) *norm = NAN;
}

/* to = from, or 0 if `from` is null, in the segments, unless norm, which may be null, is not finite. Grid: about P /
 * PIECE. Bytes: 8 an element, or 4. */
__global__ void __launch_bounds__(BLOCK) copy(float *to, const float *from, const float *norm, SegmentList list) {
    if (norm && !isfinite(*norm)) return;
    Part part = part_of_block(list);
    for (int64_t at = part.begin + threadIdx.x; at < part.end; at += BLOCK)
        if (part.takes(at)) to[at] = from ? from[at] : 0.0f;
}

} // namespace

void cuda_sum_squares(Device *device, Tensor out, Tensor grads, const Segment *segments, int n_segments, int64_t begin,
                      int64_t end) {
    const char *op = "sum_squares";
    with_width<4>(packs_fit(4, 0, grads.data), [&](auto width) {
        constexpr int W = decltype(width)::value;
        for_lists(op, segments, n_segments, begin, end, [&](const SegmentList &list, int64_t first) {
            cuda_check(gpu_launch(squares<W>, (unsigned)list.first_block[list.count], BLOCK, 0, cuda_stream(device),
                                  (double *)out.data + first, (const float *)grads.data, list),
                       op);
        });
    });
}

void cuda_finish_norm(Device *device, Tensor norm, Tensor squares, Tensor loss_scale) {
    cuda_check(gpu_launch(root_of_sum, 1, 1024, 0, cuda_stream(device), (float *)norm.data,
                          (const double *)squares.data, squares.dims[0] / NORM_FLOATS, (const float *)loss_scale.data),
               "finish_norm");
}

void cuda_adamw_update(Device *device, AdamWBuffers of, Tensor norm, Tensor loss_scale, const Segment *segments,
                       int n_segments, AdamW o) {
    const char *op = "adamw_update";
    Step *step = (Step *)cuda_scratch(device, sizeof *step);
    Moments moments = {o.beta1, (float)(1 - (double)o.beta1), o.beta2, (float)(1 - (double)o.beta2), o.epsilon};
    cuda_check(gpu_launch(prepare_step, 1, 1, 0, cuda_stream(device), step, (const float *)norm.data,
                          (const float *)loss_scale.data, of.step, o),
               op);
    bool fit = packs_fit(4, 0, of.params.data, of.copy.data, of.m.data, of.v.data, of.grads.data);
    with_type(tensor_given(of.copy) ? of.copy.dtype : DTYPE_F32, [&](auto zero) {
        using T = decltype(zero);
        with_width<4>(fit, [&](auto width) {
            constexpr int W = decltype(width)::value;
            for_lists(op, segments, n_segments, [&](const SegmentList &list, int64_t) {
                cuda_check(gpu_launch(adamw<W, T>, (unsigned)list.first_block[list.count], BLOCK, 0,
                                      cuda_stream(device), (float *)of.params.data, (T *)of.copy.data,
                                      (float *)of.m.data, (float *)of.v.data, (const float *)of.grads.data,
                                      (const Step *)step, (const float *)of.rates.data, o.coupled, list, moments),
                           op);
            });
        });
    });
}

void cuda_loss_scale_update(Device *device, Tensor loss_scale, Tensor norm, Tensor stopped) {
    cuda_check(gpu_launch(rescale, 1, 1, 0, cuda_stream(device), (float *)loss_scale.data, (const float *)norm.data,
                          (const float *)stopped.data),
               "loss_scale_update");
}

void cuda_norm_guard(Device *device, Tensor norm, Tensor stopped, Tensor sums, bool overflow_is_fine) {
    cuda_check(gpu_launch(guard, 1, 32, 0, cuda_stream(device), (float *)norm.data, (float *)stopped.data,
                          (const float *)sums.data, sums.dims[0], overflow_is_fine),
               "norm_guard");
}

void cuda_copy_segments(Device *device, Tensor to, Tensor from, Tensor norm, const Segment *segments, int n_segments) {
    const char *op = tensor_given(from) ? "copy_segments" : "clear_segments";
    for_lists(op, segments, n_segments, [&](const SegmentList &list, int64_t) {
        cuda_check(gpu_launch(copy, (unsigned)list.first_block[list.count], BLOCK, 0, cuda_stream(device),
                              (float *)to.data, (const float *)from.data, (const float *)norm.data, list),
                   op);
    });
}

void cuda_clear_segments(Device *device, Tensor x, const Segment *segments, int n_segments) {
    cuda_copy_segments(device, x, tensor_none(), tensor_none(), segments, n_segments);
}
