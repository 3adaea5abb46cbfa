#include "commands/slm/inference.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/predict.h"
#include "commands/trained.h"

void slm_inference_options(SlmInference *i) {
    slm_source_options(&i->set, &i->source);
    predict_train_options_add(&i->set, &i->train);
}

void slm_inference_describe(SlmInference *i) {
    char *path = trained_checkpoint(i->source.checkpoint);
    if (access(path, F_OK)) die("--checkpoint %s: %s", path, strerror(errno));
    i->train.base_checkpoint = path;
    i->base = slm_base_adopt(path, &i->set);
    i->config = slm_base_config(&i->base);
    i->tokenizer = slm_base_tokenizer(&i->base, i->source.tokenizer);
}

void slm_inference_open(SlmInference *i, const SlmPasses *passes) {
    const char *why;
    i->model = slm_open(&i->config);
    i->device = train_device_open(&i->train, &why);
    TrainSpec spec = {TRAINER_INFERENCE(&i->train, &i->set, i->device, why), .model = i->model, .import = SLM_IMPORT};
    if (passes) {
        i->model->n_outputs = passes->n_outputs;
        spec.train = passes->dataset;
        spec.batch.largest = passes->largest;
    }
    i->training = train_open_inference(&spec);
}

void slm_inference_close(SlmInference *i, int argc, char **argv) {
    train_close(i->training);
    i->model->close(i->model);
    device_close(i->device);
    tokenizer_close(i->tokenizer);
    slm_base_close(&i->base);
    free((char *)i->train.base_checkpoint);
    options_free(&i->set, argc, argv);
}

int32_t slm_inference_first_id(const SlmInference *i) {
    const json_t *first = json_object_get(i->base.description, SLM_FIRST_FACT);
    return first ? (int32_t)json_integer_value(first) : -1;
}
