/* train_gpt export: a trained model for the inference of IndexTTS2.
 *
 *   ./train_gpt export --checkpoint run --output amharic
 *
 *   amharic/gpt.pth       state dict for torch.load and load_state_dict(strict=True), under the reference's names
 *   amharic/bpe.model     the tokenizer of the training
 *   amharic/config.yaml   the fields of IndexTTS2's config.yaml that belong to this model
 *   amharic/config.json   that of the checkpoint, if it has one
 *
 * The reference's model has encoders that are not trained: of the prompt's voice and of its emotion. A checkpoint has
 * them if its training started from IndexTTS2's weights; otherwise --base-checkpoint adds them. */
#include "commands/gpt/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "checkpoint/folder.h"
#include "checkpoint/load.h"
#include "commands/export.h"
#include "commands/gpt/origin.h"
#include "commands/gpt/trained.h"
#include "data/formats/pickle.h"
#include "data/formats/torch_pth.h"

typedef struct {
    GptTrainedOptions trained;
    const char *output, *base_checkpoint;
} GptExportOptions;

#define FIELD(name) offsetof(GptExportOptions, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "base-checkpoint", .heading = "Model", .type = OPTION_TEXT, .offset = FIELD(base_checkpoint), .metavar = "PATH",
     .help = "IndexTTS2's gpt.pth, for the encoders that a checkpoint trained from scratch lacks"},
};
// clang-format on

typedef struct {
    const GptExportOptions *options;
    GptTrained trained;
    TensorFile weights, base;
    char *tokenizer;
    Model *model;
    bool whole;                   /* with the encoders */
    int left_out;                 /* tensors of the checkpoint that no training loads or carries */
    const StoredTensor **tensors; /* [n], to write */
    int n;
} Export;

/* ---- the checkpoint ---- */

/* Opens a file of weights under the names that a training reads it by. Returns the number of tensors left out. */
static int open_weights(const Export *e, const char *option, const char *path, TensorFile *file) {
    ImportReport report = {0};
    MUST_OR(checkpoint_open_base(path, file, &error), "%s %s: %s", option, path, error.text);
    checkpoint_normalize(file, &e->model->params, &report);
    MUST_OR(tensor_file_index(file, &error), "%s %s: %s", option, path, error.text);
    return report.skipped;
}

static void open_checkpoint(Export *e) {
    e->trained = gpt_trained_read(&e->options->trained);
    e->model = gpt_open(&e->trained.config);
    e->left_out = open_weights(e, "--checkpoint", e->trained.path, &e->weights);
    e->tokenizer = gpt_trained_tokenizer(&e->trained, e->options->trained.tokenizer);
}

/* ---- the tensors ---- */

static void add_tensor(Export *e, const StoredTensor *tensor) { e->tensors[e->n++] = tensor; }

/* Takes the trained tensors; each must have the shape that the reference's model has for these sizes. */
static void take_trained(Export *e) {
    const ParamTable *table = &e->model->params;
    for (int i = 0; i < table->count; i++) {
        const Param *param = &table->items[i];
        const StoredTensor *tensor = tensor_file_find(&e->weights, param->name);
        char want[128];
        if (!tensor || tensor->rank != param->rank ||
            memcmp(tensor->dims, param->dims, (size_t)param->rank * sizeof *param->dims) != 0)
            die("--checkpoint %s: expected the tensor %s as %s, found %s", e->trained.path, param->name,
                shape_text("F32", param->rank, param->dims, want), tensor ? "another shape" : "none");
        add_tensor(e, tensor);
    }
}

/* The modules of the reference that are not trained, with their tensors in the state dict. */
enum { ENCODERS = 6 };
static const struct {
    const char *prefix;
    int tensors;
} encoders[ENCODERS] = {{"conditioning_encoder.", 193},     {"perceiver_encoder.", 18},     {"emo_layer.", 2},
                        {"emo_conditioning_encoder.", 131}, {"emo_perceiver_encoder.", 18}, {"emovec_layer.", 2}};

/* Returns the module of a tensor in the state dict; -1: none of them. */
static int encoder_of(const char *name) {
    for (int k = 0; k < ENCODERS; k++)
        if (!strncmp(name, encoders[k].prefix, strlen(encoders[k].prefix))) return k;
    return -1;
}

