/* Batches of the text GPT for tests, packed by the description of their fields, independently of the data set that
 * training uses. */
#pragma once

#include "data/slm/batch.h"
#include "model/slm.h"
#include "tests/model_rig.h"

/* Returns the configuration of a small model without biases: 53 tokens, a context of 12, width 32, two layers. */
SlmConfig slm_config_small(float dropout);

/* Packs a stream of offsets[n] + 1 ids into sequences; sequence s is its positions offsets[s] .. offsets[s + 1] - 1. */
Batch slm_batch_of(const int32_t *stream, const int32_t *offsets, int n);
/* Packs sequences of these lengths from an endless stream of random ids, from position `first` on. */
Batch slm_batch_random(int vocabulary, int64_t first, const int32_t *lengths, int n);
