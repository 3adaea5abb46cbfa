#include "commands/bert/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/state.h"
#include "commands/max_unknown.h"
#include "commands/next.h"
#include "commands/trainer_arguments.h"
#include "data/bert/batch.h"
#include "model/block.h"

enum { USUAL_POSITIONS = 258 /* of PhoBERT */ };

/* ---- tables ---- */

// clang-format off
const char *const BERT_FIXED_OPTIONS[] = {
    "max-len", "normalize", "compat", "class-weights", "label-smoothing", "metric", "layer-decay", "frozen-layers",
    "mask-share", "freeze-embeddings", "compact-vocabulary", "schedule", "warmup-ratio", "warmup-start",
    "split-shares", "whole-words", "d-model", "layers", "heads", "d-ff", "positions", "folds", NULL};

static const char *const left_out[] = {"manifest", "train-manifest", "val-manifest", "val-ratio", "id-column", NULL};

/* The options of fine-tuning only. */
static const char *const of_classifier[] = {
    "row-tokens", "label-column", "empty", "merge-labels", "labels", "test", "head-dropout", "threshold", "metric",
    "class-weights", "label-smoothing", "folds", "seeds", "layer-decay", "frozen-layers", "freeze-embeddings",
    "compact-vocabulary", NULL};
static const char *const of_pretraining[] = {"mask-share", "whole-words", NULL};

static const OptionOverride overrides[] = {
    {.name = "bucketing", .default_value = "off",
     .help = "put texts of similar length into one micro-batch; nothing is padded either way"},
    {.name = "batch-size", .default_value = "32",
     .help = "texts per micro-batch; if only --token-budget is given, as many as it allows; auto: as the memory allows, "
             "and -g with it"},
    {.name = "grad-accumulation", .default_value = "1"},
    {.name = "loss-norm", .default_value = "batch",
     .help = "divide the loss by the sum of the class weights of each micro-batch, or of the whole effective batch"},
    {.name = "epochs", .default_value = "3"},
    {.name = "learning-rate", .default_value = "2e-5", .help = "peak learning rate"},
    {.name = "weight-decay", .default_value = "0.01",
     .help = "decoupled weight decay of matrices and tables; biases and norms have none"},
    {.name = "warmup-steps", .default_value = "0",
     .help = "steps of linear warm-up before --schedule; 0: as --warmup-ratio has it"},
    {.name = "log-interval", .default_value = "50"},
    {.name = "val-interval", .default_value = "0"},
    {.name = "max-val-batches", .default_value = "0"},
    {.name = "save-interval", .default_value = "0",
     .help = "steps between checkpoints, besides one at each new best validation; 0: only at the end"},
    {.name = "keep-checkpoints", .default_value = "1"},
    {.name = "seed", .default_value = "42"},
    {.name = "val-batch-size", .help = "texts per validation batch; 0: twice --batch-size"},
    {.name = "base-checkpoint",
     .help = "weights to start from: a folder of Hugging Face's RoBERTa class (PhoBERT), its model.safetensors or "
             "pytorch_model.bin, or a checkpoint; none: random initialisation"},
};

/* The same for `pretrain`. */
static const OptionOverride of_texts[] = {
    {.name = "max-len",
     .help = "tokens of the longest text, with begin and end; what is longer is divided into several texts"},
    {.name = "data",
     .help = "texts, repeatable: " COMMENTS_ANY "; or a folder with train and valid files"},
    {.name = "split-shares", .default_value = "99,1,0",
     .help = "percent of the texts to train and validate on, without --valid; the last number is 0"},
    {.name = "learning-rate", .default_value = "1e-4"},
    {.name = "patience", .default_value = "0",
     .help = "end the training after so many validations without a lower loss; 0: never"},
    {.name = "compact-vocabulary", .default_value = "false"}, /* the head has a logit for every token */
    {.name = "loss-norm",
     .help = "divide the loss by the masked pieces of each micro-batch, or of the whole effective batch"},
};

#define FIELD(name) offsetof(BertOptions, name)

