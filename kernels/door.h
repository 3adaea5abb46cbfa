/* Every door function checks the tensors, counts the work and calls the device, in this order. The door functions are
 * in ops_*.c; ops.h says what each operation computes.
 *
 * FLOPs: a multiply-add is two; an exponential, a square root or a random number is one. Bytes: each tensor that is
 * read or written counts once, one that is accumulated into counts twice. Each call lists its tensors in the order in
 * which its kernels need them: their bytes are the call's, and a dry device follows them through caches. */
#pragma once

#include "kernels/ops_table.h"

/* Dies, with the names of the operation and the tensor, unless t is `dtype` [rows, columns]; columns 0: rank 1; -1: any
 * size. */
void door_expect(const char *op, const char *name, Tensor t, DType dtype, int64_t rows, int64_t columns);
/* Does the same for an optional tensor. */
void door_expect_optional(const char *op, const char *name, Tensor t, DType dtype, int64_t rows, int64_t columns);
void door_expect_probability(const char *op, Dropout drop);
void door_expect_loss_scale(const char *op, Tensor loss_scale);
/* Returns the type of t, which is the type of all activations of the call: f32, or the device's 16-bit type. Dies if t
 * has any other type. */
DType door_activation_type(const Device *device, const char *op, const char *name, Tensor t);

/* Return an access to a whole tensor, which may be absent: reading, writing, adding. */
static inline TrafficAccess door_reads(Tensor t) {
    size_t bytes = tensor_bytes(t);
    return (TrafficAccess){.at = t.data, .span = bytes, .bytes = (double)bytes, .reads = true};
}
static inline TrafficAccess door_writes(Tensor t) {
    TrafficAccess access = door_reads(t);
    access.reads = false, access.writes = true;
    return access;
}
static inline TrafficAccess door_adds(Tensor t) {
    TrafficAccess access = door_reads(t);
    access.writes = true;
    return access;
}
/* Returns an access to so many bytes of rows that only the device knows. */
static inline TrafficAccess door_part(TrafficAccess access, double bytes) {
    access.bytes = access.at ? bytes : 0;
    return access;
}
/* Returns an access to bytes that another kernel of the call has counted. */
static inline TrafficAccess door_again(TrafficKernel kernel, TrafficAccess access) {
    access.again = true, access.kernel = kernel;
    return access;
}

typedef struct {
    const TrafficAccess *each;
    int n;
} Accesses;
#define ACCESSES(...)                                                                                                  \
    (Accesses) {                                                                                                       \
        (const TrafficAccess[]){__VA_ARGS__}, sizeof((const TrafficAccess[]){__VA_ARGS__}) / sizeof(TrafficAccess)     \
    }

OpCounter *door_count(Device *device, int op, double flops, Accesses accesses);
/* Tells a dry device of a matrix product. */
void door_product(Device *device, int op, TrafficProduct product);
/* Counts and dispatches one call; with Device.profile also times it, by the device's own clock if it has one. */
#define DISPATCH(op, flops, accesses, ...)                                                                             \
    do {                                                                                                               \
        OpCounter *counter = door_count(device, OP_##op, flops, accesses);                                             \
        if (!device->ops) break;                                                                                       \
        double start = device->profile ? seconds_now() : 0;                                                            \
        if (device->profile && device->stopwatch) device->stopwatch(device, NULL);                                     \
        device->ops->op(__VA_ARGS__);                                                                                  \
        if (device->profile && device->stopwatch) device->stopwatch(device, &counter->seconds);                        \
        if (!device->profile || device->stopwatch) break;                                                              \
        device->synchronize(device);                                                                                   \
        counter->seconds += seconds_now() - start;                                                                     \
    } while (0)
