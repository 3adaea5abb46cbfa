#include "commands/gpt/base.h"

#include <stdio.h>

#include "base/program.h"
#include "checkpoint/description.h"
#include "checkpoint/load.h"

const char *const GPT_MODEL_OPTIONS[] = {"number-text-tokens", "model-dim",      "layers",           "heads",
                                         "max-text-tokens",    "max-mel-tokens", "number-mel-codes", NULL};
static const char *const *const size_options = GPT_MODEL_OPTIONS + 1; /* without the vocabulary */

/* IndexTTS2's size. */
enum { LAYERS = 24, DIM = 1280, HEADS = 20 };

static int64_t dimension(const TensorFile *file, const char *name, int axis) {
    const StoredTensor *t = checkpoint_tensor(file, name);
    return t && t->rank > axis ? t->dims[axis] : 0;
}

static void set_number(json_t *options, const char *name, int64_t value) {
    if (value > 0) json_object_set_new(options, name, json_integer((json_int_t)value));
}

/* Returns the options as a config.json would have them. */
static json_t *options_of_shapes(const TensorFile *file) {
    json_t *options = json_object();
    int64_t layers = 0, dim = dimension(file, "mel_embedding.weight", 1);
    for (char name[64]; layers < 1000; layers++) {
        snprintf(name, sizeof name, "gpt.h.%lld.ln_1.weight", (long long)layers);
        if (!checkpoint_tensor(file, name)) break;
    }
    set_number(options, "model-dim", dim);
    set_number(options, "layers", layers);
    set_number(options, "heads", layers == LAYERS && dim == DIM ? HEADS : 0);
    set_number(options, "number-text-tokens", dimension(file, "text_embedding.weight", 0) - 1);
    set_number(options, "max-text-tokens", dimension(file, "text_pos_embedding.emb.weight", 0) - 2);
    set_number(options, "max-mel-tokens", dimension(file, "mel_pos_embedding.emb.weight", 0) - 3);
    set_number(options, "number-mel-codes", dimension(file, "mel_embedding.weight", 0));
    return options;
}

/* Reads the sizes of a checkpoint without config.json. */
static void read_shapes(GptBase *base, const char *option) {
    TensorFile file;
    Error error;
    if (!checkpoint_open_base(base->size.checkpoint, &file, &error))
        die("%s %s: %s", option, base->size.checkpoint, error.text);
    base->size.options = options_of_shapes(&file);
    base->ours = checkpoint_base_sum(&file) != 0;
    tensor_file_close(&file);
}

GptBase gpt_base_read(const char *checkpoint, const char *option, bool heads_given) {
    Error error;
    json_t *description = description_read(checkpoint, &error);
    if (!description && error.text[0]) die("%s", error.text);
    GptBase base = {.description = description,
                    .ours = description != NULL,
                    .size = checkpoint_options_of(description, checkpoint, "tts_gpt", size_options)};
    if (!description) read_shapes(&base, option);
    if (json_object_get(base.size.options, "layers") && !json_object_get(base.size.options, "heads") && !heads_given)
        die_usage("%s %s: the number of attention heads does not follow from the shapes of its tensors: give --heads",
                  option, checkpoint);
    return base;
}

void gpt_base_close(GptBase *base) {
    json_decref(base->description);
    json_decref(base->size.options);
    *base = (GptBase){.ours = false};
}

GptBase gpt_base_adopt(const char *checkpoint, OptionSet *set) {
    if (!checkpoint || !checkpoint_exists(checkpoint))
        return (GptBase){.ours = false}; /* the one who reads it complains */
    GptBase base = gpt_base_read(checkpoint, "--base-checkpoint", options_given(set, "heads"));
    checkpoint_options_adopt(&base.size, set, NULL);
    return base;
}
