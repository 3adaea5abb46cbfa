#include "data/flim_splits.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"

const char *const FLIM_ROLE_NAMES[FLIM_ROLES] = {"train", "val", "test"};
enum { NO_ROLE = -1, CLASSES = 2 };

/* ---- folds ---- */

static FlimFold *add_fold(FlimFolds *folds, const char *name, int n_donors) {
    folds->folds = xrealloc(folds->folds, (size_t)(folds->n + 1) * sizeof *folds->folds);
    FlimFold *fold = &folds->folds[folds->n++];
    *fold = (FlimFold){name, xmalloc((size_t)n_donors * sizeof(int))};
    for (int d = 0; d < n_donors; d++) fold->roles[d] = NO_ROLE;
    return fold;
}

void flim_folds_free(FlimFolds *folds) {
    for (int i = 0; i < folds->n; i++) free(folds->folds[i].roles);
    free(folds->folds);
    *folds = (FlimFolds){0};
}

bool flim_folds_nested(const FlimColumns *c, FlimFolds *folds, Error *error) {
    int n = c->n_donors;
    *folds = (FlimFolds){0};
    if (n < 3)
        return error_set(error,
                         "there are %d donors; one to test on, one to validate on and others to train on "
                         "are at least 3",
                         n);
    for (int d = 0; d < n; d++) {
        FlimFold *fold = add_fold(folds, c->donor_names[d], n);
        for (int i = 0; i < n; i++) fold->roles[i] = FLIM_TRAIN;
        fold->roles[d] = FLIM_TEST;
        fold->roles[(d + 1) % n] = FLIM_VAL;
    }
    return true;
}

/* Donors named in `text`, separated by commas: their numbers in its order, at most n_donors. -1 with an error. */
static int parse_donors(const FlimColumns *c, const char *text, int *donors, Error *error) {
    int n = 0;
    for (const char *at = text, *end; *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, ",");
        char *name = xformat("%.*s", (int)(end - at), at);
        int d = 0;
        while (d < c->n_donors && strcmp(c->donor_names[d], name)) d++;
        bool twice = false;
        for (int i = 0; i < n; i++) twice |= donors[i] == d;
        if (d == c->n_donors)
            error_set(error, "there is no donor '%s'%s%s", name, c->n_donors ? "; the first is " : "",
                      c->n_donors ? c->donor_names[0] : "");
        else if (twice)
            error_set(error, "donor %s is named twice in '%s'", name, text);
        free(name);
        if (twice || d == c->n_donors) return -1;
        donors[n++] = d;
    }
    return n;
}

bool flim_folds_reference(const FlimColumns *c, const char *names, FlimFolds *folds, Error *error) {
    int *donors = xmalloc((size_t)c->n_donors * sizeof *donors + 1), n = parse_donors(c, names, donors, error);
    *folds = (FlimFolds){0};
    for (int test = 0; test < n && n >= 3; test++) {
        FlimFold *fold = add_fold(folds, c->donor_names[donors[test]], c->n_donors);
        for (int i = 0; i < n; i++) fold->roles[donors[i]] = FLIM_TRAIN;
        fold->roles[donors[test ? 0 : 1]] = FLIM_VAL;
        fold->roles[donors[test]] = FLIM_TEST;
    }
    free(donors);
    if (n >= 0 && n < 3) error_set(error, "'%s' are %d donors; expected 3 or more", names, n);
    return n >= 3;
}

bool flim_folds_named(const FlimColumns *c, const char *train, const char *val, const char *test, FlimFolds *folds,
                      Error *error) {
    const char *const names[FLIM_ROLES] = {train, val, test};
    int *donors = xmalloc((size_t)c->n_donors * sizeof *donors + 1);
    *folds = (FlimFolds){0};
    FlimFold *fold = add_fold(folds, "final", c->n_donors);
    bool fine = true;
    for (int role = 0; role < FLIM_ROLES && fine; role++) {
        int n = parse_donors(c, names[role], donors, error);
        fine = n > 0 || (n == 0 && error_set(error, "no donor to %s", FLIM_ROLE_NAMES[role]));
        for (int i = 0; i < n && fine; i++) {
            int *is = &fold->roles[donors[i]];
            if (*is != NO_ROLE)
                fine = error_set(error,
                                 "donor %s is to be in %s and in %s: a model tested on a donor that it knows says "
                                 "nothing of others",
                                 c->donor_names[donors[i]], FLIM_ROLE_NAMES[*is], FLIM_ROLE_NAMES[role]);
            *is = role;
        }
    }
    free(donors);
    if (!fine) flim_folds_free(folds);
    return fine;
}

