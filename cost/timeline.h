/* The time of a step that several cards share: what each computes, and what it waits for.
 *
 * Gradients are sent bucket by bucket (train/parallel/reduce.h) by one stream beside the backward of the last
 * micro-batch: a bucket when it is final and the one before it has been sent. What is left when the backward ends is
 * exposed. If the optimizer's state is divided, parameters are sent bucket by bucket beside the next forward, which
 * waits for those that it is about to read. While NCCL sends, it takes multiprocessors, and computing is slower; its
 * share of the memory's bandwidth is not counted, nor that gradients are rounded for 16 bits, nor that the cards'
 * micro-batches differ. */
#pragma once

#include "cost/link.h"

/* A bucket of the flat buffers, in the order in which its gradients are sent. */
typedef struct {
    double elements;
    double final;  /* seconds of the last micro-batch's pass after which its gradients are final */
    double needed; /* seconds of the first micro-batch's pass after which its parameters are read */
    bool gathered; /* all ranks need its gradients, though the optimizer's state is divided: it holds whole matrices */
} TimedBucket;

/* What a card computes in a step, by itself. Seconds. */
typedef struct {
    double first, later;  /* of the first micro-batch of a step, and of each later one */
    double update;        /* of the norm and the update of all parameters */
    double loader;        /* of filling a micro-batch, at the same time as all else, by all workers of the machine */
    double pass;          /* of the pass that the buckets were timed in */
    TimedBucket *buckets; /* [n_buckets] */
    int n_buckets;
    int multiprocessors; /* 0: not known, so sending slows nothing down */
} StepParts;

/* How the cards share a step. */
typedef struct {
    int ranks;
    int64_t micro_batches; /* of each rank in a step */
    bool divided;          /* --zero 1 */
    int reduce_bytes;      /* of a gradient that is sent: 4, or 2 */
    int parameter_bytes;   /* of a parameter that is sent if the state is divided: 2 with --amp, else 4 */
    int small;             /* all_reduces of few bytes in a step */
} Sharing;

typedef struct {
    double step;         /* seconds of a step; the sum of what follows unless the loader takes longer */
    double compute;      /* as on a card by itself */
    double slowed;       /* by multiprocessors that send */
    double reducing;     /* gradients: what the backward does not hide */
    double gathering;    /* parameters: what the forward does not hide */
    double small;        /* the latency of small exchanges */
    double communicated; /* seconds in which the link is used, hidden or not; no part of the sum */
    double sent;         /* bytes that each rank sends in a step */
} SharedStep;

/* Returns the time of a step. With one rank it is what that computes. */
SharedStep timeline_step(const StepParts *parts, const Link *link, const Sharing *sharing);
/* Returns the tokens a second of all cards over those of as many cards that exchange nothing: 1 at best. */
double timeline_scaling(const StepParts *parts, const Link *link, const Sharing *sharing);
/* Returns the seconds that a step leaves exposed: what it waits for and is slowed down by. */
double timeline_exposed(const SharedStep *time);
