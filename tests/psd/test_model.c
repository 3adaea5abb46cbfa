/* The PSD models against an independent implementation in torch, float64 (tests/reference/make_golden_psd.py): losses,
 * every gradient, five optimizer steps; and their parameter counts. */
#include "kernels/device_open.h"
#include "tests/model_rig.h"
#include "tests/norm.h"
#include "tests/psd/rig.h"

static const char *const key_bias = "in_proj_bias";
enum { STEPS = 5, BATCH = 8 };
static const float learning_rate = 1e-3f, weight_decay = 1e-2f;

static const PsdPretrainConfig tiny = {.encoder = {.d_model = 32, .n_layers = 1, .n_heads = 2, .d_ff = 64},
                                       .decoder_dim = 16,
                                       .decoder_layers = 1,
                                       .projection_dim = 16,
                                       .sicr_weight = 0.1f,
                                       .temperature = 0.07f};
static const PsdPretrainConfig deeper = {.encoder = {.d_model = 24, .n_layers = 2, .n_heads = 2, .d_ff = 40},
                                         .decoder_dim = 16,
                                         .decoder_layers = 2,
                                         .projection_dim = 12,
                                         .sicr_weight = 0.1f,
                                         .temperature = 0.07f};
static const PsdPretrainConfig with_cnn = {.encoder = {.cnn = true, .d_model = 16},
                                           .decoder_dim = 16,
                                           .decoder_layers = 1,
                                           .projection_dim = 12,
                                           .sicr_weight = 0.1f,
                                           .temperature = 0.07f};
static const PsdClassifierConfig classifier = {.encoder = {.d_model = 64, .n_layers = 2, .n_heads = 4, .d_ff = 128},
                                               .head_dim = 48,
                                               .class_weights = {0.5f, 1, 1.5f, 2, 0.8f, 1.2f}};
static const PsdClassifierConfig cnn_classifier = {
    .encoder = {.cnn = true, .d_model = 32}, .head_dim = 24, .class_weights = {0.5f, 1, 1.5f, 2, 0.8f, 1.2f}};

/* ---- one batch of a golden file through a model ---- */

typedef struct {
    GoldenSpectra golden;
    ModelRig rig;
    Dataset *dataset;
    Batch batch;
} PsdRig;

static PsdRig psd_rig_open(const char *name, Model *model, bool pretraining, bool cnn) {
    PsdRig r = {.golden = golden_spectra(name), .rig = model_rig_open(model, cpu_device_open(0), 64 << 20)};
    r.dataset = golden_dataset(&r.golden, BATCH, pretraining, cnn);
    r.batch = psd_largest_batch(r.dataset, BATCH, 0);
    r.batch.fields[r.batch.n_fields] = r.dataset->device_data; /* as the loop hands it over */
    fill_parameters(&model->params, model->weights.data);
    return r;
}

static void psd_rig_close(PsdRig *r) {
    batch_close(&r->batch);
    r->dataset->close(r->dataset);
    golden_spectra_close(&r->golden);
    model_rig_close(&r->rig);
}

static PsdRig pretraining(const char *name, const PsdPretrainConfig *config) {
    return psd_rig_open(name, psd_pretrain_open(config), true, config->encoder.cnn);
}

static PsdRig classification(const char *name, const PsdClassifierConfig *config) {
    return psd_rig_open(name, psd_classifier_open(config), false, config->encoder.cnn);
}

static double mean_of(const PsdRig *r, int metric) {
    return (double)((float *)r->rig.sums.data)[metric] / r->batch.counts[r->rig.model->metrics[metric].count];
}

static void run_once(PsdRig *r, bool recompute) {
    Pass pass = model_rig_pass(&r->rig, r->batch.counts, 1);
    pass.recompute = recompute;
    model_rig_check_first_pass(&r->rig, &r->batch, &pass);
    model_rig_run(&r->rig, &r->batch, &pass);
}

/* The gradients that the golden file has; with recomputation the same bits. */
static void check_gradients(PsdRig *r, const char *name, int least) {
    const Model *model = r->rig.model;
    float *weights = xmalloc(tensor_bytes(model->weights));
    memcpy(weights, model->weights.data, tensor_bytes(model->weights));
    run_once(r, false);
    assert_memory_equal(weights, model->weights.data, tensor_bytes(model->weights)); /* only an update changes them */
    free(weights);
    int n = compare_parameters(name, &r->golden.file, "grad.", &model->params, model->gradients.data, NULL);
    assert_true(n >= least);
    float *once = xmalloc(tensor_bytes(model->gradients));
    memcpy(once, model->gradients.data, tensor_bytes(model->gradients));
    run_once(r, true);
    assert_memory_equal(once, model->gradients.data, tensor_bytes(model->gradients));
    free(once);
}

static double rate_of(const Segment *segment, bool groups) { return groups && segment->group == 0 ? 0.1 : 1; }

/* Losses and norms of five steps as in the golden file, whose rows hold `columns` losses of which the first ones are
 * the model's metrics; then the weights. groups: the encoder learns at a tenth of the rate. */
