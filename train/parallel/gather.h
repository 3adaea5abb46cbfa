/* The parameters of all ranks, gathered from those that have updated them (shards.h) under the next pass: what blocks
 * read comes in the second queue while earlier blocks compute, the rest before the pass begins. With 16-bit copies the
 * blocks' matrices come as copies alone; what blocks read as f32 comes together, before the pass. The f32 weights of
 * others' pieces are then old until shards_gather. */
#pragma once

#include "train/parallel/shards.h"

typedef struct {
    const Shards *shards;
    Tensor weights, copies; /* flat; copies none: all is f32 */
    bool *late;             /* [n_buckets] read by blocks alone */
    bool halves;            /* of late buckets only the copies are gathered */
    /* The rows of ROW elements of the flat buffer that blocks read as f32 and that lie in late buckets: i32 [n] on the
     * device, all of them and, -1 for the others, those that this rank has updated; a buffer for them f32 [n, ROW]. */
    Tensor rows, own, packed;
    int awaited; /* late buckets up to this one have been waited for */
} Gather;

Gather gather_open(const Shards *shards, const ParamTable *params, Tensor weights, Tensor copies);
void gather_close(Gather *gather);
/* Queues all of it. What is read in front of blocks has come for what is queued next. */
void gather_begin(Gather *gather);
/* Pass.needed, whose context is a Gather. */
void gather_needed(void *gather, int64_t begin, int64_t end);
/* Waits for what nobody needed. */
void gather_end(Gather *gather);
