/* How far the results of IndexTTS2's networks may be whose products are in another type than f32. */
#pragma once

#include "model/indextts2/perceiver.h"
#include "tests/cuda/step_rig.h"

/* Roundings to the type of products in sequence. A product has those of its input, its weight and its result; the
 * second product's input is in each the result of the step before it. TF32, which rounds as f16 does, has fewer. */
enum {
    FEED = 6,        /* two products */
    ATTENTION = 7,   /* two products; the probabilities */
    CONVOLUTION = 9, /* two products; gate, depthwise convolution, norm */
    IN_PERCEIVER = 3 + PERCEIVER_LAYERS * (ATTENTION + FEED)
};
/* With a table of distances; behind w2v; with keys with positions and a product of these. */
static inline int in_w2v(int layers) { return 3 + layers * (2 * FEED + ATTENTION + 1 + CONVOLUTION); }
static inline int in_codec(int blocks) { return 3 + blocks * FEED; }
static inline int in_voice(int blocks) { return 5 + blocks * (ATTENTION + 3 + CONVOLUTION + FEED) + IN_PERCEIVER; }

/* Returns how far results may be, norm-wise: their roundings are independent, and each is at most rounding_of the type.
 * The cosine is then at least 1 - bound^2. */
static inline double bound(DType type, int roundings) { return sqrt(roundings) * rounding_of(type); }

/* Returns how far the direction of z, 8 numbers, is from another's. */
static inline double turn(const float *got, const float *want) {
    double squares[2] = {0}, sum = 0;
    for (int j = 0; j < 8; j++) {
        squares[0] += (double)got[j] * got[j];
        squares[1] += (double)want[j] * want[j];
    }
    for (int j = 0; j < 8; j++) {
        double d = got[j] / sqrt(squares[0]) - want[j] / sqrt(squares[1]);
        sum += d * d;
    }
    return sqrt(sum);
}

typedef struct {
    int64_t rows;
    const int32_t *codes;
    const float *z, *margins;
} CodesOfClip;

/* A direction that turns by d changes the difference of its cosines with two codes by at most 2 d: a code with a larger
 * margin stays. The cosines themselves are f32. Returns how many codes are equal. */
static inline int check_codes(const char *clip, CodesOfClip got, CodesOfClip want) {
    int equal = 0;
    for (int64_t i = 0; i < want.rows; i++) {
        double certain = 2 * turn(got.z + 8 * i, want.z + 8 * i) + 1e-6;
        if (want.margins[i] > certain && got.codes[i] != want.codes[i])
            fail_msg("%s, row %d: code %d, expected %d", clip, (int)i, (int)got.codes[i], (int)want.codes[i]);
        equal += got.codes[i] == want.codes[i];
    }
    return equal;
}
