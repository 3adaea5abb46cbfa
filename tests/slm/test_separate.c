/* The text that the model sees of documents that are kept separate, and of packed ones. */
#include "kernels/cpu/device.h"
#include "kernels/philox.h"
#include "model/slm.h"
#include "tests/model_rig.h"
#include "tests/slm/streams.h"
#include "tests/test.h"

enum { VOCABULARY = 50, CONTEXT = 24, MOST_ROWS = 400 };

/* The loss of each row of a batch, from the model's logits. */
typedef struct {
    const int32_t *targets;
    double of_row[MOST_ROWS];
} Losses;

static void keep_losses(void *context, const char *name, Tensor logits) {
    Losses *losses = context;
    if (strcmp(name, "logits") != 0) return;
    for (int64_t r = 0; r < logits.dims[0]; r++) {
        const float *x = (const float *)logits.data + r * VOCABULARY;
        double sum = 0;
        for (int c = 0; c < VOCABULARY; c++) sum += exp((double)x[c]);
        losses->of_row[r] = log(sum) - (double)x[losses->targets[r]];
    }
}

/* Computes the losses, and checks that the model's sum is theirs. */
static void run_model(ModelRig *rig, const Batch *batch, Losses *losses) {
    double sum = 0;
    assert_true(batch->n_tokens <= MOST_ROWS);
    losses->targets = slm_field(batch, SLM_TARGETS);
    Pass pass = {.sums = rig->sums, .dump = keep_losses, .dump_context = losses};
    model_rig_run(rig, batch, &pass);
    for (int64_t r = 0; r < batch->n_tokens; r++) sum += losses->of_row[r];
    assert_near(((const float *)rig->sums.data)[SLM_LOSS], sum, 1e-6 * sum);
}

static ModelRig open_model(void) {
    SlmConfig config = {
        .vocabulary = VOCABULARY, .context = CONTEXT, .d_model = 32, .n_layers = 2, .n_heads = 2, .gelu = GELU_ERF};
    ModelRig rig = model_rig_open(slm_open(&config), cpu_device_open(1), 1 << 24);
    float *weights = rig.model->weights.data;
    for (int64_t i = 0; i < rig.model->params.flat_count; i++) weights[i] *= 3; /* so that rows depend on each other */
    return rig;
}

/* Opens documents of random ids. */
static SlmStream *open_text(const int64_t *rows, int n) {
    int64_t first[16] = {0};
    int32_t ids[MOST_ROWS];
    for (int d = 0; d < n; d++) first[d + 1] = first[d] + rows[d];
    for (int32_t p = 0; p <= first[n]; p++) ids[p] = (int32_t)philox_below(8, PURPOSE_TEST, 0, (uint64_t)p, VOCABULARY);
    return slm_stream_of(ids, first[n] + 1, first, NULL, n, VOCABULARY, -1);
}

/* Runs rows of a batch as a stream of their own, and returns the largest difference of a loss. */
static double difference_alone(ModelRig *rig, const Batch *batch, const double *losses, int32_t first, int32_t n) {
    int32_t ids[CONTEXT + 1];
    Losses alone;
    memcpy(ids, slm_field(batch, SLM_IDS) + first, (size_t)n * sizeof *ids);
    ids[n] = slm_field(batch, SLM_TARGETS)[first + n - 1];
    SlmStream *stream = slm_stream_of(ids, n + 1, (const int64_t[]){0, n}, NULL, 1, VOCABULARY, -1);
    Dataset *dataset = slm_dataset_of(stream, CONTEXT, SLM_ORDER, false);
    Batch single = slm_batch_filled(dataset, 0, 0, 1);
    run_model(rig, &single, &alone);
    double worst = 0;
    for (int32_t r = 0; r < n; r++) worst = fmax(worst, fabs(alone.of_row[r] - losses[first + r]) / alone.of_row[r]);
    batch_close(&single);
    dataset->close(dataset);
    slm_stream_close(stream);
    return worst;
}

TEST(separate_documents_do_not_see_each_other) {
    static const int64_t rows[] = {5, 1, 17, 60, 24, 1, 1, 48, 9, 2, 25};
    static const int sampling[] = {SLM_ORDER, SLM_RANDOM};
    SlmStream *stream = open_text(rows, 11);
    ModelRig rig = open_model();
    for (int c = 0; c < 2; c++) {
        Dataset *dataset = slm_dataset_of(stream, CONTEXT, sampling[c], true);
        Batch batch = slm_batch_filled(dataset, 1, 0, (int)dataset->n_samples);
        const int32_t *offsets = slm_field(&batch, SLM_OFFSETS);
        Losses losses;
        run_model(&rig, &batch, &losses);
        double worst = 0;
        for (int64_t s = 0; s < batch.fields[SLM_OFFSETS].dims[0] - 1; s++)
            worst = fmax(worst, difference_alone(&rig, &batch, losses.of_row, offsets[s], offsets[s + 1] - offsets[s]));
        print_message("separate: largest relative difference of a row's loss %.1e\n", worst);
        assert_true(worst <= 1e-6);
        batch_close(&batch);
        dataset->close(dataset);
    }
    /* Packed, the first document of a sample is as alone; all later ones are not. */
    Dataset *dataset = slm_dataset_of(stream, CONTEXT, SLM_ORDER, false);
    Batch batch = slm_batch_filled(dataset, 0, 0, 1);
    Losses losses;
    run_model(&rig, &batch, &losses);
    assert_true(difference_alone(&rig, &batch, losses.of_row, 0, 5) <= 1e-6);
    assert_true(difference_alone(&rig, &batch, losses.of_row, 5, 1) > 1e-3);
    assert_true(difference_alone(&rig, &batch, losses.of_row, 6, 17) > 1e-3);
    batch_close(&batch);
    dataset->close(dataset);
    model_rig_close(&rig);
    slm_stream_close(stream);
}
