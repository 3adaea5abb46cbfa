/* Generation of audio codes: every step's logits are those of the training's forward. */
#include <math.h>

#include "kernels/device_open.h"
#include "kernels/philox.h"
#include "tests/tts/rig.h"

enum { SAMPLES = 3, LATENTS = 32, WIDTH = 64, MEL_CODES = 42, CONTEXT = 22 /* start and 21 codes */ };

static float logits_seen[SAMPLES * CONTEXT][MEL_CODES], logits_full[SAMPLES * CONTEXT][MEL_CODES];
static int n_seen;
static void (*real_head)(Model *model, const BlockRun *run, Tensor logits, Tensor x);

static void head(Model *model, const BlockRun *run, Tensor logits, Tensor x) {
    real_head(model, run, logits, x);
    if (!run->device->ops) return; /* planning */
    memcpy(logits_seen[n_seen], logits.data, tensor_bytes(logits));
    n_seen += (int)logits.dims[0];
}

static void keep_logits(void *context, const char *name, Tensor tensor) {
    (void)context;
    if (!strcmp(name, "mel.logits")) memcpy(logits_full, tensor.data, tensor_bytes(tensor));
}

/* Generates greedily to the end of the positions for three prompts at once, then runs the batch that training would
 * have made of the result. */
static void cached_codes_equal_the_full_forward(void **state) {
    (void)state;
    TtsGptConfig config = tts_config_small(WIDTH, 4, 0);
    ModelRig rig = tts_rig_open(&config, cpu_device_open(2), 64 << 20);
    GenerationModel m = tts_generation(rig.model, LATENTS);
    static float conditioning[SAMPLES][LATENTS * WIDTH];
    static int32_t text[SAMPLES][14], codes[SAMPLES][CONTEXT];
    const int32_t lengths[SAMPLES] = {3, 14, 1}, speed[] = {1, 0}, start = MEL_CODES - 2;
    int32_t code_lengths[SAMPLES];
    GenerationPrompt prompts[SAMPLES];
    Generated out[SAMPLES];
    Error error;
    real_head = m.head, m.head = head;
    /* Larger than at the start of a training, so that rows differ. */
    float *weights = rig.model->weights.data;
    for (int64_t i = 0; i < rig.model->params.flat_count; i++)
        weights[i] += 0.05f * philox_normal(4, PURPOSE_TEST, 0, (uint64_t)i);
    static int32_t ids[SAMPLES][16];
    for (int i = 0; i < SAMPLES; i++) {
        for (int e = 0; e < LATENTS * WIDTH; e++)
            conditioning[i][e] = philox_normal(5, PURPOSE_TEST, (uint32_t)i, (uint64_t)e);
        for (int e = 0; e < lengths[i]; e++) text[i][e] = ids[i][e + 1] = 2 + (7 * e + 5 * i) % 48;
        ids[i][0] = TTS_START_TEXT, ids[i][lengths[i] + 1] = TTS_STOP_TEXT;
        prompts[i] = (GenerationPrompt){.parts = {{.vectors = conditioning[i], .n = LATENTS},
                                                  {.ids = speed, .n = 2, .table = TTS_SPEED},
                                                  {.ids = ids[i], .n = lengths[i] + 2, .table = TTS_TEXT},
                                                  {.ids = &start, .n = 1, .table = TTS_MEL}},
                                        .n_parts = 4};
    }
    GenerationOptions options = {.sampling = {.repetition_penalty = 1, .top_p = 1}, .max_new = 1000};
    GenerationSize size = generation_size(&m, prompts, SAMPLES, SAMPLES, options.max_new);
    assert_int_equal(size.longest, LATENTS + 2 + 16 + CONTEXT);
    Generator *g = generator_open(&m, rig.device, &size, SIZE_MAX, &error);
    if (!generator_run(g, prompts, SAMPLES, &options, out, &error)) fail_msg("%s", error.text);
    generator_close(g);
    assert_int_equal(n_seen, SAMPLES * CONTEXT);

    for (int i = 0; i < SAMPLES; i++) {
        assert_int_equal(out[i].end, GENERATION_CONTEXT);
        assert_int_equal(out[i].n, CONTEXT);
        code_lengths[i] = CONTEXT - 1; /* the last code was no input */
        memcpy(codes[i], out[i].ids, sizeof codes[i]);
    }
    Batch batch = tts_batch_pack(&config, (TtsRigSamples){.n = SAMPLES,
                                                          .text_stride = 14,
                                                          .code_stride = CONTEXT,
                                                          .text_lengths = lengths,
                                                          .code_lengths = code_lengths,
                                                          .text_ids = text[0],
                                                          .codes = codes[0],
                                                          .conditioning = conditioning[0]});
    model_rig_run(&rig, &batch, &(Pass){.sums = rig.sums, .dump = keep_logits});
    double worst = 0, largest = 0;
    for (int row = 0; row < n_seen; row++)
        for (int v = 0; v < MEL_CODES; v++) {
            double want = (double)logits_full[row % SAMPLES * CONTEXT + row / SAMPLES][v];
            worst = fmax(worst, fabs((double)logits_seen[row][v] - want));
            largest = fmax(largest, fabs(want));
        }
    print_message("largest difference %.2g of %.2g\n", worst, largest);
    assert_true(largest > 0 && worst < 1e-5 * largest); /* some hundred roundings of 6e-8 */
    generated_free(out, SAMPLES);
    batch_close(&batch);
    model_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cached_codes_equal_the_full_forward)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