/* ---- the filter ---- */

FlimFilter flim_filter_of(const FlimColumns *c, const FlimFold *fold, double sigmas) {
    double sum = 0, squares = 0, n = 0;
    for (int64_t i = 0; i < c->n; i++)
        if (fold->roles[c->donors[i]] == FLIM_TRAIN) {
            sum += c->entropy[i];
            n++;
        }
    double mean = sum / n;
    for (int64_t i = 0; i < c->n; i++)
        if (fold->roles[c->donors[i]] == FLIM_TRAIN) squares += pow(c->entropy[i] - mean, 2);
    double reach = sigmas * sqrt(squares / n);
    return (FlimFilter){mean - reach, mean + reach, false};
}

FlimFilter flim_filter_compat(double sigmas) {
    return (FlimFilter){7.285 - sigmas * 0.883, 7.285 + sigmas * 0.883, true};
}

bool flim_filter_keeps(const FlimFilter *filter, double entropy) {
    return entropy >= filter->low && entropy <= filter->high;
}

/* ---- splits ---- */

void flim_split_free(FlimSplit *split) {
    for (int role = 0; role < FLIM_ROLES; role++) free(split->roles[role].at);
    *split = (FlimSplit){0};
}

static bool check_classes(const FlimColumns *c, const FlimFold *fold, const FlimFilter *filter, const FlimSplit *split,
                          Error *error) {
    int64_t active = 0, n = split->roles[FLIM_TRAIN].n;
    for (int role = 0; role < FLIM_ROLES; role++)
        if (!split->roles[role].n)
            return error_set(error, "fold %s: there is no cell to %s%s", fold->name, FLIM_ROLE_NAMES[role],
                             filter && (role == FLIM_TRAIN || filter->everywhere)
                                 ? ", of those whose entropy the filter keeps"
                                 : "");
    for (int64_t i = 0; i < n; i++) active += c->labels[split->roles[FLIM_TRAIN].at[i]];
    return (active && active < n) ||
           error_set(error, "fold %s: all %lld cells to train are %s; both classes are needed", fold->name,
                     (long long)n, active ? "active" : "inactive");
}

bool flim_split_of(const FlimColumns *c, const FlimFold *fold, const FlimFilter *filter, FlimSplit *split,
                   Error *error) {
    *split = (FlimSplit){0};
    for (int role = 0; role < FLIM_ROLES; role++)
        split->roles[role].at = xmalloc((size_t)c->n * sizeof *split->roles[role].at + 1);
    for (int64_t i = 0; i < c->n; i++) {
        int role = fold->roles[c->donors[i]];
        bool filtered = filter && (role == FLIM_TRAIN || filter->everywhere);
        if (role == NO_ROLE || (filtered && !flim_filter_keeps(filter, c->entropy[i]))) continue;
        FlimIds *ids = &split->roles[role];
        ids->at[ids->n++] = (int32_t)i;
    }
    bool fine = check_classes(c, fold, filter, split, error);
    if (!fine) flim_split_free(split);
    return fine;
}

/* The roles of groups that have cells in more than one: an error that names the first. */
static bool check_groups(const FlimColumns *c, const FlimSplit *split, const int32_t *groups, bool donors,
                         Error *error) {
    int32_t most = 0;
    for (int64_t i = 0; i < c->n; i++) most = groups[i] > most ? groups[i] : most;
    int *is = xmalloc(((size_t)most + 1) * sizeof *is);
    for (int32_t g = 0; g <= most; g++) is[g] = NO_ROLE;
    bool fine = true;
    for (int role = 0; role < FLIM_ROLES; role++)
        for (int64_t i = 0; i < split->roles[role].n && fine; i++) {
            int32_t cell = split->roles[role].at[i], g = groups[cell];
            if (is[g] != NO_ROLE && is[g] != role)
                fine = error_set(error, "%s %s has cells in %s and in %s (cell %d)",
                                 donors ? "donor" : "a field of view of donor", c->donor_names[c->donors[cell]],
                                 FLIM_ROLE_NAMES[is[g]], FLIM_ROLE_NAMES[role], (int)cell);
            is[g] = role;
        }
    free(is);
    return fine;
}

