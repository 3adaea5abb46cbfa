/* train_gpt export: an export holds the checkpoint's tensors under the reference's names, what is missing is named, and
 * nothing is replaced. */
#include <unistd.h>

#include "base/file.h"
#include "data/formats/safetensors.h"
#include "data/formats/tensor_file_open.h"
#include "kernels/philox.h"
#include "tests/edited_json.h"
#include "tests/gpt/corpus.h"

static Error error;

enum {
    TRAINED_TENSORS = 25 /* with one block */,
    ENCODER_TENSORS = 364,
    ENCODER_SIZE = 3,
    WIDE = 24,
    MAX_TENSORS = 512
};

/* The folders of the tests: prepared data with a codebook, and without one, as prepare --indextts2 leaves it;
 * a file of weights with the encoders of the reference; a run that started from it, on the data without a codebook. */
static char *own, *semantic, *base, *run;

static int export(const char *options) {
    return run_command(fixture.output, sizeof fixture.output, "here=$PWD && cd %s && $here/%s %s", corpus_root,
                       program_at("train_gpt export"), options);
}

static void must_export(const char *options) {
    int status = export(options);
    if (status) fail_msg("exit status %d:\n%s", status, fixture.output);
}

/* Appends the names of the reference's encoders, with small tensors; emo_layer's gives vectors of `width`. */
static int add_encoders(TensorToWrite *tensors, int n, int width, const float *numbers) {
    static const struct {
        const char *prefix;
        int tensors;
    } modules[] = {{"conditioning_encoder", 193}, {"perceiver_encoder", 18}, {"emo_conditioning_encoder", 131},
                   {"emo_perceiver_encoder", 18}, {"emovec_layer", 2},       {"emo_layer", 2}};
    static char names[MAX_TENSORS][48];
    for (int k = 0; k < 6; k++)
        for (int i = 0; i < modules[k].tensors; i++, n++) {
            snprintf(names[n], sizeof *names, "%s.%d", modules[k].prefix, i);
            tensors[n] = (TensorToWrite){
                .name = names[n], .dtype = "F32", .rank = 1, .dims = {ENCODER_SIZE}, .data = numbers + n};
        }
    tensors[n - 1] = (TensorToWrite){
        .name = "emo_layer.weight", .dtype = "F32", .rank = 2, .dims = {width, CORPUS_WIDTH}, .data = numbers};
    return n;
}

/* A file of weights: the tensors of a checkpoint (NULL: none) and those of the encoders, with names that begin with
 * `key`, without the last `leave_out`. */
typedef struct {
    const char *checkpoint, *key;
    int width, leave_out;
} Weights;

/* Writes weights as if they were IndexTTS2's. Returns the path; free(). */
static char *write_weights(const char *name, Weights weights) {
    static float numbers[MAX_TENSORS + WIDE * CORPUS_WIDTH];
    static char names[MAX_TENSORS][64];
    TensorToWrite tensors[MAX_TENSORS];
    TensorFile file = {0};
    int n = 0;
    for (int i = 0; i < MAX_TENSORS; i++) numbers[i] = philox_normal(3, PURPOSE_TEST, 0, (uint64_t)i);
    char *folder = corpus_folder("base"), *path = path_join(folder, name);
    make_directories(folder);
    if (weights.checkpoint && !tensor_file_open(weights.checkpoint, &file, &error)) fail_msg("%s", error.text);
    for (int i = 0; i < file.n_tensors; i++) {
        const StoredTensor *t = &file.tensors[i];
        tensors[n] = (TensorToWrite){.name = t->name, .dtype = t->dtype, .rank = t->rank, .data = t->data};
        memcpy(tensors[n++].dims, t->dims, sizeof t->dims);
    }
    n = add_encoders(tensors, n, weights.width, numbers) - weights.leave_out;
    for (int i = 0; i < n; i++) {
        snprintf(names[i], sizeof *names, "%s%s", weights.key, tensors[i].name);
        tensors[i].name = names[i];
    }
    if (!safetensors_write(path, tensors, n, NULL, NULL, 0, &error)) fail_msg("%s", error.text);
    tensor_file_close(&file);
    return path;
}

static char *write_base(const char *name, const char *checkpoint, int leave_out) {
    return keep(write_weights(name, (Weights){checkpoint, "", CORPUS_WIDTH, leave_out}));
}

