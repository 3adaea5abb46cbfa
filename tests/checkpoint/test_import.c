/* Imports base checkpoints by rule: names, shapes, types, biases before norms. */
#include "data/formats/tensor_file_open.h"
#include "tests/checkpoint/rig.h"

#include <errno.h>
#include <math.h>
#include <unistd.h>

static Error error;

/* ---- a base checkpoint ---- */

static const float embedding_data[20] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
static const float norm_data[7] = {-1, -2, -3, -4, -5, -6, -7};
static const float attention_data[80] = {0.25, 0.5};
static const char *const resizable[] = {"text_embedding.weight"}, *const modules[] = {"pe", "counter",
                                                                                      "conditioning_encoder."};
static const char *const any[] = {""};

typedef struct {
    bool ok;
    ImportReport report;
    Error error;
    CarriedTensors others;
    ParamTable table;
    float *weights;
} Imported;

/* Imports into a table; every weight was 0.5 before. */
static Imported import_into(ParamTable into, const char *path, const ImportRules *rules) {
    Imported i = {.table = into};
    i.weights = xaligned((size_t)i.table.flat_count * 4);
    for (int64_t e = 0; e < i.table.flat_count; e++) i.weights[e] = 0.5f;
    i.ok = checkpoint_import(path, &(CheckpointBuffers){.table = &i.table, .weights = i.weights}, rules, &i.others,
                             &i.report, &i.error);
    return i;
}

/* The same into a table with `rows` rows of the embedding, from files that may have some modules besides. */
static Imported import(const char *path, int64_t rows) {
    static const OtherModel others[] = {{"lang_embedding.", NULL, "Another 2.5", "the file of ours"},
                                        {"conditioning_encoder.", "pe", "Another 1.5", "the file of ours"}};
    ParamTable into = {0};
    rig_make_table(&into, rows);
    const ImportRules rules = {
        .resizable = resizable, .n_resizable = 1, .extra = modules, .n_extra = 3, .others = others, .n_others = 2};
    return import_into(into, path, &rules);
}

static void forget(Imported *i) {
    carried_close(&i->others);
    params_free(&i->table);
    free(i->weights);
    free(i->report.missing_names);
}

static char *write_base(const TensorToWrite *tensors, int count) {
    char *path = kept_path(kept_folder(), "base.safetensors");
    if (!safetensors_write(path, tensors, count, NULL, NULL, 0, &error)) fail_msg("%s", error.text);
    return keep(path);
}

#define EMBEDDING(name_)                                                                                               \
    { .name = name_, .dtype = "F32", .rank = 2, .dims = {4, 5}, .data = embedding_data }
#define NORM(name_)                                                                                                    \
    { .name = name_, .dtype = "F32", .rank = 1, .dims = {7}, .data = norm_data }
#define ATTENTION                                                                                                      \
    { .name = "gpt.h.0.attn.c_attn.weight", .dtype = "F32", .rank = 2, .dims = {20, 4}, .data = attention_data }
#define LONGS(name_)                                                                                                   \
    { .name = name_, .dtype = "I64", .rank = 1, .dims = {3}, .data = rig_counter }

TEST(a_vocabulary_may_grow_and_shrink) {
    const TensorToWrite base[] = {EMBEDDING("text_embedding.weight"), NORM("gpt.ln_f.weight"), ATTENTION, LONGS("pe")};
    char *path = write_base(base, 4);
    for (int64_t rows = 3; rows <= 6; rows++) {
        Imported i = import(path, rows);
        if (!i.ok) fail_msg("%s", i.error.text);
        const Param *embedding = &i.table.items[0];
        for (int64_t e = 0; e < embedding->count; e++)
            assert_true(i.weights[embedding->offset + e] == (e < 20 ? embedding_data[e] : 0.5f));
        assert_memory_equal(i.weights + i.table.items[1].offset, norm_data, sizeof norm_data);
        assert_memory_equal(i.weights + i.table.items[2].offset, attention_data, sizeof attention_data);
        assert_int_equal(i.report.resized, rows != 4);
        assert_int_equal(i.report.loaded, 2 + (rows == 4));
        assert_int_equal(i.report.carried, 1);
        assert_int_equal(i.report.skipped, 0);
        assert_int_equal(i.report.missing, 0);
        assert_int_equal(i.report.base_rows, 4);
        assert_string_equal(i.others.tensors[0].name, "pe");
        assert_memory_equal(i.others.tensors[0].data, rig_counter, sizeof rig_counter);
        forget(&i);
    }
}

