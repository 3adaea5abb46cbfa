#include "train/schedule.h"

#include <math.h>

double schedule_between(double from, double to, double share) {
    return to + (from - to) * 0.5 * (1 + cos(3.14159265358979323846 * share));
}

double schedule_cosine(int64_t k, int64_t warmup, int64_t total) {
    if (k < warmup) return (double)k / (double)(warmup > 1 ? warmup : 1);
    double span = (double)(total - warmup > 1 ? total - warmup : 1);
    return fmax(0, schedule_between(1, 0, (double)(k - warmup) / span));
}

double schedule_at(const Schedule *schedule, int64_t k) {
    int64_t warmup = schedule->warmup, total = schedule->total;
    if (k < warmup && schedule->warmup_from_zero) return (double)k / (double)warmup;
    if (k < warmup) return (double)(k + 1) / (double)(warmup + 1);
    double begin = (double)warmup, end = (double)total;
    if (schedule->kind == SCHEDULE_WSD) begin = fmax(begin, end * (1 - schedule->decay_share));
    if (k >= total) return schedule->minimum;
    if ((double)k <= begin) return 1;
    double share = ((double)k - begin) / (end - begin);
    if (schedule->kind == SCHEDULE_COSINE) return schedule_between(1, schedule->minimum, share);
    return 1 + (schedule->minimum - 1) * share;
}
