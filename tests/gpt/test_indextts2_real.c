/* The networks of IndexTTS2's features in their real shapes, against an independent computation in float64: one layer
 * of w2v-BERT, the codec, and the conditioning. Weights follow from a formula, as in
 * tests/reference/make_golden_indextts2.py: the number of a tensor is its place in the order in which the script draws.
 */
#include "kernels/cpu/device.h"
#include "tests/gpt/indextts2_drawn.h"
#include "tests/gpt/indextts2_rig.h"

/* ---- weights by formula ---- */

/* Names in the order of the script, ended by NULL. "*": weight, then bias. */
static const char *const w2v_start[] = {"feature_projection.layer_norm.*", "feature_projection.projection.*",
                                        "masked_spec_embed", NULL};
static const char *const w2v_layer[] = {"ffn1_layer_norm.*",
                                        "ffn1.intermediate_dense.*",
                                        "ffn1.output_dense.*",
                                        "ffn2_layer_norm.*",
                                        "ffn2.intermediate_dense.*",
                                        "ffn2.output_dense.*",
                                        "self_attn_layer_norm.*",
                                        "self_attn.linear_q.*",
                                        "self_attn.linear_k.*",
                                        "self_attn.linear_v.*",
                                        "self_attn.linear_out.*",
                                        "self_attn.distance_embedding.weight",
                                        "conv_module.layer_norm.*",
                                        "conv_module.pointwise_conv1.weight",
                                        "conv_module.depthwise_conv.weight",
                                        "conv_module.depthwise_layer_norm.*",
                                        "conv_module.pointwise_conv2.weight",
                                        "final_layer_norm.*",
                                        NULL};
static const char *const codec_start[] = {"encoder.0.embed.*", "encoder.0.norm.*", NULL};
static const char *const codec_block[] = {"dwconv.*", "norm.*", "pwconv1.*", "pwconv2.*", "gamma", NULL};
static const char *const codec_end[] = {"encoder.0.final_layer_norm.*",
                                        "encoder.1.*",
                                        "quantizer.quantizers.0.in_project.weight_g",
                                        "quantizer.quantizers.0.in_project.weight_v",
                                        "quantizer.quantizers.0.in_project.bias",
                                        "quantizer.quantizers.0.codebook.weight",
                                        NULL};
static const char *const conformer_start[] = {"embed.conv.0.*", "embed.out.0.*", "after_norm.*", NULL};
static const char *const conformer_block[] = {"norm_ff.*",
                                              "norm_mha.*",
                                              "norm_conv.*",
                                              "norm_final.*",
                                              "conv_module.norm.*",
                                              "self_attn.linear_q.*",
                                              "self_attn.linear_k.*",
                                              "self_attn.linear_v.*",
                                              "self_attn.linear_out.*",
                                              "self_attn.linear_pos.weight",
                                              "self_attn.pos_bias_u",
                                              "self_attn.pos_bias_v",
                                              "conv_module.pointwise_conv1.*",
                                              "conv_module.depthwise_conv.*",
                                              "conv_module.pointwise_conv2.*",
                                              "feed_forward.w_1.*",
                                              "feed_forward.w_2.*",
                                              NULL};
static const char *const perceiver_start[] = {"latents", "proj_context.*", NULL};
static const char *const perceiver_layer[] = {"0.to_q.weight", "0.to_kv.weight", "0.to_out.weight",
                                              "1.0.*",         "1.2.*",          NULL};
static const char *const perceiver_end[] = {"norm.gamma", NULL};
static const char *const voice_end[] = {"emovec_layer.*", "emo_layer.*", NULL};

typedef struct {
    const ParamTable *table;
    uint32_t first; /* number of the first tensor */
    int count;
    char names[512][80];
} Formula;

static void draw(Formula *f, const char *prefix, const char *const *parts) {
    for (; *parts; parts++) {
        int length = (int)strcspn(*parts, "*");
        bool both = (*parts)[length] == '*';
        for (int i = 0; i <= both; i++) {
            assert_true(f->count < 512);
            snprintf(f->names[f->count++], sizeof *f->names, "%s%.*s%s", prefix, length, *parts,
                     both ? i ? "bias" : "weight" : "");
        }
    }
}

static bool read_formula(void *context, const char *name, int64_t first, int64_t count, float *out, Error *error) {
    const Formula *f = context;
    const Param *p = NULL;
    int n = 0;
    for (int i = 0; i < f->table->count; i++)
        if (strcmp(f->table->items[i].name, name) == 0) p = &f->table->items[i];
    while (n < f->count && strcmp(f->names[n], name) != 0) n++;
    if (n == f->count || !p) return error_set(error, "no tensor '%s' is drawn", name);
    drawn_parameter(out, f->first + (uint32_t)n, p, first, count);
    return true;
}

static void read_network(Network *network, Device *device, Formula *f) {
    Error error;
    f->table = &network->table;
    network_allocate(network, device, DTYPE_F32);
    if (!network_read(network, &(WeightSource){read_formula, f}, &error)) fail_msg("%s", error.text);
}

/* ---- checks ---- */

enum { WIDTH = 1024 };

/* Compares rows of x, times `scale` (optional) by columns, with a golden tensor. */
static void check_rows(Device *device, const char *name, Tensor x, const float *scale, const int *wanted, int n) {
    TensorFile file = open_golden("indextts2_real");
    int64_t columns = x.dims[1];
    float *got = xmalloc((size_t)(n * columns) * sizeof *got);
    for (int i = 0; i < n; i++) {
        Tensor row = tensor_rows(x, wanted[i], 1);
        device->download(device, got + i * columns, row.data, tensor_bytes(row));
        for (int64_t j = 0; scale && j < columns; j++) got[i * columns + j] *= scale[j];
    }
    check_golden_numbers(&file, name, got, n * columns);
    free(got);
    tensor_file_close(&file);
}

