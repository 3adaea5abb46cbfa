#include "commands/bert/model.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/program.h"
#include "checkpoint/description.h"
#include "commands/bert/options.h"
#include "commands/hf_config.h"
#include "commands/trainer.h"
#include "data/bert/batch.h"
#include "data/text/label.h"

const char *const BERT_OPTIONS[] = {"vocabulary", "positions", "d-model",       "layers",
                                    "heads",      "d-ff",      BERT_TEXT_RULES, NULL};

static const FactRule facts[] = {{TOKENIZER_FACT, 0, 0}, {BERT_SEGMENTER_FACT, 0, 0}, {NULL, 0, 0}};
static const DescriptionRules description_rules = {.model = "bert", .facts = facts};

const char *const BERT_COLUMNS[] = {"text-column", "label-column", NULL};

#define ROOT        "roberta."
#define CLASSIFIER  "classifier."
#define MASKED_HEAD "lm_head."

/* Files of the first versions of these classes name the norms' tensors as TensorFlow does, and hold the numbers of the
 * positions. In the head over masked words the decoder is the token table. */
static const NamePair ends[] = {{"LayerNorm.gamma", "LayerNorm.weight"}, {"LayerNorm.beta", "LayerNorm.bias"}, {0}},
                      tied[] = {{MASKED_HEAD "decoder.weight", ROOT "embeddings.word_embeddings.weight"},
                                {MASKED_HEAD "decoder.bias", MASKED_HEAD "bias"},
                                {0}};
static const char *const heads[] = {CLASSIFIER, MASKED_HEAD, NULL}, *const buffers[] = {".position_ids", NULL},
                         *const not_of_classifier[] = {MASKED_HEAD, ROOT "pooler.", NULL},
                         *const not_of_masked[] = {CLASSIFIER, ROOT "pooler.", NULL},
                         *const of_classifier[] = {ROOT, CLASSIFIER}, *const of_masked[] = {ROOT, MASKED_HEAD};
static const ImportConventions classifier = {
    .root = ROOT, .rootless = heads, .ends = ends, .constants = buffers, .ignored = not_of_classifier};
static const ImportConventions masked = {
    .root = ROOT, .rootless = heads, .ends = ends, .constants = buffers, .ignored = not_of_masked, .copies = tied};
const ImportRules BERT_IMPORT_CLASSIFIER = {
    .only = of_classifier, .n_only = 2, .optional = of_classifier + 1, .n_optional = 1, .conventions = &classifier};
const ImportRules BERT_IMPORT_MASKED = {
    .only = of_masked, .n_only = 2, .optional = of_masked + 1, .n_optional = 1, .conventions = &masked};

/* Texts may be cut at another length than in the training. */
static const char *const unchecked[] = {"max-len", NULL};

/* The names in the configuration of a RoBERTa of the sizes that are options here. */
static const NamePair sizes_of_roberta[] = {{"vocab_size", "vocabulary"},  {"max_position_embeddings", "positions"},
                                            {"hidden_size", "d-model"},    {"num_hidden_layers", "layers"},
                                            {"intermediate_size", "d-ff"}, {0}};

/* ---- the tensors ---- */

/* Returns one more than the greatest number of a layer, so that a layer that is not whole counts, too. */
static int64_t count_layers(const TensorFile *file) {
    static const char before[] = "encoder.layer.";
    int64_t n = 0;
    for (int i = 0; i < file->n_tensors; i++) {
        const char *layer = strstr(file->tensors[i].name, before);
        int64_t number = layer ? strtoll(layer + strlen(before), NULL, 10) : -1;
        if (number >= n) n = number < INT_MAX ? number + 1 : INT_MAX;
    }
    return n;
}

