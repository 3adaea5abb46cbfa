/* Imports of encoders as Hugging Face's transformers write and wrote them (tests/reference/make_bert_files.py): same
 * weights, same logits as theirs in float64, and an error by name for what the model cannot take. */
#include "checkpoint/description.h"
#include "commands/bert/model.h"
#include "data/formats/safetensors.h"
#include "kernels/device_open.h"
#include "tests/bert/rig.h"
#include "tests/tensor_list.h"

#include <unistd.h>

#define GOLDEN "tests/reference/golden/"

enum { WIDTH = 16, LAYERS = 2, CLASSES = 3, POSITIONS = 14, TOKENS = 25, HEAD = 4 };
static const BertConfig plain = {.vocabulary = TOKENS,
                                 .positions = POSITIONS,
                                 .d_model = WIDTH,
                                 .n_layers = LAYERS,
                                 .n_heads = 2,
                                 .d_ff = 32,
                                 .classes = CLASSES};

/* A model with the weights of a file. */
typedef struct {
    bool ok; /* false: `error` says why, and there is nothing else */
    Error error;
    Model *model;
    float *weights;
    ImportReport report;
} Imported;

static const float UNSET = 0.5f;

static Imported import_into(const char *path, BertConfig config) {
    Imported i = {.model = bert_open(&config)};
    const ParamTable *table = &i.model->params;
    CarriedTensors carried;
    i.weights = xaligned((size_t)table->flat_count * sizeof(float));
    for (int64_t e = 0; e < table->flat_count; e++) i.weights[e] = UNSET;
    CheckpointBuffers into = {.table = table, .weights = i.weights};
    i.ok = checkpoint_import(path, &into, config.classes ? &BERT_IMPORT_CLASSIFIER : &BERT_IMPORT_MASKED, &carried,
                             &i.report, &i.error);
    if (i.ok) {
        assert_int_equal(carried.n, 0);
        carried_close(&carried);
        return i;
    }
    i.model->close(i.model);
    free(i.weights);
    return i;
}

static Imported must_import(const char *path, BertConfig config) {
    Imported i = import_into(path, config);
    if (!i.ok) fail_msg("%s: %s", path, i.error.text);
    return i;
}

static void close_imported(Imported *i) {
    i->model->close(i->model);
    free(i->weights);
    free(i->report.missing_names);
}

static const float *weights_of(const Imported *i, const char *name, int64_t *count) {
    const Param *param = &i->model->params.items[params_find(&i->model->params, name)];
    if (count) *count = param->count;
    return i->weights + param->offset;
}

/* Fails unless all parameters of a that b has are the same bit by bit. Returns how many these are. */
static int assert_same(const Imported *a, const Imported *b) {
    int n = 0;
    for (int i = 0; i < a->model->params.count; i++) {
        const Param *p = &a->model->params.items[i];
        if (params_find(&b->model->params, p->name) < 0) continue;
        if (memcmp(a->weights + p->offset, weights_of(b, p->name, NULL), (size_t)p->count * sizeof(float)))
            fail_msg("%s differs", p->name);
        n++;
    }
    return n;
}

/* ---- whole files ---- */

static void copy_logits(void *into, const char *name, Tensor tensor) {
    if (!strcmp(name, "logits")) memcpy(into, tensor.data, tensor_bytes(tensor));
}

