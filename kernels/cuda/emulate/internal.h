/* Inside the emulator: how a block of threads runs on one thread of the operating system.
 *
 * Every CUDA thread of a block is a fiber: a stack of its own and a saved stack pointer. A fiber runs until it must
 * wait (a barrier, an operation of its warp), then the scheduler picks another that can run. A Worker runs one block at
 * a time and is reused for the next; nothing in it is shared with other workers. */
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/emulate/check_events.h"
#include "kernels/cuda/emulate/emulate.h"
#include "kernels/cuda/emulate/emulate_control.h"

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim
#undef warpSize

#if defined __has_feature
#if __has_feature(address_sanitizer)
#define EMULATE_ASAN
#endif
#endif
#if defined __SANITIZE_ADDRESS__
#define EMULATE_ASAN
#endif

#if !defined __x86_64__ && !defined EMULATE_UCONTEXT
#define EMULATE_UCONTEXT
#endif
#ifdef EMULATE_UCONTEXT
#include <ucontext.h>
#endif

#ifdef EMULATE_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

namespace emulate {

constexpr int MAX_THREADS = 1024, MAX_WARPS = MAX_THREADS / 32, MAX_SHARED_VARIABLES = 64;
constexpr size_t SHARED_ARENA = 256 << 10; /* more than any card has: room for the red zones */
constexpr size_t RED_ZONE = 64;
constexpr size_t SHARED_WITHOUT_ASKING = 48 << 10;
#if defined EMULATE_ASAN || defined EMULATE_CHECK
constexpr size_t STACK_BYTES = 256 << 10; /* instrumented frames are large */
#else
constexpr size_t STACK_BYTES = 64 << 10;
#endif

struct Warp;

/* An asynchronous copy that a thread has issued. */
struct Copy {
    char *to;
    const char *from;
    int bytes, source_bytes;
    bool landed;
};

struct Fiber : Thread {
    Warp *warp;
    char *stack; /* NULL: has not begun, or has ended */
#ifdef EMULATE_UCONTEXT
    ucontext_t context;
#else
    void *stack_pointer;
#endif
    const char *operation; /* where it waits, for messages */
    Site site;
    std::vector<Copy> copies;   /* issued and not waited for, oldest first */
    std::vector<size_t> groups; /* for each committed group: how many of `copies` lie before its end */
    void *asan_stack;
};

/* The work of a warp operation, done by the last lane that arrives, for all lanes of the mask. */
typedef void (*Collective)(Warp &warp, uint32_t mask);

struct Warp {
    uint32_t number;
    uint32_t members, ready, waiting, exited; /* a bit a lane */
    Fiber *lanes;
    void *arguments[32]; /* of waiting lanes; they lie on the lanes' own stacks */
    uint32_t masks[32];
    Collective work[32];
};

struct SharedVariable {
    const void *key;
    char *memory;
};

struct Worker {
    Block block;
    Fiber host; /* the stack of whoever launched */
    Fiber fibers[MAX_THREADS];
    Warp warps[MAX_WARPS];
    std::vector<char *> free_stacks;
    int n_threads, n_warps;
    uint32_t ready_warps;
    Warp *warp; /* whose lanes run at present */

    int arrived, exited; /* threads at the barrier, threads that have returned */
    Site barrier;
    int votes, result; /* of __syncthreads_count and its kin */

    char *shared;
    size_t shared_used;
    size_t static_bytes, dynamic_bytes,
        shared_limit; /* of the block's shared memory as ptxas and the driver count it */
    SharedVariable variables[MAX_SHARED_VARIABLES];
    int n_variables;

    uint64_t random_state, switch_mask;
    bool random, descending;
    enum { AT_ISSUE, AT_WAIT, EITHER } copies_land;

