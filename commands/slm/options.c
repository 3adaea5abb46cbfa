#include "commands/slm/options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "commands/max_unknown.h"
#include "commands/trainer_arguments.h"
#include "model/block.h"

/* ---- tables ---- */

const char *const SLM_FIXED_OPTIONS[] = {"vocabulary", "d-model",  "layers",    "heads",       "context",   "biases",
                                         "gelu",       "sampling", "documents", "scaled-init", "optimizer", NULL};

/* A stream of tokens is cut by hash of its documents when it is prepared, and its samples are alike. */
static const char *const left_out[] = {"manifest", "train-manifest", "val-manifest", "val-ratio", "bucketing", NULL};

// clang-format off
static const OptionOverride overrides[] = {
    {.name = "bucketing", .default_value = "off"},
    {.name = "batch-size", .default_value = "20",
     .help = "sequences of --context tokens per micro-batch; with --documents separate, as many documents as have "
             "those tokens; auto: as the memory allows, and -g with it"},
    {.name = "grad-accumulation", .default_value = "1"},
    {.name = "token-budget", .help = "maximum of tokens per micro-batch, instead of -b times --context; 0: off"},
    {.name = "loss-norm", .default_value = "batch"},
    {.name = "epochs",
     .help = "passes over the data; with --max-steps and without this option, as many as those steps take"},
    {.name = "learning-rate", .default_value = "3e-4", .help = "peak learning rate"},
    {.name = "weight-decay", .default_value = "0.1", .help = "decoupled weight decay of matrices; gains and biases have none"},
    {.name = "warmup-steps", .default_value = "500", .help = "steps of linear warm-up before --schedule"},
    {.name = "max-val-batches", .default_value = "0",
     .help = "batches per validation, the first in file order; 0: all held-out documents"},
};

#define FIELD(name) offsetof(SlmOptions, name)

