/* The masked autoencoder of power spectra with a contrastive loss (MPAE with SICR), and the classifier that is made of
 * its encoder. Parameters: encoder.c, pretrain.c, classifier.c.
 *
 * A spectrum is 200 bins; the first 192 are 12 patches of 16. */
#pragma once

#include "model/model.h"

enum { PSD_CLASSES = 6 };

typedef struct {
    bool cnn; /* the convolutional baseline, where d_model is the width of its output; false: the transformer */
    int d_model, n_layers, n_heads, d_ff;
    float dropout;
} PsdEncoderConfig;

typedef struct {
    PsdEncoderConfig encoder;
    int decoder_dim, decoder_layers; /* the decoder has 4 heads and an MLP of twice its width */
    float decoder_dropout;
    int projection_dim;
    float sicr_weight, temperature; /* weight and temperature of the contrastive loss */
} PsdPretrainConfig;

typedef struct {
    PsdEncoderConfig encoder;
    int head_dim; /* width of the hidden layer; 0: the head is one linear layer */
    float head_dropout;
    float class_weights[PSD_CLASSES]; /* stored with the parameters; the loss reads the batch's weights */
    bool frozen_encoder;              /* the encoder gets no gradient */
} PsdClassifierConfig;

/* A named size of both models. */
typedef struct {
    const char *name;
    int d_model, n_layers, n_heads, d_ff, decoder_dim, decoder_layers, projection_dim, head_dim;
} PsdSize;

#define PSD_SIZE_NAMES "tiny|small|l4|medium|large"
/* Returns the size of this name; NULL if there is none. */
const PsdSize *psd_size(const char *name);
/* Returns the size with such an encoder; NULL if there is none. */
const PsdSize *psd_size_of_encoder(int64_t d_model, int64_t n_layers, int64_t d_ff);

/* Opens the autoencoder: checks the configuration (dies, naming the field) and builds the parameter table. Metrics:
 * mae_loss, sicr_loss. */
Model *psd_pretrain_open(const PsdPretrainConfig *config);
/* Opens the classifier in the same way. Metrics: loss, accuracy. Outputs: the logits. The head is parameter group 1. */
Model *psd_classifier_open(const PsdClassifierConfig *config);
