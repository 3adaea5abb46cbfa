/* train_cv: the classifier of FLIM cells, quiescent or active, cross-validated by donor.
 *
 *   ./train_cv --config configs/cv_l4.yaml --data cells
 *
 * A cell is a small image of photon counts over time, [bins, side, side]; a residual network of 3-D convolutions
 * (model/cv/network.h) gives the logit of "active". Donors differ in more than biology, so a network is tested only
 * on a donor that it has never seen. Each fold trains on some donors, chooses its best epoch and its threshold on
 * another donor's cells, and evaluates the test donor once. Then come the tables and diagrams of all folds together.
 *
 * The trip: options (commands/cv/options.c) -> data/cv/dataset.c fills batches of cells -> model/cv/cv.c computes the
 * loss and the gradients of a batch -> train/run/step.c, called by the loop of train/loop.c, clears gradients, sums,
 * clips and updates -> checkpoint/. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/stop.h"
#include "commands/commands.h"
#include "commands/cv/commands.h"
#include "commands/cv/estimate.h"
#include "commands/cv/report.h"
#include "commands/cv/test.h"
#include "commands/cv/test_evaluations.h"
#include "commands/next.h"
#include "commands/report.h"
#include "commands/trainer.h"
#include "commands/trainings.h"
#include "data/cv/data_report.h"
#include "train/parallel/ranks.h"
#include "train/schedule.h"

/* ---- data ---- */

/* Returns one batch of synthetic cells of two donors, all in the training split of one fold, for --estimate without
 * data. */
static CvData synthetic_data(const CvRun *o) {
    CvData data = {.synthetic = true};
    cv_cells_blank(&data.cells, o->train.batch_size, (AugmentShape){256, 21, 21});
    data.columns = cv_splits_columns(&data.cells);
    cv_folds_training(&data.columns, &data.folds);
    return data;
}

/* Chooses the donors of each fold's splits by --protocol. */
static void open_folds(const CvRun *o, CvData *data) {
    Error error;
    CvFilter filter = cv_filter_compat(o->filter_sigmas);
    bool everywhere = !strcmp(o->filter, "reference"),
         ok =
             !strcmp(o->protocol, "nested")
                 ? cv_folds_nested(&data->columns, everywhere ? &filter : NULL, &data->folds, &error)
             : !strcmp(o->protocol, "reference")
                 ? cv_folds_reference(&data->columns, o->cv_donors, &data->folds, &error)
                 : cv_folds_named(&data->columns, o->train_donors, o->val_donors, o->test_donors, &data->folds, &error);
    if (!ok) die("%s: %s", o->train.manifest.text[0], error.text);
}

/* Opens the cells of --data, and prints the data report: above all, which differences between the classes have nothing
 * to do with biology. */
static CvData open_data(const CvRun *o) {
    if (!o->train.manifest.count) return synthetic_data(o);
    CvData data = {0};
    const CvCellsOptions options = {.compat = o->compat,
                                    .class_words = o->class_words,
                                    .class_table = o->class_table,
                                    .n_threads = (int)o->train.threads};
    MUST(cv_cells_open(&data.cells, o->train.manifest.text[0], &options, &error));
    data.columns = cv_splits_columns(&data.cells);
    json_auto_t *report = json_object();
    cv_data_report(report, &data.cells, (uint64_t)o->train.seed);
    open_folds(o, &data);
    return data;
}

/* ---- the best epoch ---- */

/* Computes the validation metrics, at a threshold of 0.5 where a metric needs one. Returns minus the metric of
 * --monitor: the epoch with the smallest value is the best. The loss, with a tiny weight, decides between epochs of
 * equal AUROC. */
static double eval_metrics(void *context, const float *logits, int64_t n, double *values) {
    const CvFold *f = context;
    const CvIds *ids = &f->splits.ids[CV_SPLIT_VAL];
    OWNED BinaryRow *rows = xcalloc((size_t)n + 1, sizeof *rows);
    BinaryScores scores;
    for (int64_t i = 0; i < n; i++)
        rows[i] = (BinaryRow){.id = ids->at[i],
                              .label = f->data->cells.labels[ids->at[i]],
                              .p = binary_sigmoid((double)logits[i]),
                              .logit = (double)logits[i],
                              .threshold = 0.5};
    MUST_OR(binary_scores(rows, n, &scores, NULL, &error), "validation: %s", error.text);
    const double metrics[CV_METRICS] = {[CV_AUROC] = isnan(scores.auroc) ? 0.5 : scores.auroc,
                                        [CV_F1] = scores.f1,
                                        [CV_BALANCED_ACCURACY] = scores.balanced_accuracy,
                                        [CV_PRECISION] = scores.precision,
                                        [CV_RECALL] = scores.recall};
    for (int i = 0; i < CV_METRICS; i++) values[i] = metrics[f->metrics[i]];
    return -values[0] + (f->metrics[0] == CV_AUROC ? 1e-9 * scores.loss : 0);
}