TEST(names_are_the_references_own) {
    const TensorToWrite base[] = {EMBEDDING("model.text_embedding.weight"),
                                  NORM("model.gpt.base_layer.ln_f.weight"),
                                  ATTENTION,
                                  LONGS("model.inference_model.x"),
                                  LONGS("model.gpt.wte.weight"),
                                  LONGS("model.conditioning_encoder.pe"),
                                  LONGS("optimizer.state.0.step")};
    TensorToWrite under_model[7];
    memcpy(under_model, base, sizeof base);
    under_model[2].name = "model._orig_mod.gpt.h.0.attn.c_attn.weight";
    Imported i = import(write_base(under_model, 7), 4);
    if (!i.ok) fail_msg("%s", i.error.text);
    assert_int_equal(i.report.loaded, 3);
    assert_int_equal(i.report.skipped, 3);
    assert_int_equal(i.others.n, 1);
    assert_string_equal(i.others.tensors[0].name, "conditioning_encoder.pe");
    assert_memory_equal(i.weights + i.table.items[1].offset, norm_data, sizeof norm_data);
    forget(&i);
}

static void assert_import_fails(const TensorToWrite *base, int count, const char *message) {
    Imported i = import(write_base(base, count), 4);
    if (i.ok) fail_msg("imported, and not refused with: %s", message);
    assert_contains(i.error.text, message);
    forget(&i);
}

TEST(a_base_of_another_model_is_refused) {
    const TensorToWrite shapes[] = {EMBEDDING("gpt.ln_f.weight"), NORM("text_embedding.weight"),
                                    EMBEDDING("gpt.h.0.attn.c_attn.weight")};
    assert_import_fails(
        shapes, 3,
        "3 tensors do not fit: gpt.ln_f.weight is F32 [4, 5] there, F32 [7] in the model; "
        "text_embedding.weight is F32 [7] there, F32 [4, 5] in the model; gpt.h.0.attn.c_attn.weight is "
        "F32 [4, 5] there, F32 [20, 4] in the model");
    const TensorToWrite none[] = {NORM("encoder.weight")};
    assert_import_fails(none, 1, "none of its 1 tensors is one of the model's (text_embedding.weight, ...)");
    TensorToWrite whole[] = {EMBEDDING("text_embedding.weight"), ATTENTION, LONGS("gpt.ln_f.weight")};
    whole[2].dims[0] = 7;
    static const int64_t seven[7];
    whole[2].data = seven;
    assert_import_fails(whole, 3, "tensor 'gpt.ln_f.weight' is I64; F32, F16, BF16 or F64 is needed");
    const TensorToWrite twice[] = {NORM("gpt.ln_f.weight"), NORM("gpt.base_layer.ln_f.weight")};
    assert_import_fails(twice, 2, "two tensors are named 'gpt.ln_f.weight'");
    Imported i = import("/nowhere.pth", 4);
    assert_false(i.ok);
    assert_contains(i.error.text, "cannot open: No such file");
    forget(&i);
}

/* A row that is not there would begin with random numbers, and a module that is not known would be lost. */
TEST(every_row_must_be_there_and_no_other_tensor) {
    TensorToWrite base[] = {EMBEDDING("text_embedding.weight"), NORM("gpt.ln_f.weight"), ATTENTION, LONGS("pe"),
                            LONGS("lang.weight")};
    assert_import_fails(base, 2,
                        "its tensors: 1 tensor does not fit: gpt.h.0.attn.c_attn.weight, F32 [20, 4] in the model, is "
                        "not there");
    assert_import_fails(base, 5, "its tensors: 1 tensor does not fit: lang.weight is not one of the model's tensors");
    base[4].name = "lang_embedding.weight";
    assert_import_fails(base, 5,
                        "it is Another 2.5, another model: give the file of ours: 1 tensor does not fit: lang_");
    base[3].name = "conditioning_encoder.x";
    assert_import_fails(base + 1, 3,
                        "it is Another 1.5, another model: give the file of ours: 1 tensor does not fit: "
                        "text_embedding.weight, F32 [4, 5] in the model, is not there");
    Imported i = import(write_base(base, 4), 4); /* all rows are there, so it is none of the other models */
    assert_true(i.ok && i.others.n == 1);
    forget(&i);
}

