/* Measures what connects the ranks of a run, by the exchanges that its steps will have. */
#pragma once

#include "cost/link.h"
#include "train/parallel/reduce.h"

/* Returns the link between the ranks: its rate by reduce_scatter and all_gather of the first bucket, the latency by
 * all_reduces of a few numbers; the same on all ranks. Takes 2 seconds, or three exchanges if that is longer. The
 * gradients must be zeros, and stay so. */
Link probe_link(const Reducer *reducer);
