/* The networks of IndexTTS2's features in their full size, with weights by formula, on the CPU: their memory is what
 * the dry device planned, to the byte, their FLOPs are what it counted, and their results are numbers. */
#include "kernels/cpu/device.h"
#include "model/indextts2/features.h"
#include "tests/test.h"

enum { CLIPS = 3 };
/* 3.3 s, 2 s and 0.3 s; the first ends with a masked row. */
static const ClipLength lengths[CLIPS] = {{165, 164}, {100, 100}, {15, 15}};

/* ---- weights ---- */

static float value_of(uint64_t seed, uint64_t i, double around, double scale) {
    uint64_t x = (seed + i) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return (float)(around + scale * sqrt(12) * ((double)(x >> 40) / 0x1p24 - 0.5));
}

/* Fills `out` with numbers of a parameter: matrices keep the size of what they multiply, biases are small, and the
 * other vectors, of norms, are near 1. */
static bool read_random(void *context, const char *name, int64_t first, int64_t count, float *out, Error *error) {
    const ParamTable *table = context;
    int row = 0;
    while (row < table->count && strcmp(table->items[row].name, name) != 0) row++;
    if (row == table->count) return error_set(error, "there is no parameter '%s'", name);
    const Param *p = &table->items[row];
    bool vector = !p->columns, bias = strstr(name, "bias");
    double around = vector && !bias ? 1 : 0, scale = bias ? 0.1 : vector ? 0.2 : 1 / sqrt((double)p->columns);
#pragma omp parallel for
    for (int64_t i = 0; i < count; i++) out[i] = value_of((uint64_t)p->offset, (uint64_t)(first + i), around, scale);
    return true;
}

static void read_all(Features *features) {
    Network *networks[] = {&features->w2v.network, &features->codec.network, &features->voice.network};
    for (int i = 0; i < 3; i++)
        MUST_OR(network_read(networks[i], &(WeightSource){read_random, &networks[i]->table}, &error), "%s", error.text);
}

/* ---- clips ---- */

static FeatureClip open_clip(uint64_t seed, ClipLength length) {
    const FeaturesConfig *config = &FEATURES_INDEXTTS2;
    int64_t numbers = length.rows * config->w2v.input, rows = length.rows,
            condition = (int64_t)config->voice.condition_latents.latents * config->voice.condition_latents.width;
    float *x = xmalloc((size_t)numbers * sizeof *x);
    for (int64_t i = 0; i < numbers; i++) x[i] = value_of(seed, (uint64_t)i, 0, 1);
    return (FeatureClip){.x = x,
                         .length = length,
                         .codes = xmalloc((size_t)rows * sizeof(int32_t)),
                         .condition = xmalloc((size_t)condition * sizeof(float)),
                         .emotion = xmalloc((size_t)config->voice.emotion_width * sizeof(float)),
                         .margins = xmalloc((size_t)rows * sizeof(float))};
}

static void check_clip(const FeatureClip *clip) {
    const FeaturesConfig *config = &FEATURES_INDEXTTS2;
    int64_t condition = (int64_t)config->voice.condition_latents.latents * config->voice.condition_latents.width;
    int different = 0;
    for (int64_t i = 0; i < clip->length.rows; i++) {
        assert_in_range(clip->codes[i], 0, config->codec.codebook - 1);
        assert_true(clip->margins[i] >= 0 && clip->margins[i] <= 2);
        different += i && clip->codes[i] != clip->codes[i - 1];
    }
    print_message("%d of %d rows have another code than the row before\n", different, (int)clip->length.rows);
    assert_true(different > 0); /* random networks mix their rows so much that few codes are left */
    for (int64_t i = 0; i < condition; i++) assert_true(isfinite(clip->condition[i]));
    for (int i = 0; i < config->voice.emotion_width; i++) assert_true(isfinite(clip->emotion[i]));
}

static void close_clip(FeatureClip *clip) {
    free((float *)clip->x);
    FREE(clip->codes, clip->condition, clip->emotion, clip->margins);
}

/* The counters of the dry device are those of its one pass; the other's begin after the weights are there. */
TEST(the_full_networks_compute_within_the_planned_memory) {
    Device *dry = dry_device_open(), *device = cpu_device_open(0);
    Features planned, features;
    double flops[2], bytes[2];
    FeatureClip clips[CLIPS];
    size_t scratch = device->allocated; /* that every device has */
    dry->host_memory = true;
    features_rehearsal(&planned, &FEATURES_INDEXTTS2, dry, DTYPE_F32, DTYPE_F32, lengths, CLIPS);
    features_open(&features, &FEATURES_INDEXTTS2, device, DTYPE_F32, DTYPE_F32, NULL, NULL);
    read_all(&features);
    features_reserve(&features, planned.arena.peak);
    features_prepare(&features);
    assert_int_equal(device->allocated, scratch + dry->allocated + planned.arena.peak);
    device_reset_counters(device);
    for (int i = 0; i < CLIPS; i++) clips[i] = open_clip((uint64_t)i << 40, lengths[i]);
    features_compute(&features, clips, CLIPS);
    assert_int_equal(features.arena.peak, planned.arena.peak);
    assert_int_equal(device->allocated, scratch + dry->allocated + planned.arena.peak);
    device_totals(dry, &flops[0], &bytes[0]);
    device_totals(device, &flops[1], &bytes[1]);
    assert_true(flops[0] == flops[1] && bytes[0] == bytes[1]);
    for (int i = 0; i < CLIPS; i++) {
        check_clip(&clips[i]);
        close_clip(&clips[i]);
    }
    features_close(&features);
    features_close(&planned);
    device_close(device);
    device_close(dry);
}

int main(void) { return tests_run(NULL, NULL); }
