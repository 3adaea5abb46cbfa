/* The optimizer's moments divided among ranks (ZeRO, Rajbhandari et al., 2020, stage 1): each rank has the moments of
 * its pieces of the buckets (reduce.h), updates these parameters, and then all gather them. Muon needs whole matrices,
 * so each of them has one owner, which updates it and sends it to the others. */
#pragma once

#include "train/parallel/reduce.h"

/* Matrices that lie between each other's rows, or one alone. */
typedef struct {
    int first, end; /* of ParamUpdates.matrices */
    FlatRange range;
    int owner;     /* rank */
    int64_t place; /* of the owner: where its momenta begin in m */
} ShardedMatrices;

typedef struct {
    const Reducer *reducer;
    const ParamUpdates *updates;
    int64_t pieces;            /* elements of the own pieces of all buckets */
    int64_t momenta;           /* elements of m behind those: of the own matrices */
    ShardedMatrices *matrices; /* [n_matrices] */
    int n_matrices;
    Segment *segments; /* those of AdamW, cut to the own pieces and counted from the beginning of each */
    int *first;        /* [n_buckets + 1] the first segment of each bucket's piece */
} Shards;

/* Deals out the parameters, and has the buckets that hold matrices gathered (Reducer.gathered). Of updates only the
 * matrices are read. */
Shards shards_open(Reducer *reducer, const ParamUpdates *updates);
/* Takes the segments of a run, which must have the same matrices and outlive their use: rows may be frozen between. */
void shards_use(Shards *shards, const ParamUpdates *updates);
void shards_close(Shards *shards);
/* Return the elements of this rank's m and v. */
int64_t shards_m_count(const Shards *shards);
int64_t shards_v_count(const Shards *shards);
/* Updates the own parameters as adamw_update and muon_update do. buffers.m and v have those counts. */
void shards_update(const Shards *shards, AdamWBuffers buffers, Tensor norm, Tensor loss_scale, AdamW adamw, Muon muon);
/* Sends the matrices of Muon from their owners to all others. */
void shards_send_matrices(const Shards *shards, Tensor params);
/* Sends the own parameters to all others. */
void shards_gather(const Shards *shards, Tensor params);
/* Collects the moments of all ranks in whole flat buffers on the host. Every rank calls it; only those that give
 * buffers get them. */
void shards_collect(const Shards *shards, Tensor m, Tensor v, float *whole_m, float *whole_v);
/* Takes the own moments from whole flat buffers on the host. */
void shards_take(const Shards *shards, Tensor m, Tensor v, const float *whole_m, const float *whole_v);
