/* A small TTS GPT ready to run in a test, and packed batches for it. The rig packs its batches by the description of
 * their fields, independently of the data set that training uses. */
#pragma once

#include "data/gpt/batch.h"
#include "model/gpt.h"
#include "tests/model_rig.h"

enum { RIG_PREFIX = 34 }; /* rows before the text: 32 conditioning latents and 2 speed tokens */

/* Samples as a data set would hold them: ids [n][text_stride], codes [n][code_stride], and the conditioning latents
 * with the emotion vector added, [n][32][d_model]. */
typedef struct {
    int n, text_stride, code_stride;
    const int32_t *text_lengths, *code_lengths, *text_ids, *codes;
    const float *conditioning;
} GptRigSamples;

/* Returns the configuration of a GPT with three layers and small vocabularies. */
GptConfig gpt_config_small(int d_model, int n_heads, float dropout);

/* Packs all samples into a batch. */
Batch gpt_batch_pack(const GptConfig *config, GptRigSamples samples);
/* Packs samples first .. first + n - 1 of an endless list of random samples, with these lengths. */
Batch gpt_batch_random(const GptConfig *config, int first, int n, const int32_t *text_lengths,
                       const int32_t *code_lengths);

/* Opens the model on a device, which the rig then owns. */
ModelRig gpt_rig_open(const GptConfig *config, Device *device, size_t arena_bytes);
