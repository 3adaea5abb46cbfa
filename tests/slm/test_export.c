/* train_slm export: what it writes is what transformers and nanoGPT write of the same model, an import of it has the
 * same weights bit by bit, and nothing wrong is written. tests/reference/check_slm_export.py loads such folders in
 * transformers and torch. */
#include "tests/slm/import_rig.h"
#include "tests/train_rig.h"

#define GOLDEN "tests/reference/golden/"

enum { WIDTH = 16, TOKENS = 40, ROWS = 200, MOST = 64 };

static const char *root; /* the folder of all outputs */

static int export(const char *options) {
    return run_command(fixture.output, sizeof fixture.output,
                       "golden=$PWD/tests/reference/golden; here=$PWD; cd %s && $here/%s %s", root,
                       program_at("train_slm export"), options);
}

static void must_export(const char *options) {
    int status = export(options);
    if (status) fail_msg("exit status %d:\n%s", status, fixture.output);
}

/* Returns the path of a file of an export; valid until the program ends. */
static const char *path_of(const char *name) { return kept_path(root, name); }

static void assert_same_tensors(const char *a, const char *b) {
    TensorFile x = open_file(a), y = open_file(b);
    assert_int_equal(x.n_tensors, y.n_tensors);
    for (int i = 0; i < x.n_tensors; i++) {
        const StoredTensor *p = &x.tensors[i], *q = find(&y, "", p->name);
        assert_string_equal(p->dtype, q->dtype);
        assert_int_equal(p->rank, q->rank);
        assert_memory_equal(p->dims, q->dims, (size_t)p->rank * sizeof *p->dims);
        if (memcmp(p->data, q->data, p->bytes)) fail_msg("%s differs", p->name);
    }
    tensor_file_close(&x);
    tensor_file_close(&y);
}

static void assert_text(const char *name, const char *want) { assert_string_equal(kept_text(path_of(name)), want); }

/* ---- Hugging Face ---- */

/* The square attn.c_proj is transposed with the others, and the biases of zeros are there. */
TEST(gpt2s_layout_is_as_transformers_saves_it) {
    must_export("--checkpoint $golden/slm_nanogpt.pt --tokenizer $golden/slm_gpt2 --output hf");
    assert_contains(fixture.output, "7056 parameters in 15 tensors, 0 of them transposed there");
    assert_same_tensors(GOLDEN "slm_gpt2/model.safetensors", path_of("hf/model.safetensors"));
    TensorFile file = open_file(path_of("hf/model.safetensors"));
    assert_string_equal(tensor_file_metadata(&file, "format"), "pt");
    tensor_file_close(&file);
    must_run("ls -A %s | tr '\\n' ' '", path_of("hf"));
    assert_string_equal(fixture.output, "config.json generation_config.json model.safetensors special_tokens_map.json "
                                        "tokenizer.json tokenizer_config.json ");
    assert_text(
        "hf/config.json",
        "{\n  \"architectures\": [\n    \"GPT2LMHeadModel\"\n  ],\n  \"model_type\": \"gpt2\",\n"
        "  \"activation_function\": \"gelu\",\n  \"layer_norm_epsilon\": 1e-5,\n"
        "  \"tie_word_embeddings\": true,\n  \"scale_attn_weights\": true,\n  \"n_positions\": 12,\n  \"n_ctx\": 12,\n"
        "  \"n_embd\": 16,\n  \"n_layer\": 2,\n  \"n_head\": 2,\n  \"vocab_size\": 40,\n"
        "  \"attn_pdrop\": 0.0,\n  \"embd_pdrop\": 0.0,\n  \"resid_pdrop\": 0.0,\n"
        "  \"initializer_range\": 0.02,\n  \"dtype\": \"float32\",\n  \"bos_token_id\": 1,\n"
        "  \"eos_token_id\": 0,\n  \"pad_token_id\": 2\n}\n");
    assert_text("hf/generation_config.json",
                "{\n  \"bos_token_id\": 1,\n  \"eos_token_id\": 0,\n  \"pad_token_id\": 2\n}\n");
    assert_text("hf/special_tokens_map.json",
                "{\n  \"bos_token\": \"<|startoftext|>\",\n  \"eos_token\": \"<|endoftext|>\",\n"
                "  \"pad_token\": \"<|pad|>\",\n  \"unk_token\": \"<|unk|>\"\n}\n");
    assert_text(
        "hf/tokenizer_config.json",
        "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"model_max_length\": 12,\n"
        "  \"clean_up_tokenization_spaces\": false,\n  \"bos_token\": \"<|startoftext|>\",\n"
        "  \"eos_token\": \"<|endoftext|>\",\n  \"pad_token\": \"<|pad|>\",\n  \"unk_token\": \"<|unk|>\"\n}\n");
    must_run("cmp " GOLDEN "slm_gpt2/tokenizer.json %s", path_of("hf/tokenizer.json"));
}

