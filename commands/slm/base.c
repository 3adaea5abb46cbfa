#include "commands/slm/base.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/program.h"
#include "checkpoint/description.h"
#include "commands/hf_config.h"
#include "commands/slm/options.h"
#include "commands/trained_tokenizer.h"

const char *const SLM_MODEL_OPTIONS[] = {"vocabulary", "d-model", "layers", "heads", "context", "biases", "gelu", NULL};

#define ROOT "transformer."

/* GPT-2's layers compute x W + b, those of all others x W^T + b. Old files of GPT-2 hold the mask of attention. */
static const char *const linears[] = {".attn.c_attn.weight", ".attn.c_proj.weight", ".mlp.c_fc.weight",
                                      ".mlp.c_proj.weight", NULL};
static const char *const masks[] = {".attn.bias", ".attn.masked_bias", NULL};
static const char *const positions[] = {"transformer.wpe.weight"}, *const roots[] = {ROOT};
static const NamePair head[] = {{"lm_head.weight", "transformer.wte.weight"}, {NULL, NULL}};
static const ImportConventions conventions = {
    .root = ROOT, .transposed = linears, .constants = masks, .copies = head, .biases = "biases"};
const ImportRules SLM_IMPORT = {
    .resizable = positions, .n_resizable = 1, .only = roots, .n_only = 1, .conventions = &conventions};

/* ---- options ---- */

#define FIELD(name) offsetof(SlmSource, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "checkpoint", .heading = "Model", .type = OPTION_TEXT, .offset = FIELD(checkpoint), .metavar = "PATH", .required = true,
     .help = "folder of a run (its best weights, or the last if it has not validated), a checkpoint, or a file of "
             "weights, also of another program"},
    {.name = "tokenizer", .type = OPTION_TEXT, .offset = FIELD(tokenizer), .metavar = "PATH",
     .help = "tokenizer.json or SentencePiece model of the training, or its folder; default: the one in the folder of "
             "the run"},
    {.name = "heads", .type = OPTION_INT, .offset = FIELD(heads), .default_value = "0", .max = 1000, .metavar = "N",
     .help = "attention heads of a model whose file does not tell them; 0: not needed"},
    {.name = "gelu", .type = OPTION_CHOICE, .offset = FIELD(gelu), .default_value = "erf", .metavar = "erf|tanh",
     .help = "kind of GELU of a model whose file does not tell it"},
};
// clang-format on

void slm_source_options(OptionSet *set, SlmSource *source) {
    options_add(set, table, sizeof table / sizeof *table, source);
}

/* ---- the tensors ---- */

/* Sets biases as the tensors have them. Biases of zeros may be those of a model without any, so they decide nothing. */
static void set_biases(json_t *options, const TensorFile *file, int64_t layers) {
    static const char *const names[] = {"ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"};
    const StoredTensor *last = adopt_tensor(file, ROOT, "ln_f.bias");
    bool any = last && !tensor_is_zero(last);
    for (int64_t i = 0; i < 6 * layers && !any; i++) {
        char name[64];
        snprintf(name, sizeof name, "h.%lld.%s.bias", (long long)(i / 6), names[i % 6]);
        const StoredTensor *bias = adopt_tensor(file, ROOT, name);
        any = bias && !tensor_is_zero(bias);
    }
    if (any || !last) json_object_set_new(options, "biases", json_boolean(any));
}