/* Packed texts have the logits that transformers computes of each text alone. */
TEST(logits_are_those_of_transformers) {
    json_t *rows = json_load_file(GOLDEN "bert_predictions.json", 0, NULL);
    int n = (int)json_array_size(rows);
    int32_t ids[256], offsets[32] = {0};
    float logits[32 * CLASSES];
    for (int s = 0; s < n; s++) {
        const json_t *of = json_object_get(json_array_get(rows, (size_t)s), "ids");
        offsets[s + 1] = offsets[s];
        for (size_t t = 0; t < json_array_size(of); t++)
            ids[offsets[s + 1]++] = (int32_t)json_integer_value(json_array_get(of, t));
    }
    assert_int_equal(n, 8);
    Imported i = must_import(GOLDEN "bert_hf", plain);
    ModelRig rig = model_rig_open(bert_open(&plain), cpu_device_open(1), (size_t)1 << 24);
    memcpy(rig.model->weights.data, i.weights, (size_t)rig.model->params.flat_count * sizeof(float));
    Batch batch = bert_batch_of_classes(ids, offsets, n, NULL, &(BertLoss){.classes = CLASSES});
    Pass pass = model_rig_pass(&rig, batch.counts, 1);
    pass.train = false;
    pass.dump = copy_logits;
    pass.dump_context = logits;
    model_rig_run(&rig, &batch, &pass);
    for (int k = 0; k < n * CLASSES; k++) {
        const json_t *want = json_object_get(json_array_get(rows, (size_t)k / CLASSES), "logits");
        assert_near(logits[k], json_real_value(json_array_get(want, (size_t)k % CLASSES)), 1e-5);
    }
    batch_close(&batch);
    model_rig_close(&rig);
    close_imported(&i);
    json_decref(rows);
}

/* Without roberta., with gamma and beta, position_ids and a pooler; without a classifier, which keeps its values. */
TEST(an_old_encoder_gives_the_same_weights) {
    Imported now = must_import(GOLDEN "bert_hf", plain), old = must_import(GOLDEN "bert_old", plain);
    assert_int_equal(now.report.missing, 0);
    assert_int_equal(now.report.loaded, now.model->params.count);
    assert_int_equal(old.report.loaded, now.model->params.count - HEAD);
    assert_int_equal(old.report.missing, HEAD);
    assert_contains(old.report.missing_names, "classifier.dense.weight, classifier.dense.bias, classifier.out_proj");
    assert_int_equal(old.report.conventions.constants, 1);
    assert_int_equal(old.report.conventions.ignored[0], 0);
    assert_int_equal(old.report.conventions.ignored[1], 2); /* the pooler */
    int64_t count;
    const float *head = weights_of(&old, "classifier.dense.weight", &count);
    for (int64_t e = 0; e < count; e++) assert_true(head[e] == UNSET);
    float *values = old.weights;
    for (int k = 0; k < old.model->params.count; k++) {
        const Param *p = &old.model->params.items[k];
        if (!strncmp(p->name, "classifier.", 11))
            memcpy(values + p->offset, weights_of(&now, p->name, NULL), (size_t)p->count * sizeof *values);
    }
    assert_int_equal(assert_same(&old, &now), now.model->params.count);
    close_imported(&now);
    close_imported(&old);
}

/* The head over masked words is left out for a classifier, and taken for masked words, with the decoder tied. */
TEST(a_masked_language_model_is_a_base_of_both) {
    BertConfig words = plain;
    words.classes = 0;
    Imported now = must_import(GOLDEN "bert_hf", plain), base = must_import(GOLDEN "bert_masked", plain),
             masked = must_import(GOLDEN "bert_masked", words), fresh = must_import(GOLDEN "bert_hf", words);
    assert_int_equal(base.report.missing, HEAD);
    assert_int_equal(base.report.conventions.ignored[0], 7); /* five of its own, and the decoder */
    assert_int_equal(masked.report.missing, 0);
    assert_int_equal(masked.report.conventions.copies, 2);
    assert_int_equal(fresh.report.missing, 5);
    assert_int_equal(fresh.report.conventions.ignored[0], HEAD);
    assert_int_equal(assert_same(&masked, &now), now.model->params.count - HEAD);
    assert_int_equal(assert_same(&masked, &base), now.model->params.count - HEAD);
    Imported *all[] = {&now, &base, &masked, &fresh};
    for (int i = 0; i < 4; i++) close_imported(all[i]);
}

/* ---- tensors that the model cannot take ---- */

static const float numbers[2 * TOKENS * WIDTH] = {1};

