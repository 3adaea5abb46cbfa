/* Softmax cross-entropy, a block a row: loss = log(sum exp(z - max)) + max - z[target]. The first pass keeps a running
 * maximum and the sum of exponentials below it; the second, of the backward, replaces the logits, which are still in
 * cache, by scale (softmax(z) - one at the target). Nothing else is written: f32 logits never exist. */
#include <float.h>

#include "kernels/cuda/check_index.h"
#include "kernels/cuda/memory.h"

namespace {

enum { MAX_THREADS = 512 };

/* f(std::integral_constant<int, W>(), j) for all packs j .. j + W - 1 of a row, shared out to the threads of the block:
 * rows of odd lengths begin anywhere, so what lies before the first address that is a multiple of 16, and behind the
 * last whole pack, is visited one by one. BACKWARDS takes the packs from the last to the first. */
template <bool BACKWARDS, class T, class F> GPU_INLINE void visit_row(const T *row, int64_t length, F f) {
    constexpr int WIDTH = 16 / sizeof(T);
    int64_t lead = (16 - (int64_t)(reinterpret_cast<uintptr_t>(row) % 16)) % 16 / (int64_t)sizeof(T);
    if (lead > length) lead = length;
    int64_t packs = (length - lead) / WIDTH, edge = threadIdx.x;
    if (edge >= lead) edge += packs * WIDTH; /* fewer than 2 WIDTH <= 32 in all: at most one a thread */
    if (edge < length) f(std::integral_constant<int, 1>(), edge);
#pragma unroll 4
    for (int64_t p = threadIdx.x; p < packs; p += blockDim.x)
        f(std::integral_constant<int, WIDTH>(), lead + (BACKWARDS ? packs - 1 - p : p) * WIDTH);
}

/* loss, correct, and with GRADIENT the logits' gradient in place. weights and loss_scale may be null.
 *
 * The target is the first largest logit iff no logit before it is as large and none after it is larger. The running
 * maximum begins at -FLT_MAX, not at -infinity: a thread that sees only -infinity must add 0, not NaN. A NaN does not
 * show in a maximum but does in the sum, and so in the loss. The second pass begins with what the first saw last, which
 * is most likely to be in cache.
 *
 * Grid: n. Bytes: n classes times the size of T, with GRADIENT also n pitch times (the second reading is from cache);
 * 12 n, 16 n with weights. */
template <bool GRADIENT, class T>
__global__ void __launch_bounds__(MAX_THREADS)
    cross_entropy(float *loss, float *correct, T *logits, const int32_t *targets, int64_t classes, int64_t pitch,
                  const float *weights, const float *scale_of, const float *loss_scale) {
    SHARED(float, scratch, [32]);
    T *row = logits + (int64_t)blockIdx.x * pitch;
    int64_t target = targets[blockIdx.x];
    if (target < 0) { /* for all threads alike: no barrier is left out by some */
        if (threadIdx.x == 0) loss[blockIdx.x] = correct[blockIdx.x] = 0;
        if (GRADIENT)
            visit_row<false>(row, pitch, [&](auto width, int64_t j) {
                constexpr int W = decltype(width)::value;
                store_pack(row + j, convert<T>(zeros<W>()));
            });
        return;
    }
    check_index("cross_entropy: targets", blockIdx.x, target, classes);
    float wanted = to_float(row[target]), largest = -FLT_MAX, sum = 0;
    bool surpassed = false;
    visit_row<false>(row, classes, [&](auto width, int64_t j) {
        constexpr int W = decltype(width)::value;
        Pack<float, W> z = convert<float>(load_pack<W>(row + j));
        float top = z[0];
#pragma unroll
        for (int e = 1; e < W; e++) top = fmaxf(top, z[e]);
        if (top >= wanted)
#pragma unroll
            for (int e = 0; e < W; e++) surpassed |= z[e] > wanted || (z[e] == wanted && j + e < target);
        top = fmaxf(top, largest);
        sum *= __expf(largest - top);
        largest = top;
#pragma unroll
        for (int e = 0; e < W; e++) sum += __expf(z[e] - largest);
    });
    float top = block_max(largest, scratch);
    sum = block_sum(sum * __expf(largest - top), scratch);
    float weight = weights ? weights[blockIdx.x] : 1.0f;
    surpassed = __syncthreads_or(surpassed);
    if (threadIdx.x == 0) {
        float value = logf(sum) + top - wanted;
        loss[blockIdx.x] = value * weight;
        correct[blockIdx.x] = !surpassed && value == value ? 1.0f : 0.0f;
    }
    if (!GRADIENT) return;
    float scale = loss_scale ? *scale_of * loss_scale[LOSS_SCALE_FACTOR] : *scale_of;
    scale *= weight;
    float factor = scale / sum;
    visit_row<true>(row, classes, [&](auto width, int64_t j) {
        constexpr int W = decltype(width)::value;
        Pack<float, W> z = convert<float>(load_pack<W>(row + j));
#pragma unroll
        for (int e = 0; e < W; e++) {
            z[e] = __expf(z[e] - top) * factor;
            if (j + e == target) z[e] -= scale;
        }
        store_pack(row + j, convert<T>(z));
    });
    for (int64_t j = classes + threadIdx.x; j < pitch; j += blockDim.x) row[j] = from_float<T>(0.0f);
}

template <bool GRADIENT>
void launch(Device *device, const char *op, Tensor loss, Tensor correct, Tensor logits, int64_t classes, Tensor targets,
            Tensor weights, Tensor scale, Tensor loss_scale) {
    int64_t n = logits.dims[0], pitch = logits.dims[1];
    if (n == 0) return;
    with_type(logits.dtype, [&](auto zero) {
        using T = decltype(zero);
        int64_t warps = ceil_div(classes * (int64_t)sizeof(T), 32 * 16), most = MAX_THREADS / 32;
        cuda_check(gpu_launch(cross_entropy<GRADIENT, T>, grid_of(op, n),
                              (unsigned)(32 * (warps < most ? warps : most)), 0, cuda_stream(device),
                              (float *)loss.data, (float *)correct.data, (T *)logits.data,
                              (const int32_t *)targets.data, classes, pitch, (const float *)weights.data,
                              (const float *)scale.data, (const float *)loss_scale.data),
                   op);
    });
}

} // namespace

void cuda_cross_entropy_forward(Device *device, Tensor loss, Tensor correct, Tensor logits, int64_t classes,
                                Tensor targets, Tensor weights) {
    launch<false>(device, "cross_entropy_forward", loss, correct, logits, classes, targets, weights, tensor_none(),
                  tensor_none());
}

void cuda_cross_entropy_forward_backward(Device *device, Tensor loss, Tensor correct, Tensor logits, int64_t classes,
                                         Tensor targets, Tensor weights, Tensor scale, Tensor loss_scale) {
    launch<true>(device, "cross_entropy_forward_backward", loss, correct, logits, classes, targets, weights, scale,
                 loss_scale);
}