static const OptionRow table[] = {
    {.name = "data", .heading = "Data", .usual = true, .letter = 'd', .type = OPTION_LIST, .offset = FIELD(train.manifest), .metavar = "DIR|PATH",
     .help = "folder with files train, valid (or dev) and test (" COMMENTS_LABELLED "), or a training file; without "
             "--valid it is divided by --split-shares"},
    {.name = "valid", .usual = true, .type = OPTION_TEXT, .offset = FIELD(valid), .metavar = "PATH",
     .help = "validation file; default: the one in the folder of --data, else a share of the training texts"},
    {.name = "test", .usual = true, .type = OPTION_TEXT, .offset = FIELD(test), .metavar = "PATH",
     .help = "test file, evaluated once after the training; default: the one in the folder of --data, else a share of "
             "the training texts if validation is one, too"},
    {.name = "split-shares", .type = OPTION_TEXT, .offset = FIELD(split_shares), .default_value = "80,10,10",
     .metavar = "A,B,C",
     .help = "percent of the texts to train, validate and test on, where no files decide it; each class is divided alike"},
    MAX_UNKNOWN_ROW(FIELD(max_unknown)),
    {.name = "labels", .type = OPTION_TEXT, .offset = FIELD(labels), .metavar = "A,B,...",
     .help = "names of the classes in their order; default: those of the training texts, numbers in ascending order"},
    {.name = "class-weights", .heading = "Training", .type = OPTION_TEXT, .offset = FIELD(class_weights), .default_value = "balanced",
     .metavar = "balanced|none|A,B,...",
     .help = "weights of the classes in the loss. balanced: texts / (classes * texts of the class), of the training texts"},
    {.name = "label-smoothing", .type = OPTION_FLOAT, .offset = FIELD(label_smoothing), .default_value = "0",
     .max = 0.99, .metavar = "X",
     .help = "share of each target that all classes have in equal parts, in training"},
    {.name = "metric", .heading = "Validation and log", .usual = true, .type = OPTION_CHOICE, .offset = FIELD(metric), .default_value = "auto",
     .metavar = "auto|f1|macro-f1|accuracy|mcc|loss",
     .help = "validation score that chooses the best weights. f1: of the second of two classes; auto: f1, of more "
             "classes macro-f1"},
    {.name = "patience", .type = OPTION_INT, .offset = FIELD(patience), .default_value = "2", .max = 1e6,
     .metavar = "N",
     .help = "end the training after so many validations without a better --metric; 0: never"},
    {.name = "threshold", .type = OPTION_CHOICE, .offset = FIELD(threshold), .default_value = "auto",
     .metavar = "auto|0.5|f1|balanced|accuracy",
     .help = "probability above which a text is of the second of two classes. f1, balanced, accuracy: the one with the "
             "best F1, balanced accuracy or accuracy on the validation texts; auto: accuracy if that is the --metric, "
             "else f1"},
    {.name = "folds", .heading = "Data", .type = OPTION_INT, .offset = FIELD(folds), .default_value = "0", .max = 1000, .metavar = "K",
     .help = "cross-validate: divide training and validation texts into K stratified folds, test on each, validate on "
             "the next and train on the others; 0: no"},
    {.name = "seeds", .heading = "Training", .type = OPTION_INT, .offset = FIELD(seeds), .default_value = "1", .min = 1, .max = 1000,
     .metavar = "N",
     .help = "train with N seeds from --seed on, on the same splits, and tabulate means and deviations"},
    {.name = "schedule", .type = OPTION_CHOICE, .offset = FIELD(schedule), .default_value = "linear",
     .metavar = "linear|cosine|constant",
     .help = "learning rate after the warm-up. linear, cosine: falls to 0 at the last step"},
    {.name = "warmup-ratio", .type = OPTION_FLOAT, .offset = FIELD(warmup_ratio), .default_value = "0", .max = 1,
     .metavar = "X",
     .help = "share of the steps with a linear warm-up, unless --warmup-steps are given"},
    {.name = "warmup-start", .type = OPTION_CHOICE, .offset = FIELD(warmup_start), .default_value = "zero",
     .metavar = "zero|above-zero",
     .help = "share of the learning rate in step k = 0, 1, ... of a warm-up of W steps. zero: k / W, as Hugging Face's "
             "trainer; above-zero: (k + 1) / (W + 1)"},
    {.name = "layer-decay", .type = OPTION_FLOAT, .offset = FIELD(layer_decay), .default_value = "1", .min = 0.01,
     .max = 1, .metavar = "X",
     .help = "factor of the learning rate from each layer to the one below; the head has --learning-rate"},
    {.name = "frozen-layers", .heading = "Model", .type = OPTION_INT, .offset = FIELD(frozen_layers), .default_value = "0", .max = BLOCKS_MAX,
     .metavar = "N",
     .help = "do not train the embeddings and the first N layers; 0: train all"},
    {.name = "freeze-embeddings", .type = OPTION_FLAG, .offset = FIELD(freeze_embeddings), .default_value = "false",
     .help = "do not train the embeddings"},
    {.name = "compact-vocabulary", .type = OPTION_FLAG, .offset = FIELD(compact_vocabulary), .default_value = "true",
     .help = "leave rows of tokens that no training text has out of the optimizer: they stay as they are, without weight "
             "decay; all other weights get the same bits"},
    {.name = "mask-share", .heading = "Training", .type = OPTION_FLOAT, .offset = FIELD(mask_share), .default_value = "0.15", .min = 0.01,
     .max = 0.9, .metavar = "X",
     .help = "share of the pieces of a text that are to be predicted, drawn anew in every epoch"},
    {.name = "whole-words", .type = OPTION_FLAG, .offset = FIELD(whole_words), .default_value = "false",
     .help = "choose whole words to be predicted, not single pieces"},
    {.name = "layers", .heading = "Model", .type = OPTION_INT, .offset = FIELD(layers), .default_value = "12", .min = 1, .max = BLOCKS_MAX,
     .metavar = "N", .help = "transformer blocks"},
    {.name = "d-model", .type = OPTION_INT, .offset = FIELD(d_model), .default_value = "768", .min = 16, .max = 65536,
     .metavar = "N", .help = "width of the model, a multiple of 16"},
    {.name = "heads", .type = OPTION_INT, .offset = FIELD(heads), .default_value = "12", .min = 1, .max = 1000,
     .metavar = "N", .help = "attention heads"},
    {.name = "d-ff", .type = OPTION_INT, .offset = FIELD(d_ff), .default_value = "0", .max = 1e6, .metavar = "N",
     .help = "width of the MLP; 0: 4 times --d-model"},
    {.name = "positions", .type = OPTION_INT, .offset = FIELD(positions), .default_value = "0", .max = 1e6,
     .metavar = "N",
     .help = "rows of the position table, two of which belong to no token; 0: 258, or more if --max-len needs them"},
    {.name = "vocabulary", .type = OPTION_INT, .offset = FIELD(vocabulary), .default_value = "0", .max = 1e9,
     .metavar = "N",
     .help = "rows of the token table; 0: as many as the tokenizer has ids, and 64001 without data"},
    {.name = "dropout", .type = OPTION_FLOAT, .offset = FIELD(dropout), .default_value = "0.1", .max = 0.99,
     .metavar = "X", .help = "of embeddings, attention probabilities, attention and MLP outputs"},
    {.name = "head-dropout", .type = OPTION_FLOAT, .offset = FIELD(head_dropout), .default_value = "0.1", .max = 0.99,
     .metavar = "X", .help = "before both layers of the classifier"},
    {.name = "rows", .heading = "Estimates", .type = OPTION_INT, .offset = FIELD(rows), .default_value = "24048", .min = 1, .max = 1e9,
     .metavar = "N", .help = "for --estimate and --dry-run without data: synthetic texts of an epoch"},
    {.name = "row-tokens", .type = OPTION_INT, .offset = FIELD(row_tokens), .default_value = "0", .max = 1e6,
     .metavar = "N", .help = "and their tokens; 0: lengths like those of short comments, 16 on average, cut at --max-len"},
    {.name = "resume-from-checkpoint", .heading = "Files", .type = OPTION_TEXT, .offset = FIELD(train.resume), .later = true, .metavar = "auto|PATH",
     .help = "the same as --resume"},
};

