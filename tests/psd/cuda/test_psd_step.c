/* Whole training steps of the PSD models on the cuda device, real or emulated, against the cpu device: losses, every
 * gradient, running statistics, what a validation says, and updates; in f32 and in the 16-bit types, with and without
 * recomputation, with dropout; and the same bits under another schedule and from a recording. Widths are no multiples
 * of the kernels' tiles. */
#include "model/psd/psd.h"
#include "tests/cuda/step_rig.h"
#include "tests/psd/rig.h"
#include "tests/psd/spectra.h"

enum { SPECTRA = 3, BATCHES = 2, VISIBLE = 5, UPDATES = 2 };

/* A model, and through how many roundings of a 16-bit type the longest path to a gradient goes. */
typedef struct {
    const char *name;
    const PsdPretrainConfig *pretraining; /* or */
    const PsdClassifierConfig *classifier;
    int roundings;
} Case;

/* A block costs about 12 roundings, and as many on the way back; what comes before and behind the blocks half of that.
 * A unit of the CNN costs windows, convolution, norm and GELU; a block three of them one behind another, and a sum. */
enum { BLOCK = 24, ENDS = 24, CNN = 2 * (4 + 3 * (3 * 4 + 1)) };

static const PsdPretrainConfig tiny = {{false, 32, 1, 2, 64, 0.1f}, 16, 1, 0.1f, 16, 0.1f, 0.5f};
static const PsdPretrainConfig odd = {{false, 24, 2, 2, 40, 0.1f}, 16, 2, 0.1f, 12, 0.1f, 0.5f};
static const PsdPretrainConfig with_cnn = {{.cnn = true, .d_model = 24}, 16, 1, 0.1f, 12, 0.1f, 0.5f};
static const PsdClassifierConfig classifier = {
    {false, 64, 2, 4, 128, 0.1f}, 48, 0.2f, {0.5f, 1, 1.5f, 2, 0.8f, 1.2f}, false};
static const PsdClassifierConfig linear_head = {{false, 24, 1, 2, 40, 0}, 0, 0, {1, 1, 1, 1, 1, 1}, false};
static const PsdClassifierConfig cnn = {{.cnn = true, .d_model = 32}, 24, 0.2f, {0.5f, 1, 1.5f, 2, 0.8f, 1.2f}, false};

static const Case cases[] = {
    {"mpae", &tiny, NULL, 2 * BLOCK + ENDS},
    {"mpae of odd widths", &odd, NULL, 4 * BLOCK + ENDS},
    {"classifier", NULL, &classifier, 2 * BLOCK + ENDS},
    {"classifier with a linear head", NULL, &linear_head, BLOCK + ENDS},
    {"cnn classifier", NULL, &cnn, CNN + ENDS},
    {"mpae with cnn", &with_cnn, NULL, CNN + BLOCK + ENDS},
};
enum { CASES = sizeof cases / sizeof *cases };

static bool pretrains(const Case *c) { return c->pretraining != NULL; }

/* ---- two batches of one shape, and two sides ---- */

typedef struct {
    PsdStore store;
    Dataset *dataset;
    Batch batches[BATCHES];
} Spectra;

static Spectra spectra_open(const Case *c) {
    Spectra s = {.store = spectra_make(2, 1)};
    int64_t rows[BATCHES * SPECTRA * 2];
    for (int64_t i = 0; i < s.store.n; i++) rows[i] = i * 5 % s.store.n;
    PsdDatasetOptions options = {.pretraining = pretrains(c),
                                 .cnn = pretrains(c) ? c->pretraining->encoder.cnn : c->classifier->encoder.cnn,
                                 .n_visible = pretrains(c) ? VISIBLE : 0,
                                 .seed = 9,
                                 .class_weights = pretrains(c) ? NULL : c->classifier->class_weights,
                                 .classes = PSD_CLASSES};
    s.dataset = psd_dataset_open(&s.store, &(PsdIds){rows, s.store.n}, &options);
    for (int b = 0; b < BATCHES; b++) {
        int32_t samples[SPECTRA];
        Error error;
        for (int32_t i = 0; i < SPECTRA; i++) samples[i] = b * SPECTRA + i;
        s.batches[b] = batch_open(s.dataset->batch_bytes(s.dataset, samples, SPECTRA), SPECTRA);
        if (!s.dataset->fill(s.dataset, &s.batches[b], samples, SPECTRA, &error)) fail_msg("%s", error.text);
        s.batches[b].fields[s.batches[b].n_fields] = s.dataset->device_data;
    }
    return s;
}

static void spectra_close(Spectra *s) {
    for (int b = 0; b < BATCHES; b++) batch_close(&s->batches[b]);
    s->dataset->close(s->dataset);
    spectra_free(&s->store);
}

static Side psd_open(const Case *c, const Spectra *spectra, Device *device, DType half) {
    Model *model = pretrains(c) ? psd_pretrain_open(c->pretraining) : psd_classifier_open(c->classifier);
    float *weights = xaligned((size_t)model->params.flat_count * 4);
    params_initialize(&model->params, weights, 7, 1); /* the buffers */
    fill_parameters(&model->params, weights);
    Side side = side_open(device, model, weights, spectra->batches, BATCHES, half);
    free(weights);
    return side;
}

/* ---- cuda against cpu ---- */

