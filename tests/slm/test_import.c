/* Imports of text GPTs that other programs wrote: same weights, same logits as theirs in float64, and an error by name
 * for what the model cannot take. */
#include "tests/slm/import_rig.h"
#include "tests/tensor_list.h"

#define GOLDEN "tests/reference/golden/"

enum { LAYERS = 2, LINEARS = 4 * LAYERS, BIASES = 6 * LAYERS + 1, WIDTH = 16, TOKENS = 40 };
static const char *const heads[] = {"--heads", "2", NULL};
static const SlmConfig plain = {
    .vocabulary = TOKENS, .context = 12, .d_model = WIDTH, .n_layers = LAYERS, .n_heads = 2, .gelu = GELU_ERF};

static Imported must_import(const char *path, const char *const *options) {
    Imported i = import_file(path, options);
    if (!i.ok) fail_msg("%s: %s", path, i.error.text);
    return i;
}

/* ---- whole files ---- */

TEST(every_layout_gives_the_same_weights_and_logits) {
    Imported gpt2 = must_import(GOLDEN "slm_gpt2", NULL), nanogpt = must_import(GOLDEN "slm_nanogpt.pt", NULL),
             reference = must_import(GOLDEN "slm_reference.pt", heads);
    assert_int_equal(gpt2.report.transposed, LINEARS);
    assert_int_equal(gpt2.report.conventions.zero_biases, BIASES);
    assert_int_equal(gpt2.report.conventions.copies, 0);
    assert_int_equal(nanogpt.report.transposed, 0);
    assert_int_equal(nanogpt.report.conventions.copies, 1);
    assert_true(nanogpt.report.moments > 0);
    assert_int_equal(reference.report.loaded, nanogpt.model->params.count);
    assert_int_equal(reference.report.missing, 0);
    assert_same_imported(&gpt2, &nanogpt);
    assert_same_imported(&gpt2, &reference);
    assert_logits(&gpt2, "plain");
    assert_logits(&reference, "plain");
    import_close(&gpt2);
    import_close(&nanogpt);
    import_close(&reference);
}

/* attn.c_proj is square: its shape does not tell that it is stored transposed. */
TEST(square_matrices_are_transposed_with_the_others) {
    static const char name[] = "transformer.h.1.attn.c_proj.weight";
    Imported i = must_import(GOLDEN "slm_gpt2", NULL);
    TensorFile file = open_file(GOLDEN "slm_gpt2/model.safetensors");
    float *theirs = floats(&file, "", name);
    const float *ours = i.weights + i.model->params.items[params_find(&i.model->params, name)].offset;
    for (int r = 0; r < WIDTH; r++)
        for (int c = 0; c < WIDTH; c++) assert_true(ours[r * WIDTH + c] == theirs[c * WIDTH + r]);
    free(theirs);
    tensor_file_close(&file);
    import_close(&i);
}

/* Names without "transformer.", masks among the tensors, biases, and GPT-2's GELU. */
TEST(an_old_gpt2_with_biases_is_computed_as_theirs) {
    Imported i = must_import(GOLDEN "slm_biases", NULL);
    assert_true(i.config.biases && i.config.gelu == GELU_TANH);
    assert_int_equal(i.report.conventions.constants, 2 * LAYERS);
    assert_int_equal(i.report.conventions.zero_biases, 0);
    assert_logits(&i, "biased");
    import_close(&i);
}

TEST(a_model_with_biases_takes_biases_of_zeros) {
    static const char *const with[] = {"--biases", NULL};
    Imported i = must_import(GOLDEN "slm_gpt2", with);
    assert_true(i.config.biases);
    assert_int_equal(i.report.missing, 0);
    assert_logits(&i, "plain");
    import_close(&i);
}

TEST(a_shorter_context_takes_the_first_positions) {
    static const char *const shorter[] = {"--context", "5", NULL};
    Imported whole = must_import(GOLDEN "slm_nanogpt.pt", NULL), cut = must_import(GOLDEN "slm_nanogpt.pt", shorter);
    int at = params_find(&cut.model->params, "transformer.wpe.weight");
    assert_int_equal(cut.report.resized, 1);
    assert_memory_equal(cut.weights + cut.model->params.items[at].offset,
                        whole.weights + whole.model->params.items[at].offset, 5 * WIDTH * sizeof(float));
    import_close(&whole);
    import_close(&cut);
}

/* ---- what the file does not tell, and what contradicts it ---- */

static void adopt(void *words) {
    const char *const *w = words;
    Imported i = import_file(w[0], w + 1);
    if (!i.ok) die("%s", i.error.text);
}

TEST(what_a_file_does_not_tell_is_asked_for) {
    static const struct {
        int status;
        const char *words[6], *message;
    } cases[] = {
        {2, {GOLDEN "slm_reference.pt"}, "slm_reference.pt: the number of attention heads does not follow"},
        {2, {GOLDEN "slm_nanogpt.pt", "--heads", "4"}, "--heads 4 contradicts "},
        {2, {GOLDEN "slm_gpt2", "--d-model", "32"}, "--d-model 32 contradicts "},
        {2, {GOLDEN "slm_gpt2", "--vocabulary", "50"}, "--vocabulary 50 contradicts "},
        {2, {GOLDEN "slm_gpt2", "--gelu", "tanh"}, "--gelu \"tanh\" contradicts "},
        {2, {GOLDEN "slm_biases", "--biases=false"}, "--biases false contradicts "},
        {2, {GOLDEN "slm_reference.pt", "--heads", "3"}, "width 16 must be a multiple of the number of heads, 3"},
        {1, {GOLDEN "weights.safetensors"}, "it is no model that train_slm reads"},
    };
    char output[2048];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status = run_function(output, sizeof output, adopt, (void *)cases[i].words);
        if (status != cases[i].status) fail_msg("%s: %d\n%s", cases[i].words[0], status, output);
        assert_contains(output, cases[i].message);
    }
}

