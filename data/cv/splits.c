#include "data/cv/splits.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"

const char *const CV_SPLIT_NAMES[CV_SPLITS] = {"train", "val", "test"};
enum { NO_SPLIT = -1 };

CvColumns cv_splits_columns(const CvCells *c) {
    return (CvColumns){c->n, c->labels, c->donors, c->fields, c->entropy, c->n_donors, c->donor_names};
}

/* ---- folds ---- */

static CvDonors *add_fold(CvFolds *folds, const char *name, int n_donors) {
    folds->folds = xrealloc(folds->folds, (size_t)(folds->n + 1) * sizeof *folds->folds);
    CvDonors *fold = &folds->folds[folds->n++];
    *fold = (CvDonors){name, xmalloc((size_t)n_donors * sizeof(int))};
    for (int d = 0; d < n_donors; d++) fold->splits[d] = NO_SPLIT;
    return fold;
}

void cv_folds_free(CvFolds *folds) {
    for (int i = 0; i < folds->n; i++) free(folds->folds[i].splits);
    free(folds->folds);
    *folds = (CvFolds){0};
}

void cv_folds_training(const CvColumns *c, CvFolds *folds) {
    *folds = (CvFolds){0};
    CvDonors *fold = add_fold(folds, "synthetic", c->n_donors);
    for (int d = 0; d < c->n_donors; d++) fold->splits[d] = CV_SPLIT_TRAIN;
}

/* Sets has[donors, classes] by the cells that the filter keeps in all splits. */
static void find_classes(const CvColumns *c, const CvFilter *filter, bool *has) {
    bool filtered = filter && filter->everywhere;
    for (int64_t i = 0; i < c->n; i++)
        if (!filtered || cv_filter_keeps(filter, c->entropy[i])) has[c->donors[i] * CV_CLASSES + c->labels[i]] = true;
}

/* Returns the next donor behind `test` that has both classes and leaves both to train on; -1: none. has: [n, classes]
 */
static int validation_donor(const bool *has, int n, int test) {
    for (int k = 1; k < n; k++) {
        int d = (test + k) % n;
        bool left[CV_CLASSES] = {false};
        for (int i = 0; i < n; i++)
            for (int label = 0; label < CV_CLASSES; label++)
                left[label] |= i != test && i != d && has[i * CV_CLASSES + label];
        if (has[d * CV_CLASSES] && has[d * CV_CLASSES + 1] && left[0] && left[1]) return d;
    }
    return -1;
}

/* Adds the fold of a test donor, or says why there is none. */
static void add_nested(const CvColumns *c, const bool *has, int test, CvFolds *folds) {
    int n = c->n_donors, next = (test + 1) % n, validation = validation_donor(has, n, test);
    if (validation < 0) {
        printf("[Folds] %s is left out: no other donor has both classes and leaves both to train on\n",
               c->donor_names[test]);
        return;
    }
    CvDonors *fold = add_fold(folds, c->donor_names[test], n);
    for (int i = 0; i < n; i++) fold->splits[i] = CV_SPLIT_TRAIN;
    fold->splits[test] = CV_SPLIT_TEST;
    fold->splits[validation] = CV_SPLIT_VAL;
    if (validation != next)
        printf("[Folds] %s: %s validates, not %s: a validation donor needs both classes, and must leave both to train "
               "on\n",
               fold->name, c->donor_names[validation], c->donor_names[next]);
}

bool cv_folds_nested(const CvColumns *c, const CvFilter *filter, CvFolds *folds, Error *error) {
    int n = c->n_donors;
    *folds = (CvFolds){0};
    if (n < 3)
        return error_set(error,
                         "there are %d donors; at least 3 are needed: one to test on, one to validate on, one to train "
                         "on",
                         n);
    OWNED bool *has = xcalloc((size_t)n * CV_CLASSES, sizeof *has);
    find_classes(c, filter, has);
    for (int d = 0; d < n; d++) add_nested(c, has, d, folds);
    return folds->n || error_set(error, "no fold has cells of both classes to train on and to validate on; give donors "
                                        "that do (--protocol split)");
}

/* Reads the names of donors, separated by commas: their numbers, in the order of the names. Returns how many there are,
 * at most n_donors, or -1 with an error. */
static int parse_donors(const CvColumns *c, const char *text, int *donors, Error *error) {
    int n = 0;
    for (const char *at = text, *end; *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, ",");
        OWNED char *name = xformat("%.*s", (int)(end - at), at);
        int d = 0;
        while (d < c->n_donors && strcmp(c->donor_names[d], name)) d++;
        if (d == c->n_donors)
            return error_set(error, "there is no donor '%s'%s%s", name, c->n_donors ? "; the first is " : "",
                             c->n_donors ? c->donor_names[0] : "") -
                   1;
        for (int i = 0; i < n; i++)
            if (donors[i] == d) return error_set(error, "donor %s is named twice in '%s'", name, text) - 1;
        donors[n++] = d;
    }
    return n;
}

