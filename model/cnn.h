/* The convolutional baseline for power spectra: a stem, three residual blocks that halve the length and widen, the mean
 * over what is left, a linear layer. Channels last: a row is one position of one spectrum.
 *
 *   stem    gelu(bn(conv7/2 x))                                              1 -> 64
 *   block   gelu(bn(conv3 gelu(bn(conv3/2 x))) + bn(conv1/2 x))              64 -> 64 -> 128 -> 256
 *   out     W mean + b */
#ifndef MODEL_CNN_H
#define MODEL_CNN_H

#include "model/block.h"

enum { CNN_BLOCKS = 3, CNN_UNITS = 1 + 3 * CNN_BLOCKS };

/* A convolution without bias and the batch norm behind it. */
typedef struct {
    int in, out, taps, stride, padding;
    int weight, gain, mean; /* rows of the parameter table; the bias and the variance are the next ones */
} CnnUnit;

typedef struct {
    CnnUnit units[CNN_UNITS]; /* the stem; of each block its first, its second, its shortcut */
    int projector;
} Cnn;

typedef struct {
    Window window;
    Tensor windows, convolved, mean, rstd, out; /* [N, in taps], [N, out], [out], [out], [N, out] */
} CnnUnitActivations;

/* What the backward reads. */
typedef struct {
    CnnUnitActivations units[CNN_UNITS];
    Tensor sums[CNN_BLOCKS], last, means; /* before the GELU at each block's end; behind the last; [n, 256] */
} CnnActivations;

/* Adds the parameters, named "encoder.…". */
Cnn cnn_open(ParamTable *table, int64_t width);
/* y [n, width] of the spectra x [n, length]. In training the running statistics move (params_moving), and what the
 * backward needs stays in the arena. */
void cnn_forward(const Cnn *cnn, const BlockRun *run, CnnActivations *kept, Tensor x, Tensor y);
/* dy: the gradient of y. That of x is not wanted. */
void cnn_backward(const Cnn *cnn, const BlockRun *run, const CnnActivations *kept, Tensor dy);

#endif