/* Returns the options that follow from the shapes of a file, which must have the tensors of the model. */
static json_t *options_of_shapes(const char *option, const char *path, const TensorFile *file) {
    static const char words[] = "embeddings.word_embeddings.weight",
                      positions[] = "embeddings.position_embeddings.weight",
                      wide[] = "encoder.layer.0.intermediate.dense.weight";
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"vocabulary", adopt_dimension(file, ROOT, words, 0)},
                 {"positions", adopt_dimension(file, ROOT, positions, 0)},
                 {"d-model", adopt_dimension(file, ROOT, words, 1)},
                 {"layers", count_layers(file)},
                 {"d-ff", adopt_dimension(file, ROOT, wide, 0)}};
    json_t *options = json_object();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 1 || sizes[i].value > INT_MAX)
            die("%s %s: expected the tensors " ROOT "%s, " ROOT "%s and " ROOT "%s: it is no model that this program "
                "reads",
                option, path, words, positions, wide);
        json_object_set_new(options, sizes[i].name, json_integer((json_int_t)sizes[i].value));
    }
    return options;
}

/* ---- what lies beside the tensors ---- */

/* Returns the names of n classes; NULL: those in the file are only the ones that Hugging Face's classes have without
 * names, or it has none; free(). They point into `labels` and id2label. */
static const char **names_of(const char *path, const json_t *labels, const json_t *id2label, int n) {
    const char **names = xcalloc((size_t)n + 1, sizeof *names);
    char number[16], given_name[32];
    bool told = true, nameless = true;
    for (int c = 0; c < n; c++) {
        snprintf(number, sizeof number, "%d", c);
        snprintf(given_name, sizeof given_name, "LABEL_%d", c);
        names[c] = json_string_value(labels ? json_array_get(labels, (size_t)c) : json_object_get(id2label, number));
        if (!names[c] && (labels || json_object_size(id2label)))
            die("%s: its config.json has no name for class %d", path, c);
        if (names[c]) MUST_OR(label_check(names[c], &error), "%s: its config.json: %s", path, error.text);
        told = told && names[c];
        nameless = nameless && names[c] && !strcmp(names[c], given_name);
    }
    if (told && !nameless) return names;
    free(names);
    return NULL;
}

/* Names the classes of the file's classifier. */
static void read_classes(BertBase *base, const TensorFile *file, const json_t *config) {
    const StoredTensor *head = checkpoint_tensor(file, CLASSIFIER "out_proj.weight");
    int n = head && head->rank == 2 && head->dims[0] <= BERT_MAX_CLASSES ? (int)head->dims[0] : 0;
    const json_t *labels = json_object_get(base->description, "labels"),
                 *id2label = json_object_get(config, "id2label");
    size_t named = labels ? json_array_size(labels) : json_object_size(id2label);
    if (!n) return;
    if (named && named != (size_t)n)
        die("%s: its config.json names %zu classes, and its classifier has %d: they are of two models",
            base->options.checkpoint, named, n);
    OWNED const char **names = names_of(base->options.checkpoint, labels, id2label, n);
    OWNED char **numbers = xcalloc((size_t)n, sizeof *numbers);
    for (int c = 0; c < n; c++) numbers[c] = xformat("%d", c);
    base->classes = classes_of(names ? names : (const char *const *)numbers, n);
    for (int c = 0; c < n; c++) free(numbers[c]);
}

/* Reads how the classes of the file are decided. */
static void read_problem(BertBase *base) {
    const json_t *problem = json_object_get(base->config, "problem_type");
    if (problem && !json_is_null(problem) && !json_is_string(problem))
        die("%s: problem_type is no text in its config.json", base->options.checkpoint);
    base->multi_label = problem && json_is_string(problem) && !strcmp(json_string_value(problem), BERT_MULTI_LABEL);
}

/* Dies if a size that config.json tells, under our names or theirs, is not that of the tensors. */
static void check_sizes(const char *path, const json_t *told, bool ours, const json_t *shapes) {
    for (const NamePair *size = sizes_of_roberta; size->ours; size++) {
        const char *name = ours ? size->ours : size->theirs;
        const json_t *is = json_object_get(told, name), *found = json_object_get(shapes, size->ours);
        if (is && !json_is_integer(is)) die("%s: %s is no whole number", path, name);
        if (is && !json_equal(is, found))
            die("%s: %s is %lld, and in the tensors beside it %lld: they are of two models, or tensors are missing",
                path, name, (long long)json_integer_value(is), (long long)json_integer_value(found));
    }
}

