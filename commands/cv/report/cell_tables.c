/* Tables, curves and pictures of scored cells. */
#include "commands/cv/report/cell_tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text_file.h"
#include "report/binary_report.h"
#include "report/diagrams.h"

enum { DECILES = 10 };

static const CvCells *cells_of(const CellTables *p) { return p->folds[0].cells; }

/* ---- errors ---- */

static double p_of(const CvCells *c, const BinaryRow *row) {
    (void)c;
    return row->p;
}
static double photons_of(const CvCells *c, const BinaryRow *row) { return c->photons[row->id]; }
static double size_of(const CvCells *c, const BinaryRow *row) { return c->sizes[row->id]; }
static double peak_of(const CvCells *c, const BinaryRow *row) { return c->peaks[row->id]; }

/* Returns the spread of a value over the rows of one class, or of all (-1). */
static Spread spread_of(const CvCells *c, const BinaryRow *rows, int64_t n, int label,
                        double (*value)(const CvCells *, const BinaryRow *)) {
    OWNED double *values = xmalloc(((size_t)n + 1) * sizeof *values);
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        if (label < 0 || rows[i].label == label) values[count++] = value(c, &rows[i]);
    return statistics_spread(values, count);
}

static double share_between(const BinaryRow *rows, int64_t n, double above, double up_to) {
    int64_t inside = 0;
    for (int64_t i = 0; i < n; i++) inside += rows[i].p > above && rows[i].p <= up_to;
    return n ? (double)inside / (double)n : (double)NAN;
}

/* Adds the row of an outcome; returns the median of p. */
static double outcome_row(CellTables *p, int outcome) {
    const CvCells *c = cells_of(p);
    Table *t = &p->outcomes;
    OWNED BinaryRow *rows = xmalloc(((size_t)p->n + 1) * sizeof *rows);
    int64_t n = 0;
    for (int64_t i = 0; i < p->n; i++)
        if (binary_outcome(&p->rows[i]) == outcome) rows[n++] = p->rows[i];
    Spread s = spread_of(c, rows, n, -1, p_of);
    table_text(t, "outcome", BINARY_OUTCOME_NAMES[outcome]);
    table_count(t, "cells", n);
    table_real(t, "p_mean", s.mean);
    table_real(t, "p_deviation", s.deviation);
    table_real(t, "p_quartile_1", s.lower_quartile);
    table_real(t, "p_median", s.median);
    table_real(t, "p_quartile_3", s.upper_quartile);
    table_real(t, "above_0.7", share_between(rows, n, 0.7, 1));
    table_real(t, "0.5_to_0.6", share_between(rows, n, 0.5, 0.6));
    table_real(t, "0.4_to_0.5", share_between(rows, n, 0.4, 0.5));
    table_real(t, "photons_median", spread_of(c, rows, n, -1, photons_of).median);
    table_real(t, "size_median", spread_of(c, rows, n, -1, size_of).median);
    table_real(t, "peak_median", spread_of(c, rows, n, -1, peak_of).median);
    return s.median;
}

/* Computes medians of p and what they mean, by the bounds of the reference. Without cells the median is NaN. */
static void make_outcomes(CellTables *p) {
    double median[BINARY_OUTCOMES];
    for (int o = 0; o < BINARY_OUTCOMES; o++) median[o] = outcome_row(p, o);
    double fp = median[BINARY_FP], fn = median[BINARY_FN], separation = median[BINARY_TP] - median[BINARY_TN];
    if (!isnan(fp))
        p->verdicts[0] = xformat("false positives have a median p of %.4f: %s", fp,
                                 fp > 0.7    ? "the network is sure of them; look at them, and at their labels"
                                 : fp > 0.55 ? "the network leans to them"
                                             : "the network is in doubt");
    if (!isnan(fn))
        p->verdicts[1] = xformat("false negatives have a median p of %.4f: %s", fn,
                                 fn < 0.45 ? "the network takes them for the other class" : "the network is in doubt");
    if (!isnan(separation))
        p->verdicts[2] = xformat("medians of true positives and true negatives are %.4f apart: %s", separation,
                                 separation > 0.5   ? "far"
                                 : separation > 0.3 ? "not far"
                                                    : "the classes are hardly told apart");
}

/* ---- slices ---- */

