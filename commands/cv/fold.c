#include "commands/cv/fold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_name.h"
#include "checkpoint/checkpoint.h"

/* ---- --folds ---- */

/* Returns whether `name` is the first in a list of names separated by commas. */
static bool begins_with(const char *list, const char *name) {
    return strcspn(list, ",") == strlen(name) && !strncmp(list, name, strlen(name));
}

static const char *next_name(const char *list) { return strchr(list, ',') ? strchr(list, ',') + 1 : NULL; }

bool cv_fold_selected(const CvRun *run, const CvDonors *fold) {
    bool selected = !run->folds;
    for (const char *at = run->folds; at && !selected; at = next_name(at)) selected = begins_with(at, fold->name);
    return selected;
}

void cv_folds_check(const CvRun *run, const CvFolds *folds) {
    char known[512] = "";
    size_t used = 0;
    for (int i = 0; i < folds->n && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? "," : "", folds->folds[i].name);
    for (const char *at = run->folds; at; at = next_name(at)) {
        bool found = false;
        for (int i = 0; i < folds->n; i++) found |= begins_with(at, folds->folds[i].name);
        bool twice = false;
        for (const char *before = run->folds; before != at; before = next_name(before))
            twice |= strcspn(before, ",") == strcspn(at, ",") && !strncmp(before, at, strcspn(at, ","));
        if (twice) die_usage("--folds %s: %.*s is named twice", run->folds, (int)strcspn(at, ","), at);
        if (!found)
            die_usage("--folds %s: unknown fold %.*s; the folds are %s", run->folds, (int)strcspn(at, ","), at, known);
    }
}

/* ---- cells ---- */

static void open_split(CvFold *f) {
    const CvRun *o = &f->run;
    const CvColumns *columns = &f->data->columns;
    bool filtered = strcmp(o->filter, "off") != 0;
    if (filtered)
        f->filter = strcmp(o->filter, "train") ? cv_filter_compat(o->filter_sigmas)
                                               : cv_filter_fit(columns, f->fold, o->filter_sigmas);
    if (f->data->synthetic) {
        CvIds all = {xmalloc((size_t)f->data->cells.n * sizeof *all.at), f->data->cells.n};
        for (int64_t i = 0; i < all.n; i++) all.at[i] = (int32_t)i;
        f->splits.ids[CV_SPLIT_TRAIN] = all;
    } else {
        MUST(cv_splits_open(columns, f->fold, filtered ? &f->filter : NULL, &f->splits, &error));
        MUST_OR(cv_splits_check(columns, &f->splits, &error), "fold %s: %s", f->fold->name, error.text);
    }
    f->sampler = cv_sampler_new(columns, &f->splits.ids[CV_SPLIT_TRAIN], !strcmp(o->sampler, "strata"));
}

Dataset *cv_fold_dataset(const CvFold *f, int split, int views) {
    const CvRun *o = &f->run;
    CvDatasetOptions options = {.seed = (uint64_t)o->train.seed,
                                .train = split == CV_SPLIT_TRAIN,
                                .sampler = strcmp(o->sampler, "none") ? &f->sampler : NULL,
                                .augment = o->augment,
                                .max_shift = (int)o->shift,
                                .smoothing = o->smoothing,
                                .mixup = o->mixup,
                                .views = views};
    return cv_dataset_open(&f->data->cells, &f->splits.ids[split], &options);
}

/* Returns how many cells of a split have the same counts as some training cell. */
static int64_t count_copies(const CvFold *f, int split) {
    const CvCells *c = &f->data->cells;
    const CvIds *train = &f->splits.ids[CV_SPLIT_TRAIN], *ids = &f->splits.ids[split];
    OWNED char *trained = xcalloc((size_t)c->n, 1);
    int64_t copies = 0;
    for (int64_t i = 0; i < train->n; i++) trained[c->same_as[train->at[i]]] = 1;
    for (int64_t i = 0; i < ids->n; i++) copies += trained[c->same_as[ids->at[i]]];
    return copies;
}

