#include "commands/cv/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/adopt.h"
#include "data/cv/cell_classes.h"

const char *const CV_FIXED_OPTIONS[] = {"protocol",    "train-donors",  "val-donors", "test-donors", "cv-donors",
                                        "filter",      "filter-sigmas", "sampler",    "augment",     "shift",
                                        "mixup",       "smoothing",     "compat",     "channels",    "monitor",
                                        "class-words", "class-table",   NULL};

const char *const CV_MODEL_OPTIONS[] = {"channels", NULL};

/* Shared options that make no sense here: all cells have the same size, and whole donors are the validation data. */
static const char *const left_out[] = {
    "manifest",     "train-manifest", "val-manifest",    "val-ratio",    "bucketing", "token-budget",
    "warmup-steps", "loss-norm",      "max-val-batches", "val-interval", NULL};

// clang-format off
/* The constants of the reference's train_cv.py. Its quick test trains a single fold. */
static const OptionAlias aliases[] = {
    {NULL, "BATCH_SIZE", "batch-size", {NULL}},
    {NULL, "NUM_WORKERS", "num-workers", {NULL}},
    {NULL, "LR", "learning-rate", {NULL}},
    {NULL, "EPOCHS", "epochs", {NULL}},
    {NULL, "QUICK_TEST", "protocol", {"true", "split", "false", "reference"}},
};

/* Defaults, limits and help that differ from the shared ones, also of options left out. */
static const OptionOverride overrides[] = {
    {.name = "bucketing", .default_value = "off"}, /* all cells are alike */
    {.name = "val-interval", .default_value = "0"},
    {.name = "max-val-batches", .default_value = "0"},
    {.name = "epochs", .default_value = "75",
     .help = "passes over the data; each draws as many cells as the training split has"},
    {.name = "batch-size", .default_value = OPTION_DEFAULT(CV_BATCH), .min = CV_LEAST_BATCH,
     .help = "cells per micro-batch; at least 2, for the batch norms; auto: the whole --effective-batch"},
    {.name = "effective-batch",
     .help = "for -b auto: cells per optimizer step, in one micro-batch; 0: the default of -b"},
    {.name = "grad-accumulation", .default_value = "1", .min = 1,
     .help = "micro-batches per optimizer step; batch norms see one micro-batch at a time"},
    {.name = "learning-rate", .default_value = "1e-4", .help = "learning rate of the first epoch; a cosine takes it to --min-learning-rate"},
    {.name = "weight-decay", .default_value = "1e-3", .help = "L2 penalty, added to the gradient of every parameter"},
    {.name = "grad-clip", .default_value = "35"},
    {.name = "log-interval", .default_value = "50"},
    {.name = "save-interval", .default_value = "0",
     .help = "steps between checkpoints, besides one at each new best epoch; 0: only at the end"},
    {.name = "seed", .default_value = "42"},
    {.name = "val-batch-size", .help = "cells per validation batch; 0: twice --batch-size"},
    {.name = "output-dir", .default_value = "saved_models",
     .help = "folder for checkpoints, logs, tables and diagrams, with a subfolder per fold"},
    {.name = "base-checkpoint",
     .help = "weights that every fold starts from: .safetensors, a .pth of the reference, or a checkpoint"},
    {.name = "resume",
     .help = "auto: skip finished folds and continue the next one where it stopped"},
    {.name = "grad-checkpointing",
     .help = "recompute the inputs of the blocks' second convolutions in the backward pass: a seventh less memory, a "
             "few percent more traffic"},
};

#define FIELD(name) offsetof(CvRun, name)

