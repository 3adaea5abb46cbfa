/* Tables, curves and pictures of judged cells. */
#include "train/binary_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "train/binary_diagrams.h"
#include "train/diagrams.h"

enum { DECILES = 10 };

static const BinaryCells *cells_of(const BinaryParts *p) { return p->folds[0].cells; }

/* ---- columns ---- */

void binary_columns(Table *t, const BinaryScores *s) {
    for (int k = 0; k < BINARY_SCORES; k++)
        table_real(t, BINARY_SCORE_NAMES[k], s->n ? binary_score(s, k) : (double)NAN);
    table_real(t, "threshold", s->n ? s->threshold : (double)NAN);
    table_count(t, "cells", s->n);
    for (int o = 0; o < BINARY_OUTCOMES; o++) table_count(t, BINARY_OUTCOME_NAMES[o], s->confusion[o]);
}

json_t *binary_confusion_to_json(const BinaryScores *s) {
    const int64_t *c = s->confusion;
    return json_build("the report", "[[I, I], [I, I]]", (json_int_t)c[BINARY_TN], (json_int_t)c[BINARY_FP],
                      (json_int_t)c[BINARY_FN], (json_int_t)c[BINARY_TP]);
}

static void make_summary(BinaryParts *p) {
    for (int k = 0; k < BINARY_SCORES; k++) {
        table_text(&p->summary, "score", BINARY_SCORE_NAMES[k]);
        table_real(&p->summary, "value", binary_score(&p->scores, k));
        table_real(&p->summary, "low", k < BINARY_INTERVALS ? p->intervals.low[k] : (double)NAN);
        table_real(&p->summary, "high", k < BINARY_INTERVALS ? p->intervals.high[k] : (double)NAN);
    }
}

static void make_confusion(BinaryParts *p) {
    const char *const *names = cells_of(p)->class_names;
    for (int o = 0; o < BINARY_OUTCOMES; o++) {
        if (o % 2 == 0) table_text(&p->confusion, "truth / prediction", names[o / 2]);
        table_count(&p->confusion, names[o % 2], p->scores.confusion[o]);
    }
}

/* ---- errors ---- */

static double p_of(const BinaryCells *c, const BinaryRow *row) {
    (void)c;
    return row->p;
}
static double photons_of(const BinaryCells *c, const BinaryRow *row) { return c->photons[row->id]; }
static double size_of(const BinaryCells *c, const BinaryRow *row) { return c->sizes[row->id]; }
static double peak_of(const BinaryCells *c, const BinaryRow *row) { return c->peaks[row->id]; }

/* Of some rows' cells, those of one class or (-1) of all. */
static BinarySpread spread_of(const BinaryCells *c, const BinaryRow *rows, int64_t n, int label,
                              double (*value)(const BinaryCells *, const BinaryRow *)) {
    double *values = xmalloc(((size_t)n + 1) * sizeof *values);
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        if (label < 0 || rows[i].label == label) values[count++] = value(c, &rows[i]);
    BinarySpread spread = binary_spread(values, count);
    free(values);
    return spread;
}

static double share_between(const BinaryRow *rows, int64_t n, double above, double up_to) {
    int64_t inside = 0;
    for (int64_t i = 0; i < n; i++) inside += rows[i].p > above && rows[i].p <= up_to;
    return n ? (double)inside / (double)n : (double)NAN;
}

/* A row an outcome; returns the median of p. */
static double outcome_row(BinaryParts *p, int outcome) {
    const BinaryCells *c = cells_of(p);
    Table *t = &p->outcomes;
    BinaryRow *rows = xmalloc(((size_t)p->n + 1) * sizeof *rows);
    int64_t n = 0;
    for (int64_t i = 0; i < p->n; i++)
        if (binary_outcome(&p->rows[i]) == outcome) rows[n++] = p->rows[i];
    BinarySpread s = spread_of(c, rows, n, -1, p_of);
    table_text(t, "outcome", BINARY_OUTCOME_NAMES[outcome]);
    table_count(t, "cells", n);
    table_real(t, "p_mean", s.mean);
    table_real(t, "p_deviation", s.deviation);
    table_real(t, "p_quartile_1", s.lower);
    table_real(t, "p_median", s.median);
    table_real(t, "p_quartile_3", s.upper);
    table_real(t, "above_0.7", share_between(rows, n, 0.7, 1));
    table_real(t, "0.5_to_0.6", share_between(rows, n, 0.5, 0.6));
    table_real(t, "0.4_to_0.5", share_between(rows, n, 0.4, 0.5));
    table_real(t, "photons_median", spread_of(c, rows, n, -1, photons_of).median);
    table_real(t, "size_median", spread_of(c, rows, n, -1, size_of).median);
    table_real(t, "peak_median", spread_of(c, rows, n, -1, peak_of).median);
    free(rows);
    return s.median;
}

