/* The scores of a fold as rows of a table and as JSON. */
#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "commands/cv/report/fold_scores.h"
#include "report/binary_report.h"

static void row(Table *t, const char *name, const BinaryScores *scores) {
    table_text(t, "what", name);
    binary_score_columns(t, scores, "cells");
}

void fold_scores_rows(const FoldScores *j, Table *t) {
    row(t, "network", &j->network);
    if (j->kept.n) row(t, "network, cells that the filter keeps", &j->kept);
    if (j->dropped.n) row(t, "network, cells that it drops", &j->dropped);
    for (int b = 0; b < BASELINES; b++) row(t, BASELINE_NAMES[b], &j->baselines.scores[b]);
}

char *fold_scores_threshold_text(const FoldScores *j) { return threshold_text(&j->threshold, "active training cells"); }

/* ---- JSON ---- */

/* Returns for each donor, [n_donors], whether it has cells among these. free() */
static bool *donors_of(const CvCells *c, const int32_t *ids, int64_t n) {
    bool *there = xcalloc((size_t)c->n_donors, sizeof *there);
    for (int64_t i = 0; i < n; i++) there[c->donors[ids[i]]] = true;
    return there;
}

char *donor_names_of(const CvCells *c, const int32_t *ids, int64_t n) {
    OWNED bool *there = donors_of(c, ids, n);
    char *text = xstrdup("");
    for (int d = 0; d < c->n_donors; d++)
        if (there[d]) xappend(&text, "%s%s", *text ? " " : "", c->donor_names[d]);
    return text;
}

static json_t *donors_to_json(const CvCells *c, const int32_t *ids, int64_t n) {
    OWNED bool *there = donors_of(c, ids, n);
    json_t *array = json_array();
    for (int d = 0; d < c->n_donors; d++)
        if (there[d]) json_array_append_new(array, json_string(c->donor_names[d]));
    return array;
}

static void set_real(json_t *root, const char *key, double value) {
    json_object_set_new(root, key, real_or_null(value));
}

static void set_curve(json_t *root, const char *key, const double *values, int n) {
    if (!values) return;
    json_t *array = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(array, real_or_null(values[i]));
    json_object_set_new(root, key, array);
}

static json_t *scores_to_json(const BinaryScores *s) {
    json_t *root = json_object();
    for (int k = 0; k < BINARY_SCORES; k++) set_real(root, BINARY_METRICS[k].name, binary_score(s, k));
    json_object_update_new(root,
                           json_build("the report", "{s:o, s:I, s:o}", "threshold", real_or_null(s->threshold), "cells",
                                      (json_int_t)s->n, "confusion_matrix", binary_confusion_to_json(s)));
    return root;
}

/* Returns the keys of the reference. */
static json_t *reference_to_json(const FoldScores *j) {
    const TestedFold *f = j->fold;
    const BinaryScores *val = &j->plain, *test = &j->network;
    json_t *root = json_build(
        "the report", "{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "fold",
        f->name, "best_epoch", f->best_epoch, "val_loss", real_or_null(val->loss), "val_acc",
        real_or_null(val->accuracy), "val_f1", real_or_null(val->f1), "val_precision", real_or_null(val->precision),
        "val_recall", real_or_null(val->recall), "test_loss", real_or_null(test->loss), "test_acc",
        real_or_null(test->accuracy), "test_accuracy", real_or_null(test->accuracy), "precision",
        real_or_null(test->precision), "test_precision", real_or_null(test->precision), "recall",
        real_or_null(test->recall), "test_recall", real_or_null(test->recall), "f1", real_or_null(test->f1), "test_f1",
        real_or_null(test->f1), "confusion_matrix", binary_confusion_to_json(test));
    set_curve(root, "train_losses", f->train_losses, f->epochs);
    set_curve(root, "val_losses", f->val_losses, f->epochs);
    set_curve(root, "train_accuracies", f->train_accuracies, f->epochs);
    set_curve(root, "val_accuracies", f->val_accuracies, f->epochs);
    json_object_update_new(root, json_build("the report", "{s:I, s:I, s:I, s:o, s:O*}", "num_train_samples",
                                            (json_int_t)f->n_train, "num_val_samples", (json_int_t)f->validation.n,
                                            "num_test_samples", (json_int_t)f->test.n, "training_donors",
                                            donors_to_json(f->cells, f->train, f->n_train), "hyperparameters",
                                            f->hyperparameters));
    return root;
}

static json_t *threshold_to_json(const FoldScores *j) {
    const Threshold *t = &j->threshold;
    OWNED char *text = fold_scores_threshold_text(j);
    return json_build("the report", "{s:s, s:o, s:s, s:s, s:o}", "rule", THRESHOLD_RULE_NAMES[t->rule], "value",
                      real_or_null(t->value), "decision", "p > value", "text", text, "validation",
                      scores_to_json(&j->tuned));
}

static json_t *temperature_to_json(const FoldScores *j) {
    if (isnan(j->temperature))
        return json_build("the report", "{s:n, s:s}", "value", "why_not", j->no_temperature.text);
    return json_build("the report", "{s:f, s:o, s:o}", "value", j->temperature, "test_before",
                      scores_to_json(&j->before), "test_after", scores_to_json(&j->after));
}

static json_t *baselines_to_json(const FoldScores *j) {
    json_t *root = json_object();
    for (int b = 0; b < BASELINES; b++) {
        const Logistic *l = &j->baselines.logistic[b];
        json_t *one = scores_to_json(&j->baselines.scores[b]);
        set_curve(one, "weights", l->features ? l->weight : NULL, l->features);
        if (l->features) set_real(one, "bias", l->bias);
        json_object_set_new(root, BASELINE_NAMES[b], one);
    }
    return root;
}

json_t *fold_scores_to_json(const FoldScores *j) {
    const TestedFold *f = j->fold;
    json_t *root = reference_to_json(j);
    json_object_update_new(
        root, json_build("the report", "{s:o, s:o, s:o, s:o, s:o, s:o*, s:o*, s:o, s:o}", "validation_donors",
                         donors_to_json(f->cells, f->validation.ids, f->validation.n), "test_donors",
                         donors_to_json(f->cells, f->test.ids, f->test.n), "training_share",
                         real_or_null(j->training_share), "threshold", threshold_to_json(j), "network",
                         scores_to_json(&j->network), "network_kept", j->kept.n ? scores_to_json(&j->kept) : NULL,
                         "network_dropped", j->dropped.n ? scores_to_json(&j->dropped) : NULL, "baselines",
                         baselines_to_json(j), "temperature", temperature_to_json(j)));
    return root;
}
