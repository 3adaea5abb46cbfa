/* Functions that the compiler can make vectors of: no branches, no library calls, NaN goes in and comes out. */
#ifndef KERNELS_CPU_SIMD_H
#define KERNELS_CPU_SIMD_H

#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/philox.h"

enum { COLUMNS = 64 }; /* a thread's share of a row where sums run over rows: four cache lines */

/* a b + c, fused where the instruction set has it. */
static inline float multiply_add(float a, float b, float c) { return a * b + c; }

/* e^x: x = n ln 2 + r, |r| <= ln 2 / 2; a polynomial of degree 6 for e^r (relative error 1e-7), times 2^n put into the
 * exponent. 0 below -87, e^88 above 88. */
static inline float exp_approximate(float x) {
    float bounded = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    float shifted = bounded * 1.44269504f + 12582912.0f; /* 1.5 2^23: rounds to the nearest integer, in the low bits */
    float n = shifted - 12582912.0f;
    float r = multiply_add(n, -0.693145752f, bounded);
    r = multiply_add(n, -1.42860677e-6f, r);
    float p = 1.38888889e-3f;
    p = multiply_add(p, r, 8.33333333e-3f);
    p = multiply_add(p, r, 4.16666667e-2f);
    p = multiply_add(p, r, 1.66666667e-1f);
    p = multiply_add(p, r, 0.5f);
    p = multiply_add(p, r, 1.0f);
    p = multiply_add(p, r, 1.0f);
    union {
        float f;
        uint32_t u;
    } bits = {.f = shifted}, power;
    power.u = (bits.u + 127u) << 23;
    float result = p * power.f;
    return x < -87.0f ? 0.0f : result;
}

static inline float sigmoid_approximate(float x) { return 1.0f / (1.0f + exp_approximate(-x)); }

/* The normal distribution function, through erfc(z) = t exp(-z^2 + P(t)), t = 1 / (1 + z/2), whose relative error is
 * below 1.2e-7 for z >= 0 (Press et al., Numerical Recipes, section 6.2). */
static inline float normal_distribution(float x) {
    float z = fabsf(x) * 0.707106781f, t = 1.0f / (1.0f + 0.5f * z);
    float p = 0.17087277f;
    p = multiply_add(p, t, -0.82215223f);
    p = multiply_add(p, t, 1.48851587f);
    p = multiply_add(p, t, -1.13520398f);
    p = multiply_add(p, t, 0.27886807f);
    p = multiply_add(p, t, -0.18628806f);
    p = multiply_add(p, t, 0.09678418f);
    p = multiply_add(p, t, 0.37409196f);
    p = multiply_add(p, t, 1.00002368f);
    p = multiply_add(p, t, -1.26551223f);
    float half = 0.5f * t * exp_approximate(multiply_add(-z, z, p));
    return x >= 0 ? 1.0f - half : half + (x != x ? x : 0.0f);
}

/* Sixteen Philox blocks side by side: 64 words, the bits of elements 4 first .. 4 first + 63. */
enum { PHILOX_LANES = 16 };
static inline void philox_lanes(const Dropout *drop, uint64_t first, uint32_t bits[4 * PHILOX_LANES]) {
    uint32_t c[4][PHILOX_LANES];
    uint32_t k0 = (uint32_t)drop->seed, k1 = (uint32_t)(drop->seed >> 32);
    for (int i = 0; i < PHILOX_LANES; i++) {
        c[0][i] = (uint32_t)(first + (uint64_t)i);
        c[1][i] = (uint32_t)((first + (uint64_t)i) >> 32);
        c[2][i] = drop->step;
        c[3][i] = drop->purpose;
    }
    for (int round = 0; round < 10; round++) {
#pragma omp simd
        for (int i = 0; i < PHILOX_LANES; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c[0][i], p1 = (uint64_t)0xCD9E8D57u * c[2][i];
            c[0][i] = (uint32_t)(p1 >> 32) ^ c[1][i] ^ k0;
            c[2][i] = (uint32_t)(p0 >> 32) ^ c[3][i] ^ k1;
            c[1][i] = (uint32_t)p1;
            c[3][i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < PHILOX_LANES; i++)
        for (int j = 0; j < 4; j++) bits[4 * i + j] = c[j][i];
}

/* factors[i] = what dropout multiplies element first + i by: 0 or 1 / (1 - p), i < n. */
static void dropout_factors(const Dropout *drop, uint64_t first, int64_t n, float *factors) {
    uint32_t bits[4 * PHILOX_LANES];
    double limit = (double)drop->p * 4294967296.0;
    uint32_t threshold = limit >= 4294967295.0 ? 4294967295u : (uint32_t)ceil(limit);
    float keep = 1.0f / (1.0f - drop->p);
    uint64_t block = first / 4;
    int64_t done = -(int64_t)(first % 4); /* the first block may begin before the first element */
    for (; done < n; done += 4 * PHILOX_LANES, block += PHILOX_LANES) {
        philox_lanes(drop, block, bits);
        int64_t from = done < 0 ? -done : 0, to = n - done < 4 * PHILOX_LANES ? n - done : 4 * PHILOX_LANES;
        for (int64_t i = from; i < to; i++) factors[done + i] = bits[i] >= threshold ? keep : 0.0f;
    }
}

#endif