/* The numbers are not read: the file that is refused may be large. */
TEST(names_and_shapes_can_be_checked_alone) {
    TensorToWrite base[] = {EMBEDDING("text_embedding.weight"), NORM("gpt.ln_f.weight"), ATTENTION, LONGS("pe")};
    static const float infinite[7] = {INFINITY};
    const ImportRules rules = {.resizable = resizable, .n_resizable = 1, .extra = modules, .n_extra = 3};
    ParamTable table = {0};
    base[1].data = infinite;
    rig_make_table(&table, 9);
    if (!checkpoint_check_base(write_base(base, 4), &table, &rules, &error)) fail_msg("%s", error.text);
    base[2].dims[0] = 10, base[2].dims[1] = 8;
    assert_false(checkpoint_check_base(write_base(base, 4), &table, &rules, &error));
    assert_string_equal(error.text, "its tensors: 1 tensor does not fit: gpt.h.0.attn.c_attn.weight is F32 [10, 8] "
                                    "there, F32 [20, 4] in the model");
    params_free(&table);
}

/* The matrices of an adapter change the weights of another file, which are not those of the model alone. */
TEST(an_adapter_is_refused_with_the_remedy) {
    static const char merge[] = "model.merge_and_unload()";
    const TensorToWrite base[] = {EMBEDDING("text_embedding.weight"), NORM("gpt.base_layer.ln_f.weight"), ATTENTION,
                                  LONGS("gpt.ln_f.lora_A.default.weight")};
    assert_import_fails(base, 4, "gpt.ln_f.lora_A.default.weight is a tensor of a LoRA adapter, which is not applied");
    assert_import_fails(base, 4, merge);
    char *folder = kept_folder();
    TensorFile file;
    if (!safetensors_write(kept_path(folder, "adapter_model.safetensors"), base + 3, 1, NULL, NULL, 0, &error))
        fail_msg("%s", error.text);
    assert_false(checkpoint_open_base(folder, &file, &error));
    assert_contains(error.text, merge);
    if (!safetensors_write(kept_path(folder, "model.safetensors"), base, 3, NULL, NULL, 0, &error))
        fail_msg("%s", error.text);
    if (!checkpoint_open_base(folder, &file, &error)) fail_msg("%s", error.text);
    tensor_file_close(&file);
    write_text(kept_path(folder, "adapter_config.json"), "{\"peft_type\": \"LORA\"}");
    assert_false(checkpoint_open_base(folder, &file, &error));
    assert_contains(error.text, "it holds adapter_config.json, of a LoRA adapter that is not applied here: ");
    assert_contains(error.text, "if these weights have it in them, give their file itself");
    if (!checkpoint_open_base(kept_path(folder, "model.safetensors"), &file, &error)) fail_msg("%s", error.text);
    tensor_file_close(&file);
}

TEST(damaged_weights_in_a_folder_are_named) {
    static const char *const names[] = {"pytorch_model.bin", "model.safetensors", "model.safetensors.index.json"};
    for (int i = 0; i < 3; i++) {
        char *folder = kept_folder(), *expected = kept_format("its %s: ", names[i]);
        TensorFile file;
        write_text(kept_path(folder, names[i]), "no tensors");
        assert_false(checkpoint_open_base(folder, &file, &error));
        assert_int_equal(strncmp(error.text, expected, strlen(expected)), 0);
        assert_false(checkpoint_open_base(kept_path(folder, names[i]), &file, &error));
        assert_null(strstr(error.text, expected)); /* it has been named by who gave it */
    }
}

