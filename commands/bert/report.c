#include "commands/bert/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file_name.h"
#include "base/text_file.h"
#include "checkpoint/description.h"
#include "data/bert/texts.h"
#include "page/page.h"
#include "report/binary_report.h"
#include "report/chance.h"
#include "report/classification_report.h"
#include "report/markdown.h"

/* ---- predictions in the form that reports read ---- */

typedef struct {
    Predictions predictions;
    double *logits; /* [n, classes] */
} Scored;

static Scored scored_of(const BertTested *t) {
    int64_t count = t->n * t->classes->n;
    Scored s = {.logits = xmalloc((size_t)(count + 1) * sizeof *s.logits)};
    for (int64_t i = 0; i < count; i++) s.logits[i] = (double)t->logits[i];
    s.predictions = (Predictions){.n = t->n,
                                  .classes = t->classes->n,
                                  .class_names = (const char *const *)t->classes->names,
                                  .logits = s.logits,
                                  .truth = t->labels,
                                  .ids = t->lines,
                                  .files = t->files,
                                  .cause = t->cause};
    return s;
}

/* Returns the rows of two classes; free(). */
static BinaryRow *rows_of(const BertTested *t, double threshold) {
    BinaryRow *rows = xmalloc((size_t)(t->n + 1) * sizeof *rows);
    for (int64_t i = 0; i < t->n; i++) {
        double logit = (double)t->logits[2 * i + 1] - (double)t->logits[2 * i];
        rows[i] = (BinaryRow){.id = (int32_t)i,
                              .label = t->labels[i],
                              .p = binary_sigmoid(logit),
                              .logit = logit,
                              .threshold = threshold};
    }
    return rows;
}

/* Returns DIRECTORY/WHAT_NAME, the path of a report without its end; free(). */
static char *path_of(const BertTested *t, const char *directory, const char *what) {
    OWNED char *name = file_name_in(directory, "", t->name);
    return xformat("%s/%s_%s", directory, what, name);
}

/* ---- the decision ---- */

static void choose_threshold(const BertTested *v, ThresholdRule rule, double training_share, ThresholdDecision *d) {
    OWNED BinaryRow *rows = rows_of(v, 0.5);
    OWNED double *p = xmalloc((size_t)(v->n + 1) * sizeof *p);
    Threshold chosen;
    Error error;
    for (int64_t i = 0; i < v->n; i++) p[i] = rows[i].p;
    d->rule = rule;
    if (!threshold_choose(rule, p, v->labels, v->n, training_share, &chosen, &error)) {
        warn("no threshold by the rule '%s': %s; 0.5 is taken", THRESHOLD_RULE_NAMES[rule], error.text);
        d->rule = THRESHOLD_HALF;
        chosen.value = 0.5;
    } else {
        OWNED char *text = threshold_text(&chosen, "training texts of the second class");
        printf("[Decision] %s if p > %s\n", v->classes->names[1], text);
    }
    d->threshold = chosen.value;
}

ThresholdDecision bert_decide(const BertTested *v, ThresholdRule rule, double training_share) {
    ThresholdDecision d = {.kept = true, .threshold = NAN, .temperature = NAN};
    Error error;
    Scored s = scored_of(v);
    if (metrics_fit_temperature(s.logits, v->labels, v->n, v->classes->n, &d.temperature, &error))
        printf("[Decision] temperature %.4f: the probabilities of logits / temperature are calibrated\n",
               d.temperature);
    else
        warn("no temperature, and no report of a calibration: %s", error.text), d.temperature = NAN;
    free(s.logits);
    if (v->classes->n == 2) choose_threshold(v, rule, training_share, &d);
    return d;
}

/* ---- wrong predictions ---- */

enum { SHOWN = 20, SHOWN_CHARACTERS = 160 };

typedef struct {
    int64_t row;
    int32_t predicted;
    double p; /* of the predicted class */
} Wrong;

static int by_confidence(const void *left, const void *right) {
    const Wrong *a = left, *b = right;
    return a->p != b->p ? (a->p < b->p) - (a->p > b->p) : (a->row > b->row) - (a->row < b->row);
}

/* Returns the beginning of a text on one line; free(). */
static char *shown_text(const char *text) {
    OWNED char *line = texts_normal(text, NULL);
    size_t end = 0;
    int characters = 0;
    for (; line[end]; end++) {
        bool begins = ((unsigned char)line[end] & 0xC0) != 0x80;
        if (begins && characters++ == SHOWN_CHARACTERS) break;
    }
    return xformat("%.*s%s", (int)end, line, line[end] ? " ..." : "");
}

static void wrong_row(Table *t, const BertTested *tested, const Evaluation *e, const Wrong *w, bool whole) {
    const double *p = e->probabilities + w->row * tested->classes->n;
    OWNED char *shown = whole ? xstrdup(tested->texts[w->row]) : shown_text(tested->texts[w->row]);
    if (tested->files) table_text(t, "file", tested->files[w->row]);
    table_count(t, "line", tested->lines[w->row]);
    table_text(t, "truth", tested->classes->names[tested->labels[w->row]]);
    table_text(t, "prediction", tested->classes->names[w->predicted]);
    table_real(t, "p", w->p);
    table_real(t, "p_truth", p[tested->labels[w->row]]);
    table_text(t, "text", shown);
}

