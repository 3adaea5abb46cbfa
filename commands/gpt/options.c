#include "commands/gpt/options.h"

#include "commands/max_unknown.h"
#include "data/gpt/speech_coder.h"
#include "model/block.h"

const char *const GPT_FIXED_OPTIONS[] = {"repair-codes", NULL};

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
     .max = BLOCKS_MAX, .metavar = "N",
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

void gpt_options_add(OptionSet *set, GptOptions *o) {
    train_options_add(set, &o->train);
    options_add(set, table, sizeof table / sizeof *table, o);
}

void gpt_options_check(const GptOptions *o) {
    if (o->frozen_text_rows > o->number_text_tokens + 1)
        die_usage("--frozen-text-rows %lld: the text tables have %lld", (long long)o->frozen_text_rows,
                  (long long)o->number_text_tokens + 1);
    if (o->lengths && o->train.manifest.count)
        die_usage("--lengths %s: the manifest has lengths of its own; leave one of them out", o->lengths);
}

GptConfig gpt_options_config(const GptOptions *o) {
    return (GptConfig){.d_model = (int)o->model_dim,
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

GptLayout gpt_layout(const GptConfig *c) {
    return (GptLayout){.d_model = c->d_model,
                       .n_conditioning = CONDITIONING_ROWS,
                       .max_text = c->max_text_tokens,
                       .max_codes = c->max_mel_tokens + 1,
                       .text_vocabulary = c->text_vocabulary,
                       .audio_vocabulary = c->mel_codes - GPT_SPECIAL_CODES,
                       .start_text = GPT_START_TEXT,
                       .stop_text = GPT_STOP_TEXT,
                       .start_mel = c->mel_codes - 2,
                       .stop_mel = c->mel_codes - 1};
}