/* Takes the encoders' tensors of a file. Returns whether all are there. */
static bool take_encoders(Export *e, const TensorFile *file) {
    int found[ENCODERS] = {0}, before = e->n;
    for (int i = 0; i < file->n_tensors; i++) {
        int k = encoder_of(file->tensors[i].name);
        if (k < 0) continue;
        found[k]++;
        add_tensor(e, &file->tensors[i]);
    }
    for (int k = 0; k < ENCODERS; k++) {
        if (found[k] == encoders[k].tensors) continue;
        if (e->n != before)
            die("%s: %s* has %d tensors, and the reference has %d: it is not whole", file->path, encoders[k].prefix,
                found[k], encoders[k].tensors);
        return false;
    }
    return true;
}

/* Takes the encoders from the checkpoint, else from --base-checkpoint; warns if there are none. */
static void take_untrained(Export *e) {
    const char *base = e->options->base_checkpoint;
    bool own = take_encoders(e, &e->weights);
    if (own && base)
        die_usage("--base-checkpoint %s: %s has all tensors of the reference: leave it out", base, e->trained.path);
    e->whole = own || base;
    if (!e->whole)
        warn("%s has no encoders for prompts and emotions (conditioning_encoder.*, ...), because its training did not "
             "start from IndexTTS2's weights: IndexTTS2 refuses to load gpt.pth without them. Add them with "
             "--base-checkpoint IndexTTS2's gpt.pth, which a model of width 1280 can take",
             e->trained.path);
    if (!base) return;
    open_weights(e, "--base-checkpoint", base, &e->base);
    e->tensors = xrealloc(e->tensors, (size_t)(e->n + e->base.n_tensors) * sizeof *e->tensors);
    if (!take_encoders(e, &e->base))
        die("--base-checkpoint %s: it has no encoders (conditioning_encoder.*, ...)", base);
}

/* Dies if the encoders do not give vectors of the model's width. */
static void check_width(const Export *e) {
    for (int i = 0; i < e->n; i++) {
        const StoredTensor *t = e->tensors[i];
        if (strcmp(t->name, "emo_layer.weight") || t->dims[0] == e->trained.config.d_model) continue;
        die("%s: the encoders give vectors of %lld numbers, and the model is %d wide: IndexTTS2 cannot join them",
            e->base.path ? e->base.path : e->trained.path, (long long)t->dims[0], e->trained.config.d_model);
    }
}

static void collect_tensors(Export *e) {
    const TensorFile *file = &e->weights;
    e->tensors = xcalloc((size_t)file->n_tensors, sizeof *e->tensors);
    take_trained(e);
    int trained = e->n, kept = 0;
    take_untrained(e);
    check_width(e);
    for (int i = 0; i < e->n; i++) {
        if (!pickle_storage_class(e->tensors[i]->dtype))
            die("the tensor %s is %s, which torch.save does not write", e->tensors[i]->name, e->tensors[i]->dtype);
        kept += e->tensors[i] >= file->tensors && e->tensors[i] < file->tensors + file->n_tensors;
    }
    int left_out = e->left_out + file->n_tensors - kept;
    printf("[Export] %d trained tensors, %d of the encoders", trained, e->n - trained);
    if (left_out) printf("; %d others of the checkpoint are left out", left_out);
    printf("\n");
}

/* ---- its config.yaml ---- */

/* Returns the last name of the path of a folder, "b" of "a/b/"; free(). A folder that is gone cannot be written into,
 * and that is where it is noticed. */
static char *last_name(const char *folder) {
    OWNED char *whole = realpath(folder, NULL);
    return xstrdup(whole ? strrchr(whole, '/') + 1 : folder);
}

/* Returns NAME/FILE as a quoted text: JSON's are YAML's, too. free() */
static char *quoted(const char *name, const char *file) {
    OWNED char *path = path_join(name, file);
    json_auto_t *value = json_build("config.yaml", "s", path);
    return json_text("config.yaml", value, JSON_ENCODE_ANY);
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
    char *lines = NULL;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char was[32] = "";
        if (fields[i].value != fields[i].published) snprintf(was, sizeof was, "  # was %d", fields[i].published);
        xappend(&lines, "    %s: %d%s\n", fields[i].name, fields[i].value, was);
    }
    return lines;
}

/* Returns the fields of IndexTTS2's config.yaml that belong to a model in `folder`, as YAML with comments that name the
 * published values where they differ, and how to merge the fields; free(). */
