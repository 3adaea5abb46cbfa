/* The transformer block of every model: GPT-2, BERT and encoders.
 *
 *   pre-norm    x' = x + drop(attention(norm1 x));   y = x' + drop(mlp(norm2 x'))
 *   post-norm   x' = norm1(x + drop(attention x));   y = norm2(x' + drop(mlp x'))
 *   attention   drop(softmax(q k^T / sqrt(head size))) v, projected;   mlp   W2 drop(gelu(W1 x + b1)) + b2
 *
 * A model opens a BlockStack, which adds the parameters to the model's table, and calls blocks_forward and
 * blocks_backward between its embedding and its head. BlockConfig says how the blocks compute, BlockNames how their
 * parameters are named. */
#pragma once

#include "model/context.h"

enum { BLOCKS_MAX = 1000 }; /* the most blocks of a model that options and readers of weights allow */

/* The parameters of a block; each weight is followed by its bias. C = d_model. */
enum {
    NORM1_GAIN, /* [C] */
    NORM1_BIAS,
    QKV_WEIGHT, /* C -> 3C */
    QKV_BIAS,
    PROJECTION_WEIGHT, /* C -> C, behind attention */
    PROJECTION_BIAS,
    NORM2_GAIN,
    NORM2_BIAS,
    MLP_IN_WEIGHT, /* C -> d_ff */
    MLP_IN_BIAS,
    MLP_OUT_WEIGHT, /* d_ff -> C */
    MLP_OUT_BIAS,
    BLOCK_TENSORS
};

/* Name formats, in which %d is the number of the block. Formats of absent biases are not read. With `parts`, q, k and v
 * are separate parameters: the formats of QKV_* take the name of the part as a second argument (%s), and the layout
 * must be WEIGHT_OUT_IN. */
typedef struct {
    const char *tensor[BLOCK_TENSORS];
    const char *parts[3]; /* {"query", "key", "value"}, or NULLs */
} BlockNames;

typedef struct {
    int d_model, n_heads, d_ff;
    bool pre_norm; /* else post-norm */
    bool biases;   /* of linears and norms */
    bool causal;
    GeluKind gelu;
    WeightLayout layout;
    float drop_attention, drop_projection, drop_hidden, drop_mlp; /* p behind: softmax, projection, GELU, MLP */
    uint32_t first_site;                 /* dropout sites are first_site + 4 block + {0, 1, 2, 3}, in the order above */
    float init_scale, init_output_scale; /* N(0, scale^2) for QKV and MLP in; for projection and MLP out. Biases: 0 */
    bool torch_init;    /* instead, torch's initialisation: U(1/sqrt(in)), Xavier for q k v; attention biases 0 */
    bool same_init;     /* all blocks start with the same weights, as in torch's nn.TransformerEncoder */
    bool decay_vectors; /* weight decay also for biases and gains */
    const char *dumped; /* prefix of the names of dumped activations, for a model with two stacks; or NULL */
} BlockConfig;

/* The activations that the backward of a block reads, [N, C] unless noted. */
typedef struct {
    Tensor x;                  /* the block's input */
    Tensor qkv, lse, attended; /* [N, 3C]; [n_heads, N]; outputs of the heads, before the projection */
    Tensor selected;           /* the output rows of attended (see BlockRows); below, N is the
                                * number of output rows */
    Tensor middle;             /* x + drop(attention) */
    Tensor hidden, activated;  /* [N, d_ff], before and after GELU and dropout */
    Tensor end;                /* post-norm only: norm1 + drop(mlp) */
    Tensor norm1, mean1, rstd1, norm2, mean2,
        rstd2; /* means, rstds: [N]. Of x and middle (pre-norm), or of middle and end */
} BlockActivations;

typedef struct {
    BlockConfig config;
    int n_blocks;
    int frozen;  /* so many of the first blocks are not trained: see block_stack_freeze */
    int *params; /* [n_blocks][BLOCK_TENSORS] rows of the parameter table; -1: absent; of three parts the first */
    BlockActivations *kept; /* [n_blocks], of the current pass */
} BlockStack;

/* Keys and values of sequences, for generation without training. A pass adds those of its rows, which are whole
 * sequences (prompts) or, with `lengths`, one new row of each of some sequences. */
typedef struct {
    Tensor kv;             /* T [n_blocks slots capacity, 2C]: for each block the kv of CachedKeys */
    Tensor rows;           /* i32 [N]: where each row of the pass goes, slot capacity + its place in the sequence */
    Tensor slots, lengths; /* of new rows: i32 [N], see CachedKeys; the new row counts. None: prompts */
    int64_t capacity, longest;
} KvCache;

/* The rows of a pass. */
typedef struct {
    Sequences sequences;
    Tensor outputs;   /* i32, optional: the output rows of the last block. Behind its attention, in which all rows are
                       * keys   and values, the block computes no others */
    bool input_fixed; /* nobody needs the gradient of the input: blocks_backward returns none */
    const KvCache *cache; /* optional; causal stacks only */
} BlockRows;

/* Adds the parameters of n_blocks blocks to the table. Dies, naming the model, if the configuration is invalid. */
BlockStack block_stack_open(const char *model, ParamTable *table, const BlockConfig *config, int n_blocks,
                            const BlockNames *names);
void block_stack_close(BlockStack *stack);
/* Excludes the first n blocks from training: the optimizer leaves their parameters as they are, a forward keeps nothing
 * of them, and a backward ends above them. Their dropout stays. */
void block_stack_freeze(BlockStack *stack, ParamTable *table, int n);

/* Returns the output of the last block (rows->outputs of it) for the input x [N, C]; both are in the arena. In training
 * the arena keeps what the backward needs of the blocks that are trained (with pass->recompute, only their inputs), and
 * x must stay, too. Otherwise x is overwritten, and the arena keeps only the output; frozen blocks overwrite it, too.
 * Dumps "block.%d.output". */
Tensor blocks_forward(BlockStack *stack, const Context *context, const BlockRows *rows, Tensor x);
/* Returns the gradient of the input [N, C] from dx, the gradient of the output; none if blocks are frozen or the input
 * is fixed. The result overwrites dx, or is pushed if rows->outputs are given. Gradients of the parameters are
 * accumulated; Pass.finished is told of each layer. */
Tensor blocks_backward(BlockStack *stack, const Context *context, const BlockRows *rows, Tensor dx);
