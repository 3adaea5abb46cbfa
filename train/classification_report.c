/* The report of one evaluation: its tables are made first, then written, then shown. */
#include "train/classification_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/text_file.h"
#include "train/diagrams.h"
#include "train/table.h"

static const double SNR_BIN = 5; /* dB */

typedef struct {
    const Predictions *predictions;
    const char *directory, *protocol, *tag;
    char *protocol_name, *tag_name; /* as parts of files' names */
    double temperature;
    Evaluation evaluation;
    Intervals intervals;
    Table line, summary, classes, confusion, groups, snr, rows;
    char *worst; /* a sentence about the group with the lowest macro F1, or NULL */
} Report;

/* ---- tables ---- */

/* The reference's columns in their order, then ours. */
static void make_line(Report *r) {
    const Evaluation *e = &r->evaluation;
    const MetricsScores *s = &e->scores;
    Table *t = &r->line;
    table_real(t, "accuracy", s->accuracy);
    table_real(t, "macro_f1", s->macro.f1);
    table_real(t, "weighted_f1", s->weighted.f1);
    table_real(t, "macro_precision", s->macro.precision);
    table_real(t, "macro_recall", s->macro.recall);
    for (int c = 0; c < e->classes; c++) {
        char *column = xformat("f1_%s", e->each[c].name);
        table_real(t, column, e->each[c].score.f1);
        free(column);
    }
    table_real(t, "ece", e->calibration.ece);
    table_count(t, "n", s->rows);
    table_real(t, "balanced_accuracy", s->balanced_accuracy);
    table_real(t, "macro_f1_all_classes", s->macro_all.f1);
    table_real(t, "mcc", s->mcc);
    table_real(t, "nll", e->calibration.nll);
    table_real(t, "brier", e->calibration.brier);
    table_real(t, "adaptive_ece", e->adaptive_ece);
    table_real(t, "temperature", r->temperature);
    table_real(t, "accuracy_low", r->intervals.accuracy[0]);
    table_real(t, "accuracy_high", r->intervals.accuracy[1]);
    table_real(t, "macro_f1_low", r->intervals.macro_f1[0]);
    table_real(t, "macro_f1_high", r->intervals.macro_f1[1]);
}

static void summary_row(Report *r, const char *name, double value, const double *interval) {
    table_text(&r->summary, "score", name);
    table_real(&r->summary, "value", value);
    table_real(&r->summary, "low", interval ? interval[0] : NAN);
    table_real(&r->summary, "high", interval ? interval[1] : NAN);
}

static void make_summary(Report *r) {
    const MetricsScores *s = &r->evaluation.scores;
    const MetricsCalibration *c = &r->evaluation.calibration;
    char *present = xformat("macro F1, %d classes in truth or prediction", s->classes_present);
    char *all = xformat("macro F1, all %d classes", s->classes_all);
    summary_row(r, "accuracy", s->accuracy, r->intervals.accuracy);
    summary_row(r, "balanced accuracy", s->balanced_accuracy, NULL);
    summary_row(r, present, s->macro.f1, r->intervals.macro_f1);
    summary_row(r, all, s->macro_all.f1, NULL);
    summary_row(r, "weighted F1", s->weighted.f1, NULL);
    summary_row(r, "Matthews' correlation", s->mcc, NULL);
    summary_row(r, "NLL", c->nll, NULL);
    summary_row(r, "Brier", c->brier, NULL);
    summary_row(r, "ECE, 15 bins of equal width", c->ece, NULL);
    summary_row(r, "ECE, 15 bins of equal rows", r->evaluation.adaptive_ece, NULL);
    free(present);
    free(all);
}

static void make_classes(Report *r) {
    const Evaluation *e = &r->evaluation;
    for (int c = 0; c < e->classes; c++) {
        table_text(&r->classes, "class", e->each[c].name);
        table_count(&r->classes, "support", e->each[c].support);
        table_count(&r->classes, "predicted", e->each[c].predicted);
        table_real(&r->classes, "precision", e->each[c].score.precision);
        table_real(&r->classes, "recall", e->each[c].score.recall);
        table_real(&r->classes, "f1", e->each[c].score.f1);
        table_text(&r->confusion, "truth / prediction", e->each[c].name);
        for (int k = 0; k < e->classes; k++)
            table_count(&r->confusion, e->each[k].name, e->confusion[(int64_t)c * e->classes + k]);
    }
}

/* Scores of the rows with key[i] = k, for each k; rows is 0 where there are none. free() */
static MetricsScores *scores_by(const Report *r, const int32_t *key, int keys) {
    const Predictions *p = r->predictions;
    size_t cells = (size_t)p->classes * (size_t)p->classes;
    int64_t *confusions = xcalloc((size_t)keys * cells, sizeof *confusions);
    MetricsClass *each = xmalloc((size_t)p->classes * sizeof *each);
    MetricsScores *scores = xcalloc((size_t)keys, sizeof *scores);
    for (int64_t i = 0; i < p->n; i++)
        confusions[(size_t)key[i] * cells + (size_t)(p->truth[i] * p->classes + r->evaluation.predicted[i])]++;
    for (int k = 0; k < keys; k++) /* without rows: an error, and zeros */
        metrics_scores(confusions + (size_t)k * cells, p->classes, p->class_names, each, &scores[k], NULL);
    free(confusions);
    free(each);
    return scores;
}

