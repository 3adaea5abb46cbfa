/* The features that IndexTTS2's GPT is trained on: for each clip its semantic codes, 50 a second, the conditioning
 * latents of its voice and the vector of its emotion. Clips are computed as if each were alone. */
#pragma once

#include "model/indextts2/codec.h"
#include "model/indextts2/voice.h"
#include "model/indextts2/w2v.h"

typedef struct {
    W2vConfig w2v;
    CodecConfig codec;
    VoiceConfig voice;
} FeaturesConfig;
extern const FeaturesConfig FEATURES_INDEXTTS2;

/* The networks, in the order in which they compute. */
typedef enum { FEATURE_W2V, FEATURE_CODEC, FEATURE_VOICE, FEATURE_NETWORKS } FeatureNetwork;

typedef struct { /* has pointers into itself: do not copy it */
    Device *device;
    W2v w2v;
    Codec codec;
    Voice voice;
    Arena arena; /* of a pass; features_reserve opens it */
    /* Is told that a network of a pass has queued its operations. NULL: nobody is. */
    void (*finished)(void *context, FeatureNetwork network);
    void *context;
} Features;

/* A clip of a pass: x [rows, w2v.input] of data/indextts2/front.h and its length. The caller owns what is computed:
 * codes [rows]; condition [latents, width], emotion [emotion_width]; optionally features h [rows, w2v.hidden] and
 * margins [rows] of the codes (CodecCodes). */
typedef struct {
    const float *x;
    ClipLength length;
    int32_t *codes;
    float *condition, *emotion;
    float *h, *margins; /* NULL: not asked for */
} FeatureClip;

/* Makes the networks and allocates their weights: w2v-BERT and the codec with products of `type`, f32 or f16; the
 * conditioning with `voice_type`, f32 or bf16. mean and variance [w2v.hidden] are IndexTTS2's statistics, and must be
 * there until the weights have been read, by network_read of each network. features_reserve and features_prepare come
 * next. */
void features_open(Features *features, const FeaturesConfig *config, Device *device, DType type, DType voice_type,
                   const float *mean, const float *variance);
/* Allocates the memory of passes, features_measure's bytes. */
void features_reserve(Features *features, size_t bytes);
/* Makes what follows from the weights. */
void features_prepare(Features *features);
void features_close(Features *features);
/* Computes clips in one pass. */
void features_compute(Features *features, const FeatureClip *clips, int n);

/* Returns the bytes of memory that a pass over clips of these lengths needs beside the weights. */
size_t features_measure(const FeaturesConfig *config, DType type, DType voice_type, bool host_memory,
                        const ClipLength *lengths, int n);
/* Opens them on a dry device, which has counted nothing but a pass over clips of these lengths when it returns. */
void features_rehearsal(Features *features, const FeaturesConfig *config, Device *dry, DType type, DType voice_type,
                        const ClipLength *lengths, int n);
/* Computes clips of these lengths, too, without numbers: Features.arena.peak is what the largest pass so far needs. */
void features_rehearse(Features *dry, const ClipLength *lengths, int n);
