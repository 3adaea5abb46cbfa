/* The perceivers of IndexTTS2's gpt.pth (perceiver_encoder, emo_perceiver_encoder): a context of any length to a fixed
 * number of latents. */
#pragma once

#include "model/indextts2/network.h"
#include "model/indextts2/rows.h"

enum { PERCEIVER_LAYERS = 2 };

typedef struct {
    int context, width; /* widths: of the context, of the latents */
    int latents, heads, head_size, inner;
} PerceiverConfig;

typedef struct {
    Layer qkv, out, up, down;
} PerceiverLayer;
typedef struct {
    Network *network;
    PerceiverConfig config;
    Layer project;
    int latents, gamma;
    PerceiverLayer layers[PERCEIVER_LAYERS];
} Perceiver;

/* Adds the parameters, whose names begin with PREFIX ("perceiver_encoder"), to the network's table. */
void perceiver_open(Perceiver *perceiver, Network *network, const PerceiverConfig *config, const char *prefix);
/* Computes the latents f32 [clips latents, width] of a context f32 [rows.count, context], pushed on the arena: rows of
 * length 1, which perceiver_scale completes. Masked rows of the context are left out. */
Tensor perceiver_forward(const Perceiver *perceiver, Arena *arena, Tensor context, const ClipRows *rows);
/* Fills the numbers [width] by which the columns of perceiver_forward's results are multiplied: gamma sqrt(width). */
void perceiver_scale(const Perceiver *perceiver, float *scale);
