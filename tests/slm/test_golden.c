/* The text GPT against an independent implementation in float64 (tests/reference/make_golden_slm.py): losses, every
 * gradient, and five steps of AdamW. */
#include "kernels/device_open.h"
#include "tests/golden.h"
#include "tests/norm.h"
#include "tests/slm/rig.h"

static const char *const key_bias = "c_attn.bias";
enum { STEPS = 5 };

/* A model of the golden file, and how it cuts the stream when it trains. */
typedef struct {
    const char *name, *cut;
    int heads;
    bool biases;
    GeluKind gelu;
} Golden;

static const Golden goldens[] = {{"plain", "packed", 4, false, GELU_ERF}, {"biased", "separate", 2, true, GELU_TANH}};
enum { GOLDENS = sizeof goldens / sizeof *goldens };

static Batch read_batch(const TensorFile *file, const char *cut) {
    const StoredTensor *offsets = find(file, "offsets.", cut);
    return slm_batch_of(find(file, "", "stream")->data, offsets->data, (int)offsets->count - 1);
}

static ModelRig open_rig(const TensorFile *file, const Golden *golden) {
    SlmConfig config = slm_config_small(0);
    config.n_heads = golden->heads;
    config.biases = golden->biases;
    config.gelu = golden->gelu;
    ModelRig rig = model_rig_open(slm_open(&config), cpu_device_open(0), 16 << 20);
    read_parameters(file, "weights.", &rig.model->params, rig.model->weights.data);
    return rig;
}

static void check_means(const TensorFile *file, const Golden *golden, const char *cut, const ModelRig *rig,
                        const Batch *batch) {
    char *name = kept_format("%s.%s.means", golden->name, cut);
    float *want = floats(file, "", name), *sums = rig->sums.data;
    for (int i = 0; i < 2; i++) {
        float mean = sums[i] / (float)batch->counts[SLM_COUNT_TOKENS];
        assert_close(name, &mean, &want[i], 1, 1e-5);
    }
    free(want);
}

TEST(losses_and_gradients_match) {
    static const char *const cuts[] = {"packed", "separate"};
    TensorFile file = open_golden("slm");
    for (int g = 0; g < GOLDENS; g++) {
        ModelRig rig = open_rig(&file, &goldens[g]);
        char *prefix = kept_format("%s.grad.", goldens[g].name);
        for (int c = 0; c < 2; c++) {
            Batch batch = read_batch(&file, cuts[c]);
            Pass pass = model_rig_pass(&rig, batch.counts, 1);
            model_rig_clear_gradients(&rig);
            model_rig_run(&rig, &batch, &pass);
            check_means(&file, &goldens[g], cuts[c], &rig, &batch);
            if (!strcmp(cuts[c], goldens[g].cut))
                assert_int_equal(
                    compare_parameters(prefix, &file, prefix, &rig.model->params, rig.model->gradients.data, NULL),
                    rig.model->params.count);
            batch_close(&batch);
        }
        model_rig_close(&rig);
    }
    tensor_file_close(&file);
}

static void take_five_steps(const TensorFile *file, const Golden *golden) {
    ModelRig rig = open_rig(file, golden);
    Model *model = rig.model;
    Batch batch = read_batch(file, golden->cut);
    Tensor m = model_rig_flat(&rig), v = model_rig_flat(&rig),
           norm = tensor_1d(rig.device->allocate(rig.device, 64), DTYPE_F32, 1);
    char *prefix = kept_format("%s.adamw.", golden->name), *after = kept_format("%safter.", prefix);
    float *rates = floats(file, "", "rates"), *losses = floats(file, prefix, "losses"),
          *norms = floats(file, prefix, "norms");
    double rate_sum = 0;
    Segment *segments;
    int n_segments = params_segments(&model->params, 0.1f, &segments);
    for (int k = 0; k < STEPS; k++) {
        Pass pass = model_rig_pass(&rig, batch.counts, 1);
        model_rig_clear_gradients(&rig);
        model_rig_run(&rig, &batch, &pass);
        float loss = *(float *)rig.sums.data / (float)batch.counts[SLM_COUNT_TOKENS];
        assert_close("loss", &loss, &losses[k], 1, golden_tolerance);
        global_norm(rig.device, norm, model->gradients, tensor_none(), segments, n_segments);
        assert_close("gradient norm", norm.data, &norms[k], 1, golden_tolerance);
        for (int i = 0; i < n_segments; i++) segments[i].learning_rate = rates[k];
        adamw_update(rig.device, (AdamWBuffers){.params = model->weights, .m = m, .v = v, .grads = model->gradients},
                     norm, tensor_none(), segments, n_segments,
                     (AdamW){.beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .clip = 1, .step = k + 1});
        rate_sum += (double)rates[k];
    }
    assert_int_equal(compare_parameters(after, file, after, &model->params, model->weights.data, key_bias),
                     model->params.count);
    check_key_bias(file, after, &model->params, model->weights.data, key_bias, rate_sum);
    model_rig_release_moments(&rig, m, v, norm);
    void *owned[] = {rates, losses, norms, segments};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
    batch_close(&batch);
    model_rig_close(&rig);
}

TEST(five_steps_of_adamw_match) {
    TensorFile file = open_golden("slm");
    for (int g = 0; g < GOLDENS; g++) take_five_steps(&file, &goldens[g]);
    tensor_file_close(&file);
}
