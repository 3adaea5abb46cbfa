/* train_cv: the classifier of FLIM cells, quiescent or active, cross-validated by donor.
 *
 *   ./train_cv --config configs/flim_l4.yaml --data cells
 *
 * For every fold: cells by the roles of their donors, training, the best weights' word on the validation cells, from
 * which the threshold comes, and, once, on the test donor's; tables and diagrams. Then all folds together. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/program.h"
#include "base/stop.h"
#include "data/flim_doctor.h"
#include "train/checkpoint_state.h"
#include "train/epoch_curves.h"
#include "train/estimate.h"
#include "train/log.h"
#include "train/pth_export.h"
#include "train_cv.h"

/* ---- data ---- */

typedef struct {
    FlimCells cells;
    FlimColumns columns;
    FlimFolds folds;
    bool made_up;
} Data;

/* A batch of cells of two donors, and all to train on: for --estimate without data. */
static Data typical_data(const CvRun *o) {
    static const char *donors[] = {"D1", "D2"};
    static FlimFold fold = {.name = "typical"};
    int64_t n = o->train.batch_size;
    FlimShape s = {256, 21, 21};
    Data data = {.made_up = true};
    FlimCells *c = &data.cells;
    *c = (FlimCells){.n = n, .shape = s, .bits = 16, .n_donors = 2, .n_fields = 1, .donor_names = donors};
    c->counts = xcalloc((size_t)n, (size_t)(s.T * s.H * s.W) * sizeof(uint16_t));
    int32_t *labels = xcalloc((size_t)n, sizeof *labels), *zeros = xcalloc((size_t)n, sizeof *zeros);
    double *entropy = xcalloc((size_t)n, sizeof *entropy);
    c->file_names = xcalloc((size_t)n, sizeof *c->file_names);
    for (int64_t i = 0; i < n; i++) {
        labels[i] = (int32_t)(i % 2);
        c->file_names[i] = "typical";
    }
    c->labels = labels;
    c->donors = c->fields = zeros;
    c->entropy = entropy;
    fold.roles = xcalloc(2, sizeof *fold.roles); /* FLIM_TRAIN */
    data.folds = (FlimFolds){&fold, 1};
    data.columns = flim_cells_columns(c);
    return data;
}

static void open_folds(const CvRun *o, Data *data) {
    Error error;
    bool good =
        !strcmp(o->protocol, "nested") ? flim_folds_nested(&data->columns, &data->folds, &error)
        : !strcmp(o->protocol, "reference")
            ? flim_folds_reference(&data->columns, o->cv_donors, &data->folds, &error)
            : flim_folds_named(&data->columns, o->train_donors, o->val_donors, o->test_donors, &data->folds, &error);
    if (!good) die("%s: %s", o->train.manifest.text[0], error.text);
}

static Data open_data(const CvRun *o) {
    if (!o->train.manifest.count) return typical_data(o);
    Data data = {0};
    Error error;
    if (!flim_cells_open(&data.cells, o->train.manifest.text[0], o->compat, (int)o->train.threads, &error))
        die("%s", error.text);
    data.columns = flim_cells_columns(&data.cells);
    json_t *report = json_object();
    flim_doctor_cells(report, &data.cells, (uint64_t)o->train.seed);
    json_decref(report);
    open_folds(o, &data);
    return data;
}

