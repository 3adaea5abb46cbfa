/* The folder of a GPT2LMHeadModel. Its layers compute x W + b: their matrices are transposed, the square one too, and
 * every layer and norm has a bias. The head is the token table and is not stored. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "commands/export.h"
#include "commands/slm/base.h"
#include "commands/slm/export_formats.h"
#include "commands/trained_tokenizer.h"
#include "data/formats/safetensors.h"

/* ---- the weights ---- */

static TensorToWrite vector(const char *name, int64_t n, const float *data) {
    return (TensorToWrite){.name = name, .dtype = "F32", .rank = 1, .dims = {n}, .data = data};
}

/* Transposes a matrix in place. */
static TensorToWrite transposed(const Param *param, float *data, float *copy) {
    memcpy(copy, data, (size_t)param->count * sizeof *data);
    conventions_transpose(copy, param->rows, param->columns, data);
    return (TensorToWrite){
        .name = param->name, .dtype = "F32", .rank = 2, .dims = {param->columns, param->rows}, .data = data};
}

/* Returns the name of the bias that belongs to a weight; free(). NULL: it has none. */
static char *bias_of(const Param *param) {
    static const char weight[] = ".weight";
    if (strstr(param->name, "transformer.w") || !ends_with(param->name, weight)) return NULL; /* wte, wpe */
    return xformat("%.*s.bias", (int)(strlen(param->name) - strlen(weight)), param->name);
}

static bool write_weights(const SlmExport *e, Error *error) {
    static const char *const keys[] = {"format"}, *const values[] = {"pt"};
    const ParamTable *table = &e->model->params;
    int64_t largest = 4 * (int64_t)e->config.d_model * e->config.d_model, n_zeros = 4 * (int64_t)e->config.d_model;
    OWNED float *copy = xmalloc((size_t)largest * sizeof *copy), *zeros = xcalloc((size_t)n_zeros, sizeof *zeros);
    OWNED TensorToWrite *tensors = xcalloc(2 * (size_t)table->count, sizeof *tensors);
    OWNED char **biases = xcalloc((size_t)table->count, sizeof *biases);
    int n = 0;
    for (int i = 0; i < table->count; i++) {
        const Param *param = &table->items[i];
        float *data = e->weights + param->offset;
        TensorToWrite plain = {.name = param->name,
                               .dtype = "F32",
                               .rank = param->rank,
                               .dims = {param->rows, param->columns},
                               .data = data};
        bool linear = conventions_may_transpose(SLM_IMPORT.conventions, param->name);
        tensors[n++] = linear ? transposed(param, data, copy) : plain;
        if (!e->config.biases && (biases[i] = bias_of(param))) tensors[n++] = vector(biases[i], param->rows, zeros);
    }
    OWNED char *path = path_join(e->output, "model.safetensors");
    bool ok = safetensors_write(path, tensors, n, keys, values, 1, error);
    for (int i = 0; i < table->count; i++) free(biases[i]);
    return ok;
}

/* ---- the special tokens ---- */

enum { BEGIN, END, PAD, UNKNOWN, SPECIALS };
static const char *const roles[SPECIALS] = {"bos_token", "eos_token", "pad_token", "unk_token"};

/* Returns the first of these pieces that the tokenizer has, or -1. */
static int32_t id_of(const Tokenizer *tokenizer, const char *a, const char *b) {
    int32_t id = tokenizer_id(tokenizer, a);
    return id >= 0 ? id : tokenizer_id(tokenizer, b);
}

/* Finds the special tokens; -1: there is none. A text begins with the end of the one before it, unless the tokenizer
 * has a token for it. */
static void find_specials(const Tokenizer *tokenizer, int32_t ids[SPECIALS]) {
    ids[END] = tokenizer_end_of_text(tokenizer);
    ids[BEGIN] = id_of(tokenizer, "<|startoftext|>", "<s>");
    if (ids[BEGIN] < 0) ids[BEGIN] = ids[END];
    ids[PAD] = id_of(tokenizer, "<|pad|>", "<pad>");
    ids[UNKNOWN] = tokenizer_unknown_id(tokenizer);
    if (ids[UNKNOWN] < 0) ids[UNKNOWN] = id_of(tokenizer, "<|unk|>", "<unk>");
}

/* Adds "eos_token_id" and so on, of the first n roles. */
static void set_ids(json_t *object, const int32_t *ids, int n) {
    for (int i = 0; i < n; i++) {
        OWNED char *name = xformat("%s_id", roles[i]);
        if (ids[i] >= 0) json_object_set_new(object, name, json_integer(ids[i]));
    }
}

static void set_pieces(json_t *object, const Tokenizer *tokenizer, const int32_t *ids) {
    for (int i = 0; i < SPECIALS; i++)
        if (ids[i] >= 0) json_object_set_new(object, roles[i], json_string(tokenizer_piece(tokenizer, ids[i])));
}

/* ---- the descriptions ---- */

static json_t *config_of(const SlmExport *e, const int32_t *ids) {
    const SlmConfig *c = &e->config;
    double dropout = (double)c->dropout;
    json_t *config = json_build(
        "config.json", "{s:[s], s:s, s:s, s:f, s:b, s:b, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:s}",
        "architectures", "GPT2LMHeadModel", "model_type", "gpt2", "activation_function",
        c->gelu == GELU_ERF ? "gelu" : "gelu_new", "layer_norm_epsilon", 1e-5, "tie_word_embeddings", 1,
        "scale_attn_weights", 1, "n_positions", c->context, "n_ctx", c->context, "n_embd", c->d_model, "n_layer",
        c->n_layers, "n_head", c->n_heads, "vocab_size", c->vocabulary, "attn_pdrop", dropout, "embd_pdrop", dropout,
        "resid_pdrop", dropout, "initializer_range", 0.02, "dtype", "float32");
    set_ids(config, ids, PAD + 1);
    return config;
}

/* Copies tokenizer.json and says how it is used. Of a SentencePiece model there is no such file. */
static bool write_tokenizer(const SlmExport *e, const int32_t *ids, Error *error) {
    const char *from = tokenizer_file(e->tokenizer);
    bool ours = !strcmp(tokenizer_name(e->tokenizer), "tokenizer.json");
    bool ok = tokenizer_copy(e->tokenizer, e->output, error);
    if (tokenizer_is_of_characters(e->tokenizer))
        warn("%s is a table of characters: AutoTokenizer.from_pretrained does not read meta.pkl; encode texts with its "
             "\"stoi\"",
             from);
    else if (!ours)
        warn("%s is a SentencePiece model: AutoTokenizer.from_pretrained does not read tokenizer.model; encode texts "
             "with the sentencepiece library",
             from);
    if (!ok || !ours) return ok;
    json_t *config =
        json_build("tokenizer_config.json", "{s:s, s:i, s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                   "model_max_length", e->config.context, "clean_up_tokenization_spaces", 0);
    json_t *map = json_object();
    set_pieces(config, e->tokenizer, ids);
    set_pieces(map, e->tokenizer, ids);
    ok = export_json(e->output, "tokenizer_config.json", config, error);
    return export_json(e->output, "special_tokens_map.json", map, ok ? error : NULL) && ok;
}

bool slm_export_gpt2(const void *context, Error *error) {
    const SlmExport *e = context;
    int32_t ids[SPECIALS];
    find_specials(e->tokenizer, ids);
    json_t *generation = json_object();
    set_ids(generation, ids, PAD + 1);
    return export_json(e->output, "generation_config.json", generation, error) && write_tokenizer(e, ids, error) &&
           write_weights(e, error) && export_json(e->output, "config.json", config_of(e, ids), error);
}
