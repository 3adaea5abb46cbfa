/* The classifier of photon decays: a residual network in time and the plane, of cells [bins, side, side] of two
 * channels, the logarithms of counts and the footprint. Channels last: a row is one position of one cell, [t, y, x], x
 * fastest.
 *
 *   stem      a(bn(conv 7x1x1 x))                                          2 -> C0
 *   halving   a(bn(conv 3x1x1/2 x))                                        half as many bins
 *   block 1   a(bn(conv 3x3x3 a(bn(conv 3x3x3 x))) + x), drop              C0 -> C0
 *   block 2   a(bn(conv 3x3x3 a(bn(conv 3x3x3/2 x))) + bn(conv 1x1x1/2 x)), pool, drop        C0 -> C1
 *   block 3   the same                                                     C1 -> C2
 *   head      W2 drop(a(bn(W1 mean))) + b2                                 C2 -> C1 -> 1: the logit of "active"
 *
 * a: leaky ReLU. /2 halves the plane, in the halving the time, as the pool does: the larger of two bins. drop: of
 * whole channels of a cell; in the head, of numbers.
 *
 * A bias before a norm would be taken away again by its mean: there is none. */
#ifndef MODEL_FLIM_NETWORK_H
#define MODEL_FLIM_NETWORK_H

#include "model/block.h"
#include "model/flim.h"

/* A convolution, or in the head a linear layer, and the norm behind it. */
enum {
    FLIM_STEM,
    FLIM_HALVING,
    FLIM_BLOCK1, /* of each block: its first convolution, its second, the shortcut's */
    FLIM_BLOCK2 = FLIM_BLOCK1 + 2,
    FLIM_BLOCK3 = FLIM_BLOCK2 + 3,
    FLIM_HEAD = FLIM_BLOCK3 + 3,
    FLIM_LAYERS
};
enum { FLIM_BLOCKS = 3 };

typedef struct {
    int in, out;
    Convolution window; /* not of the head */
    int weight;         /* row of the parameter table; the norm's four follow it */
} FlimLayer;

typedef struct {
    FlimConfig config;
    FlimLayer layers[FLIM_LAYERS];
    int last; /* row of the last layer's weight; its bias is the next one */
} FlimNetwork;

/* What the backward reads, and writes over. */
typedef struct {
    int64_t cells;
    Tensor x, moments;              /* of the network; of its windows, see stem_statistics */
    Normed layers[FLIM_LAYERS];     /* what each layer said, but the stem, and its norm */
    Tensor inner[FLIM_BLOCKS];      /* the inputs of the blocks' second convolutions */
    Tensor inputs[FLIM_BLOCKS + 1]; /* of the blocks, and of the head */
    Tensor turns[2];                /* each has room for any of these: in training for gradients, else for the inputs */
    size_t marks[FLIM_BLOCKS];      /* of the arena, behind what each block's backward reads */
    Tensor means, activated;        /* [B, C2]; [B, C1], behind the head's norm */
} FlimActivations;

FlimNetwork flim_network_open(ParamTable *table, const FlimConfig *config);
/* The logits [B, 1] of x [B bins side side, 2]. In training the running statistics move (params_moving), and what the
 * backward needs stays in the arena: with pass->recompute all but what a block's second convolution is given. */
Tensor flim_network_forward(const FlimNetwork *network, const BlockRun *run, FlimActivations *kept, Tensor x);
/* Releases what lies in the arena behind the activations. The gradient of x is not wanted. */
void flim_network_backward(const FlimNetwork *network, const BlockRun *run, const FlimActivations *kept,
                           Tensor dlogits);

#endif
