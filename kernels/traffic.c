#include "kernels/traffic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum { PER_STEP = TRAFFIC_STEP / TRAFFIC_PIECE, DEPTH = TRAFFIC_STEPS * PER_STEP, NEVER = DEPTH, SLOT_BITS = 14 };

/* The pieces in the order of their last use, the last first; at most DEPTH, below which no cache reaches. */
struct Traffic {
    int n, n_ops;
    uint32_t pieces[DEPTH];
    uint16_t since[DEPTH];          /* the deepest that each has lain since it was written; NEVER: it has not been */
    uint16_t slots[1 << SLOT_BITS]; /* how many of the pieces fall on each: most that are sought are not there */
    OpTraffic *ops;
};

Traffic *traffic_open(int n_ops) {
    Traffic *traffic = xcalloc(1, sizeof *traffic);
    traffic->n_ops = n_ops;
    traffic->ops = xcalloc((size_t)n_ops, sizeof *traffic->ops);
    return traffic;
}

void traffic_close(Traffic *traffic) {
    if (traffic) free(traffic->ops);
    free(traffic);
}

void traffic_reset(Traffic *traffic) { memset(traffic->ops, 0, (size_t)traffic->n_ops * sizeof *traffic->ops); }

const OpTraffic *traffic_of(const Traffic *traffic, int op) { return &traffic->ops[op]; }

static uint16_t *slot_of(Traffic *t, uint32_t piece) { return &t->slots[(piece * 2654435761u) >> (32 - SLOT_BITS)]; }

/* Returns how many pieces lie above a piece; n if it is not there. */
static int find(Traffic *t, uint32_t piece) {
    int depth = *slot_of(t, piece) ? 0 : t->n;
    while (depth < t->n && t->pieces[depth] != piece) depth++;
    return depth;
}

/* Moves a piece to the top. Returns how many lay above it, at most DEPTH, and the deepest since it was written. */
static int touch(Traffic *t, uint32_t piece, int *since) {
    int depth = find(t, piece);
    bool known = depth < t->n;
    *since = known ? t->since[depth] : NEVER;
    if (!known && t->n == DEPTH) --*slot_of(t, t->pieces[--t->n]); /* the lowest makes room */
    if (!known) ++*slot_of(t, piece), depth = t->n++;
    memmove(t->pieces + 1, t->pieces, (size_t)depth * sizeof *t->pieces);
    memmove(t->since + 1, t->since, (size_t)depth * sizeof *t->since);
    t->pieces[0] = piece;
    return known ? depth : NEVER;
}

/* Adds bytes that every cache of at most `depth` pieces moves. */
static void charge(double *bytes, int depth, double moved) { bytes[depth / PER_STEP] += moved; }

static void access_piece(Traffic *t, double *bytes, uint32_t piece, double moved, const TrafficAccess *a) {
    int since, depth = touch(t, piece, &since);
    if (depth > since) since = depth;
    if (a->reads) charge(bytes, depth, moved);
    if (a->writes) charge(bytes, since, moved), since = 0;
    t->since[0] = (uint16_t)since;
}

/* Charges pieces that a walk over more than DEPTH of them comes to between its first DEPTH and its last, none of which
 * any cache holds then. Returns their bytes. `left` are the walk's at the beginning of a piece. */
static double skip_middle(double *bytes, const TrafficAccess *a, double left) {
    double skipped = left / TRAFFIC_PIECE - DEPTH - 1;
    if (skipped < 1) return 0;
    skipped = (double)(int64_t)skipped * TRAFFIC_PIECE;
    charge(bytes, NEVER, (a->reads + a->writes) * skipped);
    return skipped;
}

static void add_access(Traffic *t, double *bytes, const TrafficAccess *a) {
    int walked = 0;
    double left = a->bytes;
    for (size_t at = 0; left > 0; walked++) {
        uintptr_t address = (uintptr_t)a->at + at, end = (address / TRAFFIC_PIECE + 1) * TRAFFIC_PIECE;
        double rest = (double)(a->span - at);
        if (walked == DEPTH + 1) {
            double skipped = skip_middle(bytes, a, fmin(rest, left));
            address += (uintptr_t)skipped, end += (uintptr_t)skipped, left -= skipped;
            rest -= skipped;
        }
        double part = fmin((double)(end - address), fmin(rest, left));
        access_piece(t, bytes, (uint32_t)(address / TRAFFIC_PIECE), part, a);
        left -= part;
        at = end - (uintptr_t)a->at;
        if (at >= a->span) at = 0, walked = -1; /* round again */
    }
}

void traffic_add(Traffic *t, int op, const TrafficAccess *accesses, int n) {
    for (const TrafficAccess *a = accesses; a < accesses + n; a++) {
        if (!a->at || !a->span) continue;
        if (!a->again) t->ops[op].counted += (a->reads + a->writes) * a->bytes;
        add_access(t, t->ops[op].bytes[a->kernel], a);
    }
}

void traffic_add_product(Traffic *t, int op, TrafficProduct product) {
    OpTraffic *to = &t->ops[op];
    for (TrafficProduct *p = to->products; p < to->products + TRAFFIC_PRODUCTS; p++) {
        bool same = p->m == product.m && p->n == product.n && p->k == product.k && p->bytes == product.bytes &&
                    p->unaligned == product.unaligned;
        if (!same && p < to->products + to->n_products) continue;
        product.calls = p->calls + 1;
        *p = product;
        if (!same) to->n_products++;
        return;
    }
}

/* Between two steps the bytes are taken to fall in a line. */
double traffic_bytes(const OpTraffic *traffic, TrafficKernel kernel, double cache) {
    double sum = 0, steps = cache / TRAFFIC_STEP;
    for (int i = 0; i < TRAFFIC_STEPS; i++) {
        double missed = i + 1 - steps;
        if (missed > 0) sum += (missed < 1 ? missed : 1) * traffic->bytes[kernel][i];
    }
    return sum + traffic->bytes[kernel][TRAFFIC_STEPS];
}
