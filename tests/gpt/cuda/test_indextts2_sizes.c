/* The networks of IndexTTS2's features on the cuda device, real or emulated, in sizes beyond the golden values': heads,
 * distances and odd widths of the published networks, clips of half a minute, and codes whose networks are deep.
 * Weights are drawn. */
#include "tests/golden.h"
#include "tests/gpt/cuda/indextts2_bounds.h"
#include "tests/gpt/indextts2_drawn.h"

enum { MOST = 6 };

/* Sizes of heads, distances and taps as published; insides of perceivers odd and even, as 1365 and 1706. */
static const FeaturesConfig published_heads = {
    .w2v = {.input = 160, .hidden = 64, .heads = 1, .inner = 96, .layers = 2, .taps = 31, .left = 64, .right = 8},
    .codec = {.input = 64, .width = 24, .inner = 40, .blocks = 2, .codebook = 100, .code_width = 8},
    .voice = {
        .condition = {.input = 64, .width = 64, .inner = 96, .heads = 1, .blocks = 2, .taps = 15, .longest = 100},
        .emotion = {.input = 64, .width = 128, .inner = 64, .heads = 1, .blocks = 1, .taps = 15, .longest = 100},
        .condition_latents = {.context = 64, .width = 40, .latents = 32, .heads = 2, .head_size = 64, .inner = 54},
        .emotion_latent = {.context = 128, .width = 32, .latents = 1, .heads = 2, .head_size = 64, .inner = 43},
        .emotion_width = 40}};
/* Odd and even lengths at 50 and at 25 Hz, with a masked row and without; more rows than distances, and fewest. */
static const ClipLength mixed[] = {{150, 149}, {40, 40}, {3, 3}, {41, 40}, {5, 4}, {39, 39}};

/* So narrow that no product is divided along its sums, which would depend on the number of rows. */
static const FeaturesConfig narrow = {
    .w2v = {.input = 160, .hidden = 16, .heads = 1, .inner = 16, .layers = 1, .taps = 31, .left = 64, .right = 8},
    .codec = {.input = 16, .width = 8, .inner = 8, .blocks = 1, .codebook = 20, .code_width = 8},
    .voice = {
        .condition = {.input = 16, .width = 16, .inner = 16, .heads = 1, .blocks = 1, .taps = 15, .longest = 1024},
        .emotion = {.input = 16, .width = 16, .inner = 16, .heads = 1, .blocks = 1, .taps = 15, .longest = 1024},
        .condition_latents = {.context = 16, .width = 8, .latents = 4, .heads = 1, .head_size = 16, .inner = 8},
        .emotion_latent = {.context = 16, .width = 8, .latents = 1, .heads = 1, .head_size = 16, .inner = 8},
        .emotion_width = 8}};
/* At 25 Hz, a strip of 512 rows ends in the clip of half a minute. Alone, it ends elsewhere. */
static const ClipLength half_minute[] = {{34, 34}, {3, 3}, {1500, 1499}, {201, 200}};

/* ---- passes ---- */

static FeatureClip clip_of(const FeaturesConfig *c, ClipLength length, uint32_t number) {
    int64_t rows = length.rows;
    float *x = xmalloc((size_t)(rows * c->w2v.input) * sizeof *x);
    drawn_fill(x, number, 0, rows * c->w2v.input, 0, 1);
    return (FeatureClip){
        .x = x,
        .length = length,
        .codes = xmalloc((size_t)rows * sizeof(int32_t)),
        .condition = xmalloc((size_t)(c->voice.condition_latents.latents * c->voice.emotion_width) * sizeof(float)),
        .emotion = xmalloc((size_t)c->voice.emotion_width * sizeof(float)),
        .h = xmalloc((size_t)(rows * c->w2v.hidden) * sizeof(float)),
        .margins = xmalloc((size_t)rows * sizeof(float))};
}

static void clip_free(FeatureClip *clip) {
    float *x = (float *)(uintptr_t)clip->x;
    FREE(x, clip->codes, clip->condition, clip->emotion, clip->h, clip->margins);
}

