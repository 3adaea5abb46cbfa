/* The options of the commands of train_psd: which command has which, their defaults, and combinations that are refused.
 */
#include <stdlib.h>
#include <string.h>

#include "commands/psd/psd.h"
#include "model/block.h"

const char *const PSD_COMMAND_NAMES[PSD_COMMANDS] = {"pretrain", "finetune", "evaluate", "calibrate", "predict", "run"};

enum {
    PRE = 1 << PSD_PRETRAIN,
    FINE = 1 << PSD_FINETUNE,
    EVAL = 1 << PSD_EVALUATE,
    CALI = 1 << PSD_CALIBRATE,
    PRED = 1 << PSD_PREDICT,
    RUN = 1 << PSD_RUN,
    TRAINING = PRE | FINE,
    LABELLED = EVAL | CALI, /* commands that compare predictions with labels */
    INFERENCE = LABELLED | PRED,
    SPLIT = TRAINING | LABELLED,
    MODEL = TRAINING | INFERENCE
};

/* The commands that have an option shared by all programs. Options not listed here belong to training only. */
static const struct {
    const char *name;
    unsigned commands;
} shared[] = {
    {"manifest", SPLIT | RUN},
    {"config", MODEL},
    {"output-dir", SPLIT | RUN},
    {"batch-size", MODEL | RUN},
    {"learning-rate", TRAINING | RUN},
    {"grad-accumulation", TRAINING | RUN},
    {"grad-checkpointing", TRAINING | RUN},
    {"val-batch-size", TRAINING | RUN},
    {"device", MODEL | RUN},
    {"threads", MODEL | RUN},
    {"amp", MODEL | RUN},
    {"no-tf32", MODEL | RUN},
    {"seed", TRAINING | RUN},
    {"num-workers", MODEL},
    {"base-checkpoint", PRE},
    {"profile", MODEL},
    {"train-manifest", 0},
    {"val-manifest", 0},
    {"val-ratio", 0},
    {"bucketing", 0},
    {"token-budget", 0},
    {"warmup-steps", 0},
    {"price", TRAINING | RUN},
    {"prices", TRAINING | RUN},
};

/* Changes to the options that all programs share. */
// clang-format off
static const struct {
    unsigned commands;
    OptionOverride override;
} overrides[] = {
    {SPLIT | RUN, {.name = "manifest",
                   .help = "the manifest (CSV) of train_psd prepare, or a store of spectra (.safetensors)"}},
    {MODEL, {.name = "bucketing", .default_value = "off"}}, /* all spectra have the same length */
    {PRE, {.name = "epochs", .default_value = "80"}},
    {FINE, {.name = "epochs", .default_value = "50"}},
    {MODEL, {.name = "batch-size", .default_value = OPTION_DEFAULT(PSD_BATCH), .min = 1,
             .help = "spectra per micro-batch"}},
    {TRAINING, {.name = "effective-batch",
                .help = "for -b auto: spectra per optimizer step; finetune divides them as the memory requires, "
                        "pretrain and the CNN never do; 0: the default of -b"}},
    {TRAINING, {.name = "grad-accumulation", .default_value = "1", .min = 1,
                .help = "micro-batches per optimizer step; the contrast and the batch norms see one micro-batch at "
                        "a time"}},
    {RUN, {.name = "grad-accumulation", .default_value = "1", .min = 1,
           .help = "micro-batches per optimizer step of both trainings, but not of few shots; the contrast and the "
                   "batch norms see one micro-batch at a time; not given: as their configurations say"}},
    {TRAINING, {.name = "learning-rate", .default_value = "2e-4"}},
    {TRAINING, {.name = "weight-decay", .help = "decoupled weight decay, applied to every parameter"}},
    {PRE, {.name = "weight-decay", .default_value = "1e-5"}},
    {FINE, {.name = "weight-decay", .default_value = "1e-4"}},
    {TRAINING, {.name = "val-interval", .default_value = "0"}},
    {TRAINING, {.name = "val-batch-size",
                .help = "spectra per validation batch; 0: --batch-size in pretrain, otherwise twice --batch-size"}},
    {RUN, {.name = "val-batch-size",
           .help = "spectra per validation batch of both trainings, but not of few shots; not given: as their "
                   "configurations say"}},
    {MODEL, {.name = "max-val-batches", .default_value = "0"}},
    {TRAINING, {.name = "save-interval", .default_value = "0"}},
    {PRE, {.name = "log-interval", .default_value = "50"}},
    {FINE, {.name = "log-interval", .default_value = "20"}},
    {SPLIT | RUN, {.name = "seed", .default_value = "42"}},
    {SPLIT | RUN, {.name = "output-dir", .help = "folder for checkpoints, logs, tables and diagrams"}},
    {PRE, {.name = "output-dir", .default_value = "results/pretrain"}},
    {FINE, {.name = "output-dir", .default_value = "results/finetune"}},
    {EVAL, {.name = "output-dir", .default_value = "results/evaluation"}},
    {CALI, {.name = "output-dir", .default_value = "results/calibration"}},
    {RUN, {.name = "output-dir", .default_value = "results"}},
    {INFERENCE, {.name = "batch-size", .metavar = "N"}},
    {RUN, {.name = "batch-size", .default_value = OPTION_DEFAULT(PSD_BATCH), .min = 1, .metavar = "N",
           .help = "spectra per micro-batch of both trainings; not given: as their configurations say"}},
    {RUN, {.name = "learning-rate", .default_value = "2e-4",
           .help = "peak learning rate of both trainings; not given: as their configurations say"}},
    {RUN, {.name = "price",
           .help = "price of an hour of the machine, 0.80 (USD) or '0.80 EUR', or of cards, l4=0.80,h200=3.50: each "
                   "training, and the run at its end, shows what it has cost"}},
};