/* Returns the options that follow from the shapes of a file, which must have the tensors of the model. */
static json_t *options_of_shapes(const char *option, const char *path, const TensorFile *file) {
    int64_t layers = adopt_count_layers(file, ROOT, "h.", ".ln_1.weight"),
            width = adopt_dimension(file, ROOT, "wte.weight", 1),
            vocabulary = adopt_dimension(file, ROOT, "wte.weight", 0),
            context = adopt_dimension(file, ROOT, "wpe.weight", 0);
    if (layers < 1 || width < 1 || width > INT_MAX || context < 1 || context > INT_MAX || vocabulary < 1 ||
        vocabulary > INT_MAX)
        die("%s %s: expected the tensors transformer.wte.weight, transformer.wpe.weight and "
            "transformer.h.0.ln_1.weight: it is no model that train_slm reads",
            option, path);
    json_t *options = json_build(path, "{s:I, s:I, s:I, s:I}", "vocabulary", (json_int_t)vocabulary, "d-model",
                                 (json_int_t)width, "layers", (json_int_t)layers, "context", (json_int_t)context);
    adopt_set_number(options, "heads", adopt_known_heads(layers, width));
    set_biases(options, file, layers);
    return options;
}

/* ---- what lies beside the tensors ---- */

/* Adds what the configuration of a GPT-2 says beyond the shapes. */
static void add_gpt2(json_t *options, const char *path, const json_t *config) {
    static const struct {
        const char *theirs, *ours;
    } activations[] = {{"gelu", "erf"}, {"gelu_new", "tanh"}, {"gelu_pytorch_tanh", "tanh"}};
    const char *gelu = NULL, *activation = json_string_value(json_object_get(config, "activation_function"));
    hf_config_check_type(path, config, "gpt2");
    if (!activation) activation = "gelu_new"; /* the default of that class */
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (!strcmp(activation, activations[i].theirs)) gelu = activations[i].ours;
    if (!gelu) die("%s: activation_function is %s; gelu, gelu_new and gelu_pytorch_tanh are known", path, activation);
    hf_config_check(path, config, "layer_norm_epsilon", 1e-5);
    hf_config_check(path, config, "scale_attn_weights", 1);
    hf_config_check(path, config, "scale_attn_by_inverse_layer_idx", 0);
    json_t *heads = json_object_get(config, "n_head");
    json_object_set_new(options, "heads", heads ? json_incref(heads) : json_integer(12));
    json_object_set_new(options, "gelu", json_string(gelu));
}

/* Reads the options of a checkpoint of another program, or of one of ours without config.json. */
static void read_other(SlmBase *base, const TensorFile *file, const json_t *config, const char *config_path) {
    const char *heads = tensor_file_metadata(file, "model_args.n_head");
    json_t *options = base->size.options;
    const StoredTensor *fused = adopt_tensor(file, ROOT, "h.0.attn.c_attn.weight");
    bool transposed = fused && fused->rank == 2 && fused->dims[0] < fused->dims[1];
    if (heads) json_object_set_new(options, "heads", json_integer(strtoll(heads, NULL, 10)));
    if (config && !heads)
        add_gpt2(options, config_path, config);
    else if (!transposed && !checkpoint_base_sum(file)) /* nanoGPT's and the reference's have no other */
        json_object_set_new(options, "gelu", json_string("erf"));
    base->size.stated = config && !heads;
}

/* ---- all of it ---- */

/* Dies if the tensors are not those of a model of the size that their shapes tell. */
static void check_tensors(const SlmBase *base, const char *option, TensorFile *file) {
    SlmConfig config = slm_base_config(base);
    config.n_heads = 1; /* which decides no shape */
    adopt_check_tensors(option, base->size.checkpoint, file, slm_open(&config), &SLM_IMPORT);
}

/* Dies if what the files say is not within the options of the training, or a size is not that of the tensors. */
static void check_options(const SlmBase *base, const json_t *shapes) {
    SlmOptions values;
    OptionSet rules = {0};
    const char *name;
    const json_t *found;
    slm_options_add(&rules, &values);
    checkpoint_options_validate(&base->size, &rules);
    json_object_foreach((json_t *)(uintptr_t)shapes, name, found) {
        const json_t *is = json_object_get(base->size.options, name);
        if (json_is_integer(found) && is && !json_equal(is, found) && strcmp(name, "heads") != 0)
            die("the config.json of %s: %s is %lld, and in the tensors beside it %lld: they are of two models",
                base->size.checkpoint, name, (long long)json_integer_value(is), (long long)json_integer_value(found));
    }
}