static void close_data(Data *data) {
    FlimCells *c = &data->cells;
    if (!data->made_up) {
        flim_folds_free(&data->folds);
        flim_cells_close(c);
        return;
    }
    void *const all[] = {(void *)(uintptr_t)c->counts,  (void *)(uintptr_t)c->labels, (void *)(uintptr_t)c->donors,
                         (void *)(uintptr_t)c->entropy, (void *)c->file_names,        data->folds.folds[0].roles};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* ---- one fold ---- */

typedef struct {
    const CvRun *o; /* with the fold's own --output-dir */
    const Data *data;
    const FlimFold *fold;
    FlimFilter filter;
    FlimSplit split;
    FlimSampler sampler;
    Dataset *train, *validation;
    CvSaid said[CV_SAID];
    unsigned char *kept[CV_SAID]; /* [n] by the filter; NULL: there is none */
    EpochCurves curves;
    int best_epoch;
    const char *choices; /* the device's: of all folds */
} Fold;

static void open_split(Fold *f) {
    const CvRun *o = f->o;
    const FlimColumns *columns = &f->data->columns;
    bool filtered = strcmp(o->filter, "off") != 0;
    Error error;
    if (filtered)
        f->filter = strcmp(o->filter, "train") ? flim_filter_compat(o->filter_sigmas)
                                               : flim_filter_of(columns, f->fold, o->filter_sigmas);
    if (f->data->made_up) {
        FlimIds all = {xmalloc((size_t)f->data->cells.n * sizeof *all.at), f->data->cells.n};
        for (int64_t i = 0; i < all.n; i++) all.at[i] = (int32_t)i;
        f->split.roles[FLIM_TRAIN] = all;
    } else if (!flim_split_of(columns, f->fold, filtered ? &f->filter : NULL, &f->split, &error))
        die("%s", error.text);
    else if (!flim_split_check(columns, &f->split, &error))
        die("fold %s: %s", f->fold->name, error.text);
    f->sampler = flim_sampler_new(columns, &f->split.roles[FLIM_TRAIN], !strcmp(o->sampler, "strata"));
}

static Dataset *open_dataset(const Fold *f, int role, int views) {
    const CvRun *o = f->o;
    FlimDatasetOptions options = {.seed = (uint64_t)o->train.seed,
                                  .train = role == FLIM_TRAIN,
                                  .sampler = strcmp(o->sampler, "none") ? &f->sampler : NULL,
                                  .augment = o->augment,
                                  .most_shift = (int)o->shift,
                                  .smoothing = o->smoothing,
                                  .mixup = o->mixup,
                                  .views = views};
    return flim_dataset_open(&f->data->cells, &f->split.roles[role], &options);
}

static void print_fold(const Fold *f) {
    const FlimColumns *columns = &f->data->columns;
    char filter[96] = "";
    if (strcmp(f->o->filter, "off") != 0)
        snprintf(filter, sizeof filter, "; entropy from %.3f to %.3f bits is kept in %s", f->filter.low, f->filter.high,
                 f->filter.everywhere ? "all roles" : "training");
    printf("[Fold %s]", f->fold->name);
    for (int role = 0; role < FLIM_ROLES; role++) {
        const FlimIds *ids = &f->split.roles[role];
        printf("%s %s", role ? ";" : "", FLIM_ROLE_NAMES[role]);
        for (int d = 0; d < columns->n_donors; d++)
            if (f->fold->roles[d] == role) printf(" %s", columns->donor_names[d]);
        printf(": %lld cells, %.1f %% active", (long long)ids->n, 100 * flim_prior_natural(columns, ids));
    }
    printf("%s\n", filter);
    if (strcmp(f->o->sampler, "none") != 0) flim_sampler_print(columns, &f->sampler, f->o->train.batch_size);
}

/* A batch of one cell has no variance for the norm behind the mean over positions. */
static bool drops_last(const Fold *f) {
    return !f->o->compat || f->split.roles[FLIM_TRAIN].n % f->o->train.batch_size == 1;
}

/* The cosine over the epochs. The reference's goes on past its end, which added epochs come to, and rises again. */
static double rate_of_epoch(const Training *t, int group, int64_t step, int64_t epoch) {
    const CvRun *o = (const CvRun *)t->options;
    (void)group, (void)step;
    double share = (double)epoch / (double)o->cosine_epochs;
    return schedule_between(o->train.learning_rate, o->min_learning_rate, o->compat ? share : fmin(share, 1));
}

/* ---- what makes an epoch the best ---- */

enum { AUROC, F1, BALANCED_ACCURACY, PRECISION, RECALL, JUDGED };
static const char *const judged_names[JUDGED] = {"auroc", "f1", "balanced_accuracy", "precision", "recall"};

typedef struct {
    const Fold *fold;
    int order[JUDGED]; /* the one that decides first */
    const char *names[JUDGED];
} Judge;

static Judge judge_of(const Fold *f) {
    Judge j = {.fold = f};
    int n = 1;
    for (int i = 0; i < JUDGED; i++) j.order[!strcmp(judged_names[i], f->o->monitor) ? 0 : n++] = i;
    for (int i = 0; i < JUDGED; i++) j.names[i] = judged_names[j.order[i]];
    return j;
}

/* Less is better. Of epochs that rank all cells right the one with the smaller loss is better. */
static double judge(const Training *t, const float *logits, int64_t n, double *values) {
    const Judge *j = t->context;
    const FlimIds *ids = &j->fold->split.roles[FLIM_VAL];
    BinaryRow *rows = xcalloc((size_t)n + 1, sizeof *rows);
    BinaryScores scores;
    Error error;
    for (int64_t i = 0; i < n; i++)
        rows[i] = (BinaryRow){.id = ids->at[i],
                              .label = j->fold->data->cells.labels[ids->at[i]],
                              .p = binary_sigmoid((double)logits[i]),
                              .logit = (double)logits[i],
                              .threshold = 0.5};
    if (!binary_scores(rows, n, &scores, NULL, &error)) die("validation: %s", error.text);
    free(rows);
    const double of[JUDGED] = {isnan(scores.auroc) ? 0.5 : scores.auroc, scores.f1, scores.balanced_accuracy,
                               scores.precision, scores.recall};
    for (int i = 0; i < JUDGED; i++) values[i] = of[j->order[i]];
    return -values[0] + (j->order[0] == AUROC ? 1e-9 * scores.loss : 0);
}

/* ---- training ---- */

static const char *const fixed_options[] = {
    "protocol", "train-donors", "val-donors", "test-donors", "cv-donors", "filter",   "filter-sigmas", "sampler",
    "augment",  "shift",        "mixup",      "smoothing",   "compat",    "channels", "monitor",       NULL};

static Training training_of(const Fold *f, Model *model, Judge *by) {
    const CvRun *o = f->o;
    return (Training){.options = &o->train,
                      .rows = o->rows,
                      .n_rows = o->n_rows,
                      .fixed_options = fixed_options,
                      .model = model,
                      .device = o->device,
                      .device_why = o->device_why,
                      .train = f->train,
                      .validation = f->validation,
                      .typical = f->data->made_up,
                      .largest_batch = flim_largest_batch,
                      .drop_last = drops_last(f),
                      .least_batch = 2,
                      .whole_batches = "batch norms see each micro-batch for itself",
                      .coupled_decay = true,
                      .learning_rate = rate_of_epoch,
                      .monitor = -1,
                      .judge = f->validation ? judge : NULL,
                      .judged = by->names,
                      .n_judged = JUDGED,
                      .patience = o->patience,
                      .extension_epochs = o->extension_epochs,
                      .most_extensions = o->extensions,
                      .step_name = "it",
                      .token_name = "cells",
                      .absorbed = flim_dead_biases(),
                      .n_absorbed = FLIM_DEAD_BIASES,
                      .choices = f->choices,
                      .context = by};
}

/* False: a signal wants the run to stop. */
static bool train_fold(Fold *f) {
    Judge by = judge_of(f);
    Model *model = flim_open(&f->o->model);
    Training t = training_of(f, model, &by);
    train_prepare(&t);
    int status = train_run(&t);
    if (status) exit(status);
    train_close(&t);
    model->close(model);
    return !stop_signal();
}

/* ---- the test ---- */

/* Adds a line to a file that is locked, which is replaced as a whole: a line that a kill or a full disk cut off
 * swallows no other. */
static void add_line(const char *path, const char *line) {
    char *before = NULL;
    size_t size = 0;
    FileWriter file;
    Error error;
    if (!access(path, F_OK) && !read_file(path, &before, &size, &error)) die("%s: %s", path, error.text);
    if (!file_begin(&file, path, 0, &error)) die("%s", error.text);
    file_put(&file, before, size);
    if (size && before[size - 1] != '\n') file_put(&file, "\n", 1);
    file_put(&file, line, strlen(line));
    file_put(&file, "\n", 1);
    if (!file_end(&file, &error)) die("%s", error.text);
    free(before);
}

static const char looks_name[] = "test_looks.jsonl";

/* Every look at a test donor is written down: what is chosen after many of them is no longer honest. */
static void log_look(const Fold *f, const char *weights, const char *revision) {
    char *parent = path_directory(f->o->train.output_dir), *path = path_join(parent, looks_name), when[32];
    time_t now = time(NULL);
    struct tm utc;
    int64_t before = 0;
    FileLock lock;
    Error error;
    if (!file_lock(&lock, path, &error)) die("%s", error.text); /* another fold's program may add its look */
    json_t *looks = log_read(path), *earlier;
    size_t i;
    json_array_foreach(looks, i, earlier) {
        const char *fold = json_string_value(json_object_get(earlier, "fold"));
        before += fold && !strcmp(fold, f->fold->name);
    }
    json_decref(looks);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    json_t *look = json_build("the note of a test", "{s:s, s:s, s:s, s:s, s:s?}", "time", when, "fold", f->fold->name,
                              "weights", weights, "revision", revision, "base_checkpoint", f->o->train.base_checkpoint);
    char *text = json_text("the note of a test", look, 0);
    add_line(path, text);
    file_unlock(&lock);
    json_decref(look);
    free(text);
    if (before)
        printf("[Test] fold %s has been tested %lld times before (%s): settings that were chosen since then have seen "
               "its test donor\n",
               f->fold->name, (long long)before, path);
    free(path);
    free(parent);
}

/* What the best weights say of the cells of both roles. */
static void ask(Fold *f, const char *weights, const char *name, const char *revision, const FlimIds *ids) {
    CvRun with = *f->o;
    Judge by = judge_of(f);
    Model *model = flim_open(&f->o->model);
    with.train.base_checkpoint = weights;
    Training t = training_of(f, model, &by);
    Dataset *datasets[CV_SAID] = {open_dataset(f, FLIM_VAL, FLIM_VIEWS), open_dataset(f, FLIM_TEST, FLIM_VIEWS)};
    t.options = &with.train;
    t.train = datasets[CV_VAL];
    t.validation = NULL;
    t.judge = NULL;
    train_prepare_inference(&t);
    for (int role = 0; role < CV_SAID; role++) {
        int64_t n = datasets[role]->n_samples;
        float *logits = xmalloc((size_t)n * sizeof *logits);
        if (role == CV_TEST) log_look(f, name, revision);
        double start = seconds_now();
        train_outputs(&t, datasets[role], logits);
        double seconds = seconds_now() - start;
        printf("[Eval] %lld %s cells, %d views each, in %.2f s: %.0f cells/s\n", (long long)ids[role].n,
               role == CV_VAL ? "validation" : "test", FLIM_VIEWS, seconds, (double)n / seconds);
        f->said[role] = cv_said_of(&ids[role], logits);
    }
    train_keep_choices(&t, with.train.output_dir);
    train_close(&t);
    for (int role = 0; role < CV_SAID; role++) datasets[role]->close(datasets[role]);
    model->close(model);
}

/* A number that was logged last before the checkpoint. */
static double metric_of(const TrainState *state, const char *name) {
    for (int i = 0; i < state->n_metrics; i++)
        if (!strcmp(state->metric_names[i], name)) return state->metric_values[i];
    return NAN;
}

static char *export_path(const Fold *f) {
    char *parent = path_directory(f->o->train.output_dir);
    char *name = file_name_of(f->fold->name), *path = xformat("%s/best_model_fold_%s.pth", parent, name);
    free(name);
    free(parent);
    return path;
}

/* The best weights for the reference's own program, with the values that it puts beside them. */
static void export(const Fold *f, const char *weights, const TrainState *state, const char *path) {
    static const char *const values[][2] = {
        {"train_loss", "train/loss"}, {"val_loss", "val/loss"},           {"train_acc", "train/accuracy"},
        {"val_acc", "val/accuracy"},  {"val_precision", "val/precision"}, {"val_recall", "val/recall"},
        {"val_f1", "val/f1"}};
    enum { METRICS = sizeof values / sizeof *values };
    const CvRun *o = f->o;
    PthValue all[METRICS + 2];
    Error error;
    for (int i = 0; i < METRICS; i++)
        all[i] = (PthValue){.name = values[i][0], .number = metric_of(state, values[i][1])};
    all[METRICS] = (PthValue){.name = "epoch", .number = (double)f->best_epoch, .whole = true};
    all[METRICS + 1] = (PthValue){.name = "fold", .text = f->fold->name};
    Model *model = flim_open(&f->o->model);
    Judge by = judge_of(f);
    Training t = training_of(f, model, &by);
    PthExport what = {.table = &model->params,
                      .adamw = train_adamw(&t),
                      .initial_rate = o->train.learning_rate,
                      .weight_decay = o->train.weight_decay,
                      .absorbed = t.absorbed,
                      .n_absorbed = t.n_absorbed,
                      .values = all,
                      .n_values = METRICS + 2};
    what.adamw.learning_rate = (float)rate_of_epoch(&t, 0, state->step, state->epoch + 1);
    if (!pth_export_checkpoint(path, weights, what, &error)) die("%s", error.text);
    printf("[Fold %s] best weights for PyTorch: %s\n", f->fold->name, path);
    model->close(model);
}

static void test_fold(Fold *f) {
    const char *directory = f->o->train.output_dir;
    const FlimIds ids[CV_SAID] = {f->split.roles[FLIM_VAL], f->split.roles[FLIM_TEST]};
    char *weights;
    Error error;
    TrainState state = {0};
    bool good = checkpoint_best(directory, &weights, &error);
    if (good && !weights) good = error_set(&error, "%s: there are no best weights in it", directory);
    if (!good || !state_read(weights, &state, &error))
        die("%s; remove %s to train the fold anew", error.text, directory);
    f->best_epoch = (int)state.epoch + 1;
    char *name = cv_weights_name(weights), *key = cv_said_key(name, &f->data->cells, ids), *exported = export_path(f);
    if (cv_said_read(directory, key, ids, f->said)) {
        printf("[Fold %s] done before: %s\n", f->fold->name, weights);
        if (access(exported, F_OK) != 0) export(f, weights, &state, exported);
    } else {
        export(f, weights, &state, exported);
        ask(f, weights, name, state.revision, ids);
        if (!cv_said_write(directory, key, f->said, &error)) die("%s", error.text);
    }
    free(name);
    free(key);
    free(exported);
    free(state.options_json);
    free(weights);
    for (int role = 0; role < CV_SAID && strcmp(f->o->filter, "off") != 0; role++) {
        f->kept[role] = xmalloc((size_t)ids[role].n + 1);
        for (int64_t i = 0; i < ids[role].n; i++)
            f->kept[role][i] = flim_filter_keeps(&f->filter, f->data->cells.entropy[ids[role].at[i]]);
    }
}

/* ---- reports ---- */

static void read_curves(Fold *f) {
    char *path = path_join(f->o->train.output_dir, "log.jsonl");
    f->curves = epoch_curves_read(path);
    if (f->curves.left_out)
        warn("%s: %lld validations are of no epoch, as its train/epoch is not a whole number from 0 on: the file is "
             "damaged, and the curves are without them",
             path, (long long)f->curves.left_out);
    free(path);
}

static BinaryCells cells_of(const Data *data) {
    const FlimCells *c = &data->cells;
    return (BinaryCells){.n = c->n,
                         .files = c->file_names,
                         .labels = c->labels,
                         .donors = c->donors,
                         .fields = c->fields,
                         .sizes = c->sizes,
                         .peaks = c->peaks,
                         .photons = c->photons,
                         .n_donors = c->n_donors,
                         .n_fields = c->n_fields,
                         .donor_names = c->donor_names,
                         .field_names = c->field_names,
                         .class_names = FLIM_CLASS_NAMES};
}

static BinaryPredictions predictions_of(const Fold *f, int role) {
    const CvSaid *s = &f->said[role];
    return (BinaryPredictions){.n = s->n,
                               .ids = s->ids,
                               .logits = s->first,
                               .n_views = f->o->tta ? FLIM_VIEWS : 0,
                               .views = f->o->tta ? s->p : NULL,
                               .kept = f->kept[role]};
}

static BinaryFold report_of(const Fold *f, const BinaryCells *cells, json_t *hyperparameters) {
    static const char *const views[FLIM_VIEWS] = {"identity", "rot90", "flip_w", "flip_h"};
    return (BinaryFold){.name = f->fold->name,
                        .cells = cells,
                        .train = f->split.roles[FLIM_TRAIN].at,
                        .n_train = f->split.roles[FLIM_TRAIN].n,
                        .validation = predictions_of(f, CV_VAL),
                        .test = predictions_of(f, CV_TEST),
                        .rule = f->o->rule,
                        .balanced = strcmp(f->o->sampler, "none") != 0,
                        .view_names = views,
                        .best_epoch = f->best_epoch,
                        .epochs = f->curves.n,
                        .train_losses = f->curves.values[CURVE_TRAIN_LOSS],
                        .val_losses = f->curves.values[CURVE_VAL_LOSS],
                        .train_accuracies = f->curves.values[CURVE_TRAIN_ACCURACY],
                        .val_accuracies = f->curves.values[CURVE_VAL_ACCURACY],
                        .hyperparameters = hyperparameters};
}

/* ---- all folds ---- */

/* Whether a list of names with commas between has this one at its beginning; and where the next one begins. */
static bool begins_with(const char *list, const char *name) {
    return strcspn(list, ",") == strlen(name) && !strncmp(list, name, strlen(name));
}

static const char *next_of(const char *list) { return strchr(list, ',') ? strchr(list, ',') + 1 : NULL; }

static bool is_wanted(const CvRun *o, const FlimFold *fold) {
    bool wanted = !o->folds;
    for (const char *at = o->folds; at && !wanted; at = next_of(at)) wanted = begins_with(at, fold->name);
    return wanted;
}

static void check_folds(const CvRun *o, const FlimFolds *folds) {
    char known[512] = "";
    size_t used = 0;
    for (int i = 0; i < folds->n && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? "," : "", folds->folds[i].name);
    for (const char *at = o->folds; at; at = next_of(at)) {
        bool found = false;
        for (int i = 0; i < folds->n; i++) found |= begins_with(at, folds->folds[i].name);
        if (!found)
            die_usage("--folds %s: there is no fold %.*s; there are %s", o->folds, (int)strcspn(at, ","), at, known);
    }
}

/* Cells of a role whose counts are those of a cell that is trained on. */
static int64_t copies_of_training(const Fold *f, int role) {
    const FlimCells *c = &f->data->cells;
    const FlimIds *train = &f->split.roles[FLIM_TRAIN], *ids = &f->split.roles[role];
    char *trained = xcalloc((size_t)c->n, 1);
    int64_t copies = 0;
    for (int64_t i = 0; i < train->n; i++) trained[c->same_as[train->at[i]]] = 1;
    for (int64_t i = 0; i < ids->n; i++) copies += trained[c->same_as[ids->at[i]]];
    free(trained);
    return copies;
}

/* What would end a fold is told before the first one takes its hours. */
static void check_fold(const Fold *f) {
    const FlimIds *train = &f->split.roles[FLIM_TRAIN], *val = &f->split.roles[FLIM_VAL];
    double active = flim_prior_natural(&f->data->columns, val);
    if (train->n < f->o->train.batch_size)
        die("fold %s: %lld cells to train on are fewer than %s %lld", f->fold->name, (long long)train->n,
            f->o->train.auto_batch ? "--effective-batch" : "-b", (long long)f->o->train.batch_size);
    if (!(active > 0 && active < 1))
        die("fold %s: all cells to validate on are %s, so that no epoch can be told to be the best and no threshold be "
            "chosen; give other donors (--protocol split), or leave the fold out (--folds)",
            f->fold->name, FLIM_CLASS_NAMES[active > 0]);
    for (int role = FLIM_VAL; role <= FLIM_TEST; role++) {
        int64_t copies = copies_of_training(f, role);
        if (copies)
            warn("fold %s: %lld %s cells have the very counts of cells that are trained on: its scores flatter",
                 f->fold->name, (long long)copies, FLIM_ROLE_NAMES[role]);
    }
}

static void open_fold(Fold *f) {
    open_split(f);
    f->train = open_dataset(f, FLIM_TRAIN, 1);
    if (f->split.roles[FLIM_VAL].n) f->validation = open_dataset(f, FLIM_VAL, 1);
    if (!f->data->made_up) check_fold(f);
}

static void close_fold(Fold *f) {
    if (f->train) f->train->close(f->train);
    if (f->validation) f->validation->close(f->validation);
    epoch_curves_free(&f->curves);
    for (int role = 0; role < CV_SAID; role++) {
        cv_said_free(&f->said[role]);
        free(f->kept[role]);
    }
    flim_sampler_free(&f->sampler);
    flim_split_free(&f->split);
}

/* The longest fold in full, and the sum of all, in which no test is. */
static void estimate(const CvRun *o, Fold *folds, int n) {
    Training *all = xcalloc((size_t)n, sizeof *all);
    Judge *by = xcalloc((size_t)n, sizeof *by);
    int longest = 0, n_cards = 1;
    char text[32];
    for (int i = 0; i < n; i++) {
        by[i] = judge_of(&folds[i]);
        all[i] = training_of(&folds[i], flim_open(&folds[i].o->model), &by[i]);
        if (folds[i].train->n_samples > folds[longest].train->n_samples) longest = i;
    }
    if (n > 1) printf("[Estimate] of fold %s, which has most cells to train on\n", folds[longest].fold->name);
    (o->train.estimate ? train_estimate : train_dry_run)(&all[longest]);
    Machine *machines = o->train.estimate && n > 1 ? estimate_machines(&o->train, &n_cards) : NULL;
    for (int k = 0; machines && k < n_cards; k++) {
        double seconds = 0;
        for (int i = 0; i < n; i++) {
            RunWork work = estimate_run_work(&all[i]);
            seconds += estimate_run(&all[i], &work, &machines[k]).seconds;
        }
        printf("[Folds] %s: the trainings of all %d folds: %s", machines[k].card->key, n,
               format_duration(seconds, text));
        if (o->train.price > 0) printf(", $%.2f at $%.2f an hour", seconds / 3600 * o->train.price, o->train.price);
        printf("\n");
    }
    free(machines);
    for (int i = 0; i < n; i++) all[i].model->close(all[i].model);
    free(all);
    free(by);
}

/* Trains a fold, tests it, and reports on it. False: stopped. */
static bool do_fold(Fold *f, const BinaryCells *cells, json_t *hyperparameters, const char *directory) {
    Error error;
    print_fold(f);
    if (!train_fold(f)) return false;
    test_fold(f);
    read_curves(f);
    BinaryFold report = report_of(f, cells, hyperparameters);
    if (!report_binary_fold(&report, directory, NULL, &error)) die("fold %s: %s", f->fold->name, error.text);
    return true;
}

static void report_all(const Fold *folds, int n, const BinaryCells *cells, json_t *hyperparameters,
                       const char *directory) {
    Error error;
    BinaryFold *reports = xcalloc((size_t)n + 1, sizeof *reports);
    for (int i = 0; i < n; i++) reports[i] = report_of(&folds[i], cells, hyperparameters);
    if (n > 1 && !report_binary_folds(reports, n, directory, &error)) die("%s", error.text);
    free(reports);
}

/* The lines that the reference prints of a GPU, and who computes the convolutions. */
static void print_device(const CvRun *o) {
    Device *d = o->device;
    if (!d->card[0]) return;
    const char *by = d->convolutions(d);
    printf("GPU: %s\n", d->product);
    printf("VRAM: %.1f GB\n", (double)d->total_memory * 1e-9);
    printf("Optimizations: CUDNN benchmark=%s, TF32=%s\n", strncmp(by, "cuDNN", 5) ? "False" : "True",
           d->tf32 ? "True" : "False");
    printf("[Device] convolutions: %s\n", by);
}

static int run(CvRun *o) {
    Data data = open_data(o);
    const FlimFolds *all = &data.folds;
    BinaryCells cells = cells_of(&data);
    char *options = options_to_json(o->rows, o->n_rows), *choices = path_join(o->train.output_dir, "choices.txt");
    json_t *hyperparameters = json_loads(options, 0, NULL);
    Fold *folds = xcalloc((size_t)all->n, sizeof *folds);
    CvRun *with = xcalloc((size_t)all->n, sizeof *with);
    int n = 0;
    bool go_on = true, planning = o->train.estimate || o->train.dry_run;
    o->model.bins = data.cells.shape.T;
    o->model.side = data.cells.shape.H;
    check_folds(o, all);
    if (!planning) {
        print_device(o);
        char *looks = path_join(o->train.output_dir, looks_name);
        directory_remove_leftovers(o->train.output_dir);
        file_remove_stale(looks);
        free(looks);
    }
    for (int i = 0; i < all->n; i++) {
        if (!is_wanted(o, &all->folds[i])) continue;
        with[n] = *o;
        char *name = file_name_of(all->folds[i].name);
        with[n].train.output_dir = xformat("%s/fold_%s", o->train.output_dir, name);
        free(name);
        folds[n] = (Fold){.o = &with[n], .data = &data, .fold = &all->folds[i], .choices = choices};
        open_fold(&folds[n++]);
    }
    if (o->train.debug_dump && n > 1) die_usage("--debug-dump is for one fold: name it with --folds");
    if (o->train.base_checkpoint && !planning)
        printf("[Run] every fold begins from %s: the test of a donor that it has seen is worth nothing\n",
               o->train.base_checkpoint);
    for (int i = 0; i < n && go_on && !planning; i++)
        go_on = do_fold(&folds[i], &cells, hyperparameters, o->train.output_dir);
    if (planning) estimate(o, folds, n);
    if (go_on && !planning) report_all(folds, n, &cells, hyperparameters, o->train.output_dir);
    if (!go_on) printf("[Run] stopped by signal %d; the same command with --resume auto goes on\n", stop_signal());
    for (int i = 0; i < n; i++) {
        close_fold(&folds[i]);
        free((void *)(uintptr_t)with[i].train.output_dir);
    }
    free(folds);
    free(with);
    json_decref(hyperparameters);
    free(options);
    free(choices);
    close_data(&data);
    return 0;
}

int main(int argc, char **argv) {
    static const OptionsHeader header = {"train_cv", "./train_cv --data DIR [--config configs/flim_l4.yaml] [options]",
                                         "Trains and tests the classifier of FLIM cells, leaving donors out."};
    CvRun o = {0};
    Option rows[2 * TRAIN_MAX_OPTIONS];
    cpu_limit_spinning(argv);
    program_start();
    o.n_rows = cv_option_rows(&o, rows);
    o.rows = rows;
    options_parse(&header, rows, o.n_rows, argc, argv);
    cv_options_resolve(&o, rows, o.n_rows);
    o.device = train_device_open(&o.train, &o.device_why);
    int status = run(&o);
    device_close(o.device);
    options_free(rows, o.n_rows, argc, argv);
    return status;
}
