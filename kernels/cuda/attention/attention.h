/* Shared by the kernels of attention: the shape of a call, how a block finds its rows, dropout's numbers, and the
 * tiles of shared memory from which tensor cores are fed.
 *
 * Sequences are packed, so a block must find the sequence of its tile. For tiles of ROWS rows, sequence s gets the
 * slots from offsets[s] / ROWS + s on: at least one per tile, without a table. The number of slots, N / ROWS +
 * sequences, does not depend on the lengths, so a captured graph stays valid when the offsets change. Blocks of unused
 * slots end at once. */
#pragma once

#include <type_traits>

#include "kernels/cuda/check_index.h"
#include "kernels/cuda/cuda.h"

/* The arguments of a call that are not tensors. */
struct AttentionShape {
    const int *offsets; /* [count + 1], on the device */
    int longest;        /* rows of the longest sequence, as the host knows it */
    int count, n_tokens, n_heads, head_size;
    bool causal;
    float scale;
    uint32_t purpose, threshold; /* dropout drops numbers that draw less; 0: no dropout */
    const uint32_t *step;
    uint64_t seed;
    float keep; /* 1 / (1 - p) */

    __host__ __device__ int channels() const { return n_heads * head_size; }
    __host__ __device__ int64_t width() const { return 3 * channels(); }              /* of a row of qkv */
    __host__ __device__ int slots(int rows) const { return n_tokens / rows + count; } /* tiles of a head, at most */
};

static inline void check_head_size(int head_size) {
    if (head_size > 128) die("attention on the cuda device: heads of %d, at most 128 are implemented", head_size);
}

static inline AttentionShape attention_shape(Tensor qkv, Sequences sequences, Attention attention, Dropout drop) {
    AttentionShape a = {};
    a.offsets = (const int *)sequences.offsets.data;
    a.count = sequences.count;
    for (int s = 0; s < a.count; s++) {
        int length = sequences.host_offsets[s + 1] - sequences.host_offsets[s];
        if (length > a.longest) a.longest = length;
    }
    a.n_tokens = (int)qkv.dims[0];
    a.n_heads = attention.n_heads;
    a.head_size = (int)(qkv.dims[1] / 3 / attention.n_heads);
    a.causal = attention.causal;
    a.scale = attention.scale;
    a.purpose = drop.purpose;
    a.step = drop.step;
    a.seed = drop.seed;
    a.threshold = drop.p > 0 ? (uint32_t)ceil((double)drop.p * 0x1p32) : 0; /* p < 1, a float: fits */
    a.keep = 1.0f / (1.0f - drop.p);
    check_head_size(a.head_size);
    if (!(a.scale > 0)) die("attention on the cuda device: the scale is %g, expected more than 0", (double)a.scale);
    return a;
}

/* Tensor cores read rows in units of 16 bytes; Turing has none for bf16, and Volta lays out fragments otherwise. */
static inline bool attention_on_tensor_cores(const Device *device, DType type, const AttentionShape &a) {
    return type != DTYPE_F32 && a.head_size % 8 == 0 && cuda_state(device)->capability >= (type == DTYPE_F16 ? 75 : 80);
}

/* Must be the first statement of the kernels on tensor cores: leaves out their code for Volta, which takes many minutes
 * to compile and is never called. */
template <class T> GPU_INLINE void only_on_tensor_cores() {
    only_where_used<T>();
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 750
    __trap();
    __builtin_unreachable();
#endif
}

/* Calls f with head_size, rounded up to one that there are kernels for, as a constant. */
template <class Function> inline void with_head(int head_size, Function f) {
    if (head_size <= 16)
        f(std::integral_constant<int, 16>());
    else if (head_size <= 32)
        f(std::integral_constant<int, 32>());
    else if (head_size <= 64)
        f(std::integral_constant<int, 64>());
    else
        f(std::integral_constant<int, 128>());
}

template <class... P, class... A>
inline void attention_launch(const char *what, const Device *device, void (*kernel)(P...), int64_t blocks, int threads,
                             size_t bytes, A... arguments) {
    if (bytes > 48 * 1024)
        cuda_check(cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                   what);
    cuda_check(
        gpu_launch(kernel, dim3((unsigned)blocks), dim3((unsigned)threads), bytes, cuda_stream(device), arguments...),
        what);
}

/* ---- which rows ---- */

struct SequenceTile {
    int sequence, start, length; /* rows of the batch */
    int first;                   /* row of the sequence; past its end: there is no such tile */
};

/* Returns the lane of the n-th set bit of lanes, n from 0; -1 if fewer bits are set. */
GPU_INLINE int nth_lane(uint32_t lanes, int n) {
    int lane = threadIdx.x % 32;
    bool here = (lanes >> lane & 1) && __popc(lanes & ((1u << lane) - 1)) == n;
    return __ffs((int)__ballot_sync(0xFFFFFFFFu, here)) - 1;
}

/* Returns tile `slot` of up to 32 sequences, a lane each. Tiles are ordered by their distance from the beginning of
 * their sequence, farthest first: if causal, these cost most, and the tiles left at the end, when multiprocessors run
 * out of work, are small. */
