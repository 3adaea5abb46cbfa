/* THE TABLE of calls: a row for each operation of kernels/ops_table.h (op_cases.c). What is refused, what is counted,
 * where a NaN goes, what both devices must compute alike, and what is profiled is read from the same row.
 *
 * A call is a row and a text of changes, words of which each is one of
 *   n=33         a size (FOR_EACH_OP_SIZE below; the others have their defaults)
 *   w:5x6        an argument's shape
 *   x:i32        its type
 *   bias:none    an argument that is not given; b:none: all that begin with b.
 *   rows[1]=5    one of its numbers
 *   y:@x         an argument that is another one: in place
 */
#pragma once

#include "kernels/ops_table.h"

/* Names and defaults. */
// clang-format off
#define FOR_EACH_OP_SIZE(X) \
    X(n, 6) X(c, 12) X(v, 10) X(heads, 3)        /* rows, channels, classes or ids or outputs, heads */ \
    X(layout, WEIGHT_OUT_IN) X(kind, GELU_TANH)  /* of weights, of GELU or a gate */ \
    X(length, 3) X(k, 2) X(stride, 1) X(pad, 0)  /* rows of a sequence; taps and steps of windows and convolutions */ \
    X(before, 1) X(dilation, 1)                  /* of a depthwise window */ \
    X(each, 0) X(causal, 1)                      /* rows of each sequence of attention; 0: a half, one, the rest */ \
    X(left, 2) X(right, 1) X(hidden, 0)          /* distances of the terms of attention; keys that are not seen */ \
    X(capacity, 1) X(longest, 1)                 /* rows of a slot of cached keys, and cached */ \
    X(t, 1) X(h, 2) X(w, 3) X(taps, 1) X(o, 12)  /* of a convolution: positions, taps along an axis, outputs */ \
    X(frames, 3) X(plane, 1)                     /* of samples */ \
    X(pool, 1) X(average, 0)                     /* of norm_activate */ \
    X(stem, 8) X(out, 8)                         /* channels between the layers of a stem, and behind them */ \
    X(bins, 2) X(high, 1) X(wide, 1) X(bits, 8)  /* of volumes and their counts */ \
    X(augment, 0) X(partners, 6) X(places, 10)   /* whether volumes are changed; samples that are mixed; positions */ \
    X(skip, 1) X(random, 0) X(shift, 0)          /* from row to row; whether indices are random; elements to skip */ \
    X(flat, 100) X(whole, 0) X(masked, -1)       /* parameters; one segment instead of two; elements of its mask */ \
    X(offset, 10) X(pitch, 7) X(tall, 12) X(columns, 5) /* of a matrix among them */ \
    X(overwrite, 0)                              /* the gradient of a weight */ \
    X(odd, 0) X(back, 0) X(scaled, 0) X(first, 0) X(overflow, 0) X(step, 7)
// clang-format on
#define FOR_EACH_OP_NUMBER(X)                                                                                          \
    X(p, 0) X(temperature, 0.5) X(slope, 0.1) X(spread, 1) X(center, 0) X(epsilon, LAYERNORM_EPSILON)

#define OP_SIZE(name, value)   int64_t name;
#define OP_NUMBER(name, value) float name;
typedef struct {
    FOR_EACH_OP_SIZE(OP_SIZE)
    FOR_EACH_OP_NUMBER(OP_NUMBER)
} OpSize;
#undef OP_SIZE
#undef OP_NUMBER

/* A flag is an output that says nothing of a NaN. */
typedef enum { OP_INPUT, OP_OUTPUT, OP_FLAG, OP_CHANGED } OpRole;

/* Numbers of an input. */
typedef enum {
    OP_NORMAL,
    OP_HALVES,   /* multiples of a half, which are often equal */
    OP_POSITIVE, /* more than 0 */
    OP_FRACTION, /* 0 to 1 */
    OP_CONSTANT, /* the limit */
    OP_AROUND,   /* normal ones times `spread`, around `center` */
    OP_TRUTH,    /* 0 or 1 */
    OP_SHARES,   /* not negative; odd: some 0, as where logits are -infinity */
    OP_BINARY,   /* times `spread`; odd: some far out */
    OP_LOGITS,   /* times `spread`; odd: some -infinity, some equal */
    OP_TARGETS,  /* below the limit; odd: some negative, some at equal logits */
    OP_INDEX,    /* 0, 1, 2, ... or random ones, below the limit */
    OP_ROWS,     /* every `skip`th; odd: from the back */
    OP_SHUFFLED, /* all below the limit, in another order */
    OP_OFFSETS,  /* of the sequences */
    OP_COUNTS,   /* of photons */
    OP_DRAWS     /* AugmentDraws; with `augment` all changes are made */
} OpContent;

typedef struct {
    char name[24];
    OpRole role;
    DType type;
    int64_t rows, columns;                          /* columns 0: of rank 1; -1: of rank 2, without columns */
    double tolerance;                               /* of an output, in f32; 0: the same bits */
    enum { OP_BY_ROW, OP_BY_ALL, OP_BY_ITSELF } by; /* relative to the mean square of the row, of all, of none */
    Tensor on[2];                                   /* of both devices */
} OpArgument;

enum { OP_MAX_ARGUMENTS = 24, OP_MAX_SEQUENCES = 256 };

typedef struct OpCall OpCall;
struct OpCall {
    Device *device;
    int side;   /* 0, 1: which tensors of the arguments `device` gets */
    DType type; /* of activations */
    const char *changes;
    /* Sets both tensors of an argument from its numbers: float for types of floats. */
    void (*make)(OpCall *call, OpArgument *argument, const void *numbers);
    void *owner;   /* of the memory */
    bool is_blank; /* make gets no numbers */

    OpSize size;
    OpArgument arguments[OP_MAX_ARGUMENTS];
    int n_arguments;
    int32_t offsets[OP_MAX_SEQUENCES + 1];
    Segment segments[2];
};

typedef struct {
    const char *name, *test; /* tests/kernels/test_TEST.c compares it with a plain loop */
    /* An argument and what its NaN makes of the outputs, and the changes to the call that is checked for this. element:
     * only its own element is NaN; row: in outputs of as many rows all of its row, in others any; column: all of its
     * column; all; any: some; none. NULL: there is no float among the inputs. */
    const char *nan, *nan_changes;
    double (*flops)(const OpCall *); /* of a call of the sizes by default, which were counted by hand */
    double (*bytes)(const OpCall *);
    void (*call)(OpCall *);
} OpCase;

/* By OP_NAME. A row that is missing is an undeclared case_NAME to the compiler. */
extern const OpCase *const op_cases[OP_COUNT];

/* Returns the operation of that name; fails if there is none. */
int op_of_name(const char *name, size_t length);
/* Sets the sizes of a call to the defaults and the changes. */
void op_set_sizes(OpCall *call);
/* Makes the arguments that are not there yet, and calls the operation. */
void op_call(int op, OpCall *call);
/* Returns the argument of that name, which is made if it is not there yet; NULL if it is not given. `like` has all but
 * its name and tensors. */
OpArgument *op_argument(OpCall *call, const char *name, OpArgument like, OpContent content, double limit);
/* Returns an argument of a call that was made; fails if there is none of that name. */
OpArgument *op_argument_of(OpCall *call, const char *name);
/* Returns whether the operation has a 16-bit type. */
bool op_has_16_bits(int op);

/* Makes the arguments in an arena. */
void op_make_in_arena(OpCall *call, OpArgument *argument, const void *numbers);
