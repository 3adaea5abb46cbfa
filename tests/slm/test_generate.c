/* Generation of text: every step's logits are those of the training's forward, to the end of the context. */
#include "kernels/device_open.h"
#include "model/slm.h"
#include "tests/generation_rig.h"
#include "tests/slm/rig.h"

enum { PROMPTS = 2, CONTEXT = 24, IDS = 61 };

static void check(bool biases) {
    SlmConfig config = {.vocabulary = IDS,
                        .context = CONTEXT,
                        .d_model = 48,
                        .n_layers = 3,
                        .n_heads = 3,
                        .biases = biases,
                        .gelu = GELU_ERF};
    ModelRig rig = model_rig_open(slm_open(&config), cpu_device_open(2), 64 << 20);
    const int lengths[PROMPTS] = {1, 7};
    const int32_t offsets[] = {0, CONTEXT, 2 * CONTEXT};
    const int rows[] = {lengths[0] - 1, CONTEXT + lengths[1] - 1};
    int32_t ids[PROMPTS * CONTEXT + 1] = {0};
    GenerationPrompt prompts[PROMPTS];
    Generated out[PROMPTS];
    generation_spread_weights(&rig, 0.1f);
    for (int i = 0; i < PROMPTS; i++) {
        for (int k = 0; k < lengths[i]; k++) ids[i * CONTEXT + k] = (11 * k + 17 * i + 5) % IDS;
        prompts[i] =
            (GenerationPrompt){.parts = {{.ids = ids + (ptrdiff_t)i * CONTEXT, .n = lengths[i]}}, .n_parts = 1};
    }
    generation_run(&rig, slm_generation(rig.model), prompts, PROMPTS, CONTEXT, out);
    for (int i = 0; i < PROMPTS; i++) {
        assert_int_equal(out[i].n, CONTEXT - lengths[i] + 1);
        memcpy(ids + (ptrdiff_t)i * CONTEXT + lengths[i], out[i].ids, (size_t)(CONTEXT - lengths[i]) * sizeof *ids);
    }
    Batch batch = slm_batch_of(ids, offsets, PROMPTS);
    generation_check_logits(&rig, &batch, "logits", rows, out, PROMPTS);
    generated_free(out, PROMPTS);
    batch_close(&batch);
    model_rig_close(&rig);
}

TEST(cached_tokens_equal_the_full_forward) {
    check(false);
    check(true);
}
