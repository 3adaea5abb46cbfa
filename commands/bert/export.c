/* train_bert export: a trained model for other programs.
 *
 *   ./train_bert export --checkpoint run --output exported
 *
 * Hugging Face's AutoModelForSequenceClassification (or AutoModelForMaskedLM) and AutoTokenizer read the folder with
 * from_pretrained, and so do all commands of train_bert, for which it has decision.json and how texts become ids. */
#include "commands/bert/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/description.h"
#include "commands/bert/model.h"
#include "commands/export.h"
#include "commands/threshold_decision.h"
#include "commands/trained.h"
#include "data/bert/batch.h"
#include "data/formats/safetensors.h"

typedef struct {
    BertTextOptions text;
    const char *output, *checkpoint, *format;
    int64_t heads;
} BertExportOptions;

#define FIELD(name) offsetof(BertExportOptions, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "checkpoint", .heading = "Model", .type = OPTION_TEXT, .offset = FIELD(checkpoint), .metavar = "PATH", .required = true,
     .help = "folder of a run (its best weights, or the last if it has not validated), a checkpoint, or a file of "
             "weights, also of another program"},
    {.name = "format", .heading = "Files", .type = OPTION_CHOICE, .offset = FIELD(format), .default_value = "hf", .metavar = "hf",
     .help = "hf: RoBERTa's layout with tokenizer, for Hugging Face's transformers"},
    {.name = "heads", .heading = "Model", .type = OPTION_INT, .offset = FIELD(heads), .default_value = "0", .max = 1000, .metavar = "N",
     .help = "attention heads of a model whose file does not tell them; 0: not needed"},
};
// clang-format on

typedef struct {
    const char *checkpoint, *output;
    const BertBase *base;
    const BertTexts *texts;
    const BertTextOptions *rules;
    BertConfig config; /* with the dropout of the training */
    Model *model;
    json_t *decision; /* NULL: there is none */
    float *weights;   /* flat, on the host */
} Export;

/* ---- the weights ---- */

/* Reads the weights. Returns their checksum. */
static uint64_t read_weights(Export *e) {
    static const char *const all[] = {""};
    const ParamTable *params = &e->model->params;
    ImportRules rules = e->config.classes ? BERT_IMPORT_CLASSIFIER : BERT_IMPORT_MASKED;
    CarriedTensors carried;
    ImportReport report;
    rules.only = all, rules.n_only = 1, rules.n_optional = 0; /* everything must be there */
    e->weights = xaligned((size_t)params->flat_count * sizeof(float));
    CheckpointBuffers into = {.table = params, .weights = e->weights};
    MUST_OR(checkpoint_import(e->checkpoint, &into, &rules, &carried, &report, &error), "--checkpoint %s: %s",
            e->checkpoint, error.text);
    printf("[Export] %s: %lld parameters in %d tensors\n", e->checkpoint, (long long)params_count(params),
           report.loaded);
    free(report.missing_names);
    carried_close(&carried);
    return report.sum;
}

/* The decoder of the masked words is the token table and is not stored. */
static bool write_weights(const Export *e, Error *error) {
    static const char *const keys[] = {"format"}, *const values[] = {"pt"};
    const ParamTable *params = &e->model->params;
    OWNED TensorToWrite *tensors = xcalloc((size_t)params->count, sizeof *tensors);
    for (int i = 0; i < params->count; i++) {
        const Param *p = &params->items[i];
        tensors[i] = (TensorToWrite){.name = p->name, .dtype = "F32", .rank = p->rank, .data = e->weights + p->offset};
        memcpy(tensors[i].dims, p->dims, (size_t)p->rank * sizeof *p->dims);
    }
    OWNED char *path = path_join(e->output, "model.safetensors");
    return safetensors_write(path, tensors, params->count, keys, values, 1, error);
}

/* Returns the decision of a classifier, which holds for the same weights under a new checksum; NULL: there is none. */
static json_t *decision_of(const Export *e) {
    ThresholdDecision decision;
    json_t *root = NULL;
    if (e->config.classes) MUST(threshold_decision_read(e->checkpoint, e->config.classes, &decision, &root, &error));
    return root;
}