#define FIELD(name) offsetof(PsdOptions, name)

static const struct {
    unsigned commands;
    OptionRow row;
} table[] = {
    {PRED, {.name = "manifest", .heading = "Data", .letter = 'm', .type = OPTION_LIST, .offset = FIELD(train.manifest),
            .metavar = "DIR|PATH", .positional = true,
            .help = "the spectra: a folder of recordings (.npy, at any depth; nothing is written into it), or a "
                    "manifest (CSV) of train_psd prepare"}},
    {PRED, {.name = "calibration", .heading = "Model", .type = OPTION_CHOICE, .offset = FIELD(test.calibration), .default_value = "auto",
            .metavar = "auto|none|temperature|vector|covariate",
            .help = "which of the calibrations that `calibrate` has kept with the weights makes the probabilities; "
                    "covariate: the temperature by SNR; auto: temperature, if there is one"}},
    {SPLIT | RUN, {.name = "split", .heading = "Data", .usual = true, .type = OPTION_TEXT, .offset = FIELD(data.split), .metavar = "PATH",
                   .help = "split file (JSON) of train_psd prepare: which rows to train, validate and test on"}},
    {SPLIT, {.name = "sensor", .usual = true, .type = OPTION_TEXT, .offset = FIELD(data.sensor), .metavar = "NAME",
             .help = "for a split file by sensor: the sensor that is left out"}},
    {SPLIT, {.name = "shots", .type = OPTION_INT, .offset = FIELD(data.shots), .default_value = "0", .max = 1e6,
             .metavar = "K",
             .help = "for a few-shot split file: how many rows per class of the sensor to train on"}},
    {TRAINING, {.name = "warmup-epochs", .heading = "Training", .type = OPTION_INT, .offset = FIELD(training.warmup_epochs), .default_value = "0",
                .max = MAX_EPOCHS, .metavar = "N",
                .help = "epochs of linear warm-up from 1 % of the learning rate, before the cosine"}},
    {PRE, {.name = "min-learning-rate", .type = OPTION_FLOAT, .offset = FIELD(training.min_learning_rate),
           .default_value = "1e-6", .max = 10, .metavar = "X",
           .help = "learning rate at which the cosine over the epochs ends"}},
    {FINE, {.name = "min-learning-rate", .type = OPTION_FLOAT, .offset = FIELD(training.min_learning_rate),
            .default_value = "1e-7", .max = 10, .metavar = "X",
            .help = "learning rate at which the cosine over the epochs ends"}},
    {PRE, {.name = "early-stopping-patience", .heading = "Validation and log", .type = OPTION_INT, .offset = FIELD(training.patience), .default_value = "0",
           .max = 1e6, .metavar = "N",
           .help = "validations without improvement after which the training ends; 0: never"}},
    {FINE, {.name = "early-stopping-patience", .type = OPTION_INT, .offset = FIELD(training.patience), .default_value = "10",
            .max = 1e6, .metavar = "N",
            .help = "validations without improvement after which the training ends; 0: never"}},
    {FINE, {.name = "pretrained", .heading = "Model", .usual = true, .type = OPTION_TEXT, .offset = FIELD(train.base_checkpoint), .metavar = "PATH", .later = true,
            .help = "the encoder to start from: a checkpoint directory, a .safetensors or a Lightning .ckpt; its "
                    "head is used too if it fits; without this option: from scratch"}},
    {LABELLED, {.name = "checkpoint", .usual = true, .type = OPTION_TEXT, .offset = FIELD(train.base_checkpoint), .metavar = "PATH",
                 .help = "the classifier: a checkpoint directory, a .safetensors or a Lightning .ckpt"}},
    {FINE, {.name = "freeze-encoder", .heading = "Training", .type = OPTION_FLAG, .offset = FIELD(model.freeze_encoder), .default_value = "false",
            .help = "train only the head; the encoder then has no dropout"}},
    {FINE, {.name = "encoder-lr-scale", .type = OPTION_FLOAT, .offset = FIELD(training.encoder_lr_scale), .default_value = "-1",
            .min = -1, .max = 1e3, .metavar = "X",
            .help = "learning rate of the encoder as a fraction of the head's; -1: 0.1 with --pretrained, 1 from "
                    "scratch"}},
    {FINE, {.name = "class-weights", .type = OPTION_TEXT, .offset = FIELD(training.class_weights), .default_value = "auto",
            .metavar = "auto|none|W,W,...",
            .help = "class weights of the loss: auto is proportional to 1 / (samples of the class); or give 6 "
                    "numbers"}},
    {LABELLED, {.name = "eval-split", .heading = "Data", .type = OPTION_CHOICE, .offset = FIELD(test.eval_split), .default_value = "test",
                 .metavar = "test|val|train",
                 .help = "which rows to evaluate"}},
    {EVAL, {.name = "tag", .heading = "Files", .type = OPTION_TEXT, .offset = FIELD(test.tag), .default_value = "finetuned", .metavar = "NAME",
            .help = "part of the names of the files that are written"}},
    {MODEL | RUN, {.name = "size", .heading = "Model", .usual = true, .type = OPTION_CHOICE, .offset = FIELD(model.size), .default_value = "medium",
                   .metavar = PSD_SIZE_NAMES,
                   .help = "named size: sets those of d-model, n-layers, n-heads, ffn-dim, decoder-dim, "
                           "decoder-layers, projection-dim and hidden-dim that are 0"}},
    {MODEL | RUN, {.name = "encoder", .section = "encoder", .type = OPTION_CHOICE, .offset = FIELD(model.encoder),
                   .default_value = "transformer", .metavar = "transformer|cnn",
                   .help = "the transformer, or the convolutional baseline"}},
    {MODEL, {.name = "d-model", .section = "encoder", .type = OPTION_INT, .offset = FIELD(model.d_model),
             .default_value = "0", .max = 65536, .metavar = "N",
             .help = "width; 0: as --size has it"}},
    {MODEL, {.name = "n-layers", .section = "encoder", .type = OPTION_INT, .offset = FIELD(model.n_layers),
             .default_value = "0", .max = BLOCKS_MAX, .metavar = "N",
             .help = "blocks; 0: as --size has it"}},
    {MODEL, {.name = "n-heads", .section = "encoder", .type = OPTION_INT, .offset = FIELD(model.n_heads),
             .default_value = "0", .max = 1000, .metavar = "N",
             .help = "attention heads; 0: as --size has it"}},
    {MODEL, {.name = "ffn-dim", .section = "encoder", .type = OPTION_INT, .offset = FIELD(model.ffn_dim),
             .default_value = "0", .max = 1e6, .metavar = "N",
             .help = "width of the MLP; 0: as --size has it"}},
    {MODEL, {.name = "dropout", .section = "encoder", .type = OPTION_FLOAT, .offset = FIELD(model.dropout),
             .default_value = "0.1", .max = 0.99, .metavar = "X",
             .help = "dropout of the encoder; the decoder has 0.1, or 0 if this is 0"}},
    {PRE, {.name = "mask-ratio", .heading = "Training", .section = "mpae", .type = OPTION_FLOAT, .offset = FIELD(training.mask_ratio),
           .default_value = "0.6", .min = 0.01, .max = 0.99, .metavar = "X",
           .help = "fraction of the 12 patches that is masked"}},
    {PRE, {.name = "decoder-dim", .heading = "Model", .section = "mpae", .type = OPTION_INT, .offset = FIELD(model.decoder_dim),
           .default_value = "0", .max = 65536, .metavar = "N",
           .help = "width of the decoder; 0: as --size has it"}},
    {PRE, {.name = "decoder-layers", .section = "mpae", .type = OPTION_INT, .offset = FIELD(model.decoder_layers),
           .default_value = "0", .max = BLOCKS_MAX, .metavar = "N",
           .help = "blocks of the decoder; 0: as --size has it"}},
    {PRE, {.name = "lambda-sicr", .heading = "Training", .section = "sicr", .type = OPTION_FLOAT, .offset = FIELD(training.lambda_sicr),
           .default_value = "0.1", .max = 1e6, .metavar = "X",
           .help = "weight of the contrastive loss"}},
    {PRE, {.name = "temperature", .section = "sicr", .type = OPTION_FLOAT, .offset = FIELD(training.temperature),
           .default_value = "0.07", .min = 1e-6, .max = 1e6, .metavar = "X",
           .help = "temperature of the contrastive loss"}},
    {PRE, {.name = "projection-dim", .heading = "Model", .section = "sicr", .type = OPTION_INT, .offset = FIELD(model.projection_dim),
           .default_value = "0", .max = 65536, .metavar = "N",
           .help = "width that the contrast compares; 0: as --size has it"}},
    {FINE | INFERENCE, {.name = "head", .section = "head", .type = OPTION_CHOICE, .offset = FIELD(model.head),
                        .default_value = "mlp", .metavar = "mlp|linear",
                        .help = "kind of classification head"}},
    {FINE | INFERENCE, {.name = "hidden-dim", .section = "head", .type = OPTION_INT, .offset = FIELD(model.hidden_dim),
                        .default_value = "0", .max = 65536, .metavar = "N",
                        .help = "width of the mlp head; 0: as --size has it"}},
    {FINE | INFERENCE, {.name = "head-dropout", .section = "head", .type = OPTION_FLOAT, .offset = FIELD(model.head_dropout),
                        .default_value = "0.2", .max = 0.99, .metavar = "X",
                        .help = "dropout of the mlp head"}},
    {MODEL | RUN, {.name = "hop", .heading = "Data", .type = OPTION_FLAG, .offset = FIELD(data.hop), .default_value = "false",
                   .help = "make a sample of every 200 bins of a row, not only of the 200 in its middle; not given: "
                           "as the checkpoint or the store has it"}},
    {MODEL | RUN, {.name = "limit", .type = OPTION_FLOAT, .offset = FIELD(data.limit), .default_value = "20", .max = 1e9,
                   .metavar = "X",
                   .help = "clip normalised bins to +-X; 0: no limit, and 0 dB for bins that are not finite; not given: "
                           "as the checkpoint or the store has it"}},
    {MODEL | RUN, {.name = "accelerator", .heading = "Device", .type = OPTION_CHOICE, .offset = FIELD(accelerator), .default_value = "auto",
                   .metavar = "auto|cpu|gpu",
                   .help = "another name for --device, as other trainers call it"}},
    {MODEL | RUN, {.name = "devices", .type = OPTION_INT, .offset = FIELD(devices), .default_value = "1", .min = 1,
                   .max = 1, .metavar = "N",
                   .help = "number of GPUs; only 1 is supported"}},
    {RUN, {.name = "protocol", .heading = "Data", .usual = true, .type = OPTION_CHOICE, .offset = FIELD(all.protocol), .default_value = "pooled",
           .metavar = "pooled|loso|fewshot_loso",
           .help = "pooled: once; loso: for every sensor, trained on all others; fewshot_loso: then also tuned on a "
                   "few rows of it"}},
    {RUN, {.name = "loso-split", .type = OPTION_TEXT, .offset = FIELD(all.loso_split), .metavar = "PATH",
           .help = "for fewshot_loso: the split file by sensor, for the training on all others"}},
    {RUN, {.name = "pretrain-config", .heading = "Files", .type = OPTION_TEXT, .offset = FIELD(all.pretrain_config), .metavar = "PATH", .later = true,
           .help = "YAML file with options of pretrain"}},
    {RUN, {.name = "finetune-config", .type = OPTION_TEXT, .offset = FIELD(all.finetune_config), .metavar = "PATH", .later = true,
           .help = "YAML file with options of finetune"}},
    {RUN, {.name = "pretrain-epochs", .heading = "Training", .usual = true, .type = OPTION_INT, .offset = FIELD(all.pretrain_epochs), .default_value = "0",
           .max = MAX_EPOCHS, .metavar = "N",
           .help = "epochs of pretrain; 0: as its configuration says"}},
    {RUN, {.name = "finetune-epochs", .usual = true, .type = OPTION_INT, .offset = FIELD(all.finetune_epochs), .default_value = "0",
           .max = MAX_EPOCHS, .metavar = "N",
           .help = "epochs of finetune; 0: as its configuration says"}},
    {RUN, {.name = "scratch", .usual = true, .type = OPTION_FLAG, .offset = FIELD(all.scratch), .default_value = "false",
           .help = "leave out the pretraining"}},
    {RUN, {.name = "num-loso-sensors", .heading = "Data", .type = OPTION_INT, .offset = FIELD(all.first_sensors), .default_value = "0",
           .max = 1e6, .metavar = "N",
           .help = "use only the first N sensors of the split file; 0: all"}},
    {RUN, {.name = "fewshot-seeds", .type = OPTION_INT, .offset = FIELD(all.repeats), .default_value = "3", .min = 1,
           .max = 1000, .metavar = "N",
           .help = "trainings per number of shots: the first with the rows of the split file, the others with new "
                   "draws"}},
};
// clang-format on

