/* The network of the FLIM classifier: a residual network of 3-D convolutions over cells [bins, side, side] with two
 * channels, the logarithm of the counts and the footprint. Channels come last: a row is one position of a cell, [t, y,
 * x], x fastest.
 *
 *   stem      a(bn(conv 7x1x1 x))                                          2 -> C0
 *   halving   a(bn(conv 3x1x1/2 x))                                        half as many bins
 *   block 1   a(bn(conv 3x3x3 a(bn(conv 3x3x3 x))) + x), drop              C0 -> C0
 *   block 2   a(bn(conv 3x3x3 a(bn(conv 3x3x3/2 x))) + bn(conv 1x1x1/2 x)), pool, drop        C0 -> C1
 *   block 3   the same                                                     C1 -> C2
 *   head      W2 drop(a(bn(W1 mean))) + b2                                 C2 -> C1 -> 1: the logit of "active"
 *
 * a: leaky ReLU. /2: stride 2, in the plane; in the halving, in time. pool: the maximum of two bins. drop: dropout of
 * whole channels of a cell; in the head, of single numbers. Convolutions have no bias, as the norm behind them would
 * take it away again. */
#pragma once

#include "model/context.h"

/* The initialisation of weights. Norms begin as the identity; the last layer's bias like its weights, or at 0. */
typedef enum {
    CV_INIT_TORCH,   /* U(-b, b), b = 1/sqrt(inputs): the default of torch's modules */
    CV_INIT_KAIMING, /* N(0, 2/(outputs x taps)); the last layer has one output, so that logits begin around 9 */
    CV_INIT_OURS     /* the same, with the last layer as torch's: logits begin at a few tenths */
} CvInit;

typedef struct {
    int channels[3]; /* of the blocks */
    int bins, side;  /* the shape of a cell */
    float dropout, head_dropout;
    CvInit init;
    bool linear;  /* for tests, without what makes gradients jump: no leaky ReLU, and pools average */
    bool dilated; /* the footprint is where the augmented counts are, as in the reference; otherwise the cell's own
                   * footprint, moved along with it */
} CvConfig;

/* The reference's biases before a norm, in its order. A norm takes its mean away again, so our network has none. */
enum { CV_DEAD_BIASES = 11 };
const AbsorbedBias *cv_network_dead_biases(void);

/* The layers: each a convolution (in the head a linear layer) and the norm behind it. */
enum {
    CV_STEM,
    CV_HALVING,
    CV_BLOCK1, /* the first of a block's convolutions: first, second, shortcut */
    CV_BLOCK2 = CV_BLOCK1 + 2,
    CV_BLOCK3 = CV_BLOCK2 + 3,
    CV_HEAD = CV_BLOCK3 + 3,
    CV_LAYERS
};
enum { CV_BLOCKS = 3 };

typedef struct {
    int in, out;
    Convolution window; /* zeros in the head */
    int weight;         /* row in the parameter table; the four of the norm follow */
} CvLayer;

typedef struct {
    CvConfig config;
    CvLayer layers[CV_LAYERS];
    int last; /* row of the last layer's weight; its bias follows */
} CvNetwork;

/* The tensors that the forward leaves for the backward, which overwrites them. */
typedef struct {
    int64_t cells;
    Tensor x, moments;            /* the network's input; the moments of its windows, see stem_statistics */
    Normed layers[CV_LAYERS];     /* each layer's output (but the stem's) and its norm */
    Tensor inner[CV_BLOCKS];      /* inputs of the blocks' second convolutions */
    Tensor inputs[CV_BLOCKS + 1]; /* inputs of the blocks, and of the head */
    Tensor buffers[2];            /* ping-pong buffers: in training for gradients, in evaluation for inputs */
    size_t marks[CV_BLOCKS];      /* in the arena, behind what each block's backward reads */
    Tensor means, activated;      /* [B, C2]; [B, C1], behind the head's norm */
} CvActivations;

CvNetwork cv_network_open(ParamTable *table, const CvConfig *config);
/* Returns the logits [B, 1] of x [B bins side side, 2]. Training updates the running statistics (params_moving) and
 * leaves what the backward needs in the arena; with pass->recompute, all but the inputs of the blocks' second
 * convolutions. */
Tensor cv_network_forward(const CvNetwork *network, const Context *context, CvActivations *acts, Tensor x);
/* Adds the gradients of the parameters, from those of the logits; releases what lies in the arena behind the
 * activations. The gradient of x is not computed. */
void cv_network_backward(const CvNetwork *network, const Context *context, const CvActivations *acts, Tensor dlogits);