typedef struct {
    const FeaturesConfig *config;
    const ClipLength *lengths;
    int n;
    FeatureClip clips[MOST];
} Clips;

/* Computes all clips in one pass, or each in one. */
static void compute(Clips *to, const FeaturesConfig *config, Features *features, const ClipLength *lengths, int n,
                    bool packed) {
    *to = (Clips){config, lengths, n, {{0}}};
    for (int s = 0; s < n; s++) to->clips[s] = clip_of(config, lengths[s], (uint32_t)s + 1);
    for (int s = 0; s < (packed ? 1 : n); s++) features_compute(features, to->clips + s, packed ? n : 1);
}

static void clips_free(Clips *c) {
    for (int s = 0; s < c->n; s++) clip_free(&c->clips[s]);
}

static void check_same(const Clips *got, const Clips *want) {
    const FeaturesConfig *c = want->config;
    size_t vector = (size_t)c->voice.emotion_width * sizeof(float);
    for (int s = 0; s < want->n; s++) {
        const FeatureClip *a = &got->clips[s], *b = &want->clips[s];
        size_t rows = (size_t)b->length.rows;
        assert_memory_equal(a->h, b->h, rows * (size_t)c->w2v.hidden * sizeof(float));
        assert_memory_equal(a->codes, b->codes, rows * sizeof(int32_t));
        assert_memory_equal(a->margins, b->margins, rows * sizeof(float));
        assert_memory_equal(a->condition, b->condition, (size_t)c->voice.condition_latents.latents * vector);
        assert_memory_equal(a->emotion, b->emotion, vector);
    }
}

/* Compares results, norm-wise: in f32 with the tolerance of golden values, else with the bound of their roundings. */
static void check_near(const char *what, int clip, const float *got, const float *want, int64_t n, DType type,
                       int roundings) {
    double far = distance(got, want, n), allowed = type == DTYPE_F32 ? golden_tolerance : bound(type, roundings);
    print_message("clip %d, %s: distance %.2g, allowed %.2g\n", clip, what, far, allowed);
    if (!(far <= allowed)) fail_msg("clip %d, %s is %.3g away, allowed %.3g", clip, what, far, allowed);
}

/* Compares with the results in f32 of clips whose networks have the types. */
static void check_clips(const Clips *got, const Clips *want, DType type, DType voice_type) {
    const FeaturesConfig *c = want->config;
    int64_t vector = c->voice.emotion_width, latents = c->voice.condition_latents.latents;
    DType coarsest = voice_type == DTYPE_F32 ? type : voice_type;
    int w2v = in_w2v(c->w2v.layers),
        voice = (type == DTYPE_F32 ? 0 : w2v) + (voice_type == DTYPE_F32 ? 0 : in_voice(c->voice.condition.blocks));
    for (int s = 0; s < want->n; s++) {
        const FeatureClip *a = &got->clips[s], *b = &want->clips[s];
        check_near("h", s, a->h, b->h, b->length.rows * c->w2v.hidden, type, w2v);
        check_near("condition", s, a->condition, b->condition, latents * vector, coarsest, voice);
        check_near("emotion", s, a->emotion, b->emotion, vector, coarsest, voice);
        for (int64_t i = 0; i < b->length.rows && type == DTYPE_F32; i++)
            if (b->margins[i] > 4 * golden_tolerance) assert_int_equal(a->codes[i], b->codes[i]);
    }
}

typedef struct {
    Rig rig;
    Features on_cpu, on_cuda;
    Clips want, got, alone;
    DType rounds_to, voice_rounds_to;
} Comparison;

/* Computes clips in f32 on the cpu; on the cuda device together and, under another schedule, each alone. tf32: f32
 * means TF32 in products. */
