/* The encoder in the style of BERT and RoBERTa, with a head that classifies texts or one that predicts masked words.
 * Parameters have the names of Hugging Face's RobertaForSequenceClassification and RobertaForMaskedLM, but the decoder
 * of the latter, which is the token table. */
#pragma once

#include "model/model.h"

typedef struct {
    int vocabulary; /* ids */
    int positions;  /* rows of the position table; a text of T tokens reads rows 2 to T + 1 */
    int d_model, n_layers, n_heads, d_ff;
    float dropout;          /* of embeddings, attention probabilities, attention and MLP outputs */
    float head_dropout;     /* before both layers of the classification head */
    int classes;            /* at least 2; 0: the head over masked words */
    int frozen_layers;      /* the embeddings and so many layers, from the first on, are not trained */
    bool frozen_embeddings; /* only the embeddings are not trained */
    bool padding;           /* texts may hold BERT_PAD, whose rows in both tables get no gradient as an input */
} BertConfig;

/* The model's metrics, in their order. The loss is a mean over BERT_COUNT_WEIGHTS, the accuracy over BERT_COUNT_ROWS.
 */
enum { BERT_LOSS, BERT_ACCURACY, BERT_METRICS };

/* Builds the model and its parameter table. Ends the program if the configuration is wrong, naming the field. Outputs
 * of the classifier: the logits. Without labels in a batch an evaluation gives only these; its metrics are 0. Groups of
 * parameters: 0 the embeddings, 1 + l layer l, n_layers + 1 the head. Weight decay is for all but biases and norms. */
Model *bert_open(const BertConfig *config);
