/* The base of train_gpt: IndexTTS2's gpt.pth with all its tensors, and no weights of another version, which have most
 * of them. */
#include "commands/gpt/base.h"
#include "data/formats/safetensors.h"
#include "model/gpt.h"
#include "tests/train_rig.h"

enum { MOST = 512, NUMBERS = 4096 };

static const GptConfig config = {.d_model = 16,
                                 .n_layers = 1,
                                 .n_heads = 2,
                                 .text_vocabulary = 8,
                                 .mel_codes = 6,
                                 .max_text_tokens = 4,
                                 .max_mel_tokens = 5,
                                 .text_weight = 1};

/* ---- files ---- */

typedef struct {
    Model *model; /* holds the names of the trained tensors */
    TensorToWrite tensors[MOST];
    int n;
} Weights;

static const float numbers[NUMBERS] = {0.5f, 1};

/* name: freed by write_weights */
static void add(Weights *w, char *name) {
    assert_true(w->n < MOST);
    w->tensors[w->n++] = (TensorToWrite){.name = name, .dtype = "F32", .rank = 1, .dims = {3}, .data = numbers};
}

static void add_both(Weights *w, const char *module, const char *layer) {
    add(w, xformat("%s.%s.weight", module, layer));
    add(w, xformat("%s.%s.bias", module, layer));
}

static Weights trained(void) {
    Weights w = {.model = gpt_open(&config)};
    for (int i = 0; i < w.model->params.count; i++) {
        const Param *p = &w.model->params.items[i];
        assert_true(p->count <= NUMBERS);
        w.tensors[w.n] = (TensorToWrite){.name = p->name, .dtype = "F32", .rank = p->rank, .data = numbers};
        memcpy(w.tensors[w.n++].dims, p->dims, (size_t)p->rank * sizeof *p->dims);
    }
    return w;
}

static void add_conformer(Weights *w, const char *module, int blocks) {
    static const char *const plain[] = {"self_attn.pos_bias_u", "self_attn.pos_bias_v", "self_attn.linear_pos.weight"};
    static const char *const layers[] = {"self_attn.linear_q",
                                         "self_attn.linear_k",
                                         "self_attn.linear_v",
                                         "self_attn.linear_out",
                                         "feed_forward.w_1",
                                         "feed_forward.w_2",
                                         "conv_module.pointwise_conv1",
                                         "conv_module.depthwise_conv",
                                         "conv_module.norm",
                                         "conv_module.pointwise_conv2",
                                         "norm_ff",
                                         "norm_mha",
                                         "norm_conv",
                                         "norm_final"};
    add_both(w, module, "embed.conv.0");
    add_both(w, module, "embed.out.0");
    add_both(w, module, "after_norm");
    add(w, xformat("%s.embed.pos_enc.pe", module));
    for (int b = 0; b < blocks; b++) {
        char *block = kept_format("%s.encoders.%d", module, b);
        for (int i = 0; i < 3; i++) add(w, xformat("%s.%s", block, plain[i]));
        for (int i = 0; i < 14; i++) add_both(w, block, layers[i]);
    }
}

static void add_perceiver(Weights *w, const char *module) {
    static const char *const layers[] = {"0.to_q.weight", "0.to_kv.weight", "0.to_out.weight", "1.0.weight",
                                         "1.0.bias",      "1.2.weight",     "1.2.bias"};
    add(w, xformat("%s.latents", module));
    add(w, xformat("%s.norm.gamma", module));
    add_both(w, module, "proj_context");
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 7; i++) add(w, xformat("%s.layers.%d.%s", module, k, layers[i]));
}

static void remove_tensor(Weights *w, const char *name) {
    for (int i = 0; i < w->n; i++)
        if (!strcmp(w->tensors[i].name, name)) {
            w->tensors[i] = w->tensors[--w->n];
            return;
        }
    fail_msg("no tensor %s", name);
}

static const char *write_weights(Weights *w) {
    const char *path = kept_path(run_directory(), "gpt.safetensors");
    Error error;
    if (!safetensors_write(path, w->tensors, w->n, NULL, NULL, 0, &error)) fail_msg("%s", error.text);
    for (int i = 0; i < w->n; i++) /* those of the model belong to its table */
        if (params_find(&w->model->params, w->tensors[i].name) < 0) free((char *)(uintptr_t)w->tensors[i].name);
    w->model->close(w->model);
    return path;
}

/* Returns weights with the names of all tensors of IndexTTS2's gpt.pth, in a model of one block. */
static Weights indextts2(void) {
    Weights w = trained();
    add_conformer(&w, "conditioning_encoder", 6);
    add_perceiver(&w, "perceiver_encoder");
    add_conformer(&w, "emo_conditioning_encoder", 4);
    add_perceiver(&w, "emo_perceiver_encoder");
    add(&w, xstrdup("emo_layer.weight")), add(&w, xstrdup("emo_layer.bias"));
    add(&w, xstrdup("emovec_layer.weight")), add(&w, xstrdup("emovec_layer.bias"));
    return w;
}

