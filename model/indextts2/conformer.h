/* The conformers of IndexTTS2's gpt.pth (conditioning_encoder, emo_conditioning_encoder): features at 50 rows a second
 * to a context at 25. */
#pragma once

#include "model/indextts2/network.h"
#include "model/indextts2/rows.h"

typedef struct {
    int input, width, inner, heads, blocks;
    int taps;    /* of the depthwise convolution, which is symmetric */
    int longest; /* rows of a clip at 25 Hz, at most: positions that there are tables for */
} ConformerConfig;

typedef struct {
    int attention_norm, convolution_norm, feed_norm, final_norm, depthwise, depthwise_norm;
    int position, content_bias, position_bias; /* linear_pos, pos_bias_u, pos_bias_v */
    Layer qkv, attention_out, expand, contract, up, down;
} ConformerBlock;
/* Tables of a block by position, which conformer_prepare makes. */
typedef struct {
    Tensor keys;    /* f32 [longest, 3 width]: what is added to q | k | v of a row, only to k */
    Tensor terms;   /* f32 [longest, heads]: what is added to the scores of a key */
    Tensor content; /* T [heads, 3 width]: makes the rest of these of k */
} ConformerTables;
typedef struct {
    Network *network; /* of gpt.pth, which has both conformers and both perceivers */
    ConformerConfig config;
    Layer convolution, flatten;
    int norm;
    ConformerBlock *blocks;
    ConformerTables *tables;
    void *memory; /* of the tables */
    size_t bytes;
} Conformer;

/* Adds the parameters, whose names begin with PREFIX ("conditioning_encoder"), to the network's table. */
void conformer_open(Conformer *conformer, Network *network, const ConformerConfig *config, const char *prefix);
/* Folds what conformer_fold must; returns whether the row is one of this conformer. */
bool conformer_fold(const Conformer *conformer, int row, int64_t n, float *values);
/* Makes the tables of positions, when the weights have been read. */
void conformer_prepare(Conformer *conformer, Arena *arena);
void conformer_close(Conformer *conformer);
/* Computes the context [half.count, width] f32 of features h f32 [rows.count, input], pushed on the arena. `half` are
 * the clips of `rows` behind the subsampling. */
Tensor conformer_forward(const Conformer *conformer, Arena *arena, Tensor h, const ClipRows *rows,
                         const ClipRows *half);