bool flim_split_check(const FlimColumns *c, const FlimSplit *split, Error *error) {
    char *seen = xcalloc((size_t)c->n + 1, 1);
    bool fine = true;
    for (int role = 0; role < FLIM_ROLES; role++)
        for (int64_t i = 0; i < split->roles[role].n && fine; i++) {
            int32_t id = split->roles[role].at[i];
            if (id < 0 || id >= c->n)
                fine =
                    error_set(error, "%s has cell %d; there are %lld", FLIM_ROLE_NAMES[role], (int)id, (long long)c->n);
            else if (seen[id]++)
                fine = error_set(error, "%s has cell %d, which is there twice", FLIM_ROLE_NAMES[role], (int)id);
        }
    free(seen);
    return fine && check_groups(c, split, c->fields, false, error) && check_groups(c, split, c->donors, true, error);
}

/* ---- the sampler ---- */

static int stratum_of(const FlimColumns *c, int32_t cell, bool strata) {
    return (strata ? c->donors[cell] * CLASSES : 0) + c->labels[cell];
}

FlimSampler flim_sampler_new(const FlimColumns *c, const FlimIds *train, bool strata) {
    int most = c->n_donors * CLASSES, there = 0;
    int64_t *counts = xcalloc((size_t)most, sizeof *counts);
    FlimSampler s = {*train, xmalloc((size_t)train->n * sizeof *s.until)};
    assert(train->n > 0);
    for (int64_t i = 0; i < train->n; i++) there += !counts[stratum_of(c, train->at[i], strata)]++;
    double sum = 0;
    for (int64_t i = 0; i < train->n; i++)
        s.until[i] = sum += 1.0 / ((double)there * (double)counts[stratum_of(c, train->at[i], strata)]);
    s.until[train->n - 1] = 1; /* which it is but for rounding */
    free(counts);
    return s;
}

void flim_sampler_free(FlimSampler *sampler) { free(sampler->until); }

int32_t flim_sampler_draw(const FlimSampler *s, uint64_t seed, uint32_t epoch, uint64_t position) {
    double u = (double)philox_bits(seed, PURPOSE_SAMPLER, epoch, position) * 0x1p-32;
    int64_t low = 0, high = s->ids.n - 1; /* the first of those whose sum is above u */
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (s->until[middle] > u)
            high = middle;
        else
            low = middle + 1;
    }
    return s->ids.at[low];
}

double flim_prior_natural(const FlimColumns *c, const FlimIds *ids) {
    int64_t active = 0;
    for (int64_t i = 0; i < ids->n; i++) active += c->labels[ids->at[i]];
    return (double)active / (double)ids->n;
}

double flim_prior_effective(const FlimColumns *c, const FlimSampler *s) {
    double active = 0;
    for (int64_t i = 0; i < s->ids.n; i++)
        if (c->labels[s->ids.at[i]]) active += s->until[i] - (i ? s->until[i - 1] : 0);
    return active;
}

void flim_sampler_print(const FlimColumns *c, const FlimSampler *s, int64_t batch) {
    double *share = xcalloc((size_t)(c->n_donors * CLASSES), sizeof *share);
    for (int64_t i = 0; i < s->ids.n; i++)
        share[stratum_of(c, s->ids.at[i], true)] += s->until[i] - (i ? s->until[i - 1] : 0);
    const char *comma = "";
    printf("[Sampler] of %lld drawn", (long long)batch);
    for (int d = 0; d < c->n_donors; d++) {
        if (!(share[2 * d] + share[2 * d + 1] > 0)) continue;
        printf("%s %s %.1f + %.1f", comma, c->donor_names[d], (double)batch * share[2 * d],
               (double)batch * share[2 * d + 1]);
        comma = ",";
    }
    printf(" (inactive + active); active are %.2f %% of the cells, %.2f %% of those drawn\n",
           100 * flim_prior_natural(c, &s->ids), 100 * flim_prior_effective(c, s));
    free(share);
}