/* The constants of the reference's src/train.py. */
static const OptionAlias aliases[] = {
    {NULL, "MODEL_NAME", "base-checkpoint", {NULL}},
    {NULL, "DATA_DIR", "data", {NULL}},
    {NULL, "OUTPUT_DIR", "output-dir", {NULL}},
    {NULL, "MAX_LENGTH", "max-len", {NULL}},
    {NULL, "BATCH_TRAIN", "batch-size", {NULL}},
    {NULL, "BATCH_EVAL", "val-batch-size", {NULL}},
    {NULL, "GRAD_ACCUM", "grad-accumulation", {NULL}},
    {NULL, "EPOCHS", "epochs", {NULL}},
    {NULL, "LR", "learning-rate", {NULL}},
    {NULL, "SEED", "seed", {NULL}},
    {NULL, "USE_GRADIENT_CHECKPOINTING", "grad-checkpointing", {NULL}},
    {NULL, "USE_TORCH_COMPILE", NULL, {NULL}},
    {NULL, "max_length", "max-len", {NULL}},
};
// clang-format on

void bert_options_add(OptionSet *set, BertOptions *o, bool pretraining) {
    options_add(set, table, sizeof table / sizeof *table, o);
    bert_text_options_add(set, &o->text);
    train_options_add(set, &o->train);
    trainer_arguments_add(set);
    options_add_aliases(set, aliases, sizeof aliases / sizeof *aliases);
    options_override(set, overrides, sizeof overrides / sizeof *overrides);
    options_remove(set, left_out);
    if (pretraining) options_override(set, of_texts, sizeof of_texts / sizeof *of_texts);
    options_remove(set, pretraining ? of_classifier : of_pretraining);
    o->set = set;
    o->pretraining = pretraining;
}

