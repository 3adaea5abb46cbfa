/* The options of train_cv: one table, what --compat changes, and what makes no sense. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train_cv.h"

#define ROW(option_name, key, yaml, kind, target, default_text, low, high, metavar, text)                              \
    {                                                                                                                  \
        .name = option_name, .letter = key, .section = yaml, .type = kind, .value = target, .preset = default_text,    \
        .least = low, .most = high, .argument = metavar, .help = text                                                  \
    }

/* Options of all programs that make no sense here: cells are all alike, donors are the validation data. */
static const char *const not_ours[] = {"manifest",        "train-manifest", "val-manifest", "val-ratio",
                                       "bucketing",       "token-budget",   "warmup-steps", "loss-norm",
                                       "max-val-batches", "val-interval"};

/* Defaults, limits and words that differ from those of all programs. */
static const struct {
    const char *name, *preset;
    double least; /* 1: no 0, which would stand for a default of other programs */
    const char *help;
} presets[] = {
    {"epochs", "75", 0, "passes: as many drawn cells as there are to train on"},
    {"batch-size", "64", 2, "cells a micro-batch; at least 2, for the batch norms; auto: all of --effective-batch"},
    {"effective-batch", NULL, 0, "for -b auto: cells an optimizer step, in one micro-batch; 0: the default of -b"},
    {"grad-accumulation", "1", 1, "micro-batches an optimizer step; batch norms see each for itself"},
    {"learning-rate", "1e-4", 0, "where the cosine over the epochs begins"},
    {"weight-decay", "1e-3", 0, "L2: added to the gradients, of every parameter"},
    {"grad-clip", "35", 0, NULL},
    {"log-interval", "50", 0, NULL},
    {"save-interval", "0", 0, "steps between checkpoints besides those of new bests; 0: only at the end"},
    {"seed", "42", 0, NULL},
    {"val-batch-size", NULL, 0, "cells a validation batch; 0: twice --batch-size"},
    {"output-dir", "saved_models", 0, "checkpoints, logs, tables and diagrams; a folder in it for each fold"},
    {"base-checkpoint", NULL, 0,
     "weights that every fold starts from: .safetensors, a .pth of the reference, or a checkpoint"},
    {"resume", NULL, 0, "auto: folds that are done are not done again, and the next one goes on where it stopped"},
    {"grad-checkpointing", NULL, 0,
     "compute the inputs of the blocks' second convolutions again: a seventh less memory, a few percent more traffic"},
};

