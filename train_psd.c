/* train_psd: the masked autoencoder of power spectra, and the classifier made of it.
 *
 *   ./train_psd pretrain  -m data/manifest.csv --split data/splits/pooled_seed42_frac0.25.json -o results/pretrain
 *   ./train_psd finetune  ... --pretrained results/pretrain/best -o results/finetune
 *   ./train_psd evaluate  ... --checkpoint results/finetune/best -o results/evaluation
 *   ./train_psd calibrate ... --checkpoint results/finetune/best -o results/calibration
 *   ./train_psd run       ... -o results                       all of them; or once for every sensor left out
 *
 * Each command is a function below: options, data, model, loop, report. `run` writes the others' command lines. */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/psd_dataset.h"
#include "model/psd.h"
#include "train/classification_report.h"
#include "train/estimate.h"
#include "train/log.h"
#include "train/loop.h"
#include "train/stop.h"

typedef enum { PRETRAIN, FINETUNE, EVALUATE, CALIBRATE, RUN, COMMANDS } Command;
static const char *const command_names[COMMANDS] = {"pretrain", "finetune", "evaluate", "calibrate", "run"};
static const char *const class_names[PSD_CLASSES] = {"dab", "dvbt", "fm", "gsm", "lte", "tetra"};

typedef struct {
    TrainOptions train; /* first: the loop's options * is ours */
    Command command;
    const Option *rows; /* of the command */
    int n_rows;
    Device *device;
    const char *device_why; /* why it is no GPU, or NULL */
    const char *split, *sensor, *size, *encoder, *class_weights, *accelerator, *head, *part, *tag, *protocol;
    const char *pretrain_config, *finetune_config, *loso_split;
    int64_t shots, d_model, n_layers, n_heads, ffn_dim, decoder_dim, decoder_layers, projection_dim, hidden_dim;
    int64_t warmup_epochs, patience, devices, first_sensors, repeats, pretrain_epochs, finetune_epochs;
    double dropout, mask_ratio, lambda_sicr, temperature, head_dropout, encoder_lr_scale, min_learning_rate, limit;
    bool freeze_encoder, hop, scratch;
} PsdRun;

/* ---- options ---- */

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

/* Defaults, and words, that differ from those of all programs. */
static const struct {
    const char *name, *preset[COMMANDS], *help;
} presets[] = {
    {"manifest", {NULL}, "the manifest (CSV) that prepare_psd has written, or a store of spectra (.safetensors)"},
    {"epochs", {"80", "50"}, NULL},
    {"batch-size", {"512", "512", "512", "512"}, "spectra a micro-batch"},
    {"grad-accumulation", {"1", "1"}, NULL},
    {"learning-rate", {"2e-4", "2e-4"}, NULL},
    {"weight-decay", {"1e-5", "1e-4"}, "decoupled weight decay, of every parameter"},
    {"val-interval", {"0", "0"}, NULL},
    {"val-batch-size", {NULL}, "spectra a validation batch; 0: twice --batch-size"},
    {"max-val-batches", {"0", "0"}, NULL},
    {"save-interval", {"0", "0"}, NULL},
    {"log-interval", {"50", "20"}, NULL},
    {"seed", {"42", "42", "42", "42", "42"}, NULL},
    {"output-dir",
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
            "epochs without a better validation after which the training ends; 0: never"),
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
        ROW(MODEL | ALL, "size", NULL, OPTION_CHOICE, &o->size, "medium", 0, 0, "tiny|small|l4|medium|large",
            "sets what is 0 of d-model, n-layers, n-heads, ffn-dim, decoder-dim, decoder-layers, projection-dim, "
            "hidden-dim"),
        ROW(MODEL | ALL, "encoder", "encoder", OPTION_CHOICE, &o->encoder, "transformer", 0, 0, "transformer|cnn",
            "the convolutional baseline, or the transformer"),
        ROW(MODEL, "d-model", "encoder", OPTION_INT, &o->d_model, "0", 0, 65536, "N", "width; 0: the size's"),
        ROW(MODEL, "n-layers", "encoder", OPTION_INT, &o->n_layers, "0", 0, 1000, "N", "blocks; 0: the size's"),
        ROW(MODEL, "n-heads", "encoder", OPTION_INT, &o->n_heads, "0", 0, 1000, "N", "heads; 0: the size's"),
        ROW(MODEL, "ffn-dim", "encoder", OPTION_INT, &o->ffn_dim, "0", 0, 1e6, "N", "width of the MLP; 0: the size's"),
        ROW(MODEL, "dropout", "encoder", OPTION_FLOAT, &o->dropout, "0.1", 0, 0.99, "X", "of the encoder"),
        ROW(PRE, "mask-ratio", "mpae", OPTION_FLOAT, &o->mask_ratio, "0.6", 0.01, 0.99, "X",
            "share of the 12 patches that is masked"),
        ROW(PRE, "decoder-dim", "mpae", OPTION_INT, &o->decoder_dim, "0", 0, 65536, "N", "0: the size's"),
        ROW(PRE, "decoder-layers", "mpae", OPTION_INT, &o->decoder_layers, "0", 0, 1000, "N", "0: the size's"),
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
            "every 200 bins of a row are a sample, instead of the 200 in its middle"),
        ROW(MODEL | ALL, "limit", NULL, OPTION_FLOAT, &o->limit, "20", 0, 1e9, "X",
            "normalised bins are held within +-X; 0: no limit"),
        ROW(MODEL | ALL, "accelerator", NULL, OPTION_CHOICE, &o->accelerator, "auto", 0, 0, "auto|cpu|gpu",
            "the same as --device, in other trainers' words"),
        ROW(MODEL | ALL, "devices", NULL, OPTION_INT, &o->devices, "1", 1, 1, "N", "how many GPUs: one"),
        ROW(ALL, "protocol", NULL, OPTION_CHOICE, &o->protocol, "pooled", 0, 0, "pooled|loso|fewshot_loso",
            "once; or for every sensor, trained on all others; or that, and then tuned on a few rows of the sensor"),
        ROW(ALL, "loso-split", NULL, OPTION_TEXT, &o->loso_split, NULL, 0, 0, "PATH",
            "for fewshot_loso: the split by sensor, for the training on all others"),
        ROW(ALL, "pretrain-config", NULL, OPTION_TEXT, &o->pretrain_config, NULL, 0, 0, "PATH", "YAML for pretrain"),
        ROW(ALL, "finetune-config", NULL, OPTION_TEXT, &o->finetune_config, NULL, 0, 0, "PATH", "YAML for finetune"),
        ROW(ALL, "pretrain-epochs", NULL, OPTION_INT, &o->pretrain_epochs, "0", 0, 1e6, "N", "0: as configured"),
        ROW(ALL, "finetune-epochs", NULL, OPTION_INT, &o->finetune_epochs, "0", 0, 1e6, "N", "0: as configured"),
        ROW(ALL, "scratch", NULL, OPTION_FLAG, &o->scratch, "false", 0, 0, NULL, "no pretraining"),
        ROW(ALL, "num-loso-sensors", NULL, OPTION_INT, &o->first_sensors, "0", 0, 1e6, "N",
            "only the first so many sensors of the split; 0: all"),
        ROW(ALL, "fewshot-seeds", NULL, OPTION_INT, &o->repeats, "3", 1, 1000, "N",
            "trainings for each number of shots"),
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
static int option_rows(PsdRun *o, Option *rows) {
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
            }
        rows[n++] = general[i];
    }
    for (int i = 0; i < n_own; i++)
        if (own[i].commands >> o->command & 1) rows[n++] = own[i].row;
    return n;
}