static void no_change(TensorList *t) { (void)t; }
static void unknown_module(TensorList *t) {
    tensor_list_copy(t, "roberta.embeddings.LayerNorm.bias", "roberta.encoder.layer.1.crossattention.self.query.bias");
}
static void missing_layer(TensorList *t) { tensor_list_remove(t, "roberta.encoder.layer.1.output.dense.bias"); }
static void half_a_head(TensorList *t) { tensor_list_remove(t, "classifier.dense.bias"); }
static void wide_query(TensorList *t) {
    TensorToWrite *query = tensor_list_at(t, "roberta.encoder.layer.0.attention.self.query.weight");
    query->dims[0] = 2 * (int64_t)WIDTH;
    query->data = numbers;
}
static void two_types(TensorList *t) {
    TensorToWrite *types = tensor_list_at(t, "roberta.embeddings.token_type_embeddings.weight");
    types->dims[0] = 2;
    types->data = numbers;
}
static void two_classes(TensorList *t) {
    tensor_list_at(t, "classifier.out_proj.weight")->dims[0] = 2;
    tensor_list_at(t, "classifier.out_proj.bias")->dims[0] = 2;
}

TEST(tensors_that_do_not_fit_are_named) {
    static const struct {
        void (*edit)(TensorList *list);
        const char *message;
    } cases[] = {
        {no_change, ""},
        {unknown_module, "roberta.encoder.layer.1.crossattention.self.query.bias is not one of the model's tensors"},
        {missing_layer, "1 tensor does not fit: roberta.encoder.layer.1.output.dense.bias, F32 [16] in the model, is "
                        "not there"},
        {half_a_head, "classifier.dense.bias, F32 [16] in the model, is not there"},
        {wide_query, "self.query.weight is F32 [32, 16] there, F32 [16, 16] in the model"},
        {two_types, "token_type_embeddings.weight is F32 [2, 16] there, F32 [1, 16] in the model"},
        {two_classes, "classifier.out_proj.bias is F32 [2] there, F32 [3] in the model; classifier.out_proj.weight is "
                      "F32 [2, 16] there"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        TensorList list = tensor_list_read(GOLDEN "bert_hf/model.safetensors");
        cases[k].edit(&list);
        Imported i = import_into(tensor_list_write(&list), plain);
        assert_int_equal(i.ok, k == 0);
        if (i.ok)
            close_imported(&i);
        else
            assert_contains(i.error.text, cases[k].message);
    }
}

static void other_decoder(TensorList *t) { tensor_list_at(t, "lm_head.decoder.weight")->data = numbers; }
static void other_bias(TensorList *t) { tensor_list_at(t, "lm_head.decoder.bias")->data = numbers; }

TEST(a_decoder_of_its_own_is_refused_for_masked_words_only) {
    void (*const edits[])(TensorList * list) = {other_decoder, other_bias};
    static const char *const messages[] = {
        "lm_head.decoder.weight differs from roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias differs from lm_head.bias"};
    BertConfig words = plain;
    words.classes = 0;
    for (int k = 0; k < 2; k++) {
        TensorList list = tensor_list_read(GOLDEN "bert_masked/pytorch_model.bin");
        edits[k](&list);
        const char *path = tensor_list_write(&list);
        Imported i = import_into(path, words);
        assert_false(i.ok);
        assert_contains(i.error.text, messages[k]);
        i = must_import(path, plain);
        close_imported(&i);
    }
}

/* ---- what the file says of the model ---- */

typedef struct {
    int64_t vocabulary, positions, d_model, layers, heads, d_ff, max_len;
    const char *base_checkpoint, *normalize;
    bool compat;
} Options;

#define FIELD(name) offsetof(Options, name)
static const OptionRow option_rows[] = {
    {.name = "base-checkpoint", .type = OPTION_TEXT, .offset = FIELD(base_checkpoint), .help = "file"},
    {.name = "vocabulary", .type = OPTION_INT, .offset = FIELD(vocabulary), .help = "ids"},
    {.name = "positions", .type = OPTION_INT, .offset = FIELD(positions), .help = "rows"},
    {.name = "d-model", .type = OPTION_INT, .offset = FIELD(d_model), .help = "width"},
    {.name = "layers", .type = OPTION_INT, .offset = FIELD(layers), .help = "blocks"},
    {.name = "heads", .type = OPTION_INT, .offset = FIELD(heads), .help = "heads"},
    {.name = "d-ff", .type = OPTION_INT, .offset = FIELD(d_ff), .help = "width"},
    {.name = "max-len", .type = OPTION_INT, .offset = FIELD(max_len), .default_value = "192", .help = "tokens"},
    {.name = "normalize", .type = OPTION_CHOICE, .offset = FIELD(normalize), .metavar = "nfc|none", .help = "form"},
    {.name = "compat", .type = OPTION_FLAG, .offset = FIELD(compat), .help = "as theirs"},
};

/* Parses words of the command line; the last is NULL. */
static void parse(const char *const *words, Options *values, OptionSet *set) {
    static const OptionsHeader header = {"train_bert", "", "", "Reads a file."};
    char *argv[16] = {"train_bert"};
    int n = 1;
    for (; *words; words++) argv[n++] = (char *)(uintptr_t)*words;
    options_add(set, option_rows, sizeof option_rows / sizeof *option_rows, values);
    options_parse(&header, set, n, argv);
}

/* words: a path, then words of the command line; the last is NULL. Returns what adopting has set. */
static Options adopt(const char *const *words, BertBase *base) {
    Options values = {0};
    OptionSet set = {0};
    parse(words + 1, &values, &set);
    *base = bert_base_adopt(&(TrainOptions){.base_checkpoint = words[0]}, &set);
    BertTextOptions given = {.max_len = values.max_len, .normalize = values.normalize};
    values.max_len = bert_base_texts(base, &set, &given).max_len;
    if (options_find(&set, "normalize")->adopted) keep((char *)(uintptr_t)values.normalize);
    return values;
}

TEST(files_tell_sizes_and_classes) {
    static const char *const folder[] = {GOLDEN "bert_hf", NULL},
                             *const old[] = {GOLDEN "bert_old", "--heads", "4", NULL},
                             *const masked[] = {GOLDEN "bert_masked", "--max-len", "7", NULL};
    BertBase base;
    Options o = adopt(folder, &base);
    assert_true(o.vocabulary == TOKENS && o.positions == POSITIONS && o.d_model == WIDTH && o.layers == LAYERS);
    assert_true(o.heads == 2 && o.d_ff == 32);
    assert_int_equal(o.max_len, POSITIONS - 2); /* the default of 192 is more than it has positions for */
    BertConfig config = bert_base_config(&base);
    assert_int_equal(config.classes, CLASSES);
    assert_string_equal(base.classes.names[2], "hate, \"loud\"");
    assert_false(base.masked_head || base.description);
    bert_base_close(&base);
    o = adopt(old, &base);
    assert_true(o.heads == 4 && bert_base_config(&base).classes == 0 && !base.masked_head);
    bert_base_close(&base);
    o = adopt(masked, &base);
    assert_true(o.max_len == 7 && base.masked_head && !base.classes.n);
    bert_base_close(&base);
    OptionSet empty = {0};
    BertBase none = bert_base_read("nowhere", &empty);
    assert_true(!none.options.options && !none.classes.n);
}

/* Writes a file with the tensors of RoBERTa's base but for its vocabulary, whose numbers are holes. Returns its path.
 */
static const char *write_base_sizes(void) {
    const BertConfig sizes = {
        .vocabulary = 2, .positions = 258, .d_model = 768, .n_layers = 12, .n_heads = 12, .d_ff = 1, .classes = 2};
    const char *path = kept_path(kept_folder(), "model.safetensors");
    Model *model = bert_open(&sizes);
    json_t *header = json_object();
    int64_t at = 0;
    for (int i = 0; i < model->params.count; i++) {
        const Param *p = &model->params.items[i];
        json_t *shape = json_array();
        for (int d = 0; d < p->rank; d++) json_array_append_new(shape, json_integer(p->dims[d]));
        json_object_set_new(header, p->name,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets",
                                      (json_int_t)at, (json_int_t)(at + 4 * p->count)));
        at += 4 * p->count;
    }
    char *text = keep(json_dumps(header, JSON_COMPACT));
    const uint64_t size = strlen(text);
    FILE *file = fopen(path, "wb");
    assert_true(file && fwrite(&size, sizeof size, 1, file) == 1 && fwrite(text, size, 1, file) == 1);
    assert_true(!fflush(file) && !ftruncate(fileno(file), (off_t)(8 + size) + at) && !fclose(file));
    json_decref(header);
    model->close(model);
    return path;
}

