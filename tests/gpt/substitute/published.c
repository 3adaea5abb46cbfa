/* Networks of the size of golden/indextts2.safetensors in the place of the published ones. */
#include "model/indextts2/features.h"

const FeaturesConfig FEATURES_INDEXTTS2 = {
    .w2v = {.input = 160, .hidden = 32, .heads = 2, .inner = 48, .layers = 3, .taps = 31, .left = 9, .right = 3},
    .codec = {.input = 32, .width = 12, .inner = 20, .blocks = 3, .codebook = 64, .code_width = 8},
    .voice = {
        .condition = {.input = 32, .width = 16, .inner = 24, .heads = 4, .blocks = 2, .taps = 15, .longest = 1024},
        .emotion = {.input = 32, .width = 16, .inner = 20, .heads = 2, .blocks = 2, .taps = 15, .longest = 1024},
        .condition_latents = {.context = 16, .width = 20, .latents = 32, .heads = 4, .head_size = 64, .inner = 26},
        .emotion_latent = {.context = 16, .width = 12, .latents = 1, .heads = 2, .head_size = 64, .inner = 16},
        .emotion_width = 20}};