static char *config_text(const GptConfig *config, const char *folder) {
    OWNED char *name = last_name(folder), *tokenizer = quoted(name, "bpe.model"), *weights = quoted(name, "gpt.pth"),
               *own = quoted(name, "config.yaml"), *fields = gpt_fields(config);
    return xformat("# Fields of IndexTTS2's config.yaml for this model. Paths are relative to its folder of\n"
                   "# models (model_dir), where this folder belongs. There, make a whole configuration of it:\n"
                   "#\n"
                   "#   from omegaconf import OmegaConf\n"
                   "#   parts = OmegaConf.load(\"config.yaml\"), OmegaConf.load(%s)\n"
                   "#   OmegaConf.save(OmegaConf.merge(*parts), \"config_new.yaml\")\n"
                   "dataset:\n    bpe_model: %s\ngpt:\n%sgpt_checkpoint: %s\n",
                   own, tokenizer, fields, weights);
}

/* ---- the files ---- */

static bool write_pth(const Export *e, const char *path, Error *error) {
    PthWriter *w = pth_begin();
    pth_open(w, PTH_ORDERED_DICT);
    for (int i = 0; i < e->n; i++) {
        const StoredTensor *t = e->tensors[i];
        TensorToWrite tensor = {.dtype = t->dtype, .rank = t->rank, .data = t->data};
        memcpy(tensor.dims, t->dims, sizeof t->dims);
        pth_text(w, t->name), pth_tensor_in_place(w, tensor);
    }
    pth_close(w);
    return pth_write(w, path, error);
}

static bool write_config(const Export *e, const char *path, Error *error) {
    OWNED char *text = config_text(&e->trained.config, e->options->output);
    return file_write_atomic(path, text, strlen(text), error);
}

static bool write_files(const void *context, Error *error) {
    const Export *e = context;
    const char *output = e->options->output;
    OWNED char *folder = checkpoint_folder(e->trained.path), *description = path_join(folder, DESCRIPTION_FILE);
    OWNED char *pth = path_join(output, "gpt.pth"), *tokenizer = path_join(output, "bpe.model"),
               *copy = path_join(output, DESCRIPTION_FILE), *config = path_join(output, "config.yaml");
    return write_pth(e, pth, error) && export_copy(e->tokenizer, tokenizer, error) &&
           (!e->trained.says.description || export_copy(description, copy, error)) && write_config(e, config, error);
}

/* ---- the command ---- */

static void report(const Export *e) {
    char bytes[32];
    double size = 0;
    const char *output = e->options->output, *kind = gpt_trained_fact(&e->trained, GPT_CODES_FACT);
    for (int i = 0; i < e->n; i++) size += (double)e->tensors[i]->bytes;
    printf("[Export] %s: gpt.pth (%d tensors, %s), bpe.model (%d pieces), config.yaml\n", output, e->n,
           format_bytes(size, bytes), e->trained.config.text_vocabulary);
    if (gpt_codes_are_own(kind)) {
        warn("the model speaks in %s", gpt_codes_decoder(kind));
        return;
    }
    printf("[Codes] %s\n", gpt_codes_decoder(kind));
    printf("[Text] IndexTTS2's own front end reads digits in Chinese, and in English where a text has Latin letters: "
           "write numbers out in words\n");
    if (e->whole)
        printf("Next: copy %s into IndexTTS2's folder checkpoints, and merge its config.yaml as the file says\n",
               output);
}

int gpt_export(int argc, char **argv) {
    static const OptionsHeader header = {"train_gpt export", "--checkpoint run --output DIR",
                                         "--checkpoint run --output exported",
                                         "Writes a trained model for the inference of IndexTTS2."};
    static const OptionOverride files = {.name = "output", .help = "new folder for gpt.pth, bpe.model and config.yaml"};
    GptExportOptions o = {0};
    OptionSet set = {0};
    gpt_trained_options_add(&set, &o.trained);
    options_add(&set, table, sizeof table / sizeof *table, &o);
    export_options_add(&set, &o.output);
    options_override(&set, &files, 1);
    options_parse(&header, &set, argc, argv);
    Export e = {.options = &o};
    open_checkpoint(&e);
    collect_tensors(&e);
    MUST(export_folder(o.output, checkpoint_base_sum(&e.weights), write_files, &e, &error));
    report(&e);
    tensor_file_close(&e.weights);
    tensor_file_close(&e.base);
    gpt_trained_close(&e.trained);
    e.model->close(e.model);
    FREE(e.tensors, e.tokenizer);
    options_free(&set, argc, argv);
    return 0;
}