static BinaryRow *sorted_rows(const CellTables *p, int (*compare)(const void *, const void *, void *)) {
    BinaryRow *rows = xmalloc(((size_t)p->n + 1) * sizeof *rows);
    memcpy(rows, p->rows, (size_t)p->n * sizeof *rows);
    qsort_r(rows, (size_t)p->n, sizeof *rows, compare, (void *)cells_of(p));
    return rows;
}

static int by_place(const BinaryRow *a, const BinaryRow *b) {
    return a->id != b->id ? (a->id > b->id) - (a->id < b->id) : a->fold - b->fold;
}

static int by_photons(const void *left, const void *right, void *context) {
    const BinaryRow *a = left, *b = right;
    double x = photons_of(context, a), y = photons_of(context, b);
    return x != y ? (x > y) - (x < y) : by_place(a, b);
}

static bool make_deciles(CellTables *p, Error *error) {
    OWNED BinaryRow *rows = sorted_rows(p, by_photons);
    BinaryScores s;
    bool ok = true;
    for (int64_t d = 0; d < DECILES && ok; d++) {
        int64_t from = p->n * d / DECILES, to = p->n * (d + 1) / DECILES;
        if (to == from) continue; /* fewer cells than tenths */
        ok = binary_scores(rows + from, to - from, &s, NULL, error);
        table_count(&p->deciles, "decile", d + 1);
        table_real(&p->deciles, "photons_from", photons_of(cells_of(p), &rows[from]));
        table_real(&p->deciles, "photons_to", photons_of(cells_of(p), &rows[to - 1]));
        table_count(&p->deciles, "active", s.confusion[BINARY_FN] + s.confusion[BINARY_TP]);
        binary_score_columns(&p->deciles, &s, "cells");
    }
    return ok;
}

static int by_donor(const void *left, const void *right, void *context) {
    const CvCells *c = context;
    const BinaryRow *a = left, *b = right;
    int x = c->donors[a->id], y = c->donors[b->id];
    return x != y ? x - y : by_place(a, b);
}

/* Adds the properties and scores of the cells of a donor. x: share of active cells, mean photons, mean size. */
static void donor_row(CellTables *p, const BinaryRow *rows, const BinaryScores *s, double *x) {
    const CvCells *c = cells_of(p);
    Table *t = &p->donors;
    int64_t active = s->confusion[BINARY_FN] + s->confusion[BINARY_TP];
    Spread photons = spread_of(c, rows, s->n, -1, photons_of), size = spread_of(c, rows, s->n, -1, size_of);
    x[0] = (double)active / (double)s->n, x[1] = photons.mean, x[2] = size.mean;
    table_text(t, "donor", c->donor_names[c->donors[rows->id]]);
    table_count(t, "quiescent", s->n - active);
    table_count(t, "active", active);
    table_real(t, "active_share", x[0]);
    table_real(t, "photons_mean", photons.mean);
    table_real(t, "photons_deviation", photons.deviation);
    table_real(t, "photons_active_to_quiescent",
               spread_of(c, rows, s->n, 1, photons_of).mean / spread_of(c, rows, s->n, 0, photons_of).mean);
    table_real(t, "size_mean", size.mean);
    table_real(t, "size_deviation", size.deviation);
    table_real(t, "size_active_to_quiescent",
               spread_of(c, rows, s->n, 1, size_of).mean / spread_of(c, rows, s->n, 0, size_of).mean);
    table_real(t, "peak_median", spread_of(c, rows, s->n, -1, peak_of).median);
    binary_score_columns(t, s, "cells");
}

static bool make_donors(CellTables *p, Error *error) {
    const CvCells *c = cells_of(p);
    OWNED BinaryRow *rows = sorted_rows(p, by_donor);
    OWNED double *share = xmalloc(3 * (size_t)c->n_donors * sizeof *share);
    double x[3], *photons = share + c->n_donors, *size = photons + c->n_donors;
    int donors = 0;
    bool ok = true;
    for (int64_t from = 0, to = 0; from < p->n && ok; from = to) {
        while (to < p->n && c->donors[rows[to].id] == c->donors[rows[from].id]) to++;
        BinaryScores s;
        ok = binary_scores(rows + from, to - from, &s, NULL, error);
        if (ok) donor_row(p, rows + from, &s, x);
        if (ok) share[donors] = x[0], photons[donors] = x[1], size[donors++] = x[2];
    }
    p->donor_photons = statistics_correlation(photons, share, donors);
    p->donor_size = statistics_correlation(size, share, donors);
    return ok;
}

