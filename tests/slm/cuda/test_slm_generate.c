/* Generation with a small text GPT on the cuda device, real or emulated: greedy ids against the logits of the cpu
 * device, the same ids with recorded steps and without, and nothing allocated beyond the plan. The prompts cross the
 * parts of the cached attention, and the bound of the lengths that decides which recording is repeated. */
#include "kernels/cuda/gemm/gemm.h"
#include "tests/cuda/step_rig.h"
#include "tests/slm/rig.h"

enum { LAYERS = 2, CONTEXT = 280, IDS = 61, PROMPTS = 3, NEW = 12 };
static const int lengths[PROMPTS] = {1, 250, 7};
static int32_t prompt_ids[PROMPTS][CONTEXT];

static Side generation_side(Device *device, const Batch *batch, DType half) {
    const SlmConfig config = {IDS, CONTEXT, 32, LAYERS, 2, true, false, GELU_ERF, 0};
    Model *model = slm_open(&config);
    float *weights = xaligned((size_t)model->params.flat_count * 4);
    params_initialize(&model->params, weights, 7, 1);
    for (int i = 0; i < model->params.count; i++) { /* larger matrices, so that attention is not flat */
        const Param *p = &model->params.items[i];
        for (int64_t e = 0; p->rank == 2 && e < p->count; e++) weights[p->offset + e] *= 5;
    }
    Side side = side_open(device, model, weights, batch, 1, half);
    free(weights);
    return side;
}

static int recorded(const Device *device) {
    int graphs = 0;
    for (int i = 0; i < RECORDINGS; i++) graphs += cuda_state(device)->recordings[i].graph != NULL;
    return graphs;
}

/* Keeps the number of recordings while ids are generated; context: the cuda device. */
static int recorded_last;
static void count_recorded(void *context, int prompt, int32_t id) {
    (void)prompt, (void)id;
    recorded_last = recorded(context);
}

static void generate(const GenerationModel *model, Device *device, const GenerationPrompt *prompts, int n, int max_new,
                     Generated *out) {
    GenerationOptions options = {.sampling = {.repetition_penalty = 1, .top_p = 1},
                                 .max_new = max_new,
                                 .on_id = device->host_memory ? NULL : count_recorded,
                                 .context = device};
    GenerationSize size = generation_size(model, prompts, n, n, max_new);
    Error error;
    Generator *g = generator_open(model, device, &size, SIZE_MAX, &error);
    if (!g) fail_msg("%s", error.text);
    int64_t calls = device->allocation_calls;
    if (!generator_run(g, prompts, n, &options, out, &error)) fail_msg("%s", error.text);
    assert_int_equal(device->allocation_calls, calls);
    generator_close(g);
}

/* ---- the logits of the cpu device ---- */

static float cpu_logits[IDS];
static void (*real_head)(Model *model, const Context *context, Tensor logits, Tensor x);

static void head(Model *model, const Context *context, Tensor logits, Tensor x) {
    real_head(model, context, logits, x);
    if (context->device->ops && logits.dims[0] == 1) memcpy(cpu_logits, logits.data, sizeof cpu_logits);
}

/* Requires each id to have the largest logit on the cpu, given the ids before it, up to `tolerance` of the logits' root
 * mean square. */
static void check_ids(Side *cpu, const Generated *got, double tolerance) {
    GenerationModel model = slm_generation(cpu->model);
    real_head = model.head, model.head = head;
    for (int i = 0; i < PROMPTS; i++) {
        int32_t ids[CONTEXT];
        memcpy(ids, prompt_ids[i], sizeof ids);
        assert_int_equal(got[i].n, NEW);
        for (int k = 0; k < NEW; k++) {
            GenerationPrompt prompt = {.parts = {{.ids = ids, .n = lengths[i] + k}}, .n_parts = 1};
            Generated best;
            generate(&model, cpu->device, &prompt, 1, 1, &best);
            float behind = cpu_logits[best.ids[0]] - cpu_logits[got[i].ids[k]];
            assert_true((double)behind <= tolerance * root_mean_square(cpu_logits, IDS));
            ids[lengths[i] + k] = got[i].ids[k];
            generated_free(&best, 1);
        }
    }
}

/* ---- the cuda device ---- */

static void expect_same(const Generated *a, const Generated *b) {
    for (int i = 0; i < PROMPTS; i++) {
        assert_int_equal(a[i].n, b[i].n);
        assert_memory_equal(a[i].ids, b[i].ids, (size_t)a[i].n * sizeof *a[i].ids);
    }
}

/* Memory for the rest but not for the scratch of the cached attention is too little. */
static void check_scratch(const GenerationModel *model, Device *device, DType half, const GenerationPrompt *prompts) {
    GenerationSize size = generation_size(model, prompts, PROMPTS, PROMPTS, NEW);
    GenerationMemory need = generation_memory(model, half, &size);
    size_t allocated = device->allocated;
    Error error;
    assert_null(generator_open(model, device, &size, need.cache + need.activations, &error));
    assert_contains(error.text, "generation needs ");
    assert_int_equal(device->allocated, allocated);
}

/* Roundings: as many as those of a forward of the blocks in a step of training, about 12 a block, and the head's. */
static void compare(DType half) {
    Rig rig = rig_open(half);
    if (!rig_has(&rig, half)) {
        rig_close(&rig);
        skip();
    }
    gemm_prepare(rig.cuda); /* NVIDIA's library takes its workspace when it is opened */
    const int32_t one[] = {4};
    Batch batch = slm_batch_random(IDS, 0, one, 1);
    Side cpu = generation_side(rig.cpu, &batch, DTYPE_F32), cuda = generation_side(rig.cuda, &batch, half);
    GenerationModel model = slm_generation(cuda.model);
    GenerationPrompt prompts[PROMPTS];
    Generated direct[PROMPTS], repeated[PROMPTS];
    for (int i = 0; i < PROMPTS; i++) {
        for (int k = 0; k < lengths[i]; k++) prompt_ids[i][k] = (11 * k + 17 * i + 5) % IDS;
        prompts[i] = (GenerationPrompt){.parts = {{.ids = prompt_ids[i], .n = lengths[i]}}, .n_parts = 1};
    }
    check_scratch(&model, rig.cuda, half, prompts);
    __typeof__(rig.cuda->repeat) repeat = rig.cuda->repeat;
    rig.cuda->repeat = NULL;
    generate(&model, rig.cuda, prompts, PROMPTS, NEW, direct);
    rig.cuda->repeat = repeat;
    assert_int_equal(recorded_last, 0);
    size_t allocated = rig.cuda->allocated;
    generate(&model, rig.cuda, prompts, PROMPTS, NEW, repeated);
    assert_int_equal(recorded_last, 2); /* one for each bound of the lengths */
    assert_int_equal(rig.cuda->allocated, allocated);
    assert_int_equal(recorded(rig.cuda), 0); /* forgotten with the memory */
    expect_same(repeated, direct);
    check_ids(&cpu, direct, tolerance_of(half, 12 * LAYERS + 4));
    generated_free(direct, PROMPTS);
    generated_free(repeated, PROMPTS);
    side_close(&cpu);
    side_close(&cuda);
    batch_close(&batch);
    assert_no_reports();
    rig_close(&rig);
}

int main(void) { return step_tests_run(compare); }