static void resolve_size(PsdRun *o) {
    const PsdSize *size = psd_size(o->size); /* the options' table allows no other name */
    int64_t *const values[] = {&o->d_model,     &o->n_layers,       &o->n_heads,        &o->ffn_dim,
                               &o->decoder_dim, &o->decoder_layers, &o->projection_dim, &o->hidden_dim};
    const int of_size[] = {size->d_model,     size->n_layers,       size->n_heads,        size->d_ff,
                           size->decoder_dim, size->decoder_layers, size->projection_dim, size->head_dim};
    for (int k = 0; k < 8; k++)
        if (!*values[k]) *values[k] = of_size[k];
}

/* Whether a checkpoint decides this option: the shape of the model, and how its spectra were made. */
static bool belongs_to_model(const Option *row) {
    static const char *const others[] = {"size", "hop", "limit"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(row->name, others[i])) return true;
    return row->section && row->type != OPTION_FLOAT;
}

/* A model is as the checkpoint says that it is read from, if that is one of ours, in what is not given otherwise. */
static void adopt_model(Option *rows, int n, const char *checkpoint) {
    char *beside = path_directory(checkpoint);
    char *path[] = {path_join(checkpoint, "state.json"), path_join(beside, "state.json")};
    json_t *state = NULL;
    int n_adopted = 0;
    for (int i = 0; i < 2 && !state; i++) state = json_load_file(path[i], 0, NULL);
    const json_t *options = json_object_get(state, "options");
    for (int i = 0; i < n; i++) {
        const json_t *value = json_object_get(options, rows[i].name);
        void *to = rows[i].value;
        if (rows[i].given || !value || !belongs_to_model(&rows[i])) continue;
        if (rows[i].type == OPTION_FLAG && json_is_boolean(value)) *(bool *)to = json_is_true(value);
        if (rows[i].type == OPTION_INT && json_is_integer(value)) *(int64_t *)to = json_integer_value(value);
        if (rows[i].type == OPTION_FLOAT && json_is_number(value)) *(double *)to = json_number_value(value);
        if (rows[i].type == OPTION_CHOICE && json_is_string(value)) {
            *(const char **)to = xstrdup(json_string_value(value));
            rows[i].given = true; /* the text is for options_free */
        }
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        printf("%s %s %s", n_adopted++ ? "," : "[Model] as its checkpoint says:", rows[i].name, text);
        free(text);
    }
    if (n_adopted) printf("\n");
    json_decref(state);
    free(path[0]);
    free(path[1]);
    free(beside);
}

