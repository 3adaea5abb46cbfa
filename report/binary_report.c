#include "report/binary_report.h"

#include <math.h>
#include <stdlib.h>

#include "base/file_name.h"
#include "base/text_file.h"
#include "report/diagrams.h"
#include "report/markdown.h"
#include "report/plot.h"

/* ---- parts ---- */

void binary_score_columns(Table *t, const BinaryScores *s, const char *rows) {
    for (int k = 0; k < BINARY_SCORES; k++)
        table_real(t, BINARY_METRICS[k].name, s->n ? binary_score(s, k) : (double)NAN);
    table_real(t, "threshold", s->n ? s->threshold : (double)NAN);
    table_count(t, rows, s->n);
    for (int o = 0; o < BINARY_OUTCOMES; o++) table_count(t, BINARY_OUTCOME_NAMES[o], s->confusion[o]);
}

void binary_summary(Table *t, const BinaryScores *scores, const Intervals *intervals) {
    for (int k = 0; k < BINARY_SCORES; k++) {
        table_text(t, "score", BINARY_METRICS[k].name);
        table_real(t, "value", binary_score(scores, k));
        table_real(t, "low", k < BINARY_INTERVALS ? intervals->scores[k].low : (double)NAN);
        table_real(t, "high", k < BINARY_INTERVALS ? intervals->scores[k].high : (double)NAN);
    }
}

void binary_confusion_table(Table *t, const BinaryScores *scores, const char *const *names) {
    for (int o = 0; o < BINARY_OUTCOMES; o++) {
        if (o % 2 == 0) table_text(t, "truth / prediction", names[o / 2]);
        table_count(t, names[o % 2], scores->confusion[o]);
    }
}

json_t *binary_confusion_to_json(const BinaryScores *s) {
    const int64_t *c = s->confusion;
    return json_build("the report", "[[I, I], [I, I]]", (json_int_t)c[BINARY_TN], (json_int_t)c[BINARY_FP],
                      (json_int_t)c[BINARY_FN], (json_int_t)c[BINARY_TP]);
}

/* ---- over all thresholds ---- */

static double ratio(int64_t a, int64_t b) { return b ? (double)a / (double)b : 0; }

void sweep_make(const BinaryRow *rows, int64_t n, Sweep *s) {
    *s = (Sweep){.best = 0};
    for (int k = 0; k < SWEEP_THRESHOLDS; k++) {
        int64_t hits = 0, alarms = 0, positives = 0;
        s->threshold[k] = k / (double)(SWEEP_THRESHOLDS - 1);
        for (int64_t i = 0; i < n; i++) {
            bool above = rows[i].p >= s->threshold[k];
            positives += rows[i].label;
            hits += above && rows[i].label;
            alarms += above && !rows[i].label;
        }
        s->accuracy[k] = ratio(n - positives - alarms + hits, n);
        s->precision[k] = ratio(hits, hits + alarms);
        s->recall[k] = ratio(hits, positives);
        s->f1[k] = ratio(2 * hits, hits + alarms + positives);
        if (s->f1[k] > s->f1[s->best]) s->best = k;
    }
}

/* Returns the lower end of a bin, or the upper end of the last one. */
static double edge_of(const Histogram *h, int bin) { return h->low + bin * ((h->high - h->low) / HISTOGRAM_BINS); }

void histogram_make(const BinaryRow *rows, int64_t n, int label, Histogram *h) {
    double low = INFINITY, high = -INFINITY;
    *h = (Histogram){.low = NAN, .high = NAN};
    for (int64_t i = 0; i < n; i++)
        if (rows[i].label == label) low = fmin(low, rows[i].p), high = fmax(high, rows[i].p);
    if (low > high) return;
    if (low == high) low -= 0.5, high += 0.5;
    h->low = low, h->high = high;
    for (int64_t i = 0; i < n; i++) {
        if (rows[i].label != label) continue;
        int bin = (int)((rows[i].p - low) / (high - low) * HISTOGRAM_BINS);
        if (bin == HISTOGRAM_BINS) bin--;
        if (rows[i].p < edge_of(h, bin)) bin--; /* the quotient was rounded */
        if (bin + 1 < HISTOGRAM_BINS && rows[i].p >= edge_of(h, bin + 1)) bin++;
        h->rows[bin]++;
    }
}

/* ---- the report ---- */

typedef struct {
    const BinaryRow *rows;
    int64_t n;
    const char *const *class_names;
    const char *directory, *tag;
    char *tag_name; /* as a part of file names */
    BinaryScores scores;
    MetricsAreas areas; /* NaN if all rows are of one class */
    Intervals intervals;
    Sweep sweep;
    Table summary, confusion, thresholds, histogram;
} Report;

static char *path_of(const Report *r, const char *what, const char *extension) {
    return xformat("%s/%s_%s.%s", r->directory, what, r->tag_name, extension);
}

static void make_tables(Report *r) {
    const Sweep *s = &r->sweep;
    binary_summary(&r->summary, &r->scores, &r->intervals);
    binary_confusion_table(&r->confusion, &r->scores, r->class_names);
    for (int k = 0; k < SWEEP_THRESHOLDS; k++) {
        table_real(&r->thresholds, "threshold", s->threshold[k]);
        table_real(&r->thresholds, "accuracy", s->accuracy[k]);
        table_real(&r->thresholds, "precision", s->precision[k]);
        table_real(&r->thresholds, "recall", s->recall[k]);
        table_real(&r->thresholds, "f1", s->f1[k]);
    }
    for (int label = 0; label < 2; label++) {
        Histogram h;
        histogram_make(r->rows, r->n, label, &h);
        for (int b = 0; b < HISTOGRAM_BINS; b++) {
            table_text(&r->histogram, "class", r->class_names[label]);
            table_real(&r->histogram, "from", edge_of(&h, b));
            table_real(&r->histogram, "to", edge_of(&h, b + 1));
            table_count(&r->histogram, "rows", h.rows[b]);
        }
    }
}

