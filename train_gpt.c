/* train_gpt: trains the Amharic TTS GPT (the GPT of IndexTTS2, UnifiedVoice).
 *
 *   ./train_gpt prepare --input recordings.tsv --output prepared        recordings and texts to codes and manifests
 *   ./train_gpt -m prepared/train_pairs.jsonl -b 8 -g 4 --amp           the training
 *   ./train_gpt speak --checkpoint run --text "..." -o said.wav         the trained model says a text
 *   ./train_gpt export --checkpoint run --output amharic                the model for IndexTTS2's inference
 *
 * The model (model/tts.c) reads one sequence per sample: 32 conditioning latents of a prompt's voice, two speed tokens,
 * the text, and the audio codes, 50 per second. It learns to predict the next text token and the next audio code; the
 * loss is a weighted sum of both, by default 0.2 and 0.8. The best weights are those of the lowest validation loss.
 *
 * This file is the whole training: options, vocabulary, model, data, loop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/stop.h"
#include "commands/commands.h"
#include "commands/gpt/base.h"
#include "commands/gpt/data_report.h"
#include "commands/gpt/decode.h"
#include "commands/gpt/export.h"
#include "commands/gpt/layout.h"
#include "commands/gpt/origin.h"
#include "commands/gpt/prepare.h"
#include "commands/gpt/speak.h"
#include "commands/gpt/synthetic.h"
#include "commands/max_unknown.h"
#include "commands/report.h"
#include "commands/trainer.h"
#include "data/text/sentencepiece.h"
#include "data/tts/dataset.h"
#include "train/train.h"

/* ---- options ---- */

typedef struct {
    TrainOptions train;
    const char *tokenizer, *freeze, *lengths;
    double text_loss_weight, mel_loss_weight, dropout, max_unknown;
    int64_t model_dim, layers, heads, max_text_tokens, max_mel_tokens, number_text_tokens, number_mel_codes;
    int64_t frozen_text_rows;
    int unknown_id; /* of the tokenizer */
    bool repair_codes, skip_bad;
    GptOrigin origin;
    GptBase base;
} GptOptions;

#define FIELD(name) offsetof(GptOptions, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "tokenizer", .heading = "Data", .usual = true, .type = OPTION_TEXT, .offset = FIELD(tokenizer), .metavar = "PATH",
     .help = "SentencePiece model, for the size of the vocabulary; default: bpe.model beside the manifest, else "
             "--number-text-tokens"},
    MAX_UNKNOWN_ROW(FIELD(max_unknown)),
    {.name = "text-loss-weight", .heading = "Training", .type = OPTION_FLOAT, .offset = FIELD(text_loss_weight), .default_value = "0.2",
     .max = 1e6, .metavar = "X",
     .help = "weight of the text loss"},
    {.name = "mel-loss-weight", .type = OPTION_FLOAT, .offset = FIELD(mel_loss_weight), .default_value = "0.8",
     .max = 1e6, .metavar = "X",
     .help = "weight of the loss on the audio codes"},
    {.name = "repair-codes", .heading = "Data", .type = OPTION_FLAG, .offset = FIELD(repair_codes), .default_value = "false",
     .help = "cut codes beyond the end of the audio (padding stored as data)"},
    {.name = "skip-bad", .type = OPTION_FLAG, .offset = FIELD(skip_bad), .default_value = "false",
     .help = "leave lines of the manifests out that cannot be used, and count them"},
    {.name = "freeze", .heading = "Training", .type = OPTION_CHOICE, .offset = FIELD(freeze), .default_value = "both",
     .metavar = "both|embedding|head|none",
     .help = "which text tables keep the rows of the base vocabulary when the vocabulary is extended"},
    {.name = "frozen-text-rows", .type = OPTION_INT, .offset = FIELD(frozen_text_rows), .default_value = "-1",
     .min = -1, .max = 1e9, .metavar = "N",
     .help = "rows that --freeze keeps; -1: those of the base checkpoint, if the vocabulary is larger"},
    {.name = "lengths", .heading = "Data", .type = OPTION_TEXT, .offset = FIELD(lengths), .metavar = "MEAN,SD,MAX",
     .help = "for --estimate and --dry-run without a manifest: audio codes per sample of a synthetic epoch"},
    {.name = "model-dim", .heading = "Model", .usual = true, .section = "gpt", .type = OPTION_INT, .offset = FIELD(model_dim), .default_value = "1280",
     .min = 8, .max = 65536, .metavar = "N",
     .help = "width of the model"},
    {.name = "layers", .usual = true, .section = "gpt", .type = OPTION_INT, .offset = FIELD(layers), .default_value = "24", .min = 1,
     .max = 1000, .metavar = "N",
     .help = "transformer blocks"},
    {.name = "heads", .section = "gpt", .type = OPTION_INT, .offset = FIELD(heads), .default_value = "20", .min = 1,
     .max = 1000, .metavar = "N",
     .help = "attention heads"},
    {.name = "max-text-tokens", .section = "gpt", .type = OPTION_INT, .offset = FIELD(max_text_tokens),
     .default_value = "600", .min = 1, .max = 1e6, .metavar = "N",
     .help = "longest text"},
    {.name = "max-mel-tokens", .section = "gpt", .type = OPTION_INT, .offset = FIELD(max_mel_tokens),
     .default_value = "1815", .min = 1, .max = 1e6, .metavar = "N",
     .help = "largest number of audio codes, less one"},
    {.name = "number-text-tokens", .section = "gpt", .type = OPTION_INT, .offset = FIELD(number_text_tokens),
     .default_value = "12000", .min = 2, .max = 1e9, .metavar = "N",
     .help = "pieces of the tokenizer, if there is no tokenizer to ask"},
    {.name = "number-mel-codes", .section = "gpt", .type = OPTION_INT, .offset = FIELD(number_mel_codes),
     .default_value = "8194", .min = 3, .max = 1e9, .metavar = "N",
     .help = "audio codes, start and stop included"},
    {.name = "dropout", .section = "gpt", .type = OPTION_FLOAT, .offset = FIELD(dropout), .default_value = "0.1",
     .max = 0.99, .metavar = "X",
     .help = "of embeddings, attention probabilities, attention and MLP outputs"},
};
// clang-format on

