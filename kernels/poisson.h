/* Poisson numbers from the counter, the same on every device. */
#ifndef KERNELS_POISSON_H
#define KERNELS_POISSON_H

#include "kernels/philox.h"

/* A Poisson number of this mean (>= 0), from words 0 and 1 of block `block`.
 *
 * Below 64 the distribution is inverted, term by term. From there on it is a normal number's polynomial with the right
 * mean, skewness and kurtosis (Cornish and Fisher, 1938), rounded, which adds the 1/12 that its variance lacks: the
 * distribution function is nowhere more than 2e-5 away. */
PHILOX_FUNCTION double philox_poisson(uint64_t seed, uint32_t purpose, uint32_t step, uint64_t block, double mean) {
    if (!(mean > 0)) return 0;
    Philox r = philox(seed, purpose, step, block);
    if (mean < 64) {
        double u = ((double)r.x[0] + 0.5) * 0x1p-32, term = exp(-mean), sum = term;
        int n = 0;
        for (; u > sum && n < 200; sum += term) term *= mean / ++n;
        return n;
    }
    double u = ((double)r.x[0] + 1.0) * 0x1p-32, v = (double)r.x[1] * 0x1p-32, root = sqrt(mean - 1.0 / 12);
    double z = sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
    return floor(mean + z * root + (z * z - 1) / 6 - z * (z * z - 1) / (72 * root) + 0.5);
}

#endif