template <int ROWS> GPU_INLINE SequenceTile farthest_tile(const AttentionShape &a, int slot) {
    int lane = threadIdx.x % 32, start = a.offsets[min(lane, a.count)],
        length = a.offsets[min(lane + 1, a.count)] - start;
    int tiles = (length + ROWS - 1) / ROWS, level = (int)warp_max((float)tiles);
    uint32_t reaching = 0;
    int here = 0;
    while (slot >= here && level > 0) {
        slot -= here;
        reaching = __ballot_sync(0xFFFFFFFFu, tiles >= level--);
        here = __popc(reaching);
    }
    if (slot >= here) return {0, 0, 0, 0};
    SequenceTile t;
    t.sequence = nth_lane(reaching, slot);
    t.start = __shfl_sync(0xFFFFFFFFu, start, t.sequence);
    t.length = __shfl_sync(0xFFFFFFFFu, length, t.sequence);
    t.first = level * ROWS;
    return t;
}

/* Returns tile `slot` of ROWS rows. With many sequences, the last tile of each comes first; the sequence is found by 32
 * lanes at once: two rounds of loads do for 1,024. */
template <int ROWS> GPU_INLINE SequenceTile find_tile(const AttentionShape &a, int slot) {
    if (a.count <= 32) return farthest_tile<ROWS>(a, slot);
    int low = 0, high = a.count, lane = threadIdx.x % 32;
    while (high - low > 1) {
        int stride = (high - low + 31) / 32, probe = low + lane * stride;
        bool before = probe < high && a.offsets[probe] / ROWS + probe <= slot;
        low += (__popc(__ballot_sync(0xFFFFFFFFu, before)) - 1) * stride;
        high = min(high, low + stride);
    }
    SequenceTile t;
    t.sequence = low;
    t.start = a.offsets[low];
    t.length = a.offsets[low + 1] - t.start;
    int index = slot - (t.start / ROWS + low), tiles = (t.length + ROWS - 1) / ROWS;
    t.first = index < tiles ? (tiles - 1 - index) * ROWS : t.length;
    return t;
}

/* Returns sequence `rank` by length, the longest first, of equal ones the first; of more than 32, in given order. */
GPU_INLINE int longest_sequence(const AttentionShape &a, int rank) {
    if (a.count > 32) return rank;
    int lane = threadIdx.x % 32, length = a.offsets[min(lane + 1, a.count)] - a.offsets[min(lane, a.count)], before = 0;
    for (int other = 0; other < a.count; other++) {
        int theirs = __shfl_sync(0xFFFFFFFFu, length, other);
        before += theirs > length || (theirs == length && other < lane);
    }
    return nth_lane(__ballot_sync(0xFFFFFFFFu, lane < a.count && before == rank), 0);
}

/* ---- terms ---- */

/* The tensors of AttentionTerms, NULL where not given: a parameter that the kernels of attention_forward lack. */
template <class T> struct KernelTerms {
    const T *distances;
    int left, right, width; /* width: rows of distances, 0 if there are none */
    const float *key_terms;
    const int *hidden;

    /* Returns the row of distances, for key - query = distance. */
    GPU_INLINE int row(int distance) const { return min(max(distance, -left), right) + left; }
};

/* Returns how many keys of its sequence a tile sees, from the first on, if it is not causal. */
GPU_INLINE int visible_keys(const SequenceTile &tile) { return tile.length; }
template <class T> GPU_INLINE int visible_keys(const SequenceTile &tile, const KernelTerms<T> &terms) {
    int hidden = terms.hidden ? terms.hidden[tile.sequence] : 0;
    check_index("attention_terms_forward: hidden", tile.sequence, hidden, INT32_MAX);
    return max(tile.length - hidden, 0);
}

/* ---- dropout ---- */

/* Returns dropout's mask: bit i is set if the probability of (head, row of the batch) and key + i is kept. key is a
 * multiple of 4, so that one call of the generator, four numbers, decides all of them. */
GPU_INLINE uint32_t keep_four(const AttentionShape &a, int head, int row, int key) {
    uint64_t at = ((uint64_t)head << DROPOUT_ROW_BITS | (uint64_t)row) << 18;
    Philox random = philox(a.seed, a.purpose, __ldg(a.step), at + (uint64_t)(key >> 2));
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) bits |= (uint32_t)(random.x[i] >= a.threshold) << i;
    return bits;
}

/* Zeroes the dropped numbers of 16 rows x KEYS. Lanes 2i and 2i + 1 hold four keys that follow each other, of two rows:
 * each draws the four numbers of one row, and they exchange the answers, a bit each. */
template <int KEYS>
GPU_INLINE void zero_dropped(float (&p)[KEYS / 8][4], const AttentionShape &a, int head, int row, int key) {
    int pair = threadIdx.x % 4, odd = pair % 2;
    uint32_t mine = 0;
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++) mine |= keep_four(a, head, row + 8 * odd, key + 8 * n + pair / 2 * 4) << 4 * n;
    uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, mine, 1);
    uint32_t upper = (odd ? other : mine) >> 2 * odd, lower = (odd ? mine : other) >> 2 * odd;
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (!((e < 2 ? upper : lower) >> (4 * n + e % 2) & 1)) p[n][e] = 0;
}

