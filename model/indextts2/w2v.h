/* w2v-BERT 2.0 (Wav2Vec2BertModel of transformers), the first layers: features of speech from pairs of filter-bank
 * frames, and their normalisation by the statistics of IndexTTS2. */
#pragma once

#include "model/indextts2/network.h"
#include "model/indextts2/rows.h"

typedef struct {
    int input, hidden, heads, inner; /* widths: of the input, of the layers, of their feed-forward networks */
    int layers;                      /* that are computed */
    int taps;                        /* of the depthwise convolution, which is causal */
    int left, right;                 /* the farthest distances of keys that have rows of the table of distances */
} W2vConfig;

typedef struct {
    Layer up, down;
    int norm;
} W2vFeedForward;
typedef struct {
    W2vFeedForward first, second;
    int attention_norm, distances, convolution_norm, depthwise, depthwise_norm, final_norm;
    Layer qkv, attention_out, expand, contract;
} W2vLayer;
typedef struct {
    Network network;
    W2vConfig config;
    int input_norm;
    Layer projection;
    W2vLayer *layers;
    /* [hidden], of the statistics; NULL: features are not normalised. network_read folds them into the last norm. */
    const float *mean, *variance;
} W2v;

/* Makes the table of the parameters. network_allocate and network_read come next. f32 and f16 are fit for it; bf16,
 * whose errors are eight times as large, changes several codes in a hundred. */
void w2v_open(W2v *w2v, const W2vConfig *config);
void w2v_close(W2v *w2v);
/* Tells a state [count, hidden] f32; 0 is that before the layers. */
typedef void W2vDump(void *context, int state, Tensor y);
/* Computes the features [count, hidden] f32 of x f32 [count, input], pushed on the arena: (last layer's output - mean)
 * / sqrt(variance). Tells each state, if dump is not NULL. */
Tensor w2v_forward(const W2v *w2v, Arena *arena, Tensor x, const ClipRows *rows, W2vDump *dump, void *dump_context);
/* Computes them from state 0, y f32 [count, hidden], which is overwritten. */
void w2v_layers_forward(const W2v *w2v, Arena *arena, Tensor result, Tensor y, const ClipRows *rows, W2vDump *dump,
                        void *dump_context);