static bool write_wrong(const BertTested *tested, const Table *all, const Table *first, const char *base,
                        Error *error) {
    OWNED char *csv = xformat("%s.csv", base), *json = xformat("%s.json", base), *markdown = xformat("%s.md", base);
    TextFile file;
    text_file_begin(&file);
    fprintf(file.out, "# %s: wrong predictions\n\n%lld of %lld texts, the most confident first.\n", tested->name,
            (long long)table_rows(all), (long long)tested->n);
    table_print_section(first, "Most confident", file.out);
    bool ok = markdown_end(&file, markdown, error);
    return ok && table_write_csv(all, csv, error) && json_write(table_to_json(first), json, error);
}

static bool report_wrong(const BertTested *tested, const Evaluation *e, const char *directory, Error *error) {
    OWNED Wrong *wrong = xmalloc((size_t)(tested->n + 1) * sizeof *wrong);
    Table all = {0}, first = {0};
    int64_t n = 0;
    int classes = tested->classes->n;
    for (int64_t i = 0; i < tested->n; i++) {
        int32_t predicted = e->predicted[i];
        if (predicted != tested->labels[i])
            wrong[n++] = (Wrong){i, predicted, e->probabilities[i * classes + predicted]};
    }
    qsort(wrong, (size_t)n, sizeof *wrong, by_confidence);
    for (int64_t i = 0; i < n; i++) {
        wrong_row(&all, tested, e, &wrong[i], true);
        if (i < SHOWN) wrong_row(&first, tested, e, &wrong[i], false);
    }
    OWNED char *base = path_of(tested, directory, "wrong");
    bool ok = write_wrong(tested, &all, &first, base, error);
    table_free(&all);
    table_free(&first);
    return ok;
}

/* ---- reports ---- */

/* Writes the fields of the reference's report.json, whose positive class it calls invalid. */
static bool write_reference(const BertTested *t, const BinaryRow *rows, const char *directory, Error *error) {
    BinaryScores s;
    if (!binary_scores(rows, t->n, &s, NULL, error)) return false;
    const MetricsAreas areas = binary_areas(rows, t->n);
    OWNED char *base = path_of(t, directory, "report"), *path = xformat("%s.json", base);
    json_t *root = json_build(path, "{s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:{s:[i, i], s:o}}", "threshold", s.threshold,
                              "accuracy", s.accuracy, "precision_inv", s.precision, "recall_inv", s.recall, "f1_inv",
                              s.f1, "roc_auc", real_or_null(areas.roc_auc), "pr_auc", real_or_null(areas.pr_auc),
                              "confusion_matrix", "labels_order", 0, 1, "matrix", binary_confusion_to_json(&s));
    return json_write(root, path, error);
}

static bool report_two(const BertTested *t, double threshold, const char *directory, Error *error) {
    OWNED BinaryRow *rows = rows_of(t, threshold);
    return report_threshold(rows, t->n, (const char *const *)t->classes->names, directory, t->name, error) &&
           write_reference(t, rows, directory, error);
}

bool bert_report(const BertTested *tested, const ThresholdDecision *d, const char *directory, Evaluation *result,
                 Error *error) {
    Scored s = scored_of(tested);
    Evaluation evaluation;
    bool ok = report_classification(&s.predictions, 1, directory, "evaluation", tested->name, error) &&
              (tested->classes->n != 2 || report_two(tested, d->threshold, directory, error)) &&
              evaluation_at(&s.predictions, d->threshold, &evaluation, error);
    if (ok) {
        ok = report_wrong(tested, &evaluation, directory, error);
        OWNED char *chance = chance_of(&evaluation, tested->cause);
        if (chance) printf("[Report] %s is %s\n", tested->name, chance);
        if (ok && result)
            *result = evaluation;
        else
            evaluation_free(&evaluation);
    }
    free(s.logits);
    return ok;
}

static void report_calibrations(const BertTested *validation, const BertTested *test, const char *directory) {
    Scored on = scored_of(validation), of = scored_of(test);
    bool fitted;
    Error error;
    if (!report_calibration(&on.predictions, &of.predictions, directory, NULL, &fitted, &error)) {
        if (fitted) die("%s", error.text);
        warn("no report of the calibration: %s", error.text);
    }
    FREE(on.logits, of.logits);
}

void bert_test_run(const BertTestRun *run, const BertTested *validation, const BertTested *test,
                   Evaluation results[2]) {
    ThresholdDecision d = bert_decide(validation, run->rule, run->training_share);
    const char *second = validation->classes->names[1];
    MUST(decision_write(run->checkpoint, threshold_decision_to_json(&d, second), &error) &&
         bert_report(validation, &d, run->directory, &results[0], &error));
    if (test && !isnan(d.temperature)) report_calibrations(validation, test, run->directory);
    if (test) MUST(bert_report(test, &d, run->directory, &results[1], &error));
    page_write_or_warn(run->directory, PAGE_DEPTH, false);
}
