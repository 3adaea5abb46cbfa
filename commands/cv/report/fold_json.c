/* The scores of a fold as rows of a table and as JSON. */
#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "commands/cv/report/cell_tables.h"
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
    bool *there = donors_of(c, ids, n);
    char *text = xstrdup("");
    for (int d = 0; d < c->n_donors; d++) {
        if (!there[d]) continue;
        char *longer = xformat("%s%s%s", text, *text ? " " : "", c->donor_names[d]);
        free(text);
        text = longer;
    }
    free(there);
    return text;
}

static json_t *donors_to_json(const CvCells *c, const int32_t *ids, int64_t n) {
    bool *there = donors_of(c, ids, n);
    json_t *array = json_array();
    for (int d = 0; d < c->n_donors; d++)
        if (there[d]) json_array_append_new(array, json_string(c->donor_names[d]));
    free(there);
    return array;
}

static void set_real(json_t *root, const char *key, double value) {
    json_object_set_new(root, key, real_or_null(value));
}

static void set_count(json_t *root, const char *key, int64_t value) {
    json_object_set_new(root, key, json_integer(value));
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
    set_real(root, "threshold", s->threshold);
    set_count(root, "cells", s->n);
    json_object_set_new(root, "confusion_matrix", binary_confusion_to_json(s));
    return root;
}

static void set_reference(json_t *root, const FoldScores *j) {
    const TestedFold *f = j->fold;
    json_object_set_new(root, "fold", json_string(f->name));
    set_count(root, "best_epoch", f->best_epoch);
    set_real(root, "val_loss", j->plain.loss);
    set_real(root, "val_acc", j->plain.accuracy);
    set_real(root, "val_f1", j->plain.f1);
    set_real(root, "val_precision", j->plain.precision);
    set_real(root, "val_recall", j->plain.recall);
    set_real(root, "test_loss", j->network.loss);
    set_real(root, "test_acc", j->network.accuracy);
    set_real(root, "test_accuracy", j->network.accuracy);
    set_real(root, "precision", j->network.precision);
    set_real(root, "test_precision", j->network.precision);
    set_real(root, "recall", j->network.recall);
    set_real(root, "test_recall", j->network.recall);
    set_real(root, "f1", j->network.f1);
    set_real(root, "test_f1", j->network.f1);
    json_object_set_new(root, "confusion_matrix", binary_confusion_to_json(&j->network));
    set_curve(root, "train_losses", f->train_losses, f->epochs);
    set_curve(root, "val_losses", f->val_losses, f->epochs);
    set_curve(root, "train_accuracies", f->train_accuracies, f->epochs);
    set_curve(root, "val_accuracies", f->val_accuracies, f->epochs);
    set_count(root, "num_train_samples", f->n_train);
    set_count(root, "num_val_samples", f->validation.n);
    set_count(root, "num_test_samples", f->test.n);
    json_object_set_new(root, "training_donors", donors_to_json(f->cells, f->train, f->n_train));
    if (f->hyperparameters) json_object_set(root, "hyperparameters", f->hyperparameters);
}

static json_t *threshold_to_json(const FoldScores *j) {
    const Threshold *t = &j->threshold;
    json_t *root = json_object();
    char *text = fold_scores_threshold_text(j);
    json_object_set_new(root, "rule", json_string(THRESHOLD_RULE_NAMES[t->rule]));
    set_real(root, "value", t->value);
    json_object_set_new(root, "decision", json_string("p > value"));
    json_object_set_new(root, "text", json_string(text));
    json_object_set_new(root, "validation", scores_to_json(&j->tuned));
    free(text);
    return root;
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
        json_t *one = scores_to_json(&j->baselines.scores[b]), *weights = json_array();
        for (int k = 0; k < l->features; k++) json_array_append_new(weights, json_real(l->weight[k]));
        if (l->features) {
            json_object_set(one, "weights", weights);
            set_real(one, "bias", l->bias);
        }
        json_decref(weights);
        json_object_set_new(root, BASELINE_NAMES[b], one);
    }
    return root;
}

json_t *fold_scores_to_json(const FoldScores *j) {
    const TestedFold *f = j->fold;
    json_t *root = json_object();
    set_reference(root, j);
    json_object_set_new(root, "validation_donors", donors_to_json(f->cells, f->validation.ids, f->validation.n));
    json_object_set_new(root, "test_donors", donors_to_json(f->cells, f->test.ids, f->test.n));
    set_real(root, "training_share", j->training_share);
    json_object_set_new(root, "threshold", threshold_to_json(j));
    json_object_set_new(root, "network", scores_to_json(&j->network));
    if (j->kept.n) json_object_set_new(root, "network_kept", scores_to_json(&j->kept));
    if (j->dropped.n) json_object_set_new(root, "network_dropped", scores_to_json(&j->dropped));
    json_object_set_new(root, "baselines", baselines_to_json(j));
    json_object_set_new(root, "temperature", temperature_to_json(j));
    return root;
}
