/* A classifier's predictions for one split, in the form that reports read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/chance_cause.h"
#include "commands/psd/psd.h"
#include "data/psd/manifest.h"
#include "report/chance.h"

static const UsualRates usual_rates = {.pretrained = 5e-4, .scratch = 5e-4}; /* encoders have a tenth of it */

/* outputs: the logits, [n_samples, classes]. */
static PsdPredictions make_predictions(const PsdStore *store, const Dataset *samples, const float *outputs) {
    int64_t n = samples->n_samples;
    PsdPredictions p = {.logits = xmalloc((size_t)(n * PSD_CLASSES + 1) * sizeof(double)),
                        .snr = xmalloc((size_t)(n + 1) * sizeof(double)),
                        .truth = xmalloc((size_t)(n + 1) * sizeof(int32_t)),
                        .group = xmalloc((size_t)(n + 1) * sizeof(int32_t)),
                        .ids = xmalloc((size_t)(n + 1) * sizeof(int64_t))};
    for (int64_t i = 0; i < n * PSD_CLASSES; i++) p.logits[i] = (double)outputs[i];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = psd_dataset_sample(samples, i);
        p.snr[i] = (double)store->snr[at];
        p.truth[i] = store->labels[at];
        p.group[i] = store->sensors[at];
        p.ids[i] = store->rows[at];
    }
    p.predictions = (Predictions){
        .n = n,
        .classes = PSD_CLASSES,
        .class_names = PSD_LABEL_NAMES,
        .logits = p.logits,
        .truth = p.truth,
        .ids = p.ids,
        .covariate = {.values = p.snr, .limit = 1000, .bin = 5, .name = "snr", .title = "SNR", .unit = "dB"},
        .group = p.group,
        .n_groups = store->n_sensors,
        .group_names = store->sensor_names,
        .group_kind = "sensor"};
    return p;
}

void psd_predictions_free(PsdPredictions *p) { FREE(p->logits, p->snr, p->truth, p->group, p->ids, p->cause); }

void psd_predictions_print_chance(const PsdPredictions *p) {
    Evaluation e;
    MUST(evaluation_make(&p->predictions, 1, &e, &error));
    OWNED char *text = chance_of(&e, p->predictions.cause);
    if (text) printf("[Report] the classifier is %s\n", text);
    evaluation_free(&e);
}

PsdPredictions psd_predictions(const PsdOptions *o, const PsdData *data, PsdClassifier *classifier, int split) {
    Dataset *samples = psd_data_require(o, data, split);
    OWNED float *outputs = xmalloc((size_t)(samples->n_samples * PSD_CLASSES) * sizeof *outputs);
    if (!classifier->training) {
        classifier->spec.train = samples;
        classifier->training = train_open_inference(&classifier->spec);
    }
    double start = seconds_now();
    train_outputs(classifier->training, samples, outputs);
    double seconds = seconds_now() - start;
    printf("[Eval] %lld samples in %.2f s, %.0f samples/s\n", (long long)samples->n_samples, seconds,
           (double)samples->n_samples / seconds);
    PsdPredictions predictions = make_predictions(&data->store, samples, outputs);
    predictions.cause = chance_cause(o->train.base_checkpoint, usual_rates, o->more_epochs);
    predictions.predictions.cause = predictions.cause;
    if (samples != classifier->spec.train) samples->close(samples);
    return predictions;
}

int psd_eval_split(const PsdOptions *o) {
    return !strcmp(o->test.eval_split, "test") ? PSD_TEST : !strcmp(o->test.eval_split, "val") ? PSD_VAL : PSD_TRAIN;
}
