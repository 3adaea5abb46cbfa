/* The masked autoencoder of power spectra (MPAE with SICR), and the classifier that is made of its encoder: specs of
 * the parameters in psd_encoder.c, psd_pretrain.c and psd_classifier.c.
 *
 * A spectrum is 200 bins; its first 192 are 12 patches of 16. */
#ifndef MODEL_PSD_H
#define MODEL_PSD_H

#include "model/model.h"

enum { PSD_CLASSES = 6, PSD_MOST_LAYERS = 1000 };

typedef struct {
    bool cnn; /* the convolutional baseline instead of the transformer: d_model is then the width of its output */
    int d_model, n_layers, n_heads, d_ff;
    float dropout;
} PsdEncoderConfig;

typedef struct {
    PsdEncoderConfig encoder;
    int decoder_dim, decoder_layers; /* the decoder has 4 heads, an MLP of twice its width, and dropout 0.1 */
    float decoder_dropout;           /* 0.1 */
    int projection_dim;
    float sicr_weight, temperature; /* of the contrastive loss */
} PsdPretrainConfig;

typedef struct {
    PsdEncoderConfig encoder;
    int head_dim; /* 0: one linear layer */
    float head_dropout;
    float class_weights[PSD_CLASSES]; /* kept with the parameters; the batch brings them for its labels */
    bool frozen_encoder;              /* no gradient is wanted of it */
} PsdClassifierConfig;

/* A named size of both models. */
typedef struct {
    const char *name;
    int d_model, n_layers, n_heads, d_ff, decoder_dim, decoder_layers, projection_dim, head_dim;
} PsdSize;

#define PSD_SIZE_NAMES "tiny|small|l4|medium|large"
/* Finds the size of that name; NULL for another name. */
const PsdSize *psd_size(const char *name);
/* Finds the size that has such an encoder; NULL: none has. */
const PsdSize *psd_size_of_encoder(int64_t d_model, int64_t n_layers, int64_t d_ff);

/* Both check the configuration (die naming the field) and build the parameter table. Metrics: mae_loss, sicr_loss. */
Model *psd_pretrain_open(const PsdPretrainConfig *config);
/* Metrics: loss, accuracy. Outputs: the logits. Parameters of the head are in group 1. */
Model *psd_classifier_open(const PsdClassifierConfig *config);

#endif
