/* Every door function checks the tensors, counts the work and calls the device, in this order. The door functions are
 * in ops_*.c; ops.h says what each operation computes.
 *
 * FLOPs: a multiply-add is two; an exponential, a square root or a random number is one. Bytes: each tensor that is
 * read or written counts once, one that is accumulated into counts twice. */
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

static inline double door_bytes(Tensor t) { return (double)tensor_bytes(t); }

OpCounter *door_count(Device *device, int op, double flops, double bytes);
/* Counts and dispatches one call; with Device.profile also times it, by the device's own clock if it has one. */
#define DISPATCH(op, flops, bytes, ...)                                                                                \
    do {                                                                                                               \
        OpCounter *counter = door_count(device, OP_##op, flops, bytes);                                                \
        if (!device->ops) break;                                                                                       \
        double start = device->profile ? seconds_now() : 0;                                                            \
        if (device->profile && device->stopwatch) device->stopwatch(device, NULL);                                     \
        device->ops->op(__VA_ARGS__);                                                                                  \
        if (device->profile && device->stopwatch) device->stopwatch(device, &counter->seconds);                        \
        if (!device->profile || device->stopwatch) break;                                                              \
        device->synchronize(device);                                                                                   \
        counter->seconds += seconds_now() - start;                                                                     \
    } while (0)
