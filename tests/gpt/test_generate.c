/* Generation of audio codes: every step's logits are those of the training's forward. */
#include "kernels/device_open.h"
#include "kernels/philox.h"
#include "tests/generation_rig.h"
#include "tests/gpt/rig.h"

enum {
    SAMPLES = 3,
    LATENTS = 32,
    WIDTH = 64,
    START = 40 /* of the mel codes */,
    CONTEXT = 22 /* start and 21 codes */
};

/* Generates greedily to the end of the positions for three prompts at once, then runs the batch that training would
 * have made of the result. */
TEST(cached_codes_equal_the_full_forward) {
    GptConfig config = gpt_config_small(WIDTH, 4, 0);
    ModelRig rig = gpt_rig_open(&config, cpu_device_open(2), 64 << 20);
    static float conditioning[SAMPLES][LATENTS * WIDTH];
    static int32_t text[SAMPLES][14], codes[SAMPLES][CONTEXT];
    const int32_t lengths[SAMPLES] = {3, 14, 1}, speed[] = {1, 0}, start = START;
    const int rows[SAMPLES] = {0, CONTEXT, 2 * CONTEXT};
    int32_t code_lengths[SAMPLES];
    GenerationPrompt prompts[SAMPLES];
    Generated out[SAMPLES];
    generation_spread_weights(&rig, 0.05f);
    static int32_t ids[SAMPLES][16];
    for (int i = 0; i < SAMPLES; i++) {
        for (int e = 0; e < LATENTS * WIDTH; e++)
            conditioning[i][e] = philox_normal(5, PURPOSE_TEST, (uint32_t)i, (uint64_t)e);
        for (int e = 0; e < lengths[i]; e++) text[i][e] = ids[i][e + 1] = 2 + (7 * e + 5 * i) % 48;
        ids[i][0] = GPT_START_TEXT, ids[i][lengths[i] + 1] = GPT_STOP_TEXT;
        prompts[i] = (GenerationPrompt){.parts = {{.vectors = conditioning[i], .n = LATENTS},
                                                  {.ids = speed, .n = 2, .table = GPT_SPEED},
                                                  {.ids = ids[i], .n = lengths[i] + 2, .table = GPT_TEXT},
                                                  {.ids = &start, .n = 1, .table = GPT_MEL}},
                                        .n_parts = 4};
    }
    generation_run(&rig, gpt_generation(rig.model, LATENTS), prompts, SAMPLES, LATENTS + 2 + 16 + CONTEXT, out);
    for (int i = 0; i < SAMPLES; i++) {
        assert_int_equal(out[i].n, CONTEXT);
        code_lengths[i] = CONTEXT - 1; /* the last code was no input */
        memcpy(codes[i], out[i].ids, sizeof codes[i]);
    }
    Batch batch = gpt_batch_pack(&config, (GptRigSamples){.n = SAMPLES,
                                                          .text_stride = 14,
                                                          .code_stride = CONTEXT,
                                                          .text_lengths = lengths,
                                                          .code_lengths = code_lengths,
                                                          .text_ids = text[0],
                                                          .codes = codes[0],
                                                          .conditioning = conditioning[0]});
    generation_check_logits(&rig, &batch, "mel.logits", rows, out, SAMPLES);
    generated_free(out, SAMPLES);
    batch_close(&batch);
    model_rig_close(&rig);
}
