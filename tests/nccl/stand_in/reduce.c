/* Sums and maxima in f32 or whole numbers, in the order of a ring. */
#include <math.h>
#include <string.h>

#include "tests/nccl/stand_in/stand_in.h"

static float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static uint32_t to_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float f16_value(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 31) return from_bits(sign | 0x7F800000 | mantissa << 13);
    float size = exponent ? ldexpf((float)(mantissa + 1024), (int)exponent - 25) : ldexpf((float)mantissa, -24);
    return sign ? -size : size;
}

/* Rounds to nearest, ties to even: adding a power of two aligns what f16 keeps with the last bits of f32. */
static uint16_t f16_bits(float x) {
    uint16_t sign = (uint16_t)(to_bits(x) >> 16 & 0x8000);
    float size = fabsf(x);
    if (isnan(x)) return sign | 0x7E00;
    if (size >= 65520) return sign | 0x7C00;
    if (size < 0x1p-14f) return sign | (uint16_t)(to_bits(size + 0.5f) - to_bits(0.5f)); /* in units of 2^-24 */
    uint32_t bits = to_bits(size);
    bits += 0xFFF + (bits >> 13 & 1);
    return sign | (uint16_t)((bits >> 13) - (112 << 10));
}

static uint16_t bf16_bits(float x) {
    uint32_t bits = to_bits(x);
    return isnan(x) ? (uint16_t)(bits >> 16 | 64) : (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static float load(const void *part, size_t i, unsigned type) {
    if (type == COLL_F32) return ((const float *)part)[i];
    uint16_t half = ((const uint16_t *)part)[i];
    return type == COLL_F16 ? f16_value(half) : from_bits((uint32_t)half << 16);
}

static void reduce_whole(int32_t *out, const int32_t *const parts[], int ranks, int owner, size_t n, bool is_sum) {
    for (size_t i = 0; i < n; i++) {
        int32_t all = parts[(owner + 1) % ranks][i];
        for (int k = 2; k <= ranks; k++) {
            int32_t x = parts[(owner + k) % ranks][i];
            all = is_sum ? (int32_t)((uint32_t)all + (uint32_t)x) : x > all ? x : all;
        }
        out[i] = all;
    }
}

void reduce(void *out, const void *const parts[], int ranks, int owner, size_t n, unsigned type, unsigned reduction) {
    bool is_sum = reduction == COLL_SUM;
    if (type == COLL_I32) {
        const int32_t *whole[MOST_RANKS];
        for (int q = 0; q < ranks; q++) whole[q] = parts[q];
        reduce_whole(out, whole, ranks, owner, n, is_sum);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        float all = load(parts[(owner + 1) % ranks], i, type);
        for (int k = 2; k <= ranks; k++) {
            float x = load(parts[(owner + k) % ranks], i, type);
            all = is_sum ? all + x : fmaxf(all, x);
        }
        if (type == COLL_F32)
            ((float *)out)[i] = all;
        else
            ((uint16_t *)out)[i] = type == COLL_F16 ? f16_bits(all) : bf16_bits(all);
    }
}