static void resolve(PsdRun *o, Option *rows, int n) {
    o->train.bucketing = "off"; /* all spectra are alike */
    if (!o->train.loss_norm) o->train.loss_norm = "micro";
    if (o->train.base_checkpoint && o->command != PRETRAIN) adopt_model(rows, n, o->train.base_checkpoint);
    resolve_size(o);
    if (strcmp(o->accelerator, "auto")) o->train.device = strcmp(o->accelerator, "gpu") ? o->accelerator : "cuda";
    if (o->command != RUN) train_options_resolve(&o->train, rows, n);
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
    if (o->encoder_lr_scale < 0) o->encoder_lr_scale = o->train.base_checkpoint ? 0.1 : 1;
}

/* ---- model ---- */

static PsdEncoderConfig encoder_config(const PsdRun *o) {
    return (PsdEncoderConfig){.cnn = !strcmp(o->encoder, "cnn"),
                              .d_model = (int)o->d_model,
                              .n_layers = (int)o->n_layers,
                              .n_heads = (int)o->n_heads,
                              .d_ff = (int)o->ffn_dim,
                              .dropout = o->freeze_encoder ? 0 : (float)o->dropout};
}

static Model *pretraining_model(const PsdRun *o) {
    PsdPretrainConfig config = {.encoder = encoder_config(o),
                                .decoder_dim = (int)o->decoder_dim,
                                .decoder_layers = (int)o->decoder_layers,
                                .decoder_dropout = o->dropout > 0 ? 0.1f : 0, /* 0.1 whatever the encoder's is, or 0 */
                                .projection_dim = (int)o->projection_dim,
                                .sicr_weight = (float)o->lambda_sicr,
                                .temperature = (float)o->temperature};
    return psd_pretrain_open(&config);
}

static Model *classifier(const PsdRun *o, const float *class_weights) {
    PsdClassifierConfig config = {.encoder = encoder_config(o),
                                  .head_dim = strcmp(o->head, "mlp") ? 0 : (int)o->hidden_dim,
                                  .head_dropout = (float)o->head_dropout};
    for (int c = 0; c < PSD_CLASSES; c++) config.class_weights[c] = class_weights ? class_weights[c] : 1;
    return psd_classifier_open(&config);
}

/* ---- data ---- */

typedef struct {
    PsdStore store;
    PsdSplit split;
    float class_weights[PSD_CLASSES];
    void *made_up; /* the numbers of a store that is no file */
} Data;

/* A batch of spectra, of all classes and of some sensors, and all to train on: for --estimate. */
static Data typical_data(const PsdRun *o) {
    enum { SENSORS = 8 };
    int64_t n = o->train.batch_size;
    Data data = {.made_up = xcalloc((size_t)n * (PSD_BINS + 5), 4)};
    PsdStore *s = &data.store;
    *s = (PsdStore){.n = n, .psd = data.made_up, .n_sensors = SENSORS, .n_files = 1};
    s->snr = s->psd + n * PSD_BINS;
    s->labels = (int32_t *)(void *)(s->snr + n);
    s->sensors = s->labels + n;
    s->files = s->sensors + n;
    s->rows = s->files + n;
    PsdIds *rows = &data.split.parts[PSD_TRAIN];
    *rows = (PsdIds){xcalloc((size_t)n, sizeof *rows->at), n};
    for (int32_t i = 0; i < n; i++) {
        rows->at[i] = s->rows[i] = i;
        s->labels[i] = i % PSD_CLASSES;
        s->sensors[i] = i / PSD_CLASSES % SENSORS;
    }
    return data;
}

static Data data_open(const PsdRun *o) {
    Data data = {0};
    Error error;
    PsdOptions options = {.hop = o->hop, .limit = o->limit};
    if (!o->train.manifest.count) return typical_data(o);
    if (!psd_store_open(&data.store, o->train.manifest.text[0], &options, (int)o->train.threads, &error))
        die("%s", error.text);
    if (!psd_split_read(o->split, o->sensor, (int)o->shots, data.store.n_rows, &data.split, &error))
        die("%s", error.text);
    return data;
}

static void data_close(Data *data) {
    psd_split_free(&data->split);
    psd_store_close(&data->store);
    free(data->made_up);
}

static int visible_patches(const PsdRun *o) { return PSD_PATCHES - (int)(PSD_PATCHES * o->mask_ratio); }

/* The rows of one part of the split; NULL if it has none. */
static Dataset *dataset_of(const PsdRun *o, const Data *data, int part) {
    bool pretraining = o->command == PRETRAIN;
    PsdDatasetOptions options = {.pretraining = pretraining,
                                 .cnn = !strcmp(o->encoder, "cnn"),
                                 .n_visible = pretraining ? visible_patches(o) : 0,
                                 .fixed = part != PSD_TRAIN,
                                 .seed = (uint64_t)o->train.seed,
                                 .class_weights = !pretraining && part == PSD_TRAIN ? data->class_weights : NULL,
                                 .classes = PSD_CLASSES};
    if (!data->split.parts[part].n) return NULL;
    return psd_dataset_open(&data->store, &data->split.parts[part], &options);
}

/* The same, for a part that there must be. */
static Dataset *samples_of(const PsdRun *o, const Data *data, int part) {
    static const char *const purposes[PSD_PARTS] = {"train", "validate", "test"};
    Dataset *samples = dataset_of(o, data, part);
    if (samples) return samples;
    die("%s: no rows to %s on", o->split, purposes[part]);
}