/* Dies if the fold cannot be trained or tested, before hours are spent on an earlier fold. */
static void check_fold(CvFold *f) {
    const CvRun *o = &f->run;
    const CvIds *train = &f->splits.ids[CV_SPLIT_TRAIN], *val = &f->splits.ids[CV_SPLIT_VAL];
    double active = cv_prior_natural(&f->data->columns, val);
    if (train->n < o->train.batch_size)
        die("fold %s: its %lld training cells are fewer than %s %lld", f->fold->name, (long long)train->n,
            o->train.auto_batch ? "--effective-batch" : "-b", (long long)o->train.batch_size);
    if (!(active > 0 && active < 1))
        die("fold %s: all validation cells are %s, so neither the best epoch nor a threshold can be chosen; give other "
            "donors (--protocol split), or leave the fold out (--folds)",
            f->fold->name, CV_CLASS_NAMES[active > 0]);
    for (int split = CV_SPLIT_VAL; split <= CV_SPLIT_TEST; split++) f->copies[split] = count_copies(f, split);
}

void cv_folds_warn_of_copies(const CvFold *folds, int n) {
    OWNED char *where = NULL;
    for (int i = 0; i < n; i++)
        for (int split = CV_SPLIT_VAL; split <= CV_SPLIT_TEST; split++) {
            if (!folds[i].copies[split]) continue;
            xappend(&where, "%sfold %s: %lld %s cells", where ? ", " : "", folds[i].fold->name,
                    (long long)folds[i].copies[split], CV_SPLIT_NAMES[split]);
        }
    if (where)
        warn(
            "cells have the same counts as training cells of their fold, so the scores of their split are too good: %s",
            where);
}

void cv_fold_open(CvFold *f, const CvRun *run, const CvData *data, const CvDonors *fold) {
    OWNED char *name = file_name_in(run->train.output_dir, "fold_", fold->name);
    *f = (CvFold){.run = *run,
                  .data = data,
                  .fold = fold,
                  .facts = {{CV_BINS_FACT, NULL, run->model.bins}, {CV_SIDE_FACT, NULL, run->model.side}}};
    f->run.train.output_dir = xformat("%s/fold_%s", run->train.output_dir, name);
    open_split(f);
    f->train = cv_fold_dataset(f, CV_SPLIT_TRAIN, 1);
    if (f->splits.ids[CV_SPLIT_VAL].n) f->validation = cv_fold_dataset(f, CV_SPLIT_VAL, 1);
    if (!data->synthetic) check_fold(f);
}

char *cv_fold_best(const CvFold *f, Error *error) {
    const char *directory = f->run.train.output_dir;
    char *path;
    if (!checkpoint_best(directory, &path, error) || path) return path;
    path = checkpoint_resolve(directory, "auto");
    if (!path) error_set(error, "%s: there are no weights in it", directory);
    return path;
}

void cv_fold_close(CvFold *f) {
    if (f->train) f->train->close(f->train);
    if (f->validation) f->validation->close(f->validation);
    epoch_curves_free(&f->curves);
    free(f->cause);
    for (int k = 0; k < CV_PREDICTED; k++) {
        cv_predictions_free(&f->predictions[k]);
        free(f->kept[k]);
    }
    cv_sampler_free(&f->sampler);
    cv_splits_free(&f->splits);
    free((void *)(uintptr_t)f->run.train.output_dir);
}

void cv_fold_print(const CvFold *f) {
    const CvColumns *columns = &f->data->columns;
    char filter[96] = "";
    if (strcmp(f->run.filter, "off") != 0)
        snprintf(filter, sizeof filter, "; cells with an entropy of %.3f to %.3f bits are kept in %s", f->filter.low,
                 f->filter.high, f->filter.everywhere ? "all splits" : "training");
    printf("[Fold %s]", f->fold->name);
    for (int split = 0; split < CV_SPLITS; split++) {
        const CvIds *ids = &f->splits.ids[split];
        printf("%s %s", split ? ";" : "", CV_SPLIT_NAMES[split]);
        for (int d = 0; d < columns->n_donors; d++)
            if (f->fold->splits[d] == split) printf(" %s", columns->donor_names[d]);
        printf(": %lld cells, %.1f %% active", (long long)ids->n, 100 * cv_prior_natural(columns, ids));
    }
    printf("%s\n", filter);
    if (strcmp(f->run.sampler, "none") != 0) cv_sampler_print(columns, &f->sampler, f->run.train.batch_size);
}
