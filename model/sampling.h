/* Draws the next id from a model's logits, on the host. */
#pragma once

#include "base/base.h"

/* In the order in which they apply; the definitions are those of Hugging Face's generate(). */
typedef struct {
    float repetition_penalty; /* divides the logits above 0 of ids that have occurred, and multiplies those below; 1:
                               * no penalty */
    float temperature;        /* divides the logits; 0: the most probable id, always */
    int top_k;                /* draws from so many of the most probable ids only; 0: from all */
    float top_p;              /* and of those only from the fewest that have this share of the probability; 1: all */
    uint64_t seed;
} Sampling;

/* Returns whether the numbers are in range; if not, the error names the one that is not. */
bool sampling_is_valid(const Sampling *sampling, Error *error);

/* Where an id is drawn: (seed, sequence, position) decide the random number, and nothing else does. */
typedef struct {
    uint32_t sequence;
    uint64_t position; /* of the id in its sequence */
} Draw;

/* Returns an id below n, never one whose logit is -INFINITY; of equally probable ids the lowest comes first. Returns -1
 * if no logit is a finite number, or one is NaN or INFINITY. Overwrites the logits[n]. seen[n]: whether an id has
 * occurred. room[n] is for its own use. */
int32_t sample_id(const Sampling *sampling, Draw draw, float *logits, int n, const uint8_t *seen, int32_t *room);
