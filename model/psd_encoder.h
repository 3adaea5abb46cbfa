/* The encoder of the PSD models: patches, a transformer over them, a norm; or the convolutional baseline. Both models
 * have one, and both hand it all rows of a batch at once: of a spectrum 5 visible patches to be decoded, and 13 rows of
 * each of two views of which CLS is read, are one packed batch, so one set of matrix products. */
#ifndef MODEL_PSD_ENCODER_H
#define MODEL_PSD_ENCODER_H

#include "model/block.h"
#include "model/cnn.h"
#include "model/psd.h"

typedef struct {
    PsdEncoderConfig config;
    bool patches;     /* it has an embedding of patches: the transformer always, the CNN only in pretraining */
    float *positions; /* [13, d_model] sine and cosine */
    /* Rows of the parameter table. Of a linear layer and of a norm the weight's; the bias is the next row. */
    int cls, projection, position_table, norm, final_norm;
    BlockStack blocks;
    Cnn cnn;
} PsdEncoder;

enum { PSD_VIEWS = 2 };

/* What the backward reads. */
typedef struct {
    int64_t bare;                 /* rows of the bare part */
    Tensor patches;               /* [n, 16] */
    Tensor embedded, mean, rstd;  /* whole sequences before their norm [13 S, d], its statistics */
    Tensor x;                     /* the last block's output, of the wanted rows */
    Tensor last_mean, last_rstd;  /* of final_norm */
    BlockRun run;                 /* with the wanted rows */
    CnnActivations of[PSD_VIEWS]; /* the CNN's, of each view */
    int views;
} PsdEncoded;

/* Adds the parameters to the table. */
PsdEncoder psd_encoder_open(ParamTable *table, const PsdEncoderConfig *config, bool patches, uint32_t first_site);
void psd_encoder_close(PsdEncoder *encoder);
/* [bare + S, d]: every bare row, and CLS of every whole sequence. Pushed; what the backward needs stays in the arena.
 */
Tensor psd_encoder_forward(PsdEncoder *encoder, const BlockRun *run, const Batch *batch, const Tensor *fields,
                           PsdEncoded *kept);
/* dy: the gradient of that. */
void psd_encoder_backward(PsdEncoder *encoder, const Tensor *fields, const PsdEncoded *kept, Tensor dy);

/* y = x W^T + b of a linear layer, pushed, and its backward. */
Tensor psd_linear(const BlockRun *run, int index, Tensor x);
void psd_linear_backward(const BlockRun *run, int index, Tensor dx, Tensor dy, Tensor x);
/* The patches whose halves are these pieces, f32 [n, 16], pushed. */
Tensor psd_gather_patches(const BlockRun *run, Tensor spectra, Tensor pieces);
/* Of the activations' type, pushed if that is another. */
Tensor psd_in_type(const BlockRun *run, Tensor x);

#endif