/* The reference's bounds. A median of no cells is NaN, and has no verdict. */
static void make_outcomes(BinaryParts *p) {
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

static BinaryRow *sorted_rows(const BinaryParts *p, int (*compare)(const void *, const void *, void *)) {
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

static bool make_deciles(BinaryParts *p, Error *error) {
    BinaryRow *rows = sorted_rows(p, by_photons);
    BinaryScores s;
    bool fine = true;
    for (int64_t d = 0; d < DECILES && fine; d++) {
        int64_t from = p->n * d / DECILES, to = p->n * (d + 1) / DECILES;
        if (to == from) continue; /* fewer cells than tenths */
        fine = binary_scores(rows + from, to - from, &s, NULL, error);
        table_count(&p->deciles, "decile", d + 1);
        table_real(&p->deciles, "photons_from", photons_of(cells_of(p), &rows[from]));
        table_real(&p->deciles, "photons_to", photons_of(cells_of(p), &rows[to - 1]));
        table_count(&p->deciles, "active", s.confusion[BINARY_FN] + s.confusion[BINARY_TP]);
        binary_columns(&p->deciles, &s);
    }
    free(rows);
    return fine;
}

static int by_donor(const void *left, const void *right, void *context) {
    const BinaryCells *c = context;
    const BinaryRow *a = left, *b = right;
    int x = c->donors[a->id], y = c->donors[b->id];
    return x != y ? x - y : by_place(a, b);
}

/* What a donor's cells are like, and what the network makes of them. */
static void donor_row(BinaryParts *p, const BinaryRow *rows, const BinaryScores *s, double *x) {
    const BinaryCells *c = cells_of(p);
    Table *t = &p->donors;
    int64_t active = s->confusion[BINARY_FN] + s->confusion[BINARY_TP];
    BinarySpread photons = spread_of(c, rows, s->n, -1, photons_of), size = spread_of(c, rows, s->n, -1, size_of);
    x[0] = (double)active / (double)s->n, x[1] = photons.mean, x[2] = size.mean;
    table_text(t, "donor", c->donor_names[c->donors[rows->id]]);
    table_count(t, "inactive", s->n - active);
    table_count(t, "active", active);
    table_real(t, "active_share", x[0]);
    table_real(t, "photons_mean", photons.mean);
    table_real(t, "photons_deviation", photons.deviation);
    table_real(t, "photons_active_to_inactive",
               spread_of(c, rows, s->n, 1, photons_of).mean / spread_of(c, rows, s->n, 0, photons_of).mean);
    table_real(t, "size_mean", size.mean);
    table_real(t, "size_deviation", size.deviation);
    table_real(t, "size_active_to_inactive",
               spread_of(c, rows, s->n, 1, size_of).mean / spread_of(c, rows, s->n, 0, size_of).mean);
    table_real(t, "peak_median", spread_of(c, rows, s->n, -1, peak_of).median);
    binary_columns(t, s);
}

/* Pearson's; NaN where it has no meaning: fewer than three pairs, or no spread. */
static double correlation(const double *x, const double *y, int n) {
    double mean_x, mean_y, of_x, of_y, sum = 0;
    if (n < 3 || !metrics_mean_deviation(x, n, 0, &mean_x, &of_x, NULL)) return NAN;
    if (!metrics_mean_deviation(y, n, 0, &mean_y, &of_y, NULL) || !(of_x > 0 && of_y > 0)) return NAN;
    for (int i = 0; i < n; i++) sum += (x[i] - mean_x) * (y[i] - mean_y);
    return sum / (n * of_x * of_y);
}

static bool make_donors(BinaryParts *p, Error *error) {
    const BinaryCells *c = cells_of(p);
    BinaryRow *rows = sorted_rows(p, by_donor);
    double *values = xmalloc(3 * (size_t)c->n_donors * sizeof *values), *share = values, x[3];
    double *photons = values + c->n_donors, *size = photons + c->n_donors;
    int donors = 0;
    bool fine = true;
    for (int64_t from = 0, to = 0; from < p->n && fine; from = to) {
        while (to < p->n && c->donors[rows[to].id] == c->donors[rows[from].id]) to++;
        BinaryScores s;
        fine = binary_scores(rows + from, to - from, &s, NULL, error);
        if (fine) donor_row(p, rows + from, &s, x);
        if (fine) share[donors] = x[0], photons[donors] = x[1], size[donors++] = x[2];
    }
    p->donor_photons = correlation(photons, share, donors);
    p->donor_size = correlation(size, share, donors);
    free(rows);
    free(values);
    return fine;
}

/* ---- one row a cell ---- */

static void cell_columns(Table *t, const BinaryParts *p, const BinaryRow *row) {
    const BinaryCells *c = cells_of(p);
    table_text(t, "file", c->files[row->id]);
    table_text(t, "donor", c->donor_names[c->donors[row->id]]);
    table_text(t, "field", c->field_names[row->field]);
    table_count(t, "label", row->label);
}

static void what_columns(Table *t, const BinaryParts *p, const BinaryRow *row) {
    const BinaryCells *c = cells_of(p);
    table_real(t, "p_mean", row->p);
    table_real(t, "threshold", row->threshold);
    table_count(t, "predicted", row->p > row->threshold);
    table_count(t, "size", c->sizes[row->id]);
    table_real(t, "photons", c->photons[row->id]);
    table_count(t, "peak", c->peaks[row->id]);
    table_text(t, "fold", p->folds[row->fold].name);
    table_count(t, "kept", row->kept);
}

/* Views are those of the first fold, which are those of all. */
static Table predictions_table(const BinaryParts *p) {
    Table t = {0};
    int n_views = p->folds[0].test.n_views;
    char **columns = xmalloc(((size_t)n_views + 1) * sizeof *columns);
    for (int v = 0; v < n_views; v++) columns[v] = xformat("p_%s", p->folds[0].view_names[v]);
    for (int64_t i = 0; i < p->n; i++) {
        const BinaryRow *row = &p->rows[i];
        cell_columns(&t, p, row);
        table_real(&t, "logit", row->logit);
        for (int v = 0; v < n_views; v++)
            table_real(&t, columns[v], p->folds[row->fold].test.views[(int64_t)row->at * n_views + v]);
        what_columns(&t, p, row);
    }
    for (int v = 0; v < n_views; v++) free(columns[v]);
    free(columns);
    return t;
}

/* What the network gave the other class. */
static double wrongness(const BinaryRow *row) { return row->label ? 1 - row->p : row->p; }

static int by_wrongness(const void *left, const void *right, void *context) {
    const BinaryRow *a = left, *b = right;
    double x = wrongness(a), y = wrongness(b);
    (void)context;
    return x != y ? (x < y) - (x > y) : by_place(a, b);
}

static Table errors_table(const BinaryParts *p) {
    Table t = {0};
    BinaryRow *rows = sorted_rows(p, by_wrongness);
    for (int64_t i = 0, rank = 1; i < p->n; i++) {
        if (rows[i].label == (rows[i].p > rows[i].threshold)) continue;
        table_count(&t, "rank", rank++);
        cell_columns(&t, p, &rows[i]);
        table_real(&t, "p_of_the_other_class", wrongness(&rows[i]));
        what_columns(&t, p, &rows[i]);
    }
    free(rows);
    return t;
}

/* ---- files ---- */

char *binary_file_name(const BinaryParts *p, const char *what, const char *extension) {
    return xformat("%s/%s%s.%s", p->directory, what, p->suffix, extension);
}

bool binary_write_table(const BinaryParts *p, const Table *table, const char *what, Error *error) {
    char *path = binary_file_name(p, what, "csv");
    bool fine = table_write_csv(table, path, error);
    free(path);
    return fine;
}

static bool write_cells(const BinaryParts *p, Error *error) {
    Table predictions = predictions_table(p), errors = errors_table(p);
    bool fine = binary_write_table(p, &predictions, "predictions", error) &&
                binary_write_table(p, &errors, "confident_errors", error);
    table_free(&predictions);
    table_free(&errors);
    return fine;
}

static bool draw(const BinaryParts *p, Error *error) {
    const char *const *names = cells_of(p)->class_names;
    char *matrix = binary_file_name(p, "confusion_matrix", "svg"),
         *errors = binary_file_name(p, "error_analysis", "svg");
    char *reliability = binary_file_name(p, "reliability", "svg");
    bool fine = diagram_confusion(matrix, p->scores.confusion, 2, names, p->title, error) &&
                diagram_reliability(reliability, &p->calibration, p->title, error) &&
                diagram_outcomes(errors, p->rows, p->n, &p->scores, names, p->title, error);
    free(matrix);
    free(errors);
    free(reliability);
    return fine;
}

/* ---- all of it ---- */

void binary_timestamp(char now[32]) {
    time_t seconds = time(NULL);
    struct tm broken;
    strftime(now, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &broken));
}

bool binary_parts_make(BinaryParts *p, Error *error) {
    if (!binary_scores(p->rows, p->n, &p->scores, &p->calibration, error)) return false;
    p->intervals = binary_intervals(p->rows, p->n, cells_of(p)->n_fields);
    make_summary(p);
    make_confusion(p);
    make_outcomes(p);
    return make_deciles(p, error) && make_donors(p, error);
}

bool binary_parts_write(const BinaryParts *p, Error *error) {
    return write_cells(p, error) && binary_write_table(p, &p->outcomes, "error_analysis", error) &&
           binary_write_table(p, &p->deciles, "photon_deciles", error) &&
           binary_write_table(p, &p->donors, "donors", error) && binary_write_curves(p, true, error) &&
           binary_write_curves(p, false, error) && draw(p, error);
}

void binary_parts_print(const BinaryParts *p) {
    enum { OUTCOME_COLUMNS = 10 };
    printf("[Report] intervals: 95 %%, by the bootstrap over %lld %ss\n", (long long)p->intervals.drawn,
           p->intervals.unit);
    table_print(&p->summary, p->summary.columns, stdout);
    table_print(&p->confusion, p->confusion.columns, stdout);
    table_print(&p->outcomes, OUTCOME_COLUMNS, stdout);
    for (int v = 0; v < 3; v++)
        if (p->verdicts[v]) printf("[Report] %s\n", p->verdicts[v]);
}

static void section(FILE *out, const char *title, const Table *table) {
    fprintf(out, "\n## %s\n\n", title);
    table_print_markdown(table, table->columns, out);
}

void binary_parts_print_markdown(const BinaryParts *p, FILE *out) {
    fprintf(out, "\n## Network\n\n95 %% intervals by the bootstrap over %lld %ss, %d resamples.\n\n",
            (long long)p->intervals.drawn, p->intervals.unit, BINARY_RESAMPLES);
    table_print_markdown(&p->summary, p->summary.columns, out);
    section(out, "Confusion", &p->confusion);
    section(out, "Errors", &p->outcomes);
    fputc('\n', out);
    for (int v = 0; v < 3; v++)
        if (p->verdicts[v]) fprintf(out, "- %s\n", p->verdicts[v]);
    section(out, "From the dimmest to the brightest tenth", &p->deciles);
    section(out, "By donor", &p->donors);
    if (!isnan(p->donor_photons) || !isnan(p->donor_size))
        fprintf(out,
                "\nOver donors, the share of active cells correlates with mean photons at %.4f, with mean size at "
                "%.4f.\n",
                p->donor_photons, p->donor_size);
}

static json_t *bins_to_json(const MetricsBin *bins) {
    json_t *array = json_array();
    for (int b = 0; b < METRICS_BINS; b++)
        json_array_append_new(array, json_build("the report", "{s:I, s:f, s:f}", "rows", (json_int_t)bins[b].rows,
                                                "confidence", bins[b].confidence, "accuracy", bins[b].accuracy));
    return array;
}

void binary_parts_to_json(const BinaryParts *p, json_t *root) {
    json_t *warnings = json_array();
    for (int b = 0; b < BINARY_BASELINES; b++)
        if (p->warnings[b]) json_array_append_new(warnings, json_string(p->warnings[b]));
    json_object_set_new(root, "scores", table_to_json(&p->summary));
    json_object_set_new(root, "intervals",
                        json_build("the report", "{s:f, s:i, s:s, s:I}", "level", 0.95, "resamples", BINARY_RESAMPLES,
                                   "drawn_unit", p->intervals.unit, "drawn", (json_int_t)p->intervals.drawn));
    json_object_set_new(root, "error_analysis", table_to_json(&p->outcomes));
    json_object_set_new(root, "photon_deciles", table_to_json(&p->deciles));
    json_object_set_new(root, "donors", table_to_json(&p->donors));
    json_object_set_new(root, "donor_correlation_photons", real_or_null(p->donor_photons));
    json_object_set_new(root, "donor_correlation_size", real_or_null(p->donor_size));
    json_object_set_new(root, "reliability_bins", bins_to_json(p->calibration.bins));
    json_object_set_new(root, "warnings", warnings);
}

void binary_parts_free(BinaryParts *p) {
    Table *tables[] = {&p->summary, &p->confusion, &p->outcomes, &p->deciles, &p->donors};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) table_free(tables[t]);
    for (int v = 0; v < 3; v++) free(p->verdicts[v]);
}
