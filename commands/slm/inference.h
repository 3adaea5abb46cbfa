/* A trained text GPT on a device, for the commands that use it. */
#ifndef COMMANDS_SLM_INFERENCE_H
#define COMMANDS_SLM_INFERENCE_H

#include "commands/slm/base.h"
#include "train/train.h"

typedef struct {
    TrainOptions train; /* where it computes */
    const char *checkpoint, *tokenizer_path, *gelu;
    int64_t heads;
    OptionSet set;
    SlmBase base;
    SlmConfig config;
    Tokenizer *tokenizer;
    Model *model;
    Device *device;
    Training *training;
} SlmInference;

/* Adds --checkpoint, --tokenizer, --heads, --gelu and the options of the device to the set, to which the command then
 * adds its own. */
void slm_inference_options(SlmInference *inference);
/* Reads what the checkpoint and the tokenizer are; the options have been parsed. */
void slm_inference_describe(SlmInference *inference);
/* Opens the device and the weights. The memory is planned for batches of the data set; NULL: only the weights. */
void slm_inference_open(SlmInference *inference, Dataset *dataset);
void slm_inference_close(SlmInference *inference, int argc, char **argv);
/* Returns the id that stands before a text, as in training; -1: none. Only models of train_slm have seen one. */
int32_t slm_inference_first_id(const SlmInference *inference);

#endif
