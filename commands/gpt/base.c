#include "commands/gpt/base.h"

#include <limits.h>

#include "base/program.h"
#include "model/block.h"
#include "model/gpt.h"

const char *const GPT_MODEL_OPTIONS[] = {"number-text-tokens", "model-dim",      "layers",           "heads",
                                         "max-text-tokens",    "max-mel-tokens", "number-mel-codes", NULL};
static const char *const *const size_options = GPT_MODEL_OPTIONS + 1; /* without the vocabulary */

static const FactRule facts[] = {
    {GPT_TOKENIZER_FACT, 0, 0}, {GPT_CODES_FACT, 0, 0}, {GPT_CODEBOOK_FACT, 0, 0}, {NULL, 0, 0}};
static const DescriptionRules description_rules = {.model = "tts_gpt", .facts = facts};

/* Masks are among the tensors of files that an old transformers wrote. IndexTTS 1 and 1.5 have no emotions, 2.5 has
 * embeddings of languages and of speakers in place of encoders. */
static const char *const text_tables[] = {"text_embedding.weight", "text_head.weight", "text_head.bias"};
static const char *const encoders[] = {"conditioning_encoder.",  "perceiver_encoder.", "emo_conditioning_encoder.",
                                       "emo_perceiver_encoder.", "emo_layer.",         "emovec_layer."};
static const char *const masks[] = {".attn.bias", ".attn.masked_bias", NULL};
static const ImportConventions conventions = {.constants = masks};
static const char gpt_of_2[] = "the gpt.pth of IndexTTS2";
static const OtherModel others[] = {{"lang_embedding.", NULL, "IndexTTS 2.5", gpt_of_2},
                                    {"spk_emb_proj.", NULL, "IndexTTS 2.5", gpt_of_2},
                                    {"perceiver_encoder.", "emo_layer.", "IndexTTS 1 or 1.5", gpt_of_2}};
#define COUNT(array) (int)(sizeof(array) / sizeof *(array))
const ImportRules GPT_IMPORT = {.resizable = text_tables,
                                .n_resizable = COUNT(text_tables),
                                .extra = encoders,
                                .n_extra = COUNT(encoders),
                                .others = others,
                                .n_others = COUNT(others),
                                .conventions = &conventions};

/* IndexTTS2's size. */
enum { LAYERS = 24, DIM = 1280, HEADS = 20 };

/* Returns the options as a config.json would have them. */
static json_t *options_of_shapes(const TensorFile *file) {
    json_t *options = json_object();
    int64_t layers = adopt_count_layers(file, "", "gpt.h.", ".ln_1.weight"),
            dim = adopt_dimension(file, "", "mel_embedding.weight", 1);
    adopt_set_number(options, "model-dim", dim);
    adopt_set_number(options, "layers", layers);
    adopt_set_number(options, "heads", layers == LAYERS && dim == DIM ? HEADS : 0);
    adopt_set_number(options, "number-text-tokens", adopt_dimension(file, "", "text_embedding.weight", 0) - 1);
    adopt_set_number(options, "max-text-tokens", adopt_dimension(file, "", "text_pos_embedding.emb.weight", 0) - 2);
    adopt_set_number(options, "max-mel-tokens", adopt_dimension(file, "", "mel_pos_embedding.emb.weight", 0) - 3);
    adopt_set_number(options, "number-mel-codes", adopt_dimension(file, "", "mel_embedding.weight", 0));
    return options;
}

/* Returns the sizes' types and ranges, which are those of train_gpt's options with these names. */
static OptionSet size_rules(void) {
    static int64_t unused;
    static const OptionRow rows[] = {
        {.name = "model-dim", .type = OPTION_INT, .min = 8, .max = 65536},
        {.name = "layers", .type = OPTION_INT, .min = 1, .max = BLOCKS_MAX},
        {.name = "heads", .type = OPTION_INT, .min = 1, .max = 1000},
        {.name = "max-text-tokens", .type = OPTION_INT, .min = 1, .max = 1e6},
        {.name = "max-mel-tokens", .type = OPTION_INT, .min = 1, .max = 1e6},
        {.name = "number-text-tokens", .type = OPTION_INT, .min = 2, .max = 1e9},
        {.name = "number-mel-codes", .type = OPTION_INT, .min = 3, .max = 1e9},
    };
    OptionSet rules = {0};
    options_add(&rules, rows, COUNT(rows), &unused);
    return rules;
}

