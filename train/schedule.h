/* Schedules of the learning rate: pure functions of the progress of a run, so that a resumed run needs no state of
 * them. */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include "base/base.h"

/* Returns the learning rate's multiplier after k updates: k / max(1, w) for k < w, then
 * 0.5 (1 + cos(pi (k-w) / max(1, n-w))). */
double schedule_cosine(int64_t k, int64_t warmup, int64_t total);
/* Returns half a cosine, from `from` at share 0 to `to` at share 1; beyond 1 the cosine comes back. */
double schedule_between(double from, double to, double share);

#endif