bool cv_folds_reference(const CvColumns *c, const char *names, CvFolds *folds, Error *error) {
    OWNED int *donors = xmalloc((size_t)c->n_donors * sizeof *donors + 1);
    int n = parse_donors(c, names, donors, error);
    *folds = (CvFolds){0};
    for (int test = 0; test < n && n >= 3; test++) {
        CvDonors *fold = add_fold(folds, c->donor_names[donors[test]], c->n_donors);
        for (int i = 0; i < n; i++) fold->splits[donors[i]] = CV_SPLIT_TRAIN;
        fold->splits[donors[test ? 0 : 1]] = CV_SPLIT_VAL;
        fold->splits[donors[test]] = CV_SPLIT_TEST;
    }
    if (n >= 0 && n < 3) error_set(error, "'%s' names %d donors; expected 3 or more", names, n);
    return n >= 3;
}

bool cv_folds_named(const CvColumns *c, const char *train, const char *val, const char *test, CvFolds *folds,
                    Error *error) {
    const char *const names[CV_SPLITS] = {train, val, test};
    OWNED int *donors = xmalloc((size_t)c->n_donors * sizeof *donors + 1);
    *folds = (CvFolds){0};
    CvDonors *fold = add_fold(folds, "final", c->n_donors);
    bool ok = true;
    for (int split = 0; split < CV_SPLITS && ok; split++) {
        int n = parse_donors(c, names[split], donors, error);
        ok = n > 0 || (n == 0 && error_set(error, "no donor is named for the %s split", CV_SPLIT_NAMES[split]));
        for (int i = 0; i < n && ok; i++) {
            int *now = &fold->splits[donors[i]];
            if (*now != NO_SPLIT)
                ok = error_set(error,
                               "donor %s is named for %s and for %s: a test on a donor that the model knows says "
                               "nothing about others",
                               c->donor_names[donors[i]], CV_SPLIT_NAMES[*now], CV_SPLIT_NAMES[split]);
            *now = split;
        }
    }
    if (!ok) cv_folds_free(folds);
    return ok;
}

/* ---- the filter ---- */

CvFilter cv_filter_fit(const CvColumns *c, const CvDonors *fold, double sigmas) {
    double sum = 0, squares = 0, n = 0;
    for (int64_t i = 0; i < c->n; i++)
        if (fold->splits[c->donors[i]] == CV_SPLIT_TRAIN) {
            sum += c->entropy[i];
            n++;
        }
    double mean = sum / n;
    for (int64_t i = 0; i < c->n; i++)
        if (fold->splits[c->donors[i]] == CV_SPLIT_TRAIN) squares += pow(c->entropy[i] - mean, 2);
    double reach = sigmas * sqrt(squares / n);
    return (CvFilter){mean - reach, mean + reach, false};
}

CvFilter cv_filter_compat(double sigmas) { return (CvFilter){7.285 - sigmas * 0.883, 7.285 + sigmas * 0.883, true}; }

bool cv_filter_keeps(const CvFilter *filter, double entropy) {
    return entropy >= filter->low && entropy <= filter->high;
}

/* ---- splits ---- */

void cv_splits_free(CvSplits *splits) {
    for (int split = 0; split < CV_SPLITS; split++) free(splits->ids[split].at);
    *splits = (CvSplits){0};
}

static bool check_classes(const CvColumns *c, const CvDonors *fold, const CvFilter *filter, const CvSplits *splits,
                          Error *error) {
    int64_t active = 0, n = splits->ids[CV_SPLIT_TRAIN].n;
    for (int split = 0; split < CV_SPLITS; split++)
        if (!splits->ids[split].n)
            return error_set(error, "fold %s: there is no cell in the %s split%s", fold->name, CV_SPLIT_NAMES[split],
                             filter && (split == CV_SPLIT_TRAIN || filter->everywhere) ? " after the entropy filter"
                                                                                       : "");
    for (int64_t i = 0; i < n; i++) active += c->labels[splits->ids[CV_SPLIT_TRAIN].at[i]];
    return (active && active < n) ||
           error_set(error, "fold %s: all %lld training cells are %s; both classes are needed", fold->name,
                     (long long)n, CV_CLASS_NAMES[active > 0]);
}

bool cv_splits_open(const CvColumns *c, const CvDonors *fold, const CvFilter *filter, CvSplits *splits, Error *error) {
    *splits = (CvSplits){0};
    for (int split = 0; split < CV_SPLITS; split++)
        splits->ids[split].at = xmalloc((size_t)c->n * sizeof *splits->ids[split].at + 1);
    for (int64_t i = 0; i < c->n; i++) {
        int split = fold->splits[c->donors[i]];
        bool filtered = filter && (split == CV_SPLIT_TRAIN || filter->everywhere);
        if (split == NO_SPLIT || (filtered && !cv_filter_keeps(filter, c->entropy[i]))) continue;
        CvIds *ids = &splits->ids[split];
        ids->at[ids->n++] = (int32_t)i;
    }
    bool ok = check_classes(c, fold, filter, splits, error);
    if (!ok) cv_splits_free(splits);
    return ok;
}