/* Keys of the reference's configuration, besides those that all programs accept. */
static const OptionAlias aliases[] = {
    {"encoder", "type", "encoder", {NULL}},
    {"encoder", "gradient_checkpointing", "grad-checkpointing", {NULL}},
    {"head", "type", "head", {NULL}},
    {"head", "dropout", "head-dropout", {NULL}},
    {"model", NULL, NULL, {NULL}},
    {"model", "pretrained_ckpt", "pretrained", {NULL}},
    {"logging", "log_every_n_steps", "log-interval", {NULL}},
    {"logging", "save_top_k", "keep-checkpoints", {NULL}},
    {"dataset", "manifest_path", "manifest", {NULL}},
    {NULL, "results_dir", "output-dir", {NULL}},
};

static unsigned commands_of_shared(const char *name) {
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (!strcmp(shared[i].name, name)) return shared[i].commands;
    return TRAINING;
}

/* Adds the options of o->command to its set. */
static void add_options(PsdOptions *o) {
    unsigned command = 1u << o->command;
    if (command & PRED) predict_options_add(&o->set, &o->predict);
    int shared_from = o->set.count;
    train_options_add(&o->set, &o->train);
    options_add_aliases(&o->set, aliases, sizeof aliases / sizeof *aliases);
    for (size_t i = 0; i < sizeof overrides / sizeof *overrides; i++)
        if (overrides[i].commands & command) options_override(&o->set, &overrides[i].override, 1);
    for (int i = o->set.count - 1; i >= shared_from; i--) {
        const char *const names[] = {o->set.options[i].row.name, NULL};
        if (!(commands_of_shared(names[0]) & command)) options_remove(&o->set, names);
    }
    const char *heading = NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        OptionRow row = table[i].row;
        if (row.heading) heading = row.heading;
        row.heading = heading;
        if (table[i].commands & command) options_add(&o->set, &row, 1, o);
    }
}

