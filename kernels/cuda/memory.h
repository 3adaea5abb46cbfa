/* Shared by the kernels that are limited by memory bandwidth: packs of numbers that a thread loads and stores at once,
 * dropout's factors for a pack, checks of indices, and sums over a block.
 *
 * A kernel is written once, for packs of W numbers. Packs of more than one need addresses that are multiples of their
 * size; where pointers or the length of rows do not allow them, the same kernel runs with W = 1. */
#pragma once

#include <initializer_list>
#include <stdio.h>
#include <type_traits>

#include "kernels/cuda/cuda.h"

/* W numbers of type T; up to 16 bytes are one access. store_pack is for global memory, put_pack for shared memory. */
template <class T, int W> struct alignas(W * sizeof(T) < 16 ? W * sizeof(T) : 16) Pack {
    T x[W];
    GPU_INLINE T &operator[](int i) { return x[i]; }
    GPU_INLINE const T &operator[](int i) const { return x[i]; }
};

#if defined __CUDACC__
template <int W, class T> GPU_INLINE Pack<T, W> load_pack(const T *from) {
    return *reinterpret_cast<const Pack<T, W> *>(from);
}
template <int W, class T> GPU_INLINE void put_pack(T *to, const Pack<T, W> &pack) {
    *reinterpret_cast<Pack<T, W> *>(to) = pack;
}
template <int W, class T> GPU_INLINE void store_pack(T *to, const Pack<T, W> &pack) {
    using Word = std::conditional_t<sizeof pack % 16 == 0, uint4, uint2>;
    if constexpr (sizeof pack % sizeof(Word) != 0) {
        put_pack(to, pack);
    } else {
#pragma unroll
        for (size_t i = 0; i < sizeof pack / sizeof(Word); i++)
            store_at_once(reinterpret_cast<Word *>(to) + i, reinterpret_cast<const Word *>(&pack)[i]);
    }
}
#else /* checks the address */
template <int W, class T> GPU_INLINE Pack<T, W> load_pack(const T *from, EMULATE_SITE) {
    return __ldca(reinterpret_cast<const Pack<T, W> *>(from), site);
}
template <int W, class T> GPU_INLINE void store_pack(T *to, const Pack<T, W> &pack, EMULATE_SITE) {
    __stwb(reinterpret_cast<Pack<T, W> *>(to), pack, site);
}
template <int W, class T> GPU_INLINE void put_pack(T *to, const Pack<T, W> &pack, EMULATE_SITE) {
    __stwb(reinterpret_cast<Pack<T, W> *>(to), pack, site);
}
#endif

/* Converts to another type, rounding to the nearest. */
template <class To, class From, int W> GPU_INLINE Pack<To, W> convert(const Pack<From, W> &from) {
    Pack<To, W> to;
    if constexpr (std::is_same_v<To, From>) {
        to = from;
    } else if constexpr (sizeof(To) == 2 && W % 2 == 0) { /* two at once, as the hardware does it */
        uint32_t *pairs = reinterpret_cast<uint32_t *>(&to);
#pragma unroll
        for (int i = 0; i < W / 2; i++) pairs[i] = pack_pair<To>(to_float(from[2 * i]), to_float(from[2 * i + 1]));
    } else {
#pragma unroll
        for (int i = 0; i < W; i++) to[i] = from_float<To>(to_float(from[i]));
    }
    return to;
}

template <int W> GPU_INLINE Pack<float, W> zeros() {
    Pack<float, W> pack;
#pragma unroll
    for (int i = 0; i < W; i++) pack[i] = 0.0f;
    return pack;
}

/* Returns whether rows of `length` numbers (length 0: any number of rows, as one run) can be accessed in packs of w:
 * every array begins at a multiple of 16 bytes and every row at a multiple of a pack. Absent arrays do not matter. */
inline bool packs_fit(int w, int64_t length, std::initializer_list<const void *> arrays) {
    uintptr_t addresses = 0;
    for (const void *array : arrays) addresses |= reinterpret_cast<uintptr_t>(array);
    return addresses % 16 == 0 && length % w == 0;
}
template <class... Arrays> inline bool packs_fit(int w, int64_t length, const Arrays *...arrays) {
    return packs_fit(w, length, {static_cast<const void *>(arrays)...});
}

/* Calls f with std::integral_constant<int, W> if packs fit, else with that of 1. */
template <int W, class Function> inline void with_width(bool fit, Function f) {
    if (fit)
        f(std::integral_constant<int, W>());
    else
        f(std::integral_constant<int, 1>());
}

