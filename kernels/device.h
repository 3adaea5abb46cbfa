/* A device: memory, a stream of operations, and exact counters of their work.
 *
 * cpu   computes (C, OpenMP, oneDNN GEMM)
 * cuda  computes on an NVIDIA GPU (hand-written kernels, cuBLASLt GEMM)
 * dry   computes nothing: operations only check shapes and count, so a whole training step runs in microseconds and
 *       yields its exact memory, FLOPs and bytes
 *
 * Models never ask which device they are on: they call the operations of ops.h. */
#pragma once

#include "base/base.h"
#include "kernels/traffic.h"

typedef struct Device Device;
typedef struct DeviceOps DeviceOps; /* the device's implementations, one pointer per operation: kernels/ops_table.h */

enum { DEVICE_MAX_OPS = 72, CALL_SIZES = 24 };

/* Counts of some calls of an operation. */
typedef struct {
    double calls;
    double flops; /* exact arithmetic of the operation, a multiply-add counted as two */
    double bytes; /* what the operation must move to and from memory: each input read once, each output written once */
} CallWork;

typedef struct {
    int64_t calls;
    double flops, bytes;
    double seconds;             /* only with Device.profile */
    CallWork sizes[CALL_SIZES]; /* the same by call_size: large calls reach higher rates than small ones */
} OpCounter;

/* The sensors of a card; NaN: it has no such sensor. */
typedef struct {
    double memory;      /* bytes in use, by all programs */
    double temperature; /* degrees Celsius */
    double power;       /* watts */
    double utilisation; /* per cent of the last fraction of a second in which a kernel ran */
} DeviceSensors;

struct Device {
    const char *name;      /* "cpu", "cuda", "dry" */
    char description[256]; /* "cpu: 2 threads, avx512, oneDNN 2.6.3" */
    char card[32];         /* of a GPU: "L4" */
    char product[64];      /* of a GPU: "NVIDIA L4" */
    size_t total_memory;   /* of a GPU: bytes, used and free */
    size_t headroom;       /* on a GPU or under ulimit -v: bytes that a run leaves free for later needs */
    char notes[96];        /* of a GPU: its settings, "TF32 enabled, ..." */
    int n_threads;
    const DeviceOps *ops; /* NULL: operations only count, as on the dry device */
    bool host_memory;     /* the host can read its memory in place */
    DType half;           /* the 16-bit type that the device computes in beside f32; f32: none */
    bool tf32;            /* a GPU that rounds the numbers of f32 matrix products to TF32 */
    bool profile;         /* time every operation */
    bool uncounted;       /* operations do not count */
    OpCounter counters[DEVICE_MAX_OPS];
    double unaligned_flops; /* of products over rows that are no multiple of 8 numbers */
    Traffic *traffic;       /* of a dry device after device_follow; NULL: not followed */