/* Puts the metric of --monitor first. */
static void order_metrics(CvFold *f) {
    static const char *const names[CV_METRICS] = {[CV_AUROC] = "auroc",
                                                  [CV_F1] = "f1",
                                                  [CV_BALANCED_ACCURACY] = "balanced_accuracy",
                                                  [CV_PRECISION] = "precision",
                                                  [CV_RECALL] = "recall"};
    int n = 1;
    for (int i = 0; i < CV_METRICS; i++) f->metrics[!strcmp(names[i], f->run.monitor) ? 0 : n++] = i;
    for (int i = 0; i < CV_METRICS; i++) f->metric_names[i] = names[f->metrics[i]];
}

/* ---- training ---- */

/* Returns the learning rate of an epoch, which follows a cosine. In added epochs the rate stays at the cosine's end;
 * with --compat it follows the cosine further, which rises again, as in the reference. */
static double epoch_rate(const void *run, int group, int64_t step, int64_t epoch) {
    const CvRun *o = run;
    (void)group, (void)step;
    double share = (double)epoch / (double)o->cosine_epochs;
    return schedule_between(o->train.learning_rate, o->min_learning_rate, o->compat ? share : fmin(share, 1));
}

/* Returns whether the incomplete last batch of an epoch is dropped. --compat keeps that batch, as the reference does,
 * unless it has one cell: the batch norm after the mean over positions then has no variance. */
static bool drops_last(const CvFold *f) {
    return !f->run.compat || f->splits.ids[CV_SPLIT_TRAIN].n % f->run.train.batch_size == 1;
}

/* Returns the engine's description of a fold's training. */
static TrainSpec fold_spec(CvFold *f, const char *autotune_file) {
    const CvRun *o = &f->run;
    return (TrainSpec){.options = &o->train,
                       .set = o->set,
                       .fixed_options = CV_FIXED_OPTIONS,
                       .description = {.options = CV_MODEL_OPTIONS,
                                       .labels = CV_CLASS_NAMES,
                                       .n_labels = CV_CLASSES,
                                       .facts = f->facts,
                                       .n_facts = CV_FACTS},
                       .device = o->device,
                       .device_why = o->device_why,
                       .train = f->train,
                       .validation = f->validation,
                       .synthetic = f->data->synthetic,
                       .batch = {.largest = cv_dataset_largest_batch,
                                 .drop_last = drops_last(f),
                                 .min_samples = CV_LEAST_BATCH,
                                 .indivisible = CV_INDIVISIBLE},
                       .import = cv_import_rules(),
                       .rate = {.at = epoch_rate, .context = o},
                       .optimizer = {.coupled_decay = true},
                       .selection = {.metric = -1,
                                     .evaluate = f->validation ? eval_metrics : NULL,
                                     .context = f,
                                     .names = f->metric_names,
                                     .n_metrics = CV_METRICS,
                                     .patience = o->patience,
                                     .extension_epochs = o->extension_epochs,
                                     .max_extensions = o->extensions},
                       .labels = {.step = "it", .token = "cells"},
                       .autotune_file = autotune_file};
}

/* ---- all folds ---- */

/* Prints the lines that the reference prints about a GPU, and which library computes the convolutions. */
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

/* Trains fold number i of n. */
static void train_fold(CvFold *f, Trainings *all, int i, int n) {
    TrainSpec spec = f->spec;
    spec.model = cv_open(&f->run.model);
    trainings_name(all, n - i - 1, "fold %d of %d", i + 1, n);
    trainings_label(all, &spec);
    cv_fold_print(f);
    Training *training = train_open(&spec);
    trainings_add(all, training);
    int status = train_run(training);
    if (status) trainings_fail(all, status);
    train_close(training);
    spec.model->close(spec.model);
}