/* ---- what follows from the options ---- */

/* "80,10,10": percent */
static void read_shares(BertOptions *o) {
    char rest;
    double *s = o->shares;
    int n = sscanf(o->split_shares, "%lf,%lf,%lf%c", &s[0], &s[1], &s[2], &rest);
    double sum = s[0] + s[1] + s[2];
    if (n != 3 || !(s[0] > 0 && s[1] >= 0 && s[2] >= 0) || fabs(sum - 100) > 1e-6)
        die_usage("--split-shares %s: expected three percentages that add up to 100, the first above 0, such as "
                  "80,10,10",
                  o->split_shares);
    for (int i = 0; i < 3; i++) s[i] /= 100;
}

static void check_options(const BertOptions *o) {
    const TrainOptions *t = &o->train;
    if (!o->pretraining && t->manifest.count > 1)
        die_usage("--data %s and %s: one folder or one training file is expected", t->manifest.text[0],
                  t->manifest.text[1]);
    if (t->manifest.count && (options_given(o->set, "rows") || options_given(o->set, "row-tokens")))
        die_usage("--rows and --row-tokens are of synthetic texts; %s has its own", t->manifest.text[0]);
    if (t->warmup_steps && o->warmup_ratio > 0)
        die_usage("--warmup-steps %lld and --warmup-ratio %g: both say how long the warm-up is; leave one of them out",
                  (long long)t->warmup_steps, o->warmup_ratio);
    if (o->d_model % 16) die_usage("--d-model %lld is no multiple of 16", (long long)o->d_model);
    if (o->d_model % o->heads)
        die_usage("--d-model %lld is no multiple of --heads %lld", (long long)o->d_model, (long long)o->heads);
    if (o->frozen_layers > o->layers)
        die_usage("--frozen-layers %lld: the model has %lld layers", (long long)o->frozen_layers, (long long)o->layers);
    if (o->pretraining && o->shares[2] > 0)
        die_usage("--split-shares %s: nothing is tested after pretraining; the last share is 0", o->split_shares);
    if (o->folds && o->folds < 3)
        die_usage("--folds %lld: at least 3 are needed: one to test on, one to validate on, the others to train on",
                  (long long)o->folds);
    if (o->folds && (o->valid || o->test || options_given(o->set, "split-shares")))
        die_usage("--folds chooses what is trained on, validated on and tested on: leave out %s",
                  o->valid  ? "--valid"
                  : o->test ? "--test"
                            : "--split-shares");
    if (o->row_tokens == 1 || o->row_tokens > o->text.max_len)
        die_usage("--row-tokens %lld: a text has 2 to --max-len %lld", (long long)o->row_tokens,
                  (long long)o->text.max_len);
}