    /* Memory. Allocations are few and large (one per group); arenas divide them. */
    void *(*allocate)(Device *device, size_t bytes); /* zeroed; dies with the size if there is not enough */
    void (*release)(Device *device, void *memory, size_t bytes);
    /* from_host must stay as it is until the next synchronize or download. */
    void (*upload)(Device *device, void *to, const void *from_host, size_t bytes);
    /* Uploads `head` and behind it from_host, in the order of operations: earlier ones see what was there, later ones
     * the copy. Waits for the copy of two calls ago, and so for what was queued before it. head and from_host may be
     * reused on return. */
    void (*stage)(Device *device, void *to, const void *head, size_t head_bytes, const void *from_host, size_t bytes);
    void (*download)(Device *device, void *to_host, const void *from, size_t bytes); /* waits for what was queued */
    void (*clear)(Device *device, void *memory, size_t bytes);                       /* to zero */
    /* Host memory for fast downloads, pinned if the system allows as much. Both are NULL if the host reads the device's
     * memory in place. */
    void *(*allocate_host)(Device *device, size_t bytes);
    void (*release_host)(Device *device, void *memory);
    void (*synchronize)(Device *device);
    /* Called before an operation with NULL, and after it with a sum to which the next synchronize adds its time. NULL:
     * the host's clock is used. */
    void (*stopwatch)(Device *device, double *seconds);
    size_t (*available)(const Device *device); /* bytes that can still be allocated; NULL: ask the host */
    /* Scratch memory of the device's own; both are NULL if the device needs none. measure returns the extra bytes that
     * the operations called by `work`, and any smaller batch of them, would need, without executing them: their tensors
     * need no memory. measure also loads the code and libraries of these operations. reserve allocates the measured
     * bytes. */
    size_t (*measure)(Device *device, void (*work)(void *argument), void *argument);
    void (*reserve)(Device *device, size_t measured_bytes, size_t staged_bytes); /* largest stage() */
    /* Calls work(argument), which may only call operations and clear, and then again with `ops` NULL, to count: that
     * may be for other rows than are computed. After an earlier call with the same key it may instead of the first call
     * repeat what that one queued, at a lower cost. The key must therefore hold everything that decides the operations
     * and their arguments; the contents of tensors may differ, and so may the lengths of sequences, but for
     * sequences_are_short. The latest keys are remembered. `together`: work has operations between ranks, all of which
     * make this call; then either all repeat what they queued at the same earlier call, or none does, as NCCL demands.
     * NULL: call work directly. */
    void (*repeat)(Device *device, const void *key, size_t key_bytes, bool together, void (*work)(void *argument),
                   void *argument);
    /* Forgets all that repeat remembers. Call it before releasing memory that those operations use. NULL if repeat is.
     */
    void (*forget)(Device *device);
    /* Forgets what it remembers of work between ranks, and such work that is being recorded, without waiting for what is
     * queued: NCCL's communicators end only after the graphs that use them. NULL if repeat is. */
    void (*abandon)(Device *device);
    /* Returns what computes convolutions: "cuDNN 9.19.0", or "our own convolutions: ..." with the reason. Loads the
     * library if that has not been done, and adds the answer to the description. NULL: there is no alternative. */
    const char *(*convolutions)(Device *device);
    /* The autotune cache: the algorithms found fastest so far, among those that differ in the last bits.
     * autotune_cache returns the cache as text, free(), or NULL if it is empty. load_autotune_cache adds the entries of
     * such a text, which are then not timed again; returns false with the reason if the text is from another library
     * version, or damaged. Both are NULL if all algorithms give the same bits. */
    char *(*autotune_cache)(const Device *device);
    bool (*load_autotune_cache)(Device *device, const char *text, Error *error);
    /* Reads the sensors without waiting for operations, in a few milliseconds. NULL: there are none. */
    void (*read_sensors)(Device *device, DeviceSensors *sensors);
    /* A second queue. Operations called between beside(device, true) and beside(device, false) go into it: they begin
     * after all that the first queue has had by then, and run beside what it gets later. mark remembers under a number
     * what the second queue has got so far, and await has the first wait for that. What `work` of repeat puts into the
     * second queue, it must await. NULL: there is one queue, whose order is enough. Called by device_beside and its
     * kin. */
    void (*beside)(Device *device, bool yes);
    void (*mark)(Device *device, int number);
    void (*await)(Device *device, int number);
    /* Copies at once, whatever the queues wait for. NULL: the host writes in place. */
    void (*poke)(Device *device, void *to, const void *from_host, size_t bytes);
    /* Set by a group of ranks, with a context: called again and again while the host waits for operations, with the
     * seconds that it has waited; need not return. NULL: nothing is called. */
    void (*waiting)(void *context, double seconds);
    void *context;
    bool (*agree)(uint64_t value); /* returns whether all ranks have called it with this value; NULL: there are none */
    void (*close)(Device *device);

    size_t allocated, peak_allocated; /* bytes, now and at most */
    int64_t allocation_calls;
    void *state; /* the device's own */
};

Device *dry_device_open(void);
/* Begins to follow what a dry device's operations move between memory and caches, which the resets of its counters do
 * not empty. */
void device_follow(Device *dry);
void device_close(Device *device);
/* Use the second queue, if there is one: see Device.beside. */
void device_beside(Device *device, bool yes);
void device_mark(Device *device, int number);
void device_await(Device *device, int number);

void device_reset_counters(Device *device);
/* Returns the size class of a call: log4 of its FLOPs or of its bytes, whichever is larger. */
int call_size(double flops, double bytes);
void device_totals(const Device *device, double *flops, double *bytes);
/* Returns the bytes that all calls of an operation on a followed dry device move to and from a memory behind a cache of
 * some bytes, with GELUs as passes of their own. */
double device_dram_bytes(const Device *dry, int op, double cache);

/* A stack of tensors in one allocation. On the dry device it has no limit and only measures its peak. */
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
void arena_release(Arena *arena, size_t mark); /* pops everything pushed since the mark */
