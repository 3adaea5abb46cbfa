#include "commands/slm/inference.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/predict.h"
#include "commands/trained.h"

#define FIELD(name) offsetof(SlmInference, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "checkpoint", .type = OPTION_TEXT, .offset = FIELD(checkpoint), .metavar = "PATH", .required = true,
     .help = "folder of a run (its best weights, or the last if it has not validated), a checkpoint, or a file of "
             "weights, also of another program"},
    {.name = "tokenizer", .type = OPTION_TEXT, .offset = FIELD(tokenizer_path), .metavar = "PATH",
     .help = "tokenizer.json or SentencePiece model of the training, or its folder; default: the one in the folder of "
             "the run"},
    {.name = "heads", .type = OPTION_INT, .offset = FIELD(heads), .default_value = "0", .max = 1000, .metavar = "N",
     .help = "attention heads of a model whose file does not tell them; 0: not needed"},
    {.name = "gelu", .type = OPTION_CHOICE, .offset = FIELD(gelu), .default_value = "erf", .metavar = "erf|tanh",
     .help = "kind of GELU of a model whose file does not tell it"},
};
// clang-format on

void slm_inference_options(SlmInference *i) {
    options_add(&i->set, table, sizeof table / sizeof *table, i);
    predict_train_options_add(&i->set, &i->train);
}

void slm_inference_describe(SlmInference *i) {
    char *path = trained_checkpoint(i->checkpoint);
    if (access(path, F_OK)) die("--checkpoint %s: %s", path, strerror(errno));
    i->train.base_checkpoint = path;
    i->base = slm_base_adopt(path, &i->set);
    i->config = slm_base_config(&i->base);
    i->tokenizer = slm_base_tokenizer(&i->base, i->tokenizer_path);
}

void slm_inference_open(SlmInference *i, const SlmPasses *passes) {
    const char *why;
    i->model = slm_open(&i->config);
    i->device = train_device_open(&i->train, &why);
    TrainSpec spec = {.options = &i->train,
                      .set = &i->set,
                      .model = i->model,
                      .device = i->device,
                      .device_why = why,
                      .import = SLM_IMPORT,
                      .base_option = "checkpoint"};
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
