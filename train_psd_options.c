/* The options of train_psd: one table a command, what a checkpoint says of its model, and what makes no sense. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "train_psd.h"

const char *const psd_commands[COMMANDS] = {"pretrain", "finetune", "evaluate", "calibrate", "run"};

/* A row of the table, and which commands have it. */
typedef struct {
    unsigned commands;
    Option row;
} CommandOption;

enum {
    PRE = 1 << PRETRAIN,
    FINE = 1 << FINETUNE,
    EVAL = 1 << EVALUATE,
    CALI = 1 << CALIBRATE,
    ALL = 1 << RUN,
    TRAINING = PRE | FINE,
    JUDGING = EVAL | CALI,
    MODEL = TRAINING | JUDGING
};

#define ROW(mask, option_name, yaml, kind, target, default_text, low, high, metavar, text)                             \
    {                                                                                                                  \
        mask, {                                                                                                        \
            .name = option_name, .section = yaml, .type = kind, .value = target, .preset = default_text, .least = low, \
            .most = high, .argument = metavar, .help = text                                                            \
        }                                                                                                              \
    }

/* Of the options that all programs share, what each command has; those not named here, only the commands that train. */
static const struct {
    const char *name;
    unsigned commands;
} shared[] = {
    {"manifest", MODEL | ALL}, {"config", MODEL},          {"output-dir", MODEL | ALL},
    {"batch-size", MODEL},     {"device", MODEL | ALL},    {"threads", MODEL | ALL},
    {"amp", MODEL | ALL},      {"no-tf32", MODEL | ALL},   {"seed", TRAINING | ALL},
    {"num-workers", MODEL},    {"base-checkpoint", MODEL}, {"profile", MODEL},
    {"train-manifest", 0},     {"val-manifest", 0},        {"val-ratio", 0},
    {"bucketing", 0},          {"token-budget", 0},        {"warmup-steps", 0},
};

/* Defaults, limits and words that differ from those of all programs. */
static const struct {
    const char *name;
    double least; /* 1: no 0, which would stand for a default of other programs */
    const char *preset[COMMANDS], *help;
} presets[] = {
    {"manifest", 0, {NULL}, "the manifest (CSV) that prepare_psd has written, or a store of spectra (.safetensors)"},
    {"epochs", 0, {"80", "50"}, NULL},
    {"batch-size", 1, {"512", "512", "512", "512"}, "spectra a micro-batch"},
    {"effective-batch",
     0,
     {NULL},
     "for -b auto: spectra an optimizer step; finetune divides them as the memory allows, pretrain and the CNN never; "
     "0: the default of -b"},
    {"grad-accumulation",
     1,
     {"1", "1"},
     "micro-batches an optimizer step; contrast and batch norms see each for itself"},
    {"learning-rate", 0, {"2e-4", "2e-4"}, NULL},
    {"weight-decay", 0, {"1e-5", "1e-4"}, "decoupled weight decay, of every parameter"},
    {"val-interval", 0, {"0", "0"}, NULL},
    {"val-batch-size", 0, {NULL}, "spectra a validation batch; 0: as in training in pretrain, else twice --batch-size"},
    {"max-val-batches", 0, {"0", "0"}, NULL},
    {"save-interval", 0, {"0", "0"}, NULL},
    {"log-interval", 0, {"50", "20"}, NULL},
    {"seed", 0, {"42", "42", "42", "42", "42"}, NULL},
    {"output-dir",
     0,
     {"results/pretrain", "results/finetune", "results/evaluation", "results/calibration", "results"},
     "checkpoints, logs, tables and diagrams"},
};