/* The columns that groups and bins have alike. */
static void slice_columns(Table *t, const MetricsScores *s) {
    table_count(t, "rows", s->rows);
    table_count(t, "classes_present", s->classes_present);
    table_real(t, "accuracy", s->accuracy);
    table_real(t, "macro_f1", s->macro.f1);
    table_real(t, "balanced_accuracy", s->balanced_accuracy);
}

static void make_groups(Report *r) {
    const Predictions *p = r->predictions;
    if (!p->group) return;
    MetricsScores *scores = scores_by(r, p->group, p->n_groups);
    int worst = -1;
    for (int g = 0; g < p->n_groups; g++) {
        if (!scores[g].rows) continue;
        table_text(&r->groups, p->group_kind, p->group_names[g]);
        slice_columns(&r->groups, &scores[g]);
        if (worst < 0 || scores[g].macro.f1 < scores[worst].macro.f1) worst = g;
    }
    r->worst =
        xformat("%s with the lowest macro F1: %s, %.4f (accuracy %.4f, %lld rows)", p->group_kind,
                p->group_names[worst], scores[worst].macro.f1, scores[worst].accuracy, (long long)scores[worst].rows);
    free(scores);
}

static void make_snr(Report *r) {
    const Predictions *p = r->predictions;
    if (!p->snr) return;
    int32_t *bin = xmalloc((size_t)p->n * sizeof *bin), low = INT32_MAX, high = INT32_MIN;
    for (int64_t i = 0; i < p->n; i++) {
        bin[i] = (int32_t)floor(p->snr[i] / SNR_BIN);
        if (bin[i] < low) low = bin[i];
        if (bin[i] > high) high = bin[i];
    }
    for (int64_t i = 0; i < p->n; i++) bin[i] -= low;
    MetricsScores *scores = scores_by(r, bin, high - low + 1);
    for (int b = 0; b <= high - low; b++) {
        if (!scores[b].rows) continue;
        table_real(&r->snr, "snr_from", SNR_BIN * (low + b));
        table_real(&r->snr, "snr_to", SNR_BIN * (low + b + 1));
        slice_columns(&r->snr, &scores[b]);
    }
    free(scores);
    free(bin);
}

static void make_rows(Report *r) {
    const Predictions *p = r->predictions;
    char **columns = xmalloc((size_t)p->classes * sizeof *columns);
    for (int c = 0; c < p->classes; c++) columns[c] = xformat("p_%s", p->class_names[c]);
    for (int64_t i = 0; i < p->n; i++) {
        table_count(&r->rows, "id", p->ids[i]);
        if (p->group) table_text(&r->rows, p->group_kind, p->group_names[p->group[i]]);
        if (p->snr) table_real(&r->rows, "snr", p->snr[i]);
        table_text(&r->rows, "truth", p->class_names[p->truth[i]]);
        table_text(&r->rows, "prediction", p->class_names[r->evaluation.predicted[i]]);
        for (int c = 0; c < p->classes; c++)
            table_real(&r->rows, columns[c], r->evaluation.probabilities[i * p->classes + c]);
    }
    for (int c = 0; c < p->classes; c++) free(columns[c]);
    free(columns);
}

/* ---- files ---- */

/* DIRECTORY/WHAT_TAG.csv; a table without rows is none. */
static bool write_table(const Report *r, const Table *table, const char *what, Error *error) {
    if (!table->n) return true;
    char *path = xformat("%s/%s_%s.csv", r->directory, what, r->tag_name);
    bool fine = table_write_csv(table, path, error);
    free(path);
    return fine;
}

static bool write_tables(const Report *r, Error *error) {
    char *per_group = xformat("per_%s", r->predictions->group ? r->predictions->group_kind : "");
    bool fine = write_table(r, &r->line, r->protocol_name, error) && write_table(r, &r->classes, "per_class", error) &&
                write_table(r, &r->groups, per_group, error) && write_table(r, &r->snr, "per_snr", error) &&
                write_table(r, &r->rows, "predictions", error);
    free(per_group);
    return fine;
}

static json_t *bins_to_json(const MetricsBin *bins) {
    json_t *array = json_array();
    for (int b = 0; b < METRICS_BINS; b++)
        json_array_append_new(array, json_build("the report", "{s:I, s:f, s:f}", "rows", (json_int_t)bins[b].rows,
                                                "confidence", bins[b].confidence, "accuracy", bins[b].accuracy));
    return array;
}

static json_t *pair_to_json(const double *pair) {
    return json_build("the report", "[o, o]", real_or_null(pair[0]), real_or_null(pair[1]));
}

static json_t *intervals_to_json(const Intervals *i) {
    return json_build("the report", "{s:f, s:i, s:s, s:I, s:o, s:o}", "level", 0.95, "resamples", INTERVAL_RESAMPLES,
                      "drawn_unit", i->unit, "drawn", (json_int_t)i->drawn, "accuracy", pair_to_json(i->accuracy),
                      "macro_f1", pair_to_json(i->macro_f1));
}