/* Adds what the configuration of a RoBERTa says beyond the shapes. */
static void add_roberta(json_t *options, const char *path, const json_t *config) {
    hf_config_check_type(path, config, "roberta");
    hf_config_check_text(path, config, "hidden_act", "gelu");
    hf_config_check_text(path, config, "position_embedding_type", "absolute");
    hf_config_check(path, config, "layer_norm_eps", 1e-5);
    hf_config_check(path, config, "pad_token_id", 1);
    hf_config_check(path, config, "type_vocab_size", 1);
    hf_config_check(path, config, "is_decoder", 0);
    check_sizes(path, config, false, options);
    json_t *heads_there = json_object_get(config, "num_attention_heads"),
           *dropout = json_object_get(config, "hidden_dropout_prob"),
           *of_head = json_object_get(config, "classifier_dropout");
    if (!of_head || json_is_null(of_head)) of_head = dropout;
    if (heads_there) json_object_set(options, "heads", heads_there);
    if (dropout) json_object_set(options, "dropout", dropout);
    if (of_head) json_object_set(options, "head-dropout", of_head);
}

/* ---- all of it ---- */

/* Returns what is expected of weights that are not there; free(). "phobert-large" and "vinai/phobert-large" are names
 * of models on huggingface.co. */
static char *expected_weights(const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    OWNED char *folder = xformat("%.*s", (int)n, path);
    const char *name = path_name(folder);
    bool published = !strncmp(name, "phobert", strlen("phobert"));
    return xformat(
        "expected a folder with config.json, pytorch_model.bin or model.safetensors, vocab.txt and bpe.codes, as it is "
        "published at https://huggingface.co/vinai/%s (download these files into %s), or a checkpoint of train_bert",
        published ? name : "phobert-base-v2", folder);
}

/* Dies if the tensors are not those of an encoder of the size that their shapes tell, with or without its classifier.
 */
static void check_tensors(const BertBase *base, const char *option, TensorFile *file) {
    BertConfig config = bert_base_config(base);
    if (config.classes == 1) return; /* a regression, of which at most the encoder is taken */
    config.n_heads = 1;              /* which decides no shape */
    if (!config.classes) config.classes = 2;
    adopt_check_tensors(option, base->options.checkpoint, file, bert_open(&config), &BERT_IMPORT_CLASSIFIER);
}

/* Dies if what the files say is not within the options of the training. */
static void check_options(const BertBase *base) {
    BertOptions values;
    OptionSet rules = {0};
    bert_options_add(&rules, &values, false);
    checkpoint_options_validate(&base->options, &rules);
}

/* Returns what this program has put into the config.json of an export; NULL: nothing. */
static json_t *exported_description(const json_t *config, const char *config_path) {
    json_t *ours = json_object_get(config, BERT_EXPORTED);
    if (ours)
        MUST_OR(description_check(ours, &description_rules, &error), "%s: " BERT_EXPORTED ": %s", config_path,
                error.text);
    return json_incref(ours);
}

char *bert_exported_text(const char *path, const char *option) {
    OWNED char *config_path = NULL;
    json_auto_t *config = hf_config_read(path, &config_path),
                *ours = config ? exported_description(config, config_path) : NULL;
    const char *text = json_string_value(json_object_get(json_object_get(ours, "options"), option));
    return text ? xstrdup(text) : NULL;
}

