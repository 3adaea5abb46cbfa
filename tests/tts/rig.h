/* A small TTS GPT ready to run in a test, and packed batches for it. The rig packs its batches by the description of
 * their fields, independently of the data set that training uses. */
#ifndef TESTS_TTS_RIG_H
#define TESTS_TTS_RIG_H

#include "data/tts/batch.h"
#include "model/tts.h"
#include "tests/model_rig.h"

enum { RIG_PREFIX = 34 }; /* rows before the text: 32 conditioning latents and 2 speed tokens */

/* Samples as a data set would hold them: ids [n][text_stride], codes [n][code_stride], and the conditioning latents
 * with the emotion vector added, [n][32][d_model]. */
typedef struct {
    int n, text_stride, code_stride;
    const int32_t *text_lengths, *code_lengths, *text_ids, *codes;
    const float *conditioning;
} TtsRigSamples;

/* Returns the configuration of a GPT with three layers and small vocabularies. */
TtsGptConfig tts_config_small(int d_model, int n_heads, float dropout);

/* Packs all samples into a batch. */
Batch tts_batch_pack(const TtsGptConfig *config, TtsRigSamples samples);
/* Packs samples first .. first + n - 1 of an endless list of random samples, with these lengths. */
Batch tts_batch_random(const TtsGptConfig *config, int first, int n, const int32_t *text_lengths,
                       const int32_t *code_lengths);

/* Opens the model on a device, which the rig then owns. */
ModelRig tts_rig_open(const TtsGptConfig *config, Device *device, size_t arena_bytes);

#endif