/* The number of heads is that of config.json, else that of --heads, else the usual one of these sizes. */
TEST(a_usual_size_does_not_decide_the_heads) {
    const char *path = write_base_sizes(), *const plain_words[] = {path, NULL},
               *const with_heads[] = {path, "--heads", "6", NULL},
               *const told[] = {"--vocabulary", "2", "--positions", "258", "--d-model", "768", "--layers", "12",
                                "--heads",      "8", "--normalize", "nfc", "--d-ff",    "1",   NULL};
    BertBase base;
    assert_int_equal(adopt(plain_words, &base).heads, 12);
    bert_base_close(&base);
    assert_int_equal(adopt(with_heads, &base).heads, 6);
    assert_int_equal(bert_base_config(&base).n_heads, 6);
    bert_base_close(&base);
    Options values = {0};
    OptionSet set = {0};
    parse(told, &values, &set);
    Model *model = bert_open(&plain);
    char *text = keep(description_text(&(Description){.options = BERT_OPTIONS}, model, &set)),
         *folder = keep(path_directory(path));
    write_text(kept_path(folder, "config.json"), "%s", text);
    assert_int_equal(adopt(plain_words, &base).heads, 8);
    assert_int_equal(bert_base_config(&base).n_heads, 8);
    bert_base_close(&base);
    model->close(model);
}