static void read_base(BertBase *base, const char *path, const char *option) {
    TensorFile file;
    Error error;
    OWNED char *config_path = NULL;
    if (!checkpoint_open_base(path, &file, &error)) {
        char *weights = checkpoint_weights(path), *expected = expected_weights(path);
        bool none = path_is_folder(weights);
        die("%s %s: %s%s%s", option, path, error.text, none ? "; " : "", none ? expected : "");
    }
    json_auto_t *config = hf_config_read(path, &config_path);
    base->description =
        config ? exported_description(config, config_path) : adopt_description(path, &description_rules);
    base->options = checkpoint_options_of(base->description, path, BERT_OPTIONS);
    json_t *shapes = options_of_shapes(option, path, &file);
    if (config) add_roberta(shapes, config_path, config);
    if (base->options.options) {
        check_sizes(config_path, base->options.options, true, shapes);
        json_object_update_missing(shapes, base->options.options);
        json_decref(base->options.options);
    }
    base->options.options = shapes;
    base->options.stated = config || base->description;
    check_options(base);
    base->config = json_incref(config);
    read_classes(base, &file, config);
    read_problem(base);
    base->masked_head = checkpoint_tensor(&file, MASKED_HEAD "dense.weight") != NULL;
    check_tensors(base, option, &file);
    tensor_file_close(&file);
}

static int size_of(const BertBase *base, const char *name) {
    return (int)json_integer_value(json_object_get(base->options.options, name));
}

/* Returns the number of heads: --heads, or the one that goes with these sizes; 0: unknown. */
static int64_t heads_of(const BertBase *base, const OptionSet *set) {
    const Option *given = options_find(set, "heads");
    if (given && options_given(set, "heads")) return *(const int64_t *)given->value;
    return adopt_known_heads(size_of(base, "layers"), size_of(base, "d-model"));
}

/* Adds the number of heads if neither the file nor its config.json tells it. */
static void complete(BertBase *base, const OptionSet *set, const char *option) {
    const char *path = base->options.checkpoint;
    if (!json_object_get(base->options.options, "heads"))
        json_object_set_new(base->options.options, "heads", json_integer(heads_of(base, set)));
    int heads = size_of(base, "heads"), width = size_of(base, "d-model");
    if (!heads)
        die_usage("%s %s: the number of attention heads does not follow from its tensors: give --heads", option, path);
    if (heads < 1 || width % heads)
        die_usage("%s %s: its width %d is no multiple of %d attention heads", option, path, width, heads);
}

BertBase bert_base_read(const char *path, const OptionSet *set) {
    const char *option = options_find(set, "base-checkpoint") ? "--base-checkpoint" : "--checkpoint";
    BertBase base = {.description = NULL};
    if (!path || !checkpoint_exists(path)) return base; /* the one who reads it complains */
    read_base(&base, path, option);
    complete(&base, set, option);
    checkpoint_options_check_given(&base.options, set, unchecked);
    return base;
}

BertBase bert_base_adopt(const TrainOptions *options, OptionSet *set) {
    const char *path = options->base_checkpoint;
    OWNED char *expected = path ? expected_weights(path) : NULL;
    trainer_require_weights(options, set, expected);
    BertBase base = bert_base_read(path, set);
    if (base.options.options) checkpoint_options_adopt(&base.options, set, unchecked);
    return base;
}

BertTextOptions bert_base_texts(const BertBase *base, const OptionSet *set, const BertTextOptions *given) {
    BertTextOptions o = *given;
    const json_t *options = base->options.options, *max_len = json_object_get(options, "max-len"),
                 *normalize = json_object_get(options, "normalize"), *compat = json_object_get(options, "compat");
    int64_t most = size_of(base, "positions") - BERT_FIRST_POSITION;
    if (max_len && !options_given(set, "max-len")) o.max_len = json_integer_value(max_len);
    if (normalize && !options_given(set, "normalize")) o.normalize = json_string_value(normalize);
    if (compat && !options_given(set, "compat")) o.compat = json_is_true(compat);
    if (o.max_len > most && options_given(set, "max-len"))
        die_usage("--max-len %lld: %s has positions for %lld tokens", (long long)o.max_len, base->options.checkpoint,
                  (long long)most);
    if (o.max_len > most) o.max_len = most;
    return o;
}

/* Returns whether the classes have names, and not only numbers. */
static bool are_named(const Classes *classes) {
    char number[16];
    for (int c = 0; c < classes->n; c++) {
        snprintf(number, sizeof number, "%d", c);
        if (strcmp(classes->names[c], number) != 0) return true;
    }
    return false;
}