static const OptionRow table[] = {
    {.name = "data", .heading = "Data", .usual = true, .letter = 'd', .type = OPTION_LIST, .offset = FIELD(train.manifest), .metavar = "DIR|PATH",
     .help = "folder of train_slm prepare, or one with the token files train.bin and val.bin of another program; or a "
             "token file"},
    {.name = "data-dir", .type = OPTION_LIST, .offset = FIELD(train.manifest), .metavar = "DIR|PATH",
     .help = "the same as --data"},
    {.name = "tokenizer", .type = OPTION_TEXT, .offset = FIELD(tokenizer), .metavar = "PATH",
     .help = "tokenizer.json, SentencePiece model or a folder with one, for token files that do not tell their "
             "vocabulary; default: the one in --data, which must be the same"},
    {.name = "tokenizer-dir", .type = OPTION_TEXT, .offset = FIELD(tokenizer), .metavar = "PATH",
     .help = "the same as --tokenizer"},
    {.name = "token-bytes", .type = OPTION_CHOICE, .offset = FIELD(token_bytes), .default_value = "auto",
     .metavar = "auto|2|4",
     .help = "bytes of an id in token files of another program; auto: as their header says, 2 without one"},
    MAX_UNKNOWN_ROW(FIELD(max_unknown)),
    {.name = "vocabulary", .heading = "Model", .type = OPTION_INT, .offset = FIELD(vocabulary), .default_value = "0", .max = 1e9,
     .metavar = "N",
     .help = "rows of the token table; 0: as many as the tokenizer has ids, and 30000 without data"},
    {.name = "size", .usual = true, .type = OPTION_CHOICE, .offset = FIELD(size), .default_value = "slm",
     .metavar = "tiny|small|slm|regular",
     .help = "named size: sets those of layers, d-model, heads and context that are 0: tiny 4, 128, 4, 128; small 6, 384, 6, "
             "256; slm 12, 768, 12, 1024; regular 24, 1024, 16, 1024"},
    {.name = "layers", .type = OPTION_INT, .offset = FIELD(layers), .default_value = "0", .max = BLOCKS_MAX, .metavar = "N",
     .help = "transformer blocks; 0: as --size has it"},
    {.name = "d-model", .type = OPTION_INT, .offset = FIELD(d_model), .default_value = "0", .max = 65536,
     .metavar = "N",
     .help = "width of the model; 0: as --size has it"},
    {.name = "heads", .type = OPTION_INT, .offset = FIELD(heads), .default_value = "0", .max = 1000, .metavar = "N",
     .help = "attention heads; 0: as --size has it"},
    {.name = "context", .usual = true, .type = OPTION_INT, .offset = FIELD(context), .default_value = "0", .max = 1e6,
     .metavar = "N",
     .help = "tokens of the longest sequence; 0: as --size has it"},
    {.name = "biases", .type = OPTION_FLAG, .offset = FIELD(biases), .default_value = "false",
     .help = "biases in linear layers and norms, as GPT-2 has them"},
    {.name = "gelu", .type = OPTION_CHOICE, .offset = FIELD(gelu), .default_value = "erf", .metavar = "erf|tanh",
     .help = "activation of the MLP: exact, or GPT-2's approximation"},
    {.name = "scaled-init", .type = OPTION_FLAG, .offset = FIELD(scaled_init), .default_value = "false",
     .help = "start the matrices that end a branch smaller, by 1 / sqrt(2 layers), as GPT-2 does"},
    {.name = "dropout", .type = OPTION_FLOAT, .offset = FIELD(dropout), .default_value = "0.1", .max = 0.99,
     .metavar = "X",
     .help = "of embeddings, attention probabilities, attention and MLP outputs"},
    {.name = "sampling", .heading = "Data", .type = OPTION_CHOICE, .offset = FIELD(sampling), .default_value = "epoch",
     .metavar = "epoch|random",
     .help = "epoch: every token once an epoch, pieces of documents shuffled; random: contexts from random places"},
    {.name = "documents", .type = OPTION_CHOICE, .offset = FIELD(documents), .default_value = "packed",
     .metavar = "packed|separate",
     .help = "packed: a sequence is a full context of documents end to end; separate: tokens see their own document "
             "only"},
    {.name = "tokens-per-step", .heading = "Batches", .usual = true, .type = OPTION_INT, .offset = FIELD(tokens_per_step), .default_value = "0",
     .max = 1e9, .metavar = "N",
     .help = "tokens per optimizer step: sets -g to the nearest number of micro-batches, with -b auto "
             "--effective-batch; 0: off"},
    {.name = "schedule", .heading = "Training", .type = OPTION_CHOICE, .offset = FIELD(schedule), .default_value = "cosine",
     .metavar = "cosine|wsd|linear",
     .help = "learning rate after the warm-up. cosine, linear: falls to --min-lr; wsd: stays at the peak, and falls "
             "in the last --decay-share of the steps"},
    {.name = "min-lr", .type = OPTION_FLOAT, .offset = FIELD(min_lr), .default_value = "0.1", .max = 1,
     .metavar = "X",
     .help = "learning rate at the end, as a share of the peak"},
    {.name = "decay-share", .type = OPTION_FLOAT, .offset = FIELD(decay_share), .default_value = "0.2", .max = 1,
     .metavar = "X",
     .help = "for --schedule wsd: the share of the steps in which the rate falls"},
    {.name = "optimizer", .type = OPTION_CHOICE, .offset = FIELD(optimizer), .default_value = "adamw",
     .metavar = "adamw|muon",
     .help = "muon: for the matrices of the blocks, whose updates become orthogonal; AdamW for the rest"},
    {.name = "beta1", .type = OPTION_FLOAT, .offset = FIELD(beta1), .default_value = "0.9", .min = 1e-6,
     .max = 0.999999, .metavar = "X",
     .help = "decay of AdamW's mean gradient"},
    {.name = "beta2", .type = OPTION_FLOAT, .offset = FIELD(beta2), .default_value = "0.95", .min = 1e-6,
     .max = 0.999999, .metavar = "X",
     .help = "decay of AdamW's mean square gradient"},
    {.name = "mfu", .heading = "Validation and log", .type = OPTION_CHOICE, .offset = FIELD(mfu), .default_value = "true", .metavar = "true|printed",
     .help = "MFU of the log lines. true: FLOPs done over the peak of this device; printed: as the reference prints "
             "it, 8 FLOPs per parameter and token over the peak of an A100"},
    {.name = "resume-from-checkpoint", .heading = "Files", .type = OPTION_TEXT, .offset = FIELD(train.resume), .later = true, .metavar = "auto|PATH",
     .help = "the same as --resume"},
};

/* Keys of the reference's configuration, besides those that are options here. Keys that it ignored are refused if they
 * would change the run, by being unknown. */
static const OptionAlias aliases[] = {
    {NULL, "max_length", "context", {NULL}},
    {NULL, "n_layer", "layers", {NULL}},
    {NULL, "n_head", "heads", {NULL}},
    {NULL, "n_embd", "d-model", {NULL}},
    {NULL, "vocab_size", "vocabulary", {NULL}},
    {NULL, "eval_iters", "max-val-batches", {NULL}},
    {NULL, "eval_batch_size", "val-batch-size", {NULL}},
    {NULL, "enable_amp", "amp", {NULL}},
    {NULL, "enable_tf32", "no-tf32", {"true", "false", "false", "true"}},
    {NULL, "amp_dtype", NULL, {NULL}}, /* the card decides: bf16 where it has it, else f16 with loss scaling */
    {NULL, "enable_compile", NULL, {NULL}},
    {NULL, "use_wandb", NULL, {NULL}},
    {NULL, "model_name", NULL, {NULL}},
    {NULL, "architecture", NULL, {NULL}},
};
// clang-format on

void slm_options_add(OptionSet *set, SlmOptions *o) {
    options_add(set, table, sizeof table / sizeof *table, o);
    slm_sample_options_add(set, &o->samples);
    train_options_add(set, &o->train);
    trainer_arguments_add(set);
    options_add_aliases(set, aliases, sizeof aliases / sizeof *aliases);
    options_override(set, overrides, sizeof overrides / sizeof *overrides);
    options_remove(set, left_out);
}