static void check_options(const PsdOptions *o, bool synthetic) {
    bool cnn = !strcmp(o->model.encoder, "cnn");
    bool predict = o->command == PSD_PREDICT;
    if (o->train.manifest.count > 1) die_usage("%d manifests; one is expected", o->train.manifest.count);
    if (!predict && !o->train.manifest.count && !synthetic) die_usage("no data: give the manifest with -m");
    if (!predict && !o->data.split && !synthetic)
        die_usage("which rows? give --split: train_psd prepare writes such files");
    if ((1 << o->command) & TRAINING && o->training.warmup_epochs >= o->train.epochs)
        die_usage("--warmup-epochs %lld are all of the %lld epochs; give fewer", (long long)o->training.warmup_epochs,
                  (long long)o->train.epochs);
    int visible = psd_data_visible_patches(o);
    if (o->command == PSD_PRETRAIN && (visible < 1 || visible >= PSD_PATCHES))
        die_usage("--mask-ratio %g masks %d of 12 patches; at least one must be masked and one visible",
                  o->training.mask_ratio, PSD_PATCHES - visible);
    if (options_given(&o->set, "min-learning-rate") && o->training.min_learning_rate > o->train.learning_rate)
        die_usage("--min-learning-rate %g is more than --learning-rate %g", o->training.min_learning_rate,
                  o->train.learning_rate);
    if ((1 << o->command) & LABELLED && !o->train.base_checkpoint) die_usage("which model? give --checkpoint");
    if (o->model.freeze_encoder && cnn)
        die_usage("--freeze-encoder is for the transformer: the batch norms of the CNN cannot be frozen");
    if (o->train.grad_checkpointing && cnn)
        die_usage("--grad-checkpointing is for the transformer: the CNN has no blocks to compute again");
}

