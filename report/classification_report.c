/* The report of one evaluation: its tables are made first, then written, then shown. */
#include "report/classification_report.h"

#include <math.h>
#include <stdlib.h>

#include "base/file_name.h"
#include "base/text_file.h"
#include "report/chance.h"
#include "report/curves.h"
#include "report/diagrams.h"
#include "report/markdown.h"
#include "report/table.h"

typedef struct {
    const Predictions *predictions;
    const char *directory, *protocol, *tag;
    char *protocol_name, *tag_name; /* as parts of file names */
    char *per_group, *per_bin;      /* "per_sensor", "per_snr"; NULL: there is no such table */
    double temperature;
    Evaluation evaluation;
    Intervals intervals;
    Table line, summary, classes, confusion, groups, bins, rows;
    char *worst;  /* a sentence about the group with the lowest macro F1, or NULL */
    char *chance; /* that the classifier is at chance; or NULL */
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
        OWNED char *column = xformat("f1_%s", e->each[c].name);
        table_real(t, column, e->each[c].score.f1);
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
    table_real(t, "accuracy_low", r->intervals.scores[INTERVAL_ACCURACY].low);
    table_real(t, "accuracy_high", r->intervals.scores[INTERVAL_ACCURACY].high);
    table_real(t, "macro_f1_low", r->intervals.scores[INTERVAL_MACRO_F1].low);
    table_real(t, "macro_f1_high", r->intervals.scores[INTERVAL_MACRO_F1].high);
}

static void summary_row(Report *r, const char *name, double value, const Interval *interval) {
    table_text(&r->summary, "score", name);
    table_real(&r->summary, "value", value);
    table_real(&r->summary, "low", interval ? interval->low : NAN);
    table_real(&r->summary, "high", interval ? interval->high : NAN);
}