/* ---- one row per cell ---- */

static void cell_columns(Table *t, const CellTables *p, const BinaryRow *row) {
    const CvCells *c = cells_of(p);
    table_text(t, "file", c->file_names[row->id]);
    table_text(t, "donor", c->donor_names[c->donors[row->id]]);
    table_text(t, "field", c->field_names[row->group]);
    table_count(t, "label", row->label);
}

static void prediction_columns(Table *t, const CellTables *p, const BinaryRow *row) {
    const CvCells *c = cells_of(p);
    table_real(t, "p_mean", row->p);
    table_real(t, "threshold", row->threshold);
    table_count(t, "predicted", row->p > row->threshold);
    table_count(t, "size", c->sizes[row->id]);
    table_real(t, "photons", c->photons[row->id]);
    table_count(t, "peak", c->peaks[row->id]);
    table_text(t, "fold", p->folds[row->fold].name);
    table_count(t, "kept", row->kept);
}

/* All folds have the views of the first. */
static Table predictions_table(const CellTables *p) {
    Table t = {0};
    int n_views = p->folds[0].test.n_views;
    for (int64_t i = 0; i < p->n; i++) {
        const BinaryRow *row = &p->rows[i];
        cell_columns(&t, p, row);
        table_real(&t, "logit", row->logit);
        const double *views = p->folds[row->fold].test.views;
        if (n_views) table_reals(&t, "p", p->folds[0].view_names, views + (int64_t)row->at * n_views, n_views);
        prediction_columns(&t, p, row);
    }
    return t;
}

/* Returns the probability of the wrong class. */
static double wrongness(const BinaryRow *row) { return row->label ? 1 - row->p : row->p; }

static int by_wrongness(const void *left, const void *right, void *context) {
    const BinaryRow *a = left, *b = right;
    double x = wrongness(a), y = wrongness(b);
    (void)context;
    return x != y ? (x < y) - (x > y) : by_place(a, b);
}

static Table errors_table(const CellTables *p) {
    Table t = {0};
    OWNED BinaryRow *rows = sorted_rows(p, by_wrongness);
    for (int64_t i = 0, rank = 1; i < p->n; i++) {
        if (rows[i].label == (rows[i].p > rows[i].threshold)) continue;
        table_count(&t, "rank", rank++);
        cell_columns(&t, p, &rows[i]);
        table_real(&t, "p_of_the_other_class", wrongness(&rows[i]));
        prediction_columns(&t, p, &rows[i]);
    }
    return t;
}

/* ---- files ---- */

char *cell_tables_path(const CellTables *p, const char *what, const char *extension) {
    return xformat("%s/%s%s.%s", p->directory, what, p->suffix, extension);
}

bool cell_tables_write_csv(const CellTables *p, const Table *table, const char *what, Error *error) {
    OWNED char *path = cell_tables_path(p, what, "csv");
    return table_write_csv(table, path, error);
}

static bool write_cells(const CellTables *p, Error *error) {
    Table predictions = predictions_table(p), errors = errors_table(p);
    bool ok = cell_tables_write_csv(p, &predictions, "predictions", error) &&
              cell_tables_write_csv(p, &errors, "confident_errors", error);
    table_free(&predictions);
    table_free(&errors);
    return ok;
}

static bool write_picture(const CellTables *p, const char *what, TextFile *file, Error *error) {
    OWNED char *path = cell_tables_path(p, what, "svg");
    return text_file_end(file, path, error);
}

static bool write_pictures(const CellTables *p, Error *error) {
    const char *const *names = CV_CLASS_NAMES;
    TextFile matrix, reliability, errors;
    text_file_begin(&matrix);
    diagram_confusion(matrix.out, p->scores.confusion, 2, names, p->title);
    text_file_begin(&reliability);
    diagram_reliability(reliability.out, &p->calibration, p->title);
    text_file_begin(&errors);
    diagram_outcomes(errors.out, p->rows, p->n, &p->scores, names, p->title);
    bool ok = write_picture(p, "confusion_matrix", &matrix, error);
    ok = write_picture(p, "reliability", &reliability, ok ? error : NULL) && ok;
    return write_picture(p, "error_analysis", &errors, ok ? error : NULL) && ok;
}

