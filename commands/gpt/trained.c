#include "commands/gpt/trained.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/program.h"
#include "commands/gpt/origin.h"
#include "commands/trained.h"
#include "data/gpt/prepare_outputs.h"

#define FIELD(name) offsetof(GptTrainedOptions, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "checkpoint", .heading = "Model", .type = OPTION_TEXT, .offset = FIELD(checkpoint), .metavar = "PATH", .required = true,
     .help = "folder of a run (its best weights, or the last if it has not validated), a checkpoint, or a file of "
             "weights"},
    {.name = "tokenizer", .type = OPTION_TEXT, .offset = FIELD(tokenizer), .metavar = "PATH",
     .help = "SentencePiece model of the training; default: where the training found it"},
    {.name = "heads", .type = OPTION_INT, .offset = FIELD(heads), .default_value = "0", .max = 1000, .metavar = "N",
     .help = "attention heads of a checkpoint that has neither a config.json nor IndexTTS2's size; 0: not needed"},
};
// clang-format on

void gpt_trained_options_add(OptionSet *set, GptTrainedOptions *options) {
    options_add(set, table, sizeof table / sizeof *table, options);
}

/* ---- the checkpoint ---- */

/* Returns a size of the model; dies if the checkpoint does not tell it. */
static int size_of(const GptTrained *t, const char *name) {
    json_int_t size = json_integer_value(json_object_get(t->says.size.options, name));
    if (size > 0 && size < INT_MAX) return (int)size;
    die("--checkpoint %s: neither a config.json nor its tensors (text_embedding.weight, gpt.h.0.ln_1.weight, ...) tell "
        "%s, so it is no model of train_gpt",
        t->path, name);
}

/* Returns the number of heads, which shapes do not always tell. */
static int heads_of(const GptTrained *t, int64_t given, int width) {
    json_auto_t *number = json_integer((json_int_t)given);
    if (given) checkpoint_options_check(&t->says.size, "heads", number, NULL);
    int heads = given ? (int)given : size_of(t, "heads");
    if (width % heads) die_usage("--heads %d does not divide the width of the model, %d", heads, width);
    return heads;
}

static GptConfig config_of(const GptTrained *t, int64_t heads) {
    int width = size_of(t, "model-dim");
    return (GptConfig){.d_model = width,
                       .n_layers = size_of(t, "layers"),
                       .n_heads = heads_of(t, heads, width),
                       .text_vocabulary = size_of(t, "number-text-tokens"),
                       .mel_codes = size_of(t, "number-mel-codes"),
                       .max_text_tokens = size_of(t, "max-text-tokens"),
                       .max_mel_tokens = size_of(t, "max-mel-tokens"),
                       .text_weight = 1,
                       .mel_weight = 1};
}

GptTrained gpt_trained_read(const GptTrainedOptions *options) {
    GptTrained t = {.path = trained_checkpoint(options->checkpoint)};
    t.says = gpt_base_read(t.path, "--checkpoint", options->heads > 0);
    t.config = config_of(&t, options->heads);
    return t;
}

void gpt_trained_close(GptTrained *t) {
    gpt_base_close(&t->says);
    free(t->path);
}

/* ---- what it was trained with ---- */

const char *gpt_trained_fact(const GptTrained *t, const char *name) {
    return json_string_value(json_object_get(t->says.description, name));
}

char *gpt_trained_manifest(const GptTrained *t) {
    json_auto_t *manifests = trained_option(t->path, "manifest");
    const char *spec = json_string_value(json_array_get(manifests, 0));
    OWNED char *label = NULL;
    char *path = NULL;
    if (spec) file_split_label(spec, &path, &label);
    return path;
}

/* Dies if a file is not the one of the training, by its checksum. */
static void check_sum(const GptTrained *t, const char *path, const char *what, const char *fact) {
    const char *sum = gpt_trained_fact(t, fact);
    FileSum found = gpt_file_sum(path);
    if (sum && strcmp(sum, found.text) != 0)
        die("%s is not the %s that %s was trained with: its xxh3_64 is %s, not %s; give that one with --%s", path, what,
            t->path, found.text, sum, what);
}

char *gpt_trained_tokenizer(const GptTrained *t, const char *given) {
    char *known = given ? xstrdup(given) : trained_text(t->path, "tokenizer");
    if (!known)
        die_usage("--checkpoint %s does not say which tokenizer it was trained with: give --tokenizer", t->path);
    if (!given && access(known, F_OK) != 0)
        die_usage("the tokenizer of the training, %s as seen from where it was started, is not there: give --tokenizer",
                  known);
    SentencePiece *tokenizer = gpt_tokenizer_open(known);
    if (sentencepiece_vocabulary(tokenizer) != t->config.text_vocabulary)
        die("%s has %d pieces, and %s was trained with %d: give its own with --tokenizer", known,
            sentencepiece_vocabulary(tokenizer), t->path, t->config.text_vocabulary);
    sentencepiece_close(tokenizer);
    check_sum(t, known, "tokenizer", GPT_TOKENIZER_FACT);
    return known;
}

char *gpt_trained_codebook(const GptTrained *t, const char *given) {
    OWNED char *manifest = given ? NULL : gpt_trained_manifest(t);
    char *path = given ? xstrdup(given) : NULL;
    if (manifest) {
        OWNED char *folder = path_directory(manifest);
        path = prepare_output_path(folder, OUTPUT_CODEBOOK);
        if (access(path, F_OK) != 0)
            die_usage("the codebook of the training, %s as seen from where it was started, is not there: give "
                      "--codebook",
                      path);
    }
    if (path) check_sum(t, path, "codebook", GPT_CODEBOOK_FACT);
    return path;
}
