/* Functions of the emulator for tests, besides the CUDA runtime. A program on a real GPU is not linked with it.
 *
 * The environment describes the card. EMULATE_CARD: t4, l4, a100 or h100, which sets all that follows, or a whole name
 * such as "Tesla T4", which does not. Single variables override it: EMULATE_CAPABILITY (75; it decides what a block may
 * have of shared memory), EMULATE_MULTIPROCESSORS, EMULATE_MEMORY (bytes). Bytes of it that are taken: EMULATE_CONTEXT,
 * from the start; EMULATE_CODE, by each kernel from its first use on; EMULATE_GRAPH, by each graph that can be
 * launched. EMULATE_BUILT_FOR ("75 80"): the cards that the program has code for. EMULATE_DEVICES: how many such cards
 * there are (1), which share the memory.
 *
 * EMULATE_PTX and EMULATE_PTX_FILTER: see ptx/modules.cpp. EMULATE_LAUNCHES: if it is set, a program tells at its end
 * how many kernels and fills it has put into streams by themselves, and how many graphs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the order of everything that CUDA leaves unordered: threads of a block, blocks, asynchronous copies,
 * streams. One seed is one order, whatever the machine, with one worker.
 *   0      the order of a naive reading: lanes, warps and blocks ascending, copies and streams at once
 *   1      the opposite: descending, copies land and streams run only when somebody waits for them
 *   other  random, a different mixture in each block
 * Without a call: $EMULATE_SEED, else 0. */
void emulate_set_seed(uint64_t seed);
uint64_t emulate_seed(void);

/* Sets the number of operating system threads that run blocks at the same time. Without a call: $EMULATE_WORKERS,
 * else 1. The checker has one. */
void emulate_set_workers(int workers);

/* Replaces the clock that events read, so that tests of decisions by timing are deterministic. */
void emulate_set_clock(double (*seconds)(void));

/* Makes instructions and functions of kernels whose results are not exact differ from the exact ones, by as much as
 * NVIDIA's documents allow: exponentials, divisions, logarithms and their kin by some units in the last place, the sums
 * inside a product of the tensor cores as measured. The same operands and seed give the same result. 0:
 * exact. Without a call: $EMULATE_INEXACT, else 0. */
void emulate_set_inexact(uint64_t seed);

/* Makes the call-th of the following calls that can run out of memory do so: allocations of device and pinned memory,
 * of streams and events, the context, loading a kernel's code, instantiating and launching a graph. 0: none. Without a
 * call: $EMULATE_FAIL_MEMORY, counted from the start. */
void emulate_fail_memory(int64_t call);
int64_t emulate_memory_calls(void); /* how many there have been since */

/* Makes the next so many instantiations and launches of graphs fail, out of memory. */
void emulate_fail_graphs(int graphs, int launches);

/* Returns whether the checker of races, uninitialised and out-of-bounds accesses is built in (make test-race), and how
 * many reports it has made so far. A program with a report ends with status 86. */
bool emulate_has_checker(void);
int64_t emulate_reports(void);

typedef struct {
    int64_t launches, blocks, barriers, warp_operations, matrix_products, matrix_loads;
    int64_t bank_conflicts; /* of matrix loads: rows that share a bank with another of their 8x8 matrix */
} EmulateCounts;

EmulateCounts emulate_counts(void);

/* Reads all functions of the PTX in the program, which is otherwise read when a kernel is launched first; ends the
 * program at an instruction that is not known. Returns how many there are. */
int emulate_read_ptx(void);

/* ---- counts of kernels whose PTX is executed (ptx/counts.cpp); one worker ---- */

typedef enum {
    EMULATE_INTEGER,
    EMULATE_FLOAT,
    EMULATE_SPECIAL,
    EMULATE_CONVERSION,
    EMULATE_MOVE,
    EMULATE_GLOBAL,
    EMULATE_SHARED,
    EMULATE_LOCAL,
    EMULATE_PARAMETER,
    EMULATE_SHUFFLE,
    EMULATE_PRODUCT,
    EMULATE_BARRIER,
    EMULATE_CONTROL,
    EMULATE_CLASSES
} EmulateClass;

typedef struct {
    char kernel[256]; /* its name in C++, cut off */
    int64_t launches, blocks;
    int64_t instructions[EMULATE_CLASSES]; /* of warps, as PTX has them */
    int64_t lanes;                         /* that took part in them */
    int64_t divergent_branches;
    int64_t matrix_flops; /* of the tensor cores */
    /* Requests of warps and the bytes that their lanes ask for; sectors of 32 bytes, by request, and each counted once
     * a launch: what no cache can spare. */
    int64_t global_requests, global_bytes, loaded_sectors, stored_sectors, distinct_loaded, distinct_stored;
    int64_t shared_requests, shared_bytes, shared_wavefronts, shared_least; /* least: wavefronts without any conflict */
} EmulateKernelCounts;

/* Begins to count, from zero, or ends it. */
void emulate_count_kernels(bool on);
/* Copies the counts of the kernels that were launched, `limit` at most. Returns how many it has copied. */
int emulate_kernel_counts(EmulateKernelCounts *counts, int limit);

#ifdef __cplusplus
}
#endif