static int size_of(const json_t *shapes, const char *name) {
    json_int_t size = json_integer_value(json_object_get(shapes, name));
    return size > 0 && size < INT_MAX ? (int)size : 0;
}

/* Dies if the tensors are not those of a model of the size that their shapes tell. */
static void check_tensors(const GptBase *base, const char *option, const json_t *shapes, TensorFile *file) {
    GptConfig config = {.d_model = size_of(shapes, "model-dim"),
                        .n_layers = size_of(shapes, "layers"),
                        .n_heads = 1, /* which decides no shape */
                        .text_vocabulary = size_of(shapes, "number-text-tokens"),
                        .mel_codes = size_of(shapes, "number-mel-codes"),
                        .max_text_tokens = size_of(shapes, "max-text-tokens"),
                        .max_mel_tokens = size_of(shapes, "max-mel-tokens"),
                        .text_weight = 1};
    if (!config.d_model || !config.n_layers || !config.text_vocabulary || !config.mel_codes ||
        !config.max_text_tokens || !config.max_mel_tokens)
        die("%s %s: expected the tensors text_embedding.weight, mel_embedding.weight, text_pos_embedding.emb.weight, "
            "mel_pos_embedding.emb.weight and gpt.h.0.ln_1.weight: it is no model that train_gpt reads",
            option, base->size.checkpoint);
    adopt_check_tensors(option, base->size.checkpoint, file, gpt_open(&config), &GPT_IMPORT);
}

/* Reads the sizes of a checkpoint without config.json, and checks the tensors of any. */
static void read_shapes(GptBase *base, const char *option, bool check) {
    TensorFile file;
    MUST_OR(checkpoint_open_base(base->size.checkpoint, &file, &error), "%s %s: %s", option, base->size.checkpoint,
            error.text);
    json_auto_t *shapes = options_of_shapes(&file);
    if (!base->description) {
        base->size.options = json_incref(shapes);
        base->ours = checkpoint_base_sum(&file) != 0;
    }
    if (check) check_tensors(base, option, shapes, &file);
    tensor_file_close(&file);
}

static GptBase read_base(const char *checkpoint, const char *option, bool heads_given, bool check) {
    json_t *description = adopt_description(checkpoint, &description_rules);
    GptBase base = {.description = description,
                    .ours = description != NULL,
                    .size = checkpoint_options_of(description, checkpoint, size_options)};
    if (!description || check) read_shapes(&base, option, check);
    const OptionSet rules = size_rules();
    checkpoint_options_validate(&base.size, &rules);
    if (json_object_get(base.size.options, "layers") && !json_object_get(base.size.options, "heads") && !heads_given)
        die_usage("%s %s: the number of attention heads does not follow from the shapes of its tensors: give --heads",
                  option, checkpoint);
    return base;
}

GptBase gpt_base_read(const char *checkpoint, const char *option, bool heads_given) {
    return read_base(checkpoint, option, heads_given, false);
}

void gpt_base_close(GptBase *base) {
    json_decref(base->description);
    json_decref(base->size.options);
    *base = (GptBase){.ours = false};
}

GptBase gpt_base_adopt(const char *checkpoint, OptionSet *set) {
    if (!checkpoint || !checkpoint_exists(checkpoint))
        return (GptBase){.ours = false}; /* the one who reads it complains */
    GptBase base = read_base(checkpoint, "--base-checkpoint", options_given(set, "heads"), true);
    checkpoint_options_adopt(&base.size, set, NULL);
    return base;
}
