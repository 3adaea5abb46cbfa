#include "data/cv/augment.h"

#include <assert.h>
#include <math.h>

enum { ELEMENTS = 32 }; /* random numbers reserved for each sample */

AugmentDraws cv_augment_draw(uint64_t seed, uint32_t epoch, uint64_t position, int side, int max_shift) {
    double u[16];
    for (uint64_t i = 0; i < 16; i++)
        u[i] = (double)philox_uniform(seed, augment_purpose(AUGMENT_STREAM_SAMPLE), epoch, position * ELEMENTS + i);
    AugmentDraws d = {.scale = 1,
                      .epoch = epoch,
                      .position = {(uint32_t)position, (uint32_t)(position >> 32)},
                      .seed = {(uint32_t)seed, (uint32_t)(seed >> 32)}};
    if (u[0] < 0.8) d.shift = (int)floor(u[1] * (2 * max_shift + 1)) - max_shift;
    if (u[2] < 0.8) d.scale = (float)(0.6 + 0.8 * u[3]);
    if (u[4] < 0.5) d.turns = 1 + (int)floor(3 * u[5]);
    d.flips = (u[6] < 0.5 ? AUGMENT_FLIP_Y : 0) + (u[7] < 0.5 ? AUGMENT_FLIP_X : 0);
    d.poisson = u[8] < 0.5;
    if (u[9] < 0.5) d.side = (int)nearbyint(side * (0.85 + 0.3 * u[10]));
    d.elastic = u[11] < 0.5;
    if (u[12] < 0.5) d.blur = (float)(0.3 + 0.5 * u[13]);
    return d;
}

/* Draws from Beta(0.4, 0.4) by rejection (Johnk, 1964): x and y are uniform numbers to the power of 1 / 0.4; where
 * x + y <= 1, in 85 % of attempts, x / (x + y) has the distribution. */
static float draw_beta(uint64_t seed, uint32_t epoch, uint64_t first) {
    for (uint64_t k = 0; k < 62; k += 2) {
        double x = pow((double)philox_uniform(seed, augment_purpose(AUGMENT_STREAM_MIXUP), epoch, first + k), 1 / 0.4);
        double y =
            pow((double)philox_uniform(seed, augment_purpose(AUGMENT_STREAM_MIXUP), epoch, first + k + 1), 1 / 0.4);
        if (x + y > 0 && x + y <= 1) return (float)(x / (x + y));
    }
    return 0.5f; /* once in 10^25 batches */
}

bool cv_augment_mixup(uint64_t seed, uint32_t epoch, uint64_t batch, int n, float *lambda, int32_t *partner) {
    assert(n <= 65536);
    bool mixes = philox_uniform(seed, augment_purpose(AUGMENT_STREAM_MIXUP), epoch, batch * 64) < 0.3f;
    *lambda = mixes ? draw_beta(seed, epoch, batch * 64 + 2) : 1;
    for (int i = 0; i < n;
         i++) { /* shuffles from the inside out: i goes to a random place, whose number moves to the end */
        uint64_t bits = philox_bits(seed, augment_purpose(AUGMENT_STREAM_PARTNER), epoch, batch * 65536 + (uint64_t)i);
        int at = mixes ? (int)(bits * (uint64_t)(i + 1) >> 32) : i;
        partner[i] = i;
        partner[i] = partner[at];
        partner[at] = i;
    }
    return mixes;
}
