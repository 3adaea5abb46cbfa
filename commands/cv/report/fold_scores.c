/* Computes scores from predictions. */
#include "commands/cv/report/fold_scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/evaluation.h"

/* ---- checks ---- */

static bool cell_check(const CvCells *c, int32_t id, Error *error) {
    if (c->labels[id] != 0 && c->labels[id] != 1)
        return error_set(error, "%s: the label is %d, not 0 or 1", c->file_names[id], c->labels[id]);
    if (c->donors[id] < 0 || c->donors[id] >= c->n_donors)
        return error_set(error, "%s: the donor is %d, not one of 0 .. %d", c->file_names[id], c->donors[id],
                         c->n_donors - 1);
    if (c->fields[id] < 0 || c->fields[id] >= c->n_fields)
        return error_set(error, "%s: the field of view is %d, not one of 0 .. %d", c->file_names[id], c->fields[id],
                         c->n_fields - 1);
    if (!(c->photons[id] >= 0 && isfinite(c->photons[id])))
        return error_set(error, "%s: %g photons", c->file_names[id], c->photons[id]);
    return true;
}

/* Checks that ids are cells, each in one split once. split[cells]: 0 if a cell is in none yet. */
static bool split_check(const CvCells *c, const int32_t *ids, int64_t n, int number, unsigned char *split,
                        Error *error) {
    static const char *const names[] = {"", "training", "validation", "test"};
    if (n < 1) return error_set(error, "there are no %s cells", names[number]);
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= c->n)
            return error_set(error, "the id of %s cell %lld is %d, not one of 0 .. %lld", names[number], (long long)i,
                             ids[i], (long long)c->n - 1);
        if (!cell_check(c, ids[i], error)) return false;
        if (split[ids[i]])
            return error_set(error, "%s is a %s cell and a %s cell", c->file_names[ids[i]], names[split[ids[i]]],
                             names[number]);
        split[ids[i]] = (unsigned char)number;
    }
    return true;
}

static bool values_check(const CvCells *c, const CellPredictions *p, Error *error) {
    for (int64_t i = 0; i < p->n; i++) {
        if (!isfinite(p->logits[i]))
            return error_set(error, "%s: the logit is %g", c->file_names[p->ids[i]], p->logits[i]);
        for (int v = 0; v < p->n_views; v++) {
            double view = p->views[i * p->n_views + v];
            if (!(view >= 0 && view <= 1))
                return error_set(error, "%s: the probability of view %d is %g", c->file_names[p->ids[i]], v, view);
        }
    }
    return true;
}

static bool fold_check(const TestedFold *f, Error *error) {
    const CvCells *c = f->cells;
    if (!name_check("fold", f->name, error)) return false;
    if (f->test.n_views != f->validation.n_views || (f->test.n_views && !f->view_names))
        return error_set(error, "%d views of test cells, %d of validation cells, %s names of them", f->test.n_views,
                         f->validation.n_views, f->view_names ? "with" : "no");
    for (int d = 0; d < c->n_donors; d++)
        if (!name_check("donor", c->donor_names[d], error)) return false;
    OWNED unsigned char *split = xcalloc((size_t)c->n + 1, sizeof *split);
    return split_check(c, f->train, f->n_train, 1, split, error) &&
           split_check(c, f->validation.ids, f->validation.n, 2, split, error) &&
           split_check(c, f->test.ids, f->test.n, 3, split, error) && values_check(c, &f->validation, error) &&
           values_check(c, &f->test, error);
}

/* ---- rows ---- */

static double mean_view(const CellPredictions *p, int64_t i) {
    double sum = 0;
    for (int v = 0; v < p->n_views; v++) sum += p->views[i * p->n_views + v];
    return p->n_views ? sum / p->n_views : binary_sigmoid(p->logits[i]);
}

/* free() */
static BinaryRow *rows_of(const CvCells *c, const CellPredictions *p, int fold) {
    BinaryRow *rows = xmalloc((size_t)p->n * sizeof *rows);
    for (int64_t i = 0; i < p->n; i++) {
        int32_t id = p->ids[i];
        rows[i] = (BinaryRow){.id = id,
                              .label = c->labels[id],
                              .group = c->fields[id],
                              .fold = fold,
                              .at = (int32_t)i,
                              .kept = !p->kept || p->kept[i],
                              .p = mean_view(p, i),
                              .logit = p->logits[i],
                              .threshold = 0.5};
    }
    return rows;
}