/* Pushes rows of normal size, those of tensor number `number`. */
static Tensor push_input(Arena *arena, int64_t rows, uint32_t number) {
    Tensor x = arena_2d(arena, DTYPE_F32, rows, WIDTH);
    drawn_fill(x.data, number, 0, rows * WIDTH, 0, 1);
    return x;
}

/* 100 rows, of which the last is masked: distances beyond the table of distances on both sides. */
TEST(a_layer_of_w2v_bert_has_the_golden_values) {
    Device *device = cpu_device_open(0);
    Arena arena = arena_open(device, 64 << 20, "activations");
    Formula *f = xcalloc(1, sizeof *f);
    W2vConfig config = FEATURES_INDEXTTS2.w2v;
    W2v w2v;
    config.layers = 1;
    w2v_open(&w2v, &config);
    f->first = 1000;
    draw(f, "", w2v_start);
    draw(f, "encoder.layers.0.", w2v_layer);
    read_network(&w2v.network, device, f);
    ClipRows rows = clip_rows_open(device, &arena, &(ClipLength){100, 99}, 1);
    Tensor result = arena_2d(&arena, DTYPE_F32, 100, WIDTH);
    w2v_layers_forward(&w2v, &arena, result, push_input(&arena, 100, 1), &rows, NULL, NULL);
    check_rows(device, "w2v.layer0", result, NULL, (int[]){0, 1, 50, 72, 73, 98, 99}, 7);
    clip_rows_close(&rows);
    w2v_close(&w2v);
    free(f);
    arena_close(&arena);
    device_close(device);
}

TEST(the_whole_codec_has_the_golden_codes) {
    enum { ROWS = 90 };
    Device *device = cpu_device_open(0);
    Arena arena = arena_open(device, 64 << 20, "activations");
    Formula *f = xcalloc(1, sizeof *f);
    Codec codec;
    int all[ROWS];
    for (int i = 0; i < ROWS; i++) all[i] = i;
    codec_open(&codec, &FEATURES_INDEXTTS2.codec);
    f->first = 2000;
    draw(f, "", codec_start);
    for (int i = 0; i < FEATURES_INDEXTTS2.codec.blocks; i++)
        draw(f, kept_format("encoder.0.convnext.%d.", i), codec_block);
    draw(f, "", codec_end);
    read_network(&codec.network, device, f);
    ClipRows rows = clip_rows_open(device, &arena, &(ClipLength){ROWS, ROWS}, 1);
    CodecCodes codes = codec_forward(&codec, &arena, push_input(&arena, ROWS, 2), &rows);
    check_rows(device, "codec.z", codes.z, NULL, all, ROWS);
    TensorFile file = open_golden("indextts2_real");
    check_golden_codes(&file, "codec.", codes.codes.data, codes.margins.data, ROWS);
    tensor_file_close(&file);
    clip_rows_close(&rows);
    codec_close(&codec);
    free(f);
    arena_close(&arena);
    device_close(device);
}

static void draw_voice(Formula *f) {
    f->first = 3000;
    for (int e = 0; e < 2; e++) {
        const char *conformer = e ? "emo_conditioning_encoder" : "conditioning_encoder",
                   *perceiver = e ? "emo_perceiver_encoder" : "perceiver_encoder";
        int blocks = e ? FEATURES_INDEXTTS2.voice.emotion.blocks : FEATURES_INDEXTTS2.voice.condition.blocks;
        draw(f, kept_format("%s.", conformer), conformer_start);
        for (int i = 0; i < blocks; i++) draw(f, kept_format("%s.encoders.%d.", conformer, i), conformer_block);
        draw(f, kept_format("%s.", perceiver), perceiver_start);
        for (int i = 0; i < PERCEIVER_LAYERS; i++) draw(f, kept_format("%s.layers.%d.", perceiver, i), perceiver_layer);
        draw(f, kept_format("%s.", perceiver), perceiver_end);
    }
    draw(f, "", voice_end);
}

/* 41 rows, of which the last is masked: 20 rows at 25 Hz, and there, too, the last is masked. */
TEST(conditioning_and_emotion_have_the_golden_values) {
    Device *device = cpu_device_open(0);
    Arena arena = arena_open(device, 192 << 20, "activations");
    Formula *f = xcalloc(1, sizeof *f);
    Voice voice;
    voice_open(&voice, &FEATURES_INDEXTTS2.voice);
    draw_voice(f);
    read_network(&voice.network, device, f);
    voice_prepare(&voice, &arena);
    ClipLength length = {41, 40}, half_length = clip_length_subsampled(length);
    ClipRows rows = clip_rows_open(device, &arena, &length, 1), half = clip_rows_open(device, &arena, &half_length, 1);
    Tensor h = push_input(&arena, length.rows, 2);
    Tensor context = conformer_forward(&voice.condition, &arena, h, &rows, &half);
    VoiceResults results = voice_forward(&voice, &arena, h, &rows, &half);
    check_rows(device, "gpt.conformer", context, NULL, (int[]){0, 9, 18, 19}, 4);
    check_rows(device, "gpt.cond", results.condition, voice.scale, (int[]){0, 1, 16, 31}, 4);
    check_rows(device, "gpt.emo", results.emotion, NULL, (int[]){0}, 1);
    clip_rows_close(&rows);
    clip_rows_close(&half);
    voice_close(&voice);
    free(f);
    arena_close(&arena);
    device_close(device);
}

int main(void) { return tests_run(NULL, NULL); }