static void compute_all(Comparison *c, const FeaturesConfig *config, const ClipLength *lengths, int n, DType type,
                        DType voice_type, bool tf32) {
    DType half = type == DTYPE_F32 ? voice_type : type;
    c->rig = rig_open(half);
    if (!rig_has(&c->rig, half) || (tf32 && !rig_has(&c->rig, DTYPE_BF16))) { /* cards with bf16 have TF32 */
        rig_close(&c->rig);
        skip();
    }
    c->rig.cuda->tf32 = tf32;
    c->rounds_to = tf32 ? DTYPE_F16 : type;
    c->voice_rounds_to = tf32 ? DTYPE_F16 : voice_type;
    drawn_features(&c->on_cpu, config, c->rig.cpu, DTYPE_F32, DTYPE_F32, lengths, n);
    drawn_features(&c->on_cuda, config, c->rig.cuda, type, voice_type, lengths, n);
    compute(&c->want, config, &c->on_cpu, lengths, n, true);
    compute(&c->got, config, &c->on_cuda, lengths, n, true);
    change_schedule(&c->rig);
    compute(&c->alone, config, &c->on_cuda, lengths, n, false);
    assert_no_reports();
}

static void close_all(Comparison *c) {
    Clips *clips[] = {&c->want, &c->got, &c->alone};
    for (int i = 0; i < 3; i++) clips_free(clips[i]);
    features_close(&c->on_cpu);
    features_close(&c->on_cuda);
    rig_close(&c->rig);
}

static void check_mixed(DType type, DType voice_type, bool tf32) {
    Comparison c;
    compute_all(&c, &published_heads, mixed, 6, type, voice_type, tf32);
    check_clips(&c.got, &c.want, c.rounds_to, c.voice_rounds_to);
    check_clips(&c.alone, &c.want, c.rounds_to, c.voice_rounds_to);
    close_all(&c);
}
TEST(heads_as_published_in_f32) { check_mixed(DTYPE_F32, DTYPE_F32, false); }
TEST(heads_as_published_in_tf32) { check_mixed(DTYPE_F32, DTYPE_F32, true); }
TEST(heads_as_published_in_f16) { check_mixed(DTYPE_F16, DTYPE_F32, false); }
TEST(heads_as_published_in_bf16) { check_mixed(DTYPE_F32, DTYPE_BF16, false); }

static void check_strips(DType type, DType voice_type, bool tf32) {
    Comparison c;
    compute_all(&c, &narrow, half_minute, 4, type, voice_type, tf32);
    if (c.rounds_to == DTYPE_F32 && c.voice_rounds_to == DTYPE_F32) check_clips(&c.got, &c.want, type, voice_type);
    check_same(&c.alone, &c.got);
    close_all(&c);
}
TEST(half_a_minute_alone_and_in_company_in_f32) { check_strips(DTYPE_F32, DTYPE_F32, false); }
TEST(half_a_minute_alone_and_in_company_in_tf32) { check_strips(DTYPE_F32, DTYPE_F32, true); }
TEST(half_a_minute_alone_and_in_company_in_f16) { check_strips(DTYPE_F16, DTYPE_F32, false); }
TEST(half_a_minute_alone_and_in_company_in_bf16) { check_strips(DTYPE_F32, DTYPE_BF16, false); }

/* ---- the share of codes that a type changes ---- */

/* Networks as deep as published, with as many codes. */
enum { ROWS = 150, HIDDEN = 128 };
static const W2vConfig deep_w2v = {
    .input = 160, .hidden = HIDDEN, .heads = 2, .inner = 256, .layers = 17, .taps = 31, .left = 64, .right = 8};
static const CodecConfig deep_codec = {
    .input = HIDDEN, .width = 96, .inner = 256, .blocks = 12, .codebook = 8192, .code_width = 8};

typedef struct {
    float h[ROWS * HIDDEN], z[ROWS * 8], margins[ROWS];
    int32_t codes[ROWS];
} DeepCodes;

