/* Arithmetic, comparisons and bits. Section numbers of NVIDIA's "PTX ISA" 9.0: 9.7.1 integers, 9.7.3 floating point,
 * 9.7.6 comparisons, 9.7.8 logic and shifts. */
#include <fenv.h>

#include "kernels/cuda/emulate/ptx/handlers.h"

namespace emulate {
namespace ptx {

/* ---- integers ---- */

/* Divides also where the processor's division would stop the program: there the card gives some value, which no kernel
 * may use. */
template <class T> static T divide(T x, T y) { return y == 0 ? (T)-1 : y == (T)-1 ? (T)(0 - (U64)x) : (T)(x / y); }
template <class T> static T remainder_of(T x, T y) { return y == 0 ? x : y == (T)-1 && (T)-1 < 0 ? 0 : (T)(x % y); }
template <> U32 divide(U32 x, U32 y) { return y ? x / y : ~0u; }
template <> U64 divide(U64 x, U64 y) { return y ? x / y : ~0ull; }

static U32 high_of(U32 x, U32 y) { return (U32)((U64)x * y >> 32); }
static S32 high_of(S32 x, S32 y) { return (S32)((S64)x * y >> 32); }
__extension__ typedef __int128 S128;
__extension__ typedef unsigned __int128 U128;
static S64 high_of(S64 x, S64 y) { return (S64)((S128)x * y >> 64); }
static U64 high_of(U64 x, U64 y) { return (U64)((U128)x * y >> 64); }

/* Shifts by as many bits as the register has, or more, shift everything out. */
template <class T> static T shift_left(T x, U32 by) { return by < 8 * sizeof(T) ? (T)(x << by) : 0; }
template <class T> static T shift_right(T x, U32 by) { return by < 8 * sizeof(T) ? (T)(x >> by) : x < 0 ? (T)-1 : 0; }

/* 9.7.1.20: the lowest `bits` bits of x replace those of y from `at` on; both counts have 8 bits. */
template <class T> static T insert_bits(T x, T y, U32 at, U32 bits) {
    at &= 255, bits &= 255;
    const U32 width = 8 * sizeof(T);
    if (at >= width || !bits) return y;
    T mask = (T)((bits >= width ? (T) ~(T)0 : (T)(((T)1 << bits) - 1)) << at);
    return (T)((y & ~mask) | ((T)(x << at) & mask));
}

/* 9.7.1.19: a field of x, sign-extended if it is signed. */
template <class T, class Unsigned> static T extract_bits(T x, U32 at, U32 bits) {
    at &= 255, bits &= 255;
    const U32 width = 8 * sizeof(T);
    if (!bits) return 0;
    U32 last = at + bits - 1 < width - 1 ? at + bits - 1 : width - 1;
    T sign = (T)-1 < 0 && (x >> last & 1) ? (T)-1 : 0;
    if (at >= width) return sign;
    Unsigned mask = bits >= width ? (Unsigned) ~(Unsigned)0 : (Unsigned)(((Unsigned)1 << bits) - 1);
    Unsigned known = width - at >= bits ? mask : (Unsigned)(((Unsigned)1 << (width - at)) - 1);
    return (T)(((Unsigned)x >> at & known) | ((Unsigned)sign & mask & ~known) | ((Unsigned)sign & ~mask));
}

/* 9.7.8.7: each digit of the selector chooses a byte of y:x, or its sign for all eight bits. */
static U32 permute_bytes(U32 x, U32 y, U32 selector) {
    U64 bytes = (U64)y << 32 | x;
    U32 result = 0;
    for (int i = 0; i < 4; i++) {
        U32 digit = selector >> 4 * i & 15, byte = (U32)(bytes >> 8 * (digit & 7)) & 255;
        if (digit & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}

static U32 reverse_bits(U32 x) {
    U32 reversed = 0;
    for (int i = 0; i < 32; i++) reversed |= (x >> i & 1) << (31 - i);
    return reversed;
}

/* 9.7.8.6: a table of three inputs. */
static void run_lop3(State &s, const Instruction &i, uint32_t lanes) {
    const U32 *a = s.lanes<U32>(i, 1), *b = s.lanes<U32>(i, 2), *c = s.lanes<U32>(i, 3), *table = s.lanes<U32>(i, 4);
    each(s.lanes<U32>(i, 0), lanes, [=](int l) {
        U32 result = 0;
        for (U32 row = 0; row < 8; row++)
            if (table[l] >> row & 1)
                result |= (row & 4 ? a[l] : ~a[l]) & (row & 2 ? b[l] : ~b[l]) & (row & 1 ? c[l] : ~c[l]);
        return result;
    });
}

template <class T> static void run_insert(State &s, const Instruction &i, uint32_t lanes) {
    const T *a = s.lanes<T>(i, 1), *b = s.lanes<T>(i, 2);
    const U32 *at = s.lanes<U32>(i, 3), *bits = s.lanes<U32>(i, 4);
    each(s.lanes<T>(i, 0), lanes, [=](int l) { return insert_bits(a[l], b[l], at[l], bits[l]); });
}

/* ---- floating point ---- */

static const F32 CANONICAL_NAN = __builtin_bit_cast(F32, 0x7FFFFFFFu);

/* 9.7.3.11 f.: a number wins over NaN, and +0 is larger than -0. */
template <class T> static T larger(T x, T y) {
    return x != x ? (y != y ? (T)CANONICAL_NAN : y) : y != y ? x : x == y ? (signbit(x) ? y : x) : x > y ? x : y;
}
template <class T> static T smaller(T x, T y) {
    return x != x ? (y != y ? (T)CANONICAL_NAN : y) : y != y ? x : x == y ? (signbit(x) ? x : y) : x < y ? x : y;
}

/* 9.7.3.8, div.approx: the reciprocal of a huge divisor is 0, so that the result is 0, or NaN for infinity and NaN. */
static F32 divide_approximately(F32 x, F32 y) {
    if (fabsf(y) > 0x1p126f && !isinf(y)) return isinf(x) || isnan(x) ? CANONICAL_NAN : x * copysignf(0, y);
    return x / y;
}

/* 9.7.3.15: a reciprocal of which the upper 32 bits are there; subnormal numbers count as 0. */
static F64 rough_reciprocal(F64 x) {
    if (fabs(x) < 0x1p-1022) return copysign(INFINITY, x);
    F64 y = 1 / x;
    if (fabs(y) < 0x1p-1022) return copysign(0, y);
    return isnan(y) ? y : __builtin_bit_cast(F64, __builtin_bit_cast(U64, y) & 0xFFFFFFFF00000000u);
}

/* Computes f(lane) for the lanes in another rounding mode than to the nearest. */
template <class T, class F> static void each_rounded(int mode, T *to, uint32_t lanes, F f) {
    fesetround(mode);
    for (uint32_t left = lanes; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        volatile T result = f(l); /* computed here, not before */
        to[l] = result;
    }
    fesetround(FE_TONEAREST);
}
template <int MODE> static void run_fma_rounded(State &s, const Instruction &i, uint32_t lanes) {
    const volatile F32 *a = s.lanes<F32>(i, 1), *b = s.lanes<F32>(i, 2), *c = s.lanes<F32>(i, 3);
    each_rounded(MODE, s.lanes<F32>(i, 0), lanes, [=](int l) { return fmaf(a[l], b[l], c[l]); });
}
template <int MODE> static void run_add_rounded(State &s, const Instruction &i, uint32_t lanes) {
    const volatile F32 *a = s.lanes<F32>(i, 1), *b = s.lanes<F32>(i, 2);
    each_rounded(MODE, s.lanes<F32>(i, 0), lanes, [=](int l) { return a[l] + b[l]; });
}
template <int MODE> static void run_multiply_rounded(State &s, const Instruction &i, uint32_t lanes) {
    const volatile F32 *a = s.lanes<F32>(i, 1), *b = s.lanes<F32>(i, 2);
    each_rounded(MODE, s.lanes<F32>(i, 0), lanes, [=](int l) { return a[l] * b[l]; });
}

/* ---- the table ---- */

#define INTEGER_FORMS(U, S, bits, letter, shift)                                                                       \
    {"add.s" bits, letter " " letter letter, BINARY(U, U, U, x + y), INTEGER},                                         \
        {"add.u" bits, letter " " letter letter, BINARY(U, U, U, x + y), INTEGER},                                     \
        {"sub.s" bits, letter " " letter letter, BINARY(U, U, U, x - y), INTEGER},                                     \
        {"sub.u" bits, letter " " letter letter, BINARY(U, U, U, x - y), INTEGER},                                     \
        {"mul.lo.s" bits, letter " " letter letter, BINARY(U, U, U, (U64)x * y), INTEGER},                             \
        {"mul.lo.u" bits, letter " " letter letter, BINARY(U, U, U, (U64)x * y), INTEGER},                             \
        {"mad.lo.s" bits, letter " " letter letter letter, TERNARY(U, U, U, U, (U64)x * y + z), INTEGER},              \
        {"mad.lo.u" bits, letter " " letter letter letter, TERNARY(U, U, U, U, (U64)x * y + z), INTEGER},              \
        {"min.s" bits, letter " " letter letter, BINARY(S, S, S, x < y ? x : y), INTEGER},                             \
        {"min.u" bits, letter " " letter letter, BINARY(U, U, U, x < y ? x : y), INTEGER},                             \
        {"max.s" bits, letter " " letter letter, BINARY(S, S, S, x > y ? x : y), INTEGER},                             \
        {"max.u" bits, letter " " letter letter, BINARY(U, U, U, x > y ? x : y), INTEGER},                             \
        {"neg.s" bits, letter " " letter, UNARY(U, U, 0 - (U64)x), INTEGER},                                           \
        {"abs.s" bits, letter " " letter, UNARY(U, S, x < 0 ? 0 - (U64)x : (U64)x), INTEGER},                          \
        {"and.b" bits, letter " " letter letter, BINARY(U, U, U, x & y), INTEGER},                                     \
        {"or.b" bits, letter " " letter letter, BINARY(U, U, U, x | y), INTEGER},                                      \
        {"xor.b" bits, letter " " letter letter, BINARY(U, U, U, x ^ y), INTEGER},                                     \
        {"not.b" bits, letter " " letter, UNARY(U, U, ~x), INTEGER},                                                   \
        {"shl.b" bits, letter " " letter "w", BINARY(U, U, U32, shift_left(x, y)), INTEGER},                           \
        {"shr.u" bits, letter " " letter "w", BINARY(U, U, U32, shift_right(x, y)), INTEGER},                          \
        {"shr.b" bits, letter " " letter "w", BINARY(U, U, U32, shift_right(x, y)), INTEGER},                          \
        {"shr.s" bits, letter " " letter "w", BINARY(S, S, U32, shift_right(x, y)), INTEGER},                          \
        {"mov.b" bits, letter " " letter, UNARY(U, U, x), MOVE},                                                       \
        {"mov.u" bits, letter " " letter, UNARY(U, U, x), MOVE},                                                       \
        {"mov.s" bits, letter " " letter, UNARY(U, U, x), MOVE},                                                       \
        {"selp.b" bits, letter " " letter letter "p", SELECT(U), MOVE},                                                \
        {"selp.u" bits, letter " " letter letter "p", SELECT(U), MOVE},                                                \
        {"selp.s" bits, letter " " letter letter "p", SELECT(U), MOVE},                                                \
        {"setp.eq.b" bits, "p " letter letter, COMPARE(U, x == y), INTEGER},                                           \
        {"setp.ne.b" bits, "p " letter letter, COMPARE(U, x != y), INTEGER},                                           \
        COMPARISONS("s" bits, S, letter, INTEGER), COMPARISONS("u" bits, U, letter, INTEGER)

#define COMPARISONS(type, T, letter, class)                                                                            \
    {"setp.eq." type, "p " letter letter, COMPARE(T, x == y), class},                                                  \
        {"setp.ne." type, "p " letter letter, COMPARE(T, (x < y) | (x > y)), class},                                   \
        {"setp.lt." type, "p " letter letter, COMPARE(T, x < y), class},                                               \
        {"setp.le." type, "p " letter letter, COMPARE(T, x <= y), class},                                              \
        {"setp.gt." type, "p " letter letter, COMPARE(T, x > y), class}, {                                             \
        "setp.ge." type, "p " letter letter, COMPARE(T, x >= y), class                                                 \
    }

/* Those of 32 and 64 bits that 16 bits do not have. */
#define WIDE_INTEGER_FORMS(U, S, bits, letter)                                                                         \
    {"mul.hi.s" bits, letter " " letter letter, BINARY(S, S, S, high_of(x, y)), INTEGER},                              \
        {"mul.hi.u" bits, letter " " letter letter, BINARY(U, U, U, high_of(x, y)), INTEGER},                          \
        {"div.s" bits, letter " " letter letter, BINARY(S, S, S, divide(x, y)), INTEGER},                              \
        {"div.u" bits, letter " " letter letter, BINARY(U, U, U, divide(x, y)), INTEGER},                              \
        {"rem.s" bits, letter " " letter letter, BINARY(S, S, S, remainder_of(x, y)), INTEGER},                        \
        {"rem.u" bits, letter " " letter letter, BINARY(U, U, U, remainder_of(x, y)), INTEGER},                        \
        {"bfi.b" bits, letter " " letter letter "ww", run_insert<U>, INTEGER},                                         \
        {"bfe.u" bits, letter " " letter "ww", TERNARY(U, U, U32, U32, (extract_bits<U, U>(x, y, z))), INTEGER},       \
        {"bfe.s" bits, letter " " letter "ww", TERNARY(S, S, U32, U32, (extract_bits<S, U>(x, y, z))), INTEGER},       \
        {"popc.b" bits, "w " letter, UNARY(U32, U, __builtin_popcountll(x)), INTEGER}, {                               \
        "clz.b" bits, "w " letter,                                                                                     \
            UNARY(U32, U, x ? __builtin_clzll(x) - (64 - 8 * (int)sizeof(U)) : 8 * (int)sizeof(U)), INTEGER            \
    }

/* A comparison that is false for NaN, and with "u" one that is true. */
#define FLOAT_FORMS(T, bits, letter)                                                                                   \
    {"add.f" bits, letter " " letter letter, BINARY(T, T, T, number(x + y)), FLOAT},                                   \
        {"add.rn.f" bits, letter " " letter letter, BINARY(T, T, T, number(x + y)), FLOAT},                            \
        {"sub.f" bits, letter " " letter letter, BINARY(T, T, T, number(x - y)), FLOAT},                               \
        {"sub.rn.f" bits, letter " " letter letter, BINARY(T, T, T, number(x - y)), FLOAT},                            \
        {"mul.f" bits, letter " " letter letter, BINARY(T, T, T, number(x * y)), FLOAT},                               \
        {"mul.rn.f" bits, letter " " letter letter, BINARY(T, T, T, number(x * y)), FLOAT},                            \
        {"fma.rn.f" bits, letter " " letter letter letter, TERNARY(T, T, T, T, number(fused(x, y, z))), FLOAT},        \
        {"div.rn.f" bits, letter " " letter letter, BINARY(T, T, T, number(x / y)), SPECIAL},                          \
        {"rcp.rn.f" bits, letter " " letter, UNARY(T, T, number(1 / x)), SPECIAL},                                     \
        {"sqrt.rn.f" bits, letter " " letter, UNARY(T, T, number(root(x))), SPECIAL},                                  \
        {"min.f" bits, letter " " letter letter, BINARY(T, T, T, smaller(x, y)), FLOAT},                               \
        {"max.f" bits, letter " " letter letter, BINARY(T, T, T, larger(x, y)), FLOAT},                                \
        {"neg.f" bits, letter " " letter, UNARY(T, T, -x), FLOAT},                                                     \
        {"abs.f" bits, letter " " letter, UNARY(T, T, __builtin_fabs(x)), FLOAT},                                      \
        {"copysign.f" bits, letter " " letter letter, BINARY(T, T, T, copysign(y, x)), FLOAT},                         \
        {"mov.f" bits, letter " " letter, UNARY(T, T, x), MOVE},                                                       \
        {"selp.f" bits, letter " " letter letter "p", SELECT(T), MOVE},                                                \
        {"setp.equ.f" bits, "p " letter letter, COMPARE(T, !((x < y) | (x > y))), FLOAT},                              \
        {"setp.neu.f" bits, "p " letter letter, COMPARE(T, x != y), FLOAT},                                            \
        {"setp.ltu.f" bits, "p " letter letter, COMPARE(T, !(x >= y)), FLOAT},                                         \
        {"setp.leu.f" bits, "p " letter letter, COMPARE(T, !(x > y)), FLOAT},                                          \
        {"setp.gtu.f" bits, "p " letter letter, COMPARE(T, !(x <= y)), FLOAT},                                         \
        {"setp.geu.f" bits, "p " letter letter, COMPARE(T, !(x < y)), FLOAT},                                          \
        {"setp.num.f" bits, "p " letter letter, COMPARE(T, (x == x) & (y == y)), FLOAT},                               \
        {"setp.nan.f" bits, "p " letter letter, COMPARE(T, (x != x) | (y != y)), FLOAT},                               \
        COMPARISONS("f" bits, T, letter, FLOAT)

/* 9.7.3: a result that is NaN is the canonical one in f32. */
static F32 number(F32 x) { return x == x ? x : CANONICAL_NAN; }
static F64 number(F64 x) { return x; }
static F32 fused(F32 x, F32 y, F32 z) { return __builtin_fmaf(x, y, z); }
static F64 fused(F64 x, F64 y, F64 z) { return __builtin_fma(x, y, z); }
static F32 root(F32 x) { return __builtin_sqrtf(x); }
static F64 root(F64 x) { return __builtin_sqrt(x); }

const Form arithmetic_forms[] = {
    INTEGER_FORMS(U16, S16, "16", "h", ),
    INTEGER_FORMS(U32, S32, "32", "w", ),
    INTEGER_FORMS(U64, S64, "64", "d", ),
    WIDE_INTEGER_FORMS(U32, S32, "32", "w"),
    WIDE_INTEGER_FORMS(U64, S64, "64", "d"),
    FLOAT_FORMS(F32, "32", "w"),
    FLOAT_FORMS(F64, "64", "d"),
    {"mul.wide.u16", "w hh", BINARY(U32, U16, U16, (U32)x *y), INTEGER},
    {"mul.wide.s16", "w hh", BINARY(S32, S16, S16, (S32)x *y), INTEGER},
    {"mul.wide.u32", "d ww", BINARY(U64, U32, U32, (U64)x *y), INTEGER},
    {"mul.wide.s32", "d ww", BINARY(S64, S32, S32, (S64)x *y), INTEGER},
    {"mad.wide.u32", "d wwd", TERNARY(U64, U32, U32, U64, (U64)x *y + z), INTEGER},
    {"mad.wide.s32", "d wwd", TERNARY(U64, S32, S32, U64, (U64)((S64)x *y) + z), INTEGER},
    {"brev.b32", "w w", UNARY(U32, U32, reverse_bits(x)), INTEGER},
    {"bfind.shiftamt.u32", "w w", UNARY(U32, U32, x ? __builtin_clz(x) : ~0), INTEGER},
    {"prmt.b32", "w www", TERNARY(U32, U32, U32, U32, permute_bytes(x, y, z)), INTEGER},
    {"lop3.b32", "w wwww", run_lop3, INTEGER},
    {"shf.l.wrap.b32", "w www", TERNARY(U32, U32, U32, U32, ((U64)y << 32 | x) << (z & 31) >> 32), INTEGER},
    {"shf.r.wrap.b32", "w www", TERNARY(U32, U32, U32, U32, ((U64)y << 32 | x) >> (z & 31)), INTEGER},
    {"and.pred", "p pp", OF_PREDICATES(x &y), INTEGER},
    {"or.pred", "p pp", OF_PREDICATES(x | y), INTEGER},
    {"xor.pred", "p pp", OF_PREDICATES(x ^ y), INTEGER},
    {"not.pred", "p p", OF_PREDICATES(~x), INTEGER},
    {"mov.pred", "p p", OF_PREDICATES(x), MOVE},
    {"fma.rm.f32", "w www", run_fma_rounded<FE_DOWNWARD>, FLOAT},
    {"fma.rz.f32", "w www", run_fma_rounded<FE_TOWARDZERO>, FLOAT},
    {"add.rz.f32", "w ww", run_add_rounded<FE_TOWARDZERO>, FLOAT},
    {"mul.rz.f32", "w ww", run_multiply_rounded<FE_TOWARDZERO>, FLOAT},
    {"div.approx.f32", "w ww", BINARY(F32, F32, F32, divide_approximately(x, y)), SPECIAL},
    {"rcp.approx.ftz.f32", "w w", UNARY(F32, F32, flush(1 / flush(x))), SPECIAL},
    {"rcp.approx.ftz.f64", "d d", UNARY(F64, F64, rough_reciprocal(x)), SPECIAL},
    {"ex2.approx.f32", "w w", UNARY(F32, F32, exp2f(x)), SPECIAL},
    {"ex2.approx.ftz.f32", "w w", UNARY(F32, F32, flush(exp2f(flush(x)))), SPECIAL},
    {"lg2.approx.f32", "w w", UNARY(F32, F32, log2f(x)), SPECIAL},
    {"lg2.approx.ftz.f32", "w w", UNARY(F32, F32, log2f(flush(x))), SPECIAL},
    {"rsqrt.approx.f32", "w w", UNARY(F32, F32, 1 / sqrt((F64)x)), SPECIAL},
    {"sqrt.approx.f32", "w w", UNARY(F32, F32, root(x)), SPECIAL},
    {"tanh.approx.f32", "w w", UNARY(F32, F32, tanhf(x)), SPECIAL},
    {},
};

} // namespace ptx
} // namespace emulate
