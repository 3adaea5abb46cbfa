/* The benchmarks of the PSD models of a named size, on noise. */
#include <stdlib.h>
#include <string.h>

#include "data/psd/dataset.h"
#include "kernels/philox.h"
#include "model/psd/psd.h"
#include "tests/bench/bench.h"

/* Spectra of white noise, which stay: 6 classes, each from several sensors. */
static const PsdStore *psd_noise(int n) {
    PsdStore *store = xcalloc(1, sizeof *store);
    *store = (PsdStore){.n = n, .psd = xmalloc((size_t)n * PSD_BINS * sizeof(float))};
    store->labels = xcalloc((size_t)n, sizeof *store->labels);
    store->sensors = xcalloc((size_t)n, sizeof *store->sensors);
    store->rows = xcalloc((size_t)n, sizeof *store->rows);
    for (int i = 0; i < n; i++) {
        store->labels[i] = i % PSD_CLASSES;
        store->sensors[i] = i / PSD_CLASSES % 4;
        store->rows[i] = i;
    }
    for (int i = 0; i < n * PSD_BINS; i++)
        store->psd[i] = 3.4641f * ((float)philox_bits(1, PURPOSE_SYNTHETIC, 0, (uint64_t)i) * 0x1p-32f - 0.5f);
    return store;
}

static Dataset *psd_spectra(int n, bool pretraining) {
    PsdDatasetOptions options = {
        .pretraining = pretraining, .n_visible = pretraining ? 5 : 0, .seed = 1, .classes = PSD_CLASSES};
    OWNED int64_t *rows = xmalloc((size_t)n * sizeof *rows);
    for (int i = 0; i < n; i++) rows[i] = i;
    return psd_dataset_open(psd_noise(n), &(PsdIds){rows, n}, &options);
}

static Model *psd_model(const char *name, bool pretraining) {
    const PsdSize *s = psd_size(name);
    if (!s) die("unknown size '%s'; there are tiny, small, l4, medium, large", name);
    PsdEncoderConfig encoder = {
        .d_model = s->d_model, .n_layers = s->n_layers, .n_heads = s->n_heads, .d_ff = s->d_ff, .dropout = 0.1f};
    if (!pretraining)
        return psd_classifier_open(
            &(PsdClassifierConfig){.encoder = encoder, .head_dim = s->head_dim, .head_dropout = 0.2f});
    return psd_pretrain_open(&(PsdPretrainConfig){.encoder = encoder,
                                                  .decoder_dim = s->decoder_dim,
                                                  .decoder_layers = s->decoder_layers,
                                                  .decoder_dropout = 0.1f,
                                                  .projection_dim = s->projection_dim,
                                                  .sicr_weight = 0.1f,
                                                  .temperature = 0.07f});
}

static void open_psd(const char *name, const char *const *arguments, TrainSpec *spec) {
    bool pretraining = !strcmp(name, "psd_pretrain");
    spec->train = psd_spectra(BENCH_BATCHES * (int)spec->options->batch_size, pretraining);
    spec->model = psd_model(arguments[0], pretraining);
}

__attribute__((constructor)) static void register_cases(void) {
    static const BenchCase cases[] = {
        {"psd_pretrain", "SIZE: the masked autoencoder of a named size", 1, 512, 1, psd_largest_batch, open_psd},
        {"psd_finetune", "SIZE: the classifier of a named size", 1, 512, 1, psd_largest_batch, open_psd}};
    for (int i = 0; i < 2; i++) bench_register(&cases[i]);
}
