/* The classifier of single FLIM cells as a model: augmented cells, mixup, the network, binary cross-entropy. */
#pragma once

#include "data/cv/batch.h"
#include "model/cv/network.h"

typedef struct {
    Model base; /* first, so that the Model * is a Cv * */
    CvNetwork network;
} Cv;

Model *cv_open(const CvConfig *config);
/* Computes the pass's outputs and sums from the network's input x [B bins side side, 2], ln(1 + counts) / 10 and the
 * footprint. Returns the logits [B, 1], in training their gradients, for cv_network_backward. */
Tensor cv_loss(Model *model, const Context *context, CvActivations *acts, Tensor x, const Tensor *fields);