static bool write_curves(const CellTables *p, bool roc, Error *error) {
    OWNED char *base = xformat("%s/%s%s", p->directory, roc ? "roc" : "precision_recall", p->suffix);
    OWNED char *title = xformat("%s: %s", roc ? "ROC" : "Precision and recall",
                                p->curves.folds ? "mean over folds, each on its own test donors" : p->title);
    return curves_write(base, roc, &p->curves, title, error);
}

/* ---- all of it ---- */

bool cell_tables_make(CellTables *p, Error *error) {
    if (!binary_scores(p->rows, p->n, &p->scores, &p->calibration, error)) return false;
    p->intervals = binary_intervals(p->rows, p->n, cells_of(p)->n_fields, "field", "cell");
    binary_summary(&p->summary, &p->scores, &p->intervals);
    binary_confusion_table(&p->confusion, &p->scores, CV_CLASS_NAMES);
    make_outcomes(p);
    return make_deciles(p, error) && make_donors(p, error);
}

bool cell_tables_write(const CellTables *p, Error *error) {
    return write_cells(p, error) && cell_tables_write_csv(p, &p->outcomes, "error_analysis", error) &&
           cell_tables_write_csv(p, &p->deciles, "photon_deciles", error) &&
           cell_tables_write_csv(p, &p->donors, "donors", error) && write_pictures(p, error) &&
           write_curves(p, true, error) && write_curves(p, false, error);
}

void cell_tables_print_warnings(const CellTables *p, const char *before, FILE *out) {
    for (int b = 0; b < BASELINES; b++)
        if (p->warnings[b]) fprintf(out, "%s%s\n", before, p->warnings[b]);
}

void cell_tables_print(const CellTables *p) {
    enum { OUTCOME_COLUMNS = 10 };
    printf("[Report] intervals: 95 %%, by the bootstrap over %lld %ss%s\n", (long long)p->intervals.drawn,
           p->intervals.unit, intervals_caution(&p->intervals));
    table_print(&p->summary, p->summary.columns, stdout);
    table_print(&p->confusion, p->confusion.columns, stdout);
    table_print(&p->outcomes, OUTCOME_COLUMNS, stdout);
    for (int v = 0; v < 3; v++)
        if (p->verdicts[v]) printf("[Report] %s\n", p->verdicts[v]);
}

void cell_tables_print_markdown(const CellTables *p, FILE *out) {
    fprintf(out, "\n## Network\n\n95 %% intervals by the bootstrap over %lld %ss, %d resamples%s.\n\n",
            (long long)p->intervals.drawn, p->intervals.unit, INTERVAL_RESAMPLES, intervals_caution(&p->intervals));
    table_print_markdown(&p->summary, p->summary.columns, out);
    table_print_section(&p->confusion, "Confusion", out);
    table_print_section(&p->outcomes, "Errors", out);
    fputc('\n', out);
    for (int v = 0; v < 3; v++)
        if (p->verdicts[v]) fprintf(out, "- %s\n", p->verdicts[v]);
    table_print_section(&p->deciles, "From the dimmest to the brightest tenth", out);
    table_print_section(&p->donors, "By donor", out);
    if (!isnan(p->donor_photons) || !isnan(p->donor_size))
        fprintf(out,
                "\nOver donors, the share of active cells correlates with mean photons at %.4f, with mean size at "
                "%.4f.\n",
                p->donor_photons, p->donor_size);
}

void cell_tables_to_json(const CellTables *p, json_t *root) {
    json_t *warnings = json_array();
    for (int b = 0; b < BASELINES; b++)
        if (p->warnings[b]) json_array_append_new(warnings, json_string(p->warnings[b]));
    json_object_update_new(root, json_build("the report", "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "scores",
                                            table_to_json(&p->summary), "intervals", intervals_to_json(&p->intervals),
                                            "error_analysis", table_to_json(&p->outcomes), "photon_deciles",
                                            table_to_json(&p->deciles), "donors", table_to_json(&p->donors),
                                            "donor_correlation_photons", real_or_null(p->donor_photons),
                                            "donor_correlation_size", real_or_null(p->donor_size), "reliability_bins",
                                            reliability_to_json(&p->calibration), "warnings", warnings));
}

void cell_tables_free(CellTables *p) {
    Table *tables[] = {&p->summary, &p->confusion, &p->outcomes, &p->deciles, &p->donors};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) table_free(tables[t]);
    for (int v = 0; v < 3; v++) free(p->verdicts[v]);
}