static int own_rows(PsdRun *o, CommandOption *rows) {
    bool pretrain = o->command == PRETRAIN;
    const CommandOption own[] = {
        ROW(MODEL | ALL, "split", NULL, OPTION_TEXT, &o->split, NULL, 0, 0, "PATH",
            "which rows to train, validate and test on: a JSON file of prepare_psd"),
        ROW(MODEL, "sensor", NULL, OPTION_TEXT, &o->sensor, NULL, 0, 0, "NAME",
            "of a split by sensor: the one that is left out"),
        ROW(MODEL, "shots", NULL, OPTION_INT, &o->shots, "0", 0, 1e6, "K",
            "of a few-shot split: how many rows of each class of the sensor are trained on"),
        ROW(TRAINING, "warmup-epochs", NULL, OPTION_INT, &o->warmup_epochs, "0", 0, 1e6, "N",
            "epochs of linear warm-up from a hundredth of the rate, before the cosine"),
        ROW(TRAINING, "min-learning-rate", NULL, OPTION_FLOAT, &o->min_learning_rate, pretrain ? "1e-6" : "1e-7", 0, 10,
            "X", "where the cosine over the epochs ends"),
        ROW(TRAINING, "early-stopping-patience", NULL, OPTION_INT, &o->patience, pretrain ? "0" : "10", 0, 1e6, "N",
            "validations without a better one after which the training ends; 0: never"),
        ROW(FINE, "pretrained", NULL, OPTION_TEXT, &o->train.base_checkpoint, NULL, 0, 0, "PATH",
            "the encoder to start from: a checkpoint, a .safetensors or a Lightning .ckpt, of which the head is taken "
            "along if it has one; none: from scratch"),
        ROW(JUDGING, "checkpoint", NULL, OPTION_TEXT, &o->train.base_checkpoint, NULL, 0, 0, "PATH",
            "the classifier: a checkpoint directory, a .safetensors or a Lightning .ckpt"),
        ROW(FINE, "freeze-encoder", NULL, OPTION_FLAG, &o->freeze_encoder, "false", 0, 0, NULL,
            "train the head alone; the encoder then has no dropout either"),
        ROW(FINE, "encoder-lr-scale", NULL, OPTION_FLOAT, &o->encoder_lr_scale, "-1", -1, 1e3, "X",
            "the encoder's learning rate, as a share of the head's; -1: 0.1 with --pretrained, 1 from scratch"),
        ROW(FINE, "class-weights", NULL, OPTION_TEXT, &o->class_weights, "auto", 0, 0, "auto|none|W,W,...",
            "weigh the classes of the loss by one over how many samples each has, or by these 6 numbers"),
        ROW(JUDGING, "part", NULL, OPTION_CHOICE, &o->part, "test", 0, 0, "test|val|train", "which rows of the split"),
        ROW(EVAL, "tag", NULL, OPTION_TEXT, &o->tag, "finetuned", 0, 0, "NAME", "names the files that are written"),
        ROW(MODEL | ALL, "size", NULL, OPTION_CHOICE, &o->size, "medium", 0, 0, PSD_SIZE_NAMES,
            "sets what is 0 of d-model, n-layers, n-heads, ffn-dim, decoder-dim, decoder-layers, projection-dim, "
            "hidden-dim"),
        ROW(MODEL | ALL, "encoder", "encoder", OPTION_CHOICE, &o->encoder, "transformer", 0, 0, "transformer|cnn",
            "the convolutional baseline, or the transformer"),
        ROW(MODEL, "d-model", "encoder", OPTION_INT, &o->d_model, "0", 0, 65536, "N", "width; 0: the size's"),
        ROW(MODEL, "n-layers", "encoder", OPTION_INT, &o->n_layers, "0", 0, PSD_MOST_LAYERS, "N",
            "blocks; 0: the size's"),
        ROW(MODEL, "n-heads", "encoder", OPTION_INT, &o->n_heads, "0", 0, 1000, "N", "heads; 0: the size's"),
        ROW(MODEL, "ffn-dim", "encoder", OPTION_INT, &o->ffn_dim, "0", 0, 1e6, "N", "width of the MLP; 0: the size's"),
        ROW(MODEL, "dropout", "encoder", OPTION_FLOAT, &o->dropout, "0.1", 0, 0.99, "X",
            "of the encoder; the decoder's is 0.1, or 0 if this is"),
        ROW(PRE, "mask-ratio", "mpae", OPTION_FLOAT, &o->mask_ratio, "0.6", 0.01, 0.99, "X",
            "share of the 12 patches that is masked"),
        ROW(PRE, "decoder-dim", "mpae", OPTION_INT, &o->decoder_dim, "0", 0, 65536, "N", "0: the size's"),
        ROW(PRE, "decoder-layers", "mpae", OPTION_INT, &o->decoder_layers, "0", 0, PSD_MOST_LAYERS, "N",
            "0: the size's"),
        ROW(PRE, "lambda-sicr", "sicr", OPTION_FLOAT, &o->lambda_sicr, "0.1", 0, 1e6, "X",
            "weight of the contrastive loss"),
        ROW(PRE, "temperature", "sicr", OPTION_FLOAT, &o->temperature, "0.07", 1e-6, 1e6, "X",
            "of the contrastive loss"),
        ROW(PRE, "projection-dim", "sicr", OPTION_INT, &o->projection_dim, "0", 0, 65536, "N", "0: the size's"),
        ROW(FINE | JUDGING, "head", "head", OPTION_CHOICE, &o->head, "mlp", 0, 0, "mlp|linear", "kind of head"),
        ROW(FINE | JUDGING, "hidden-dim", "head", OPTION_INT, &o->hidden_dim, "0", 0, 65536, "N",
            "width of the mlp head; 0: the size's"),
        ROW(FINE | JUDGING, "head-dropout", "head", OPTION_FLOAT, &o->head_dropout, "0.2", 0, 0.99, "X",
            "of the mlp head"),
        ROW(MODEL | ALL, "hop", NULL, OPTION_FLAG, &o->hop, "false", 0, 0, NULL,
            "every 200 bins of a row are a sample, instead of the 200 in its middle; not given: as the checkpoint or "
            "the store has it"),
        ROW(MODEL | ALL, "limit", NULL, OPTION_FLOAT, &o->limit, "20", 0, 1e9, "X",
            "normalised bins are held within +-X; 0: no limit; not given: as the checkpoint or the store has it"),
        ROW(MODEL | ALL, "accelerator", NULL, OPTION_CHOICE, &o->accelerator, "auto", 0, 0, "auto|cpu|gpu",
            "the same as --device, in other trainers' words"),
        ROW(MODEL | ALL, "devices", NULL, OPTION_INT, &o->devices, "1", 1, 1, "N", "how many GPUs: one"),
        ROW(ALL, "protocol", NULL, OPTION_CHOICE, &o->protocol, "pooled", 0, 0, "pooled|loso|fewshot_loso",
            "once; or for every sensor, trained on all others; or that, and then tuned on a few rows of the sensor"),
        ROW(ALL, "loso-split", NULL, OPTION_TEXT, &o->loso_split, NULL, 0, 0, "PATH",
            "for fewshot_loso: the split by sensor, for the training on all others"),
        ROW(ALL, "pretrain-config", NULL, OPTION_TEXT, &o->pretrain_config, NULL, 0, 0, "PATH", "YAML for pretrain"),
        ROW(ALL, "finetune-config", NULL, OPTION_TEXT, &o->finetune_config, NULL, 0, 0, "PATH", "YAML for finetune"),
        ROW(ALL, "pretrain-epochs", NULL, OPTION_INT, &o->pretrain_epochs, "0", 0, MOST_EPOCHS, "N",
            "0: as configured"),
        ROW(ALL, "finetune-epochs", NULL, OPTION_INT, &o->finetune_epochs, "0", 0, MOST_EPOCHS, "N",
            "0: as configured"),
        ROW(ALL, "scratch", NULL, OPTION_FLAG, &o->scratch, "false", 0, 0, NULL, "no pretraining"),
        ROW(ALL, "num-loso-sensors", NULL, OPTION_INT, &o->first_sensors, "0", 0, 1e6, "N",
            "only the first so many sensors of the split; 0: all"),
        ROW(ALL, "fewshot-seeds", NULL, OPTION_INT, &o->repeats, "3", 1, 1000, "N",
            "trainings for each number of shots: with the split's rows, then with other draws of them"),
    };
    memcpy(rows, own, sizeof own);
    return (int)(sizeof own / sizeof *own);
}