static void print_data(const Data *data, const Dataset *train, const Dataset *validation) {
    if (data->made_up) {
        printf("[Data] none is given: a typical batch of %lld spectra\n", (long long)train->n_samples);
        return;
    }
    printf("[Data] %lld samples of %d sensors; %lld to train on, %lld to validate on, %lld to test on\n",
           (long long)data->store.n, data->store.n_sensors, (long long)train->n_samples,
           (long long)(validation ? validation->n_samples : 0), (long long)data->split.parts[PSD_TEST].n);
}

/* What is not whole is left out of every epoch, so a batch that no epoch can fill would train nothing. */
static void check_batch(const PsdRun *o, const Dataset *train, bool drop_last) {
    if (drop_last && train->n_samples < o->train.batch_size)
        die("%lld samples to train on are fewer than one batch of %lld; give -b %lld or less",
            (long long)train->n_samples, (long long)o->train.batch_size, (long long)train->n_samples);
}

/* ---- the learning rate: by epochs, for each group of parameters (specs of both revisions) ---- */

static double rate_of_epoch(const Training *t, int group, int64_t step, int64_t epoch) {
    const PsdRun *o = (const PsdRun *)t->options;
    (void)step;
    double base = o->train.learning_rate * (o->command == FINETUNE && group == 0 ? o->encoder_lr_scale : 1);
    double warm = (double)o->warmup_epochs, all = (double)o->train.epochs, e = (double)epoch;
    if (e < warm) return base * (0.01 + 0.99 * e / warm);
    return o->min_learning_rate + (base - o->min_learning_rate) * (1 + cos(M_PI * (e - warm) / (all - warm))) / 2;
}

/* ---- pretrain ---- */

static int train(PsdRun *o, Training *t) {
    int status = 0;
    if (o->train.estimate || o->train.dry_run) {
        (o->train.estimate ? train_estimate : train_dry_run)(t);
        return 0;
    }
    train_prepare(t);
    status = train_run(t);
    train_close(t);
    return status;
}

static void close_all(Training *t, Data *data) {
    t->model->close(t->model);
    t->train->close(t->train);
    if (t->validation) t->validation->close(t->validation);
    data_close(data);
}

static int pretrain(PsdRun *o) {
    int v = visible_patches(o);
    if (v < 1 || v >= PSD_PATCHES)
        die_usage("--mask-ratio %g masks %d of 12 patches; at least one must be masked and one visible", o->mask_ratio,
                  PSD_PATCHES - v);
    Data data = data_open(o);
    Dataset *samples = samples_of(o, &data, PSD_TRAIN), *validation = dataset_of(o, &data, PSD_VAL);
    check_batch(o, samples, true);
    print_data(&data, samples, validation);
    int64_t partners[3];
    psd_dataset_partners(samples, partners);
    if (!data.made_up)
        printf("[Data] partners of the same class: %lld samples from other sensors, %lld from their own, %lld "
               "themselves\n",
               (long long)partners[0], (long long)partners[1], (long long)partners[2]);
    Training t = {.options = &o->train,
                  .rows = o->rows,
                  .n_rows = o->n_rows,
                  .model = pretraining_model(o),
                  .device = o->device,
                  .device_why = o->device_why,
                  .train = samples,
                  .validation = validation,
                  .largest_batch = psd_largest_batch,
                  .typical = data.made_up != NULL,
                  .drop_last = true,
                  .learning_rate = rate_of_epoch,
                  .monitor = 0,
                  .patience = o->patience};
    int status = train(o, &t);
    close_all(&t, &data);
    return status;
}

/* ---- what a classifier says of samples ---- */

typedef struct {
    Predictions of;
    double *logits, *snr;
    int32_t *truth, *group;
    int64_t *ids;
} Said;

static Said said_of(const PsdStore *store, const Dataset *samples, const float *outputs, int64_t n) {
    Said s = {.logits = xmalloc((size_t)(n * PSD_CLASSES + 1) * sizeof(double)),
              .snr = xmalloc((size_t)(n + 1) * sizeof(double)),
              .truth = xmalloc((size_t)(n + 1) * sizeof(int32_t)),
              .group = xmalloc((size_t)(n + 1) * sizeof(int32_t)),
              .ids = xmalloc((size_t)(n + 1) * sizeof(int64_t))};
    for (int64_t i = 0; i < n * PSD_CLASSES; i++) s.logits[i] = (double)outputs[i];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = psd_dataset_sample(samples, i);
        s.snr[i] = (double)store->snr[at];
        s.truth[i] = store->labels[at];
        s.group[i] = store->sensors[at];
        s.ids[i] = store->rows[at];
    }
    s.of = (Predictions){.n = n,
                         .classes = PSD_CLASSES,
                         .class_names = class_names,
                         .logits = s.logits,
                         .truth = s.truth,
                         .ids = s.ids,
                         .snr = s.snr,
                         .group = s.group,
                         .n_groups = store->n_sensors,
                         .group_names = store->sensor_names,
                         .group_kind = "sensor"};
    return s;
}

static void said_free(Said *s) {
    free(s->logits);
    free(s->snr);
    free(s->truth);
    free(s->group);
    free(s->ids);
}

/* ---- finetune ---- */