/* Refuses groups of cells (donors, or fields of view) that are in two splits; the error names the first. */
static bool check_groups(const CvColumns *c, const CvSplits *splits, const int32_t *groups, bool donors, Error *error) {
    int32_t most = 0;
    for (int64_t i = 0; i < c->n; i++) most = groups[i] > most ? groups[i] : most;
    OWNED int *split_of = xmalloc(((size_t)most + 1) * sizeof *split_of);
    for (int32_t g = 0; g <= most; g++) split_of[g] = NO_SPLIT;
    for (int split = 0; split < CV_SPLITS; split++)
        for (int64_t i = 0; i < splits->ids[split].n; i++) {
            int32_t cell = splits->ids[split].at[i], g = groups[cell];
            if (split_of[g] != NO_SPLIT && split_of[g] != split)
                return error_set(error, "%s %s has cells in %s and in %s (cell %d)",
                                 donors ? "donor" : "a field of view of donor", c->donor_names[c->donors[cell]],
                                 CV_SPLIT_NAMES[split_of[g]], CV_SPLIT_NAMES[split], (int)cell);
            split_of[g] = split;
        }
    return true;
}

bool cv_splits_check(const CvColumns *c, const CvSplits *splits, Error *error) {
    OWNED char *seen = xcalloc((size_t)c->n + 1, 1);
    for (int split = 0; split < CV_SPLITS; split++)
        for (int64_t i = 0; i < splits->ids[split].n; i++) {
            int32_t id = splits->ids[split].at[i];
            if (id < 0 || id >= c->n)
                return error_set(error, "%s has cell %d; there are %lld", CV_SPLIT_NAMES[split], (int)id,
                                 (long long)c->n);
            if (seen[id]++) return error_set(error, "%s has cell %d twice", CV_SPLIT_NAMES[split], (int)id);
        }
    return check_groups(c, splits, c->fields, false, error) && check_groups(c, splits, c->donors, true, error);
}

/* ---- the sampler ---- */

/* Returns the stratum of a cell: its donor and class, or its class. */
static int stratum_of(const CvColumns *c, int32_t cell, bool strata) {
    return (strata ? c->donors[cell] * CV_CLASSES : 0) + c->labels[cell];
}

CvSampler cv_sampler_new(const CvColumns *c, const CvIds *train, bool strata) {
    int most = c->n_donors * CV_CLASSES, n_strata = 0;
    OWNED int64_t *counts = xcalloc((size_t)most, sizeof *counts);
    CvSampler s = {*train, xmalloc((size_t)train->n * sizeof *s.cumulative)};
    assert(train->n > 0);
    for (int64_t i = 0; i < train->n; i++) n_strata += !counts[stratum_of(c, train->at[i], strata)]++;
    double sum = 0;
    for (int64_t i = 0; i < train->n; i++)
        s.cumulative[i] = sum += 1.0 / ((double)n_strata * (double)counts[stratum_of(c, train->at[i], strata)]);
    s.cumulative[train->n - 1] = 1; /* the sum may be off by rounding */
    return s;
}

void cv_sampler_free(CvSampler *sampler) { free(sampler->cumulative); }

int32_t cv_sampler_draw(const CvSampler *s, uint64_t seed, uint32_t epoch, uint64_t position) {
    double u = (double)philox_bits(seed, PURPOSE_SAMPLER, epoch, position) * 0x1p-32;
    int64_t low = 0, high = s->ids.n - 1; /* finds the first cell whose sum is above u */
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (s->cumulative[middle] > u)
            high = middle;
        else
            low = middle + 1;
    }
    return s->ids.at[low];
}

double cv_prior_natural(const CvColumns *c, const CvIds *ids) {
    int64_t active = 0;
    for (int64_t i = 0; i < ids->n; i++) active += c->labels[ids->at[i]];
    return (double)active / (double)ids->n;
}

double cv_prior_effective(const CvColumns *c, const CvSampler *s) {
    double active = 0;
    for (int64_t i = 0; i < s->ids.n; i++)
        if (c->labels[s->ids.at[i]]) active += s->cumulative[i] - (i ? s->cumulative[i - 1] : 0);
    return active;
}

void cv_sampler_print(const CvColumns *c, const CvSampler *s, int64_t batch) {
    OWNED double *share = xcalloc((size_t)(c->n_donors * CV_CLASSES), sizeof *share);
    for (int64_t i = 0; i < s->ids.n; i++)
        share[stratum_of(c, s->ids.at[i], true)] += s->cumulative[i] - (i ? s->cumulative[i - 1] : 0);
    const char *comma = "";
    printf("[Sampler] of %lld drawn", (long long)batch);
    for (int d = 0; d < c->n_donors; d++) {
        if (!(share[2 * d] + share[2 * d + 1] > 0)) continue;
        printf("%s %s %.1f + %.1f", comma, c->donor_names[d], (double)batch * share[2 * d],
               (double)batch * share[2 * d + 1]);
        comma = ",";
    }
    printf(" (quiescent + active); active are %.2f %% of the cells, %.2f %% of those drawn\n",
           100 * cv_prior_natural(c, &s->ids), 100 * cv_prior_effective(c, s));
}
