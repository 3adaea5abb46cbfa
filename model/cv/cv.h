/* The classifier of single FLIM cells as a model: augmented cells, mixup, the network, binary cross-entropy. */
#ifndef MODEL_CV_CV_H
#define MODEL_CV_CV_H

#include "data/cv/batch.h"
#include "model/cv/network.h"

Model *cv_open(const CvConfig *config);
/* Runs the model from the network's input on: x [B bins side side, 2], ln(1 + counts) / 10 and the footprint. */
void cv_run(Model *model, Device *device, Arena *activations, Tensor x, const Tensor *fields, const Pass *pass);

#endif
