/* train_slm export: a trained model for other programs.
 *
 *   ./train_slm export --checkpoint run --output exported --format hf AutoModelForCausalLM.from_pretrained("exported")
 *   ./train_slm export --checkpoint run --output out --format nanogpt     nanoGPT's sample.py --out_dir=out */
#include "commands/slm/commands.h"

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
    SlmSource source;
    const char *output, *format;
} SlmExportOptions;

static const OptionRow format_row = {
    .name = "format",
    .heading = "Files",
    .type = OPTION_CHOICE,
    .offset = offsetof(SlmExportOptions, format),
    .default_value = "hf",
    .metavar = "hf|nanogpt",
    .help = "hf: GPT-2's layout with tokenizer, for Hugging Face's transformers; nanogpt: ckpt.pt for its sample.py"};

/* ---- the checkpoint ---- */

/* Reads the weights. Returns their checksum. */
static uint64_t read_weights(SlmExport *e, const char *path) {
    const ParamTable *params = &e->model->params;
    CarriedTensors carried;
    ImportReport report;
    e->weights = xaligned((size_t)params->flat_count * sizeof(float));
    CheckpointBuffers into = {.table = params, .weights = e->weights};
    MUST_OR(checkpoint_import(path, &into, &SLM_IMPORT, &carried, &report, &error), "--checkpoint %s: %s", path,
            error.text);
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
    OWNED char *folder = checkpoint_folder(path);
    json_auto_t *dropout = trained_option(path, "dropout");
    e->config.dropout = (float)json_number_value(dropout);
    e->best = INFINITY;
    if (checkpoint_is_whole(folder, &state, &error)) {
        e->step = state.step;
        e->best = state.best;
        free(state.options_json);
    }
}

/* ---- the command ---- */

int slm_export(int argc, char **argv) {
    static const OptionsHeader header = {"train_slm export", "--checkpoint run --output DIR",
                                         "--checkpoint run --output exported",
                                         "Writes a trained model for other programs."};
    SlmExportOptions o = {0};
    OptionSet set = {0};
    slm_source_options(&set, &o.source);
    export_options_add(&set, &o.output);
    options_add(&set, &format_row, 1, &o);
    options_parse(&header, &set, argc, argv);
    OWNED char *path = trained_checkpoint(o.source.checkpoint);
    if (access(path, F_OK)) die("--checkpoint %s: %s", path, strerror(errno));
    SlmBase base = slm_base_adopt(path, &set);
    SlmExport e = {.output = o.output, .config = slm_base_config(&base)};
    Model *model = slm_open(&e.config);
    e.model = model;
    read_training(&e, path);
    bool gpt2 = !strcmp(o.format, "hf");
    Tokenizer *tokenizer = gpt2 || o.source.tokenizer ? slm_base_tokenizer(&base, o.source.tokenizer) : NULL;
    e.tokenizer = tokenizer;
    if (!gpt2 && e.config.gelu != GELU_ERF)
        die("--format nanogpt: nanoGPT computes the exact GELU, and %s was trained with its tanh form: use --format hf",
            path);
    uint64_t sum = read_weights(&e, path);
    MUST(export_folder(o.output, sum, gpt2 ? slm_export_gpt2 : slm_export_nanogpt, &e, &error));
    printf("[Export] %s: %s\n", o.output,
           gpt2 ? "AutoModelForCausalLM.from_pretrained and AutoTokenizer.from_pretrained read it"
                : "ckpt.pt, which nanoGPT's sample.py --out_dir reads");
    tokenizer_close(tokenizer);
    slm_base_close(&base);
    model->close(model);
    free(e.weights);
    options_free(&set, argc, argv);
    return 0;
}
