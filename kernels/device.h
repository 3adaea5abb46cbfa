/* A device: memory, a stream of operations, and the counters that make every claim of speed an exact one.
 *
 * cpu   computes (C, OpenMP, oneDNN GEMM)
 * cuda  computes on an NVIDIA GPU (hand-written kernels, cuBLASLt GEMM)
 * dry   computes nothing: operations only check shapes and count, so a whole training step runs in microseconds and
 *       yields its exact memory, FLOPs and bytes
 *
 * Models never ask which device they are on: they call the operations of ops.h. */
#ifndef KERNELS_DEVICE_H
#define KERNELS_DEVICE_H

#include "base/base.h"
#include "kernels/tensor.h"

typedef struct Device Device;
typedef struct DeviceOps DeviceOps; /* the device's implementations, one pointer an operation: kernels/ops_table.h */

enum { DEVICE_MAX_OPS = 64, DEVICE_SET_BYTES = 64, CALL_SIZES = 24 };

/* Some calls of an operation. */
typedef struct {
    double calls;
    double flops; /* exact arithmetic of the operation, a multiply-add counted as two */
    double bytes; /* what the operation must move to and from memory: each input read once, each output written once */
} CallWork;

typedef struct {
    int64_t calls;
    double flops, bytes;
    double seconds;             /* only with Device.profile */
    CallWork sizes[CALL_SIZES]; /* the same by call_size: large calls are faster for their work than small ones */
} OpCounter;

struct Device {
    const char *name;      /* "cpu", "cuda", "dry" */
    char description[256]; /* "cpu: 2 threads, avx512, oneDNN 2.6.3" */
    char card[32];         /* of a GPU: "L4" */
    char product[64];      /* of a GPU: "NVIDIA L4" */
    size_t total_memory;   /* of a GPU: bytes, whoever has them */
    size_t kept;           /* of a GPU, or under ulimit -v: bytes that a run leaves free, for what comes later */
    char notes[96];        /* of a GPU: what it is made to do, "TF32 enabled, ..." */
    int n_threads;
    const DeviceOps *ops; /* NULL: the dry device */
    bool host_memory;     /* the host can read its memory in place */
    DType half;           /* the 16-bit type that it computes in besides f32; f32: none */
    bool tf32;            /* a GPU that rounds the numbers of f32 matrix products to TF32 */
    bool profile;         /* time every operation */
    OpCounter counters[DEVICE_MAX_OPS];

