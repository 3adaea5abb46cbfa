/* Generation of text: every step's logits are those of the training's forward, to the end of the context. */
#include <math.h>

#include "data/slm/batch.h"
#include "kernels/device_open.h"
#include "kernels/philox.h"
#include "model/slm.h"
#include "tests/model_rig.h"

enum { PROMPTS = 2, CONTEXT = 24, IDS = 61 };

static float logits_seen[PROMPTS * CONTEXT][IDS], logits_full[PROMPTS * CONTEXT][IDS];
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
    if (!strcmp(name, "logits")) memcpy(logits_full, tensor.data, tensor_bytes(tensor));
}

/* Fills a batch with whole sequences of CONTEXT ids. */
static Batch batch_of(int32_t ids[PROMPTS][CONTEXT]) {
    Batch batch = batch_open((size_t)(SLM_FIELDS * (PROMPTS * CONTEXT * 4 + 2 * BATCH_LINE)), PROMPTS);
    batch_clear(&batch);
    int32_t *offsets = batch_push_1d(&batch, SLM_OFFSETS, DTYPE_I32, PROMPTS + 1).data;
    int32_t *tokens = batch_push_1d(&batch, SLM_IDS, DTYPE_I32, PROMPTS * CONTEXT).data;
    int32_t *positions = batch_push_1d(&batch, SLM_POSITIONS, DTYPE_I32, PROMPTS * CONTEXT).data;
    int32_t *targets = batch_push_1d(&batch, SLM_TARGETS, DTYPE_I32, PROMPTS * CONTEXT).data;
    for (int i = 0; i < PROMPTS * CONTEXT; i++)
        tokens[i] = ids[i / CONTEXT][i % CONTEXT], positions[i] = i % CONTEXT, targets[i] = 0;
    for (int i = 0; i <= PROMPTS; i++) offsets[i] = i * CONTEXT;
    batch.n_sequences = PROMPTS;
    batch.n_tokens = PROMPTS * CONTEXT;
    return batch;
}

static void check(bool biases) {
    SlmConfig config = {.vocabulary = IDS,
                        .context = CONTEXT,
                        .d_model = 48,
                        .n_layers = 3,
                        .n_heads = 3,
                        .biases = biases,
                        .gelu = GELU_ERF};
    ModelRig rig = model_rig_open(slm_open(&config), cpu_device_open(2), 64 << 20);
    GenerationModel m = slm_generation(rig.model);
    const int lengths[PROMPTS] = {1, 7};
    int32_t ids[PROMPTS][CONTEXT];
    GenerationPrompt prompts[PROMPTS];
    Generated out[PROMPTS];
    Error error;
    float *weights = rig.model->weights.data;
    n_seen = 0;
    real_head = m.head, m.head = head;
    for (int64_t i = 0; i < rig.model->params.flat_count; i++)
        weights[i] += 0.1f * philox_normal(4, PURPOSE_TEST, 0, (uint64_t)i);
    for (int i = 0; i < PROMPTS; i++) {
        for (int k = 0; k < lengths[i]; k++) ids[i][k] = (11 * k + 17 * i + 5) % IDS;
        prompts[i] = (GenerationPrompt){.parts = {{.ids = ids[i], .n = lengths[i]}}, .n_parts = 1};
    }
    GenerationOptions options = {.sampling = {.repetition_penalty = 1, .top_p = 1}, .max_new = 1000};
    GenerationSize size = generation_size(&m, prompts, PROMPTS, PROMPTS, options.max_new);
    assert_int_equal(size.longest, CONTEXT);
    Generator *g = generator_open(&m, rig.device, &size, SIZE_MAX, &error);
    if (!generator_run(g, prompts, PROMPTS, &options, out, &error)) fail_msg("%s", error.text);
    generator_close(g);
    for (int i = 0; i < PROMPTS; i++) {
        assert_int_equal(out[i].end, GENERATION_CONTEXT);
        assert_int_equal(out[i].n, CONTEXT - lengths[i] + 1);
        memcpy(ids[i] + lengths[i], out[i].ids, (size_t)(CONTEXT - lengths[i]) * 4);
    }
    Batch batch = batch_of(ids);
    model_rig_run(&rig, &batch, &(Pass){.sums = rig.sums, .dump = keep_logits});
    double worst = 0, largest = 0;
    int row = 0;
    for (int step = 0; row < n_seen; step++) /* the rows of a step: of the prompts that have not ended */
        for (int i = 0; i < PROMPTS; i++) {
            if (step >= out[i].n) continue;
            for (int v = 0; v < IDS; v++) {
                double want = (double)logits_full[i * CONTEXT + lengths[i] - 1 + step][v];
                worst = fmax(worst, fabs((double)logits_seen[row][v] - want));
                largest = fmax(largest, fabs(want));
            }
            row++;
        }
    assert_int_equal(n_seen, 2 * CONTEXT - lengths[0] - lengths[1] + 2);
    print_message("largest difference %.2g of %.2g\n", worst, largest);
    assert_true(largest > 0 && worst < 1e-5 * largest); /* some hundred roundings of 6e-8 */
    generated_free(out, PROMPTS);
    batch_close(&batch);
    model_rig_close(&rig);
}

static void cached_tokens_equal_the_full_forward(void **state) {
    (void)state;
    check(false);
    check(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cached_tokens_equal_the_full_forward)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