/* Scores p = sigmoid(logit / temperature) at 0.5. */
static bool scores_at(const BinaryRow *rows, int64_t n, double temperature, BinaryScores *scores, Error *error) {
    OWNED BinaryRow *other = xmalloc((size_t)n * sizeof *other);
    memcpy(other, rows, (size_t)n * sizeof *other);
    for (int64_t i = 0; i < n; i++) {
        other[i].logit /= temperature;
        other[i].p = binary_sigmoid(other[i].logit);
        other[i].threshold = 0.5;
    }
    return binary_scores(other, n, scores, NULL, error);
}

/* Scores the rows with this `kept`; zeros if there are none. */
static bool scores_where(const BinaryRow *rows, int64_t n, bool kept, BinaryScores *scores, Error *error) {
    OWNED BinaryRow *some = xmalloc((size_t)n * sizeof *some);
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        if (rows[i].kept == kept) some[count++] = rows[i];
    *scores = (BinaryScores){0};
    return !count || binary_scores(some, count, scores, NULL, error);
}

/* ---- scores ---- */

/* Warns and takes 0.5 where the rule has no answer: probabilities that are all the same. */
static void choose_threshold(FoldScores *j) {
    Error error;
    int64_t n = j->fold->validation.n;
    OWNED double *p = xmalloc((size_t)n * sizeof *p);
    OWNED int32_t *labels = xmalloc((size_t)n * sizeof *labels);
    for (int64_t i = 0; i < n; i++) {
        p[i] = j->validation[i].p;
        labels[i] = j->validation[i].label;
    }
    if (!threshold_choose(j->fold->rule, p, labels, n, j->training_share, &j->threshold, &error)) {
        warn("fold %s: no threshold by the rule '%s': %s; 0.5 is taken", j->fold->name,
             THRESHOLD_RULE_NAMES[j->fold->rule], error.text);
        threshold_choose(THRESHOLD_HALF, p, labels, n, j->training_share, &j->threshold, &error);
    }
    for (int64_t i = 0; i < n; i++) j->validation[i].threshold = j->threshold.value;
    for (int64_t i = 0; i < j->fold->test.n; i++) j->test[i].threshold = j->threshold.value;
}

/* Fits the temperature of a softmax whose logits are 0 and the logit. */
static void fit_temperature(FoldScores *j) {
    int64_t n = j->fold->validation.n;
    OWNED double *logits = xmalloc(2 * (size_t)n * sizeof *logits);
    OWNED int32_t *labels = xmalloc((size_t)n * sizeof *labels);
    for (int64_t i = 0; i < n; i++) {
        logits[2 * i] = 0;
        logits[2 * i + 1] = j->validation[i].logit;
        labels[i] = j->validation[i].label;
    }
    if (!metrics_fit_temperature(logits, labels, n, 2, &j->temperature, &j->no_temperature)) j->temperature = NAN;
}

static bool score(FoldScores *j, Error *error) {
    const TestedFold *f = j->fold;
    choose_threshold(j);
    fit_temperature(j);
    return scores_at(j->validation, f->validation.n, 1, &j->plain, error) &&
           binary_scores(j->validation, f->validation.n, &j->tuned, NULL, error) &&
           binary_scores(j->test, f->test.n, &j->network, NULL, error) &&
           (!f->test.kept || (scores_where(j->test, f->test.n, true, &j->kept, error) &&
                              scores_where(j->test, f->test.n, false, &j->dropped, error))) &&
           scores_at(j->test, f->test.n, 1, &j->before, error) &&
           (isnan(j->temperature) || scores_at(j->test, f->test.n, j->temperature, &j->after, error)) &&
           baselines_make(f, j->test, &j->baselines, error);
}

bool fold_scores_make(const TestedFold *fold, int number, FoldScores *j, Error *error) {
    *j = (FoldScores){.fold = fold};
    if (!fold_check(fold, error)) return error_before(error, "fold %s: ", fold->name);
    j->training_share = training_share(fold);
    j->validation = rows_of(fold->cells, &fold->validation, number);
    j->test = rows_of(fold->cells, &fold->test, number);
    if (score(j, error)) return true;
    fold_scores_free(j);
    return error_before(error, "fold %s: ", fold->name);
}

void fold_scores_free(FoldScores *j) {
    FREE(j->validation, j->test);
    baselines_free(&j->baselines);
    *j = (FoldScores){0};
}