static bool write_table(const Report *r, const Table *table, const char *what, Error *error) {
    OWNED char *path = path_of(r, what, "csv");
    return table_write_csv(table, path, error);
}

static bool write_json(const Report *r, Error *error) {
    OWNED char *path = path_of(r, "threshold", "json");
    json_t *root = json_build(
        path, "{s:s, s:[s, s], s:s, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:{s:f, s:f}}", "tag", r->tag, "classes",
        r->class_names[0], r->class_names[1], "decision", "the second class if p > threshold", "threshold",
        r->scores.threshold, "scores", table_to_json(&r->summary), "intervals", intervals_to_json(&r->intervals),
        "confusion_matrix", binary_confusion_to_json(&r->scores), "roc_auc", real_or_null(r->areas.roc_auc),
        "average_precision", real_or_null(r->areas.average_precision), "pr_auc", real_or_null(r->areas.pr_auc),
        "best_f1_of_sweep", "threshold", r->sweep.threshold[r->sweep.best], "f1", r->sweep.f1[r->sweep.best]);
    return json_write(root, path, error);
}

static void print_result(const Report *r, FILE *out) {
    fprintf(out, "%s if p > %.4f: F1 %.4f, precision %.4f, recall %.4f, accuracy %.4f, over %lld rows\n",
            r->class_names[1], r->scores.threshold, r->scores.f1, r->scores.precision, r->scores.recall,
            r->scores.accuracy, (long long)r->n);
}

static bool write_markdown(const Report *r, Error *error) {
    OWNED char *path = path_of(r, "threshold", "md");
    TextFile file;
    text_file_begin(&file);
    fprintf(file.out, "# %s: threshold\n\n", r->tag);
    print_result(r, file.out);
    fprintf(file.out,
            "95 %% intervals by the bootstrap over %lld %ss, %d resamples%s. The best F1 of 101 thresholds on these "
            "rows, %.4f at %.2f, is no estimate: it was chosen on them.\n",
            (long long)r->intervals.drawn, r->intervals.unit, INTERVAL_RESAMPLES, intervals_caution(&r->intervals),
            r->sweep.f1[r->sweep.best], r->sweep.threshold[r->sweep.best]);
    table_print_section(&r->summary, "Scores at the threshold", file.out);
    table_print_section(&r->confusion, "Confusion", file.out);
    return markdown_end(&file, path, error);
}

static bool draw(const Report *r, Error *error) {
    const Sweep *s = &r->sweep;
    const double at = r->scores.threshold;
    const PlotSeries series[] = {{.name = "precision", .x = s->threshold, .y = s->precision, .n = SWEEP_THRESHOLDS},
                                 {.name = "recall", .x = s->threshold, .y = s->recall, .n = SWEEP_THRESHOLDS},
                                 {.name = "F1", .x = s->threshold, .y = s->f1, .n = SWEEP_THRESHOLDS},
                                 {.name = "accuracy", .x = s->threshold, .y = s->accuracy, .n = SWEEP_THRESHOLDS}};
    const Plot plot = {.title = "",
                       .x_label = "threshold",
                       .y_label = "score",
                       .series = series,
                       .n_series = sizeof series / sizeof *series,
                       .restarts = &at,
                       .n_restarts = 1,
                       .unit = true};
    OWNED char *picture = path_of(r, "threshold", "svg"), *outcomes = path_of(r, "outcomes", "svg");
    OWNED char *title = xformat("%s: scores by threshold, chosen %.4f", r->tag, at);
    TextFile file;
    bool ok = plot_write(picture, &plot, 1, title, error);
    text_file_begin(&file);
    diagram_outcomes(file.out, r->rows, r->n, &r->scores, r->class_names, r->tag);
    return text_file_end(&file, outcomes, ok ? error : NULL) && ok;
}

bool report_threshold(const BinaryRow *rows, int64_t n, const char *const *class_names, const char *directory,
                      const char *tag, Error *error) {
    Report r = {.rows = rows, .n = n, .class_names = class_names, .directory = directory, .tag = tag};
    if (!name_check("tag", tag, error) || !binary_scores(rows, n, &r.scores, NULL, error)) return false;
    r.tag_name = file_name_in(directory, "", tag);
    r.intervals = binary_intervals(rows, n, 1, "", "row");
    sweep_make(rows, n, &r.sweep);
    r.areas = binary_areas(rows, n);
    make_tables(&r);
    bool ok = write_table(&r, &r.thresholds, "threshold", error) && write_table(&r, &r.histogram, "histogram", error) &&
              write_json(&r, error) && write_markdown(&r, error) && draw(&r, error);
    if (ok) {
        printf("[Report] %s: ", tag);
        print_result(&r, stdout);
    }
    Table *tables[] = {&r.summary, &r.confusion, &r.thresholds, &r.histogram};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) table_free(tables[i]);
    free(r.tag_name);
    return ok;
}
