/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a counter-based generator.
 *
 * Every random number of the project is a pure function of (seed, purpose, step, element): nothing is stored, nothing
 * depends on the order of evaluation, and the CPU and the GPU draw the same numbers. */
#pragma once

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define PHILOX_FUNCTION static __host__ __device__ inline
#else
#define PHILOX_FUNCTION static inline
#endif

/* The low byte of a purpose. The upper 24 bits distinguish the places that share a purpose (a dropout site, a
 * parameter). */
enum {
    PURPOSE_INIT = 1,
    PURPOSE_DROPOUT = 2,
    PURPOSE_SHUFFLE = 3,
    PURPOSE_KMEANS = 4,
    PURPOSE_PROJECTION = 5,
    PURPOSE_PAIRS = 6,
    PURPOSE_TEST = 7,
    PURPOSE_BOOTSTRAP = 8,
    PURPOSE_SYNTHETIC = 9,
    PURPOSE_MASK = 10,
    PURPOSE_PARTNER = 11,
    PURPOSE_AUGMENT = 12,
    PURPOSE_SAMPLER = 13,
    PURPOSE_SYNTHETIC_COUNTS = 14,
    PURPOSE_GENERATE = 15
};

typedef struct {
    uint32_t x[4];
} Philox;

/* Returns the upper half of a product. nvcc makes 64-bit multiplications of most products that C writes in 64 bits. */
PHILOX_FUNCTION uint32_t philox_high(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
    return __umulhi(a, b);
#else
    return (uint32_t)((uint64_t)a * b >> 32);
#endif
}

/* Returns the 128 random bits of block number `index`. The counter is (index, step, purpose), the key is the seed. */
PHILOX_FUNCTION Philox philox(uint64_t seed, uint32_t purpose, uint32_t step, uint64_t index) {
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = step, c3 = purpose;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint32_t high0 = philox_high(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        uint32_t high1 = philox_high(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    Philox out = {{c0, c1, c2, c3}};
    return out;
}

/* Returns the 32 bits of element number `element`: word element % 4 of block element / 4. */
PHILOX_FUNCTION uint32_t philox_bits(uint64_t seed, uint32_t purpose, uint32_t step, uint64_t element) {
    return philox(seed, purpose, step, element >> 2).x[element & 3];
}

/* Returns a uniform number in [0, 1) with 24 bits. */
PHILOX_FUNCTION float philox_uniform(uint64_t seed, uint32_t purpose, uint32_t step, uint64_t element) {
    return (float)(philox_bits(seed, purpose, step, element) >> 8) * 0x1p-24f;
}

/* Returns random number i below n, from the 64 bits of elements 2 i and 2 i + 1: of n numbers, none is more likely than
 * another by more than n / 2^64. */
PHILOX_FUNCTION int64_t philox_below(uint64_t seed, uint32_t purpose, uint32_t step, uint64_t i, int64_t n) {
    Philox r = philox(seed, purpose, step, i >> 1);
    int half = 2 * (int)(i & 1);
    return (int64_t)(((uint64_t)r.x[half] << 32 | r.x[half + 1]) % (uint64_t)n);
}

/* Shuffles n items by the Fisher-Yates algorithm. */
PHILOX_FUNCTION void philox_shuffle(uint64_t seed, uint32_t purpose, uint32_t step, int32_t *items, int64_t n) {
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = philox_below(seed, purpose, step, (uint64_t)i, i + 1);
        int32_t swap = items[i];
        items[i] = items[j];
        items[j] = swap;
    }
}

/* Returns a standard normal number by the Box-Muller transform: words 0 and 1 of block element / 2 for even elements,
 * words 2 and 3 for odd ones. */
PHILOX_FUNCTION float philox_normal(uint64_t seed, uint32_t purpose, uint32_t step, uint64_t element) {
    Philox r = philox(seed, purpose, step, element >> 1);
    int half = 2 * (int)(element & 1);
    double u = ((double)r.x[half] + 1.0) * 0x1p-32, v = (double)r.x[half + 1] * 0x1p-32;
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}