/* Macro F1 of the validation, over the classes that it has or that were said. */
static double judge(const Training *t, const float *outputs, int64_t n, double *values) {
    const Data *data = t->context;
    int64_t confusion[PSD_CLASSES * PSD_CLASSES] = {0};
    MetricsClass each[PSD_CLASSES];
    MetricsScores scores = {.macro = {.f1 = NAN}};
    Error error;
    bool fine = true;
    for (int64_t i = 0; i < n && fine; i++) {
        double logits[PSD_CLASSES];
        int32_t said;
        for (int c = 0; c < PSD_CLASSES; c++) logits[c] = (double)outputs[i * PSD_CLASSES + c];
        fine = metrics_predict(logits, 1, PSD_CLASSES, &said, &error) &&
               metrics_confusion_add(confusion, PSD_CLASSES, &data->store.labels[psd_dataset_sample(t->validation, i)],
                                     &said, 1, &error);
    }
    if (!fine || !metrics_scores(confusion, PSD_CLASSES, class_names, each, &scores, &error))
        warn("%s", error.text); /* logits that are not finite: the loss says so too */
    values[0] = scores.macro.f1;
    return -values[0];
}

/* "0.5,1,1.5,2,0.8,1.2" */
static void read_class_weights(const char *text, double *weights) {
    const char *at = text;
    bool fine = true;
    for (int c = 0; c < PSD_CLASSES && fine; c++) {
        char *end;
        weights[c] = strtod(at, &end);
        fine = end > at && isfinite(weights[c]) && weights[c] > 0 && *end == (c + 1 < PSD_CLASSES ? ',' : 0);
        at = end + 1;
    }
    if (!fine) die_usage("--class-weights: expected auto, none or %d numbers above 0, found %s", PSD_CLASSES, text);
}

static void weigh_classes(const PsdRun *o, Data *data) {
    int64_t counts[PSD_CLASSES];
    double weights[PSD_CLASSES] = {1, 1, 1, 1, 1, 1};
    Dataset *samples = samples_of(o, data, PSD_TRAIN);
    psd_dataset_classes(samples, counts);
    if (!strcmp(o->class_weights, "auto"))
        metrics_class_weights(counts, PSD_CLASSES, METRICS_WEIGHTS_INVERSE, weights);
    else if (strcmp(o->class_weights, "none"))
        read_class_weights(o->class_weights, weights);
    for (int c = 0; c < PSD_CLASSES; c++) data->class_weights[c] = (float)weights[c];
    if (!data->made_up) printf("[Data] training samples (class weights):");
    for (int c = 0; c < PSD_CLASSES && !data->made_up; c++)
        printf(" %s %lld (%.4f)%s", class_names[c], (long long)counts[c], (double)data->class_weights[c],
               c + 1 < PSD_CLASSES ? "," : "\n");
    samples->close(samples);
}

static void freeze_encoder(ParamTable *table) {
    for (int i = 0; i < table->count; i++)
        if (!table->items[i].group && !table->items[i].buffer) table->items[i].frozen_rows = table->items[i].rows;
}

/* Whether a file, or a checkpoint directory, has all of the model's head, of the same shapes. */
static bool has_head(const char *path, const Model *model) {
    static const char *const before[] = {"", "state_dict.", "state_dict._orig_mod."}; /* the latter in Lightning's */
    char *inside = path_join(path, "model.safetensors"), name[128];
    TensorFile file;
    Error error;
    if (!tensor_file_open(access(inside, F_OK) ? path : inside, &file, &error))
        die("--pretrained %s: %s", path, error.text);
    int wanted = 0, there = 0, fit = 0;
    for (int i = 0; i < model->params.count; i++) {
        const Param *p = &model->params.items[i];
        const StoredTensor *found = NULL;
        for (int k = 0; k < 3 && p->group && !found; k++) {
            snprintf(name, sizeof name, "%s%s", before[k], p->name);
            found = tensor_file_find(&file, name);
        }
        wanted += p->group > 0;
        there += found != NULL;
        fit += found && found->rank == p->rank && !memcmp(found->dims, p->dims, (size_t)p->rank * sizeof *p->dims);
    }
    if (there) printf("[Base] %s has a head: %s\n", path, fit == wanted ? "taken along" : "another one, left aside");
    tensor_file_close(&file);
    free(inside);
    return fit == wanted;
}

static int finetune(PsdRun *o) {
    /* What is taken of a base checkpoint, the head last; the CNN has no patches to embed. */
    static const char *const names[] = {"encoder.", "patch_embed.", "classifier."}, *const judged[] = {"macro_f1"};
    static const char *const of_cnn[] = {"encoder.", "classifier."};
    bool cnn = !strcmp(o->encoder, "cnn");
    Data data = data_open(o);
    weigh_classes(o, &data);
    Dataset *samples = samples_of(o, &data, PSD_TRAIN), *validation = dataset_of(o, &data, PSD_VAL);
    bool few = o->shots > 0; /* then every sample counts, and there is nothing to validate on */
    if (few && o->train.batch_size > samples->n_samples) o->train.batch_size = samples->n_samples;
    check_batch(o, samples, !few);
    print_data(&data, samples, validation);
    Training t = {.options = &o->train,
                  .rows = o->rows,
                  .n_rows = o->n_rows,
                  .model = classifier(o, data.class_weights),
                  .device = o->device,
                  .device_why = o->device_why,
                  .train = samples,
                  .validation = validation,
                  .largest_batch = psd_largest_batch,
                  .typical = data.made_up != NULL,
                  .drop_last = !few,
                  .learning_rate = rate_of_epoch,
                  .monitor = 0,
                  .judge = judge,
                  .judged = judged,
                  .n_judged = 1,
                  .patience = o->patience,
                  .import_only = cnn ? of_cnn : names,
                  .n_import_only = cnn ? 1 : 2,
                  .context = &data};
    char *resumed = o->train.resume ? checkpoint_resolve(o->train.output_dir, o->train.resume) : NULL;
    if (!resumed && o->train.base_checkpoint && has_head(o->train.base_checkpoint, t.model)) t.n_import_only++;
    free(resumed);
    if (o->freeze_encoder) freeze_encoder(&t.model->params);
    int status = train(o, &t);
    close_all(&t, &data);
    return status;
}