int cv_option_rows(CvRun *o, Option *rows) {
    const Option own[] = {
        ROW("data", 'd', NULL, OPTION_LIST, &o->train.manifest, NULL, 0, 0, "DIR",
            "the cells: a folder of donors' folders of .npy files, or the store (.safetensors) that was made of it"),
        ROW("protocol", 0, NULL, OPTION_CHOICE, &o->protocol, "nested", 0, 0, "nested|split|reference",
            "nested: each donor in turn is tested on and the next one validated on; split: one fold of the donors "
            "named; "
            "reference: each of --cv-donors is tested on, the first of the others validated on"),
        ROW("train-donors", 0, NULL, OPTION_TEXT, &o->train_donors, "D1,D2,D3,D4", 0, 0, "A,B,...", "of split"),
        ROW("val-donors", 0, NULL, OPTION_TEXT, &o->val_donors, "D6", 0, 0, "A,B,...", "of split"),
        ROW("test-donors", 0, NULL, OPTION_TEXT, &o->test_donors, "D5", 0, 0, "A,B,...", "of split"),
        ROW("cv-donors", 0, NULL, OPTION_TEXT, &o->cv_donors, "D1,D2,D3,D4", 0, 0, "A,B,...", "of reference"),
        ROW("folds", 0, NULL, OPTION_TEXT, &o->folds, NULL, 0, 0, "A,B,...",
            "only the folds of these names, which are the test donors'; none: all"),
        ROW("compat", 0, NULL, OPTION_FLAG, &o->compat, "false", 0, 0, NULL,
            "the reference's rules for what is not given: filter reference, sampler class, dilated-footprint, "
            "threshold "
            "kmeans, monitor f1, init torch, extensions 2, the last batch of an epoch whatever its size, a cosine that "
            "rises again"),
        ROW("filter", 0, NULL, OPTION_CHOICE, &o->filter, "train", 0, 0, "train|reference|off",
            "leave out cells of unusual entropy: of training, by its own donors' mean and deviation; of all roles, by "
            "the "
            "reference's constants; none"),
        ROW("filter-sigmas", 0, NULL, OPTION_FLOAT, &o->filter_sigmas, "2", 0.01, 100, "X",
            "unusual: so many standard deviations from the mean"),
        ROW("sampler", 0, NULL, OPTION_CHOICE, &o->sampler, "strata", 0, 0, "strata|class|none",
            "draw cells so that every donor and class, or only each class, is as frequent as any other; or take each "
            "once"),
        ROW("augment", 0, NULL, OPTION_FLAG, &o->augment, "true", 0, 0, NULL,
            "shift, scale, turn, mirror, Poisson, zoom, elastic and blur of the cells that are trained on"),
        ROW("shift", 0, NULL, OPTION_INT, &o->shift, "5", 0, 100, "N",
            "bins that a decay is shifted by at most; donors' peaks are up to 20 bins apart"),
        ROW("dilated-footprint", 0, NULL, OPTION_FLAG, &o->dilated, "false", 0, 0, NULL,
            "take footprints from the augmented counts, which dilates them in training only, as the reference does"),
        ROW("mixup", 0, NULL, OPTION_FLAG, &o->mixup, "true", 0, 0, NULL,
            "mix the cells of 30 % of the batches, by shares from Beta(0.4, 0.4)"),
        ROW("smoothing", 0, NULL, OPTION_FLOAT, &o->smoothing, "0.05", 0, 0.99, "X", "of the labels in training"),
        ROW("channels", 0, "model", OPTION_TEXT, &o->channels, "32,64,128", 0, 0, "A,B,C", "of the three blocks"),
        ROW("dropout", 0, "model", OPTION_FLOAT, &o->dropout, "0.25", 0, 0.99, "X",
            "of whole channels behind each block; the reference's newest revision has 0"),
        ROW("head-dropout", 0, "model", OPTION_FLOAT, &o->head_dropout, "0.25", 0, 0.99, "X", "of the classifier"),
        ROW("init", 0, "model", OPTION_CHOICE, &o->init, "ours", 0, 0, "ours|torch|kaiming",
            "torch: as its modules begin, the guide's revision; kaiming: the newest one's, whose first losses are "
            "large; "
            "ours: kaiming with a head that begins small"),
        ROW("min-learning-rate", 0, NULL, OPTION_FLOAT, &o->min_learning_rate, "1e-6", 0, 10, "X",
            "where the cosine over the epochs ends"),
        ROW("cosine-epochs", 0, NULL, OPTION_INT, &o->cosine_epochs, "0", 0, 1e6, "N", "how long it is; 0: --epochs"),
        ROW("early-stopping-patience", 0, NULL, OPTION_INT, &o->patience, "20", 0, 1e6, "N",
            "epochs without a better one after which the training ends; 0: never"),
        ROW("extension-epochs", 0, NULL, OPTION_INT, &o->extension_epochs, "10", 0, MOST_EPOCHS, "N",
            "that are added when one of the last three epochs is the best so far"),
        ROW("extensions", 0, NULL, OPTION_INT, &o->extensions, "0", 0, 1000, "N",
            "how often at most; the reference's 2 come with --compat, where the cosine then rises"),
        ROW("monitor", 0, NULL, OPTION_CHOICE, &o->monitor, "auroc", 0, 0, "auroc|f1|balanced_accuracy",
            "what makes an epoch the best: a score on the validation donor's cells, at a threshold of 0.5 if it needs "
            "one"),
        ROW("threshold", 0, NULL, OPTION_CHOICE, &o->threshold, "balanced", 0, 0, "0.5|f1|balanced|kmeans",
            "for test cells, from validation cells: the best of a score, or the reference's rule, which reads no "
            "labels"),
        ROW("tta", 0, NULL, OPTION_FLAG, &o->tta, "true", 0, 0, NULL,
            "ask four times for each cell: as it is, turned, mirrored twice; the mean decides"),
    };
    Option general[TRAIN_MAX_OPTIONS];
    int n = 0, n_general = train_option_rows(&o->train, general);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) rows[n++] = own[i];
    for (int i = 0; i < n_general; i++) {
        bool ours = true;
        for (size_t k = 0; k < sizeof not_ours / sizeof *not_ours; k++)
            ours &= strcmp(general[i].name, not_ours[k]) != 0;
        for (size_t p = 0; p < sizeof presets / sizeof *presets && ours; p++)
            if (!strcmp(presets[p].name, general[i].name)) {
                if (presets[p].preset) general[i].preset = presets[p].preset;
                if (presets[p].help) general[i].help = presets[p].help;
                if (presets[p].least > 0) general[i].least = presets[p].least;
            }
        if (ours) rows[n++] = general[i];
    }
    return n;
}