/* Options that decide what a sample is: a run cannot be resumed if they have changed. */
static const char *const fixed_options[] = {"repair-codes", NULL};

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
    if (o->unknown_id != TTS_START_TEXT && o->unknown_id != TTS_STOP_TEXT) return;
    warn("%s: the id of unknown pieces, %d, is also that of the %s token: a text with an unknown piece looks as if it "
         "%s there; train the tokenizer with unk_id 2",
         o->tokenizer, o->unknown_id, o->unknown_id == TTS_START_TEXT ? "start" : "stop",
         o->unknown_id == TTS_START_TEXT ? "began" : "ended");
}

/* Sets the vocabulary: from --tokenizer, else from bpe.model beside the first manifest, else as configured. */
static void resolve_vocabulary(GptOptions *o) {
    char *beside = NULL;
    o->unknown_id = UNKNOWN_TEXT;
    if (!o->tokenizer && o->train.manifest.count) {
        char *directory = path_directory(o->train.manifest.text[0]);
        beside = path_join(directory, "bpe.model");
        free(directory);
        if (!access(beside, R_OK)) o->tokenizer = beside;
        file_keep(beside, "beside the manifest");
    }
    if (o->tokenizer) read_tokenizer(o);
    printf("[Text] %lld pieces (%s)\n", (long long)o->number_text_tokens,
           o->tokenizer ? o->tokenizer : "number-text-tokens");
    if (o->tokenizer != beside) free(beside);
}

static void check_options(const GptOptions *o) {
    if (o->frozen_text_rows > o->number_text_tokens + 1)
        die_usage("--frozen-text-rows %lld: the text tables have %lld", (long long)o->frozen_text_rows,
                  (long long)o->number_text_tokens + 1);
    if (o->lengths && o->train.manifest.count)
        die_usage("--lengths %s: the manifest has lengths of its own; leave one of them out", o->lengths);
}