/* ---- what follows from the options ---- */

static void resolve_size(SlmOptions *o) {
    static const struct {
        const char *name;
        int64_t layers, d_model, heads, context;
    } sizes[] = {{"tiny", 4, 128, 4, 128},
                 {"small", 6, 384, 6, 256},
                 {"slm", 12, 768, 12, 1024},
                 {"regular", 24, 1024, 16, 1024}};
    int i = 0;
    while (strcmp(sizes[i].name, o->size) != 0) i++;
    if (!o->layers) o->layers = sizes[i].layers;
    if (!o->d_model) o->d_model = sizes[i].d_model;
    if (!o->heads) o->heads = sizes[i].heads;
    if (!o->context) o->context = sizes[i].context;
}

static void check_options(const SlmOptions *o, const OptionSet *set) {
    if (o->train.manifest.count > 1)
        die_usage("--data %s and %s: one folder is expected; train_slm prepare makes one of several texts",
                  o->train.manifest.text[0], o->train.manifest.text[1]);
    if (options_given(set, "decay-share") && strcmp(o->schedule, "wsd") != 0)
        die_usage("--decay-share is for --schedule wsd; --schedule %s falls all the time", o->schedule);
    if (o->tokens_per_step && options_given(set, "grad-accumulation"))
        die_usage(
            "--tokens-per-step %lld and -g %lld: both say how many micro-batches a step has; leave one of them out",
            (long long)o->tokens_per_step, (long long)o->train.grad_accumulation);
    if (o->tokens_per_step && o->train.effective_batch)
        die_usage("--tokens-per-step %lld and --effective-batch %lld: both say how large a step is; leave one of them "
                  "out",
                  (long long)o->tokens_per_step, (long long)o->train.effective_batch);
    if (o->separate && !o->random && o->train.batch_size == OPTION_AUTO)
        die_usage("-b auto with --documents separate: micro-batches are limited by tokens there; give -b or "
                  "--token-budget");
}

/* Returns the tokens of what --tokens-per-step sets the number of: of a sequence with -b auto, else of a micro-batch.
 */
static int64_t counted_tokens(const SlmOptions *o) {
    const TrainOptions *t = &o->train;
    if (t->auto_batch || t->batch_size == OPTION_AUTO) return o->context;
    return t->token_budget ? t->token_budget : t->batch_size * o->context;
}

/* Sets the number of micro-batches, or of sequences, that is nearest to --tokens-per-step. */
static void resolve_tokens_per_step(SlmOptions *o) {
    TrainOptions *t = &o->train;
    int64_t tokens = counted_tokens(o);
    if (!o->tokens_per_step || !tokens) return; /* -b 0 is refused later */
    int64_t n = llround((double)o->tokens_per_step / (double)tokens);
    t->whole_step = t->batch_size != OPTION_AUTO;
    *(t->whole_step ? &t->grad_accumulation : &t->effective_batch) = n > 1 ? n : 1;
}

void slm_options_print(const SlmOptions *o) {
    const TrainOptions *t = &o->train;
    int64_t tokens = counted_tokens(o), n = t->auto_batch ? t->batch_size : t->grad_accumulation;
    if (o->tokens_per_step)
        printf("[Batch] --tokens-per-step %lld: %lld %s%s of %lld tokens are %lld\n", (long long)o->tokens_per_step,
               (long long)n, t->auto_batch ? "sequence" : "micro-batch",
               n == 1          ? ""
               : t->auto_batch ? "s"
                               : "es",
               (long long)tokens, (long long)(n * tokens));
}

void slm_options_resolve(SlmOptions *o, const OptionSet *set) {
    TrainOptions *t = &o->train;
    o->separate = !strcmp(o->documents, "separate");
    o->random = !strcmp(o->sampling, "random");
    resolve_size(o);
    check_options(o, set);
    resolve_tokens_per_step(o);
    train_options_resolve(t, set);
    if (!o->separate || o->random || !t->batch_size) return;
    t->token_budget = t->batch_size * o->context; /* samples are pieces of documents, of any length */
    t->batch_size = 0;
}

SlmConfig slm_options_config(const SlmOptions *o) {
    return (SlmConfig){.vocabulary = (int)o->vocabulary,
                       .context = (int)o->context,
                       .d_model = (int)o->d_model,
                       .n_layers = (int)o->layers,
                       .n_heads = (int)o->heads,
                       .biases = o->biases,
                       .scaled_init = o->scaled_init,
                       .gelu = strcmp(o->gelu, "tanh") ? GELU_ERF : GELU_TANH,
                       .dropout = (float)o->dropout};
}

Schedule slm_options_schedule(const SlmOptions *o) {
    return (Schedule){.kind = !strcmp(o->schedule, "wsd")      ? SCHEDULE_WSD
                              : !strcmp(o->schedule, "linear") ? SCHEDULE_LINEAR
                                                               : SCHEDULE_COSINE,
                      .minimum = o->min_lr,
                      .decay_share = o->decay_share};
}