TEST(a_base_that_is_not_finite_is_refused_by_name) {
    static float values[20], infinite[7] = {-1, -2, -3, -4, -5, -6, -7};
    values[6] = NAN;
    infinite[2] = -INFINITY;
    TensorToWrite base[] = {EMBEDDING("text_embedding.weight"), NORM("gpt.ln_f.weight"), ATTENTION, NORM("pe")};
    base[3].data = infinite;
    Imported i = import(write_base(base, 4), 4);
    assert_true(i.ok && i.others.n == 1); /* not the model's */
    base[0].data = values;
    assert_import_fails(base, 4, "tensor 'text_embedding.weight': value 6 of 20 is nan, and weights must be");
    base[0].data = embedding_data;
    base[1].data = infinite;
    assert_import_fails(base, 4, "tensor 'gpt.ln_f.weight': value 2 of 7 is -inf, and weights must be finite");
    forget(&i);
}

TEST(a_pth_is_imported_from_under_model) {
    ParamTable t = {0};
    param_add(&t, INIT_ZERO, 0, true, 4, 3, "0.weight");
    param_add(&t, INIT_ZERO, 0, true, 6, 4, "transposed");
    float flat[64] = {0};
    TensorFile want;
    CarriedTensors others;
    ImportReport report;
    if (!checkpoint_import("tests/reference/golden/torch_protocol2.pth",
                           &(CheckpointBuffers){.table = &t, .weights = flat},
                           &(ImportRules){.extra = any, .n_extra = 1}, &others, &report, &error))
        fail_msg("%s", error.text);
    assert_true(tensor_file_open("tests/reference/golden/torch_expected.safetensors", &want, &error));
    const StoredTensor *weight = tensor_file_find(&want, "model.0.weight");
    assert_memory_equal(flat + t.items[0].offset, weight->data, weight->bytes);
    for (int row = 0; row < 6; row++)
        for (int column = 0; column < 4; column++)
            assert_true(flat[t.items[1].offset + 4 * row + column] == (float)(6 * column + row) / 7);
    assert_int_equal(report.loaded, 2);
    assert_true(others.n == report.carried && others.n > 15 && report.skipped > 10);
    for (int i = 0; i < others.n; i++) {
        char name[256];
        snprintf(name, sizeof name, "model.%s", others.tensors[i].name);
        const StoredTensor *expected = tensor_file_find(&want, name);
        assert_non_null(expected);
        assert_memory_equal(others.tensors[i].data, expected->data, expected->bytes);
    }
    carried_close(&others);
    tensor_file_close(&want);
    free(report.missing_names);
    params_free(&t);
}

/* torch_lightning.ckpt: the encoder was compiled, the decoder not; the optimizer's moments lie beside both. */
static ParamTable lightning_table(void) {
    ParamTable t = {0};
    param_add(&t, INIT_ZERO, 0, true, 4, 3, "encoder.embed.weight");
    param_add(&t, INIT_ZERO, 0, true, 4, 0, "encoder.embed.bias");
    param_add(&t, INIT_ZERO, 0, true, 2, 4, "decoder.weight");
    return t;
}

static const char lightning[] = "tests/reference/golden/torch_lightning.ckpt";

static void assert_imported(const Imported *i, const TensorFile *want, int param, const char *name) {
    const StoredTensor *tensor = tensor_file_find(want, name);
    assert_non_null(tensor);
    assert_memory_equal(i->weights + i->table.items[param].offset, tensor->data, tensor->bytes);
}

TEST(a_lightning_checkpoint_is_imported) {
    Imported i = import_into(lightning_table(), lightning, &(ImportRules){.extra = any, .n_extra = 1});
    TensorFile want;
    if (!i.ok) fail_msg("%s", i.error.text);
    assert_true(tensor_file_open("tests/reference/golden/torch_lightning.safetensors", &want, &error));
    assert_imported(&i, &want, 0, "encoder.embed.weight");
    assert_imported(&i, &want, 1, "encoder.embed.bias");
    assert_imported(&i, &want, 2, "decoder.weight");
    assert_int_equal(i.report.loaded, 3);
    assert_int_equal(i.report.missing, 0);
    assert_int_equal(i.others.n, 1); /* the decoder's bias, which this model has not */
    assert_string_equal(i.others.tensors[0].name, "decoder.bias");
    assert_true(i.report.skipped > 3); /* what the optimizer remembers */
    tensor_file_close(&want);
    forget(&i);
}