static void make_summary(Report *r) {
    const MetricsScores *s = &r->evaluation.scores;
    const MetricsCalibration *c = &r->evaluation.calibration;
    OWNED char *scored = xformat("macro F1, %d classes in truth or prediction", s->classes_scored);
    OWNED char *all = xformat("macro F1, all %d classes", s->classes_all);
    summary_row(r, "accuracy", s->accuracy, &r->intervals.scores[INTERVAL_ACCURACY]);
    summary_row(r, "balanced accuracy", s->balanced_accuracy, NULL);
    summary_row(r, scored, s->macro.f1, &r->intervals.scores[INTERVAL_MACRO_F1]);
    summary_row(r, all, s->macro_all.f1, NULL);
    summary_row(r, "weighted F1", s->weighted.f1, NULL);
    summary_row(r, "Matthews' correlation", s->mcc, NULL);
    summary_row(r, "NLL", c->nll, NULL);
    summary_row(r, "Brier", c->brier, NULL);
    /* An ECE is too high by its bins' noise, and that of a resample by twice as much: its interval would lie beside it.
     */
    summary_row(r, "ECE, 15 bins of equal width", c->ece, NULL);
    summary_row(r, "ECE, 15 bins of equal rows", r->evaluation.adaptive_ece, NULL);
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

/* Returns the scores of the rows with key[i] = k, for each k; their `rows` is 0 if there are none. free() */
static MetricsScores *scores_by(const Report *r, const int32_t *key, int keys) {
    const Predictions *p = r->predictions;
    size_t cells = (size_t)p->classes * (size_t)p->classes;
    OWNED int64_t *confusions = xcalloc((size_t)keys * cells, sizeof *confusions);
    OWNED MetricsClass *each = xmalloc((size_t)p->classes * sizeof *each);
    MetricsScores *scores = xcalloc((size_t)keys, sizeof *scores);
    for (int64_t i = 0; i < p->n; i++)
        confusions[(size_t)key[i] * cells + (size_t)(p->truth[i] * p->classes + r->evaluation.predicted[i])]++;
    for (int k = 0; k < keys; k++) /* an error, which leaves zeros, if there are no rows */
        metrics_scores(confusions + (size_t)k * cells, p->classes, p->class_names, each, &scores[k], NULL);
    return scores;
}

/* Adds the columns that groups and bins have in common. */
static void slice_columns(Table *t, const MetricsScores *s) {
    table_count(t, "rows", s->rows);
    table_count(t, "classes_present", s->classes_present);
    table_real(t, "accuracy", s->accuracy);
    table_real(t, "macro_f1", s->macro.f1);
    table_real(t, "balanced_accuracy", s->balanced_accuracy);
    table_count(t, "classes_scored", s->classes_scored);
}

static void make_groups(Report *r) {
    const Predictions *p = r->predictions;
    if (!p->group) return;
    OWNED MetricsScores *scores = scores_by(r, p->group, p->n_groups);
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
}

static void make_bins(Report *r) {
    const Predictions *p = r->predictions;
    const Covariate *v = &p->covariate;
    if (!v->values) return;
    OWNED char *from = xformat("%s_from", v->name), *to = xformat("%s_to", v->name);
    int32_t *bin = xmalloc((size_t)p->n * sizeof *bin), low = INT32_MAX, high = INT32_MIN;
    for (int64_t i = 0; i < p->n; i++) {
        bin[i] = (int32_t)floor(v->values[i] / v->bin);
        if (bin[i] < low) low = bin[i];
        if (bin[i] > high) high = bin[i];
    }
    for (int64_t i = 0; i < p->n; i++) bin[i] -= low;
    OWNED MetricsScores *scores = scores_by(r, bin, high - low + 1);
    for (int b = 0; b <= high - low; b++) {
        if (!scores[b].rows) continue;
        table_real(&r->bins, from, v->bin * (low + b));
        table_real(&r->bins, to, v->bin * (low + b + 1));
        slice_columns(&r->bins, &scores[b]);
    }
    free(bin);
}

static void make_rows(Report *r) {
    const Predictions *p = r->predictions;
    for (int64_t i = 0; i < p->n; i++) {
        if (p->files) table_text(&r->rows, "file", p->files[i]);
        table_count(&r->rows, "id", p->ids[i]);
        if (p->group) table_text(&r->rows, p->group_kind, p->group_names[p->group[i]]);
        if (p->covariate.values) table_real(&r->rows, p->covariate.name, p->covariate.values[i]);
        table_text(&r->rows, "truth", p->class_names[p->truth[i]]);
        table_text(&r->rows, "prediction", p->class_names[r->evaluation.predicted[i]]);
        table_reals(&r->rows, "p", p->class_names, r->evaluation.probabilities + i * p->classes, p->classes);
    }
}

/* ---- files ---- */

/* Writes DIRECTORY/WHAT_TAG.csv; no file for a table without rows. */
static bool write_table(const Report *r, const Table *table, const char *what, Error *error) {
    if (!table->n) return true;
    OWNED char *path = xformat("%s/%s_%s.csv", r->directory, what, r->tag_name);
    return table_write_csv(table, path, error);
}

static bool write_tables(const Report *r, Error *error) {
    return write_table(r, &r->line, r->protocol_name, error) && write_table(r, &r->classes, "per_class", error) &&
           write_table(r, &r->groups, r->per_group, error) && write_table(r, &r->bins, r->per_bin, error) &&
           write_table(r, &r->rows, "predictions", error);
}

static json_t *pair_to_json(const Interval *i) {
    return json_build("the report", "[o, o]", real_or_null(i->low), real_or_null(i->high));
}

static bool write_json(const Report *r, Error *error) {
    const Predictions *p = r->predictions;
    json_auto_t *line = table_to_json(&r->line);
    json_t *intervals = intervals_to_json(&r->intervals);
    json_object_set_new(intervals, "accuracy", pair_to_json(&r->intervals.scores[INTERVAL_ACCURACY]));
    json_object_set_new(intervals, "macro_f1", pair_to_json(&r->intervals.scores[INTERVAL_MACRO_F1]));
    json_t *root = json_build("the report", "{s:s, s:s, s:O, s:o, s:s?, s:o, s:o, s:o}", "protocol", r->protocol, "tag",
                              r->tag, "scores", json_array_get(line, 0), "intervals", intervals, "at_chance", r->chance,
                              "per_class", table_to_json(&r->classes), "confusion", table_to_json(&r->confusion),
                              "reliability_bins", reliability_to_json(&r->evaluation.calibration));
    if (p->group) {
        json_object_set_new(root, r->per_group, table_to_json(&r->groups));
        json_object_set_new(root, "worst", json_string(r->worst));
    }
    if (p->covariate.values) json_object_set_new(root, r->per_bin, table_to_json(&r->bins));
    OWNED char *path = xformat("%s/%s_%s.json", r->directory, r->protocol_name, r->tag_name);
    return json_write(root, path, error);
}

static void print_facts(const Report *r, FILE *out) {
    fprintf(out, "%lld rows; temperature %.4g; 95 %% intervals by the bootstrap over %lld %ss, %d resamples%s.\n",
            (long long)r->predictions->n, r->temperature, (long long)r->intervals.drawn, r->intervals.unit,
            INTERVAL_RESAMPLES, intervals_caution(&r->intervals));
}

static void print_result(const Report *r, FILE *out) {
    const MetricsScores *s = &r->evaluation.scores;
    const Interval *accuracy = &r->intervals.scores[INTERVAL_ACCURACY], *f1 = &r->intervals.scores[INTERVAL_MACRO_F1];
    fprintf(out, "accuracy %.4f (95 %% interval %.4f to %.4f), macro F1 %.4f (%.4f to %.4f)\n", s->accuracy,
            accuracy->low, accuracy->high, s->macro.f1, f1->low, f1->high);
}

static bool write_markdown(const Report *r, Error *error) {
    OWNED char *path = xformat("%s/%s_%s.md", r->directory, r->protocol_name, r->tag_name);
    const Covariate *v = &r->predictions->covariate;
    OWNED char *by_group = xformat("By %s", r->predictions->group ? r->predictions->group_kind : "");
    OWNED char *by_bin = v->values ? xformat("By %s in %s", v->title, v->unit) : NULL;
    TextFile file;
    text_file_begin(&file);
    fprintf(file.out, "# %s: %s\n\n", r->tag, r->protocol);
    if (r->chance) fprintf(file.out, "%s.\n\n", r->chance);
    print_result(r, file.out);
    print_facts(r, file.out);
    table_print_section(&r->summary, "Scores", file.out);
    table_print_section(&r->classes, "By class", file.out);
    table_print_section(&r->confusion, "Confusion", file.out);
    table_print_section(&r->groups, by_group, file.out);
    if (r->worst) fprintf(file.out, "\nThe %s.\n", r->worst);
    table_print_section(&r->bins, by_bin, file.out);
    return markdown_end(&file, path, error);
}

static bool draw(const Report *r, Error *error) {
    const Evaluation *e = &r->evaluation;
    OWNED char *title = xformat("%s: %s", r->tag, r->protocol);
    OWNED char *matrix = xformat("%s/confusion_matrix_%s_%s.svg", r->directory, r->protocol_name, r->tag_name);
    OWNED char *reliability = xformat("%s/reliability_%s_%s.svg", r->directory, r->protocol_name, r->tag_name);
    TextFile file;
    text_file_begin(&file);
    diagram_confusion(file.out, e->confusion, e->classes, r->predictions->class_names, title);
    bool ok = text_file_end(&file, matrix, error);
    text_file_begin(&file);
    diagram_reliability(file.out, &e->calibration, title);
    return text_file_end(&file, reliability, ok ? error : NULL) && ok;
}

/* Returns the rows as examples of this class or of another one; free() */
static BinaryRow *one_against_rest(const Report *r, int class) {
    const Predictions *p = r->predictions;
    BinaryRow *rows = xmalloc((size_t)p->n * sizeof *rows);
    for (int64_t i = 0; i < p->n; i++)
        rows[i] = (BinaryRow){.id = (int32_t)i,
                              .label = p->truth[i] == class,
                              .group = p->group ? p->group[i] : 0,
                              .p = r->evaluation.probabilities[i * p->classes + class],
                              .logit = NAN,
                              .threshold = 0.5};
    return rows;
}

/* Draws a curve per class, against the rest; of two classes that of the second. */
static bool draw_curves(const Report *r, Error *error) {
    const Predictions *p = r->predictions;
    int first = p->classes == 2, n = p->classes - first;
    CurveRows *curves = xmalloc((size_t)n * sizeof *curves);
    Intervals *intervals = xmalloc((size_t)n * sizeof *intervals);
#pragma omp parallel for schedule(dynamic)
    for (int c = 0; c < n; c++) {
        BinaryRow *rows = one_against_rest(r, first + c);
        intervals[c] = binary_intervals(rows, p->n, p->group ? p->n_groups : 1, p->group_kind, "row");
        curves[c] = (CurveRows){p->class_names[first + c], rows, p->n, &intervals[c]};
    }
    bool ok = true;
    for (int roc = 1; roc >= 0 && ok; roc--) {
        const char *what = roc ? "ROC" : "Precision and recall";
        OWNED char *title =
            xformat("%s: %s%s, %s", r->tag, what, n > 1 ? " of each class against the rest" : "", r->protocol);
        OWNED char *path =
            xformat("%s/%s_%s_%s.svg", r->directory, roc ? "roc" : "precision_recall", r->protocol_name, r->tag_name);
        ok = curves_write_picture(path, roc, &(CurveSet){.curves = curves, .n = n}, title, error);
    }
    for (int c = 0; c < n; c++) free((void *)curves[c].rows);
    FREE(curves, intervals);
    return ok;
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
    r.protocol_name = file_name_in(directory, "", protocol);
    r.tag_name = file_name_in(directory, "", tag);
    if (predictions->group) r.per_group = xformat("per_%s", predictions->group_kind);
    if (predictions->covariate.values) r.per_bin = xformat("per_%s", predictions->covariate.name);
    r.intervals = intervals_make(predictions, &r.evaluation);
    r.chance = chance_of(&r.evaluation, predictions->cause);
    make_line(&r);
    make_summary(&r);
    make_classes(&r);
    make_groups(&r);
    make_bins(&r);
    make_rows(&r);
    bool ok = write_tables(&r, error) && write_json(&r, error) && write_markdown(&r, error) && draw(&r, error) &&
              draw_curves(&r, error);
    if (ok) print_report(&r);
    Table *tables[] = {&r.line, &r.summary, &r.classes, &r.confusion, &r.groups, &r.bins, &r.rows};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) table_free(tables[i]);
    evaluation_free(&r.evaluation);
    FREE(r.worst, r.chance, r.protocol_name, r.tag_name, r.per_group, r.per_bin);
    return ok;
}
