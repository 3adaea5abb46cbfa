/* The classifier of photon decays of single cells. The network is in flim_network.h. */
#ifndef MODEL_FLIM_H
#define MODEL_FLIM_H

#include "model/model.h"

/* How weights begin. Norms begin as the identity, and the last layer's bias is of its weights' kind, or 0. */
typedef enum {
    FLIM_INIT_TORCH,   /* U(1/sqrt(inputs)), as torch's modules begin */
    FLIM_INIT_KAIMING, /* N(0, 2/outputs), a convolution's times its taps; the last layer has one output: logits of 9 */
    FLIM_INIT_OURS     /* the same, but the last layer as torch's: logits of a few tenths */
} FlimInit;

typedef struct {
    int channels[3]; /* of the blocks */
    int bins, side;  /* of a cell */
    float dropout, head_dropout;
    FlimInit init;
    bool linear;  /* for tests: without what makes gradients jump; no leaky ReLU, and pools average */
    bool dilated; /* the footprint is where augmented counts are, as in the reference; else the cell's own, moved along
                   */
} FlimConfig;

/* The reference's biases before a norm, in its order: none of them is a parameter of ours. */
enum { FLIM_DEAD_BIASES = 11 };
const AbsorbedBias *flim_dead_biases(void);

Model *flim_open(const FlimConfig *config);
/* The model's run from its input on, x T [B bins side side, 2]: the logarithms of counts over 10, and the footprint. */
void flim_run(Model *model, Device *device, Arena *activations, Tensor x, const Tensor *fields, const Pass *pass);

#endif
