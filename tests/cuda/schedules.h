/* For tests of operations in every type, under several schedules of the emulator: one rig for the whole program, and
 * checks that compare an output with the cpu's and remember its bits.
 *
 * Tolerances. Both devices start from the same numbers and compute in f32, U = 2^-24: a sum of K terms of random sign
 * has an error of about U sqrt(K) / 1.4 of its terms' size, and 4 U sqrt(K) is taken for the largest of many; a chain
 * of c roundings adds c U. Then the cuda device rounds once to its type, by at most half a unit in the last place. */
#ifndef TESTS_CUDA_SCHEDULES_H
#define TESTS_CUDA_SCHEDULES_H

#include "tests/cuda/rig.h"

#define U 0x1p-24

static inline double f32_error(int64_t terms, double roundings) { return (roundings + 4 * sqrt((double)terms)) * U; }

static inline double error_in(DType type, int64_t terms, double roundings) {
    return f32_error(terms, roundings) + (type == DTYPE_F32 ? 0 : 2 * rounding_of(type));
}

static Rig rig;
static uint64_t hash; /* of all outputs of a check */

static inline void expect(const char *what, Pair p, double tolerance) {
    float *got = pair_download(&rig, p);
    for (int64_t i = 0; i < tensor_numel(p.cuda); i++) {
        uint32_t bits;
        memcpy(&bits, &got[i], 4);
        hash = (hash ^ bits) * 0x100000001b3u;
    }
    free(got);
    expect_pair(&rig, what, p, tolerance);
    poison_scratch(&rig);
}

/* Runs a check in one type, if the card has it, under several schedules: the outputs must have the same bits under
 * each. */
static inline void run(void (*check)(DType), DType type) {
    uint64_t first = 0;
    if (!rig_has(&rig, type)) return;
    rig.cuda->half = type == DTYPE_F32 ? rig_half(&rig) : type;
    for (uint64_t seed = 0; seed < 4; seed++) {
        if (emulate_set_seed) emulate_set_seed(seed);
        hash = 0xcbf29ce484222325u;
        rig.draws = 0;
        check(type);
        rig_clear(&rig);
        if (seed && hash != first) fail_msg("in %s, seed %d gives other bits", dtype_name(type), (int)seed);
        first = hash;
    }
}

/* A check in types[from] .. types[to - 1]. */
typedef struct {
    void (*check)(DType);
    int from, to;
} TypedCheck;

static inline void run_in_types(void **state) {
    const TypedCheck *c = *state;
    for (int t = c->from; t < c->to; t++) run(c->check, types[t]);
}

/* Make a row of a table of tests, which runs a check in some types or in all; types[0] is f32. */
// clang-format off
#define test_in_types(name, check, from, to) {#name, run_in_types, NULL, NULL, &(TypedCheck){check, from, to}}
// clang-format on
#define test_in_f32(name, check)        test_in_types(name, check, 0, 1)
#define test_in_16_bits(name, check)    test_in_types(name, check, 1, TYPES)
#define test_in_every_type(name, check) test_in_types(name, check, 0, TYPES)

static inline float *floats(Pair p) { return p.cpu.data; }

/* Returns the same numbers from the second on, whose addresses are no multiple of a pack. */
static inline Pair shifted(Pair p, int64_t rows, int64_t columns) {
    return (Pair){rig_shaped((char *)p.cpu.data + 4, p.cpu.dtype, rows, columns),
                  rig_shaped((char *)p.cuda.data + dtype_size(p.cuda.dtype), p.cuda.dtype, rows, columns)};
}

static inline Pair normal(DType type, int64_t rows, int64_t columns) {
    return pair_normal(&rig, type, rows, columns, 1);
}
static inline Pair poisoned(DType type, int64_t rows, int64_t columns) {
    return pair_poisoned(&rig, type, rows, columns);
}

static inline int open_rig(void **state) {
    (void)state;
    rig = rig_open(DTYPE_BF16);
    return 0;
}

static inline int close_rig(void **state) {
    (void)state;
    rig_close(&rig);
    return 0;
}

#endif