/* ---- the descriptions ---- */

/* Returns an option of the training, of this export or of the one that is exported again; NULL: unknown. */
static json_t *told_option(const BertBase *base, const char *option) {
    json_t *told = json_incref(json_object_get(base->options.options, option));
    return told ? told : trained_option(base->options.checkpoint, option);
}

/* Returns what the commands of this program read besides RoBERTa's configuration. */
static json_t *own_description(const Export *e) {
    json_t *labels = json_array();
    for (int c = 0; c < e->config.classes; c++) json_array_append_new(labels, json_string(e->base->classes.names[c]));
    json_t *own =
        json_build("config.json", "{s:{s:s, s:b, s:I}, s:o, s:s, s:s}", "options", "normalize", e->rules->normalize,
                   "compat", e->rules->compat, "max-len", (json_int_t)e->rules->max_len, "labels", labels,
                   TOKENIZER_FACT, e->texts->tokenizer_hash, BERT_SEGMENTER_FACT, e->texts->segmenter_hash);
    for (const char *const *name = BERT_COLUMNS; *name; name++) {
        json_auto_t *column = told_option(e->base, *name);
        if (json_is_string(column)) json_object_set(json_object_get(own, "options"), *name, column);
    }
    return own;
}

static void add_classes(json_t *config, const Classes *classes, bool multi_label) {
    json_t *names = json_object(), *ids = json_object();
    for (int c = 0; c < classes->n; c++) {
        char number[16];
        snprintf(number, sizeof number, "%d", c);
        json_object_set_new(names, number, json_string(classes->names[c]));
        json_object_set_new(ids, classes->names[c], json_integer(c));
    }
    json_object_set_new(config, "id2label", names);
    json_object_set_new(config, "label2id", ids);
    json_object_set_new(config, "problem_type",
                        json_string(multi_label ? BERT_MULTI_LABEL : "single_label_classification"));
}

static json_t *config_of(const Export *e) {
    const BertConfig *c = &e->config;
    const SpecialIds *ids = &e->texts->specials;
    json_t *config = json_build(
        "config.json",
        "{s:[s], s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f, s:f, s:f, s:f, s:b, s:i, s:i, s:i, s:s, s:o}",
        "architectures", c->classes ? "RobertaForSequenceClassification" : "RobertaForMaskedLM", "model_type",
        "roberta", "vocab_size", c->vocabulary, "max_position_embeddings", c->positions, "hidden_size", c->d_model,
        "num_hidden_layers", c->n_layers, "num_attention_heads", c->n_heads, "intermediate_size", c->d_ff,
        "type_vocab_size", 1, "hidden_act", "gelu", "layer_norm_eps", 1e-5, "initializer_range", 0.02,
        "hidden_dropout_prob", (double)c->dropout, "attention_probs_dropout_prob", (double)c->dropout,
        "classifier_dropout", (double)c->head_dropout, "tie_word_embeddings", 1, "bos_token_id", ids->begin,
        "eos_token_id", ids->end, "pad_token_id", BERT_PAD, "dtype", "float32", BERT_EXPORTED, own_description(e));
    if (c->classes) add_classes(config, &e->base->classes, e->base->multi_label);
    return config;
}

