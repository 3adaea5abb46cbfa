#include "train/parallel/probe.h"

#include "train/parallel/ranks.h"

enum { FEW = 64 };                             /* numbers of an exchange that is all latency */
static const double ENOUGH = 0.1, AT_MOST = 1; /* seconds of one measurement; of all of them, for each kind */

static void exchange_bucket(const Reducer *r) {
    FlatRange whole = reducer_bucket(r, 0), piece = reducer_piece(r, 0, r->group->rank);
    Tensor all = flat_part(r->gradients, whole), mine = flat_part(r->gradients, piece);
    group_reduce_scatter(r->group, r->device, mine, all, REDUCE_SUM);
    group_all_gather(r->group, r->device, all, mine);
}

static void exchange_few(const Reducer *r) {
    group_all_reduce(r->group, r->device, flat_part(r->gradients, (FlatRange){0, FEW}), REDUCE_SUM);
}

/* Returns the seconds that one exchange takes, by the first rank's clock: more of them at once, until that is exact. */
static double time_of(const Reducer *r, void (*exchange)(const Reducer *reducer)) {
    double start = seconds_now(), seconds = 0;
    exchange(r); /* the first has connections to make */
    r->device->synchronize(r->device);
    for (int64_t times = 1; seconds < ENOUGH; times *= 2) {
        double begin = seconds_now(), both[2];
        for (int64_t i = 0; i < times; i++) exchange(r);
        r->device->synchronize(r->device);
        double now = seconds_now();
        both[0] = now - begin, both[1] = now - start;
        ranks_share(both, sizeof both);
        seconds = both[0];
        if (seconds >= ENOUGH || both[1] >= AT_MOST) return seconds / (double)times;
    }
    return seconds;
}

Link probe_link(const Reducer *r) {
    FlatRange whole = reducer_bucket(r, 0);
    double bytes = 2 * link_bytes(r->group->size, sizeof(float) * (double)(whole.end - whole.begin));
    double latency = time_of(r, exchange_few), seconds = time_of(r, exchange_bucket) - 2 * latency;
    return link_measured(bytes / (seconds > 0 ? seconds : latency), latency);
}