void bert_base_check_tokenizer(const BertBase *base, const BertTexts *texts) {
    const SpecialIds *ids = &texts->specials;
    const struct {
        const char *name;
        int32_t id;
    } specials[] = {{"bos_token_id", ids->begin},
                    {"eos_token_id", ids->end},
                    {"pad_token_id", ids->pad},
                    {"unk_token_id", ids->unknown}};
    for (size_t i = 0; i < sizeof specials / sizeof *specials && !base->description; i++) {
        const json_t *told = json_object_get(base->config, specials[i].name);
        if (!json_is_integer(told) || specials[i].id < 0 || json_integer_value(told) == specials[i].id) continue;
        const char *file = tokenizer_file(texts->tokenizer);
        die("%s is %lld in the config.json of %s, and in %s this token, %s, is %d: the weights were trained with other "
            "ids%s. Give their own --tokenizer, or correct config.json if that is wrong",
            specials[i].name, (long long)json_integer_value(told), base->options.checkpoint, file,
            tokenizer_piece(texts->tokenizer, specials[i].id), (int)specials[i].id,
            ends_with(file, ".model") ? ", as those of fairseq's models (XLM-R), which are not the ids of their "
                                        "SentencePiece model"
                                      : "");
    }
}

bool bert_base_order_classes(const BertBase *base, Classes *classes, int32_t place[BERT_MAX_CLASSES]) {
    const Classes *own = &base->classes;
    bool moved = false;
    if (own->n != classes->n) return false;
    for (int c = 0; c < own->n; c++) {
        place[c] = classes_at(own, classes->names[c]);
        if (place[c] < 0) return false;
        moved = moved || place[c] != c;
    }
    if (!moved) return false;
    classes_free(classes);
    *classes = classes_of((const char *const *)own->names, own->n);
    OWNED char *names = classes_list(own);
    printf("[Data] the classes are in the order that they have in %s: %s\n", base->options.checkpoint, names);
    return true;
}

void bert_base_refuse_multi_label(const BertBase *base, const char *option, const char *remedy) {
    if (base->multi_label)
        die("%s %s: problem_type is " BERT_MULTI_LABEL
            " in its config.json: each of its classes is decided by itself, and "
            "texts have one class here: %s",
            option, base->options.checkpoint, remedy);
}

void bert_base_check_classes(const BertBase *base, const Classes *classes) {
    static const char remedy[] = "start from the model that it was made of, whose classifier begins anew";
    const Classes *own = &base->classes;
    bool same = own->n == classes->n;
    if (!own->n || !classes->n) return;
    bert_base_refuse_multi_label(base, "--base-checkpoint", remedy);
    for (int c = 0; c < own->n && same; c++) same = !strcmp(own->names[c], classes->names[c]);
    if (same || (own->n == classes->n && !(are_named(own) && are_named(classes)))) return;
    OWNED char *theirs = classes_list(own), *ours = classes_list(classes);
    if (own->n != classes->n)
        die("--base-checkpoint %s: its classifier has %d classes (%s), and the texts have %d (%s): %s",
            base->options.checkpoint, own->n, theirs, classes->n, ours, remedy);
    warn("--base-checkpoint %s: the classes of its classifier are %s, and those of the texts %s: each begins with the "
         "weights of the one in its place; --labels gives them another order",
         base->options.checkpoint, theirs, ours);
}

void bert_base_close(BertBase *base) {
    json_decref(base->description);
    json_decref(base->config);
    json_decref(base->options.options);
    classes_free(&base->classes);
    *base = (BertBase){.description = NULL};
}

BertConfig bert_base_config(const BertBase *base) {
    return (BertConfig){.vocabulary = size_of(base, "vocabulary"),
                        .positions = size_of(base, "positions"),
                        .d_model = size_of(base, "d-model"),
                        .n_layers = size_of(base, "layers"),
                        .n_heads = size_of(base, "heads"),
                        .d_ff = size_of(base, "d-ff"),
                        .classes = base->classes.n};
}
