/* train_cv predict: which cells are active, by one trained network or the mean of several. The cells need no labels. */
#include "commands/predict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/program.h"
#include "commands/cv/commands.h"
#include "commands/cv/decision.h"

typedef struct {
    TrainOptions train; /* first: the loop's options * is a Predict * */
    PredictOptions predict;
    const char *class_words, *class_table;
    double threshold;
    bool tta;
    OptionSet set;
    Device *device;
    const char *device_why;
    CvCells cells;
    CvIds ids; /* all cells */
    /* Sums over the models, for each cell. */
    double *p, *calibrated;
    int32_t *votes;
    int *trained; /* [donors of the cells] models that have learned from a donor of the same name */
    double thresholds;
    int calibrations; /* how many models have a temperature */
} Predict;

#define FIELD(name) offsetof(Predict, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "data", .heading = "Data", .letter = 'd', .type = OPTION_LIST, .offset = FIELD(train.manifest), .metavar = "DIR|PATH",
     .positional = true,
     .help = "the cells: a folder of .npy, .tif or .sdt files, in it or in a folder per donor, or a store (.safetensors) of them; "
             "labels in the names of files are shown beside the predictions, and not used"},
    {.name = "threshold", .heading = "Model", .usual = true, .type = OPTION_FLOAT, .offset = FIELD(threshold), .default_value = "0", .max = 1,
     .metavar = "X",
     .help = "a cell is active if p > X; 0: the threshold that was chosen on validation cells, the mean of several "
             "models'; without one 0.5"},
    {.name = "tta", .type = OPTION_FLAG, .offset = FIELD(tta), .default_value = "true",
     .help = "predict each cell in four views (unchanged, rotated by 90 degrees, two mirrored) and average them; not "
             "given: as when the threshold was chosen"},
    CV_CLASS_OPTIONS(Predict),
};
// clang-format on

static void add_options(Predict *o) {
    static const OptionOverride cells = {.name = "batch-size",
                                         .default_value = "32",
                                         .min = 1,
                                         .metavar = "N",
                                         .help = "cells per batch, times their views"};
    predict_options_add(&o->set, &o->predict);
    options_add(&o->set, table, sizeof table / sizeof *table, o);
    predict_train_options_add(&o->set, &o->train);
    options_override(&o->set, &cells, 1);
}

/* ---- the network of a checkpoint ---- */

/* Returns the configuration of the network; dies if it was trained on cells of another shape. */
static CvConfig config_of(const Predict *o, const char *checkpoint) {
    CvConfig config = {.bins = o->cells.shape.T, .side = o->cells.shape.H};
    CvBase base = cv_base_read("checkpoint", checkpoint);
    if (base.bins && base.side && (base.bins != config.bins || base.side != config.side))
        die("%s was trained on cells of %lld x %lld pixels and %lld bins; those of %s have %d x %d and %d", checkpoint,
            (long long)base.side, (long long)base.side, (long long)base.bins, o->train.manifest.text[0],
            o->cells.shape.H, o->cells.shape.W, o->cells.shape.T);
    memcpy(config.channels, base.channels, sizeof config.channels);
    free(base.text);
    return config;
}

/* Returns logits[n, views] of all cells; free(). */
static float *logits_of(Predict *o, const char *checkpoint, const CvConfig *config, int views) {
    CvDatasetOptions options = {.views = views};
    TrainOptions with = o->train;
    with.base_checkpoint = checkpoint;
    TrainSpec spec = {TRAINER_INFERENCE(&with, &o->set, o->device, o->device_why), .model = cv_open(config),
                      .train = cv_dataset_open(&o->cells, &o->ids, &options),
                      .batch = {.largest = cv_dataset_largest_batch}, .import = cv_import_rules()};
    Training *training = train_open_inference(&spec);
    float *logits = xmalloc((size_t)o->ids.n * (size_t)views * sizeof *logits);
    double start = seconds_now();
    train_outputs(training, spec.train, logits);
    double seconds = seconds_now() - start;
    printf("[Predict] %lld cells, %d views each, in %.2f s: %.0f cells/s\n", (long long)o->ids.n, views, seconds,
           (double)o->ids.n / seconds);
    train_close(training);
    trainer_close(&spec);
    return logits;
}

/* ---- the models' mean ---- */

/* Counts for each donor of the cells the networks that have learned from a donor of this name. */
static void count_donors(Predict *o, const json_t *donors) {
    for (size_t i = 0; i < json_array_size(donors); i++)
        for (int d = 0; d < o->cells.n_donors; d++) {
            const char *name = json_string_value(json_array_get(donors, i));
            o->trained[d] += name && !strcmp(name, o->cells.donor_names[d]);
        }
}

/* Warns once of all donors that networks have learned from. */
static void warn_of_donors(const Predict *o, int models) {
    enum { NAMED = 10 };
    OWNED char *names = NULL;
    int n = 0;
    for (int d = 0; d < o->cells.n_donors; d++) {
        if (!o->trained[d] || n++ >= NAMED) continue;
        xappend(&names, "%s%s (%d of %d)", names ? ", " : "", o->cells.donor_names[d], o->trained[d], models);
    }
    if (n)
        warn("models were trained on cells of donors with these names: %s%s: if these are they, their predictions are "
             "too good",
             names, n > NAMED ? ", ..." : "");
}

