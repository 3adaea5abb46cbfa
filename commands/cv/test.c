#include "commands/cv/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file_name.h"
#include "checkpoint/pth_export.h"
#include "checkpoint/state.h"
#include "commands/chance_cause.h"
#include "commands/cv/test_evaluations.h"

/* The best checkpoint of a fold. */
typedef struct {
    char *path, *name; /* name: cv_weights_name */
    TrainState state;
} Best;

static Best open_best(const CvFold *f) {
    const char *directory = f->run.train.output_dir;
    Best best = {0};
    Error error;
    best.path = cv_fold_best(f, &error);
    if (!best.path || !state_read(best.path, &best.state, &error))
        die("%s; remove %s to train the fold anew", error.text, directory);
    if (!best.state.best_step)
        warn("fold %s: its best weights are gone: the last ones are tested (%s); remove %s to train the fold anew",
             f->fold->name, best.path, directory);
    best.name = cv_weights_name(best.path);
    return best;
}

static void close_best(Best *best) { FREE(best->path, best->name, best->state.options_json); }

/* Predicts the validation and the test cells, in all views. */
static void predict(CvFold *f, const Best *best, const CvIds *ids) {
    CvRun with = f->run;
    Model *model = cv_open(&f->run.model);
    TrainSpec spec = f->spec;
    Dataset *datasets[CV_PREDICTED] = {cv_fold_dataset(f, CV_SPLIT_VAL, CV_VIEWS),
                                       cv_fold_dataset(f, CV_SPLIT_TEST, CV_VIEWS)};
    with.train.base_checkpoint = best->path;
    spec.options = &with.train;
    spec.model = model;
    spec.train = datasets[CV_VAL];
    spec.validation = NULL;
    Training *training = train_open_inference(&spec);
    for (int k = 0; k < CV_PREDICTED; k++) {
        int64_t n = datasets[k]->n_samples;
        float *logits = xmalloc((size_t)n * sizeof *logits);
        if (k == CV_TEST) {
            OWNED char *parent = path_directory(f->run.train.output_dir);
            cv_test_evaluations_add(parent, &(CvTestEvaluation){f->fold->name, best->name, best->state.revision,
                                                                f->run.train.base_checkpoint});
        }
        double start = seconds_now();
        train_outputs(training, datasets[k], logits);
        double seconds = seconds_now() - start;
        printf("[Eval] %lld %s cells, %d views each, in %.2f s: %.0f cells/s\n", (long long)ids[k].n,
               k == CV_VAL ? "validation" : "test", CV_VIEWS, seconds, (double)n / seconds);
        f->predictions[k] = cv_predictions(&ids[k], logits);
    }
    train_write_autotune_cache(training, with.train.output_dir);
    train_close(training);
    for (int k = 0; k < CV_PREDICTED; k++) datasets[k]->close(datasets[k]);
    model->close(model);
}

/* ---- the reference's format ---- */

static char *export_path(const CvFold *f) {
    OWNED char *parent = path_directory(f->run.train.output_dir);
    OWNED char *name = file_name_in(parent, "fold_", f->fold->name);
    return xformat("%s/best_model_fold_%s.pth", parent, name);
}

/* Returns the last number logged under a name before the checkpoint. */
static double logged_metric(const TrainState *state, const char *name) {
    for (int i = 0; i < state->n_metrics; i++)
        if (!strcmp(state->metric_names[i], name)) return state->metric_values[i];
    return NAN;
}

/* Exports the best weights for the reference's own program, with the values that it puts beside them. */
static void export_best(const CvFold *f, const Best *best, const char *path) {
    static const char *const values[][2] = {
        {"train_loss", "train/loss"}, {"val_loss", "val/loss"},           {"train_acc", "train/accuracy"},
        {"val_acc", "val/accuracy"},  {"val_precision", "val/precision"}, {"val_recall", "val/recall"},
        {"val_f1", "val/f1"}};
    enum { METRICS = sizeof values / sizeof *values };
    const TrainState *state = &best->state;
    PthValue all[METRICS + 2];
    for (int i = 0; i < METRICS; i++)
        all[i] = (PthValue){.name = values[i][0], .number = logged_metric(state, values[i][1])};
    all[METRICS] = (PthValue){.name = "epoch", .number = (double)f->best_epoch, .whole = true};
    all[METRICS + 1] = (PthValue){.name = "fold", .text = f->fold->name};
    Model *model = cv_open(&f->run.model);
    PthExport what = {.table = &model->params,
                      .adamw = train_adamw(&f->spec),
                      .initial_rate = f->run.train.learning_rate,
                      .weight_decay = f->run.train.weight_decay,
                      .absorbed = f->spec.import.absorbed,
                      .n_absorbed = f->spec.import.n_absorbed,
                      .values = all,
                      .n_values = METRICS + 2};
    what.learning_rate = (float)f->spec.rate.at(f->spec.rate.context, 0, state->step, state->epoch + 1);
    MUST(pth_export_checkpoint(path, best->path, what, &error));
    printf("[Fold %s] best weights for PyTorch: %s\n", f->fold->name, path);
    model->close(model);
}

static void mark_kept(CvFold *f, const CvIds *ids) {
    for (int k = 0; k < CV_PREDICTED; k++) {
        f->kept[k] = xmalloc((size_t)ids[k].n + 1);
        for (int64_t i = 0; i < ids[k].n; i++)
            f->kept[k][i] = cv_filter_keeps(&f->filter, f->data->cells.entropy[ids[k].at[i]]);
    }
}

void cv_fold_test(CvFold *f) {
    const char *directory = f->run.train.output_dir;
    const CvIds ids[CV_PREDICTED] = {f->splits.ids[CV_SPLIT_VAL], f->splits.ids[CV_SPLIT_TEST]};
    Best best = open_best(f);
    f->best_epoch = (int)best.state.epoch + 1;
    f->cause = chance_cause(best.path, (UsualRates){.pretrained = 1e-4, .scratch = 1e-4}, "--epochs");
    OWNED char *key = cv_cache_key(best.name, &f->data->cells, ids), *path = export_path(f);
    if (cv_cache_read(directory, key, ids, f->predictions)) {
        printf("[Fold %s] done before: %s\n", f->fold->name, best.path);
        if (access(path, F_OK) != 0) export_best(f, &best, path);
    } else {
        export_best(f, &best, path);
        predict(f, &best, ids);
        MUST(cv_cache_write(directory, key, f->predictions, &error));
    }
    if (strcmp(f->run.filter, "off") != 0) mark_kept(f, ids);
    close_best(&best);
}
