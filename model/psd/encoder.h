/* The encoder of the PSD models: a patch embedding, a transformer, a norm; or the convolutional baseline. It gets all
 * rows of a batch at once. In pretraining these are, for each spectrum, the visible patches as bare rows (for the
 * decoder) and a full sequence of 13 rows for the spectrum and for its partner (for the contrast, which reads CLS).
 * They are one packed batch, so each layer is one set of matrix products. */
#pragma once

#include "data/psd/batch.h"
#include "model/block.h"
#include "model/psd/cnn.h"
#include "model/psd/psd.h"

typedef struct {
    PsdEncoderConfig config;
    bool patches;     /* has a patch embedding: the transformer always, the CNN only in pretraining */
    float *positions; /* [13, d_model] sine and cosine */
    /* Rows of the parameter table. For a linear layer or a norm, that of the weight; the bias is the next row. */
    int cls, projection, position_table, norm, final_norm;
    BlockStack blocks;
    Cnn cnn;
} PsdEncoder;

enum { PSD_VIEWS = 2 };

/* The tensors that the backward reads. */
typedef struct {
    int64_t bare;         /* number of bare rows */
    Tensor patches;       /* [n, 16] */
    Tensor embedded;      /* full sequences before their norm [13 S, d] */
    LayerNormOutput norm; /* of these */
    Tensor x;             /* the last block's output: the output rows */
    LayerNormOutput last; /* of final_norm */
    Context context;
    BlockRows rows;
    CnnActivations of[PSD_VIEWS]; /* the CNN's, for each view */
    int views;
} PsdEncoded;

/* Adds the parameters to the table. */
PsdEncoder psd_encoder_open(ParamTable *table, const PsdEncoderConfig *config, bool patches, uint32_t first_site);
void psd_encoder_close(PsdEncoder *encoder);
/* Returns [bare + S, d]: every bare row, and CLS of every full sequence. Pushes the result and what the backward needs.
 */
Tensor psd_encoder_forward(PsdEncoder *encoder, const Context *context, const Batch *batch, const Tensor *fields,
                           PsdEncoded *kept);
/* Adds the gradients of the parameters; dy: the gradient of the output. */
void psd_encoder_backward(PsdEncoder *encoder, const Tensor *fields, const PsdEncoded *kept, Tensor dy);

/* Returns the sequences of a field of offsets. */
Sequences psd_sequences(const Batch *batch, const Tensor *fields, int offsets);
/* Gathers the patches whose halves are these pieces: f32 [n, 16], pushed. */
Tensor psd_gather_patches(const Context *context, Tensor spectra, Tensor pieces);
