/* train_gpt: trains the Amharic TTS GPT (the GPT of IndexTTS2, UnifiedVoice).
 *
 *   ./train_gpt prepare --input recordings.tsv --output prepared        recordings and texts to codes and manifests
 *   ./train_gpt -m prepared/train_pairs.jsonl -b 8 -g 4 --amp           the training
 *   ./train_gpt speak --checkpoint run --text "..." -o said.wav         the trained model says a text
 *   ./train_gpt export --checkpoint run --output amharic                the model for IndexTTS2's inference
 *
 * The model (model/gpt.c) reads one sequence per sample: 32 conditioning latents of a prompt's voice, two speed tokens,
 * the text, and the audio codes, 50 per second. It learns to predict the next text token and the next audio code; the
 * loss is a weighted sum of both, by default 0.2 and 0.8. The best weights are those of the lowest validation loss.
 *
 * The trip: options (commands/gpt/options.c) -> data/gpt/dataset.c fills batches of texts and codes -> model/gpt.c
 * computes both losses and the gradients of a batch -> train/run/step.c, called by the loop of train/loop.c, clears
 * gradients, sums, clips and updates -> checkpoint/. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/stop.h"
#include "commands/commands.h"
#include "commands/gpt/base.h"
#include "commands/gpt/commands.h"
#include "commands/gpt/data.h"
#include "commands/gpt/options.h"
#include "commands/gpt/origin.h"
#include "commands/report.h"
#include "commands/trainer.h"
#include "data/gpt/dataset.h"
#include "data/text/sentencepiece.h"
#include "train/train.h"

/* ---- vocabulary and model ---- */

enum { UNKNOWN_TEXT = 2 };

/* Reads the size of the vocabulary and the id of unknown pieces from a tokenizer. */
static void read_tokenizer(GptOptions *o) {
    Error error;
    SentencePiece *tokenizer = sentencepiece_open(o->tokenizer, &error);
    if (!tokenizer) die("--tokenizer %s: %s", o->tokenizer, error.text);
    o->number_text_tokens = sentencepiece_vocabulary(tokenizer);
    o->unknown_id = sentencepiece_unknown_id(tokenizer);
    sentencepiece_close(tokenizer);
    if (o->unknown_id != GPT_START_TEXT && o->unknown_id != GPT_STOP_TEXT) return;
    warn("%s: the id of unknown pieces, %d, is also that of the %s token: a text with an unknown piece looks as if it "
         "%s there; train the tokenizer with unk_id 2",
         o->tokenizer, o->unknown_id, o->unknown_id == GPT_START_TEXT ? "start" : "stop",
         o->unknown_id == GPT_START_TEXT ? "began" : "ended");
}

/* Sets the vocabulary: from --tokenizer, else from bpe.model beside the first manifest, else as configured. */
static void resolve_vocabulary(GptOptions *o) {
    char *beside = NULL;
    o->unknown_id = UNKNOWN_TEXT;
    if (!o->tokenizer && o->train.manifest.count) {
        OWNED char *directory = path_directory(o->train.manifest.text[0]);
        beside = path_join(directory, "bpe.model");
        if (!access(beside, R_OK)) o->tokenizer = beside;
        file_keep(beside, "beside the manifest");
    }
    if (o->tokenizer) read_tokenizer(o);
    printf("[Text] %lld pieces (%s)\n", (long long)o->number_text_tokens,
           o->tokenizer ? o->tokenizer : "number-text-tokens");
    if (o->tokenizer != beside) free(beside);
}

/* Freezes the rows of the base vocabulary. A fresh run knows their number from the base checkpoint, a resumed run from
 * its own checkpoint. */
static void freeze_base_rows(const TrainSpec *spec, Training *training, const GptOptions *o) {
    ParamTable *table = &spec->model->params;
    TrainState *state = train_state(training);
    int64_t base = train_import_report(training)->base_rows - 1; /* the last row is no token */
    if (o->frozen_text_rows >= 0)
        state->frozen_rows = o->frozen_text_rows;
    else if (!train_resumed_from(training))
        state->frozen_rows = base > 0 && base < o->number_text_tokens ? base : 0;
    for (int i = 0; i < GPT_IMPORT.n_resizable; i++) {
        bool chosen = !strcmp(o->freeze, "both") || !strcmp(o->freeze, i ? "head" : "embedding");
        table->items[params_find(table, GPT_IMPORT.resizable[i])].frozen_rows = chosen ? state->frozen_rows : 0;
    }
    if (state->frozen_rows && strcmp(o->freeze, "none"))
        printf("[Freeze] %s: rows 0..%lld of the text tables stay as they are\n", o->freeze,
               (long long)state->frozen_rows - 1);
}

/* ---- data ---- */

typedef struct {
    Dataset *train, *validation; /* validation: NULL if there is none */
} GptData;

static Dataset *open_split(const GptOptions *o, const OptionList *manifests, Split split, const char *name) {
    GptConfig config = gpt_options_config(o);
    GptDatasetOptions options = {.layout = gpt_layout(&config),
                                 .split = split,
                                 .val_ratio = o->train.val_ratio,
                                 .n_threads = (int)o->train.num_workers,
                                 .unknown_id = o->unknown_id,
                                 .lengths_only = o->train.estimate,
                                 .repair_codes = o->repair_codes,
                                 .skip_bad = o->skip_bad};
    GptDatasetReport report;
    Dataset *dataset = gpt_dataset_open(manifests->text, manifests->count, &options, &report);
    gpt_report_dataset(name, &options, &report);
    if (o->tokenizer) gpt_check_unknown(name, &report, o->max_unknown); /* its unknown id is known */
    return dataset;
}

