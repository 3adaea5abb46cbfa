#include "model/indextts2/features.h"

#include <stdlib.h>

void features_open(Features *features, const FeaturesConfig *config, Device *device, DType type, DType voice_type,
                   const float *mean, const float *variance) {
    *features = (Features){.device = device};
    w2v_open(&features->w2v, &config->w2v);
    features->w2v.mean = mean;
    features->w2v.variance = variance;
    codec_open(&features->codec, &config->codec);
    voice_open(&features->voice, &config->voice);
    network_allocate(&features->w2v.network, device, type);
    network_allocate(&features->codec.network, device, type);
    network_allocate(&features->voice.network, device, voice_type);
}

void features_close(Features *features) {
    w2v_close(&features->w2v);
    codec_close(&features->codec);
    voice_close(&features->voice);
    if (features->arena.capacity) arena_close(&features->arena);
    *features = (Features){0};
}

void features_reserve(Features *features, size_t bytes) {
    features->arena = arena_open(features->device, bytes, "features");
}

void features_prepare(Features *features) { voice_prepare(&features->voice, &features->arena); }

/* Copies rows first .. first + n - 1 of x to the host, if they are asked for. */
static void download(Device *device, void *to, Tensor x, int64_t first, int64_t n) {
    Tensor part = tensor_rows(x, first, n);
    if (to) device->download(device, to, part.data, tensor_bytes(part));
}

static void take_results(const Features *features, const FeatureClip *clips, const ClipRows *rows, Tensor h,
                         const CodecCodes *codes, const VoiceResults *voice) {
    Device *device = features->device;
    int latents = features->voice.config.condition_latents.latents,
        width = features->voice.config.condition_latents.width;
    for (int s = 0; s < rows->sequences.count; s++) {
        const FeatureClip *clip = &clips[s];
        int64_t first = rows->sequences.host_offsets[s], n = clip->length.rows;
        download(device, clip->codes, codes->codes, first, n);
        download(device, clip->margins, codes->margins, first, n);
        download(device, clip->h, h, first, n);
        download(device, clip->condition, voice->condition, (int64_t)s * latents, latents);
        download(device, clip->emotion, voice->emotion, s, 1);
        for (int i = 0; i < latents * width; i++) clip->condition[i] *= features->voice.scale[i % width];
    }
}

/* Uploads the input of all clips into one tensor. */
static Tensor upload(Features *features, const FeatureClip *clips, const ClipRows *rows) {
    Device *device = features->device;
    Tensor x = arena_2d(&features->arena, DTYPE_F32, rows->count, features->w2v.config.input);
    for (int s = 0; s < rows->sequences.count; s++) {
        Tensor part = tensor_rows(x, rows->sequences.host_offsets[s], clips[s].length.rows);
        device->upload(device, part.data, clips[s].x, tensor_bytes(part));
    }
    return x;
}

static void tell(const Features *features, FeatureNetwork network) {
    if (features->finished) features->finished(features->context, network);
}

void features_compute(Features *features, const FeatureClip *clips, int n) {
    Arena *arena = &features->arena;
    Device *device = features->device;
    OWNED ClipLength *lengths = xmalloc((size_t)n * 2 * sizeof *lengths);
    for (int s = 0; s < n; s++) {
        lengths[s] = clips[s].length;
        lengths[n + s] = clip_length_subsampled(lengths[s]);
    }
    size_t mark = arena_mark(arena);
    ClipRows rows = clip_rows_open(device, arena, lengths, n), half = clip_rows_open(device, arena, lengths + n, n);
    Tensor h = w2v_forward(&features->w2v, arena, upload(features, clips, &rows), &rows, NULL, NULL);
    tell(features, FEATURE_W2V);
    CodecCodes codes = codec_forward(&features->codec, arena, h, &rows);
    tell(features, FEATURE_CODEC);
    VoiceResults voice = voice_forward(&features->voice, arena, h, &rows, &half);
    tell(features, FEATURE_VOICE);
    take_results(features, clips, &rows, h, &codes, &voice);
    clip_rows_close(&rows);
    clip_rows_close(&half);
    arena_release(arena, mark);
}

/* ---- memory ---- */

void features_rehearse(Features *features, const ClipLength *lengths, int n) {
    OWNED FeatureClip *clips = xcalloc((size_t)n, sizeof *clips);
    int64_t longest = 0;
    for (int s = 0; s < n; s++) longest = lengths[s].rows > longest ? lengths[s].rows : longest;
    const VoiceConfig *voice = &features->voice.config;
    int64_t condition = (int64_t)voice->condition_latents.latents * voice->condition_latents.width;
    OWNED float *results = xmalloc((size_t)(longest + condition + voice->emotion_width) * sizeof *results);
    for (int s = 0; s < n; s++)
        clips[s] = (FeatureClip){.length = lengths[s],
                                 .codes = (int32_t *)results,
                                 .condition = results + longest,
                                 .emotion = results + longest + condition};
    features_compute(features, clips, n);
}

void features_rehearsal(Features *features, const FeaturesConfig *config, Device *dry, DType type, DType voice_type,
                        const ClipLength *lengths, int n) {
    dry->half = type != DTYPE_F32 ? type : voice_type;
    features_open(features, config, dry, type, voice_type, NULL, NULL);
    features->arena = arena_open(dry, 0, "features");
    features_prepare(features);
    device_reset_counters(dry);
    features_rehearse(features, lengths, n);
}

size_t features_measure(const FeaturesConfig *config, DType type, DType voice_type, bool host_memory,
                        const ClipLength *lengths, int n) {
    Device *dry = dry_device_open();
    dry->host_memory = host_memory;
    Features features;
    features_rehearsal(&features, config, dry, type, voice_type, lengths, n);
    size_t bytes = features.arena.peak;
    features_close(&features);
    device_close(dry);
    return bytes;
}
