/* The files of an exported model. */
#pragma once

#include "data/text/tokenizer.h"
#include "model/slm.h"

typedef struct {
    const char *output; /* folder */
    const Model *model;
    SlmConfig config; /* of the model, with the dropout of its training */
    float *weights;   /* flat, on the host; writing may change them */
    const Tokenizer *tokenizer;
    int64_t step; /* updates of the training; 0: unknown */
    double best;  /* its smallest validation loss; INFINITY: unknown */
} SlmExport;

/* Write OUTPUT/model.safetensors, config.json, generation_config.json and the files of the tokenizer, as
 * GPT2LMHeadModel.from_pretrained and AutoTokenizer.from_pretrained read them; the linears' matrices in `weights` are
 * transposed after that. context: a SlmExport. */
bool slm_export_gpt2(const void *context, Error *error);
/* Writes OUTPUT/ckpt.pt as nanoGPT's sample.py reads it. context: a SlmExport. */
bool slm_export_nanogpt(const void *context, Error *error);