static unsigned commands_of_shared(const char *name) {
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (!strcmp(shared[i].name, name)) return shared[i].commands;
    return TRAINING;
}

/* The table of one command. */
int psd_option_rows(PsdRun *o, Option *rows) {
    Option general[TRAIN_MAX_OPTIONS];
    CommandOption own[TRAIN_MAX_OPTIONS];
    int n = 0, n_general = train_option_rows(&o->train, general), n_own = own_rows(o, own);
    for (int i = 0; i < n_general; i++) {
        if (!(commands_of_shared(general[i].name) >> o->command & 1)) continue;
        if (o->command != PRETRAIN && !strcmp(general[i].name, "base-checkpoint")) continue; /* own rows name it */
        for (size_t p = 0; p < sizeof presets / sizeof *presets; p++)
            if (!strcmp(presets[p].name, general[i].name)) {
                if (presets[p].preset[o->command]) general[i].preset = presets[p].preset[o->command];
                if (presets[p].help) general[i].help = presets[p].help;
                if (presets[p].least > 0) general[i].least = presets[p].least;
            }
        if ((1 << o->command) & JUDGING && !strcmp(general[i].name, "batch-size")) general[i].argument = "N";
        rows[n++] = general[i];
    }
    for (int i = 0; i < n_own; i++)
        if (own[i].commands >> o->command & 1) rows[n++] = own[i].row;
    return n;
}

