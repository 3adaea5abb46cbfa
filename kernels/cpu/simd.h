/* Functions that the compiler can vectorise: no branches and no library calls. NaN gives NaN. */
#pragma once

#if defined __AVX512F__
#include <immintrin.h>
#endif
#include <math.h>
#include <omp.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/philox.h"

#if defined __clang__ /* under its sanitizers clang does not vectorise, which is no error */
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

enum { COLUMNS = 64 }; /* a thread's share of a row in sums over rows: four cache lines */

/* Returns a b + c, fused if the instruction set has fused multiply-adds. */
static inline float multiply_add(float a, float b, float c) { return a * b + c; }

/* Returns e^x: x = n ln 2 + r, |r| <= ln 2 / 2; e^r = 1 + r + r^2 q(r) with the minimax q of degree 4 (relative error
 * 3e-9, so only rounding is left: about 1 ulp), and 2^n is put into the exponent. 0 below -87, e^88 above 88. */
static inline float exp_approximate(float x) {
    float bounded = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    float shifted = bounded * 1.44269504f + 12582912.0f; /* 1.5 2^23: rounds to the nearest integer, in the low bits */
    float n = shifted - 12582912.0f;
    float r = multiply_add(n, -0.693145752f, bounded); /* ln 2 in two parts, the first with few bits */
    r = multiply_add(n, -1.42860677e-6f, r);
    float q = 1.38145988e-3f;
    q = multiply_add(q, r, 8.36871658e-3f);
    q = multiply_add(q, r, 4.16683890e-2f);
    q = multiply_add(q, r, 1.66665211e-1f);
    q = multiply_add(q, r, 4.99999940e-1f);
    float power_of_r = multiply_add(r * r, q, r) + 1.0f;
    union {
        float f;
        uint32_t u;
    } bits = {.f = shifted}, power;
    power.u = (bits.u + 127u) << 23;
    float result = power_of_r * power.f;
    return x < -87.0f ? 0.0f : result;
}

/* Returns the normal distribution function, by erfc(z) = t exp(P(t) - z^2), t = 1 / (1 + z/2), z = |x| / sqrt(2): P is
 * the minimax polynomial of degree 9 for z <= 12 (relative error 6e-8 before rounding). Below 0 the error is relative;
 * above 0 the error of the complement is. */
static inline float normal_distribution(float x) {
    float z = fabsf(x) * 0.707106781f, t = 1.0f / (1.0f + 0.5f * z);
    float p = 0.155181989f;
    p = multiply_add(p, t, -0.736792564f);
    p = multiply_add(p, t, 1.28875220f);
    p = multiply_add(p, t, -0.872365415f);
    p = multiply_add(p, t, 0.0656656548f);
    p = multiply_add(p, t, -0.0763712227f);
    p = multiply_add(p, t, 0.0610127635f);
    p = multiply_add(p, t, 0.381123573f);
    p = multiply_add(p, t, 0.999272346f);
    p = multiply_add(p, t, -1.26547921f);
    float half = 0.5f * t * exp_approximate(multiply_add(-z, z, p));
    return x < 0 ? half : 1.0f - half;
}

/* Returns tanh x: near 0 by x + x^3 P(x^2), P the minimax polynomial of degree 4 (relative error 4e-9), elsewhere by 1
 * - 2 / (exp(2|x|) + 1) with the sign of x. */
static inline float tanh_approximate(float x) {
    float z = x * x, p = -5.70498686e-3f, far = 1.0f - 2.0f / (exp_approximate(2 * fabsf(x)) + 1.0f);
    p = multiply_add(p, z, 2.06390880e-2f);
    p = multiply_add(p, z, -5.37397154e-2f);
    p = multiply_add(p, z, 1.33314416e-1f);
    p = multiply_add(p, z, -3.33332807e-1f);
    return fabsf(x) < 0.625f ? multiply_add(x * z, p, x) : copysignf(far, x);
}

/* Computes sixteen Philox blocks side by side, in four groups of four. The 64 words are the bits of elements 4 first ..
 * 4 first + 15, of the 16 elements from 4 (first + stride) on, and so on. With a stride of 4 the 64 elements are
 * consecutive. */
enum { PHILOX_LANES = 16 };
#if defined __AVX512F__
/* Written with intrinsics, because the compiler uses 64-bit multiplications for the 32-bit products, which take three
 * times as long. Position 4 k + m holds block 4 m + k, so that interleaving the four words puts the blocks in order. */
