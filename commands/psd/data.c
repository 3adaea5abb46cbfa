/* The data of one command: the store of spectra, the rows of each split, the class weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "commands/class_weights.h"
#include "commands/psd/psd.h"
#include "data/psd/manifest.h"
#include "data/psd/split_index.h"

_Static_assert((int)PSD_CLASSES + 1 == (int)PSD_LABELS, "every label but the unknown one is a class of the model");

/* One batch of spectra with every class and several sensors, all in the training split. */
static PsdData synthetic_data(const PsdOptions *o) {
    enum { SENSORS = 8 };
    int64_t n = o->train.batch_size;
    PsdData data = {.synthetic = xcalloc((size_t)n * (PSD_BINS + 5), 4)};
    PsdStore *s = &data.store;
    *s = (PsdStore){.n = n, .psd = data.synthetic, .n_sensors = SENSORS, .n_files = 1};
    s->snr = s->psd + n * PSD_BINS;
    s->labels = (int32_t *)(void *)(s->snr + n);
    s->sensors = s->labels + n;
    s->files = s->sensors + n;
    s->rows = s->files + n;
    PsdIds *rows = &data.partition.splits[PSD_TRAIN];
    *rows = (PsdIds){xcalloc((size_t)n, sizeof *rows->at), n};
    for (int32_t i = 0; i < n; i++) {
        rows->at[i] = s->rows[i] = i;
        s->labels[i] = i % PSD_CLASSES;
        s->sensors[i] = i / PSD_CLASSES % SENSORS;
    }
    return data;
}

bool psd_data_store(const PsdOptions *o, const char *path, int n_threads, PsdStore *store, Error *error) {
    const bool *hop = options_given(&o->set, "hop") ? &o->data.hop : NULL;
    const double *limit = options_given(&o->set, "limit") ? &o->data.limit : NULL;
    return psd_store_open(store, path, hop, limit, n_threads, error);
}

PsdData psd_data_open(PsdOptions *o) {
    PsdData data = {0};
    Error error;
    if (!o->train.manifest.count) return synthetic_data(o);
    int n_threads = threads_take((int)o->train.threads, "--threads");
    MUST(psd_data_store(o, o->train.manifest.text[0], n_threads, &data.store, &error));
    o->data.hop = data.store.options.hop; /* a checkpoint records how its samples were made */
    o->data.limit = data.store.options.limit;
    if (!psd_split_index_check(o->data.split, data.store.manifest_hash, &error)) die("%s", error.text);
    if (error.text[0]) printf("[Split] %s\n", error.text);
    MUST(psd_partition_read(o->data.split, o->data.sensor, (int)o->data.shots, data.store.n_rows, &data.partition,
                            &error));
    return data;
}

void psd_data_close(PsdData *data) {
    psd_partition_free(&data->partition);
    psd_store_close(&data->store);
    free(data->synthetic);
}

int psd_data_visible_patches(const PsdOptions *o) { return PSD_PATCHES - (int)(PSD_PATCHES * o->training.mask_ratio); }

Dataset *psd_data_split(const PsdOptions *o, const PsdData *data, int split) {
    bool pretraining = o->command == PSD_PRETRAIN;
    PsdDatasetOptions options = {.pretraining = pretraining,
                                 .cnn = !strcmp(o->model.encoder, "cnn"),
                                 .n_visible = pretraining ? psd_data_visible_patches(o) : 0,
                                 .fixed = split != PSD_TRAIN,
                                 .seed = (uint64_t)o->train.seed,
                                 .class_weights = !pretraining && split == PSD_TRAIN ? data->class_weights : NULL,
                                 .classes = PSD_CLASSES};
    if (!data->partition.splits[split].n) return NULL;
    Dataset *samples = psd_dataset_open(&data->store, &data->partition.splits[split], &options);
    if (samples->n_samples) return samples;
    samples->close(samples); /* none of its rows has a sample */
    return NULL;
}

Dataset *psd_data_require(const PsdOptions *o, const PsdData *data, int split) {
    static const char *const purposes[PSD_SPLITS] = {"train", "validate", "test"};
    Dataset *samples = psd_data_split(o, data, split);
    if (samples) return samples;
    die("%s: no rows to %s on", o->data.split, purposes[split]);
}

void psd_data_print(const PsdData *data, const Dataset *train, const Dataset *validation) {
    if (data->synthetic) {
        printf("[Data] no manifest is given: one batch of %lld synthetic spectra\n", (long long)train->n_samples);
        return;
    }
    printf("[Data] %lld samples of %d sensors; %lld to train on, %lld to validate on, %lld to test on\n",
           (long long)data->store.n, data->store.n_sensors, (long long)train->n_samples,
           (long long)(validation ? validation->n_samples : 0), (long long)data->partition.splits[PSD_TEST].n);
}

/* ---- batches ---- */

const char *psd_data_indivisible(const PsdOptions *o) {
    return o->command == PSD_PRETRAIN         ? "the contrast is between the spectra of a micro-batch"
           : !strcmp(o->model.encoder, "cnn") ? "batch norms see each micro-batch separately"
                                              : NULL;
}

void psd_data_check_batch(const PsdOptions *o, const Dataset *train, bool drop_last) {
    if (o->train.auto_batch && !psd_data_indivisible(o)) return; /* it will be divided */
    if (drop_last && train->n_samples < o->train.batch_size)
        die("%lld samples to train on are fewer than one batch of %lld; give %s %lld or less",
            (long long)train->n_samples, (long long)o->train.batch_size,
            o->train.auto_batch ? "--effective-batch" : "-b", (long long)train->n_samples);
}

/* ---- class weights ---- */

void psd_data_weigh_classes(const PsdOptions *o, PsdData *data) {
    int64_t counts[PSD_CLASSES];
    double weights[PSD_CLASSES] = {1, 1, 1, 1, 1, 1};
    Dataset *samples = psd_data_require(o, data, PSD_TRAIN);
    psd_dataset_classes(samples, counts);
    if (!strcmp(o->training.class_weights, "auto"))
        metrics_class_weights(counts, PSD_CLASSES, METRICS_WEIGHTS_INVERSE, weights);
    else if (strcmp(o->training.class_weights, "none"))
        class_weights_parse(o->training.class_weights, "auto", PSD_CLASSES, weights);
    for (int c = 0; c < PSD_CLASSES; c++) data->class_weights[c] = (float)weights[c];
    if (!data->synthetic) printf("[Data] training samples (class weights):");
    for (int c = 0; c < PSD_CLASSES && !data->synthetic; c++)
        printf(" %s %lld (%.4f)%s", PSD_LABEL_NAMES[c], (long long)counts[c], (double)data->class_weights[c],
               c + 1 < PSD_CLASSES ? "," : "\n");
    samples->close(samples);
}