/* The prefixes of wrapped modules are removed from names in one pass, however often they occur. */
TEST(long_names_are_read_at_once) {
    static const char *const parts[] = {"_orig_mod.", "module.", "x.base_layer."};
    static const float matrix[8] = {0};
    enum { MOST = 10000000 };
    char *name = xmalloc(MOST + 100);
    alarm(60); /* rather than wait for hours */
    for (int p = 0; p < 3; p++) {
        size_t n = 0;
        while (n < MOST) n += (size_t)sprintf(name + n, "%s", parts[p]);
        sprintf(name + n, "encoder.embed.weight");
        const TensorToWrite base[] = {
            {.name = name, .dtype = "F32", .rank = 2, .dims = {4, 3}, .data = embedding_data},
            {.name = "encoder.embed.bias", .dtype = "F32", .rank = 1, .dims = {4}, .data = embedding_data},
            {.name = "decoder.weight", .dtype = "F32", .rank = 2, .dims = {2, 4}, .data = matrix}};
        Imported i = import_into(lightning_table(), write_base(base, 3), &(ImportRules){0});
        assert_int_equal(i.ok, p < 2);
        if (i.ok)
            assert_int_equal(i.report.loaded, 3);
        else
            assert_contains(i.error.text, "encoder.embed.weight, F32 [4, 3] in the model, is not there");
        assert_true(p == 2 || checkpoint_name_is(name, "encoder.embed.weight"));
        forget(&i);
    }
    alarm(0);
    assert_true(checkpoint_name_is("state_dict._orig_mod.a._orig_mod.b", "a.b"));
    assert_true(checkpoint_name_is("model_state_dict.module.a.b", "a.b") && checkpoint_name_is("a.b", "a.b"));
    assert_false(checkpoint_name_is("a.b.c", "a.b") || checkpoint_name_is("a", "a.b") || checkpoint_name_is("b", "a"));
    free(name);
}

TEST(an_import_takes_only_what_it_is_told_to) {
    static const char *const encoder[] = {"encoder."};
    const ImportRules rules = {.only = encoder, .n_only = 1, .extra = any, .n_extra = 1};
    Imported i = import_into(lightning_table(), lightning, &rules);
    if (!i.ok) fail_msg("%s", i.error.text);
    assert_int_equal(i.report.loaded, 2);
    assert_int_equal(i.report.unwanted, 2);
    assert_int_equal(i.report.missing, 1);
    assert_string_equal(i.report.missing_names, "decoder.weight");
    assert_int_equal(i.others.n, 0);
    for (int64_t e = 0; e < 8; e++) assert_true(i.weights[i.table.items[2].offset + e] == 0.5f);
    forget(&i);
    ParamTable other = {0};
    param_add(&other, INIT_ZERO, 0, true, 4, 3, "encoder.embed.weight");
    param_add(&other, INIT_ZERO, 0, true, 5, 0, "encoder.embed.bias");
    param_add(&other, INIT_ZERO, 0, true, 2, 2, "encoder.head");
    param_add(&other, INIT_ZERO, 0, true, 2, 2, "head");
    i = import_into(other, lightning, &rules);
    assert_false(i.ok);
    assert_string_equal(i.error.text,
                        "its tensors: 2 tensors do not fit: encoder.embed.bias is F32 [4] there, F32 [5] in the model; "
                        "encoder.head, F32 [2, 2] in the model, is not there");
    forget(&i);
}

/* A convolution without a bias, and its norm. */
static ParamTable norm_table(void) {
    ParamTable t = {0};
    param_add(&t, INIT_ZERO, 0, true, 2, 3, "conv.weight");
    param_add_norm(&t, 2, "norm");
    param_add_buffer(&t, NULL, 2, 0, "norm.running_mean");
    t.items[t.count - 1].moves = true;
    return t;
}

static const AbsorbedBias conv_bias = {"conv", "norm"};
static const double biases[] = {0.125, -4};

/* The names in a checkpoint of a parallel, compiled model, which holds the moments of its optimizer, too. */
#define LAYER "model_state_dict.module._orig_mod."
#define VECTOR(name_, dtype_, data_)                                                                                   \
    { .name = name_, .dtype = dtype_, .rank = 1, .dims = {2}, .data = data_ }