static int open_fixture(void **state) {
    corpus_open(state);
    own = corpus_folder(corpus_reference(NULL));
    semantic = corpus_folder("semantic");
    run = corpus_folder("run");
    must_run("cp -r %s %s && rm %s/codebook.*", own, semantic, semantic);
    char *first = corpus_folder("first");
    corpus_must_train(semantic, first, "");
    base = write_base("gpt.safetensors", keep(path_through(first, "last/model.safetensors")), 0);
    corpus_must_train(semantic, run, kept_format("--base-checkpoint %s", base));
    return 0;
}

static void assert_same_tensor(const StoredTensor *a, const StoredTensor *b) {
    if (!a || !b) fail_msg("a tensor is missing");
    assert_string_equal(a->dtype, b->dtype);
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
    assert_memory_equal(a->data, b->data, a->bytes);
}

/* Fails unless gpt.pth of an export has the tensors of a file of weights, and `more` others. */
static void assert_exported(const char *folder, const char *weights, int more) {
    char *pth = kept_format("%s/%s/gpt.pth", corpus_root, folder);
    TensorFile exported, file;
    if (!tensor_file_open(pth, &exported, &error)) fail_msg("%s: %s", pth, error.text);
    if (!tensor_file_open(weights, &file, &error)) fail_msg("%s: %s", weights, error.text);
    assert_int_equal(exported.n_tensors, file.n_tensors + more);
    for (int i = 0; i < file.n_tensors; i++)
        assert_same_tensor(&file.tensors[i], tensor_file_find(&exported, file.tensors[i].name));
    tensor_file_close(&exported);
    tensor_file_close(&file);
}

TEST(an_export_is_the_checkpoint_under_the_references_names) {
    char *weights = keep(path_through(run, "best/model.safetensors")), *yaml = corpus_folder("models/am/config.yaml"),
         *text;
    must_export("--checkpoint run --output models/am");
    assert_contains(fixture.output, "the best weights of the run\n");
    assert_contains(fixture.output, "25 trained tensors, 364 of the encoders\n");
    assert_contains(fixture.output, "[Codes] IndexTTS2's semantic codes: its vocoder makes sound of them");
    assert_contains(fixture.output, "Next: copy models/am into IndexTTS2's folder checkpoints");
    assert_null(strstr(fixture.output, "warning"));
    assert_exported("models/am", weights, 0);
    must_run("cd %s && cmp models/am/bpe.model semantic/bpe.model && cmp models/am/config.json %s/run/best/config.json "
             "&& ls -A models/am | tr '\\n' ' '",
             corpus_root, corpus_root);
    assert_string_equal(fixture.output, "bpe.model config.json config.yaml gpt.pth ");
    text = kept_text(yaml);
    assert_contains(text, "dataset:\n    bpe_model: \"am/bpe.model\"\n"
                          "gpt:\n    model_dim: 16  # was 1280\n    layers: 1  # was 24\n    heads: 2  # was 20\n"
                          "    max_text_tokens: 90  # was 600\n    max_mel_tokens: 180  # was 1815\n"
                          "    number_text_tokens: 60  # was 12000\n    number_mel_codes: 34  # was 8194\n"
                          "    start_text_token: 0\n    stop_text_token: 1\n"
                          "    start_mel_token: 32  # was 8192\n    stop_mel_token: 33  # was 8193\n"
                          "gpt_checkpoint: \"am/gpt.pth\"\n");
}

/* A training from scratch has no encoders: IndexTTS2 would refuse its weights, unless they are added. */
TEST(missing_encoders_are_named_and_can_be_added) {
    char *weights = keep(path_through(corpus_root, "first/best/model.safetensors"));
    write_base("part.safetensors", NULL, 3);
    char *rest = write_base("encoders.safetensors", NULL, 0);
    must_export("--checkpoint first/best --output bare");
    assert_contains(fixture.output, "warning: first/");
    assert_contains(fixture.output, " has no encoders for prompts and emotions");
    assert_null(strstr(fixture.output, "Next:"));
    assert_exported("bare", weights, 0);
    must_export("--checkpoint first/best --output whole --base-checkpoint base/encoders.safetensors");
    assert_null(strstr(fixture.output, "warning"));
    assert_contains(fixture.output, "Next: copy whole ");
    assert_exported("whole", weights, ENCODER_TENSORS);
    assert_exported("whole", rest, TRAINED_TENSORS);
    assert_int_equal(export("--checkpoint first/best --output cut --base-checkpoint base/part.safetensors"), 1);
    assert_contains(fixture.output, "part.safetensors: emo_layer.* has 0 tensors, and the reference has 2");
}

