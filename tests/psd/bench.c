/* Training steps of the PSD models of a named size, without dropout, on noise. */
#include <stdlib.h>
#include <string.h>

#include "data/psd/dataset.h"
#include "kernels/philox.h"
#include "model/psd/psd.h"
#include "tests/bench/bench.h"

/* Spectra of white noise: 6 classes, each from several sensors. */
static PsdStore psd_noise(int n) {
    PsdStore store = {.n = n, .psd = xmalloc((size_t)n * PSD_BINS * sizeof(float))};
    store.labels = xcalloc((size_t)n, sizeof *store.labels);
    store.sensors = xcalloc((size_t)n, sizeof *store.sensors);
    store.rows = xcalloc((size_t)n, sizeof *store.rows);
    for (int i = 0; i < n; i++) {
        store.labels[i] = i % PSD_CLASSES;
        store.sensors[i] = i / PSD_CLASSES % 4;
        store.rows[i] = i;
    }
    for (int i = 0; i < n * PSD_BINS; i++)
        store.psd[i] = 3.4641f * ((float)philox_bits(1, PURPOSE_SYNTHETIC, 0, (uint64_t)i) * 0x1p-32f - 0.5f);
    return store;
}

static Batch psd_batch(int n, bool pretraining) {
    PsdStore store = psd_noise(n); /* the batch reads it: stays */
    PsdDatasetOptions options = {
        .pretraining = pretraining, .n_visible = pretraining ? 5 : 0, .seed = 1, .classes = PSD_CLASSES};
    int64_t *rows = xmalloc((size_t)n * sizeof *rows);
    for (int i = 0; i < n; i++) rows[i] = i;
    Dataset *data = psd_dataset_open(&store, &(PsdIds){rows, n}, &options);
    Batch batch = psd_largest_batch(data, n, 0);
    batch.fields[batch.n_fields] = data->device_data;
    data->close(data);
    free(rows);
    return batch;
}

static Model *psd_model(const char *name, bool pretraining) {
    const PsdSize *s = psd_size(name);
    if (!s) die("unknown size '%s'; there are tiny, small, l4, medium, large", name);
    PsdEncoderConfig encoder = {.d_model = s->d_model, .n_layers = s->n_layers, .n_heads = s->n_heads, .d_ff = s->d_ff};
    if (!pretraining) return psd_classifier_open(&(PsdClassifierConfig){.encoder = encoder, .head_dim = s->head_dim});
    return psd_pretrain_open(&(PsdPretrainConfig){.encoder = encoder,
                                                  .decoder_dim = s->decoder_dim,
                                                  .decoder_layers = s->decoder_layers,
                                                  .projection_dim = s->projection_dim,
                                                  .sicr_weight = 0.1f,
                                                  .temperature = 0.07f});
}

static Model *open_psd(const char *name, char **arguments, int n_arguments, Batch *batch) {
    bool pretraining = !strcmp(name, "psd_pretrain");
    (void)n_arguments;
    *batch = psd_batch(atoi(arguments[1]), pretraining);
    return psd_model(arguments[0], pretraining);
}

__attribute__((constructor)) static void register_cases(void) {
    static const BenchCase cases[] = {
        {"psd_pretrain", "SIZE B: the masked autoencoder of a named size, without dropout", 2, open_psd},
        {"psd_finetune", "SIZE B: the classifier of a named size, without dropout", 2, open_psd}};
    for (int i = 0; i < 2; i++) bench_register(&cases[i]);
}