void psd_options_resolve(PsdRun *o, Option *rows, int n) {
    o->train.bucketing = "off"; /* all spectra are alike */
    if (!o->train.loss_norm) o->train.loss_norm = "micro";
    if (o->train.base_checkpoint && o->command != PRETRAIN) psd_adopt_model(o, rows, n);
    psd_resolve_size(o);
    if (strcmp(o->accelerator, "auto")) o->train.device = strcmp(o->accelerator, "gpu") ? o->accelerator : "cuda";
    if (o->command != RUN) train_options_resolve(&o->train, rows, n);
    /* The contrast is within a batch: with as many spectra its value is comparable. */
    if (o->command == PRETRAIN && o->train.val_times) {
        o->train.val_times = 1;
        o->train.val_batch_size = o->train.batch_size;
    }
    if (o->train.manifest.count > 1) die_usage("%d manifests; one is expected", o->train.manifest.count);
    bool typical = o->train.estimate && !o->train.manifest.count;
    if (!o->train.manifest.count && !typical) die_usage("no data: give the manifest with -m");
    if (!o->split && !typical) die_usage("which rows? give --split: prepare_psd writes such files");
    if ((1 << o->command) & TRAINING && o->warmup_epochs >= o->train.epochs)
        die_usage("--warmup-epochs %lld are all of the %lld epochs", (long long)o->warmup_epochs,
                  (long long)o->train.epochs);
    if ((1 << o->command) & JUDGING && !o->train.base_checkpoint) die_usage("which model? give --checkpoint");
    if (o->freeze_encoder && !strcmp(o->encoder, "cnn"))
        die_usage("--freeze-encoder is for the transformer: the batch norms of the CNN have no frozen form");
    if (o->train.grad_checkpointing && !strcmp(o->encoder, "cnn"))
        die_usage("--grad-checkpointing is for the transformer: the CNN has no blocks to compute again");
    if (o->encoder_lr_scale < 0) o->encoder_lr_scale = o->train.base_checkpoint ? 0.1 : 1;
}

bool psd_given(const PsdRun *o, const char *name) {
    for (int i = 0; i < o->n_rows; i++)
        if (!strcmp(o->rows[i].name, name)) return o->rows[i].given;
    return false;
}
