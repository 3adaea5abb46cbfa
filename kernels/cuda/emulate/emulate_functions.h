/* The device functions that concern one thread only: atomics, loads and stores with hints, integers, arithmetic.
 * Included by emulate.h. */
#pragma once

/* ---- atomics: real ones, because blocks may run on several threads of the system ---- */

namespace emulate {
template <class T> using IntegerOfSize = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
template <class T> using OnlyIntegers = std::enable_if_t<std::is_integral<T>::value, int>;

/* *p = update(*p); returns what was there. */
template <class T, class Update> inline T atomic_update(T *p, Update update) {
    typedef IntegerOfSize<T> Bits;
    static_assert(sizeof(T) == sizeof(Bits), "atomics of 4 and 8 bytes");
    Bits *address = reinterpret_cast<Bits *>(p);
    Bits before = __atomic_load_n(address, __ATOMIC_RELAXED), after;
    do {
        T value = update(from_bits<T>(before));
        memcpy(&after, &value, sizeof after);
    } while (!__atomic_compare_exchange_n(address, &before, after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return from_bits<T>(before);
}
} // namespace emulate

template <class T, emulate::OnlyIntegers<T> = 0> inline T atomicAdd(T *p, T x) {
    return __atomic_fetch_add(p, x, __ATOMIC_RELAXED);
}
template <class T, std::enable_if_t<!std::is_integral<T>::value, int> = 0> inline T atomicAdd(T *p, T x) {
    return emulate::atomic_update(p, [=](T old) { return old + x; }); /* float, double, pairs of 16-bit numbers */
}
template <class T> inline T atomicSub(T *p, T x) { return __atomic_fetch_sub(p, x, __ATOMIC_RELAXED); }
template <class T> inline T atomicAnd(T *p, T x) { return __atomic_fetch_and(p, x, __ATOMIC_RELAXED); }
template <class T> inline T atomicOr(T *p, T x) { return __atomic_fetch_or(p, x, __ATOMIC_RELAXED); }
template <class T> inline T atomicXor(T *p, T x) { return __atomic_fetch_xor(p, x, __ATOMIC_RELAXED); }
template <class T> inline T atomicExch(T *p, T x) {
    return emulate::atomic_update(p, [=](T) { return x; });
}
template <class T, emulate::OnlyIntegers<T> = 0> inline T atomicMin(T *p, T x) {
    return emulate::atomic_update(p, [=](T old) { return old < x ? old : x; });
}
template <class T, emulate::OnlyIntegers<T> = 0> inline T atomicMax(T *p, T x) {
    return emulate::atomic_update(p, [=](T old) { return old > x ? old : x; });
}
template <class T, emulate::OnlyIntegers<T> = 0> inline T atomicCAS(T *p, T expected, T x) {
    __atomic_compare_exchange_n(p, &expected, x, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}

/* ---- loads and stores with hints for the caches, which only check what the hardware would ---- */

#define EMULATE_LOAD(name)                                                                                             \
    template <class T> inline T name(const T *p, EMULATE_SITE) {                                                       \
        emulate::require_aligned(p, alignof(T), site);                                                                 \
        return *p;                                                                                                     \
    }
#define EMULATE_STORE(name)                                                                                            \
    template <class T> inline void name(T *p, const T &x, EMULATE_SITE) {                                              \
        emulate::require_aligned(p, alignof(T), site);                                                                 \
        *p = x;                                                                                                        \
    }
EMULATE_LOAD(__ldg)
EMULATE_LOAD(__ldca)
EMULATE_LOAD(__ldcg)
EMULATE_LOAD(__ldcs)
EMULATE_LOAD(__ldlu)
EMULATE_LOAD(__ldcv)
EMULATE_STORE(__stwb)
EMULATE_STORE(__stcg)
EMULATE_STORE(__stcs)
EMULATE_STORE(__stwt)
#undef EMULATE_LOAD
#undef EMULATE_STORE

/* ---- integers and bits ---- */

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
inline unsigned __float_as_uint(float x) { return emulate::from_bits<unsigned>(emulate::to_bits(x)); }
inline float __uint_as_float(unsigned x) { return emulate::from_bits<float>(emulate::to_bits(x)); }
/* Both arguments have one type: which overload CUDA chooses for two types is easy to get wrong. */
template <class T, std::enable_if_t<std::is_arithmetic<T>::value, int> = 0> inline T min(T a, T b) {
    return b < a || a != a ? b : a;
}
template <class T, std::enable_if_t<std::is_arithmetic<T>::value, int> = 0> inline T max(T a, T b) {
    return a < b || a != a ? b : a;
}

/* ---- arithmetic: what the C library has is exact here, to its rounding. With emulate_set_inexact, results of kernels
 * are off by as much as NVIDIA allows: the tables of the programming guide's chapter on mathematical functions (units
 * in the last place of the result), for ex2.approx the PTX ISA ---- */

namespace emulate {
extern uint64_t inexact_seed; /* 0: exact */
float off_by(float exact, double units, uint64_t operands);
double off_by(double exact, double units, uint64_t operands);
template <class T> inline T within(double units, T exact, uint64_t operands) {
    return inexact_seed && current_thread ? off_by(exact, units, operands) : exact;
}
/* ex2.approx.ftz: exact for 0, and subnormal numbers are 0 in and out. */
inline float exp2_approximate(float x) {
    float y = exp2f(x);
    if (!inexact_seed || fabsf(x) < 0x1p-126f) return y;
    return y < 0x1p-126f ? 0.0f : within(2, y, to_bits(x));
}
} // namespace emulate

inline float __expf(float x) {
    return emulate::within(2 + floor(fabs(1.173 * (double)x)), expf(x), emulate::to_bits(x));
}
inline float __fdividef(float a, float b) {
    if (emulate::inexact_seed && fabsf(b) > 0x1p126f && !isinf(b)) return isinf(a) ? NAN : 0.0f;
    return emulate::within(2, a / b, emulate::to_bits(a) << 32 | emulate::to_bits(b));
}
/* Function-like macros do not replace themselves, nor names that are declared. */
#define EMULATE_WITHIN(units, function, x) ::emulate::within(units, function(x), ::emulate::to_bits(x))
#define expf(x)                            EMULATE_WITHIN(1, expf, x)
#define logf(x)                            EMULATE_WITHIN(1, logf, x)
#define log1pf(x)                          EMULATE_WITHIN(1, log1pf, x)
#define tanhf(x)                           EMULATE_WITHIN(2, tanhf, x)
#define erff(x)                            EMULATE_WITHIN(2, erff, x)
#define pow(x, y)                          ::emulate::within(2, pow(x, y), ::emulate::to_bits(x) ^ ::emulate::to_bits(y))
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
