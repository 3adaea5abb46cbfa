#include "tests/gpt/rig.h"

#include "data/gpt/batch.h"
#include "kernels/philox.h"

GptConfig gpt_config_small(int d_model, int n_heads, float dropout) {
    return (GptConfig){.d_model = d_model,
                       .n_layers = 3,
                       .n_heads = n_heads,
                       .text_vocabulary = 50,
                       .mel_codes = 42,
                       .max_text_tokens = 14,
                       .max_mel_tokens = 20,
                       .dropout = dropout,
                       .text_weight = 0.2f,
                       .mel_weight = 0.8f};
}

enum { LATENTS = 32 };

/* The next element of each field, moving on as samples are added. */
typedef struct {
    int32_t *offsets, *latent_rows, *speed_ids, *speed_rows, *text_ids, *text_positions, *text_rows, *mel_ids;
    int32_t *mel_positions, *mel_rows, *text_targets, *text_target_rows, *mel_targets;
} Fields;

static int32_t *field(Batch *batch, int field, int64_t n) { return batch_push_1d(batch, field, DTYPE_I32, n).data; }

static Fields push_fields(Batch *batch, const GptRigSamples *s, int64_t width, int64_t text, int64_t mel) {
    int64_t n = s->n, latents = n * LATENTS;
    Fields f = {.offsets = field(batch, GPT_OFFSETS, n + 1)};
    float *conditioning = batch_push_2d(batch, GPT_CONDITIONING, DTYPE_F32, latents, width).data;
    memcpy(conditioning, s->conditioning, (size_t)(latents * width) * sizeof *conditioning);
    f.latent_rows = field(batch, GPT_CONDITIONING_ROWS, latents);
    f.speed_ids = field(batch, GPT_SPEED_IDS, 2 * n);
    f.speed_rows = field(batch, GPT_SPEED_ROWS, 2 * n);
    f.text_ids = field(batch, GPT_TEXT_IDS, text);
    f.text_positions = field(batch, GPT_TEXT_POSITIONS, text);
    f.text_rows = field(batch, GPT_TEXT_ROWS, text);
    f.mel_ids = field(batch, GPT_MEL_IDS, mel);
    f.mel_positions = field(batch, GPT_MEL_POSITIONS, mel);
    f.mel_rows = field(batch, GPT_MEL_ROWS, mel);
    f.text_targets = field(batch, GPT_TEXT_TARGETS, text - n);
    f.text_target_rows = field(batch, GPT_TEXT_TARGET_ROWS, text - n);
    f.mel_targets = field(batch, GPT_MEL_TARGETS, mel);
    return f;
}

/* Adds sample i from row `row` on. Returns the row behind it. */
static int32_t add_sample(Fields *f, const GptConfig *config, const GptRigSamples *s, int i, int32_t row) {
    const int32_t *ids = s->text_ids + (ptrdiff_t)i * s->text_stride, *codes = s->codes + (ptrdiff_t)i * s->code_stride;
    int32_t text_length = s->text_lengths[i], code_length = s->code_lengths[i];
    *f->offsets++ = row;
    for (int k = 0; k < LATENTS; k++) *f->latent_rows++ = row++;
    for (int k = 0; k < 2; k++) {
        *f->speed_ids++ = 1 - k;
        *f->speed_rows++ = row++;
    }
    for (int k = 0; k < text_length + 2; k++, row++) {
        *f->text_ids++ = k == 0 ? 0 : k <= text_length ? ids[k - 1] : 1;
        *f->text_positions++ = k;
        *f->text_rows++ = row;
        if (k > text_length) continue; /* the stop token predicts nothing */
        *f->text_targets++ = k < text_length ? ids[k] : 1;
        *f->text_target_rows++ = row;
    }
    for (int k = 0; k < code_length + 1; k++, row++) {
        *f->mel_ids++ = k ? codes[k - 1] : config->mel_codes - 2;
        *f->mel_positions++ = k;
        *f->mel_rows++ = row;
        *f->mel_targets++ = k < code_length ? codes[k] : config->mel_codes - 1;
    }
    return row;
}

Batch gpt_batch_pack(const GptConfig *config, GptRigSamples s) {
    int64_t text = 0, mel = 0, n = s.n, width = config->d_model;
    for (int i = 0; i < s.n; i++) {
        text += s.text_lengths[i] + 2;
        mel += s.code_lengths[i] + 1;
    }
    Batch batch = batch_open((size_t)(4 * (n * LATENTS * (width + 1) + 6 * (text + mel) + 8 * n) + 64 * 32), s.n);
    batch_clear(&batch);
    Fields f = push_fields(&batch, &s, width, text, mel);
    int32_t row = 0;
    for (int i = 0; i < s.n; i++) row = add_sample(&f, config, &s, i, row);
    *f.offsets = row;
    batch.n_sequences = s.n;
    batch.n_tokens = row;
    batch.counts[GPT_COUNT_TEXT] = (double)(text - n);
    batch.counts[GPT_COUNT_MEL] = (double)mel;
    return batch;
}

Batch gpt_batch_random(const GptConfig *config, int first, int n, const int32_t *text_lengths,
                       const int32_t *code_lengths) {
    int text_stride = 1, code_stride = 1;
    for (int i = 0; i < n; i++) {
        if (text_lengths[i] > text_stride) text_stride = text_lengths[i];
        if (code_lengths[i] > code_stride) code_stride = code_lengths[i];
    }
    int64_t latents = (int64_t)LATENTS * config->d_model;
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
    Batch batch = gpt_batch_pack(
        config, (GptRigSamples){n, text_stride, code_stride, text_lengths, code_lengths, ids, codes, conditioning});
    free(ids);
    free(codes);
    free(conditioning);
    return batch;
}

ModelRig gpt_rig_open(const GptConfig *config, Device *device, size_t arena_bytes) {
    return model_rig_open(gpt_open(config), device, arena_bytes);
}
