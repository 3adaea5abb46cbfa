#include "model/indextts2/voice.h"

#include <math.h>
#include <stdlib.h>

/* The end of the emotion's perceiver, factors of columns, goes into the layer behind it. */
static bool fold(const Network *network, const WeightSource *source, int row, int64_t first, int64_t n, float *values,
                 Error *error) {
    const Voice *voice = (const Voice *)network;
    (void)first;
    if (conformer_fold(&voice->condition, row, n, values) || conformer_fold(&voice->emotion, row, n, values))
        return true;
    if (row != voice->from_latent.weight) return true;
    int64_t width = voice->config.emotion_latent.width;
    OWNED float *gamma = xmalloc((size_t)width * sizeof *gamma);
    const char *name = network->table.items[voice->emotion_latent.gamma].name;
    if (!source->read(source->context, name, 0, width, gamma, error)) return false;
    for (int64_t j = 0; j < n * width; j++) values[j] *= gamma[j % width] * sqrtf((float)width);
    return true;
}

void voice_open(Voice *voice, const VoiceConfig *config) {
    *voice = (Voice){.network = {.name = "the conditioning of IndexTTS2", .fit = DTYPE_BF16, .fold = fold},
                     .config = *config};
    Network *network = &voice->network;
    conformer_open(&voice->condition, network, &config->condition, "conditioning_encoder");
    perceiver_open(&voice->condition_latents, network, &config->condition_latents, "perceiver_encoder");
    conformer_open(&voice->emotion, network, &config->emotion, "emo_conditioning_encoder");
    perceiver_open(&voice->emotion_latent, network, &config->emotion_latent, "emo_perceiver_encoder");
    voice->from_latent =
        network_add_linear(network, config->emotion_width, config->emotion_latent.width, true, "emovec_layer");
    voice->to_vector = network_add_linear(network, config->emotion_width, config->emotion_width, true, "emo_layer");
}

void voice_prepare(Voice *voice, Arena *arena) {
    conformer_prepare(&voice->condition, arena);
    conformer_prepare(&voice->emotion, arena);
    voice->scale = xmalloc((size_t)voice->config.condition_latents.width * sizeof *voice->scale);
    perceiver_scale(&voice->condition_latents, voice->scale);
}

void voice_close(Voice *voice) {
    conformer_close(&voice->condition);
    conformer_close(&voice->emotion);
    network_release(&voice->network);
    free(voice->scale);
    *voice = (Voice){0};
}

VoiceResults voice_forward(const Voice *voice, Arena *arena, Tensor h, const ClipRows *rows, const ClipRows *half) {
    Context context = network_context(&voice->network, arena), *c = &context;
    int n = rows->sequences.count;
    VoiceResults to = {.condition = network_push(c, (int64_t)n * voice->config.condition_latents.latents,
                                                 voice->config.condition_latents.width),
                       .emotion = network_push(c, n, voice->config.emotion_width)};
    size_t mark = arena_mark(arena);
    Tensor y = conformer_forward(&voice->condition, arena, h, rows, half);
    network_copy(c, to.condition, perceiver_forward(&voice->condition_latents, arena, y, half));
    arena_release(arena, mark);
    y = conformer_forward(&voice->emotion, arena, h, rows, half);
    Tensor latent = perceiver_forward(&voice->emotion_latent, arena, y, half);
    Tensor vector = network_linear_exact(c, voice->from_latent, latent);
    network_copy(c, to.emotion, network_linear_exact(c, voice->to_vector, vector));
    arena_release(arena, mark);
    return to;
}
