/* Schedules of the learning rate: pure functions of the progress of a run, so that a resumed run needs no state of
 * them. */
#pragma once

#include "base/base.h"

/* Returns the learning rate's multiplier after k updates: k / max(1, w) for k < w, then
 * 0.5 (1 + cos(pi (k-w) / max(1, n-w))). */
double schedule_cosine(int64_t k, int64_t warmup, int64_t total);

/* COSINE: half a cosine from the peak to the minimum. WSD (warm-up, stable, decay): the peak until the last decay_share
 * of the run, then a line to the minimum. LINEAR: a line from the peak to the minimum. */
typedef enum { SCHEDULE_COSINE, SCHEDULE_WSD, SCHEDULE_LINEAR } ScheduleKind;

/* A schedule with a minimum, in shares of the peak. */
typedef struct {
    ScheduleKind kind;
    int64_t warmup, total; /* updates; the minimum is reached after `total` of them */
    bool warmup_from_zero; /* the first update of a warm-up has no rate */
    double warmup_share;   /* of `total`, rounded up: how the engine sets a warm-up of 0 */
    double minimum;        /* 0 to 1 */
    double decay_share;    /* of WSD: 0 to 1 of `total`, at most what the warm-up leaves */
} Schedule;

/* Returns the learning rate's multiplier after k updates: k / warmup from zero, or (k + 1) / (warmup + 1), for k <
 * warmup; then the kind's curve from 1 at k = warmup to the minimum at k = total, and the minimum from there on. */
double schedule_at(const Schedule *schedule, int64_t k);
/* Returns half a cosine, from `from` at share 0 to `to` at share 1; beyond 1 the cosine comes back. */
double schedule_between(double from, double to, double share);
