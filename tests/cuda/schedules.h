/* For tests of operations in every type, under several schedules of the emulator: one rig for the whole program, and
 * checks that compare an output with the cpu's and remember its bits.
 *
 * Tolerances. Both devices start from the same numbers and compute in f32 (tests/tolerance.h). Then the cuda device
 * rounds once to its type, by at most half a unit in the last place. */
#pragma once

#include "tests/cuda/rig.h"
#include "tests/kernels/op_cases.h"
#include "tests/test.h"
#include "tests/tolerance.h"

/* Returns sum_error, and for a 16-bit type twice its rounding error more. */
double error_in(DType type, int64_t terms, double roundings);

extern Rig rig; /* what open_rig opens, for the whole program */
int open_rig(void **state);
int close_rig(void **state);

float *floats(Pair p); /* the numbers on the cpu */
static inline Pair normal(DType type, int64_t rows, int64_t columns) {
    return pair_normal(&rig, type, rows, columns, 1);
}
static inline Pair poisoned(DType type, int64_t rows, int64_t columns) {
    return pair_poisoned(&rig, type, rows, columns);
}
/* Returns the same numbers from the second on, whose addresses are no multiple of a pack. */
Pair shifted(Pair p, int64_t rows, int64_t columns);

/* Requires the cuda device's numbers to be the cpu's within a tolerance, as expect_pair does, and adds
 * their bits to the check's hash. */
void check_output(const char *what, Pair p, double tolerance);
/* Does so with a tolerance for sums whose terms are of size `least`, however small the sums: as expect_pair_least does.
 */
void check_output_least(const char *what, Pair p, double tolerance, double least);
/* Calls an operation of the table (tests/kernels/op_cases.h) on the cuda device alone. */
void op_on_card(int op, DType type, const char *changes);
/* Requires a call in f32 to end the program with a message of its kernel. Skips on a real GPU, whose state does not
 * survive a fork. */
void op_must_die(int op, const char *changes, const char *message);
/* Calls operations, named in a text, on both devices, and checks all that they change within the tolerances of their
 * rows: with each of some changes and each of others, which | divides. Clears the rig. */
void ops_on_both(DType type, const char *operations, const char *changes, const char *with);
/* Runs a check in one type, if the card has it, under several schedules, $CHECK_SCHEDULES or 4: the outputs must have
 * the same bits under each. Returns their hash; 0 if the card lacks the type. */
uint64_t run_check(void (*check)(DType), DType type);

/* Defines a test that runs its body, a function of `DType type`, in some types or in all; types[0] is f32. */
#define TEST_IN_TYPES(name, from, to)                                                                                  \
    static void name##_in(DType type);                                                                                 \
    TEST(name) {                                                                                                       \
        for (int t = from; t < to; t++) run_check(name##_in, types[t]);                                                \
    }                                                                                                                  \
    static void name##_in(DType type)
#define TEST_IN_F32(name)        TEST_IN_TYPES(name, 0, 1)
#define TEST_IN_16_BITS(name)    TEST_IN_TYPES(name, 1, TYPES)
#define TEST_IN_EVERY_TYPE(name) TEST_IN_TYPES(name, 0, TYPES)