static const OptionRow table[] = {
    {.name = "data", .heading = "Data", .usual = true, .letter = 'd', .type = OPTION_LIST, .offset = FIELD(train.manifest), .metavar = "DIR",
     .help = "the cells: a folder with a subfolder of .npy, .tif or .sdt files per donor, or a store (.safetensors) that doctor wrote"},
    CV_CLASS_OPTIONS(CvRun),
    {.name = "protocol", .usual = true, .type = OPTION_CHOICE, .offset = FIELD(protocol), .default_value = "nested",
     .metavar = "nested|split|reference",
     .help = "nested: each donor in turn is the test donor, and the next one that has both classes the validation "
             "donor; split: one fold of the donors given; reference: each of --cv-donors is the test donor, and the first of the others the "
             "validation donor"},
    {.name = "train-donors", .type = OPTION_TEXT, .offset = FIELD(train_donors), .default_value = "D1,D2,D3,D4",
     .metavar = "A,B,...",
     .help = "training donors of --protocol split"},
    {.name = "val-donors", .type = OPTION_TEXT, .offset = FIELD(val_donors), .default_value = "D6",
     .metavar = "A,B,...",
     .help = "validation donors of --protocol split"},
    {.name = "test-donors", .type = OPTION_TEXT, .offset = FIELD(test_donors), .default_value = "D5",
     .metavar = "A,B,...",
     .help = "test donors of --protocol split"},
    {.name = "cv-donors", .type = OPTION_TEXT, .offset = FIELD(cv_donors), .default_value = "D1,D2,D3,D4",
     .metavar = "A,B,...",
     .help = "donors of --protocol reference"},
    {.name = "folds", .usual = true, .type = OPTION_TEXT, .offset = FIELD(folds), .metavar = "A,B,...",
     .help = "train only these folds, each named for its test donor; default: all"},
    {.name = "compat", .type = OPTION_FLAG, .offset = FIELD(compat), .default_value = "false",
     .help = "use the reference's rules for options that are not given: filter reference, sampler class, "
             "dilated-footprint, threshold kmeans, monitor f1, init torch, extensions 2; keep the incomplete last "
             "batch of an epoch, and let the cosine rise again in added epochs"},
    {.name = "filter", .type = OPTION_CHOICE, .offset = FIELD(filter), .default_value = "train",
     .metavar = "train|reference|off",
     .help = "leave out cells of unusual entropy. train: training cells, by the training donors' mean and standard "
             "deviation; reference: cells of all splits, by the reference's constants; off: keep all cells"},
    {.name = "filter-sigmas", .type = OPTION_FLOAT, .offset = FIELD(filter_sigmas), .default_value = OPTION_DEFAULT(CV_FILTER_SIGMAS), .min = 0.01,
     .max = 100, .metavar = "X",
     .help = "standard deviations from the mean beyond which an entropy is unusual"},
    {.name = "sampler", .type = OPTION_CHOICE, .offset = FIELD(sampler), .default_value = "strata",
     .metavar = "strata|class|none",
     .help = "strata: draw cells so that every pair of donor and class is equally frequent; class: every class; none: "
             "take each cell once per epoch"},
    {.name = "augment", .type = OPTION_FLAG, .offset = FIELD(augment), .default_value = "true",
     .help = "augment training cells: shift, scale, rotation, mirroring, Poisson noise, zoom, elastic deformation, blur"},
    {.name = "shift", .type = OPTION_INT, .offset = FIELD(shift), .default_value = "5", .max = 100, .metavar = "N",
     .help = "largest shift of a decay, in bins; donors' peaks are up to 20 bins apart"},
    {.name = "dilated-footprint", .type = OPTION_FLAG, .offset = FIELD(dilated), .default_value = "false",
     .help = "compute footprints after augmentation, which dilates the footprints of training cells only, as the reference does"},
    {.name = "mixup", .type = OPTION_FLAG, .offset = FIELD(mixup), .default_value = "true",
     .help = "apply mixup to 30 % of the batches, with weights from Beta(0.4, 0.4)"},
    {.name = "smoothing", .heading = "Training", .type = OPTION_FLOAT, .offset = FIELD(smoothing), .default_value = "0.05", .max = 0.99,
     .metavar = "X",
     .help = "label smoothing in training"},
    {.name = "channels", .heading = "Model", .section = "model", .type = OPTION_TEXT, .offset = FIELD(channels),
     .default_value = "32,64,128", .metavar = "A,B,C",
     .help = "output channels of the three blocks"},
    {.name = "dropout", .section = "model", .type = OPTION_FLOAT, .offset = FIELD(dropout), .default_value = "0.25",
     .max = 0.99, .metavar = "X",
     .help = "dropout of whole channels after each block; the reference's newest revision has 0"},
    {.name = "head-dropout", .section = "model", .type = OPTION_FLOAT, .offset = FIELD(head_dropout),
     .default_value = "0.25", .max = 0.99, .metavar = "X",
     .help = "dropout in the classifier head"},
    {.name = "init", .section = "model", .type = OPTION_CHOICE, .offset = FIELD(init), .default_value = "ours",
     .metavar = "ours|torch|kaiming",
     .help = "initial weights. torch: the defaults of PyTorch's modules, as in the guide's revision of the reference; "
             "kaiming: as in its newest revision, whose first losses are large; ours: kaiming with a small head"},
    {.name = "min-learning-rate", .heading = "Training", .type = OPTION_FLOAT, .offset = FIELD(min_learning_rate), .default_value = "1e-6",
     .max = 10, .metavar = "X",
     .help = "learning rate at the end of the cosine"},
    {.name = "cosine-epochs", .type = OPTION_INT, .offset = FIELD(cosine_epochs), .default_value = "0",
     .max = MAX_EPOCHS, .metavar = "N",
     .help = "length of the cosine in epochs; 0: --epochs"},
    {.name = "early-stopping-patience", .heading = "Validation and log", .type = OPTION_INT, .offset = FIELD(patience), .default_value = "20",
     .max = 1e6, .metavar = "N",
     .help = "end a fold's training after this many epochs without improvement; 0: never"},
    {.name = "extension-epochs", .heading = "Training", .type = OPTION_INT, .offset = FIELD(extension_epochs), .default_value = "10",
     .max = MAX_EPOCHS, .metavar = "N",
     .help = "epochs to add when one of the last three is the best so far"},
    {.name = "extensions", .type = OPTION_INT, .offset = FIELD(extensions), .default_value = "0", .max = 1000,
     .metavar = "N",
     .help = "how many times epochs may be added; --compat sets the reference's 2 and lets the cosine rise in them"},
    {.name = "monitor", .heading = "Validation and log", .type = OPTION_CHOICE, .offset = FIELD(monitor), .default_value = "auroc",
     .metavar = "auroc|f1|balanced_accuracy",
     .help = "score on the validation donor's cells that selects the best epoch, at a threshold of 0.5 where the score "
             "needs one"},
    {.name = "threshold", .usual = true, .type = OPTION_CHOICE, .offset = FIELD(threshold), .default_value = "balanced",
     .metavar = "0.5|f1|balanced|accuracy|kmeans",
     .help = "decision threshold for test cells. f1, balanced, accuracy: the one with the best F1, balanced accuracy or "
             "accuracy on the validation cells; kmeans: the reference's rule on the validation cells, which reads no labels"},
    {.name = "tta", .type = OPTION_FLAG, .offset = FIELD(tta), .default_value = "true",
     .help = "predict each cell in four views (unchanged, rotated by 90 degrees, two mirrored) and average them"},
};
// clang-format on

