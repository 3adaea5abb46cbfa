/* PSD models in tests: a store of the golden spectra, data sets of it, and the deterministic weights of the goldens. */
#pragma once

#include "data/psd/dataset.h"
#include "model/psd/psd.h"
#include "tests/golden.h"

/* The spectra of a golden file: 8 anchors, and, where it has them, 8 partners and the masks. */
typedef struct {
    TensorFile file;
    PsdStore store;
    float class_weights[PSD_CLASSES];
} GoldenSpectra;

static inline GoldenSpectra golden_spectra(const char *name) {
    GoldenSpectra g = {.file = open_golden(name)};
    bool pairs = tensor_file_find(&g.file, "batch.positive") != NULL;
    int64_t n = find(&g.file, "batch.", "anchor")->dims[0], all = pairs ? 2 * n : n;
    size_t bytes = (size_t)n * PSD_BINS * sizeof(float);
    g.store = (PsdStore){.n = all, .psd = xmalloc(2 * bytes)};
    float *anchors = floats(&g.file, "batch.", "anchor");
    memcpy(g.store.psd, anchors, bytes);
    free(anchors);
    g.store.labels = xcalloc((size_t)all, sizeof(int32_t));
    g.store.sensors = xcalloc((size_t)all, sizeof(int32_t));
    g.store.rows = xcalloc((size_t)all, sizeof(int32_t));
    for (int32_t i = 0; i < all; i++) g.store.rows[i] = i;
    if (pairs) {
        const StoredTensor *visible = find(&g.file, "batch.", "visible");
        float *partners = floats(&g.file, "batch.", "positive");
        memcpy(g.store.psd + n * PSD_BINS, partners, bytes);
        free(partners);
        g.store.n_visible = (int)visible->dims[1];
        g.store.visible = xcalloc((size_t)(all * g.store.n_visible), sizeof(int32_t));
        memcpy(g.store.visible, visible->data, (size_t)visible->count * sizeof(int32_t));
        g.store.positive = xcalloc((size_t)all, sizeof(int32_t));
        for (int32_t i = 0; i < n; i++) g.store.positive[i] = (int32_t)n + i;
    } else {
        float *weights = floats(&g.file, "batch.", "class_weights");
        memcpy(g.class_weights, weights, sizeof g.class_weights);
        free(weights);
        memcpy(g.store.labels, find(&g.file, "batch.", "labels")->data, (size_t)n * sizeof(int32_t));
    }
    return g;
}

static inline void golden_spectra_close(GoldenSpectra *g) {
    free(g->store.psd);
    free(g->store.labels);
    free(g->store.sensors);
    free(g->store.rows);
    free(g->store.visible);
    free(g->store.positive);
    tensor_file_close(&g->file);
}

/* The first n spectra as a data set. */
static inline Dataset *golden_dataset(const GoldenSpectra *g, int64_t n, bool pretraining, bool cnn) {
    int64_t rows[16];
    for (int64_t i = 0; i < n; i++) rows[i] = i;
    PsdDatasetOptions options = {.pretraining = pretraining,
                                 .cnn = cnn,
                                 .n_visible = g->store.n_visible,
                                 .class_weights = pretraining ? NULL : g->class_weights,
                                 .classes = PSD_CLASSES};
    return psd_dataset_open(&g->store, &(PsdIds){rows, n}, &options);
}

/* ---- the deterministic weights: a hash of (place of the tensor in torch's order, element) ---- */

static inline double fill_number(uint32_t tensor, uint32_t element) {
    uint32_t x = element * 2654435761u + (tensor + 1) * 2246822519u;
    x ^= x >> 16;
    x *= 2246822519u;
    x ^= x >> 13;
    x *= 3266489917u;
    x ^= x >> 16;
    return (double)x / 4294967296.0 * 2 - 1;
}

/* Torch names a decoder layer's tensors in another order than ours: attention, MLP, norms. */
static inline int place_in_decoder_layer(const char *name) {
    static const char *const parts[] = {"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias",
                                        "linear1.weight", "linear1.bias", "linear2.weight",  "linear2.bias",
                                        "norm1.weight",   "norm1.bias",   "norm2.weight",    "norm2.bias"};
    for (int i = 0; i < 12; i++)
        if (strstr(name, parts[i])) return i;
    fail_msg("%s is in no decoder layer", name);
    return -1;
}

/* All trained parameters of a table. */
static inline void fill_parameters(const ParamTable *table, float *flat) {
    uint32_t number = 0, layer = 0;
    int in_layer = 0;
    for (int i = 0; i < table->count; i++) {
        const Param *p = &table->items[i];
        if (p->buffer) continue;
        uint32_t tensor = number++;
        if (strstr(p->name, "decoder.decoder.layers.")) {
            if (!in_layer) layer = tensor;
            tensor = layer + (uint32_t)place_in_decoder_layer(p->name);
            in_layer = (in_layer + 1) % 12;
        }
        bool gain = p->rank == 1 && strstr(p->name, "weight");
        bool learned = strstr(p->name, "_token") || strstr(p->name, "pos_embed");
        double scale = learned        ? 0.5
                       : gain         ? 0.2
                       : p->rank == 1 ? 0.1
                                      : sqrt(3.0 / ((double)p->count / (double)p->dims[0]));
        for (int64_t e = 0; e < p->count; e++)
            flat[p->offset + e] = (float)(gain + scale * fill_number(tensor, (uint32_t)e));
    }
}
