/* The time of work on a machine, by arithmetic that can be followed.
 *
 * A call of an operation takes the larger of
 *   FLOPs / (sustained share * the card's rate for its type)    and    bytes / (sustained share * the bandwidth),
 * or, on a device that --calibrate has measured, over the rates that calls of this size have reached; the launches of
 * its kernels are added. Where a dry device has followed the work, bytes that the L2 holds move at its rate, products
 * take the time of their shapes (cost/product.h), and passes of their own are added: sums of biases, GELUs that are no
 * product's epilogue. A step takes the sum over its operations and the copies of its batches, or the time to fill
 * them if that is longer. */
#pragma once

#include "cost/machine.h"
#include "cost/work.h"

typedef enum { BY_COMPUTE, BY_MEMORY, BY_LAUNCHES, BY_COPY, BY_LOADER, BY_EXCHANGE } Bound;
extern const char *const cost_bound_names[];
/* bytes/s that one worker of the loader fills. */
extern const double cost_loader_rate;
/* bytes/s that a checkpoint is written at. */
extern const double cost_disk_rate;

typedef struct {
    double compute, memory, launches; /* seconds of each alone */
    double seconds;                   /* max(compute, memory) + launches, where there are no passes of their own */
    Bound bound;                      /* the largest of the three */
} OpTime;

typedef struct {
    OpTime ops[OP_COUNT];
    double parts[BY_LAUNCHES + 1]; /* seconds of the operations bound by compute, of those bound by memory; launches */
    double copy, loader;           /* seconds; the loader's at the same time as all others */
    double seconds;                /* the larger of the loader's and the sum of the others */
    double flops, mfu;
    Bound bound;
} WorkTime;

OpTime cost_of_op(const Machine *machine, int op, const OpWork *work);
WorkTime cost_of_work(const Machine *machine, const Work *work);
/* Returns the seconds of the operations at the card's stated rates, its whole bandwidth and its whole L2, with launches
 * for nothing: no program that does these operations in this order can be faster. */
double cost_floor(const Machine *machine, const Work *work);