static void check_steps(PsdRig *r, int columns, bool groups) {
    Model *model = r->rig.model;
    Device *device = r->rig.device;
    Tensor m = model_rig_flat(&r->rig), v = model_rig_flat(&r->rig),
           norm = tensor_1d(device->allocate(device, 64), DTYPE_F32, 1);
    float *norms = floats(&r->golden.file, "", "norms"), *losses = floats(&r->golden.file, "", "losses");
    Segment *segments;
    int n = params_segments(&model->params, weight_decay, &segments);
    for (int i = 0; i < n; i++) segments[i].learning_rate = learning_rate * (float)rate_of(&segments[i], groups);
    for (int k = 0; k < STEPS; k++) {
        run_once(r, k % 2);
        for (int c = 0; c < (columns == 3 ? 2 : 1); c++) {
            float loss = (float)mean_of(r, c);
            assert_close(model->metrics[c].name, &loss, &losses[columns * k + c], 1, golden_tolerance);
        }
        AdamW options = {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .clip = 1, .step = k + 1};
        global_norm(device, norm, model->gradients, tensor_none(), segments, n);
        assert_close("gradient norm", norm.data, &norms[k], 1, golden_tolerance);
        adamw_update(device, (AdamWBuffers){.params = model->weights, .m = m, .v = v, .grads = model->gradients}, norm,
                     tensor_none(), segments, n, options);
        model_rig_copy_moving(&r->rig, true, norm);
    }
    assert_true(
        compare_parameters("five steps", &r->golden.file, "after.", &model->params, model->weights.data, key_bias) > 3);
    model_rig_release_moments(&r->rig, m, v, norm);
    free(segments);
    free(norms);
    free(losses);
}

TEST(pretraining_matches) {
    PsdRig r = pretraining("psd_mpae", &tiny);
    check_gradients(&r, "tiny", r.rig.model->params.count - 1);
    check_steps(&r, 3, false);
    psd_rig_close(&r);
    r = pretraining("psd_mpae2", &deeper);
    check_gradients(&r, "two layers", r.rig.model->params.count - 1);
    check_steps(&r, 3, false);
    psd_rig_close(&r);
}

TEST(classification_matches) {
    PsdRig r = classification("psd_classifier", &classifier);
    check_gradients(&r, "classifier", r.rig.model->params.count - 2);
    check_steps(&r, 1, true);
    psd_rig_close(&r);
}

/* The logits that a pass gives for evaluation, of the weights as they are. */
static void check_logits(PsdRig *r, bool train, const char *prefix, const char *name) {
    float *want = floats(&r->golden.file, prefix, name), got[BATCH * PSD_CLASSES];
    Pass pass = model_rig_pass(&r->rig, r->batch.counts, 1);
    pass.train = train;
    pass.outputs = tensor_2d(got, DTYPE_F32, BATCH, PSD_CLASSES);
    model_rig_run(&r->rig, &r->batch, &pass);
    assert_close("logits", got, want, find(&r->golden.file, prefix, name)->count, golden_tolerance);
    free(want);
}

TEST(outputs_are_the_logits) {
    PsdRig r = classification("psd_classifier", &classifier);
    check_logits(&r, false, "step0.", "logits");
    psd_rig_close(&r);
}

/* Batch norm in training: the batch's statistics, and the running ones move; five steps on, they are the reference's.
 */
TEST(convolutional_classification_matches) {
    PsdRig r = classification("psd_cnn", &cnn_classifier);
    check_gradients(&r, "cnn", 8);
    check_steps(&r, 1, true);
    psd_rig_close(&r);
}

TEST(convolutional_pretraining_matches) {
    PsdRig r = pretraining("psd_mpae_cnn", &with_cnn);
    check_gradients(&r, "mpae with cnn", 8);
    check_steps(&r, 3, false);
    psd_rig_close(&r);
}

/* ---- sizes ---- */

static int64_t count_and_close(Model *model) {
    int64_t n = params_count(&model->params);
    model->close(model);
    return n;
}

TEST(parameters_are_as_many_as_the_reference_has) {
    static const struct {
        PsdEncoderConfig encoder;
        int decoder_dim, decoder_layers, projection_dim, head_dim;
        int64_t pretraining, classification;
    } sizes[] = {
        {{false, 32, 1, 2, 64, 0}, 16, 1, 16, 32, 14064, 10502},
        {{false, 128, 4, 4, 256, 0}, 64, 2, 64, 128, 634576, 550022},
        {{false, 256, 6, 8, 1024, 0}, 64, 2, 64, 128, 4911696, 4777862},
        {{false, 512, 8, 8, 2048, 0}, 128, 4, 128, 256, 26157968, 25363206},
        {{false, 1024, 16, 16, 4096, 0}, 128, 4, 128, 256, 203407760, 201826054},
    };
    for (int i = 0; i < 5; i++) {
        PsdPretrainConfig pretraining_config = {.encoder = sizes[i].encoder,
                                                .decoder_dim = sizes[i].decoder_dim,
                                                .decoder_layers = sizes[i].decoder_layers,
                                                .projection_dim = sizes[i].projection_dim,
                                                .temperature = 0.07f};
        PsdClassifierConfig classifier_config = {.encoder = sizes[i].encoder, .head_dim = sizes[i].head_dim};
        assert_int_equal(count_and_close(psd_pretrain_open(&pretraining_config)), sizes[i].pretraining);
        assert_int_equal(count_and_close(psd_classifier_open(&classifier_config)), sizes[i].classification);
    }
    PsdClassifierConfig baseline = {.encoder = {.cnn = true, .d_model = 128}, .head_dim = 128};
    assert_int_equal(count_and_close(psd_classifier_open(&baseline)), 491718);
    assert_int_equal(count_and_close(psd_classifier_open(&cnn_classifier)), 450702);
}

TEST(sizes_have_names) {
    const PsdSize *small = psd_size("small");
    assert_non_null(small);
    assert_int_equal(small->d_model, 128);
    assert_int_equal(small->head_dim, 128);
    assert_null(psd_size("huge"));
}