/* A file beside config.json and state.json is the checkpoint whose weights it holds. */
TEST(the_weights_file_of_a_checkpoint_stands_for_it) {
    must_export("--checkpoint run/best --output of_folder");
    must_export("--checkpoint run/best/model.safetensors --output of_file");
    must_run("cd %s && sed s/of_file/of_folder/g of_file/config.yaml | cmp - of_folder/config.yaml && "
             "rm of_file/config.yaml of_folder/config.yaml && diff -r of_file of_folder",
             corpus_root);
}

/* The best weights lie in a folder, as copying makes of the link, or a small file names them. */
TEST(copied_runs_are_exported) {
    static const char *const ways[] = {"cp -r run/$s copied0/best",
                                       "cp -r run/step_* copied1 && echo $s >copied1/best"};
    static const char *const paths[] = {"", "/best", "/best/model.safetensors"};
    for (int i = 0; i < 2; i++) {
        must_run("cd %s && s=$(readlink run/best || cat run/best) && mkdir copied%d && %s", corpus_root, i, ways[i]);
        for (int k = 0; k < 3; k++) {
            must_export(kept_format("--checkpoint copied%d%s --output of_copy%d%d", i, paths[k], i, k));
            must_run("cd %s && cmp of_folder/gpt.pth of_copy%d%d/gpt.pth && cmp of_folder/config.json "
                     "of_copy%d%d/config.json",
                     corpus_root, i, k, i, k);
        }
    }
}

/* A training would start from them. */
TEST(state_dicts_of_larger_dictionaries_and_wrapped_modules_are_exported) {
    static const char *const keys[] = {"model.", "state_dict.module.", "model_state_dict._orig_mod.", "module."};
    char *weights = keep(path_through(corpus_root, "first/last/model.safetensors")), *encoders = NULL;
    for (int i = 0; i < 4; i++) {
        char *output = kept_format("keyed%d", i), *added = kept_format("added%d", i),
             *whole = write_weights("keyed.safetensors", (Weights){weights, keys[i], CORPUS_WIDTH, 0}),
             *options = kept_format("--checkpoint base/keyed.safetensors --heads 2 --tokenizer semantic/bpe.model "
                                    "--output %s",
                                    output);
        must_export(options);
        assert_contains(fixture.output, "25 trained tensors, 364 of the encoders\n");
        assert_exported(output, base, 0);
        encoders = write_weights("keyed.safetensors", (Weights){NULL, keys[i], CORPUS_WIDTH, 0});
        options = kept_format("--checkpoint first --base-checkpoint base/keyed.safetensors --output %s", added);
        must_export(options);
        assert_exported(added, weights, ENCODER_TENSORS);
        free(whole);
        free(encoders);
    }
}

/* The shapes of 24 layers and a width of 1280 tell 20 heads, as they do to a training; here the tensors are too few. */
TEST(the_heads_of_indextts2s_size_are_known) {
    static const float zeros[61 * 1280];
    static const char *const tables[] = {"text_embedding.weight", "mel_embedding.weight",
                                         "text_pos_embedding.emb.weight", "mel_pos_embedding.emb.weight"};
    TensorToWrite tensors[28];
    char names[24][32], *path = corpus_folder("base/full.safetensors");
    for (int i = 0; i < 4; i++)
        tensors[i] = (TensorToWrite){.name = tables[i], .dtype = "F32", .rank = 2, .dims = {61, 1280}, .data = zeros};
    for (int i = 0; i < 24; i++) {
        snprintf(names[i], sizeof *names, "gpt.h.%d.ln_1.weight", i);
        tensors[4 + i] = (TensorToWrite){.name = names[i], .dtype = "F32", .rank = 1, .dims = {1280}, .data = zeros};
    }
    if (!safetensors_write(path, tensors, 28, NULL, NULL, 0, &error)) fail_msg("%s", error.text);
    assert_int_equal(export("--checkpoint base/full.safetensors --tokenizer semantic/bpe.model --output x"), 1);
    assert_contains(fixture.output, "expected the tensor ");
    assert_int_equal(export("--checkpoint base/full.safetensors --heads 16 --output x"), 2);
    assert_contains(fixture.output, "--heads 16 contradicts base/full.safetensors, which has heads 20");
}

/* The codes of a codebook make no sound in IndexTTS2, whatever its file says. */
TEST(an_export_of_own_codes_says_that_indextts2_cannot_speak_it) {
    char *output = corpus_folder("spoken");
    corpus_must_train(own, output, "");
    must_export("--checkpoint spoken --output mute");
    assert_contains(fixture.output, "warning: the model speaks in codes of a codebook of train_gpt prepare: ");
    assert_null(strstr(fixture.output, "Next:"));
}