/* Returns the last id of a model's vocabulary. */
static int64_t last_id(const TensorFile *file) {
    int64_t vocabulary = adopt_dimension(file, ROOT, "wte.weight", 0);
    return (vocabulary > 0 && vocabulary < INT_MAX ? vocabulary : INT_MAX) - 1;
}

static void read_base(SlmBase *base, const char *path, const char *option) {
    TensorFile file;
    OWNED char *config_path = NULL;
    MUST_OR(checkpoint_open_base(path, &file, &error), "%s %s: %s", option, path, error.text);
    json_auto_t *config = hf_config_read(path, &config_path);
    if (!config && !tensor_file_metadata(&file, "model_args.n_head")) {
        const FactRule facts[] = {{SLM_FIRST_FACT, -1, last_id(&file)}, {TOKENIZER_FACT, 0, 0}, {NULL, 0, 0}};
        base->description = adopt_description(path, &(DescriptionRules){.model = "slm", .facts = facts});
    }
    base->size = checkpoint_options_of(base->description, path, SLM_MODEL_OPTIONS);
    json_auto_t *shapes = options_of_shapes(option, path, &file);
    if (base->size.options) {
        json_object_update_missing(base->size.options, shapes);
    } else {
        base->size.options = json_copy(shapes);
        read_other(base, &file, config, config_path);
    }
    check_options(base, shapes);
    check_tensors(base, option, &file);
    tensor_file_close(&file);
}

/* Takes a given option that the file does not tell; dies if it is not given. */
static void complete(SlmBase *base, const OptionSet *set, const char *option, const char *name, const char *what) {
    if (json_object_get(base->size.options, name)) return;
    if (!options_given(set, name))
        die_usage("%s %s: %s does not follow from its tensors: give --%s", option, base->size.checkpoint, what, name);
    json_object_set_new(base->size.options, name, option_to_json(options_find(set, name)));
}

SlmBase slm_base_adopt(const char *path, OptionSet *set) {
    static const char *const unchecked[] = {"context", NULL};
    const char *option = options_find(set, "base-checkpoint") ? "--base-checkpoint" : "--checkpoint";
    SlmBase base = {.description = NULL};
    if (!path || !checkpoint_exists(path)) return base; /* the one who reads it complains */
    read_base(&base, path, option);
    complete(&base, set, option, "heads", "the number of attention heads");
    complete(&base, set, option, "gelu", "the kind of GELU");
    checkpoint_options_adopt(&base.size, set, unchecked);
    return base;
}

void slm_base_close(SlmBase *base) {
    json_decref(base->description);
    json_decref(base->size.options);
    *base = (SlmBase){.description = NULL};
}

SlmConfig slm_base_config(const SlmBase *base) {
    const json_t *options = base->size.options;
    const char *gelu = json_string_value(json_object_get(options, "gelu"));
    return (SlmConfig){.vocabulary = (int)json_integer_value(json_object_get(options, "vocabulary")),
                       .context = (int)json_integer_value(json_object_get(options, "context")),
                       .d_model = (int)json_integer_value(json_object_get(options, "d-model")),
                       .n_layers = (int)json_integer_value(json_object_get(options, "layers")),
                       .n_heads = (int)json_integer_value(json_object_get(options, "heads")),
                       .biases = json_is_true(json_object_get(options, "biases")),
                       .gelu = gelu && !strcmp(gelu, "erf") ? GELU_ERF : GELU_TANH};
}

Tokenizer *slm_base_tokenizer(const SlmBase *base, const char *given) {
    TokenizedModel model = {base->size.checkpoint, base->description, slm_base_config(base).vocabulary};
    return trained_tokenizer(&model, given);
}
