#include "commands/cv/report.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "commands/cv/decision.h"
#include "page/page.h"

CvReport cv_report_open(const CvRun *run) {
    OWNED char *options = options_to_json(run->set);
    return (CvReport){.options = json_loads(options, 0, NULL), .directory = run->train.output_dir};
}

void cv_report_close(CvReport *report) { json_decref(report->options); }

static void read_curves(CvFold *f) {
    OWNED char *path = path_join(f->run.train.output_dir, "log.jsonl");
    f->curves = epoch_curves_read(path);
    if (f->curves.left_out)
        warn("%s: %lld validations are of no epoch, as its train/epoch is not a whole number from 1 on: the file is "
             "damaged, and the curves are without them",
             path, (long long)f->curves.left_out);
}

static CellPredictions predictions(const CvFold *f, int k) {
    const CvPredictions *p = &f->predictions[k];
    return (CellPredictions){.n = p->n,
                             .ids = p->ids,
                             .logits = p->first,
                             .n_views = f->run.tta ? CV_VIEWS : 0,
                             .views = f->run.tta ? p->p : NULL,
                             .kept = f->kept[k]};
}

static TestedFold fold_report(const CvReport *report, const CvFold *f) {
    static const char *const views[CV_VIEWS] = {"identity", "rot90", "flip_w", "flip_h"};
    return (TestedFold){.name = f->fold->name,
                        .cells = &f->data->cells,
                        .train = f->splits.ids[CV_SPLIT_TRAIN].at,
                        .n_train = f->splits.ids[CV_SPLIT_TRAIN].n,
                        .validation = predictions(f, CV_VAL),
                        .test = predictions(f, CV_TEST),
                        .rule = f->run.rule,
                        .balanced = strcmp(f->run.sampler, "none") != 0,
                        .view_names = views,
                        .best_epoch = f->best_epoch,
                        .epochs = f->curves.n,
                        .train_losses = f->curves.values[CURVE_TRAIN_LOSS],
                        .val_losses = f->curves.values[CURVE_VAL_LOSS],
                        .train_accuracies = f->curves.values[CURVE_TRAIN_ACCURACY],
                        .val_accuracies = f->curves.values[CURVE_VAL_ACCURACY],
                        .hyperparameters = report->options,
                        .cause = f->cause};
}

void cv_report_fold(const CvReport *report, CvFold *f) {
    read_curves(f);
    TestedFold fold = fold_report(report, f);
    FoldResult result;
    MUST_OR(tested_fold_report(&fold, report->directory, &result, &error) && cv_decision_write(f, &result, &error),
            "fold %s: %s", f->fold->name, error.text);
}

void cv_report_page(const CvReport *report, bool is_running) { page_write_or_warn(report->directory, 1, is_running); }

void cv_report_folds(const CvReport *report, const CvFold *folds, int n) {
    if (n < 2) return;
    OWNED TestedFold *all = xcalloc((size_t)n, sizeof *all);
    for (int i = 0; i < n; i++) all[i] = fold_report(report, &folds[i]);
    MUST(tested_folds_report(all, n, report->directory, &error));
}
