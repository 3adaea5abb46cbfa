/* Conversions between types (PTX ISA 9.7.9.21), and moves that split or join registers (9.7.9.3). */
#include <math.h>

#include "kernels/cuda/emulate/ptx/handlers.h"

namespace emulate {
namespace ptx {

/* To an integer of type T: numbers outside its range become its ends, NaN becomes 0, or the highest bit alone where one
 * of the two types has 64 bits. */
template <class T, class F> static T to_integer(F x) {
    constexpr bool is_signed = (T)-1 < 0;
    constexpr int bits = 8 * (int)sizeof(T) - is_signed;
    const F64 end = ldexp(1.0, bits); /* the first number that is too large */
    if (x != x) return sizeof(T) == 8 || sizeof(F) == 8 ? (T)((U64)1 << (8 * sizeof(T) - 1)) : 0;
    if ((F64)x >= end) return (T)(is_signed ? ((U64)1 << bits) - 1 : ~(U64)0);
    if ((F64)x < (is_signed ? -end : 0)) return (T)(is_signed ? (U64)1 << bits : 0);
    return (T)x;
}

/* Sixteen bits, the nearest, of two as near the even one; NaN becomes the canonical NaN. */
static U16 to_bf16(F32 x) {
    U32 bits = __builtin_bit_cast(U32, x);
    if (x != x) return 0x7FFF;
    return (U16)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
static F32 from_bf16(U16 x) { return __builtin_bit_cast(F32, (U32)x << 16); }

static U16 to_f16(F32 x) {
    U32 bits = __builtin_bit_cast(U32, x), sign = bits >> 16 & 0x8000;
    F32 size = fabsf(x);
    if (x != x) return 0x7FFF;
    if (size >= 65520) return (U16)(sign | 0x7C00);
    if (size < 0x1p-14f) return (U16)(sign | (U32)rintf(size * 0x1p24f)); /* units of the smallest number */
    bits &= 0x7FFFFFFF;
    return (U16)(sign | (((bits + 0xFFF + (bits >> 13 & 1)) >> 13) - (112 << 10)));
}
static F32 from_f16(U16 x) {
    U32 exponent = x >> 10 & 31, fraction = x & 1023;
    F32 size = exponent == 31 ? (fraction ? NAN : INFINITY)
               : exponent     ? ldexpf((F32)(1024 + fraction), (int)exponent - 25)
                              : ldexpf((F32)fraction, -24);
    return x & 0x8000 ? -size : size;
}

/* 10 bits behind the point, the nearest, of two as near the larger in size. */
static U32 to_tf32(F32 x) {
    U32 bits = __builtin_bit_cast(U32, x);
    return x != x ? 0x7FFFFFFF : isinf(x) ? bits : (bits + 0x1000) & ~0x1FFFu;
}

static F32 saturate(F32 x) { return x > 0 ? (x < 1 ? x : 1) : 0; } /* NaN becomes 0 */

/* mov.b32 {h, h}, w and mov.b64 {w, w}, d, lower half first. */
template <class Half, class Whole> static void run_split(State &s, const Instruction &i, uint32_t lanes) {
    Whole from[32];
    memcpy(from, s.lanes<Whole>(i, 2), sizeof from);
    each(s.lanes<Half>(i, 0), lanes, [&](int l) { return (Half)from[l]; });
    each(s.lanes<Half>(i, 1), lanes, [&](int l) { return (Half)(from[l] >> 8 * sizeof(Half)); });
}

/* mov is split or join by the number of its operands, which its name does not tell. */
template <class Half, class Whole, int N> static void run_join(State &s, const Instruction &i, uint32_t lanes) {
    each(s.lanes<Whole>(i, 0), lanes, [&](int l) {
        Whole whole = 0;
        for (int n = 0; n < N; n++) whole |= (Whole)s.lanes<Half>(i, 1 + n)[l] << 8 * sizeof(Half) * n;
        return whole;
    });
}

#define INTEGER_CONVERSIONS(name, T, letter)                                                                           \
    {"cvt." name ".u16", letter " h", UNARY(T, U16, x), CONVERSION},                                                   \
        {"cvt." name ".s16", letter " h", UNARY(T, S16, x), CONVERSION},                                               \
        {"cvt." name ".u32", letter " w", UNARY(T, U32, x), CONVERSION},                                               \
        {"cvt." name ".s32", letter " w", UNARY(T, S32, x), CONVERSION},                                               \
        {"cvt." name ".u64", letter " d", UNARY(T, U64, x), CONVERSION}, {                                             \
        "cvt." name ".s64", letter " d", UNARY(T, S64, x), CONVERSION                                                  \
    }

#define TO_INTEGER(name, T, letter)                                                                                    \
    {"cvt.rzi." name ".f32", letter " w", UNARY(T, F32, to_integer<T>(truncf(x))), CONVERSION},                        \
        {"cvt.rni." name ".f32", letter " w", UNARY(T, F32, to_integer<T>(rintf(x))), CONVERSION},                     \
        {"cvt.rmi." name ".f32", letter " w", UNARY(T, F32, to_integer<T>(floorf(x))), CONVERSION},                    \
        {"cvt.rpi." name ".f32", letter " w", UNARY(T, F32, to_integer<T>(ceilf(x))), CONVERSION},                     \
        {"cvt.rzi." name ".f64", letter " d", UNARY(T, F64, to_integer<T>(trunc(x))), CONVERSION}, {                   \
        "cvt.rni." name ".f64", letter " d", UNARY(T, F64, to_integer<T>(rint(x))), CONVERSION                         \
    }

#define FROM_INTEGER(name, T, letter)                                                                                  \
    {"cvt.rn.f32." name, "w " letter, UNARY(F32, T, x), CONVERSION}, {                                                 \
        "cvt.rn.f64." name, "d " letter, UNARY(F64, T, x), CONVERSION                                                  \
    }

const Form conversion_forms[] = {
    INTEGER_CONVERSIONS("u16", U16, "h"),
    INTEGER_CONVERSIONS("s16", S16, "h"),
    INTEGER_CONVERSIONS("u32", U32, "w"),
    INTEGER_CONVERSIONS("s32", S32, "w"),
    INTEGER_CONVERSIONS("u64", U64, "d"),
    INTEGER_CONVERSIONS("s64", S64, "d"),
    TO_INTEGER("s32", S32, "w"),
    TO_INTEGER("u32", U32, "w"),
    TO_INTEGER("s64", S64, "d"),
    TO_INTEGER("u64", U64, "d"),
    FROM_INTEGER("u16", U16, "h"),
    FROM_INTEGER("s16", S16, "h"),
    FROM_INTEGER("u32", U32, "w"),
    FROM_INTEGER("s32", S32, "w"),
    FROM_INTEGER("u64", U64, "d"),
    FROM_INTEGER("s64", S64, "d"),
    {"cvt.s16.s8", "h h", UNARY(S16, U16, (int8_t)x), CONVERSION},
    {"cvt.s32.s8", "w w", UNARY(S32, U32, (int8_t)x), CONVERSION},
    {"cvt.u32.u8", "w w", UNARY(U32, U32, (uint8_t)x), CONVERSION},
    {"cvt.u16.u8", "h h", UNARY(U16, U16, (uint8_t)x), CONVERSION},
    {"cvt.f64.f32", "d w", UNARY(F64, F32, x), CONVERSION},
    {"cvt.rn.f32.f64", "w d", UNARY(F32, F64, x), CONVERSION},
    {"cvt.f32.f16", "w h", UNARY(F32, U16, from_f16(x)), CONVERSION},
    {"cvt.f32.bf16", "w h", UNARY(F32, U16, from_bf16(x)), CONVERSION},
    {"cvt.rn.f16.f32", "h w", UNARY(U16, F32, to_f16(x)), CONVERSION},
    {"cvt.rn.bf16.f32", "h w", UNARY(U16, F32, to_bf16(x)), CONVERSION},
    /* the first of the two is the upper half */
    {"cvt.rn.f16x2.f32", "w ww", BINARY(U32, F32, F32, (U32)to_f16(x) << 16 | to_f16(y)), CONVERSION},
    {"cvt.rn.bf16x2.f32", "w ww", BINARY(U32, F32, F32, (U32)to_bf16(x) << 16 | to_bf16(y)), CONVERSION},
    {"cvt.rna.tf32.f32", "w w", UNARY(U32, F32, to_tf32(x)), CONVERSION},
    {"cvt.sat.f32.f32", "w w", UNARY(F32, F32, saturate(x)), CONVERSION},
    {"cvt.rmi.f32.f32", "w w", UNARY(F32, F32, floorf(x)), CONVERSION},
    {"cvt.rpi.f32.f32", "w w", UNARY(F32, F32, ceilf(x)), CONVERSION},
    {"cvt.rni.f32.f32", "w w", UNARY(F32, F32, rintf(x)), CONVERSION},
    {"cvt.rzi.f32.f32", "w w", UNARY(F32, F32, truncf(x)), CONVERSION},
    {"cvt.rzi.f64.f64", "d d", UNARY(F64, F64, trunc(x)), CONVERSION},
    {"cvt.rni.f64.f64", "d d", UNARY(F64, F64, rint(x)), CONVERSION},
    {"mov.b32 split", "hh w", run_split<U16, U32>, MOVE},
    {"mov.b32 join", "w hh", run_join<U16, U32, 2>, MOVE},
    {"mov.b64 split", "ww d", run_split<U32, U64>, MOVE},
    {"mov.b64 join", "d ww", run_join<U32, U64, 2>, MOVE},
    {"mov.b64 join of 4", "d hhhh", run_join<U16, U64, 4>, MOVE},
    {},
};

} // namespace ptx
} // namespace emulate
