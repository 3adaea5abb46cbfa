#include "commands/gpt/export_config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

/* Returns the last name of the path of a folder, "b" of "a/b/"; free(). A folder that is gone cannot be written into,
 * and that is where it is noticed. */
static char *last_name(const char *folder) {
    char *whole = realpath(folder, NULL);
    char *name = xstrdup(whole ? strrchr(whole, '/') + 1 : folder);
    free(whole);
    return name;
}

/* Returns NAME/FILE as a quoted text: JSON's are YAML's, too. free() */
static char *quoted(const char *name, const char *file) {
    char *path = path_join(name, file);
    json_t *value = json_build("config.yaml", "s", path);
    char *text = json_text("config.yaml", value, JSON_ENCODE_ANY);
    json_decref(value);
    free(path);
    return text;
}

/* Returns the lines of the section gpt; free(). */
static char *gpt_fields(const GptConfig *c) {
    const struct {
        const char *name;
        int value, published; /* in the config.yaml of IndexTTS2 */
    } fields[] = {{"model_dim", c->d_model, 1280},
                  {"layers", c->n_layers, 24},
                  {"heads", c->n_heads, 20},
                  {"max_text_tokens", c->max_text_tokens, 600},
                  {"max_mel_tokens", c->max_mel_tokens, 1815},
                  {"number_text_tokens", c->text_vocabulary, 12000},
                  {"number_mel_codes", c->mel_codes, 8194},
                  {"start_text_token", GPT_START_TEXT, 0},
                  {"stop_text_token", GPT_STOP_TEXT, 1},
                  {"start_mel_token", c->mel_codes - 2, 8192},
                  {"stop_mel_token", c->mel_codes - 1, 8193}};
    char *lines = xstrdup("");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char was[32] = "";
        if (fields[i].value != fields[i].published) snprintf(was, sizeof was, "  # was %d", fields[i].published);
        char *more = xformat("%s    %s: %d%s\n", lines, fields[i].name, fields[i].value, was);
        free(lines);
        lines = more;
    }
    return lines;
}

char *export_config_text(const GptConfig *config, const char *folder) {
    char *name = last_name(folder), *tokenizer = quoted(name, "bpe.model"), *weights = quoted(name, "gpt.pth"),
         *own = quoted(name, "config.yaml"), *fields = gpt_fields(config);
    char *text = xformat("# Fields of IndexTTS2's config.yaml for this model. Paths are relative to its folder of\n"
                         "# models (model_dir), where this folder belongs. There, make a whole configuration of it:\n"
                         "#\n"
                         "#   from omegaconf import OmegaConf\n"
                         "#   parts = OmegaConf.load(\"config.yaml\"), OmegaConf.load(%s)\n"
                         "#   OmegaConf.save(OmegaConf.merge(*parts), \"config_new.yaml\")\n"
                         "dataset:\n    bpe_model: %s\ngpt:\n%sgpt_checkpoint: %s\n",
                         own, tokenizer, fields, weights);
    char *owned[] = {name, own, tokenizer, weights, fields};
    for (int i = 0; i < 5; i++) free(owned[i]);
    return text;
}