TEST(exports_that_would_be_wrong_are_refused) {
    static const Refusal refusals[] = {
        {1, "--checkpoint run --output taken", "--output taken: it holds gpt.pth already; choose a new folder"},
        {1, "--checkpoint nowhere --output x", "--checkpoint nowhere: "},
        {1, "--checkpoint audio --output x", "--checkpoint audio: it holds neither a run nor a checkpoint"},
        {1, "--checkpoint base/other.safetensors --heads 2 --output x", "so it is no model of train_gpt"},
        {2, "--checkpoint run --heads 4 --output x", "--heads 4 contradicts "},
        {2, "--checkpoint base/gpt.safetensors --output x", "the number of attention heads does not follow"},
        {2, "--checkpoint base/gpt.safetensors --heads 3 --output x", "--heads 3 does not divide the width"},
        {2, "--checkpoint base/gpt.safetensors --heads 2 --output x", "which tokenizer it was trained with: give"},
        {1, "--checkpoint run --tokenizer edited.model --output x", "edited.model is not the tokenizer that "},
        {1, "--checkpoint run --tokenizer small/bpe.model --output x", "has 40 pieces, and "},
        {1, "--checkpoint first --base-checkpoint base/wide.safetensors --output x",
         "wide.safetensors: the encoders give vectors of 24 numbers, and the model is 16 wide"},
        {1, "--checkpoint broken --output x", "broken/state.json: "},
        {1, "--checkpoint run --tokenizer nowhere --output x", "nowhere: "},
        {2, "--checkpoint run --base-checkpoint base/gpt.safetensors --output x", "has all tensors of the reference"},
    };
    write_base("other.safetensors", NULL, 0);
    char *wide = write_weights("wide.safetensors", (Weights){NULL, "", WIDE, 0});
    /* as many pieces, and a field that SentencePiece does not know */
    must_run("cd %s && mkdir taken && echo theirs >taken/gpt.pth && cp semantic/bpe.model edited.model && "
             "printf '\\240\\006\\001' >>edited.model && cp -rL %s/first/last/. broken && echo '{}' "
             ">broken/state.json",
             corpus_root, corpus_root);
    corpus_prepare("small", "--vocabulary 40");
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        assert_refused(export(refusals[i].options), &refusals[i]);
    char *left = corpus_folder("x"), *theirs = corpus_folder("taken/gpt.pth"), *text = kept_text(theirs);
    assert_int_equal(access(left, F_OK), -1);
    assert_string_equal(text, "theirs\n");
    free(wide);
}

static void export_edited(const char *edited, const JsonEdit *edit) {
    assert_edit_refused(export(kept_format("--checkpoint %s --output none", edited)), edit);
}

TEST(fields_of_other_types_and_ranges_are_refused) {
    static const JsonEdit configs[] = {
        {"options", "model-dim", "-1", "model-dim: expected 8 to 65536, found -1"},
        {"options", "heads", "\"2\"", "heads: expected a whole number, found \"2\""},
        {"options", "max-mel-tokens", "1099511627776", "max-mel-tokens: expected 1 to 1000000, found 1099511627776"},
        {"options", "number-text-tokens", "1", "number-text-tokens: expected 2 to 1000000000, found 1"},
        {"", "codes", "3", "\"codes\": expected a text, found 3"},
        {"", "codebook_xxh3_64", "7", "\"codebook_xxh3_64\": expected a text, found 7"},
        {"", "tokenizer_xxh3_64", "[]", "\"tokenizer_xxh3_64\": expected a text, found []"},
    };
    char *best = kept_path(run, "best");
    refuse_config_edits(best, "tts_gpt", configs, sizeof configs / sizeof *configs, export_edited);
}

/* Checks that config.json may say whatever train_gpt's options may be, and no more. */
TEST(sizes_have_the_ranges_of_the_options) {
    static const char *const ranges[] = {"`--model-dim N` | 1280 | 8 to 65,536 |",
                                         "`--layers N` | 24 | 1 to 1,000 |",
                                         "`--heads N` | 20 | 1 to 1,000 |",
                                         "`--max-text-tokens N` | 600 | 1 to 1,000,000 |",
                                         "`--max-mel-tokens N` | 1815 | 1 to 1,000,000 |",
                                         "`--number-text-tokens N` | 12000 | 2 or more |",
                                         "`--number-mel-codes N` | 8194 | 3 or more |"};
    must_run("%s --help-markdown", program_at("train_gpt"));
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) assert_contains(fixture.output, ranges[i]);
}

int main(void) { return tests_run(open_fixture, NULL); }