TEST(an_import_of_an_export_has_the_same_weights) {
    static const struct {
        const char *file, *name, *logits;
    } models[] = {{"slm_gpt2", "again", "plain"}, {"slm_biases", "biased", "biased"}};
    for (int k = 0; k < 2; k++) {
        char *first = kept_format("%s1", models[k].name), *second = kept_format("%s2", models[k].name),
             *golden = kept_format(GOLDEN "%s", models[k].file);
        must_export(kept_format("--checkpoint $golden/%s --tokenizer $golden/slm_gpt2/tokenizer.json --output %s",
                                models[k].file, first));
        must_export(kept_format("--checkpoint %s --output %s", first, second));
        Imported before = import_file(golden, NULL), after = import_file(path_of(first), NULL);
        assert_true(before.ok && after.ok);
        assert_same_imported(&before, &after);
        assert_logits(&after, models[k].logits);
        must_run("diff -r %s %s", path_of(first), path_of(second));
        import_close(&before);
        import_close(&after);
    }
}

/* ---- nanoGPT ---- */

TEST(nanogpts_checkpoint_has_its_names_and_arguments) {
    must_export("--checkpoint $golden/slm_gpt2 --format nanogpt --output out");
    TensorFile file = open_file(path_of("out/ckpt.pt"));
    static const struct {
        const char *name, *value;
    } arguments[] = {{"n_layer", "2"},     {"n_head", "2"},      {"n_embd", "16"},
                     {"block_size", "12"}, {"vocab_size", "40"}, {"dropout", NULL} /* a float */};
    for (int i = 0; i < 6; i++) {
        char *name = kept_format("model_args.%s", arguments[i].name);
        const char *value = tensor_file_metadata(&file, name);
        if (arguments[i].value)
            assert_string_equal(value, arguments[i].value);
        else
            assert_null(value);
    }
    assert_string_equal(tensor_file_metadata(&file, "iter_num"), "0");
    assert_int_equal(file.n_tensors, 16);
    assert_ptr_equal(find(&file, "", "model.lm_head.weight")->data,
                     find(&file, "", "model.transformer.wte.weight")->data);
    tensor_file_close(&file);
    Imported before = import_file(GOLDEN "slm_nanogpt.pt", NULL), after = import_file(path_of("out/ckpt.pt"), NULL);
    assert_true(before.ok && after.ok);
    assert_same_imported(&before, &after);
    assert_logits(&after, "plain");
    import_close(&before);
    import_close(&after);
}

/* ---- a run of train_slm ---- */

/* The tokenizer comes from the folder of the run, dropout from its options; a new training takes sizes and weights. */
TEST(a_run_is_exported_with_its_best_weights_and_trained_on) {
    must_run("cd %s && seq 1 200 | awk '{print \"line \" $1 * 37 %% 101 \" says \" $1 * $1 %% 89}' >text.txt", root);
    must_run("here=$PWD; cd %s && $here/%s --input text.txt --split-at line --val-ratio 0.2 --vocabulary 300 "
             "--output prepared",
             root, program_at("train_slm prepare"));
    must_run(
        "here=$PWD; cd %s && $here/%s --data prepared --layers 2 --d-model 32 --heads 4 --context 16 -b 8 --biases "
        "--gelu tanh --dropout 0.25 --max-steps 4 --val-interval 2 --threads 1 -o run",
        root, program_at("train_slm"));
    must_export("--checkpoint run --output exported");
    assert_contains(fixture.output, "the best weights of the run");
    must_run("cmp %s %s && grep -c -e '\"activation_function\": \"gelu_new\"' -e '\"resid_pdrop\": 0.25' "
             "-e '\"bos_token_id\": 0' -e '\"n_head\": 4' %s",
             path_of("run/tokenizer.json"), path_of("exported/tokenizer.json"), path_of("exported/config.json"));
    assert_string_equal(fixture.output, "4\n");
    Imported own = import_file(path_of("run/best"), NULL), theirs = import_file(path_of("exported"), NULL);
    assert_true(own.ok && theirs.ok && theirs.config.n_heads == 4 && theirs.config.biases);
    assert_same_imported(&own, &theirs);
    import_close(&own);
    import_close(&theirs);
    must_run("here=$PWD; cd %s && $here/%s --data prepared --base-checkpoint exported -b 8 --max-steps 1 --threads 1 "
             "-o again",
             root, program_at("train_slm"));
    assert_contains(fixture.output,
                    "[Base] exported: 28 tensors loaded, 0 resized, 0 carried along untouched, 8 transposed");
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "here=$PWD; cd %s && $here/%s --data prepared "
                                 "--base-checkpoint $here/" GOLDEN "slm_gpt2 --max-steps 1 -o small",
                                 root, program_at("train_slm")),
                     2);
    assert_contains(fixture.output, "--vocabulary 40: the data have ids below 300");
}

