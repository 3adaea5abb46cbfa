/* A trained text GPT on a device, for the commands that use it. */
#pragma once

#include "commands/slm/base.h"
#include "train/train.h"

typedef struct {
    TrainOptions train; /* where it computes */
    SlmSource source;
    OptionSet set;
    SlmBase base;
    SlmConfig config;
    Tokenizer *tokenizer;
    Model *model;
    Device *device;
    Training *training;
} SlmInference;

/* Adds the options of slm_source_options and those of predict_train_options_add to the set, to which the
 * command then adds its own. */
void slm_inference_options(SlmInference *inference);
/* Reads what the checkpoint and the tokenizer are; the options have been parsed. */
void slm_inference_describe(SlmInference *inference);
/* Passes over a data set: the outputs per sequence that are wanted, and BatchSpec.largest. */
typedef struct {
    Dataset *dataset;
    int n_outputs;
    Batch (*largest)(const Dataset *dataset, int64_t batch_size, int64_t token_budget);
} SlmPasses;

/* Opens the device, and the model with memory for the passes; NULL: only its weights. */
void slm_inference_open(SlmInference *inference, const SlmPasses *passes);
void slm_inference_close(SlmInference *inference, int argc, char **argv);
/* Returns the id that stood before every document of the training; -1: none, or it is not known. */
int32_t slm_inference_first_id(const SlmInference *inference);