static TtsGptConfig config_of(const GptOptions *o) {
    return (TtsGptConfig){.d_model = (int)o->model_dim,
                          .n_layers = (int)o->layers,
                          .n_heads = (int)o->heads,
                          .text_vocabulary = (int)o->number_text_tokens,
                          .mel_codes = (int)o->number_mel_codes,
                          .max_text_tokens = (int)o->max_text_tokens,
                          .max_mel_tokens = (int)o->max_mel_tokens,
                          .dropout = (float)o->dropout,
                          .text_weight = (float)o->text_loss_weight,
                          .mel_weight = (float)o->mel_loss_weight};
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

static void opened(const TrainSpec *spec, Training *training, void *options) {
    const GptOptions *o = options;
    if (!train_resumed_from(training)) gpt_origin_warn_of_base(&o->origin, &o->base);
    freeze_base_rows(spec, training, o);
}

/* ---- data ---- */

typedef struct {
    Dataset *train, *validation; /* validation: NULL if there is none */
} GptData;

static Dataset *open_split(const GptOptions *o, const OptionList *manifests, Split split, const char *name) {
    TtsGptConfig config = config_of(o);
    TtsDatasetOptions options = {.layout = gpt_layout(&config),
                                 .split = split,
                                 .val_ratio = o->train.val_ratio,
                                 .n_threads = (int)o->train.num_workers,
                                 .unknown_id = o->unknown_id,
                                 .lengths_only = o->train.estimate,
                                 .repair_codes = o->repair_codes,
                                 .skip_bad = o->skip_bad};
    TtsDatasetReport report;
    Dataset *dataset = tts_dataset_open(manifests->text, manifests->count, &options, &report);
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
    TtsGptConfig config = config_of(o);
    TtsLayout layout = gpt_layout(&config);
    return (GptData){.train = gpt_synthetic_open(&layout, o->lengths, o->train.batch_size, o->train.token_budget)};
}

/* ---- the training ---- */

static int train(int argc, char **argv) {
    static const OptionsHeader header = {
        "train_gpt", "-m manifest.jsonl -b 8 -g 4 [options]",
        "-m prepared/train_pairs.jsonl --val-manifest prepared/val_pairs.jsonl -b 8 -g 4 --amp -o run",
        "Trains the Amharic TTS GPT on text ids and audio codes."};
    static GptOptions o; /* static: texts of a YAML file live as long as the process */
    static OptionSet set;
    train_options_add(&set, &o.train);
    options_add(&set, table, sizeof table / sizeof *table, &o);
    options_parse(&header, &set, argc, argv);
    o.base = gpt_base_adopt(o.train.base_checkpoint, &set);
    if (!o.train.base_checkpoint) gpt_prepared_adopt(&o.train.manifest, &set);
    train_options_resolve(&o.train, &set);
    trainer_begin(&o.train, &set);
    resolve_vocabulary(&o);
    check_options(&o);
    gpt_origin_read(&o.origin, o.tokenizer, &o.train.manifest, &o.train.val_manifest);
    const char *why;
    Device *device = train_device_open(&o.train, &why);
    GptData data = open_data(&o);
    TtsGptConfig config = config_of(&o);
    bool contents = o.train.manifest.count && !o.train.estimate; /* not only lengths */
    TrainSpec spec = {
        .options = &o.train,
        .set = &set,
        .fixed_options = fixed_options,
        .description = {.options = GPT_MODEL_OPTIONS, .facts = o.origin.facts, .n_facts = o.origin.n_facts},
        .model = tts_gpt_open(&config),
        .device = device,
        .device_why = why,
        .train = data.train,
        .validation = data.validation,
        .synthetic = !o.train.manifest.count,
        .batch = {.largest = tts_largest_batch},
        .import = GPT_IMPORT,
        .selection = {.metric = -1}, /* the weighted sum of both losses */
        .baseline = {.name = "unigram entropy of the codes",
                     .value = contents ? tts_code_entropy(data.validation ? data.validation : data.train) : 0,
                     .metric = TTS_MEL_LOSS},
        .labels = {.run = getenv("INDEXTTS_RUN_NAME")}, /* as the reference trainer has it */
    };
    bool ended = false;
    int status = trainer_run(&spec, (TrainerHook){opened, &o}, &ended);
    if (ended) stop_forget();
    if (ended) gpt_origin_print_next(&o.origin, o.train.output_dir);
    device_close(device);
    return status;
}

int main(int argc, char **argv) {
    static const Command commands[] = {
        {NULL, "trains the model", train},
        {"prepare", "makes text ids, audio codes and manifests from recordings", gpt_prepare},
        {"speak", "says a text with a trained model", gpt_speak},
        {"decode", "makes sound from audio codes", gpt_decode},
        {"export", "writes a model for the inference of IndexTTS2", gpt_export},
        REPORT_COMMAND,
    };
    static const Program program = {"train_gpt", "Trains the Amharic TTS GPT, from recordings to weights.", commands,
                                    sizeof commands / sizeof *commands};
    return program_run(&program, argc, argv);
}
