#include "kernels/reduce.h"

#include <string.h>

enum { BLOCK = 1024 }; /* elements whose sums stay in the first cache */

static float float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float read_bf16(uint16_t x) { return float_of_bits((uint32_t)x << 16); }

/* Rounds to the nearest, ties to even. A NaN stays one. */
static uint16_t write_bf16(float x) {
    uint32_t bits = bits_of_float(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float read_f16(uint16_t x) {
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, exponent = x >> 10 & 31, fraction = x & 0x3ff;
    if (exponent == 31) return float_of_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent) return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    return float_of_bits(sign | bits_of_float((float)fraction * 0x1p-24f));
}

/* Rounds to the nearest, ties to even: to infinity from 65520 on, and below 2^-14 to multiples of 2^-24, which is the
 * last bit of a float of at least 0.5. */
static uint16_t write_f16(float x) {
    uint32_t bits = bits_of_float(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x3ff));
    if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (size < 0x38800000) return (uint16_t)(sign | (bits_of_float(float_of_bits(size) + 0.5f) - 0x3f000000));
    size -= 112u << 23;
    return (uint16_t)(sign | (size + 0xfff + (size >> 13 & 1)) >> 13);
}

static void read_block(float *to, const uint16_t *from, DType dtype, int64_t n) {
    if (dtype == DTYPE_BF16)
        for (int64_t i = 0; i < n; i++) to[i] = read_bf16(from[i]);
    else
        for (int64_t i = 0; i < n; i++) to[i] = read_f16(from[i]);
}

static void write_block(uint16_t *to, const float *from, DType dtype, int64_t n) {
    if (dtype == DTYPE_BF16)
        for (int64_t i = 0; i < n; i++) to[i] = write_bf16(from[i]);
    else
        for (int64_t i = 0; i < n; i++) to[i] = write_f16(from[i]);
}

static void join_block(float *restrict sum, const float *restrict x, Reduction reduction, int64_t n) {
    if (reduction == REDUCE_SUM)
        for (int64_t i = 0; i < n; i++) sum[i] += x[i];
    else
        for (int64_t i = 0; i < n; i++) sum[i] = x[i] > sum[i] || x[i] != x[i] ? x[i] : sum[i];
}

static void reduce_f32(float *to, const float *parts, int n_parts, int64_t stride, int64_t n, Reduction reduction) {
    memcpy(to, parts, (size_t)n * sizeof *to);
    for (int part = 1; part < n_parts; part++) join_block(to, parts + part * stride, reduction, n);
}

static void reduce_i32(uint32_t *to, const uint32_t *parts, int n_parts, int64_t stride, int64_t n,
                       Reduction reduction) {
    memcpy(to, parts, (size_t)n * sizeof *to);
    for (int part = 1; part < n_parts; part++)
        for (int64_t i = 0; i < n; i++) {
            uint32_t x = parts[part * stride + i];
            to[i] = reduction == REDUCE_SUM ? to[i] + x : (int32_t)x > (int32_t)to[i] ? x : to[i];
        }
}

static void reduce_16_bits(uint16_t *to, const uint16_t *parts, DType dtype, int n_parts, int64_t stride, int64_t n,
                           Reduction reduction) {
    float sum[BLOCK], x[BLOCK];
    read_block(sum, parts, dtype, n);
    for (int part = 1; part < n_parts; part++) {
        read_block(x, parts + part * stride, dtype, n);
        join_block(sum, x, reduction, n);
    }
    write_block(to, sum, dtype, n);
}

void reduce_parts(void *to, const void *parts, DType dtype, int n_parts, int64_t n, Reduction reduction,
                  int n_threads) {
#pragma omp parallel for num_threads(n_threads) if (n > 16 * BLOCK)
    for (int64_t begin = 0; begin < n; begin += BLOCK) {
        int64_t count = n - begin < BLOCK ? n - begin : BLOCK;
        if (dtype == DTYPE_F32)
            reduce_f32((float *)to + begin, (const float *)parts + begin, n_parts, n, count, reduction);
        else if (dtype == DTYPE_I32)
            reduce_i32((uint32_t *)to + begin, (const uint32_t *)parts + begin, n_parts, n, count, reduction);
        else
            reduce_16_bits((uint16_t *)to + begin, (const uint16_t *)parts + begin, dtype, n_parts, n, count,
                           reduction);
    }
}