static void adopt_words(void *words) {
    BertBase base;
    adopt(words, &base);
}

TEST(what_contradicts_a_file_is_refused) {
    static const struct {
        int status;
        const char *words[6], *message;
    } cases[] = {
        {2, {GOLDEN "bert_old"}, "--base-checkpoint " GOLDEN "bert_old: the number of attention heads does not follow"},
        {2, {GOLDEN "bert_hf", "--heads", "4"}, "--heads 4 contradicts "},
        {2, {GOLDEN "bert_hf", "--layers", "3"}, "--layers 3 contradicts "},
        {2, {GOLDEN "bert_hf", "--max-len", "13"}, "--max-len 13: " GOLDEN "bert_hf has positions for 12 tokens"},
        {1, {GOLDEN "slm_gpt2"}, "expected the tensors roberta.embeddings.word_embeddings.weight"},
    };
    char output[2048];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int status = run_function(output, sizeof output, adopt_words, (void *)(uintptr_t)cases[k].words);
        if (status != cases[k].status) fail_msg("%s: %d\n%s", cases[k].words[0], status, output);
        assert_contains(output, cases[k].message);
    }
    TensorList list = tensor_list_read(GOLDEN "bert_hf/model.safetensors");
    tensor_list_remove(&list, "roberta.encoder.layer.1.output.dense.weight");
    const char *damaged[] = {tensor_list_write(&list), "--heads", "2", NULL};
    assert_int_equal(run_function(output, sizeof output, adopt_words, (void *)damaged), 1);
    assert_contains(output, "1 tensor does not fit: roberta.encoder.layer.1.output.dense.weight, F32 [16, 32] in the "
                            "model, is not there");
}

/* Copies bert_hf and edits its config.json by sed. Returns the folder. */
static const char *edited_config(const char *edit) {
    char output[2048];
    const char *folder = kept_folder();
    if (run_command(output, sizeof output, "cp " GOLDEN "bert_hf/* %s && sed -i '%s' %s/config.json", folder, edit,
                    folder))
        fail_msg("%s", output);
    return folder;
}