    /* Memory. Allocations are few and large (one a group); arenas divide them. */
    void *(*allocate)(Device *device, size_t bytes); /* zeroed; dies, naming the size, when there is not enough */
    void (*release)(Device *device, void *memory, size_t bytes);
    void (*upload)(Device *device, void *to, const void *from_host, size_t bytes);
    /* The same while earlier operations still run, for memory that two slots take turns in (slot 0, 1, 0, ...): what
     * was copied two calls ago may be overwritten. Operations called later see it; from_host is free on return. */
    void (*stage)(Device *device, int slot, void *to, const void *from_host, size_t bytes);
    /* A few numbers of 4 bytes (at most DEVICE_SET_BYTES in all), in the order of the operations and without waiting
     * for any. */
    void (*set)(Device *device, void *to, const void *numbers, size_t bytes);
    void (*download)(Device *device, void *to_host, const void *from, size_t bytes); /* waits for what was queued */
    void (*clear)(Device *device, void *memory, size_t bytes);                       /* to zero */
    /* Host memory that downloads reach fast, which is pinned if the system has as much to give. NULL, both, where the
     * host reads the device's memory in place. */
    void *(*allocate_host)(Device *device, size_t bytes);
    void (*release_host)(Device *device, void *memory);
    void (*synchronize)(Device *device);
    /* Called before an operation with NULL and after it with a sum, to which its time is added by the next synchronize.
     * NULL: operations are done when they return, or can be waited for, and the host's clock does. */
    void (*stopwatch)(Device *device, double *seconds);
    size_t (*available)(const Device *device); /* bytes that can still be allocated; NULL: ask the host */
    /* Memory of its own that a device may need besides what it was asked for; NULL: none. First how much more than it
     * has the operations called by work need, of which none is done, so that their tensors need not be there, and any
     * smaller batch of the same; then taken at once. What they need besides is loaded: code, libraries. */
    size_t (*measure)(Device *device, void (*work)(void *argument), void *argument);
    void (*reserve)(Device *device, size_t measured_bytes, size_t staged_bytes); /* largest stage() */
    /* Calls work(argument), which only calls operations and clear; or, if a call with a key of the same bytes has been
     * made before, may repeat what that one queued, at less cost to the host and the device. So the key must hold all
     * that decides the operations and their arguments; what their tensors hold may differ. It pays where the same
     * shapes come again and again: a few of them are remembered. NULL: call it yourself. */
    void (*repeat)(Device *device, const void *key, size_t key_bytes, void (*work)(void *argument), void *argument);
    /* Forgets all that repeat remembers: to be called before memory is released that its operations use. NULL, as
     * repeat: there is nothing. */
    void (*forget)(Device *device);
    /* Who computes convolutions: "cuDNN 9.19.0", or "our own convolutions: ..." and why. It is looked for now, if that
     * has not been done, and added to the description. NULL: nobody else could. */
    const char *(*convolutions)(Device *device);
    /* What it has found fastest so far among ways that give other last bits, as text: free(), NULL: nothing; and takes
     * these without trying. False with the reason: they are another library's, or damaged. NULL, both: all its ways
     * give the same bits. */
    char *(*choices)(const Device *device);
    bool (*choose)(Device *device, const char *text, Error *error);
    void (*close)(Device *device);

    size_t allocated, peak_allocated; /* bytes, now and at most */
    int64_t allocation_calls;
    void *state; /* the device's own */
};

/* Starts the program anew with a shorter time for which waiting threads spin, unless the environment says how long.
 * Call it first in main. */
void cpu_limit_spinning(char **argv);
Device *cpu_device_open(int n_threads); /* 0: all cores */
/* "cpu", "cuda", or "auto": the GPU if there is one. Dies, saying what is missing, if it cannot be had. *why: why it is
 * not the GPU; NULL if it is, or nobody wanted one. no_tf32: f32 products are exact. */
Device *device_open(const char *which, int n_threads, bool no_tf32, const char **why);
/* The index-th GPU; dies if there is none. */
Device *cuda_device_open(int index);
const char *cuda_missing(void); /* why there is no GPU to open; NULL: there is one */
Device *dry_device_open(void);
void device_close(Device *device);

void device_reset_counters(Device *device);
/* The class of a call by its size, in fourths: log4 of its FLOPs or of its bytes, whichever are more. */
int call_size(double flops, double bytes);
/* Adds what another has counted, but for its time; -1: takes it away. */
void counter_add(OpCounter *to, const OpCounter *from, int times);
void device_totals(const Device *device, double *flops, double *bytes);
/* One line an operation, most FLOPs first: calls, FLOPs, bytes, and with `profile` time and achieved rates. */
void device_print_counters(Device *device, void *stdio_file);

/* A stack of tensors in one allocation. On the dry device it has no limit and only its peak matters. */
typedef struct {
    Device *device;
    char *base;
    size_t capacity, used, peak;
    const char *what; /* "activations", for the message when it is full */
} Arena;

Arena arena_open(Device *device, size_t capacity, const char *what);
void arena_close(Arena *arena);
Tensor arena_1d(Arena *arena, DType dtype, int64_t n); /* uninitialised, 64-byte aligned */
Tensor arena_2d(Arena *arena, DType dtype, int64_t rows, int64_t columns);
static inline size_t arena_mark(const Arena *arena) { return arena->used; }
void arena_release(Arena *arena, size_t mark); /* pops all that was pushed since the mark */

#endif