static void test_fold(CvFold *f, const CvReport *report) {
    cv_fold_test(f);
    cv_report_fold(report, f);
    cv_report_page(report, true);
}

/* Trains and tests the folds one after the other, with the reports of each and of all. */
static void run_folds(const CvRun *o, CvFold *folds, int n) {
    CvReport report = cv_report_open(o);
    Trainings all = trainings_begin(&o->train, "continue with the same command and --resume auto");
    bool done;
    trainings_deal(&all, n);
    if (o->train.base_checkpoint)
        printf("[Run] every fold starts from %s; the test of a donor that was in its training data is meaningless\n",
               o->train.base_checkpoint);
    do
        for (int i = 0; i < n && !stop_signal() && !all.status; i++) {
            if (trainings_train(&all, i)) train_fold(&folds[i], &all, i, n);
            if (!stop_signal() && trainings_test(&all)) test_fold(&folds[i], &report);
        }
    while (trainings_again(&all));
    done = !stop_signal();
    if (done) cv_report_folds(&report, folds, n);
    trainings_end(&all, done);
    cv_report_page(&report, false);
    cv_report_close(&report);
    if (done) next_print("predict --checkpoint %s NEW_CELLS -o predictions.csv", o->train.output_dir);
}

/* Opens all folds of --folds before the first is trained, so that a fold that cannot be trained ends the run at once.
 * Returns their number. */
static int open_selected_folds(const CvRun *o, const CvData *data, CvFold *folds, const char *autotune_file) {
    int n = 0;
    for (int i = 0; i < data->folds.n; i++) {
        if (!cv_fold_selected(o, &data->folds.folds[i])) continue;
        CvFold *f = &folds[n++];
        cv_fold_open(f, o, data, &data->folds.folds[i]);
        order_metrics(f);
        f->spec = fold_spec(f, autotune_file);
    }
    cv_folds_warn_of_copies(folds, n);
    if (n == 1 && ranks_job_count() > 1 && ranks_count() == 1) ranks_refuse(&o->train);
    if (o->train.debug_dump && n > 1) die_usage("--debug-dump writes a single fold: choose one with --folds");
    return n;
}

static int train_command(int argc, char **argv) {
    static const OptionsHeader header = {"train_cv", "--data DIR [--config configs/flim_l4.yaml] [options]",
                                         "--config flim_l4 --data cells -o run",
                                         "Trains and tests the classifier of FLIM cells, cross-validated by donor."};
    CvRun o = {0};
    OptionSet set = {0};
    cv_options_add(&set, &o);
    options_parse(&header, &set, argc, argv);
    cv_options_resolve(&o);
    trainer_begin(&o.train, &set);
    o.device = train_device_open(&o.train, &o.device_why);
    CvData data = open_data(&o);
    OWNED char *autotune_file = path_join(o.train.output_dir, "choices.txt"); /* the autotune cache of all folds */
    o.model.bins = data.cells.shape.T;
    o.model.side = data.cells.shape.H;
    cv_folds_check(&o, &data.folds);
    bool planning = o.train.estimate || o.train.dry_run;
    if (!planning) print_device(&o);
    if (!planning && !ranks_job_rank()) {
        directory_remove_leftovers(o.train.output_dir);
        cv_test_evaluations_clean(o.train.output_dir);
    }
    OWNED CvFold *folds = xcalloc((size_t)data.folds.n, sizeof *folds);
    int n = open_selected_folds(&o, &data, folds, autotune_file);
    if (planning)
        cv_estimate(&o, folds, n);
    else
        run_folds(&o, folds, n);
    for (int i = 0; i < n; i++) cv_fold_close(&folds[i]);
    cv_folds_free(&data.folds);
    cv_cells_close(&data.cells);
    trainer_close_device(o.device);
    options_free(&set, argc, argv);
    return 0;
}

int main(int argc, char **argv) {
    static const Command commands[] = {{NULL, "trains and tests, cross-validated by donor", train_command},
                                       {"predict", "predicts which cells are active", cv_predict},
                                       {"doctor", "reports the problems of a folder of cells", cv_doctor},
                                       {"synthesize", "writes synthetic cells", cv_synthesize},
                                       REPORT_COMMAND};
    static const Program program = {"train_cv", "The classifier of FLIM cells, cross-validated by donor.", commands,
                                    sizeof commands / sizeof *commands, ""};
    return program_run(&program, argc, argv);
}