/* The bare weights of GPT-2's layout tell neither heads nor GELU; config.json decides, if its fields are known. */
TEST(the_configuration_of_gpt2_is_read_critically) {
    static const struct {
        const char *edit, *message;
    } cases[] = {
        {"rm -f config.json", "the number of attention heads does not follow from its tensors: give --heads"},
        {"sed -i s/.model_type.*,/\\\"model_type\\\":\\\"llama\\\",/ config.json", "model_type is llama; only gpt2"},
        {"sed -i s/\\\"gelu\\\"/\\\"relu\\\"/ config.json", "activation_function is relu; gelu, gelu_new and"},
        {"sed -i s/1e-05/1e-06/ config.json",
         "layer_norm_epsilon is 1e-06, and the model of this program computes with 1e-05"},
        {"sed -i s/.scale_attn_weights.*,/\\\"scale_attn_weights\\\":false,/ config.json", "scale_attn_weights is 0"},
    };
    char output[2048];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *folder = kept_folder(), *words[] = {folder, NULL};
        int copied = run_command(output, sizeof output, "cp " GOLDEN "slm_gpt2/*.* %s && cd %s && %s", folder, folder,
                                 cases[i].edit);
        if (copied) fail_msg("%s", output);
        assert_true(run_function(output, sizeof output, adopt, (void *)words) != 0);
        assert_contains(output, cases[i].message);
    }
}

/* ---- tensors that the model cannot take ---- */

/* Imports a file with edited tensors into the model without biases. */
static Error import_edited(const char *path, void (*edit)(TensorList *list)) {
    TensorList list = tensor_list_read(path);
    Error error = {""};
    edit(&list);
    Imported i = import_into(tensor_list_write(&list), &plain);
    if (i.ok)
        import_close(&i);
    else
        error = i.error;
    return error;
}

static const float numbers[5 * WIDTH * WIDTH] = {1};

static void same_head(TensorList *t) { tensor_list_copy(t, "transformer.wte.weight", "lm_head.weight"); }

static void other_head(TensorList *t) {
    same_head(t);
    tensor_list_at(t, "lm_head.weight")->data = numbers;
}

static void some_bias(TensorList *t) { tensor_list_at(t, "transformer.h.1.mlp.c_fc.bias")->data = numbers; }

static void another_module(TensorList *t) {
    tensor_list_copy(t, "transformer.ln_f.weight", "transformer.h.0.ln_cross_attn.weight");
}

static void missing_layer(TensorList *t) { tensor_list_remove(t, "transformer.h.1.ln_2.weight"); }

static void wide_mlp(TensorList *t) {
    TensorToWrite *fc = tensor_list_at(t, "transformer.h.0.mlp.c_fc.weight");
    fc->dims[1] = 5 * (int64_t)WIDTH;
    fc->data = numbers;
}

static void wide_square(TensorList *t) {
    TensorToWrite *projection = tensor_list_at(t, "transformer.h.0.attn.c_proj.weight");
    projection->dims[1] = 2 * (int64_t)WIDTH;
    projection->data = numbers;
}

TEST(tensors_that_do_not_fit_are_named) {
    static const struct {
        void (*edit)(TensorList *list);
        const char *message;
    } cases[] = {
        {same_head, ""},
        {other_head, "lm_head.weight differs from transformer.wte.weight, and in the model they are one tensor"},
        {some_bias, "transformer.h.1.mlp.c_fc.bias is not 0, and the model has no biases: give --biases"},
        {another_module, "transformer.h.0.ln_cross_attn.weight is not one of the model's tensors"},
        {missing_layer, "transformer.h.1.ln_2.weight, F32 [16] in the model, is not there"},
        {wide_mlp, "transformer.h.0.mlp.c_fc.weight is F32 [16, 80] there, F32 [64, 16] in the model"},
        {wide_square, "transformer.h.0.attn.c_proj.weight is F32 [16, 32] there, F32 [16, 16] in the model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = import_edited(GOLDEN "slm_gpt2/model.safetensors", cases[i].edit);
        if (*cases[i].message)
            assert_contains(error.text, cases[i].message);
        else
            assert_string_equal(error.text, "");
    }
}

TEST(another_width_is_refused_by_name) {
    SlmConfig wide = plain;
    wide.d_model = 32;
    Imported i = import_into(GOLDEN "slm_nanogpt.pt", &wide);
    assert_false(i.ok);
    assert_contains(i.error.text, "transformer.wte.weight is F32 [40, 16] there, F32 [40, 32] in the model");
    wide.d_model = WIDTH, wide.vocabulary = TOKENS + 1;
    i = import_into(GOLDEN "slm_gpt2", &wide);
    assert_false(i.ok);
    assert_contains(i.error.text, "transformer.wte.weight is F32 [40, 16] there, F32 [41, 16] in the model");
}
