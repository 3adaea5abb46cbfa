/* What tests may ask of the emulator besides the CUDA runtime. A program on a real GPU is not linked with it. */
#ifndef EMULATE_CONTROL_H
#define EMULATE_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The order in which all that may happen in any order does happen: threads of a block, blocks, asynchronous copies,
 * streams. One seed is one order, whatever the machine, with one worker.
 *   0      the order of a naive reading: lanes, warps and blocks ascending, copies and streams at once
 *   1      the opposite: descending, copies land and streams run only when somebody waits for them
 *   other  random, a different mixture in each block
 * Without a call: $EMULATE_SEED, else 0. */
void emulate_set_seed(uint64_t seed);
uint64_t emulate_seed(void);

/* Operating system threads that run blocks at the same time. Without a call: $EMULATE_WORKERS, else 1. The checker has
 * one. */
void emulate_set_workers(int workers);

/* The seconds that events measure time by, instead of the system's: a test of what is decided by timing is no race. */
void emulate_set_clock(double (*seconds)(void));

/* Is the checker of races, uninitialised and out-of-bounds accesses built in (make test-race)? What it has reported so
 * far; a program that ends with a report ends with status 86. */
bool emulate_has_checker(void);
int64_t emulate_reports(void);

typedef struct {
    int64_t launches, blocks, barriers, warp_operations, matrix_products, matrix_loads;
    int64_t bank_conflicts; /* of matrix loads: rows that share a bank with another of their 8x8 matrix */
} EmulateCounts;

EmulateCounts emulate_counts(void);

#ifdef __cplusplus
}
#endif
#endif