/* ---- what is refused ---- */

/* Writes the plain model with a table of ROWS tokens. */
static void write_large_vocabulary(const char *name) {
    static float table[ROWS * WIDTH];
    TensorFile file = open_file(GOLDEN "slm_gpt2/model.safetensors");
    TensorToWrite tensors[MOST];
    Error error;
    for (int i = 0; i < file.n_tensors; i++) {
        const StoredTensor *t = &file.tensors[i];
        bool words = !strcmp(t->name, "transformer.wte.weight");
        tensors[i] =
            (TensorToWrite){.name = t->name, .dtype = t->dtype, .rank = t->rank, .data = words ? table : t->data};
        memcpy(tensors[i].dims, t->dims, sizeof t->dims);
        if (words) tensors[i].dims[0] = ROWS;
    }
    if (!safetensors_write(path_of(name), tensors, file.n_tensors, NULL, NULL, 0, &error)) fail_msg("%s", error.text);
    tensor_file_close(&file);
}

TEST(exports_that_would_be_wrong_are_refused) {
    static const Refusal refusals[] = {
        {1, "--checkpoint $golden/slm_gpt2 --output taken", "--output taken: it holds theirs already; choose a new"},
        {1, "--checkpoint nowhere --output x", "--checkpoint nowhere: No such file"},
        {1, "--checkpoint taken --output x", "--checkpoint taken: it holds neither a run nor a checkpoint"},
        {1, "--checkpoint $golden/weights.safetensors --output x", "it is no model that train_slm reads"},
        {2, "--checkpoint $golden/slm_reference.pt --output x", "does not follow from its tensors: give --heads"},
        {2, "--checkpoint $golden/slm_gpt2 --heads 4 --output x", "--heads 4 contradicts "},
        {2, "--checkpoint large.safetensors --heads 2 --output x", "the kind of GELU does not follow"},
        {2, "--checkpoint $golden/slm_nanogpt.pt --output x", "which tokenizer it was trained with: give --tokenizer"},
        {1, "--checkpoint $golden/slm_nanogpt.pt --tokenizer nowhere --output x", "--tokenizer nowhere: "},
        {1, "--checkpoint $golden/slm_gpt2 --tokenizer more.json --output x", "more.json has 41 tokens, and "},
        {1, "--checkpoint large.safetensors --heads 2 --gelu erf --tokenizer $golden/slm_gpt2 --output x",
         "tokenizer.json has 40 tokens, and large.safetensors was trained with a vocabulary of 200"},
        {1, "--checkpoint $golden/slm_biases --format nanogpt --output x", "nanoGPT computes the exact GELU, and "},
    };
    write_large_vocabulary("large.safetensors");
    must_run("cd %s && mkdir taken && echo 1 >taken/theirs", root);
    must_run("sed 's/\"vocab\": {/&\"Z\": 40,/' " GOLDEN "slm_gpt2/tokenizer.json >%s", path_of("more.json"));
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        assert_refused(export(refusals[i].options), &refusals[i]);
    assert_int_equal(access(path_of("x"), F_OK), -1);
    assert_text("taken/theirs", "1\n");
}

static int open_root(void **state) {
    (void)state;
    root = run_directory();
    return 0;
}

int main(void) { return tests_run(open_root, NULL); }