static bool write_json(const Report *r, Error *error) {
    const Predictions *p = r->predictions;
    json_t *line = table_to_json(&r->line);
    json_t *root = json_build("the report", "{s:s, s:s}", "protocol", r->protocol, "tag", r->tag);
    json_object_set(root, "scores", json_array_get(line, 0));
    json_object_set_new(root, "intervals", intervals_to_json(&r->intervals));
    json_object_set_new(root, "per_class", table_to_json(&r->classes));
    json_object_set_new(root, "confusion", table_to_json(&r->confusion));
    json_object_set_new(root, "reliability_bins", bins_to_json(r->evaluation.calibration.bins));
    if (p->group) {
        char *per_group = xformat("per_%s", p->group_kind);
        json_object_set_new(root, per_group, table_to_json(&r->groups));
        json_object_set_new(root, "worst", json_string(r->worst));
        free(per_group);
    }
    if (p->snr) json_object_set_new(root, "per_snr", table_to_json(&r->snr));
    json_decref(line);
    char *path = xformat("%s/%s_%s.json", r->directory, r->protocol_name, r->tag_name);
    bool fine = json_write(root, path, error);
    free(path);
    return fine;
}

static void section(FILE *out, const char *title, const Table *table) {
    if (!table->n) return;
    fprintf(out, "\n## %s\n\n", title);
    table_print_markdown(table, table->columns, out);
}

static void print_facts(const Report *r, FILE *out) {
    fprintf(out, "%lld rows; temperature %.4g; 95 %% intervals by the bootstrap over %lld %ss, %d resamples.\n",
            (long long)r->predictions->n, r->temperature, (long long)r->intervals.drawn, r->intervals.unit,
            INTERVAL_RESAMPLES);
}

static bool write_markdown(const Report *r, Error *error) {
    char *path = xformat("%s/%s_%s.md", r->directory, r->protocol_name, r->tag_name);
    char *by_group = xformat("By %s", r->predictions->group ? r->predictions->group_kind : "");
    TextFile file;
    text_file_begin(&file);
    fprintf(file.out, "# %s: %s\n\n", r->tag, r->protocol);
    print_facts(r, file.out);
    section(file.out, "Scores", &r->summary);
    section(file.out, "By class", &r->classes);
    section(file.out, "Confusion", &r->confusion);
    section(file.out, by_group, &r->groups);
    if (r->worst) fprintf(file.out, "\nThe %s.\n", r->worst);
    section(file.out, "By SNR in dB", &r->snr);
    bool fine = text_file_end(&file, path, error);
    free(by_group);
    free(path);
    return fine;
}

static bool draw(const Report *r, Error *error) {
    const Evaluation *e = &r->evaluation;
    char *title = xformat("%s: %s", r->tag, r->protocol);
    char *matrix = xformat("%s/confusion_matrix_%s_%s.svg", r->directory, r->protocol_name, r->tag_name);
    char *reliability = xformat("%s/reliability_%s_%s.svg", r->directory, r->protocol_name, r->tag_name);
    bool fine = diagram_confusion(matrix, e->confusion, e->classes, r->predictions->class_names, title, error) &&
                diagram_reliability(reliability, &e->calibration, title, error);
    free(title);
    free(matrix);
    free(reliability);
    return fine;
}

/* ---- all of it ---- */

static void print_report(const Report *r) {
    printf("[Report] %s, %s: ", r->tag, r->protocol);
    print_facts(r, stdout);
    table_print(&r->summary, r->summary.columns, stdout);
    table_print(&r->classes, r->classes.columns, stdout);
    if (r->worst) printf("[Report] %s\n", r->worst);
    printf("[Report] written: %s/%s_%s.{csv,json,md} and what belongs to them\n", r->directory, r->protocol_name,
           r->tag_name);
}

bool report_classification(const Predictions *predictions, double temperature, const char *directory,
                           const char *protocol, const char *tag, Error *error) {
    Report r = {.predictions = predictions,
                .directory = directory,
                .protocol = protocol,
                .tag = tag,
                .temperature = temperature};
    if (!name_check("protocol", protocol, error) || !name_check("tag", tag, error)) return false;
    if (!evaluation_make(predictions, temperature, &r.evaluation, error)) return false;
    r.protocol_name = file_name_of(protocol);
    r.tag_name = file_name_of(tag);
    bool fine = intervals_make(predictions, &r.evaluation, &r.intervals, error);
    if (fine) {
        make_line(&r);
        make_summary(&r);
        make_classes(&r);
        make_groups(&r);
        make_snr(&r);
        make_rows(&r);
        fine = write_tables(&r, error) && write_json(&r, error) && write_markdown(&r, error) && draw(&r, error);
    }
    if (fine) print_report(&r);
    Table *tables[] = {&r.line, &r.summary, &r.classes, &r.confusion, &r.groups, &r.snr, &r.rows};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) table_free(tables[i]);
    evaluation_free(&r.evaluation);
    free(r.worst);
    free(r.protocol_name);
    free(r.tag_name);
    return fine;
}
