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

/* Returns the relative error of a sum of `terms` in f32 behind `roundings` others. */
double f32_error(int64_t terms, double roundings);
/* Adds that of one rounding to the type. */
double error_in(DType type, int64_t terms, double roundings);

extern Rig rig; /* what open_rig opens, for the whole program */
int open_rig(void **state);
int close_rig(void **state);

float *floats(Pair p); /* the numbers on the cpu */
Pair normal(DType type, int64_t rows, int64_t columns);
Pair poisoned(DType type, int64_t rows, int64_t columns);
/* Returns the same numbers from the second on, whose addresses are no multiple of a pack. */
Pair shifted(Pair p, int64_t rows, int64_t columns);

/* Requires the cuda device's numbers to be the cpu's within a tolerance, as expect_pair does, and remembers their bits.
 */
void expect(const char *what, Pair p, double tolerance);
/* Runs a check in one type, if the card has it, under several schedules: the outputs must have the same bits under
 * each. Returns their hash. */
uint64_t run_check(void (*check)(DType), DType type);

/* A check in types[from] .. types[to - 1]. */
typedef struct {
    void (*check)(DType);
    int from, to;
} TypedCheck;

void run_in_types(void **state); /* *state: a TypedCheck */

/* Make a row of a table of tests, which runs a check in some types or in all; types[0] is f32. */
// clang-format off
#define test_in_types(name, check, from, to) {#name, run_in_types, NULL, NULL, &(TypedCheck){check, from, to}}
// clang-format on
#define test_in_f32(name, check)        test_in_types(name, check, 0, 1)
#define test_in_16_bits(name, check)    test_in_types(name, check, 1, TYPES)
#define test_in_every_type(name, check) test_in_types(name, check, 0, TYPES)

#endif
