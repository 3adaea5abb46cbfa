#include "tests/gpt/indextts2_drawn.h"

#include "tests/helpers.h"

#include <math.h>

/* Standard deviations and means of tensors whose names end like this. All others: weights around 0 with 1 /
 * sqrt(inputs), vectors called weight, which are norms', 0.2 around 1. */
static const struct {
    const char *ending;
    double scale, around;
} scales[] = {{".bias", 0.1, 0},      {".distance_embedding.weight", 0.7, 0},
              {".weight_g", 0.2, 1},  {".codebook.weight", 1, 0},
              {"pos_bias_u", 0.5, 0}, {"pos_bias_v", 0.5, 0},
              {".latents", 1, 0},     {"norm.gamma", 0.2, 1},
              {".gamma", 0.2, 0.5}};

static float value_of(uint32_t tensor, uint32_t i, double around, double amplitude) {
    uint32_t x = i * 2654435761u + tensor * 2246822519u + 374761393u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (float)(around + amplitude * (x / 4294967296.0 - 0.5));
}

void drawn_fill(float *out, uint32_t tensor, int64_t first, int64_t count, double around, double scale) {
    double amplitude = scale * sqrt(12);
#pragma omp parallel for
    for (int64_t i = 0; i < count; i++) out[i] = value_of(tensor, (uint32_t)(first + i), around, amplitude);
}

void drawn_parameter(float *out, uint32_t tensor, const Param *p, int64_t first, int64_t count) {
    bool norm = p->columns == 0;
    double around = norm ? 1 : 0, scale = norm ? 0.2 : 1 / sqrt((double)p->columns);
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        if (!ends_with(p->name, scales[i].ending)) continue;
        around = scales[i].around;
        scale = scales[i].scale;
        break;
    }
    drawn_fill(out, tensor, first, count, around, scale);
}

static bool read_by_name(void *context, const char *name, int64_t first, int64_t count, float *out, Error *error) {
    const ParamTable *table = context;
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *c = name; *c; c++) hash = (hash ^ (uint8_t)*c) * 16777619u;
    for (int i = 0; i < table->count; i++) {
        if (strcmp(table->items[i].name, name) != 0) continue;
        drawn_parameter(out, hash, &table->items[i], first, count);
        return true;
    }
    return error_set(error, "no parameter '%s'", name);
}

static void read_drawn(Network *network) {
    Error error;
    if (!network_read(network, &(WeightSource){read_by_name, &network->table}, &error)) fail_msg("%s", error.text);
}

void drawn_network(Network *network, Device *device, DType type) {
    network_allocate(network, device, type);
    read_drawn(network);
}

void drawn_features(Features *features, const FeaturesConfig *config, Device *device, DType type, DType voice_type,
                    const ClipLength *lengths, int n) {
    Network *networks[] = {&features->w2v.network, &features->codec.network, &features->voice.network};
    features_open(features, config, device, type, voice_type, NULL, NULL);
    for (int i = 0; i < 3; i++) read_drawn(networks[i]);
    features_reserve(features, features_measure(config, type, voice_type, device->host_memory, lengths, n));
    features_prepare(features);
}