static inline __m512i philox_products(__m512i c, __m512i factor, __m512i *low) {
    __m512i even = _mm512_mul_epu32(c, factor), odd = _mm512_mul_epu32(_mm512_srli_epi64(c, 32), factor);
    *low = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
    return _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
}

static inline void philox_lanes(const Dropout *drop, uint64_t first, uint32_t stride, uint32_t bits[4 * PHILOX_LANES]) {
    const __m512i inside = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m512i groups = _mm512_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
    const __m512i factor0 = _mm512_set1_epi64(0xD2511F53u), factor2 = _mm512_set1_epi64(0xCD9E8D57u);
    __m512i start = _mm512_set1_epi32((int)(uint32_t)first), high = _mm512_set1_epi32((int)(uint32_t)(first >> 32));
    __m512i c0 = _mm512_add_epi32(start,
                                  _mm512_add_epi32(inside, _mm512_mullo_epi32(groups, _mm512_set1_epi32((int)stride)))),
            c2 = _mm512_set1_epi32((int)*drop->step);
    __m512i c1 = _mm512_mask_add_epi32(high, _mm512_cmplt_epu32_mask(c0, start), high, _mm512_set1_epi32(1));
    __m512i c3 = _mm512_set1_epi32((int)drop->purpose), low0, low2;
    uint32_t k0 = (uint32_t)drop->seed, k1 = (uint32_t)(drop->seed >> 32);
    for (int round = 0; round < 10; round++) {
        __m512i high0 = philox_products(c0, factor0, &low0), high2 = philox_products(c2, factor2, &low2);
        c0 = _mm512_xor_si512(_mm512_xor_si512(high2, c1), _mm512_set1_epi32((int)k0));
        c2 = _mm512_xor_si512(_mm512_xor_si512(high0, c3), _mm512_set1_epi32((int)k1));
        c1 = low2;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    __m512i a = _mm512_unpacklo_epi32(c0, c1), b = _mm512_unpackhi_epi32(c0, c1);
    __m512i d = _mm512_unpacklo_epi32(c2, c3), e = _mm512_unpackhi_epi32(c2, c3);
    _mm512_storeu_si512(bits, _mm512_unpacklo_epi64(a, d));
    _mm512_storeu_si512(bits + 16, _mm512_unpackhi_epi64(a, d));
    _mm512_storeu_si512(bits + 32, _mm512_unpacklo_epi64(b, e));
    _mm512_storeu_si512(bits + 48, _mm512_unpackhi_epi64(b, e));
}
#else
static inline void philox_lanes(const Dropout *drop, uint64_t first, uint32_t stride, uint32_t bits[4 * PHILOX_LANES]) {
    uint32_t c[4][PHILOX_LANES];
    uint32_t k0 = (uint32_t)drop->seed, k1 = (uint32_t)(drop->seed >> 32);
    for (int i = 0; i < PHILOX_LANES; i++) {
        uint64_t block = first + (uint64_t)(i / 4) * stride + (uint64_t)(i % 4);
        c[0][i] = (uint32_t)block;
        c[1][i] = (uint32_t)(block >> 32);
        c[2][i] = *drop->step;
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
#endif

/* Returns the threshold below which an element's bits drop it. */
static inline uint32_t dropout_threshold(const Dropout *drop) {
    return (uint32_t)ceil((double)drop->p * 0x1p32); /* p < 1, a float: fits */
}

/* Sets factors[i] to the dropout factor of element first + i, 0 or 1 / (1 - p), for i < n. */
static void dropout_factors(const Dropout *drop, uint64_t first, int64_t n, float *factors) {
    uint32_t bits[4 * PHILOX_LANES];
    uint32_t threshold = dropout_threshold(drop);
    float keep = 1.0f / (1.0f - drop->p);
    uint64_t block = first / 4;
    int64_t done = -(int64_t)(first % 4); /* the first block may begin before the first element */
    for (; done < n; done += 4 * PHILOX_LANES, block += PHILOX_LANES) {
        philox_lanes(drop, block, 4, bits);
        int64_t from = done < 0 ? -done : 0, to = n - done < 4 * PHILOX_LANES ? n - done : 4 * PHILOX_LANES;
        for (int64_t i = from; i < to; i++) factors[done + i] = bits[i] >= threshold ? keep : 0.0f;
    }
}