/* Adds the special tokens by their roles. */
static void add_specials(json_t *object, const BertTexts *texts) {
    const SpecialIds *ids = &texts->specials;
    const struct {
        const char *role;
        int32_t id;
    } roles[] = {{"bos_token", ids->begin},  {"cls_token", ids->begin}, {"eos_token", ids->end},
                 {"sep_token", ids->end},    {"pad_token", ids->pad},   {"mask_token", ids->mask},
                 {"unk_token", ids->unknown}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (roles[i].id >= 0)
            json_object_set_new(object, roles[i].role, json_string(tokenizer_piece(texts->tokenizer, roles[i].id)));
}

/* Returns whether the tokenizer is of a kind that AutoTokenizer does not read. */
static bool is_sentencepiece(const BertTexts *texts) { return ends_with(tokenizer_file(texts->tokenizer), ".model"); }

/* Copies the files of the tokenizer and says how they are used. */
static bool write_tokenizer(const Export *e, Error *error) {
    const char *file = tokenizer_file(e->texts->tokenizer);
    bool fast = ends_with(file, ".json");
    bert_texts_keep(e->texts, e->output);
    if (is_sentencepiece(e->texts)) {
        warn("%s is a SentencePiece model: AutoTokenizer.from_pretrained does not read tokenizer.model; encode texts "
             "with the sentencepiece library",
             file);
        return true;
    }
    json_t *config = json_build("tokenizer_config.json", "{s:s, s:i, s:b}", "tokenizer_class",
                                fast ? "PreTrainedTokenizerFast" : "PhobertTokenizer", "model_max_length",
                                e->config.positions - BERT_FIRST_POSITION, "clean_up_tokenization_spaces", 0);
    json_t *map = json_object();
    add_specials(config, e->texts);
    add_specials(map, e->texts);
    bool ok = export_json(e->output, "tokenizer_config.json", config, error);
    return export_json(e->output, "special_tokens_map.json", map, ok ? error : NULL) && ok;
}

static bool write_hf(const void *context, Error *error) {
    const Export *e = context;
    return write_tokenizer(e, error) && write_weights(e, error) &&
           (!e->decision || decision_write(e->output, json_incref(e->decision), error)) &&
           export_json(e->output, "config.json", config_of(e), error);
}

/* ---- the command ---- */

/* Returns a rate of dropout in the training, which does not decide what the model computes; 0: unknown. */
static float dropout_of(const BertBase *base, const char *option) {
    json_auto_t *told = told_option(base, option);
    return (float)json_number_value(told);
}

int bert_export(int argc, char **argv) {
    static const OptionsHeader header = {"train_bert export", "--checkpoint run --output DIR",
                                         "--checkpoint run --output exported",
                                         "Writes a trained model for other programs."};
    static const char *const kept[] = {"tokenizer", "segment", "max-len", "normalize", "compat", NULL};
    BertExportOptions o = {0};
    OptionSet set = {0};
    bert_text_options_add(&set, &o.text);
    options_keep(&set, 0, kept);
    options_add(&set, table, sizeof table / sizeof *table, &o);
    export_options_add(&set, &o.output);
    options_parse(&header, &set, argc, argv);
    OWNED char *path = trained_checkpoint(o.checkpoint);
    if (access(path, F_OK)) die("--checkpoint %s: %s", path, strerror(errno));
    BertBase base = bert_base_read(path, &set);
    BertTextOptions rules = bert_base_texts(&base, &set, &o.text);
    Export e = {
        .checkpoint = path, .output = o.output, .base = &base, .rules = &rules, .config = bert_base_config(&base)};
    if (!e.config.classes && !base.masked_head)
        die("--checkpoint %s: it has neither a classifier nor the head of a masked language model", path);
    e.decision = decision_of(&e);
    e.config.dropout = dropout_of(&base, "dropout");
    e.config.head_dropout = dropout_of(&base, "head-dropout");
    TokenizedModel model = {path, base.description, e.config.vocabulary};
    BertTexts texts = bert_texts_open(&rules, &model, 1);
    bert_base_check_tokenizer(&base, &texts);
    e.texts = &texts;
    e.model = bert_open(&e.config);
    uint64_t sum = read_weights(&e);
    MUST(export_folder(o.output, sum, write_hf, &e, &error));
    printf("[Export] %s: %s.from_pretrained%s it\n", o.output,
           e.config.classes ? "AutoModelForSequenceClassification" : "AutoModelForMaskedLM",
           is_sentencepiece(&texts) ? " reads" : " and AutoTokenizer.from_pretrained read");
    bert_texts_close(&texts);
    e.model->close(e.model);
    bert_base_close(&base);
    json_decref(e.decision);
    free(e.weights);
    options_free(&set, argc, argv);
    return 0;
}