static void check_tokenizer(void *folder) {
    const char *const words[] = {folder, NULL};
    BertBase base;
    BertTextOptions options = {.max_len = 12, .normalize = "nfc", .tokenizer = GOLDEN "bert_hf"};
    adopt(words, &base);
    BertTexts texts = bert_texts_open(&options, NULL, 1);
    bert_base_check_tokenizer(&base, &texts);
    puts("the same ids");
}

/* PhoBERT's <s>, <pad>, </s> and <unk> are 0 to 3; another tokenizer's texts would be others. */
TEST(ids_of_special_tokens_are_those_of_the_configuration) {
    static const struct {
        const char *edit, *message;
    } cases[] = {
        {"s/x/x/", "the same ids"},
        {"s/\"eos_token_id\": 2/\"eos_token_id\": null/", "the same ids"},
        {"s/\"eos_token_id\": 2/\"eos_token_id\": 1/",
         "eos_token_id is 1 in the config.json of %s, and in " GOLDEN "bert_hf/vocab.txt this token, </s>, is 2: the "
         "weights were trained with other ids. Give their own --tokenizer"},
        {"s/\"bos_token_id\": 0/\"bos_token_id\": 5/", "this token, <s>, is 0"},
        {"s/\"bos_token_id\": 0/\"bos_token_id\": 0, \"unk_token_id\": 7/", "this token, <unk>, is 3"},
    };
    char output[2048];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const char *folder = edited_config(cases[k].edit);
        int status = run_function(output, sizeof output, check_tokenizer, (void *)(uintptr_t)folder);
        if (status != (k > 1)) fail_msg("%s: %d\n%s", cases[k].edit, status, output);
        char *message = strstr(cases[k].message, "%s") ? xformat(cases[k].message, folder) : xstrdup(cases[k].message);
        assert_contains(output, message);
        free(message);
    }
}

static void check_classes_of(const char *folder, const char *names) {
    const char *const words[] = {folder, NULL};
    BertBase base;
    Classes classes;
    Error error;
    adopt(words, &base);
    if (!classes_parse(names, &classes, &error)) die("%s", error.text);
    bert_base_check_classes(&base, &classes);
}

static void check_classes(void *names) { check_classes_of(GOLDEN "bert_hf", names); }
static void check_multi_label(void *folder) { check_classes_of(folder, "0,1,2"); }

/* Texts have one class here, and no weights say how much of each. */
TEST(a_classifier_of_several_labels_is_no_base) {
    const char *folder = edited_config("s/\"vocab_size\"/\"problem_type\": \"multi_label_classification\", &/");
    char output[2048];
    assert_int_equal(run_function(output, sizeof output, check_multi_label, (void *)(uintptr_t)folder), 1);
    assert_contains(output,
                    "problem_type is multi_label_classification in its config.json: each of its classes is decided "
                    "by itself, and texts have one class here");
    folder = edited_config("s/\"vocab_size\"/\"problem_type\": \"single_label_classification\", &/");
    assert_int_equal(run_function(output, sizeof output, check_multi_label, (void *)(uintptr_t)folder), 0);
}

TEST(classes_of_the_same_names_take_the_order_of_the_base) {
    static const char *const words[] = {GOLDEN "bert_hf", NULL}, *const texts[] = {"hate, \"loud\"", "clean", "rude"},
                             *const others[] = {"clean", "rude", "other"};
    BertBase base;
    int32_t place[BERT_MAX_CLASSES];
    adopt(words, &base);
    Classes classes = classes_of(texts, 3), unknown = classes_of(others, 3), same = classes_of(texts, 3);
    assert_true(bert_base_order_classes(&base, &classes, place));
    assert_true(place[0] == 2 && place[1] == 0 && place[2] == 1);
    for (int c = 0; c < 3; c++) assert_string_equal(classes.names[place[c]], texts[c]);
    assert_false(bert_base_order_classes(&base, &classes, place)); /* it has this order now */
    assert_false(bert_base_order_classes(&base, &unknown, place));
    assert_string_equal(unknown.names[2], "other");
    same.n = 2;
    assert_false(bert_base_order_classes(&base, &same, place));
    same.n = 3;
    Classes *all[] = {&classes, &unknown, &same};
    for (int i = 0; i < 3; i++) classes_free(all[i]);
    bert_base_close(&base);
}