TEST(a_bias_before_a_norm_goes_into_its_running_mean) {
    const TensorToWrite base[] = {
        {.name = LAYER "conv.weight", .dtype = "F32", .rank = 2, .dims = {2, 3}, .data = embedding_data},
        VECTOR(LAYER "conv.bias", "F64", biases),
        VECTOR(LAYER "norm.weight", "F32", norm_data),
        VECTOR(LAYER "norm.bias", "F32", norm_data + 2),
        VECTOR(LAYER "norm.running_mean", "F32", embedding_data),
        {.name = LAYER "norm.num_batches_tracked", .dtype = "I64", .data = rig_counter},
        {.name = LAYER "other.num_batches_tracked", .dtype = "I64", .data = rig_counter},
        VECTOR("optimizer_state_dict.state.0.exp_avg", "F32", norm_data),
        VECTOR("optimizer_state_dict.state.0.exp_avg_sq", "F32", norm_data),
        VECTOR("scheduler.x", "F32", norm_data)};
    const ImportRules rules = {.extra = any, .n_extra = 1, .absorbed = &conv_bias, .n_absorbed = 1};
    Imported i = import_into(norm_table(), write_base(base, 10), &rules);
    if (!i.ok) fail_msg("%s", i.error.text);
    assert_int_equal(i.report.loaded, 4);
    assert_int_equal(i.report.absorbed, 1);
    assert_int_equal(i.report.counters, 1);
    assert_int_equal(i.report.moments, 2);
    assert_int_equal(i.report.skipped, 3);
    assert_int_equal(i.report.missing, 0);
    assert_int_equal(i.others.n, 1); /* of a norm that this model has not */
    assert_string_equal(i.others.tensors[0].name, "other.num_batches_tracked");
    const float *mean = i.weights + i.table.items[3].offset;
    assert_true(mean[0] == 1 - 0.125f && mean[1] == 2 + 4);
    forget(&i);

    i = import_into(norm_table(), write_base(base, 10), &(ImportRules){.extra = any, .n_extra = 1});
    assert_true(i.ok && i.others.n == 2 && i.report.absorbed == 0); /* it is not expected: carried along */
    forget(&i);
    i = import_into(norm_table(), write_base(base, 10), &(ImportRules){0});
    assert_false(i.ok);
    assert_contains(i.error.text, "2 tensors do not fit: conv.bias is not one of the model's tensors; "
                                  "other.num_batches_tracked is not one of the model's tensors");
    forget(&i);
}

TEST(a_bias_that_no_norm_can_take_is_refused) {
    TensorToWrite base[] = {VECTOR("norm.running_mean", "F32", norm_data),
                            VECTOR("norm.weight", "F32", norm_data),
                            VECTOR("norm.bias", "F32", norm_data),
                            {.name = "conv.weight", .dtype = "F32", .rank = 2, .dims = {2, 3}, .data = embedding_data},
                            VECTOR("conv.bias", "F32", norm_data)};
    base[4].dims[0] = 3;
    Imported i =
        import_into(norm_table(), write_base(base, 5), &(ImportRules){.absorbed = &conv_bias, .n_absorbed = 1});
    assert_false(i.ok);
    assert_contains(i.error.text, "1 tensor does not fit: conv.bias is F32 [3] there, F32 [2] in the model");
    forget(&i);
    base[4] = (TensorToWrite)LONGS("conv.bias");
    base[4].dims[0] = 2;
    i = import_into(norm_table(), write_base(base, 5), &(ImportRules){.absorbed = &conv_bias, .n_absorbed = 1});
    assert_false(i.ok);
    assert_contains(i.error.text, "tensor 'conv.bias' is I64");
    forget(&i);
}

TEST(a_checkpoint_directory_stands_for_its_weights) {
    char *directory = kept_folder();
    Checkpointer *c = rig_checkpointer(directory, 3);
    rig_save_good(c, 1, 1, false);
    checkpointer_close(c);
    Imported i = import(kept_path(directory, "last"), 3);
    if (!i.ok) fail_msg("%s", i.error.text);
    assert_int_equal(i.report.loaded, i.table.count);
    TensorFile want;
    assert_true(tensor_file_open(keep(path_through(directory, "last/model.safetensors")), &want, &error));
    for (int p = 0; p < i.table.count; p++) assert_imported(&i, &want, p, i.table.items[p].name);
    tensor_file_close(&want);
    forget(&i);
}

