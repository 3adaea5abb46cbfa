/* A TTS GPT ready to run in a test: a small model on a device with weights, gradients and an arena, and packed batches
 * written field by field from the layout's description, independently of the data set that makes them in training. */
#ifndef TESTS_TTS_RIG_H
#define TESTS_TTS_RIG_H

#include "kernels/philox.h"
#include "model/gpt.h"
#include "tests/model_rig.h"

enum { RIG_CONDITIONING = 32, RIG_PREFIX = RIG_CONDITIONING + 2 };

/* Samples as a data set would hold them: ids [n][text_stride], codes [n][code_stride], and the conditioning latents
 * with the emotion vector added, [n][32][d_model]. */
typedef struct {
    int n, text_stride, code_stride;
    const int32_t *text_lengths, *code_lengths, *text_ids, *codes;
    const float *conditioning;
} TtsSamples;

static inline int32_t *rig_field(Batch *batch, int field, int64_t n) {
    return batch_push_1d(batch, field, DTYPE_I32, n).data;
}

static inline Batch tts_batch_pack(const TtsGptConfig *config, TtsSamples s) {
    int64_t text = 0, mel = 0, n = s.n, width = config->d_model;
    for (int i = 0; i < s.n; i++) {
        text += s.text_lengths[i] + 2;
        mel += s.code_lengths[i] + 1;
    }
    int64_t conditioning = n * RIG_CONDITIONING;
    Batch batch = batch_open((size_t)(4 * (conditioning * (width + 1) + 6 * (text + mel) + 8 * n) + 64 * 32), s.n);
    batch_clear(&batch);
    int32_t *offsets = rig_field(&batch, TTS_OFFSETS, n + 1);
    float *latents = batch_push_2d(&batch, TTS_CONDITIONING, DTYPE_F32, conditioning, width).data;
    int32_t *latent_rows = rig_field(&batch, TTS_CONDITIONING_ROWS, conditioning);
    int32_t *speed_ids = rig_field(&batch, TTS_SPEED_IDS, 2 * n),
            *speed_rows = rig_field(&batch, TTS_SPEED_ROWS, 2 * n);
    int32_t *text_ids = rig_field(&batch, TTS_TEXT_IDS, text);
    int32_t *text_positions = rig_field(&batch, TTS_TEXT_POSITIONS, text);
    int32_t *text_rows = rig_field(&batch, TTS_TEXT_ROWS, text);
    int32_t *mel_ids = rig_field(&batch, TTS_MEL_IDS, mel);
    int32_t *mel_positions = rig_field(&batch, TTS_MEL_POSITIONS, mel);
    int32_t *mel_rows = rig_field(&batch, TTS_MEL_ROWS, mel);
    int32_t *text_targets = rig_field(&batch, TTS_TEXT_TARGETS, text - n);
    int32_t *text_target_rows = rig_field(&batch, TTS_TEXT_TARGET_ROWS, text - n);
    int32_t *mel_targets = rig_field(&batch, TTS_MEL_TARGETS, mel);

    memcpy(latents, s.conditioning, (size_t)(conditioning * width) * sizeof *latents);
    int32_t row = 0, t = 0, target = 0, m = 0;
    for (int i = 0; i < s.n; i++) {
        const int32_t *ids = s.text_ids + (ptrdiff_t)i * s.text_stride, *codes = s.codes + (ptrdiff_t)i * s.code_stride;
        int32_t text_length = s.text_lengths[i], code_length = s.code_lengths[i];
        offsets[i] = row;
        for (int k = 0; k < RIG_CONDITIONING; k++) latent_rows[i * RIG_CONDITIONING + k] = row++;
        for (int k = 0; k < 2; k++) {
            speed_ids[2 * i + k] = 1 - k;
            speed_rows[2 * i + k] = row++;
        }
        for (int k = 0; k < text_length + 2; k++, t++, row++) {
            text_ids[t] = k == 0 ? 0 : k <= text_length ? ids[k - 1] : 1;
            text_positions[t] = k;
            text_rows[t] = row;
            if (k > text_length) continue; /* nothing is to be predicted from the stop */
            text_targets[target] = k < text_length ? ids[k] : 1;
            text_target_rows[target++] = row;
        }
        for (int k = 0; k < code_length + 1; k++, m++, row++) {
            mel_ids[m] = k ? codes[k - 1] : config->mel_codes - 2;
            mel_positions[m] = k;
            mel_rows[m] = row;
            mel_targets[m] = k < code_length ? codes[k] : config->mel_codes - 1;
        }
    }
    offsets[s.n] = row;
    batch.n_sequences = s.n;
    batch.n_tokens = row;
    batch.counts[TTS_COUNT_TEXT] = (double)(text - n);
    batch.counts[TTS_COUNT_MEL] = (double)mel;
    return batch;
}

/* Samples first .. first + n - 1 of an endless seeded list with these lengths. */
static inline Batch tts_batch_random(const TtsGptConfig *config, int first, int n, const int32_t *text_lengths,
                                     const int32_t *code_lengths) {
    int text_stride = 1, code_stride = 1;
    for (int i = 0; i < n; i++) {
        if (text_lengths[i] > text_stride) text_stride = text_lengths[i];
        if (code_lengths[i] > code_stride) code_stride = code_lengths[i];
    }
    int64_t latents = (int64_t)RIG_CONDITIONING * config->d_model;
    int32_t *ids = xmalloc((size_t)n * (size_t)text_stride * 4), *codes = xmalloc((size_t)n * (size_t)code_stride * 4);
    float *conditioning = xmalloc((size_t)(n * latents) * sizeof *conditioning);
    for (int i = 0; i < n; i++) {
        uint32_t sample = (uint32_t)(first + i);
        for (int k = 0; k < text_stride; k++) {
            uint32_t bits = philox_bits(1, PURPOSE_TEST, sample, (uint64_t)k);
            ids[i * text_stride + k] = 2 + (int32_t)(bits % (uint32_t)(config->text_vocabulary - 2));
        }
        for (int k = 0; k < code_stride; k++) {
            uint32_t bits = philox_bits(2, PURPOSE_TEST, sample, (uint64_t)k);
            codes[i * code_stride + k] = (int32_t)(bits % (uint32_t)(config->mel_codes - 2));
        }
        for (int64_t k = 0; k < latents; k++) {
            conditioning[i * latents + k] = philox_normal(3, PURPOSE_TEST, sample, (uint64_t)k);
        }
    }
    Batch batch = tts_batch_pack(
        config, (TtsSamples){n, text_stride, code_stride, text_lengths, code_lengths, ids, codes, conditioning});
    free(ids);
    free(codes);
    free(conditioning);
    return batch;
}

/* Takes the device. */
static inline ModelRig rig_open(const TtsGptConfig *config, Device *device, size_t arena_bytes) {
    return model_rig_open(tts_gpt_open(config), device, arena_bytes);
}

#endif