/* ---- tiles of 16-bit numbers in shared memory ----
 *
 * A row of COLUMNS numbers is pieces of 8, 16 bytes each. A matrix load reads one piece of each of 8 rows that follow
 * each other, and they must lie in different banks: the piece's number is xored with the row's (for rows of less than
 * 128 bytes: with the number of the 128 bytes that it shares).
 *
 * Fragments are 16x16 blocks of a tile; (row, column) is their corner, both multiples of 16. The matrix load takes its
 * four 8x8 matrices in the order of the pointers that lanes 0-7, 8-15, 16-23, 24-31 give:
 *
 *     lane_down:    0 2    (rows 0-7, 8-15 of the left half first): `a` of a product, stored row by row; and with the
 *                   1 3    transposed load `b` from a tile whose rows are the sum's index
 *     lane_across:  0 1    `b` from a tile whose columns are the sum's index, registers 0-1 for the upper 8 rows,
 *                   2 3    2-3 for the lower; and with the transposed load `a` from a tile whose rows are the sum's
 *                          index
 *
 * Columns are multiples of 16, two pieces, so moving to another one is again an xor: one instruction a load. */

template <int COLUMNS> GPU_INLINE int piece_at(int row, int piece) {
    constexpr int PIECES = COLUMNS / 8, SHARING = PIECES < 8 ? 8 / PIECES : 1, MASK = (PIECES < 8 ? PIECES : 8) - 1;
    return row * COLUMNS + (piece ^ (row / SHARING & MASK)) * 8;
}

template <int COLUMNS> GPU_INLINE int lane_down() {
    int lane = threadIdx.x % 32;
    return piece_at<COLUMNS>(lane % 16, lane / 16);
}

template <int COLUMNS> GPU_INLINE int lane_across() {
    int lane = threadIdx.x % 32;
    return piece_at<COLUMNS>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
}

template <int COLUMNS, class T>
GPU_INLINE void load_fragment(uint32_t (&f)[4], const T *tile, int lane, int row, int column) {
    load_matrix_x4(f, tile + row * COLUMNS + (lane ^ column));
}

template <int COLUMNS, class T>
GPU_INLINE void load_fragment_transposed(uint32_t (&f)[4], const T *tile, int lane, int row, int column) {
    load_matrix_x4_transposed(f, tile + row * COLUMNS + (lane ^ column));
}

/* Starts the copy of `rows` rows of a head into a tile of ROWS rows; the rest of the tile becomes zero. A thread copies
 * the same piece of rows STEP apart; if STEP is a multiple of 8, the xor is the same for all of them. */
template <int ROWS, int COLUMNS, int THREADS, class T>
GPU_INLINE void copy_tile(T *tile, const T *from, int stride, int rows, int head_size) {
    constexpr int PIECES = COLUMNS / 8, STEP = THREADS / PIECES;
    static_assert(ROWS % STEP == 0, "every thread copies as many pieces");
    const int first = threadIdx.x / PIECES, piece = threadIdx.x % PIECES;
    const T *p = from + (int64_t)first * stride + piece * 8;
    if (piece * 8 >= head_size) rows = 0;
#pragma unroll 4
    for (int row = 0; row < ROWS; row += STEP, p += (int64_t)STEP * stride) {
        bool inside = first + row < rows;
        T *to = STEP % 8 == 0 ? tile + piece_at<COLUMNS>(first, piece) + row * COLUMNS
                              : tile + piece_at<COLUMNS>(first + row, piece);
        copy_async_16(to, inside ? p : from, inside ? 16 : 0);
    }
}

/* Writes one warp's accumulators, ROWS x COLUMNS times `scale`, by way of `tile`, ROWS rows that are the warp's own, in
 * pieces of 16 bytes: the fragments' own are of 4. */
template <int ROWS, int COLUMNS, class T>
GPU_INLINE void store_rows(T *to, int stride, int rows, int head_size, T *tile,
                           const float (&x)[ROWS / 16][COLUMNS / 8][4], const float (&scale)[ROWS / 16][2]) {
    int lane = threadIdx.x % 32;
    __syncwarp();
#pragma unroll
    for (int m = 0; m < ROWS / 16; m++)
#pragma unroll
        for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                *reinterpret_cast<uint32_t *>(tile + piece_at<COLUMNS>(16 * m + 8 * half + lane / 4, n) +
                                              lane % 4 * 2) =
                    pack_pair<T>(x[m][n][2 * half] * scale[m][half], x[m][n][2 * half + 1] * scale[m][half]);
    __syncwarp();
#pragma unroll 4
    for (int i = lane; i < ROWS * COLUMNS / 8; i += 32) {
        int row = i / (COLUMNS / 8), piece = i % (COLUMNS / 8);
        if (row < rows && piece * 8 < head_size)
            store_vector(to + (int64_t)row * stride + piece * 8, load_vector(tile + piece_at<COLUMNS>(row, piece)));
    }
}
