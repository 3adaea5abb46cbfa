/* Draws Poisson numbers with the counter-based generator, the same on every device. */
#pragma once

#include "kernels/philox.h"

/* Returns a Poisson number of this mean (>= 0), from words 0 and 1 of block `block`.
 *
 * Means below 64: the distribution is inverted term by term. Larger means: a polynomial of a normal number with the
 * right mean, skewness and kurtosis (Cornish and Fisher, 1938) is rounded. Rounding adds the 1/12 that the polynomial's
 * variance lacks. The distribution function is off by at most 2e-5. */
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