static void resolve(PsdOptions *o) {
    if (o->train.base_checkpoint && o->command != PSD_PRETRAIN) psd_checkpoint_adopt(o);
    psd_size_resolve(o);
    if (strcmp(o->accelerator, "auto")) {
        const char *device = strcmp(o->accelerator, "gpu") ? o->accelerator : "cuda";
        if (strcmp(o->train.device, "auto") && strcmp(o->train.device, device))
            die_usage("--accelerator %s contradicts --device %s: give one of them", o->accelerator, o->train.device);
        o->train.device = device;
    }
    if (o->command != PSD_RUN)
        train_options_resolve(&o->train, &o->set);
    else
        train_options_resolve_prices(&o->train);
    if (o->train.calibrate) return;                                                      /* it needs no data */
    o->train.in_a_row = o->command == PSD_RUN && strcmp(o->all.protocol, "pooled") != 0; /* once for every sensor */
    if ((1 << o->command) & TRAINING) o->train.undivided = psd_data_indivisible(o);
    if (o->train.undivided) o->train.whole_step = true;
    /* The contrast is within a batch: its value depends on how many spectra the batch has. */
    if (o->command == PSD_PRETRAIN && o->train.val_times) {
        o->train.val_times = 1;
        o->train.val_batch_size = o->train.batch_size;
    }
    check_options(o, o->train.estimate && !o->train.manifest.count);
    if (o->training.encoder_lr_scale < 0) o->training.encoder_lr_scale = o->train.base_checkpoint ? 0.1 : 1;
}