    void (*call)(const void *arguments);
    const void *arguments;
    EmulateCounts counts;
    const void *host_stack; /* for AddressSanitizer */
    size_t host_stack_bytes;
};

extern __thread Worker *worker;

inline Fiber *current_fiber() { return static_cast<Fiber *>(current_thread); }

/* Ends the program with a message that says where, in which thread, with which seed. */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
constexpr int FAILED = 86; /* exit status of fail() and of a program in which the checker reported something */

/* xorshift64: good enough to mix schedules. */
inline uint64_t random_next(uint64_t &state) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* splitmix64: a number for each x, as if drawn. */
inline uint64_t hash(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* Settings made by tests and the environment: settings.cpp. */
struct Settings {
    uint64_t seed;
    int workers;
};
Settings &settings();

/* Runs one block of the worker's launch to its end: scheduler.cpp. */
void run_block(Worker &w);
/* Takes part, as the calling lane, in an operation of the lanes in mask, and returns when it has been done. */
void warp_operation(uint32_t mask, Collective work, void *argument, const char *name, Site site);
inline bool in_shared_memory(const Worker &w, const void *p, size_t bytes) {
    return (const char *)p >= w.shared && (const char *)p + bytes <= w.shared + SHARED_ARENA;
}

struct Launch {
    const void *kernel;
    dim3 grid, block;
    size_t shared_bytes, shared_asked; /* dynamic, and what cudaFuncSetAttribute has allowed; 0: was not called */
    void (*call)(const void *arguments);
    std::shared_ptr<const void> arguments;
    size_t arguments_bytes;
    /* A kernel that is no function of the host, but PTX: how to run a block of it, and its static shared memory. */
    void (*run_block)(Worker &w, const Launch &launch);
    const void *code;
    size_t static_bytes;
};
/* ---- runtime.cpp ---- */
/* Checks a launch as the driver does, and queues it. */
cudaError_t launch(Launch launch, cudaStream_t stream);
/* Finds the memory that the device can access at an address: allocations, pinned memory, variables of modules. */
bool find_memory(uint64_t address, uint64_t *begin, uint64_t *end);
void add_device_memory(void *memory, size_t bytes);
/* Returns the memory of a variable of the device from the address of the host's; NULL: they are the same. */
extern void *(*symbol_memory)(const void *symbol);

/* ---- launch.cpp ---- */
void run_launch(const Launch &launch);
uint64_t launches_so_far(); /* the one that runs included */
EmulateCounts launch_totals();

/* ---- streams.cpp ---- */
cudaError_t enqueue_launch(cudaStream_t stream, const Launch &launch);
cudaError_t enqueue_copy(cudaStream_t stream, void *to, const void *from, size_t bytes);
cudaError_t enqueue_fill(cudaStream_t stream, void *to, int value, size_t bytes);
void synchronize_device();
bool waits_for_pageable_copy();

/* ---- capture.cpp: errors are set, and invalidate the captures that they concern ---- */
bool is_capturing(cudaStream_t stream);
cudaError_t capture_allows_unsafe();
cudaError_t capture_error(cudaStream_t stream, cudaError_t status); /* of a call for this stream */

bool is_lost(); /* a kernel has stopped with a trap */
void lose_device();

/* ---- errors.cpp ---- */
cudaError_t set_error(cudaError_t status); /* what cudaGetLastError will say; returns it */

/* ---- card.cpp ---- */
const char *card_name();
int card_devices();
size_t card_memory(); /* bytes */
size_t card_available();
void card_take_memory(size_t bytes);
void card_release_memory(size_t bytes);
int card_multiprocessors();
int card_capability();
size_t card_shared_limit(); /* bytes that a block may ask for */
bool memory_call_fails();   /* counts a call that can return cudaErrorMemoryAllocation; true: this one must */
cudaError_t load_code(const void *kernel, bool captured = false);
cudaError_t make_context();
cudaError_t take_graph(size_t kernels, size_t *bytes);
void release_graph(size_t bytes);
bool graph_launch_fails();

} // namespace emulate
