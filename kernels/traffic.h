/* The bytes that operations move between a card's memory and its L2 cache, for a cache of any size.
 *
 * The door tells which memory every call reads and writes. A Traffic keeps the pieces of that memory in the order of
 * their last use: a stack, in which a cache of n pieces holds the n on top (Mattson et al., 1970). A piece that is read
 * costs its bytes in every cache of at most as many pieces as lie above it. A piece that is written costs them once it
 * leaves the cache; a cache spares that which has held it since it was written before (Thompson and Smith, 1989), so
 * the next write of it is charged. */
#pragma once

#include "kernels/tensor.h"

/* The kernel of a call that an access belongs to: its main ones; another that passes over the numbers after those; the
 * pass of a GELU where no product has it as its epilogue. */
typedef enum { TRAFFIC_MAIN, TRAFFIC_PASS, TRAFFIC_GELU, TRAFFIC_KERNELS } TrafficKernel;

/* Memory that a call reads, writes or both. */
typedef struct {
    const void *at;
    size_t span;  /* bytes that lie there */
    double bytes; /* read, or written, or each; of more than lie there, again from the beginning */
    bool reads, writes;
    bool again; /* by another kernel of the call: the device's counters have these bytes once */
    TrafficKernel kernel;
} TrafficAccess;

/* A product of matrices, [m, k] by [k, n]. */
typedef struct {
    int64_t m, n, k;
    double bytes;   /* read and written of each number of the result */
    bool unaligned; /* rows of an operand are no multiple of 8 numbers */
    double calls;
} TrafficProduct;

enum { TRAFFIC_PIECE = 1 << 18, TRAFFIC_STEP = 1 << 21, TRAFFIC_STEPS = 64, TRAFFIC_PRODUCTS = 64 };

/* The calls of an operation. bytes[kernel][i] move where the cache has at most i TRAFFIC_STEP, and not where it has one
 * more; the last move whatever it has. */
typedef struct {
    double counted; /* as in the device's counters */
    double bytes[TRAFFIC_KERNELS][TRAFFIC_STEPS + 1];
    TrafficProduct products[TRAFFIC_PRODUCTS]; /* different ones; of more, only so many are kept */
    int n_products;
} OpTraffic;

typedef struct Traffic Traffic;

/* Returns the traffic of so many operations, with an empty cache. */
Traffic *traffic_open(int n_ops);
void traffic_close(Traffic *traffic);
/* Forgets the calls, but not what the cache holds. */
void traffic_reset(Traffic *traffic);
void traffic_add(Traffic *traffic, int op, const TrafficAccess *accesses, int n);
/* Adds a product, whose calls are not read. */
void traffic_add_product(Traffic *traffic, int op, TrafficProduct product);
const OpTraffic *traffic_of(const Traffic *traffic, int op);
/* Returns the bytes that one of the operation's kernels moves through a cache of some bytes. */
double traffic_bytes(const OpTraffic *traffic, TrafficKernel kernel, double cache);