/* Returns the command that the last word of argv[0] names. */
static PsdCommand command_of(const char *words) {
    const char *space = strrchr(words, ' '), *name = space ? space + 1 : words;
    PsdCommand command = PSD_PRETRAIN;
    while (strcmp(PSD_COMMAND_NAMES[command], name)) command++;
    return command;
}

PsdOptions *psd_options_open(const char *checkpoint, int argc, char **argv) {
    static const OptionsHeader headers[PSD_COMMANDS] = {
        {"train_psd pretrain", "-m prepared/manifest.csv --split FILE [options]",
         "-m prepared/manifest.csv --split prepared/splits/by_file_seed42_frac1.0.json -o results/pretrain",
         "Pretrains the encoder: masked patches, and a contrast between sensors."},
        {"train_psd finetune", "-m prepared/manifest.csv --split FILE --pretrained PATH [options]",
         "-m prepared/manifest.csv --split prepared/splits/by_file_seed42_frac1.0.json --pretrained "
         "results/pretrain/best -o "
         "results/finetune",
         "Trains the classifier, from a pretrained encoder or from scratch."},
        {"train_psd evaluate", "-m prepared/manifest.csv --split FILE --checkpoint PATH [options]",
         "-m prepared/manifest.csv --split prepared/splits/by_file_seed42_frac1.0.json --checkpoint "
         "results/finetune/best",
         "Writes scores, tables and diagrams of a classifier."},
        {"train_psd calibrate", "-m prepared/manifest.csv --split FILE --checkpoint PATH [options]",
         "-m prepared/manifest.csv --split prepared/splits/by_file_seed42_frac1.0.json --checkpoint "
         "results/finetune/best",
         "Fits temperatures on the validation rows and evaluates them on the test rows."},
        {"train_psd predict", "--checkpoint PATH DIR [options]",
         "--checkpoint results/finetune new_recordings -o predictions.csv",
         "Predicts the radio technology of spectra, by a classifier or the mean of several."},
        {"train_psd run", "-m prepared/manifest.csv --split FILE -o results [options]",
         "-m prepared/manifest.csv --split prepared/splits/by_file_seed42_frac1.0.json -o results",
         "Does all of it: pretrain, finetune, evaluate, calibrate; once, or once for every sensor."},
    };
    PsdOptions *o = xcalloc(1, sizeof *o);
    o->command = command_of(argv[0]);
    o->argc = argc;
    o->argv = argv;
    o->set.quiet = checkpoint != NULL;
    add_options(o);
    options_parse(&headers[o->command], &o->set, argc, argv);
    if (checkpoint) o->train.base_checkpoint = checkpoint;
    resolve(o);
    return o;
}

void psd_options_close(PsdOptions *o) {
    options_free(&o->set, o->argc, o->argv);
    free(o);
}
