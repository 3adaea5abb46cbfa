/* The convolutional baseline for power spectra: a stem, three residual blocks that each halve the length and widen, the
 * mean over the positions, a linear layer. Channels last: a row is one position of one spectrum.
 *
 *   stem    gelu(bn(conv7/2 x))                                              1 -> 64
 *   block   gelu(bn(conv3 gelu(bn(conv3/2 x))) + bn(conv1/2 x))              64 -> 64 -> 128 -> 256
 *   out     W mean + b */
#pragma once

#include "model/context.h"

enum { CNN_BLOCKS = 3, CNN_UNITS = 1 + 3 * CNN_BLOCKS };

/* A convolution without bias, then a batch norm. */
typedef struct {
    int in, out, taps, stride, padding;
    int weight, gain, mean; /* rows of the parameter table; bias and variance follow gain and mean */
} CnnUnit;

typedef struct {
    CnnUnit units[CNN_UNITS]; /* the stem; then for each block conv1, conv2, shortcut */
    int projector;
} Cnn;

typedef struct {
    Window window;
    Tensor windows, convolved, mean, rstd, out; /* [N, in taps], [N, out], [out], [out], [N, out] */
} CnnUnitActivations;

/* The tensors that the backward reads. */
typedef struct {
    CnnUnitActivations units[CNN_UNITS];
    Tensor sums[CNN_BLOCKS], last, means; /* before each block's last GELU; after the last block; [n, 256] */
} CnnActivations;

/* Adds the parameters, whose names begin with "encoder.". */
Cnn cnn_open(ParamTable *table, int64_t width);
/* Computes y [n, width] for the spectra x [n, length]. In training, updates the running statistics (params_moving) and
 * pushes what the backward needs. */
void cnn_forward(const Cnn *cnn, const Context *context, CnnActivations *kept, Tensor x, Tensor y);
/* Adds the gradients of the parameters; dy: the gradient of y. The spectra get no gradient. */
void cnn_backward(const Cnn *cnn, const Context *context, const CnnActivations *kept, Tensor dy);
