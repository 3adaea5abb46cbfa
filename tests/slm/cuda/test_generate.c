/* Generation on the cuda device: in f32 the ids of the cpu, also where steps are repeated from a recording; in 16 bits
 * it runs, in half the memory. */
#include "kernels/philox.h"
#include "model/slm.h"
#include "tests/cuda/rig.h"

enum { PROMPTS = 3, NEW = 14, IDS = 40, CONTEXT = 32 };
static const int lengths[PROMPTS] = {5, 1, 9};
static int32_t ids[PROMPTS][CONTEXT];

static Model *model_on(Device *device, DType half) {
    SlmConfig config = {
        .vocabulary = IDS, .context = CONTEXT, .d_model = 32, .n_layers = 2, .n_heads = 2, .biases = true};
    Model *model = slm_open(&config);
    int64_t n = model->params.flat_count;
    float *weights = xcalloc((size_t)n, sizeof *weights);
    for (int i = 0; i < model->params.count; i++)
        for (int64_t e = model->params.items[i].offset;
             e < model->params.items[i].offset + model->params.items[i].count; e++)
            weights[e] =
                0.3f * philox_normal(7, PURPOSE_TEST, 0, (uint64_t)e) + (model->params.items[i].init == INIT_ONE);
    model->weights = tensor_1d(device->allocate(device, (size_t)n * 4), DTYPE_F32, n);
    device->upload(device, model->weights.data, weights, (size_t)n * 4);
    if (half != DTYPE_F32) {
        model->half_weights = tensor_1d(device->allocate(device, (size_t)n * 2), half, n);
        cast(device, model->half_weights, model->weights);
    }
    free(weights);
    return model;
}

/* Generates twice with one generator, the second time from recorded steps; both must agree. Returns the memory. */
static GenerationMemory generate(Device *device, DType half, Generated out[PROMPTS]) {
    Model *model = model_on(device, half);
    GenerationModel m = slm_generation(model);
    GenerationPrompt prompts[PROMPTS];
    Generated again[PROMPTS];
    Error error;
    for (int i = 0; i < PROMPTS; i++) {
        for (int k = 0; k < lengths[i]; k++) ids[i][k] = (5 * k + 11 * i + 3) % IDS;
        prompts[i] =
            (GenerationPrompt){.parts = {{.ids = ids[i], .n = lengths[i]}}, .n_parts = 1, .sequence = (uint32_t)i};
    }
    GenerationOptions o = {.sampling = {.repetition_penalty = 1.1f, .top_p = 1}, .max_new = NEW};
    GenerationSize size = generation_size(&m, prompts, PROMPTS, 2, NEW);
    GenerationMemory memory = generation_memory(&m, half, &size);
    Generator *g = generator_open(&m, device, &size, SIZE_MAX, &error);
    if (!generator_run(g, prompts, PROMPTS, &o, out, &error) || !generator_run(g, prompts, PROMPTS, &o, again, &error))
        fail_msg("%s", error.text);
    for (int i = 0; i < PROMPTS; i++) {
        assert_int_equal(out[i].n, NEW);
        assert_int_equal(out[i].end, GENERATION_LIMIT);
        assert_memory_equal(out[i].ids, again[i].ids, NEW * 4);
    }
    generated_free(again, PROMPTS);
    generator_close(g);
    device->release(device, model->weights.data, tensor_bytes(model->weights));
    if (half != DTYPE_F32) device->release(device, model->half_weights.data, tensor_bytes(model->half_weights));
    model->close(model);
    return memory;
}

static void the_gpu_generates_as_the_cpu(void **state) {
    (void)state;
    GenerationMemory full = {0};
    for (int t = 0; t < TYPES; t++) {
        Rig rig = rig_open(types[t]);
        Generated cpu[PROMPTS], cuda[PROMPTS];
        if (rig_has(&rig, types[t])) {
            GenerationMemory memory = generate(rig.cuda, types[t], cuda);
            if (types[t] == DTYPE_F32) {
                full = memory;
                generate(rig.cpu, DTYPE_F32, cpu);
                for (int i = 0; i < PROMPTS; i++) assert_memory_equal(cuda[i].ids, cpu[i].ids, NEW * 4);
                generated_free(cpu, PROMPTS);
            } else
                assert_int_equal(memory.cache, full.cache / 2);
            generated_free(cuda, PROMPTS);
        }
        rig_close(&rig);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_gpu_generates_as_the_cpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