/* Opens the manifests. Validation is on --val-manifest, else on the share --val-ratio of --manifest. */
static GptData open_manifests(const GptOptions *o) {
    const TrainOptions *t = &o->train;
    bool own = t->val_manifest.count > 0, divided = !own && t->val_ratio > 0;
    GptData data = {NULL, NULL};
    if (own) gpt_warn_of_shared_manifests(&t->manifest, &t->val_manifest);
    data.train = open_split(o, &t->manifest, divided ? SPLIT_TRAIN : SPLIT_ALL, "train");
    if (own) data.validation = open_split(o, &t->val_manifest, SPLIT_ALL, "val");
    if (divided) data.validation = open_split(o, &t->manifest, SPLIT_VALIDATION, "val");
    if (!data.train->n_samples) die("no sample is left to train on: all are held out; lower --val-ratio");
    if (data.validation && !data.validation->n_samples) {
        printf("[Data] no sample is held out, so there is no validation: raise --val-ratio, or give --val-manifest\n");
        data.validation->close(data.validation);
        data.validation = NULL;
    }
    return data;
}

static GptData open_data(const GptOptions *o) {
    if (o->train.manifest.count) return open_manifests(o);
    GptConfig config = gpt_options_config(o);
    GptLayout layout = gpt_layout(&config);
    return (GptData){.train = gpt_synthetic_open(&layout, o->lengths, o->train.batch_size, o->train.token_budget)};
}

/* ---- the training ---- */

/* The parts of a training besides its spec. */
typedef struct {
    const GptOptions *options;
    GptBase base; /* of --base-checkpoint */
    GptOrigin origin;
} GptRun;

/* Trains, unless it is only planned. Returns the exit status. */
static int train_model(const TrainSpec *spec, const GptRun *run) {
    if (trainer_only_plans(spec)) return 0;
    Training *training = train_open(spec);
    if (!train_resumed_from(training)) gpt_origin_warn_of_base(&run->origin, &run->base);
    freeze_base_rows(spec, training, run->options);
    int status = train_run(training);
    if (train_ended(training)) {
        stop_forget(); /* a signal came too late to leave anything out */
        if (!status) gpt_origin_print_next(&run->origin, spec->options->output_dir);
    }
    train_close(training);
    return status;
}

static int train_command(int argc, char **argv) {
    static const OptionsHeader header = {
        "train_gpt", "-m manifest.jsonl -b 8 -g 4 [options]",
        "-m prepared/train_pairs.jsonl --val-manifest prepared/val_pairs.jsonl -b 8 -g 4 --amp -o run",
        "Trains the Amharic TTS GPT on text ids and audio codes."};
    static GptOptions o; /* static: texts of a YAML file live as long as the process */
    static OptionSet set;
    gpt_options_add(&set, &o);
    options_parse(&header, &set, argc, argv);
    GptRun run = {.options = &o, .base = gpt_base_adopt(o.train.base_checkpoint, &set)};
    if (!o.train.base_checkpoint) gpt_prepared_adopt(&o.train.manifest, &set);
    train_options_resolve(&o.train, &set);
    trainer_begin(&o.train, &set);
    resolve_vocabulary(&o);
    gpt_options_check(&o);
    gpt_origin_read(&run.origin, o.tokenizer, &o.train.manifest, &o.train.val_manifest);
    const char *why;
    Device *device = train_device_open(&o.train, &why);
    GptData data = open_data(&o);
    GptConfig config = gpt_options_config(&o);
    bool contents = o.train.manifest.count && !o.train.estimate; /* not only lengths */
    TrainSpec spec = {
        .options = &o.train,
        .set = &set,
        .fixed_options = GPT_FIXED_OPTIONS,
        .description = {.options = GPT_MODEL_OPTIONS, .facts = run.origin.facts, .n_facts = run.origin.n_facts},
        .model = gpt_open(&config),
        .device = device,
        .device_why = why,
        .train = data.train,
        .validation = data.validation,
        .synthetic = !o.train.manifest.count,
        .batch = {.largest = gpt_largest_batch},
        .import = GPT_IMPORT,
        .selection = {.metric = -1}, /* the weighted sum of both losses */
        .baseline = {.name = "unigram entropy of the codes",
                     .value = contents ? gpt_code_entropy(data.validation ? data.validation : data.train) : 0,
                     .metric = GPT_MEL_LOSS},
        .labels = {.run = getenv("INDEXTTS_RUN_NAME")}, /* as the reference trainer has it */
    };
    int status = train_model(&spec, &run);
    trainer_close(&spec);
    trainer_close_device(device);
    gpt_base_close(&run.base);
    return status;
}

int main(int argc, char **argv) {
    static const Command commands[] = {
        {NULL, "trains the model", train_command},
        {"prepare", "makes text ids, audio codes and manifests from recordings", gpt_prepare},
        {"speak", "says a text with a trained model", gpt_speak},
        {"decode", "makes sound from audio codes", gpt_decode},
        {"export", "writes a model for the inference of IndexTTS2", gpt_export},
        REPORT_COMMAND,
    };
    static const Program program = {"train_gpt", "Trains the Amharic TTS GPT, from recordings to weights.", commands,
                                    sizeof commands / sizeof *commands, ""};
    return program_run(&program, argc, argv);
}
