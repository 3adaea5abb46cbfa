/* All that the ranks of a step exchange: gradients, running statistics, the results of micro-batches, and what the host
 * of each knows of its own. */
#pragma once

#include "data/batch.h"
#include "model/model.h"
#include "train/parallel/shards.h"
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
    bool sharded;
    float *host;       /* exchange_facts_count numbers */
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

/* Begins a step: no gradient is final, and no micro-batch has moved running statistics. */
void exchange_begin(Exchange *exchange);
/* Prepare the running statistics for the pass of a micro-batch, and take from its gradients what it adds to them. */
void exchange_before_pass(Exchange *exchange);
void exchange_after_pass(Exchange *exchange, int64_t micro);
/* Makes gradients and running statistics those of the whole step. If the optimizer's state is divided, a rank gets the
 * gradients that it needs, or all. */
void exchange_gradients(Exchange *exchange, bool all);

/* Returns the floats that a row of results has for facts. */
int64_t exchange_facts_count(int64_t micro_batches, int ranks);
/* Adds up results f32 [n + exchange_facts_count] on the device over the ranks, of which the last are the facts: those
 * of this rank, which become those of all. */
void exchange_results(Exchange *exchange, Tensor results, StepFacts *facts);
/* Begins to measure the ranks' speeds anew. */
void exchange_forget_speeds(Exchange *exchange);

/* Replace numbers by their sums over the ranks: a f32 tensor on the device, doubles on the host to 48 bits. */
void exchange_sum(Exchange *exchange, Tensor numbers);
void exchange_sum_doubles(Exchange *exchange, double *values, int64_t n);

/* Collects the moments of all ranks, of which only the first gets them. */
void exchange_collect(Exchange *exchange, Tensor m, Tensor v, float *whole_m, float *whole_v);

/* Writes the norm as gradient_norm_finish does, of gradients that are divided. */
void exchange_norm(Exchange *exchange, Tensor norm, Tensor squares);
/* Updates the parameters of this rank and gathers those of all. */
void exchange_update(Exchange *exchange, AdamWBuffers buffers, Tensor norm, AdamW adamw, Muon muon);
