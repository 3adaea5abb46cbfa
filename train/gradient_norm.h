/* The norm of a step's gradients, whose squares are summed while gradients that the pass has just finished are still in
 * the cache. It has the same bits whenever they are summed. */
#pragma once

#include "model/params.h"

enum { NORM_RUNS = 4 };

typedef struct {
    Device *device;
    Tensor gradients; /* flat */
    const Segment *segments;
    int n_segments;
    Tensor squares; /* of sum_squares, on the device */
    /* Runs of gradients that are told of without a gap, from the last to the first: elements from `final` on are final,
     * the squares of parts that begin at elements from .. to - 1 are summed. */
    struct {
        int64_t final, from, to;
    } runs[NORM_RUNS];
    int n_runs;
} GradientNorm;

GradientNorm gradient_norm_open(Device *device, Tensor gradients, const Segment *segments, int n_segments);
void gradient_norm_close(GradientNorm *norm);
/* Begins a norm. No gradient is final. */
void gradient_norm_begin(GradientNorm *norm);
/* Pass.finished, whose context is a GradientNorm. Sums the squares of what is final, if that is worth a call. */
void gradient_norm_finished(void *norm, int64_t begin, int64_t end);
/* Writes the norm to `out` f32 [1] as finish_norm does. All gradients are final. */
void gradient_norm_finish(GradientNorm *norm, Tensor out, Tensor loss_scale);
