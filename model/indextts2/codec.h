/* The encoder and the codebook of the semantic codec (RepCodec of MaskGCT): a code of 0 .. codebook - 1 for each row of
 * the features. */
#pragma once

#include "model/indextts2/network.h"
#include "model/indextts2/rows.h"

typedef struct {
    int input, width, inner, blocks; /* widths: of the features, of the blocks, inside them */
    int codebook, code_width;
} CodecConfig;

typedef struct {
    int depthwise, norm, gamma;
    Layer up, down;
} CodecBlock;
typedef struct {
    Network network;
    CodecConfig config;
    Layer embed, out, project;
    int norm, final_norm, gains, codebook;
    CodecBlock *blocks;
} Codec;

/* Makes the table of the parameters; f32 and f16 are fit for it, as for w2v-BERT. */
void codec_open(Codec *codec, const CodecConfig *config);
void codec_close(Codec *codec);
/* The results for a number of rows, pushed on the arena: codes i32 [count]; z f32 [count, code_width], the projection
 * that the search compares; margins f32 [count], by how much the cosine of the code with z is the largest. */
typedef struct {
    Tensor codes, z, margins;
} CodecCodes;
/* Computes the codes of features h f32 [count, input]. All rows count, masked ones, too. */
CodecCodes codec_forward(const Codec *codec, Arena *arena, Tensor h, const ClipRows *rows);
