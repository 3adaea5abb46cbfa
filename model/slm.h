/* The text GPT: a decoder in the style of GPT-2 whose head is the token table. */
#pragma once

#include "model/generate.h"

typedef struct {
    int vocabulary, context;        /* ids; rows of the longest sequence */
    int d_model, n_layers, n_heads; /* the MLP is 4 d_model wide */
    bool biases;                    /* of linears and norms */
    bool scaled_init;               /* the matrices that end a branch start smaller, by 1 / sqrt(2 n_layers) */
    GeluKind gelu;
    float dropout; /* of embeddings, attention probabilities, attention and MLP outputs */
} SlmConfig;

/* The model's metrics, in their order. The last one, bits per byte of text, is left out (Model.n_metrics) by a program
 * that does not know how many bytes its tokens stand for. */
enum { SLM_LOSS, SLM_TOP1, SLM_PERPLEXITY, SLM_BITS_PER_BYTE, SLM_METRICS };

/* The outputs of a program that sets Model.n_outputs to this: per sequence the sum of its rows' losses, not logits. */
enum { SLM_OUTPUTS = 1 };

/* Builds the model and its parameter table. Ends the program if the configuration is wrong, naming the field. */
Model *slm_open(const SlmConfig *config);
/* Returns what generation knows of it: a prompt is one part, ids of table 0. */
GenerationModel slm_generation(Model *model);