/* ---- what is taken ---- */

/* Imports the file as a training of a larger vocabulary does. */
static ImportReport import(const char *path) {
    GptConfig larger = config;
    ImportReport report;
    CarriedTensors carried;
    Error error;
    larger.text_vocabulary = 12;
    Model *model = gpt_open(&larger);
    float *weights = xaligned((size_t)model->params.flat_count * sizeof *weights);
    const CheckpointBuffers into = {.table = &model->params, .weights = weights};
    if (!checkpoint_import(path, &into, &GPT_IMPORT, &carried, &report, &error)) fail_msg("%s", error.text);
    carried_close(&carried);
    model->close(model);
    free(weights);
    return report;
}

TEST(all_tensors_of_indextts2_are_taken) {
    Weights w = indextts2();
    int n = w.model->params.count;
    assert_int_equal(w.n - n, 364); /* 362 that are not trained, and 2 buffers */
    ImportReport r = import(write_weights(&w));
    assert_int_equal(r.loaded, n - 3);
    assert_int_equal(r.resized, 3);
    assert_int_equal(r.carried, 364);
    assert_int_equal(r.missing, 0);
    free(r.missing_names);
}

/* The masks of an old transformers, the copy of the GPT that generates, and its table of tokens. */
TEST(what_inference_adds_is_left_out) {
    static const char *const names[] = {"gpt.h.0.attn.bias", "gpt.h.0.attn.masked_bias",
                                        "inference_model.transformer.h.0.ln_1.weight", "gpt.wte.weight"};
    Weights w = indextts2();
    for (int i = 0; i < 4; i++) add(&w, xstrdup(names[i]));
    ImportReport r = import(write_weights(&w));
    assert_int_equal(r.carried, 364);
    assert_int_equal(r.skipped, 2);
    assert_int_equal(r.conventions.constants, 2);
    free(r.missing_names);
}

/* ---- what is refused ---- */

/* Fails unless a training refuses the file, and before it reads its data: the manifest is none. */
static void assert_training_refuses(Weights *w, const char *message) {
    const char *path = write_weights(w), *manifest = kept_path(run_directory(), "senseless.jsonl");
    write_text(manifest, "senseless\n");
    int status = run_command(fixture.output, sizeof fixture.output,
                             "%s -m %s --base-checkpoint %s --heads 2 --device cpu -o %s/out", program_at("train_gpt"),
                             manifest, path, run_directory());
    if (status != 1) fail_msg("status %d: %s", status, fixture.output);
    assert_contains(fixture.output, message);
    assert_null(strstr(fixture.output, "senseless.jsonl"));
}

TEST(indextts_2_5_is_refused_by_name) {
    Weights w = trained();
    add_conformer(&w, "emo_conditioning_encoder", 4);
    add_perceiver(&w, "emo_perceiver_encoder");
    add(&w, xstrdup("spk_emb_proj.weight")), add(&w, xstrdup("spk_emb_proj.bias"));
    add(&w, xstrdup("lang_embedding.weight"));
    add(&w, xstrdup("emo_layer.weight")), add(&w, xstrdup("emovec_layer.weight"));
    remove_tensor(&w, "speed_emb.weight");
    assert_training_refuses(&w,
                            "it is IndexTTS 2.5, another model: give the gpt.pth of IndexTTS2: 4 tensors do not fit: "
                            "spk_emb_proj.weight is not one of the model's tensors");
    assert_contains(fixture.output, "speed_emb.weight, F32 [2, 16] in the model, is not there");
}

TEST(indextts_1_5_is_refused_by_name) {
    Weights w = trained();
    add_conformer(&w, "conditioning_encoder", 6);
    add_perceiver(&w, "perceiver_encoder");
    remove_tensor(&w, "speed_emb.weight");
    assert_training_refuses(&w,
                            "it is IndexTTS 1 or 1.5, another model: give the gpt.pth of IndexTTS2: 1 tensor does not "
                            "fit: speed_emb.weight, F32 [2, 16] in the model, is not there");
}

TEST(other_weights_are_refused_by_their_tensors) {
    Weights w = indextts2();
    add(&w, xstrdup("duration_predictor.weight"));
    assert_training_refuses(&w,
                            "its tensors: 1 tensor does not fit: duration_predictor.weight is not one of the model's");
    w = indextts2();
    remove_tensor(&w, "gpt.h.0.ln_1.weight");
    assert_training_refuses(&w, "expected the tensors text_embedding.weight, mel_embedding.weight, ");
    w = indextts2();
    remove_tensor(&w, "gpt.h.0.ln_2.bias");
    assert_training_refuses(&w, "1 tensor does not fit: gpt.h.0.ln_2.bias, F32 [16] in the model, is not there");
}