/* In the order of transformers: safetensors before torch, and a whole file before shards. */
TEST(a_folder_of_shards_stands_for_its_weights) {
    static const char index[] =
        "{\"weight_map\": {\"text_embedding.weight\": \"1.st\", \"gpt.ln_f.weight\": \"2.st\"}}";
    const TensorToWrite base[] = {EMBEDDING("text_embedding.weight"), NORM("gpt.ln_f.weight"), ATTENTION};
    char *folder = kept_folder();
    if (!safetensors_write(kept_path(folder, "1.st"), base, 1, NULL, NULL, 0, &error) ||
        !safetensors_write(kept_path(folder, "2.st"), base + 1, 2, NULL, NULL, 0, &error))
        fail_msg("%s", error.text);
    static const char *const names[] = {"pytorch_model.bin.index.json", "model.safetensors.index.json"};
    for (int i = 0; i < 2; i++) {
        char *path = kept_path(folder, names[i]);
        write_text(path, "%s", index);
        assert_string_equal(keep(checkpoint_weights(folder)), path);
        Imported from = import(folder, 4);
        if (!from.ok) fail_msg("%s", from.error.text);
        assert_int_equal(from.report.loaded, 3);
        assert_memory_equal(from.weights + from.table.items[2].offset, attention_data, sizeof attention_data);
        forget(&from);
        write_text(kept_path(folder, i ? "model.safetensors" : "pytorch_model.bin"), "a whole file");
        assert_string_equal(keep(checkpoint_weights(folder)),
                            kept_path(folder, i ? "model.safetensors" : "pytorch_model.bin"));
    }
}

/* ---- conventions of other programs ---- */

static const char *const matrices[] = {".mix.weight", ".out.weight", NULL}, *const masks[] = {".mask", NULL};
static const char *const tasks[] = {"task.", "net.pool.", NULL}, *const rootless[] = {"task.", NULL};
static const NamePair copies[] = {{"head.weight", "net.table.weight"}, {NULL, NULL}},
                      old_names[] = {{".gamma", ".weight"}, {".beta", ".bias"}, {NULL, NULL}};
static const ImportConventions conventions = {.root = "net.",
                                              .rootless = rootless,
                                              .ends = old_names,
                                              .transposed = matrices,
                                              .constants = masks,
                                              .ignored = tasks,
                                              .copies = copies,
                                              .biases = "with-biases"};
static const ImportRules with_conventions = {.conventions = &conventions};

static ParamTable convention_table(void) {
    ParamTable t = {0};
    param_add(&t, INIT_ZERO, 0, true, 4, 5, "net.table.weight");
    param_add(&t, INIT_ZERO, 0, true, 2, 2, "net.mix.weight");
    param_add(&t, INIT_ZERO, 0, true, 3, 2, "net.out.weight");
    return t;
}

#define MATRIX(name_, rows_, columns_, data_)                                                                          \
    { .name = name_, .dtype = "F32", .rank = 2, .dims = {rows_, columns_}, .data = data_ }

