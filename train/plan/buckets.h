/* The buckets of a step's exchange, and how far the passes are when each is sent, or read: recorded from passes on the
 * dry device through the very code that sends them (train/parallel/reduce.h). */
#pragma once

#include "cost/timeline.h"
#include "train/plan/plan.h"

/* A bucket, and the work of a pass up to a moment of it. */
typedef struct {
    int64_t elements;
    bool gathered; /* TimedBucket.gathered */
    Work final;    /* until its gradients are final */
    Work needed;   /* until its parameters are read */
} BucketWork;

/* What a bucket's moments are in a pass of a micro-batch. */
typedef struct {
    BucketWork *of; /* [n] in the order in which they are sent */
    int n;
    Work pass;       /* all of it */
    bool statistics; /* there are running statistics, which are exchanged too */
} BucketWorks;

/* Records the buckets that so many ranks exchange in a step whose last micro-batch is of the kind; buckets_free. */
BucketWorks buckets_record(const TrainSpec *spec, const Batch *batch, int ranks, PassKind kind);
void buckets_free(BucketWorks *buckets);
/* Times the buckets on a machine, with the traffic of `like`. Sets the parts' pass and buckets; free(parts->buckets).
 */
void buckets_time(const BucketWorks *buckets, const Machine *machine, const Work *like, StepParts *parts);
/* Returns what a card computes in a step of micro-batches like this one, by the machine's rates, for advice on a run
 * whose other micro-batches are not known: free(parts.buckets). The loader is left out. */
StepParts buckets_step(const TrainSpec *spec, const Batch *batch, const Machine *machine, int ranks);
