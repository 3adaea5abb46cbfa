/* The part of IndexTTS2's gpt.pth that makes the GPT's conditioning of a clip's features: latents of the voice, and a
 * vector of the emotion. */
#pragma once

#include "model/indextts2/conformer.h"
#include "model/indextts2/perceiver.h"

typedef struct {
    ConformerConfig condition, emotion;
    PerceiverConfig condition_latents, emotion_latent;
    int emotion_width; /* of the emotion vector, as of a latent of the condition */
} VoiceConfig;

typedef struct {
    Network network;
    VoiceConfig config;
    Conformer condition, emotion;
    Perceiver condition_latents, emotion_latent;
    Layer from_latent, to_vector; /* emovec_layer, emo_layer */
    float *scale;                 /* [width] of the condition, on the host */
} Voice;

/* Makes the table of the parameters; f32 and bf16 are fit for it. f16 is not: sums over a quarter of a million terms
 * behind the subsampling leave its range. */
void voice_open(Voice *voice, const VoiceConfig *config);
void voice_close(Voice *voice);
/* Makes what follows from the weights, when they have been read. The arena is needed for the time of the call. */
void voice_prepare(Voice *voice, Arena *arena);
/* The results for clips, pushed on the arena: condition f32 [clips latents, width], to be multiplied by `scale`, and
 * emotion f32 [clips, emotion_width]. */
typedef struct {
    Tensor condition, emotion;
} VoiceResults;
/* Computes them from features h f32 [rows.count, input]; `half` are the clips behind the subsampling. */
VoiceResults voice_forward(const Voice *voice, Arena *arena, Tensor h, const ClipRows *rows, const ClipRows *half);