static void check_several(const BertOptions *o) {
    const TrainOptions *t = &o->train;
    if (bert_options_trainings(o) == 1) return;
    if (t->resume && strcmp(t->resume, "auto") != 0)
        die_usage("--resume %s: of several trainings each has a folder of its own; give --resume auto", t->resume);
    if (t->debug_dump) die_usage("--debug-dump writes a single training: leave out --folds and --seeds");
}

void bert_options_resolve(BertOptions *o) {
    train_options_resolve(&o->train, o->set);
    if (!o->d_ff) o->d_ff = 4 * o->d_model;
    if (o->threshold && !strcmp(o->threshold, "auto"))
        o->threshold = o->metric && !strcmp(o->metric, "accuracy") ? "accuracy" : "f1";
    read_shares(o);
    check_options(o);
    check_several(o);
    o->train.in_a_row = bert_options_trainings(o) > 1;
}

int bert_options_trainings(const BertOptions *o) {
    return (int)((o->seeds ? o->seeds : 1) * (o->folds ? o->folds : 1));
}

void bert_options_set_tables(BertOptions *o, int64_t ids) {
    int64_t needed = o->text.max_len + BERT_FIRST_POSITION;
    if (o->vocabulary && o->vocabulary < ids)
        die_usage("--vocabulary %lld: the tokenizer has %lld ids", (long long)o->vocabulary, (long long)ids);
    if (!o->vocabulary) o->vocabulary = ids;
    if (!o->positions) o->positions = needed > USUAL_POSITIONS ? needed : USUAL_POSITIONS;
    if (o->positions < needed)
        die_usage(
            "--max-len %lld: the model has %lld positions, two of which belong to no token: it reads at most %lld "
            "tokens",
            (long long)o->text.max_len, (long long)o->positions, (long long)o->positions - BERT_FIRST_POSITION);
}

BertConfig bert_options_config(const BertOptions *o, int classes, bool padding) {
    return (BertConfig){.vocabulary = (int)o->vocabulary,
                        .positions = (int)o->positions,
                        .d_model = (int)o->d_model,
                        .n_layers = (int)o->layers,
                        .n_heads = (int)o->heads,
                        .d_ff = (int)o->d_ff,
                        .dropout = (float)o->dropout,
                        .head_dropout = (float)o->head_dropout,
                        .classes = classes,
                        .frozen_layers = (int)o->frozen_layers,
                        .frozen_embeddings = o->freeze_embeddings,
                        .padding = padding};
}

void bert_options_resume_warmup(BertOptions *o) {
    const TrainOptions *t = &o->train;
    TrainState state = {0};
    Error error;
    OWNED char *from = t->resume ? checkpoint_resolve(t->output_dir, t->resume) : NULL;
    if (from && !options_given(o->set, "warmup-start") && state_read(from, &state, &error)) {
        json_auto_t *before = json_loads(state.options_json, 0, NULL);
        const char *value = json_string_value(json_object_get(before, "warmup-start"));
        if (!value || strcmp(value, "zero") != 0) o->warmup_start = "above-zero";
    }
    free(state.options_json);
}

Schedule bert_options_schedule(const BertOptions *o) {
    return (Schedule){.kind = strcmp(o->schedule, "cosine") ? SCHEDULE_LINEAR : SCHEDULE_COSINE,
                      .warmup_share = o->warmup_ratio,
                      .warmup_from_zero = !strcmp(o->warmup_start, "zero"),
                      .minimum = !strcmp(o->schedule, "constant")};
}

double *bert_options_rate_factors(const BertOptions *o) {
    int64_t top = o->layers + 1; /* the group of the head; 0 is that of the embeddings */
    if (o->pretraining || o->layer_decay >= 1) return NULL;
    double *factors = xmalloc((size_t)(top + 1) * sizeof *factors);
    for (int64_t g = 0; g <= top; g++) factors[g] = pow(o->layer_decay, (double)(top - g));
    return factors;
}

void bert_options_print_next(const BertOptions *o) {
    OWNED char *weights = next_weights(o->train.output_dir);
    if (o->pretraining)
        next_print("--data LABELLED.csv --base-checkpoint %s -o run", weights);
    else
        next_print("predict --checkpoint %s TEXTS.csv -o predictions.csv",
                   bert_options_trainings(o) > 1 ? o->train.output_dir : weights);
}
