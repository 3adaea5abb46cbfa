/* The sizes of the published networks. A file of its own: tests put tiny ones in its place. */
#include "model/indextts2/features.h"

const FeaturesConfig FEATURES_INDEXTTS2 = {
    .w2v = {.input = 160, .hidden = 1024, .heads = 16, .inner = 4096, .layers = 17, .taps = 31, .left = 64, .right = 8},
    .codec = {.input = 1024, .width = 384, .inner = 2048, .blocks = 12, .codebook = 8192, .code_width = 8},
    .voice = {
        .condition = {.input = 1024, .width = 512, .inner = 2048, .heads = 8, .blocks = 6, .taps = 15, .longest = 1024},
        .emotion = {.input = 1024, .width = 512, .inner = 1024, .heads = 4, .blocks = 4, .taps = 15, .longest = 1024},
        .condition_latents = {.context = 512, .width = 1280, .latents = 32, .heads = 8, .head_size = 64, .inner = 1706},
        .emotion_latent = {.context = 512, .width = 1024, .latents = 1, .heads = 4, .head_size = 64, .inner = 1365},
        .emotion_width = 1280}};
