/* The learning rate over a run. One schedule so far: linear warm-up, then half a cosine down to zero, a pure function
 * of the updates already taken, so that a resumed run needs no state of it. */
#include <math.h>

#include "train/loop.h"

double schedule_cosine(int64_t k, int64_t warmup, int64_t total) {
    if (k < warmup) return (double)k / (double)(warmup > 1 ? warmup : 1);
    double span = (double)(total - warmup > 1 ? total - warmup : 1);
    return fmax(0, 0.5 * (1 + cos(3.14159265358979323846 * (double)(k - warmup) / span)));
}