TEST(classes_of_a_base_that_are_others_are_told) {
    static const struct {
        int status;
        const char *names, *message;
    } cases[] = {
        {0, "0,1,2", NULL}, /* no names: by their places */
        {0, "rude,clean,other",
         "its classifier are clean, rude, hate, \"loud\", and those of the texts rude, clean, "
         "other: each begins with the weights of the one in its place"},
        {1, "0,1",
         "its classifier has 3 classes (clean, rude, hate, \"loud\"), and the texts have 2 (0, 1): start from"},
    };
    char output[2048];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int status = run_function(output, sizeof output, check_classes, (void *)(uintptr_t)cases[k].names);
        if (status != cases[k].status) fail_msg("%s: %d\n%s", cases[k].names, status, output);
        if (cases[k].message)
            assert_contains(output, cases[k].message);
        else
            assert_null(strstr(output, "classifier"));
    }
}

TEST(the_configuration_is_read_critically) {
    static const struct {
        const char *edit, *message;
    } cases[] = {
        {"s/.model_type.*,/\\\"model_type\\\":\\\"bert\\\",/", "model_type is bert; only roberta"},
        {"s/\\\"gelu\\\"/\\\"relu\\\"/", "hidden_act is relu, and the model of this program computes with gelu"},
        {"s/1e-05/1e-12/", "layer_norm_eps is 1e-12"},
        {"s/.type_vocab_size.:.1/\\\"type_vocab_size\\\":2/", "type_vocab_size is 2"},
        {"s/.pad_token_id.:.1/\\\"pad_token_id\\\":0/", "pad_token_id is 0"},
        {"s/.is_decoder.:.false/\\\"is_decoder\\\":true/", "is_decoder is 1"},
        {"s/.num_hidden_layers.:.2/\\\"num_hidden_layers\\\":3/",
         "num_hidden_layers is 3, and in the tensors beside it 2"},
        {"s/.hidden_size.:.16/\\\"hidden_size\\\":32/", "hidden_size is 32, and in the tensors beside it 16"},
        {"s/.vocab_size.:.25/\\\"vocab_size\\\":26/", "vocab_size is 26, and in the tensors beside it 25"},
        {"s/.num_attention_heads.:.2/\\\"num_attention_heads\\\":5/",
         "its width 16 is no multiple of 5 attention heads"},
        {"s/.num_attention_heads.:.2/\\\"num_attention_heads\\\":-2/", "heads: expected 1 to 1000, found -2"},
        {"s/.num_attention_heads.:.2/\\\"num_attention_heads\\\":4294967298/",
         "heads: expected 1 to 1000, found 4294967298"},
        {"s/.num_attention_heads.:.2/\\\"num_attention_heads\\\":\\\"2\\\"/", "heads: expected a whole number, found"},
        {"s/.hidden_size.:.16/\\\"hidden_size\\\":16.0/", "hidden_size is no whole number"},
        {"s/1e-05/true/", "layer_norm_eps is 1"},
        {"s/.is_decoder.:.false/\\\"is_decoder\\\":\\\"no\\\"/", "is_decoder is no number"},
        {"s/.hidden_act.:.*,/\\\"hidden_act\\\":3,/", "hidden_act is no text"},
        {"/.1.:.*rude/d", "its config.json names 2 classes, and its classifier has 3"},
    };
    char output[2048];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const char *folder = kept_folder(), *words[] = {folder, NULL};
        if (run_command(output, sizeof output, "cp " GOLDEN "bert_hf/* %s && sed -i %s %s/config.json", folder,
                        cases[k].edit, folder))
            fail_msg("%s", output);
        assert_true(run_function(output, sizeof output, adopt_words, (void *)words) != 0);
        assert_contains(output, cases[k].message);
    }
}