/* What --compat sets, if nothing else does. */
static void apply_compat(CvRun *o, const Option *rows, int n) {
    const struct {
        const void *value;
        const char *text;
    } choices[] = {{&o->filter, "reference"}, {&o->sampler, "class"}, {&o->threshold, "kmeans"}, {&o->monitor, "f1"},
                   {&o->init, "torch"},       {&o->dilated, NULL},    {&o->extensions, NULL}};
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof choices / sizeof *choices && !rows[i].given; k++) {
            if (rows[i].value != choices[k].value) continue;
            if (choices[k].text) *(const char **)rows[i].value = choices[k].text;
            if (rows[i].value == &o->dilated) o->dilated = true;
            if (rows[i].value == &o->extensions) o->extensions = 2;
        }
}

static void read_channels(const char *text, int channels[3]) {
    char rest;
    bool good = sscanf(text, "%d,%d,%d%c", &channels[0], &channels[1], &channels[2], &rest) == 3;
    for (int i = 0; i < 3 && good; i++) good = channels[i] > 0 && channels[i] <= 1024 && channels[i] % 8 == 0;
    if (!good)
        die_usage("--channels %s: expected three numbers with commas between, multiples of 8, as 32,64,128", text);
}

static FlimConfig model_config(const CvRun *o) {
    FlimConfig config = {.dropout = (float)o->dropout,
                         .head_dropout = (float)o->head_dropout,
                         .init = !strcmp(o->init, "torch")     ? FLIM_INIT_TORCH
                                 : !strcmp(o->init, "kaiming") ? FLIM_INIT_KAIMING
                                                               : FLIM_INIT_OURS,
                         .dilated = o->dilated};
    read_channels(o->channels, config.channels);
    return config;
}

void cv_options_resolve(CvRun *o, Option *rows, int n) {
    o->train.bucketing = "off"; /* all cells are alike */
    o->train.loss_norm = "micro";
    if (o->compat) apply_compat(o, rows, n);
    train_options_resolve(&o->train, rows, n);
    if (o->train.manifest.count > 1) die_usage("%d folders; one is expected", o->train.manifest.count);
    for (int r = 0; r < THRESHOLD_RULES; r++)
        if (!strcmp(o->threshold, THRESHOLD_RULE_NAMES[r])) o->rule = r;
    o->model = model_config(o);
    if (!o->cosine_epochs) o->cosine_epochs = o->train.epochs;
    if (o->min_learning_rate > o->train.learning_rate)
        die_usage("--min-learning-rate %g is more than --learning-rate %g", o->min_learning_rate,
                  o->train.learning_rate);
}