/* `mean` and `variance` [HIDDEN] of the features; NULL: these are not normalised. */
static void deep_codes(DeepCodes *to, Device *device, DType type, const float *mean, const float *variance) {
    W2v w2v;
    Codec codec;
    Arena arena = arena_open(device, 64 << 20, "activations");
    float *x = xmalloc(ROWS * 160 * sizeof *x);
    w2v_open(&w2v, &deep_w2v);
    codec_open(&codec, &deep_codec);
    w2v.mean = mean;
    w2v.variance = variance;
    drawn_network(&w2v.network, device, type);
    drawn_network(&codec.network, device, type);
    drawn_fill(x, 1, 0, ROWS * 160, 0, 1);
    Tensor input = arena_2d(&arena, DTYPE_F32, ROWS, 160);
    device->upload(device, input.data, x, tensor_bytes(input));
    ClipRows rows = clip_rows_open(device, &arena, &(ClipLength){ROWS, ROWS}, 1);
    Tensor h = w2v_forward(&w2v, &arena, input, &rows, NULL, NULL);
    CodecCodes codes = codec_forward(&codec, &arena, h, &rows);
    device->download(device, to->h, h.data, sizeof to->h);
    device->download(device, to->z, codes.z.data, sizeof to->z);
    device->download(device, to->margins, codes.margins.data, sizeof to->margins);
    device->download(device, to->codes, codes.codes.data, sizeof to->codes);
    clip_rows_close(&rows);
    w2v_close(&w2v);
    codec_close(&codec);
    arena_close(&arena);
    free(x);
}

/* Computes the statistics of features, as the published ones were: without them random networks have few codes. */
static void statistics_of(const DeepCodes *c, float *mean, float *variance) {
    for (int j = 0; j < HIDDEN; j++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < ROWS; i++) sum += c->h[i * HIDDEN + j];
        for (int i = 0; i < ROWS; i++) squares += pow(c->h[i * HIDDEN + j] - sum / ROWS, 2);
        mean[j] = (float)(sum / ROWS);
        variance[j] = (float)(squares / ROWS);
    }
}

static CodesOfClip codes_of(const DeepCodes *c) { return (CodesOfClip){ROWS, c->codes, c->z, c->margins}; }

/* An error of 1 % changes the codes of 3.3 % of random directions, of which 8192 are codes, smaller ones fewer in
 * proportion. The count of changed codes spreads by the root of its mean. */
static void check_share(DType type, bool tf32) {
    Rig rig = rig_open(type);
    if (!rig_has(&rig, type) || (tf32 && !rig_has(&rig, DTYPE_BF16))) {
        rig_close(&rig);
        skip();
    }
    DeepCodes *want = xmalloc(sizeof *want), *got = xmalloc(sizeof *got);
    float mean[HIDDEN], variance[HIDDEN];
    rig.cuda->tf32 = tf32;
    deep_codes(want, rig.cpu, DTYPE_F32, NULL, NULL);
    statistics_of(want, mean, variance);
    deep_codes(want, rig.cpu, DTYPE_F32, mean, variance);
    deep_codes(got, rig.cuda, type, mean, variance);
    int changed = ROWS - check_codes("deep", codes_of(got), codes_of(want));
    double squares = 0;
    for (int i = 0; i < ROWS; i++) squares += pow(turn(got->z + 8 * i, want->z + 8 * i), 2);
    double turned = sqrt(squares / ROWS), likely = 3.3 * turned * ROWS;
    print_message("%s: h is %.2g away, directions %.2g; %d of %d codes differ, likely %.1f\n",
                  tf32 ? "TF32" : dtype_name(type), distance(got->h, want->h, ROWS * HIDDEN), turned, changed, ROWS,
                  likely);
    assert_true(changed <= likely + 4 * sqrt(likely) + 1);
    FREE(want, got);
    rig_close(&rig);
}
TEST(codes_of_deep_networks_in_tf32) { check_share(DTYPE_F32, true); }
TEST(codes_of_deep_networks_in_f16) { check_share(DTYPE_F16, false); }

int main(void) { return tests_run(NULL, NULL); }
