#include "tests/slm/import_rig.h"

#include "kernels/cpu/device.h"
#include "tests/slm/rig.h"

/* The options that a training and the other commands have. */
typedef struct {
    int64_t vocabulary, d_model, layers, heads, context;
    const char *gelu, *base_checkpoint;
    bool biases;
} ModelOptions;

#define FIELD(name) offsetof(ModelOptions, name)
static const OptionRow rows[] = {
    {.name = "base-checkpoint", .type = OPTION_TEXT, .offset = FIELD(base_checkpoint), .help = "file"},
    {.name = "vocabulary", .type = OPTION_INT, .offset = FIELD(vocabulary), .help = "tokens"},
    {.name = "d-model", .type = OPTION_INT, .offset = FIELD(d_model), .help = "width"},
    {.name = "layers", .type = OPTION_INT, .offset = FIELD(layers), .help = "blocks"},
    {.name = "heads", .type = OPTION_INT, .offset = FIELD(heads), .help = "heads"},
    {.name = "context", .type = OPTION_INT, .offset = FIELD(context), .help = "tokens"},
    {.name = "gelu", .type = OPTION_CHOICE, .offset = FIELD(gelu), .metavar = "erf|tanh", .help = "kind"},
    {.name = "biases", .type = OPTION_FLAG, .offset = FIELD(biases), .help = "biases"},
};

Imported import_into(const char *path, const SlmConfig *config) {
    Imported i = {.config = *config, .model = slm_open(config)};
    const ParamTable *table = &i.model->params;
    CarriedTensors carried;
    i.weights = xaligned((size_t)table->flat_count * sizeof(float));
    for (int64_t e = 0; e < table->flat_count; e++) i.weights[e] = 0.5f; /* that nothing sets */
    CheckpointBuffers into = {.table = table, .weights = i.weights};
    i.ok = checkpoint_import(path, &into, &SLM_IMPORT, &carried, &i.report, &i.error);
    if (i.ok) {
        assert_int_equal(carried.n, 0);
        carried_close(&carried);
        return i;
    }
    i.model->close(i.model);
    free(i.weights);
    return i;
}

Imported import_file(const char *path, const char *const *options) {
    static const OptionsHeader header = {"train_slm", "", "", "Reads a file."};
    enum { WORDS = 16 };
    ModelOptions values = {0};
    OptionSet set = {0};
    char *words[WORDS] = {"train_slm"};
    int n = 1;
    for (; options && *options; options++) words[n++] = (char *)*options;
    options_add(&set, rows, sizeof rows / sizeof *rows, &values);
    options_parse(&header, &set, n, words);
    SlmBase base = slm_base_adopt(path, &set);
    SlmConfig config = slm_base_config(&base);
    assert_int_equal(values.vocabulary, config.vocabulary); /* a training takes its options from the set */
    assert_int_equal(values.heads, config.n_heads);
    assert_int_equal(values.d_model, config.d_model);
    assert_int_equal(values.layers, config.n_layers);
    assert_string_equal(values.gelu, config.gelu == GELU_ERF ? "erf" : "tanh");
    config.biases = values.biases; /* of biases of zeros the user may decide */
    if (options_given(&set, "context")) config.context = (int)values.context;
    Imported imported = import_into(path, &config);
    slm_base_close(&base);
    options_free(&set, n, words);
    return imported;
}

void import_close(Imported *i) {
    i->model->close(i->model);
    free(i->weights);
    free(i->report.missing_names);
}

void assert_same_imported(const Imported *a, const Imported *b) {
    const ParamTable *x = &a->model->params, *y = &b->model->params;
    assert_int_equal(x->count, y->count);
    for (int i = 0; i < x->count; i++) {
        const Param *p = &x->items[i], *q = &y->items[i];
        assert_string_equal(p->name, q->name);
        assert_int_equal(p->count, q->count);
        if (memcmp(a->weights + p->offset, b->weights + q->offset, (size_t)p->count * sizeof(float)))
            fail_msg("%s differs", p->name);
    }
}

static void copy_logits(void *into, const char *name, Tensor tensor) {
    if (!strcmp(name, "logits")) memcpy(into, tensor.data, tensor_bytes(tensor));
}

void assert_logits(const Imported *imported, const char *name) {
    TensorFile golden = open_golden("slm_logits");
    const StoredTensor *ids = find(&golden, "", "ids"), *want = find(&golden, "", name);
    int32_t n = (int32_t)ids->count, offsets[] = {0, n}, *stream = xcalloc((size_t)n + 1, sizeof *stream);
    double *logits = xmalloc((size_t)want->count * sizeof *logits);
    float *ours = xcalloc((size_t)want->count, sizeof *ours);
    memcpy(stream, ids->data, ids->bytes);
    memcpy(logits, want->data, want->bytes);
    assert_int_equal(want->count, (int64_t)n * imported->config.vocabulary);
    ModelRig rig = model_rig_open(slm_open(&imported->config), cpu_device_open(1), (size_t)1 << 24);
    memcpy(rig.model->weights.data, imported->weights, (size_t)rig.model->params.flat_count * sizeof(float));
    Batch batch = slm_batch_of(stream, offsets, 1);
    Pass pass = model_rig_pass(&rig, batch.counts, 1);
    pass.train = false;
    pass.dump = copy_logits;
    pass.dump_context = ours;
    model_rig_run(&rig, &batch, &pass);
    for (int64_t i = 0; i < want->count; i++) assert_near(ours[i], logits[i], 1e-5);
    batch_close(&batch);
    model_rig_close(&rig);
    tensor_file_close(&golden);
    free(stream);
    free(logits);
    free(ours);
}
