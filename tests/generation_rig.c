#include "tests/generation_rig.h"

#include "kernels/philox.h"

/* Rows of logits, one after another. */
typedef struct {
    float *values;
    int64_t rows, width;
} Logits;

static Logits seen; /* those of the generation */
static void (*real_head)(Model *model, const Context *context, Tensor logits, Tensor x);

static void add(Logits *to, Tensor logits) {
    to->width = logits.dims[1];
    to->values = xrealloc(to->values, (size_t)(to->rows + logits.dims[0]) * (size_t)to->width * sizeof(float));
    memcpy(to->values + to->rows * to->width, logits.data, tensor_bytes(logits));
    to->rows += logits.dims[0];
}

static void head(Model *model, const Context *context, Tensor logits, Tensor x) {
    real_head(model, context, logits, x);
    if (context->device->ops) add(&seen, logits); /* otherwise it is planned */
}

void generation_spread_weights(ModelRig *rig, float deviation) {
    float *weights = rig->model->weights.data;
    for (int64_t i = 0; i < rig->model->params.flat_count; i++)
        weights[i] += deviation * philox_normal(4, PURPOSE_TEST, 0, (uint64_t)i);
}

void generation_run(const ModelRig *rig, GenerationModel model, const GenerationPrompt *prompts, int n, int longest,
                    Generated *out) {
    GenerationOptions options = {.sampling = {.repetition_penalty = 1, .top_p = 1}, .max_new = 1000};
    GenerationSize size = generation_size(&model, prompts, n, n, options.max_new);
    Error error;
    assert_int_equal(size.longest, longest);
    free(seen.values);
    seen = (Logits){.values = NULL};
    real_head = model.head, model.head = head;
    Generator *g = generator_open(&model, rig->device, &size, SIZE_MAX, &error);
    if (!g || !generator_run(g, prompts, n, &options, out, &error)) fail_msg("%s", error.text);
    generator_close(g);
    for (int i = 0; i < n; i++) assert_int_equal(out[i].end, GENERATION_CONTEXT);
}

/* The forward's logits, under a name. */
typedef struct {
    const char *name;
    Logits logits;
} Wanted;

static void keep_logits(void *context, const char *name, Tensor tensor) {
    Wanted *wanted = context;
    if (!strcmp(name, wanted->name)) add(&wanted->logits, tensor);
}

void generation_check_logits(ModelRig *rig, const Batch *batch, const char *name, const int *rows, const Generated *out,
                             int n) {
    Wanted wanted = {.name = name};
    model_rig_run(rig, batch, &(Pass){.sums = rig->sums, .dump = keep_logits, .dump_context = &wanted});
    int64_t classes = wanted.logits.width; /* padding may follow them */
    assert_true(seen.width >= classes);
    double worst = 0, largest = 0;
    int64_t row = 0, ids = 0;
    for (int i = 0; i < n; i++) ids += out[i].n;
    assert_int_equal(seen.rows, ids);
    for (int64_t step = 0; row < ids; step++) /* the rows of a step: of the prompts that have not ended */
        for (int i = 0; i < n; i++) {
            if (step >= out[i].n) continue;
            assert_true(rows[i] + step < wanted.logits.rows);
            const float *got = seen.values + row++ * seen.width,
                        *want = wanted.logits.values + (rows[i] + step) * classes;
            for (int64_t v = 0; v < classes; v++) {
                worst = fmax(worst, fabs((double)got[v] - (double)want[v]));
                largest = fmax(largest, fabs((double)want[v]));
            }
        }
    print_message("largest difference %.2g of %.2g\n", worst, largest);
    assert_true(largest > 0 && worst < 1e-5 * largest); /* some hundred roundings of 6e-8 */
    free(wanted.logits.values);
    free(seen.values);
    seen = (Logits){.values = NULL};
}
