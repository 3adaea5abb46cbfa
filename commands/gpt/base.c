#include "commands/gpt/base.h"

#include <stdio.h>
#include <unistd.h>

#include "base/program.h"
#include "checkpoint/load.h"
#include "commands/adopt.h"

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
    set_number(options, "max-text-tokens", dimension(file, "text_pos_embedding.emb.weight", 0) - 2);
    set_number(options, "max-mel-tokens", dimension(file, "mel_pos_embedding.emb.weight", 0) - 3);
    set_number(options, "number-mel-codes", dimension(file, "mel_embedding.weight", 0));
    return options;
}

void gpt_base_adopt(const char *checkpoint, OptionSet *set) {
    TensorFile file;
    Error error;
    if (access(checkpoint, F_OK)) return; /* the one who reads it complains */
    CheckpointOptions from = checkpoint_options_read(checkpoint, "tts_gpt", size_options);
    if (!from.options) {
        if (!checkpoint_open_base(checkpoint, &file, &error)) die("--base-checkpoint %s: %s", checkpoint, error.text);
        from.options = options_of_shapes(&file);
        tensor_file_close(&file);
        if (json_object_get(from.options, "layers") && !json_object_get(from.options, "heads") &&
            !options_given(set, "heads"))
            die_usage("--base-checkpoint %s: the number of attention heads does not follow from the shapes of its "
                      "tensors: give --heads",
                      checkpoint);
    }
    checkpoint_options_adopt(&from, set, NULL);
    json_decref(from.options);
}