/* ---- evaluate, calibrate ---- */

/* A classifier's word on the rows of a part. */
static Said ask(const PsdRun *o, const Data *data, Training *t, int part) {
    Dataset *samples = samples_of(o, data, part);
    float *outputs = xmalloc((size_t)(samples->n_samples * PSD_CLASSES) * sizeof *outputs);
    if (!t->train) {
        t->train = samples;
        train_prepare_inference(t);
    }
    double start = seconds_now();
    train_outputs(t, samples, outputs);
    double seconds = seconds_now() - start;
    printf("[Eval] %lld samples in %.2f s, %.0f samples/s\n", (long long)samples->n_samples, seconds,
           (double)samples->n_samples / seconds);
    Said said = said_of(&data->store, samples, outputs, samples->n_samples);
    free(outputs);
    if (samples != t->train) samples->close(samples);
    return said;
}

static Training inference(PsdRun *o) {
    return (Training){.options = &o->train,
                      .rows = o->rows,
                      .n_rows = o->n_rows,
                      .model = classifier(o, NULL),
                      .device = o->device,
                      .device_why = o->device_why,
                      .largest_batch = psd_largest_batch};
}

static int part_of(const char *name) {
    return !strcmp(name, "test") ? PSD_TEST : !strcmp(name, "val") ? PSD_VAL : PSD_TRAIN;
}

static void inference_close(Training *t, Data *data) {
    train_close(t);
    close_all(t, data);
}

/* *result (optional): what it came to, for reports over many. */
static int evaluate(PsdRun *o, Evaluation *result) {
    Data data = data_open(o);
    Error error;
    Training t = inference(o);
    Said said = ask(o, &data, &t, part_of(o->part));
    make_directories(o->train.output_dir);
    if (!report_classification(&said.of, 1, o->train.output_dir, o->sensor ? o->sensor : "pooled", o->tag, &error) ||
        (result && !evaluation_make(&said.of, 1, result, &error)))
        die("%s", error.text);
    said_free(&said);
    inference_close(&t, &data);
    return 0;
}

static int calibrate(PsdRun *o) {
    Data data = data_open(o);
    Error error;
    Training t = inference(o);
    Said validation = ask(o, &data, &t, PSD_VAL), test = ask(o, &data, &t, part_of(o->part));
    make_directories(o->train.output_dir);
    bool done = report_calibration(&validation.of, &test.of, o->train.output_dir, &error);
    if (!done) warn("%s", error.text); /* a classifier that knows nothing, or everything, has no best temperature */
    said_free(&validation);
    said_free(&test);
    inference_close(&t, &data);
    return !done;
}

/* ---- run: the other commands, one after the other ---- */

static int command_main(int argc, char **argv, Device **device, Evaluation *result);

/* A command line that is being written. */
typedef struct {
    char *text[64];
    int n;
} Line;

static void add(Line *line, const char *name, const char *format, ...) PRINTF_LIKE(3, 4);
static void add(Line *line, const char *name, const char *format, ...) {
    char value[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof value) die("%s: too long: %.100s...", name, value);
    if (line->n + 2 > 64) die("run: too many options");
    line->text[line->n++] = xstrdup(name);
    if (length) line->text[line->n++] = xstrdup(value);
}

static bool given(const PsdRun *o, const char *name) {
    for (int i = 0; i < o->n_rows; i++)
        if (!strcmp(o->rows[i].name, name)) return o->rows[i].given;
    return false;
}

/* What all commands are told. What is not given is left to their configurations. */
static Line line_of(const PsdRun *o, Command command, const char *split, const char *sensor) {
    Line line = {.text = {xstrdup("train_psd"), xstrdup(command_names[command])}, .n = 2};
    bool trains = command == PRETRAIN || command == FINETUNE;
    add(&line, "--manifest", "%s", o->train.manifest.text[0]);
    add(&line, "--split", "%s", split);
    if (sensor) add(&line, "--sensor", "%s", sensor);
    if (o->shots) add(&line, "--shots", "%lld", (long long)o->shots);
    if (trains && given(o, "size")) add(&line, "--size", "%s", o->size);
    if (trains && given(o, "encoder")) add(&line, "--encoder", "%s", o->encoder);
    if (trains && (given(o, "seed") || o->shots)) add(&line, "--seed", "%lld", (long long)o->train.seed);
    if (trains) add(&line, "--resume", "auto");
    if (trains && o->hop) add(&line, "--hop", "%s", "");
    if (trains && given(o, "limit")) add(&line, "--limit", "%.17g", o->limit);
    if (strcmp(o->train.device, "auto")) add(&line, "--device", "%s", o->train.device);
    if (o->train.threads) add(&line, "--threads", "%lld", (long long)o->train.threads);
    if (o->train.amp) add(&line, "--amp", "%s", "");
    if (o->train.no_tf32) add(&line, "--no-tf32", "%s", "");
    return line;
}