static void assert_losses(const Side *got, const Side *want, double tolerance) {
    for (int i = 0; i < got->model->n_metrics; i++) {
        if (!(got->model->metrics[i].weight > 0)) continue; /* hits of 16 bits may differ by a tie */
        assert_near(got->host_sums[i], want->host_sums[i], tolerance * (double)want->host_sums[i]);
    }
}

/* Returns the tolerance of a gradient.
 *
 * Biases behind the contrast of the CNN's outputs are sums over the 12 rows of two batches, which cancel: a contrast
 * does not change if all z's move together. The sum is 1 / 4.3 of what it would be if the rows had nothing in common,
 * sqrt(sum |row|^2) / |sum of rows| in f32, and its relative error so much larger than that of a row. A row is made of
 * differences of z's, whose r.m.s. is 0.70 for z's of length 1: the error of the way forward counts sqrt(2) / 0.70
 * times, that of the way back once. In f16 this makes 0.0020 for z, 0.0044 for a row and 0.019 for the biases; PTX of a
 * T4 errs by 0.0020, 0.0041 and 0.012. What the roundings of weights do to all rows alike cancels, so that there is no
 * allowance for spread. */
static double gradient_tolerance(const Case *c, DType half, const char *name) {
    size_t length = strlen(name);
    double half_way = (double)c->roundings / 2;
    bool is_bias = length > 5 && strcmp(name + length - 5, ".bias") == 0;
    if (half == DTYPE_F32 || c->pretraining != &with_cnn || !is_bias) return tolerance_of(half, c->roundings);
    return 4.3 * sqrt((2 / (0.70 * 0.70) + 1) * half_way) * rounding_of(half);
}

/* Requires that all gradients are within their tolerances. */
static void compare_gradients(const Case *c, DType half, bool recompute, const Side *got, const Side *want) {
    const ParamTable *table = &want->model->params;
    double worst = -1, allowed = 1; /* of the one that is nearest to its tolerance */
    const char *where = "";
    for (int i = 0; i < table->count; i++) {
        const Param *p = &table->items[i];
        if (p->buffer) continue;
        double d = distance(got->gradients + p->offset, want->gradients + p->offset, p->count);
        double tolerance = gradient_tolerance(c, half, p->name);
        if (!isnan(worst) && !(d / tolerance <= worst / allowed)) worst = d, allowed = tolerance, where = p->name;
    }
    print_message("%s, %s%s: gradients differ by %.2g in %s (allowed %.2g)\n", c->name, dtype_name(half),
                  recompute ? ", recomputed" : "", worst, where, allowed);
    assert_true(worst <= allowed);
}

/* Compares gradients, norm and losses of a step, batch statistics, and the outputs of a validation. */
static void compare_step(const Case *c, DType half, bool recompute, const Side *got, const Side *want) {
    const ParamTable *table = &want->model->params;
    const char *whose;
    double tolerance = tolerance_of(half, c->roundings);
    double statistics = largest_distance(table, got->weights, want->weights, true, &whose);
    compare_gradients(c, half, recompute, got, want);
    if (*whose) print_message("  buffers by %.2g in %s (allowed %.2g)\n", statistics, whose, tolerance);
    assert_true(statistics <= tolerance);
    assert_near(got->host_norm, want->host_norm, tolerance * (double)want->host_norm);
    assert_losses(got, want, tolerance);
}

/* Every update adds to what the two sides differ by what it made of the differences of its gradients. */
static void compare(const Case *c, DType half, bool recompute) {
    Rig rig = rig_open(half);
    if (!rig_has(&rig, half)) {
        rig_close(&rig);
        skip();
    }
    Spectra spectra = spectra_open(c);
    Side want = psd_open(c, &spectra, rig.cpu, DTYPE_F32), got = psd_open(c, &spectra, rig.cuda, half);
    Side again = psd_open(c, &spectra, rig.cuda, half);
    double tolerance = tolerance_of(half, c->roundings);
    int64_t n_outputs = tensor_given(got.outputs) ? tensor_numel(got.outputs) : 0;
    again.repeat = true;
    for (int k = 0; k < UPDATES; k++) {
        side_step(&want, false);
        side_step_twice(&rig, &got, &again, recompute);
        if (!k) compare_step(c, half, recompute, &got, &want);
        assert_losses(&got, &want, (k + 1) * tolerance);
    }
    tolerance *= UPDATES + 1;
    for (int i = 0; i < 2 * BATCHES; i++) { /* recorded the second time, repeated for other batches */
        side_validate(&want, i % BATCHES);
        side_validate(&got, i % BATCHES);
        side_validate(&again, i % BATCHES);
        assert_losses(&got, &want, tolerance);
        if (n_outputs) assert_close("logits", got.host_outputs, want.host_outputs, n_outputs, tolerance);
        assert_memory_equal(again.host_outputs, got.host_outputs, (size_t)n_outputs * sizeof *got.host_outputs);
        assert_memory_equal(again.host_sums, got.host_sums, sizeof got.host_sums);
    }
    for (int i = 0; i < 2; i++) assert_non_null(cuda_state(rig.cuda)->recordings[i].graph);
    side_close(&want);
    side_close(&got);
    side_close(&again);
    spectra_close(&spectra);
    rig_close(&rig);
}

static void compare_all(DType half) {
    for (int i = 0; i < CASES; i++) compare(&cases[i], half, i % 2);
}

int main(void) { return step_tests_run(compare_all); }
