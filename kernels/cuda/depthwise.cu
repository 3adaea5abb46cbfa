/* Depthwise convolutions in time inside sequences.
 *
 * A block has ROWS rows of one sequence and as many channels as are 128 bytes of a row. It copies those rows and the
 * ones around them that their taps see into shared memory, with zeros beyond the ends of the sequence. Then a warp has
 * EACH rows and a lane W channels of them; it adds up the taps in their order, TOGETHER at a time: so each number that
 * it reads from shared memory is used for several rows, EACH TOGETHER multiply-adds for EACH + 2 TOGETHER - 1 reads.
 *
 * Floors, n rows of c channels: 2 n c times the size of T, and 2 n c taps FLOPs. With 31 taps a block reads 158 rows
 * for 128, whose ends its neighbours read at the same time and find in the L2 cache. 31 taps are 62 FLOPs for the 4
 * bytes that a 16-bit number takes: a card of more than 15 FLOPs in f32 per byte is limited by its memory. */
#include "kernels/cuda/memory.h"

namespace {

enum { WARPS = 8, BLOCK = 32 * WARPS, EACH = 16, ROWS = WARPS * EACH };

struct Depthwise {
    const int32_t *offsets;
    int count, taps, before, dilation;
    int64_t channels, across; /* across: blocks side by side */
};

struct SequenceRows {
    int64_t start;     /* of the sequence, in the batch */
    int length, first; /* of the block, in the sequence; not less than length: there are none */
};

/* Returns the rows of block `slot`. Sequence s has the blocks from offsets[s] / ROWS + s on: as many as it needs, or
 * one or two more, which have no rows. So their number depends on the number of rows and sequences alone. */
GPU_INLINE SequenceRows find_rows(const Depthwise &a, int slot) {
    int low = 0, high = a.count;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (a.offsets[middle] / ROWS + middle <= slot)
            low = middle;
        else
            high = middle;
    }
    int start = a.offsets[low];
    return {start, a.offsets[low + 1] - start, (slot - start / ROWS - low) * ROWS};
}

/* Floats from the weights of a tap to those of the next: stores of neighbouring taps meet different banks. */
template <int W> constexpr int PITCH = 33 * W;

/* Copies rows first - before, ... of a sequence into tile [rows][32 W], and the weights into weights [taps][PITCH]. */
template <class T, int W>
GPU_INLINE void load_tile(T *tile, float *weights, const T *x, const float *w, const Depthwise &a, SequenceRows s,
                          int64_t channel, int rows) {
    constexpr int WIDTH = 32 * W;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = threadIdx.x; i < WIDTH * a.taps; i += BLOCK) {
        int own = i / a.taps, tap = i - own * a.taps;
        weights[tap * PITCH<W> + own] = channel + own < a.channels ? w[channel * a.taps + i] : 0.0f;
    }
    channel += lane * W;
#pragma unroll 4
    for (int row = warp; row < rows; row += WARPS) {
        int at = s.first - a.before + row;
        Pack<T, W> numbers = {};
        if (at >= 0 && at < s.length && channel < a.channels)
            numbers = load_pack<W>(x + (s.start + at) * a.channels + channel);
        put_pack(tile + row * WIDTH + lane * W, numbers);
    }
}

/* TOGETHER is 1 unless the dilation is: then the taps see rows that lie side by side.
 *
 * Grid: (n / ROWS + sequences) times c / (32 W). Dynamic shared memory: the weights, the tile. */
template <class T, int W, int TOGETHER>
__global__ void __launch_bounds__(BLOCK) depthwise(T *y, const T *x, const float *w, const float *bias, Depthwise a) {
    constexpr int WIDTH = 32 * W;
    DYNAMIC_SHARED(float, weights);
    T *tile = reinterpret_cast<T *>(weights + a.taps * PITCH<W>);
    int slot = (int)(blockIdx.x / a.across), lane = threadIdx.x % 32, own = threadIdx.x / 32 * EACH;
    int64_t channel = (blockIdx.x - slot * a.across) * WIDTH;
    SequenceRows s = find_rows(a, slot);
    if (s.first >= s.length) return;
    load_tile<T, W>(tile, weights, x, w, a, s, channel, ROWS + (a.taps - 1) * a.dilation);
    __syncthreads();
    channel += lane * W;
    if (s.first + own >= s.length || channel >= a.channels) return;
    Pack<float, W> sums[EACH];
#pragma unroll
    for (int r = 0; r < EACH; r++) sums[r] = bias ? load_pack<W>(bias + channel) : zeros<W>();
    for (int tap = 0; tap < a.taps; tap += TOGETHER) {
        Pack<float, W> in[EACH + TOGETHER - 1];
#pragma unroll
        for (int i = 0; i < EACH + TOGETHER - 1; i++)
            if (i < EACH + a.taps - 1 - tap)
                in[i] = convert<float>(load_pack<W>(tile + (own + i + tap * a.dilation) * WIDTH + lane * W));
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            if (tap + k >= a.taps) break;
            Pack<float, W> weight = load_pack<W>(weights + (tap + k) * PITCH<W> + lane * W);
#pragma unroll
            for (int r = 0; r < EACH; r++)
#pragma unroll
                for (int e = 0; e < W; e++) sums[r][e] = fmaf(weight[e], in[r + k][e], sums[r][e]);
        }
    }
#pragma unroll
    for (int r = 0; r < EACH; r++)
        if (s.first + own + r < s.length)
            store_pack(y + (s.start + s.first + own + r) * a.channels + channel, convert<T>(sums[r]));
}

template <class T, int W, int TOGETHER>
void launch(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, Depthwise a) {
    const char *op = "depthwise_forward";
    int64_t rows = ROWS + (a.taps - (int64_t)1) * a.dilation;
    size_t bytes = PITCH<W> * sizeof(float) * (size_t)a.taps + 32 * W * sizeof(T) * (size_t)rows;
    if (bytes > cuda_state(device)->shared_limit)
        die("%s: %d taps of dilation %d need %zu bytes of shared memory, this card has %zu: use fewer taps or a "
            "smaller "
            "dilation, or --device cpu",
            op, a.taps, a.dilation, bytes, cuda_state(device)->shared_limit);
    if (bytes > 48 * 1024)
        cuda_check(cudaFuncSetAttribute(reinterpret_cast<const void *>(depthwise<T, W, TOGETHER>),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                   op);
    a.across = ceil_div(a.channels, 32 * W);
    cuda_check(gpu_launch(depthwise<T, W, TOGETHER>, grid_of(op, (x.dims[0] / ROWS + a.count) * a.across), BLOCK, bytes,
                          cuda_stream(device), (T *)y.data, (const T *)x.data, (const float *)w.data,
                          (const float *)bias.data, a),
               op);
}

} // namespace

void cuda_depthwise_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, Sequences sequences,
                            DepthwiseWindow window) {
    if (tensor_numel(x) == 0) return;
    Depthwise a = {(const int32_t *)sequences.offsets.data,
                   sequences.count,
                   window.taps,
                   window.before,
                   window.dilation,
                   x.dims[1],
                   0};
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr int WIDTH = 4 / sizeof(T);
        with_width<WIDTH>(packs_fit(WIDTH, a.channels, y.data, x.data, bias.data), [&](auto width) {
            constexpr int W = decltype(width)::value;
            if (window.dilation == 1)
                launch<T, W, 8>(device, y, x, w, bias, a);
            else
                launch<T, W, 1>(device, y, x, w, bias, a);
        });
    });
}