/* Calls f(T(), width) for the type that dtype names, with packs of 16 bytes if they fit, else with single numbers. */
template <class Function>
inline void with_packs(DType dtype, int64_t length, std::initializer_list<const void *> arrays, Function f) {
    with_type(dtype, [&](auto zero) {
        constexpr int WIDTH = 16 / sizeof(zero);
        with_width<WIDTH>(packs_fit(WIDTH, length, arrays), [&](auto width) { f(zero, width); });
    });
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline unsigned grid_of(const char *op, int64_t blocks) {
    if (blocks > INT32_MAX) die("%s: too large, %lld blocks", op, (long long)blocks);
    return (unsigned)blocks;
}

/* Dropout in the form that kernels take. threshold 0: no dropout. */
struct DropoutNumbers {
    uint64_t seed;
    const uint32_t *step;
    uint32_t purpose, threshold;
    float keep;
};

inline DropoutNumbers dropout_numbers(Dropout drop) {
    return {drop.seed, drop.step, drop.purpose, (uint32_t)ceil((double)drop.p * 0x1p32), 1.0f / (1.0f - drop.p)};
}

/* 0 or 1 / (1 - p) for elements first .. first + W - 1; first must be a multiple of W, so that one block of random
 * numbers serves four elements. */
template <int W> GPU_INLINE Pack<float, W> dropout_factors(const DropoutNumbers &drop, uint64_t first) {
    Pack<float, W> factors;
    if constexpr (W % 4 == 0) {
#pragma unroll
        for (int i = 0; i < W; i += 4) {
            Philox random = philox(drop.seed, drop.purpose, __ldg(drop.step), (first + i) / 4);
#pragma unroll
            for (int j = 0; j < 4; j++) factors[i + j] = random.x[j] >= drop.threshold ? drop.keep : 0.0f;
        }
    } else {
#pragma unroll
        for (int i = 0; i < W; i++) {
            Philox random = philox(drop.seed, drop.purpose, __ldg(drop.step), (first + i) / 4);
            uint32_t bits = random.x[0]; /* not random.x[(first + i) % 4]: an index would put it into memory */
#pragma unroll
            for (int j = 1; j < 4; j++) bits = (first + i) % 4 == (uint64_t)j ? random.x[j] : bits;
            factors[i] = bits >= drop.threshold ? drop.keep : 0.0f;
        }
    }
    return factors;
}

/* x times those factors; x itself if there is no dropout. The product is rounded by itself, not part of a multiply-add:
 * so it is the same in all kernels. */
template <int W> GPU_INLINE Pack<float, W> dropped(const DropoutNumbers &drop, uint64_t first, Pack<float, W> x) {
    if (!drop.threshold) return x;
    Pack<float, W> factors = dropout_factors<W>(drop, first);
#pragma unroll
    for (int i = 0; i < W; i++) x[i] = __fmul_rn(x[i], factors[i]);
    return x;
}

/* Returns whether a pool of two takes the second: not if they are equal, and if it alone is NaN. */
GPU_INLINE bool second_wins(float a, float b) { return !(b <= a) && a == a; }

/* Rows so short that a warp has several: `lanes` neighbouring lanes a row, a power of two, no more than it has packs.
 */
inline int lanes_of_row(int64_t packs) {
    int lanes = 1;
    while (lanes < 32 && lanes < packs) lanes *= 2;
    return lanes;
}

/* Returns the sum over the lanes of a row; all lanes of the warp must take part. */
GPU_INLINE float row_sum(float x, int lanes) {
    for (int distance = lanes / 2; distance; distance /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, distance);
    return x;
}

/* Returns the largest of the lanes of a row, in the same way. */
GPU_INLINE float row_max(float x, int lanes) {
    for (int other = lanes / 2; other; other /= 2) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, other));
    return x;
}

/* Sums over a block of whole warps, in a fixed order, of K numbers at once; every thread gets the sums. Has one
 * barrier, after writing scratch: whoever calls it twice in a row needs two scratches. */
template <int K> GPU_INLINE void block_sums(float (&sums)[K], float (*scratch)[K]) {
    int warp = threadIdx.x / 32, warps = blockDim.x / 32;
#pragma unroll
    for (int k = 0; k < K; k++) sums[k] = warp_sum(sums[k]);
    if (warps == 1) return;
    if (threadIdx.x % 32 == 0)
#pragma unroll
        for (int k = 0; k < K; k++) scratch[warp][k] = sums[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < K; k++) sums[k] = scratch[0][k];
    for (int w = 1; w < warps; w++)
#pragma unroll
        for (int k = 0; k < K; k++) sums[k] += scratch[w][k];
}

/* Returns the sum of one number over a block in double, in thread 0 only. scratch: 32 doubles. */
GPU_INLINE double block_sum_double(double sum, double *scratch) {
#pragma unroll
    for (int lanes = 16; lanes; lanes /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, lanes);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = sum;
    __syncthreads();
    for (unsigned w = 1; w < blockDim.x / 32 && threadIdx.x == 0; w++) sum += scratch[w];
    return sum;
}