void cv_options_add(OptionSet *set, CvRun *o) {
    options_add(set, table, sizeof table / sizeof *table, o);
    train_options_add(set, &o->train);
    options_add_aliases(set, aliases, sizeof aliases / sizeof *aliases);
    options_override(set, overrides, sizeof overrides / sizeof *overrides);
    options_remove(set, left_out);
    o->set = set;
}

/* Sets the options that --compat decides, unless they are given. */
static void apply_compat(CvRun *o) {
    const struct {
        const char *name, **value, *text;
    } choices[] = {{"filter", &o->filter, "reference"},
                   {"sampler", &o->sampler, "class"},
                   {"threshold", &o->threshold, "kmeans"},
                   {"monitor", &o->monitor, "f1"},
                   {"init", &o->init, "torch"}};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        if (!options_given(o->set, choices[i].name)) *choices[i].value = choices[i].text;
    if (!options_given(o->set, "dilated-footprint")) o->dilated = true;
    if (!options_given(o->set, "extensions")) o->extensions = 2;
}

#define CHANNELS_EXPECTED "expected three multiples of 8 up to 1024, separated by commas, such as 32,64,128"

static bool read_channels(const char *text, int channels[CV_BLOCKS]) {
    char rest;
    bool valid = text && sscanf(text, "%d,%d,%d%c", &channels[0], &channels[1], &channels[2], &rest) == CV_BLOCKS;
    for (int i = 0; i < CV_BLOCKS && valid; i++) valid = channels[i] > 0 && channels[i] <= 1024 && channels[i] % 8 == 0;
    return valid;
}

static CvConfig model_config(const CvRun *o) {
    CvConfig config = {.dropout = (float)o->dropout,
                       .head_dropout = (float)o->head_dropout,
                       .init = !strcmp(o->init, "torch")     ? CV_INIT_TORCH
                               : !strcmp(o->init, "kaiming") ? CV_INIT_KAIMING
                                                             : CV_INIT_OURS,
                       .dilated = o->dilated};
    if (!read_channels(o->channels, config.channels)) die_usage("--channels %s: " CHANNELS_EXPECTED, o->channels);
    return config;
}

/* ---- weights to start from ---- */

