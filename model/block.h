/* The transformer block, once, for every model of the project: GPT-2 and its kin, BERT, and the encoders between.
 *
 *   pre-norm    x' = x + drop(attention(norm1 x));   y = x' + drop(mlp(norm2 x'))
 *   post-norm   x' = norm1(x + drop(attention x));   y = norm2(x' + drop(mlp x'))
 *   attention   drop(softmax(q k^T / sqrt(head size))) v, projected;   mlp   W2 drop(gelu(W1 x + b1)) + b2
 *
 * A model opens a BlockStack (which adds the parameters to its table) and calls blocks_forward and blocks_backward
 * between its embedding and its head. What a block is, is its BlockConfig; how its parameters are called, a table of
 * strings. */
#ifndef MODEL_BLOCK_H
#define MODEL_BLOCK_H

#include "model/model.h"

/* The parameters of a block, each weight followed by its bias. C = d_model. */
enum {
    NORM1_GAIN, /* [C] */
    NORM1_BIAS,
    QKV_WEIGHT, /* C -> 3C */
    QKV_BIAS,
    PROJECTION_WEIGHT, /* C -> C, of attention's output */
    PROJECTION_BIAS,
    NORM2_GAIN,
    NORM2_BIAS,
    MLP_IN_WEIGHT, /* C -> d_ff */
    MLP_IN_BIAS,
    MLP_OUT_WEIGHT, /* d_ff -> C */
    MLP_OUT_BIAS,
    BLOCK_TENSORS
};

/* Name formats; %d stands for the block. Those of absent biases are not read. With `parts` q, k and v are parameters of
 * their own: the formats of QKV_* take the part's name as a second argument (%s). That needs WEIGHT_OUT_IN. */
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
    float drop_attention, drop_projection, drop_hidden, drop_mlp; /* p: probabilities, attention out, GELU, MLP out */
    uint32_t first_site;                 /* dropout sites first_site + 4 block + {0, 1, 2, 3}, in the order above */
    float init_scale, init_output_scale; /* of N(0, scale^2): QKV and MLP in; projection and MLP out. Biases are 0 */
    bool torch_init;    /* instead, as torch's modules begin: U(1/sqrt(in)), of q k v Xavier's; attention's biases 0 */
    bool same_init;     /* all blocks begin alike: torch's nn.TransformerEncoder copies one layer */
    bool decay_vectors; /* weight decay for biases and gains too */
    const char *dumped; /* what the names of its activations begin with, where a model has two stacks; or NULL */
} BlockConfig;

/* What a block's backward reads. All [N, C] of the activations' type unless said. */
typedef struct {
    Tensor x;                                        /* the block's input */
    Tensor qkv, lse, attended;                       /* [N, 3C], [n_heads, N], heads' outputs before the projection */
    Tensor wanted;                                   /* attended, but of the wanted rows only (see BlockRun); from here
                                                      * on N is their number */
    Tensor middle;                                   /* x + drop(attention) */
    Tensor hidden, activated;                        /* [N, d_ff], before and after GELU and dropout */
    Tensor end;                                      /* post-norm only: norm1 + drop(mlp) */
    Tensor norm1, mean1, rstd1, norm2, mean2, rstd2; /* means and rstds [N]. Pre-norm: of x, middle; else middle, end */
} BlockActivations;

typedef struct {
    BlockConfig config;
    int n_blocks;
    bool qkv_parts;         /* q, k, v are three parameters, side by side in the flat buffer */
    int *params;            /* [n_blocks][BLOCK_TENSORS] rows of the parameter table, -1: absent. Of q|k|v, the first */
    BlockActivations *kept; /* [n_blocks] of the pass that is under way */
} BlockStack;

/* What a pass works with. */
typedef struct {
    Device *device;
    Arena *arena;
    const ParamTable *table;
    Tensor weights, gradients; /* flat */
    Tensor matmul_weights;     /* flat, of the activations' type: what linear layers read */
    Sequences sequences;
    Tensor rows; /* i32, optional: which rows of the last block's output are wanted. It works on no others behind its
                  * attention, of which all rows are keys and values */
    const Pass *pass;
} BlockRun;

/* Adds the parameters of n_blocks blocks to the table. Dies, naming the model, if the configuration makes no sense. */
BlockStack block_stack_open(const char *model, ParamTable *table, const BlockConfig *config, int n_blocks,
                            const BlockNames *names);
void block_stack_close(BlockStack *stack);

/* All rows are wanted. */
BlockRun block_run(Model *model, Device *device, Arena *arena, Sequences sequences, const Pass *pass);
/* A parameter, by its row of the table: in f32, as matrix products read it, its gradient. */
Tensor run_weight(const BlockRun *run, int index);
Tensor run_matmul_weight(const BlockRun *run, int index);
Tensor run_gradient(const BlockRun *run, int index);
/* Activations [rows, columns], pushed. */
Tensor push_activations(const BlockRun *run, int64_t rows, int64_t columns);

/* Returns the last block's output (run->rows of it) for the input x [N, C]; both are in the arena. In training, what
 * the backward needs stays in the arena (with pass->recompute the blocks' inputs only), and x must stay too; otherwise
 * only the output does: x overwritten, or the wanted rows. Dumps "block.%d.output". */
Tensor blocks_forward(BlockStack *stack, const BlockRun *run, Tensor x);
/* From the gradient of the output that of the input [N, C], which is returned: it overwrites dx, or, where rows are
 * wanted, is pushed. Gradients of the parameters are accumulated. */
Tensor blocks_backward(BlockStack *stack, const BlockRun *run, Tensor dx);

/* The dropout of a site in this pass: p = 0 unless training. Sites are numbered by the model, 0 being its embedding. */
Dropout pass_dropout(const Pass *pass, float p, uint32_t site);
/* Shows a named tensor to the debug dump, if there is one. */
void pass_dump(const Pass *pass, Tensor tensor, const char *name_format, ...) PRINTF_LIKE(3, 4);

#endif
