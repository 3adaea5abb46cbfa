/* The classifier of single FLIM cells as a model: augmented cells, mixup, the network, binary cross-entropy. */
#ifndef MODEL_FLIM_FLIM_H
#define MODEL_FLIM_FLIM_H

#include "data/flim/batch.h"
#include "model/flim/network.h"

Model *flim_open(const FlimConfig *config);
/* Runs the model from the network's input on: x [B bins side side, 2], ln(1 + counts) / 10 and the footprint. */
void flim_run(Model *model, Device *device, Arena *activations, Tensor x, const Tensor *fields, const Pass *pass);

#endif