/* Does it, after saying it; only what calibrates may fail. False: a signal wants the run to stop. */
static bool carry_out(Line *line, Device **device, Evaluation *result) {
    bool may_fail = !strcmp(line->text[1], command_names[CALIBRATE]);
    printf("\n[Run]");
    for (int i = 0; i < line->n; i++) printf(" %s", line->text[i]);
    printf("\n");
    int status = command_main(line->n, line->text, device, result);
    for (int i = 0; i < line->n; i++) free(line->text[i]);
    if (status && !may_fail) exit(status);
    return !stop_signal();
}

/* The best checkpoint of a training, or its last where nothing was validated. free() */
static char *best_of(const char *directory) {
    char *best = path_join(directory, "best");
    if (!access(best, F_OK)) return best;
    free(best);
    return path_join(directory, "last");
}

/* Pretrains, finetunes, evaluates and calibrates in one directory. False: stopped. */
static bool run_once(const PsdRun *o, const char *directory, const char *split, const char *sensor, Device **device,
                     Evaluation *result) {
    char *encoder = path_join(directory, "pretrain"), *tuned = path_join(directory, "finetune");
    char *calibration = path_join(directory, "calibration"), *from = NULL, *checkpoint = NULL;
    bool go_on = true;
    if (!o->scratch) {
        Line line = line_of(o, PRETRAIN, split, sensor);
        add(&line, "--output-dir", "%s", encoder);
        if (o->pretrain_config) add(&line, "--config", "%s", o->pretrain_config);
        if (o->pretrain_epochs) add(&line, "--epochs", "%lld", (long long)o->pretrain_epochs);
        go_on = carry_out(&line, device, NULL);
    }
    if (go_on) {
        Line line = line_of(o, FINETUNE, split, sensor);
        add(&line, "--output-dir", "%s", tuned);
        if (o->finetune_config) add(&line, "--config", "%s", o->finetune_config);
        if (o->finetune_epochs) add(&line, "--epochs", "%lld", (long long)o->finetune_epochs);
        if (!o->scratch) add(&line, "--pretrained", "%s", from = best_of(encoder));
        go_on = carry_out(&line, device, NULL);
    }
    if (go_on) {
        Line line = line_of(o, EVALUATE, split, sensor);
        add(&line, "--checkpoint", "%s", checkpoint = best_of(tuned));
        add(&line, "--output-dir", "%s", directory);
        go_on = carry_out(&line, device, result);
    }
    if (go_on) {
        Line line = line_of(o, CALIBRATE, split, sensor);
        add(&line, "--checkpoint", "%s", checkpoint);
        add(&line, "--output-dir", "%s", calibration);
        go_on = carry_out(&line, device, NULL);
    }
    free(encoder);
    free(tuned);
    free(calibration);
    free(from);
    free(checkpoint);
    return go_on;
}

/* Tunes the classifier of `directory` with a few rows of each class of the sensor that it has not seen, as often as
 * --fewshot-seeds says; what the reference's evaluation had planned: 30 epochs of batches of 64 at 1e-4. */
static bool run_few_shots(const PsdRun *o, const char *directory, const char *sensor, Device **device,
                          FoldResult *folds, Evaluation *results, int *n) {
    static const int shots[] = {5, 10, 50, 100};
    char *tuned = path_join(directory, "finetune"), *from = best_of(tuned);
    bool go_on = true;
    for (int k = 0; k < 4 && go_on; k++) {
        PsdRun with = *o;
        with.sensor = sensor;
        with.shots = shots[k];
        Data data = data_open(&with);
        int64_t to_test = data.split.parts[PSD_TEST].n;
        data_close(&data);
        if (!to_test) printf("[Run] %s: %d rows a class leave none to test on: left out\n", sensor, shots[k]);
        for (int64_t r = 0; r < o->repeats && go_on && to_test; r++) {
            char *to = xformat("%s/shots_%d_seed_%lld", directory, shots[k], (long long)(o->train.seed + r));
            PsdRun seeded = with;
            seeded.train.seed += r;
            Line line = line_of(&seeded, FINETUNE, o->split, sensor);
            add(&line, "--output-dir", "%s", to);
            add(&line, "--pretrained", "%s", from);
            add(&line, "--epochs", "%d", 30);
            add(&line, "--learning-rate", "%s", "1e-4");
            add(&line, "--batch-size", "%d", 64);
            add(&line, "--encoder-lr-scale", "%d", 1);
            go_on = carry_out(&line, device, NULL);
            char *last = path_join(to, "last");
            if (go_on) {
                Line judge_line = line_of(&seeded, EVALUATE, o->split, sensor);
                add(&judge_line, "--checkpoint", "%s", last);
                add(&judge_line, "--output-dir", "%s", to);
                go_on = carry_out(&judge_line, device, &results[*n]);
                folds[*n] = (FoldResult){sensor, shots[k], seeded.train.seed, &results[*n]};
                ++*n;
            }
            free(last);
            free(to);
        }
    }
    free(from);
    free(tuned);
    return go_on;
}

