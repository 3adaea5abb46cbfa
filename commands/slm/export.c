/* train_slm export: a trained model for other programs.
 *
 *   ./train_slm export --checkpoint run --output model --format hf        AutoModelForCausalLM.from_pretrained("model")
 *   ./train_slm export --checkpoint run --output out --format nanogpt     nanoGPT's sample.py --out_dir=out */
#include "commands/slm/export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/export.h"
#include "commands/slm/base.h"
#include "commands/slm/export_formats.h"
#include "commands/trained.h"

typedef struct {
    const char *checkpoint, *output, *format, *tokenizer, *gelu, *config;
    int64_t heads;
} ExportOptions;

#define FIELD(name) offsetof(ExportOptions, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "checkpoint", .type = OPTION_TEXT, .offset = FIELD(checkpoint), .metavar = "PATH", .required = true,
     .help = "folder of a run (its best weights, or the last if it has not validated), a checkpoint, or a file of "
             "weights, also of another program"},
    {.name = "output", .letter = 'o', .type = OPTION_TEXT, .offset = FIELD(output), .metavar = "DIR", .required = true,
     .help = "new folder for the model"},
    {.name = "format", .type = OPTION_CHOICE, .offset = FIELD(format), .default_value = "hf", .metavar = "hf|nanogpt",
     .help = "hf: GPT-2's layout with tokenizer, for Hugging Face's transformers; nanogpt: ckpt.pt for its sample.py"},
    {.name = "tokenizer", .type = OPTION_TEXT, .offset = FIELD(tokenizer), .metavar = "PATH",
     .help = "tokenizer.json of the training, or its folder; default: the one in the folder of the run"},
    {.name = "heads", .type = OPTION_INT, .offset = FIELD(heads), .default_value = "0", .max = 1000, .metavar = "N",
     .help = "attention heads of a model whose file does not tell them; 0: not needed"},
    {.name = "gelu", .type = OPTION_CHOICE, .offset = FIELD(gelu), .default_value = "erf", .metavar = "erf|tanh",
     .help = "kind of GELU of a model whose file does not tell it"},
    {.name = "config", .type = OPTION_TEXT, .offset = FIELD(config), .metavar = "PATH",
     .help = "YAML file with any of these options; the command line wins"},
};
// clang-format on

/* ---- the checkpoint ---- */

/* Reads the weights. Returns their checksum. */
static uint64_t read_weights(SlmExport *e, const char *path) {
    const ParamTable *params = &e->model->params;
    CarriedTensors carried;
    ImportReport report;
    Error error;
    e->weights = xaligned((size_t)params->flat_count * sizeof(float));
    CheckpointBuffers into = {.table = params, .weights = e->weights};
    if (!checkpoint_import(path, &into, &SLM_IMPORT, &carried, &report, &error))
        die("--checkpoint %s: %s", path, error.text);
    printf("[Export] %s: %lld parameters in %d tensors, %d of them transposed there", path,
           (long long)params_count(params), report.loaded, report.transposed);
    if (report.conventions.zero_biases)
        printf("; %d biases of zeros left out, which the model does not need", report.conventions.zero_biases);
    printf("\n");
    free(report.missing_names);
    carried_close(&carried);
    return report.sum;
}

/* Reads what a checkpoint of ours says of its training. */
static void read_training(SlmExport *e, const char *path) {
    TrainState state;
    Error error;
    char *folder = checkpoint_folder(path);
    json_t *dropout = trained_option(path, "dropout");
    e->config.dropout = (float)json_number_value(dropout);
    e->best = INFINITY;
    if (checkpoint_is_whole(folder, &state, &error)) {
        e->step = state.step;
        e->best = state.best;
        free(state.options_json);
    }
    json_decref(dropout);
    free(folder);
}

/* ---- the command ---- */

int slm_export(int argc, char **argv) {
    static const OptionsHeader header = {"train_slm export", "./train_slm export --checkpoint run --output DIR",
                                         "Writes a trained model for other programs."};
    ExportOptions o = {0};
    OptionSet set = options_parse_table(&header, table, sizeof table / sizeof *table, &o, argc, argv);
    Error error;
    char *path = trained_checkpoint(o.checkpoint);
    if (access(path, F_OK)) die("--checkpoint %s: %s", path, strerror(errno));
    SlmBase base = slm_base_adopt(path, &set);
    SlmExport e = {.output = o.output, .config = slm_base_config(&base)};
    Model *model = slm_open(&e.config);
    e.model = model;
    read_training(&e, path);
    bool gpt2 = !strcmp(o.format, "hf");
    Tokenizer *tokenizer = gpt2 || o.tokenizer ? slm_base_tokenizer(&base, o.tokenizer) : NULL;
    e.tokenizer = tokenizer;
    if (!gpt2 && e.config.gelu != GELU_ERF)
        die("--format nanogpt: nanoGPT computes the exact GELU, and %s was trained with its tanh form: use --format hf",
            path);
    uint64_t sum = read_weights(&e, path);
    if (!export_folder(o.output, sum, gpt2 ? slm_export_gpt2 : slm_export_nanogpt, &e, &error)) die("%s", error.text);
    printf("[Export] %s: %s\n", o.output,
           gpt2 ? "AutoModelForCausalLM.from_pretrained and AutoTokenizer.from_pretrained read it"
                : "ckpt.pt, which nanoGPT's sample.py --out_dir reads");
    tokenizer_close(tokenizer);
    slm_base_close(&base);
    model->close(model);
    free(e.weights);
    free(path);
    options_free(&set, argc, argv);
    return 0;
}