/* Reads the channels from the shapes of the tensors. */
static bool channels_of_file(const char *checkpoint, int channels[CV_BLOCKS], Error *error) {
    static const char *const first[CV_BLOCKS] = {"res_block1.conv1.weight", "res_block2.conv1.weight",
                                                 "res_block3.conv1.weight"};
    TensorFile file;
    if (!checkpoint_open_base(checkpoint, &file, error)) return false;
    bool ok = true;
    for (int b = 0; b < CV_BLOCKS && ok; b++) {
        const StoredTensor *weight = checkpoint_tensor(&file, first[b]);
        channels[b] = weight && weight->rank ? (int)weight->dims[0] : 0;
        ok = (channels[b] >= 8 && channels[b] <= 1024 && channels[b] % 8 == 0) ||
             error_set(error, "it is no classifier of FLIM cells: %s has %d rows; expected a multiple of 8", first[b],
                       channels[b]);
    }
    tensor_file_close(&file);
    return ok;
}

/* Dies if config.json tells channels that are not those of the tensors. */
static void check_channels(const char *checkpoint, const json_t *told, const int channels[CV_BLOCKS]) {
    int is[CV_BLOCKS];
    if (!told) return;
    OWNED char *text = json_text("channels", told, JSON_ENCODE_ANY);
    if (!read_channels(json_string_value(told), is))
        die("the options in the config.json of %s: channels: " CHANNELS_EXPECTED "; found %.64s", checkpoint, text);
    if (memcmp(is, channels, sizeof is) != 0)
        die("the config.json of %s: channels is %s, and in the tensors beside it %d,%d,%d: they are of two models",
            checkpoint, text, channels[0], channels[1], channels[2]);
}

CvBase cv_base_read(const char *option, const char *checkpoint) {
    static const FactRule facts[] = {{CV_BINS_FACT, 1, INT32_MAX}, {CV_SIDE_FACT, 1, INT32_MAX}, {NULL, 0, 0}};
    static const DescriptionRules rules = {
        .model = "flim", .labels = CV_CLASS_NAMES, .n_labels = CV_CLASSES, .facts = facts};
    CvBase base = {.text = NULL};
    json_auto_t *description = adopt_description(checkpoint, &rules);
    MUST_OR(channels_of_file(checkpoint, base.channels, &error), "--%s %s: %s", option, checkpoint, error.text);
    const json_t *told = json_object_get(json_object_get(description, "options"), "channels");
    check_channels(checkpoint, told, base.channels);
    base.text = told ? xstrdup(json_string_value(told))
                     : xformat("%d,%d,%d", base.channels[0], base.channels[1], base.channels[2]);
    base.bins = json_integer_value(json_object_get(description, CV_BINS_FACT));
    base.side = json_integer_value(json_object_get(description, CV_SIDE_FACT));
    base.stated = description != NULL;
    return base;
}

ImportRules cv_import_rules(void) {
    return (ImportRules){.absorbed = cv_network_dead_biases(), .n_absorbed = CV_DEAD_BIASES};
}

/* Dies if the tensors of the base checkpoint are not those of the network. */
static void check_base(const CvRun *o) {
    const ImportRules rules = cv_import_rules();
    CvConfig config = o->model;
    config.bins = 256, config.side = 21; /* which decide no shape */
    adopt_check_tensors("--base-checkpoint", o->train.base_checkpoint, NULL, cv_open(&config), &rules);
}

/* Takes the channels of the base checkpoint. */
static void adopt(CvRun *o) {
    const char *checkpoint = o->train.base_checkpoint;
    if (!checkpoint_exists(checkpoint)) return; /* the one who reads it complains */
    CvBase base = cv_base_read("base-checkpoint", checkpoint);
    CheckpointOptions from = {.checkpoint = checkpoint,
                              .names = CV_MODEL_OPTIONS,
                              .options = json_build("options", "{s:s}", "channels", base.text),
                              .stated = base.stated};
    checkpoint_options_adopt(&from, o->set, NULL);
    json_decref(from.options);
    free(base.text);
}

void cv_options_resolve(CvRun *o) {
    if (o->train.base_checkpoint) adopt(o);
    if (o->compat) apply_compat(o);
    train_options_resolve(&o->train, o->set);
    o->train.whole_step = o->train.in_a_row = true;
    o->train.undivided = CV_INDIVISIBLE;
    if (o->train.manifest.count > 1) die_usage("--data names %d folders; give one", o->train.manifest.count);
    for (int r = 0; r < THRESHOLD_RULES; r++)
        if (!strcmp(o->threshold, THRESHOLD_RULE_NAMES[r])) o->rule = r;
    o->model = model_config(o);
    check_base(o);
    if (!o->cosine_epochs) o->cosine_epochs = o->train.epochs;
    if (o->min_learning_rate > o->train.learning_rate)
        die_usage("--min-learning-rate %g is more than --learning-rate %g", o->min_learning_rate,
                  o->train.learning_rate);
}