/* Once for every sensor, which nothing that is trained has seen, not even without labels. */
static bool run_sensors(const PsdRun *o, Device **device) {
    bool few = !strcmp(o->protocol, "fewshot_loso");
    const char *split = few ? o->loso_split : o->split;
    char **sensors;
    int n_sensors, n = 0;
    Error error;
    if (!split) die_usage("--protocol fewshot_loso also needs --loso-split, the split by sensor");
    if (!psd_split_sensors_read(split, &sensors, &n_sensors, &error)) die("%s", error.text);
    int chosen = o->first_sensors && o->first_sensors < n_sensors ? (int)o->first_sensors : n_sensors;
    size_t most = (size_t)chosen * (few ? 4 * (size_t)o->repeats : 1);
    FoldResult *folds = xcalloc(most + 1, sizeof *folds);
    Evaluation *results = xcalloc(most + 1, sizeof *results);
    bool go_on = true;
    for (int i = 0; i < chosen && go_on; i++) {
        char *directory = path_join(o->train.output_dir, sensors[i]);
        Evaluation whole;
        go_on = run_once(o, directory, split, sensors[i], device, few ? &whole : &results[n]);
        if (go_on && few) {
            evaluation_free(&whole);
            go_on = run_few_shots(o, directory, sensors[i], device, folds, results, &n);
        } else if (go_on) {
            folds[n] = (FoldResult){sensors[i], 0, 0, &results[n]};
            n++;
        }
        free(directory);
    }
    if (go_on && !report_folds(folds, n, "sensor", o->protocol, o->train.output_dir, &error)) die("%s", error.text);
    for (int i = 0; i < n; i++) evaluation_free(&results[i]);
    for (int i = 0; i < n_sensors; i++) free(sensors[i]);
    free(sensors);
    free(folds);
    free(results);
    return go_on;
}

static int run(const PsdRun *o, Device **device) {
    bool done = strcmp(o->protocol, "pooled") ? run_sensors(o, device)
                                              : run_once(o, o->train.output_dir, o->split, NULL, device, NULL);
    if (!done) printf("[Run] stopped by signal %d; the same command goes on\n", stop_signal());
    return 0;
}

/* ---- the command line ---- */

static Command command_of(const char *name) {
    for (int c = 0; c < COMMANDS; c++)
        if (!strcmp(name, command_names[c])) return c;
    const char *near = nearest_name(name, command_names, COMMANDS);
    die_usage("unknown command '%s'%s%s%s; there are pretrain, finetune, evaluate, calibrate, run", name,
              near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* *device: opened if it is not there yet. */
static int command_main(int argc, char **argv, Device **device, Evaluation *result) {
    static const OptionsHeader headers[COMMANDS] = {
        {"train_psd", "./train_psd pretrain -m data/manifest.csv --split FILE [options]",
         "Pretrains the encoder: masked patches, and a contrast between sensors."},
        {"train_psd", "./train_psd finetune -m data/manifest.csv --split FILE --pretrained PATH [options]",
         "Trains the classifier, from a pretrained encoder or from scratch."},
        {"train_psd", "./train_psd evaluate -m data/manifest.csv --split FILE --checkpoint PATH [options]",
         "Scores, tables and diagrams of a classifier."},
        {"train_psd", "./train_psd calibrate -m data/manifest.csv --split FILE --checkpoint PATH [options]",
         "Fits temperatures on the validation rows, and judges them on the test rows."},
        {"train_psd", "./train_psd run -m data/manifest.csv --split FILE -o results [options]",
         "All of it: pretrain, finetune, evaluate, calibrate; once, or once for every sensor."},
    };
    PsdRun o = {.command = command_of(argv[1])};
    Option rows[2 * TRAIN_MAX_OPTIONS];
    int n_rows = option_rows(&o, rows);
    o.rows = rows;
    o.n_rows = n_rows;
    options_parse(&headers[o.command], rows, n_rows, argc - 1, argv + 1);
    resolve(&o, rows, n_rows);
    if (!*device && o.command != RUN) /* run's first command opens it, and says why it is no GPU */
        *device = train_device_open(&o.train, &o.device_why);
    o.device = *device;
    int status = o.command == PRETRAIN    ? pretrain(&o)
                 : o.command == FINETUNE  ? finetune(&o)
                 : o.command == EVALUATE  ? evaluate(&o, result)
                 : o.command == CALIBRATE ? calibrate(&o)
                                          : run(&o, device);
    options_free(rows, n_rows, argc - 1, argv + 1);
    return status;
}

int main(int argc, char **argv) {
    Device *device = NULL;
    cpu_limit_spinning(argv);
    stop_watch();
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2 || argv[1][0] == '-') {
        bool asked = argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
        if (!asked) die_usage("which command? pretrain, finetune, evaluate, calibrate or run");
        printf("Usage: train_psd pretrain|finetune|evaluate|calibrate|run [options]; each has its own --help\n");
        return 0;
    }
    int status = command_main(argc, argv, &device, NULL);
    if (device) device_close(device);
    return status;
}
