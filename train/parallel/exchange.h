/* All that the ranks of a step exchange: gradients, running statistics, the results of micro-batches, and what the host
 * of each knows of its own. */
#pragma once

#include "data/batch.h"
#include "model/model.h"
#include "train/parallel/gather.h"
#include "train/parallel/statistics.h"

/* The facts of a rank's micro-batches that the others do not know. */
typedef struct {
    double *counts; /* [micro-batches of a step, BATCH_MAX_COUNTS] Batch.counts */
    double flops;
    double stop;   /* not 0: a signal asks for the end */
    double tokens; /* of this rank's micro-batches */
    double busy;   /* seconds in which this rank did not exchange */
} StepFacts;

/* The speed of a rank since exchange_forget_speeds. */
typedef struct {
    double tokens, busy;
} RankSpeed;

typedef struct {
    Group *group;
    Device *device;
    Model *model;
    int64_t micro_batches;       /* of a step */
    const ParamUpdates *updates; /* of the run */
    Reducer reducer;
    Statistics statistics;
    Shards shards;
    Gather gather;
    bool sharded;
    bool stale;        /* other ranks have newer weights than this one */
    Tensor facts;      /* f32 on the device */
    float *host;       /* the same numbers */
    RankSpeed *speeds; /* [ranks] */
    double before;     /* Group.seconds when the speeds were forgotten */
} Exchange;

typedef struct {
    int64_t micro_batches;
    bool muon, sharded;
    double bucket_mb; /* of Reducer */
    DType half;       /* the same */
} ExchangeOptions;

/* Opens an exchange for a model whose gradients lie on the device; free it with exchange_close. */
Exchange *exchange_open(Group *group, Device *device, Model *model, const ExchangeOptions *options);
void exchange_close(Exchange *exchange);
/* Takes what a run updates: segments, and the buffers of params_moving. They must outlive their use. */
void exchange_use(Exchange *exchange, const ParamUpdates *updates, const Segment *moving, int n_moving);

/* Begins a step: no micro-batch has moved running statistics. */
void exchange_begin(Exchange *exchange);
/* Prepares the pass of a micro-batch, the first or the last of a step or neither: running statistics; weights that were
 * updated by other ranks, which the pass then needs exchange_needs for; buckets, none of which is final. Call
 * exchange_end_pass behind it. Both may be recorded. */
void exchange_before_pass(Exchange *exchange, bool first, bool last);
void exchange_end_pass(Exchange *exchange, bool first);
/* Sets Pass.needed, if weights come during the pass. */
void exchange_needs(Exchange *exchange, Pass *pass);
/* Takes from the gradients of a micro-batch what it adds to running statistics. */
void exchange_after_pass(Exchange *exchange, int64_t micro);
/* Makes gradients and running statistics those of the whole step. If the optimizer's state is divided, a rank gets the
 * gradients that it needs, or all. May be recorded if there are no running statistics. */
void exchange_gradients(Exchange *exchange, bool all);

/* Returns the floats that facts are on the device. */
int64_t exchange_facts_count(int64_t micro_batches, int ranks);
/* Adds up the facts of all ranks: those of this rank become those of all. */
void exchange_facts(Exchange *exchange, StepFacts *facts);
/* Begins to measure the ranks' speeds anew. */
void exchange_forget_speeds(Exchange *exchange);

/* Replace numbers by their sums over the ranks: a f32 tensor on the device, doubles on the host to 48 bits. */
void exchange_sum(Exchange *exchange, Tensor numbers);
void exchange_sum_doubles(Exchange *exchange, double *values, int64_t n);

/* Collects the moments of all ranks, of which only the first gets them. */
void exchange_collect(Exchange *exchange, Tensor m, Tensor v, float *whole_m, float *whole_v);

/* Writes the norm as gradient_norm_finish does, of gradients that are divided. */
void exchange_norm(Exchange *exchange, Tensor norm, Tensor squares);
/* Updates the parameters of this rank; those of others are then old, until the next pass or exchange_weights. */
void exchange_update(Exchange *exchange, AdamWBuffers buffers, Tensor norm, AdamW adamw, Muon muon);
/* Gathers the weights of all ranks, if this one has old ones. */
void exchange_weights(Exchange *exchange);