/* The square matrix follows the one that is not square, even if that one comes later. */
TEST(a_file_is_transposed_as_its_first_matrix_that_is_not_square) {
    static const float zeros[3] = {0, -0.0f, 0};
    const TensorToWrite base[] = {EMBEDDING("table.weight"),
                                  MATRIX("mix.weight", 2, 2, embedding_data),
                                  VECTOR("mix.bias", "F32", zeros),
                                  MATRIX("out.weight", 2, 3, embedding_data),
                                  NORM("a.mask"),
                                  EMBEDDING("head.weight")};
    TensorToWrite plain[6];
    memcpy(plain, base, sizeof plain);
    static const char *const names[] = {"net.table.weight", "net.mix.weight", "net.mix.bias",
                                        "net.out.weight",   "net.a.mask",     "head.weight"};
    for (int k = 0; k < 6; k++) plain[k].name = names[k];
    plain[3].dims[0] = 3, plain[3].dims[1] = 2;
    for (int transposed = 0; transposed < 2; transposed++) {
        Imported i =
            import_into(convention_table(), write_base(transposed ? base : plain, 5 + !transposed), &with_conventions);
        if (!i.ok) fail_msg("%s", i.error.text);
        const float *mix = i.weights + i.table.items[1].offset, *out = i.weights + i.table.items[2].offset;
        assert_int_equal(i.report.loaded, 3);
        assert_int_equal(i.report.transposed, 2 * transposed);
        assert_int_equal(i.report.conventions.zero_biases, 1);
        assert_int_equal(i.report.conventions.constants, 1);
        assert_int_equal(i.report.conventions.copies, !transposed);
        assert_int_equal(i.others.n, 0);
        for (int r = 0; r < 2; r++)
            for (int c = 0; c < 2; c++)
                assert_true(mix[2 * r + c] == embedding_data[transposed ? 2 * c + r : 2 * r + c]);
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 2; c++)
                assert_true(out[2 * r + c] == embedding_data[transposed ? 3 * c + r : 2 * r + c]);
        forget(&i);
    }
}

TEST(what_no_convention_explains_is_refused_by_name) {
    static const struct {
        TensorToWrite odd;
        const char *message;
    } cases[] = {
        {VECTOR("net.out.bias", "F32", norm_data),
         "net.out.bias is not 0, and the model has no biases: give --with-biases"},
        {EMBEDDING("net.other.weight"),
         "its tensors: 1 tensor does not fit: net.other.weight is not one of the model's tensors"},
        {MATRIX("head.weight", 5, 4, embedding_data), "head.weight differs from net.table.weight, and in the model"},
        {MATRIX("net.mix.weight", 3, 2, embedding_data), "net.mix.weight is F32 [3, 2] there, F32 [2, 2] in the model"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const TensorToWrite base[] = {EMBEDDING("net.table.weight"), MATRIX("net.out.weight", 3, 2, embedding_data),
                                      cases[k].odd, MATRIX("net.mix.weight", 2, 2, embedding_data)};
        int n = strcmp(cases[k].odd.name, "net.mix.weight") ? 4 : 3;
        Imported i = import_into(convention_table(), write_base(base, n), &with_conventions);
        assert_false(i.ok);
        assert_contains(i.error.text, cases[k].message);
        forget(&i);
    }
}

/* A classifier on top of a net, read from files of the net with the heads of other tasks. */
TEST(a_file_may_lack_a_whole_head_and_have_others) {
    static const char *const roots[] = {"net.", "top."};
    const ImportRules rules = {
        .only = roots, .n_only = 2, .optional = roots + 1, .n_optional = 1, .conventions = &conventions};
    const TensorToWrite base[] = {EMBEDDING("table.gamma"), VECTOR("task.decoder.bias", "F32", norm_data),
                                  EMBEDDING("task.decoder.weight"), EMBEDDING("pool.weight"),
                                  VECTOR("net.top.bias", "F32", norm_data)};
    for (int some = 0; some < 2; some++) {
        ParamTable table = {0};
        TensorToWrite tensors[5];
        memcpy(tensors, base, sizeof base);
        if (some)
            tensors[0].name = "net.table.weight", tensors[3].name = "net.pool.weight", tensors[4].name = "top.beta";
        param_add(&table, INIT_ZERO, 0, true, 4, 5, "net.table.weight");
        param_add(&table, INIT_ZERO, 0, true, 2, 2, "top.weight");
        param_add(&table, INIT_ZERO, 0, true, 2, 0, "top.bias");
        Imported i = import_into(table, write_base(tensors, 4 + some), &rules);
        assert_int_equal(i.ok, !some);
        if (some) {
            assert_contains(i.error.text, "1 tensor does not fit: top.weight, F32 [2, 2] in the model, is not there");
        } else {
            assert_int_equal(i.report.loaded, 1);
            assert_int_equal(i.report.missing, 2);
            assert_int_equal(i.report.conventions.ignored[0], 2);
            assert_int_equal(i.report.conventions.ignored[1], 1);
            assert_memory_equal(i.weights + i.table.items[0].offset, embedding_data, 20 * sizeof(float));
        }
        forget(&i);
    }
}

int main(void) { return tests_run(rig_set_up, NULL); }
