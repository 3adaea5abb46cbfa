/* Macros that make rows of the tables of forms: each is a loop over the lanes with an expression of the operands x, y,
 * z, whose C types are given. Signed sums wrap round, as PTX defines: they are computed in unsigned types. */
#pragma once

#include <math.h>

#include "kernels/cuda/emulate/ptx/ptx.h"

namespace emulate {
namespace ptx {

typedef uint16_t U16;
typedef uint32_t U32;
typedef uint64_t U64;
typedef int16_t S16;
typedef int32_t S32;
typedef int64_t S64;
typedef float F32;
typedef double F64;

/* Subnormal numbers become 0, with their sign. */
static inline F32 flush(F32 x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

/* D = f(A), f(A, B) ...: types of registers. */
#define UNARY(D, A, expression)                                                                                        \
    [](State &s, const Instruction &i, uint32_t lanes) {                                                               \
        const A *a = s.lanes<A>(i, 1);                                                                                 \
        each(s.lanes<D>(i, 0), lanes, [=](int l) {                                                                     \
            A x = a[l];                                                                                                \
            return (D)(expression);                                                                                    \
        });                                                                                                            \
    }
#define BINARY(D, A, B, expression)                                                                                    \
    [](State &s, const Instruction &i, uint32_t lanes) {                                                               \
        const A *a = s.lanes<A>(i, 1);                                                                                 \
        const B *b = s.lanes<B>(i, 2);                                                                                 \
        each(s.lanes<D>(i, 0), lanes, [=](int l) {                                                                     \
            A x = a[l];                                                                                                \
            B y = b[l];                                                                                                \
            return (D)(expression);                                                                                    \
        });                                                                                                            \
    }
#define TERNARY(D, A, B, C, expression)                                                                                \
    [](State &s, const Instruction &i, uint32_t lanes) {                                                               \
        const A *a = s.lanes<A>(i, 1);                                                                                 \
        const B *b = s.lanes<B>(i, 2);                                                                                 \
        const C *c = s.lanes<C>(i, 3);                                                                                 \
        each(s.lanes<D>(i, 0), lanes, [=](int l) {                                                                     \
            A x = a[l];                                                                                                \
            B y = b[l];                                                                                                \
            C z = c[l];                                                                                                \
            return (D)(expression);                                                                                    \
        });                                                                                                            \
    }
/* A comparison into a predicate. */
#define COMPARE(A, expression)                                                                                         \
    [](State &s, const Instruction &i, uint32_t lanes) {                                                               \
        const A *a = s.lanes<A>(i, 1), *b = s.lanes<A>(i, 2);                                                          \
        uint32_t bits = 0;                                                                                             \
        for (int l = 0; l < 32; l++) {                                                                                 \
            A x = a[l], y = b[l];                                                                                      \
            bits |= (uint32_t)(expression) << l;                                                                       \
        }                                                                                                              \
        s.set_mask(i, 0, lanes, bits);                                                                                 \
    }
/* An expression of the masks x and y of predicates. */
#define OF_PREDICATES(expression)                                                                                      \
    [](State &s, const Instruction &i, uint32_t lanes) {                                                               \
        uint32_t x = s.truth(i, 1), y = i.n_operands > 2 ? s.truth(i, 2) : 0;                                          \
        (void)y;                                                                                                       \
        s.set_mask(i, 0, lanes, expression);                                                                           \
    }
/* x where the predicate holds, else y. */
#define SELECT(T)                                                                                                      \
    [](State &s, const Instruction &i, uint32_t lanes) {                                                               \
        const T *a = s.lanes<T>(i, 1), *b = s.lanes<T>(i, 2);                                                          \
        uint32_t truth = s.truth(i, 3);                                                                                \
        each(s.lanes<T>(i, 0), lanes, [=](int l) { return truth >> l & 1 ? a[l] : b[l]; });                            \
    }

} // namespace ptx
} // namespace emulate
