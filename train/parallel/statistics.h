/* Running statistics of batch norms when several ranks train: every micro-batch of a step moves them, one after the
 * other in the order of the stream, whichever rank computed it.
 *
 * During a pass the statistics lie in the flat gradient buffer (params_moving) and begin as zeros, so that the pass
 * leaves there what the batch adds; the ranks gather these additions and each applies all of them. */
#pragma once

#include "kernels/group.h"
#include "model/params.h"

typedef struct {
    Group *group;
    Device *device;
    const ParamTable *table;
    const Segment *moving;
    int n_moving;
    int64_t count;     /* numbers of all segments */
    Tensor added;      /* f32 [micro-batches of a step, count] on the device: what each adds */
    float *host, *now; /* the same; [count] */
} Statistics;

Statistics statistics_open(Group *group, Device *device, const ParamTable *table, const Segment *moving, int n_moving,
                           int64_t micro_batches);
void statistics_close(Statistics *statistics);
/* Begins a step: nothing has been added. */
void statistics_begin(const Statistics *statistics);
/* Call before and after the pass of a micro-batch. */
void statistics_before_pass(const Statistics *statistics, Tensor gradients);
void statistics_after_pass(const Statistics *statistics, Tensor gradients, int64_t micro);
/* Writes to the gradients' buffer what the additions of all micro-batches make of the statistics in weights. */
void statistics_apply(Statistics *statistics, Tensor gradients, Tensor weights);