static void add_model(Predict *o, const char *checkpoint) {
    const CvConfig config = config_of(o, checkpoint);
    CvDecision decision;
    MUST(cv_decision_read(checkpoint, &decision, &error));
    int views = (options_given(&o->set, "tta") ? o->tta : decision.views) ? CV_VIEWS : 1;
    double threshold = o->threshold > 0 ? o->threshold : decision.chosen.threshold;
    bool calibrated = !isnan(decision.chosen.temperature);
    OWNED float *logits = logits_of(o, checkpoint, &config, views);
    for (int64_t i = 0; i < o->ids.n; i++) {
        double p = 0;
        for (int v = 0; v < views; v++) p += binary_sigmoid((double)logits[i * views + v]) / views;
        o->p[i] += p;
        o->votes[i] += p > threshold;
        if (calibrated) o->calibrated[i] += binary_sigmoid((double)logits[i * views] / decision.chosen.temperature);
    }
    o->thresholds += threshold;
    o->calibrations += calibrated;
    printf("[Predict] %s: threshold %.4f%s, %s\n", checkpoint, threshold,
           o->threshold > 0       ? " (given)"
           : decision.chosen.kept ? ", chosen on validation cells"
                                  : ": none was chosen for these weights",
           calibrated ? "with a temperature" : "no temperature");
    count_donors(o, decision.donors);
    json_decref(decision.donors);
}

/* Returns whether the models' mean probability of a cell is above their mean threshold. */
static bool is_active(const Predict *o, int64_t cell, int models) {
    return o->p[cell] / models > o->thresholds / models;
}

static void write_rows(const Predict *o, int models, PredictOutput *output) {
    Table t = {0};
    bool labelled = false;
    for (int64_t i = 0; i < o->ids.n; i++) labelled |= o->cells.labels[i] >= 0;
    for (int64_t i = 0; i < o->ids.n; i++) {
        double p = o->p[i] / models;
        int label = o->cells.labels[i];
        table_text(&t, "file", o->cells.file_names[i]);
        table_text(&t, "donor", o->cells.donor_names[o->cells.donors[i]]);
        if (labelled) table_text(&t, "label", label < 0 ? "" : CV_CLASS_NAMES[label]);
        table_text(&t, "predicted", CV_CLASS_NAMES[is_active(o, i, models)]);
        table_real(&t, "p", p);
        if (o->calibrations == models) table_real(&t, "p_calibrated", o->calibrated[i] / models);
        table_real(&t, "threshold", o->thresholds / models);
        if (models > 1) table_count(&t, "votes", o->votes[i]);
        table_real(&t, "photons", o->cells.photons[i]);
        table_count(&t, "size", o->cells.sizes[i]);
        predict_output_row(output, &t);
    }
    predict_output_close(output, &t);
    table_free(&t);
}

/* Prints how many cells are active, so that a mistake shows before the file is opened. */
static void print_summary(const Predict *o, int models) {
    int64_t active = 0, dark = 0;
    for (int64_t i = 0; i < o->ids.n; i++) {
        active += is_active(o, i, models);
        dark += !(o->cells.photons[i] > 0);
    }
    printf("[Predict] %lld of %lld cells are active (%.1f %%), by %d model%s at p > %.4f\n", (long long)active,
           (long long)o->ids.n, 100 * (double)active / (double)o->ids.n, models, models > 1 ? "s" : "",
           o->thresholds / models);
    if (o->calibrations && o->calibrations < models)
        warn("%d of %d models have a temperature: no calibrated probabilities are written", o->calibrations, models);
    warn_of_donors(o, models);
    if (dark) warn("%lld cells have no photon at all: what is predicted of them means nothing", (long long)dark);
}

static void open_cells(Predict *o) {
    if (o->train.manifest.count > 1) die_usage("--data names %d folders; give one", o->train.manifest.count);
    const CvCellsOptions options = {.unlabelled = true,
                                    .class_words = o->class_words,
                                    .class_table = o->class_table,
                                    .n_threads = (int)o->train.threads};
    MUST(cv_cells_open(&o->cells, o->train.manifest.text[0], &options, &error));
    size_t n = (size_t)o->cells.n;
    o->ids = (CvIds){xmalloc(n * sizeof *o->ids.at), o->cells.n};
    for (int32_t i = 0; i < o->cells.n; i++) o->ids.at[i] = i;
    o->p = xcalloc(n, sizeof *o->p);
    o->calibrated = xcalloc(n, sizeof *o->calibrated);
    o->votes = xcalloc(n, sizeof *o->votes);
    o->trained = xcalloc((size_t)o->cells.n_donors, sizeof *o->trained);
}

static void close_cells(Predict *o) {
    FREE(o->ids.at, o->p, o->calibrated, o->votes, o->trained);
    cv_cells_close(&o->cells);
}

int cv_predict(int argc, char **argv) {
    static const OptionsHeader header = {"train_cv predict", "--checkpoint PATH DIR [options]",
                                         "--checkpoint run new_cells -o predictions.csv",
                                         "Predicts which cells are active."};
    Predict o = {0};
    add_options(&o);
    options_parse(&header, &o.set, argc, argv);
    train_options_resolve(&o.train, &o.set);
    o.train.val_batch_size = o.train.batch_size * CV_VIEWS; /* a sample is a view */
    Ensemble ensemble = predict_ensemble(&o.predict, "fold_");
    PredictOutput output = predict_output_open(&o.predict);
    trainer_begin(&o.train, NULL);
    open_cells(&o);
    o.device = train_device_open(&o.train, &o.device_why);
    for (int k = 0; k < ensemble.n; k++) add_model(&o, ensemble.paths[k]);
    print_summary(&o, ensemble.n);
    write_rows(&o, ensemble.n, &output);
    device_close(o.device);
    close_cells(&o);
    predict_ensemble_free(&ensemble);
    options_free(&o.set, argc, argv);
    return 0;
}
