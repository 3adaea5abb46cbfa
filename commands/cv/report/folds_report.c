/* The report of all folds: a row per fold and their means, and all test cells together. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/text_file.h"
#include "commands/cv/report/cell_tables.h"
#include "commands/cv/report/fold_scores.h"
#include "commands/cv/report/tested_fold.h"
#include "report/binary_report.h"
#include "report/chance.h"
#include "report/markdown.h"
#include "report/plot.h"

enum { SHOWN = 10 /* columns on the terminal: the name, and scores up to specificity */ };
enum { WHO = 1 + BASELINES /* the network, the baselines */ };
enum { MEAN, LOW, HIGH, OF_POPULATION, OF_SAMPLE, SPREADS };
static const char *const SPREAD_NAMES[SPREADS] = {"MEAN", "95 % interval of the mean, low",
                                                  "95 % interval of the mean, high", "STD (divisor n)",
                                                  "STD (divisor n - 1)"};

typedef struct {
    const TestedFold *folds;
    int n;
    FoldScores *scored;   /* [n] */
    BinaryRow *rows[WHO]; /* [cells] those of the folds, one after the other */
    int64_t cells;
    BinaryScores pooled[WHO];
    double spreads[WHO][SPREADS][BINARY_SCORES]; /* over folds; NaN: undefined */
    Table results, means, scores;
    char *warnings[BASELINES]; /* NULL: none */
    char *chance;              /* that the networks are at chance; or NULL */
    int beaten;                /* baselines without a warning */
    CurveRows *curves;         /* [n] */
    CurveRows pooled_curve;
    CellTables parts;
} Report;

static const char *name_of(int who) { return who ? BASELINE_NAMES[who - 1] : "network"; }

/* ---- numbers ---- */

/* Computes the spread over the folds that have this score, and the interval of the mean by the bootstrap over folds. */
static void spread_make(Report *r, int who, int score) {
    OWNED double *values = xmalloc((size_t)r->n * sizeof *values);
    OWNED int32_t *fold = xmalloc((size_t)r->n * sizeof *fold);
    int n = 0;
    for (int f = 0; f < r->n; f++) {
        const FoldScores *j = &r->scored[f];
        values[n] = binary_score(who ? &j->baselines.scores[who - 1] : &j->network, score);
        fold[n] = f;
        n += !isnan(values[n]);
    }
    Spread s = statistics_spread(values, n);
    Interval mean = {NAN, NAN};
    if (isfinite(s.mean)) mean = statistics_mean_interval(values, fold, n, r->n);
    r->spreads[who][LOW][score] = mean.low;
    r->spreads[who][HIGH][score] = mean.high;
    r->spreads[who][MEAN][score] = s.mean; /* may be infinite, as the loss of a wrong certainty is */
    r->spreads[who][OF_POPULATION][score] = s.deviation;
    r->spreads[who][OF_SAMPLE][score] = s.sample_deviation;
}

static bool pool(Report *r, Error *error) {
    for (int f = 0; f < r->n; f++) r->cells += r->folds[f].test.n;
    for (int who = 0; who < WHO; who++) {
        BinaryRow *to = r->rows[who] = xmalloc((size_t)r->cells * sizeof *to);
        for (int f = 0; f < r->n; f++) {
            const FoldScores *j = &r->scored[f];
            int64_t n = r->folds[f].test.n;
            memcpy(to, who ? j->baselines.rows[who - 1] : j->test, (size_t)n * sizeof *to);
            to += n;
        }
        if (!binary_scores(r->rows[who], r->cells, &r->pooled[who], NULL, error)) return false;
        for (int score = 0; score < BINARY_SCORES; score++) spread_make(r, who, score);
    }
    return true;
}

static void make_warnings(Report *r) {
    BinaryScores mean[WHO] = {{0}};
    for (int who = 0; who < WHO; who++) {
        mean[who].balanced_accuracy = r->spreads[who][MEAN][BINARY_BALANCED_ACCURACY];
        mean[who].auroc = r->spreads[who][MEAN][BINARY_AUROC];
    }
    r->chance = chance_text(r->pooled[0].confusion, 2, CV_CLASS_NAMES, mean[0].auroc, r->folds[0].cause);
    for (int b = r->chance ? BASELINE_SIZE : 0; b < BASELINES; b++)
        r->warnings[b] = baseline_warning(b, &mean[1 + b], &mean[0]);
    for (int b = 0; b < BASELINES; b++) {
        OWNED char *warning = baseline_warning(b, &mean[1 + b], &mean[0]);
        r->beaten += !warning;
    }
}

/* ---- tables ---- */

static void count_if(Table *t, const char *column, bool there, int64_t count) {
    if (there)
        table_count(t, column, count);
    else
        table_real(t, column, (double)NAN);
}

/* scores: NULL in rows of means and deviations. */
static void results_row(Table *t, const char *name, const double *values, const BinaryScores *scores, int epoch) {
    table_text(t, "fold", name);
    for (int k = 0; k < BINARY_SCORES; k++) table_real(t, BINARY_METRICS[k].name, values[k]);
    table_real(t, "threshold", scores ? scores->threshold : (double)NAN);
    count_if(t, "best_epoch", epoch, epoch);
    count_if(t, "cells", scores, scores ? scores->n : 0);
    for (int o = 0; o < BINARY_OUTCOMES; o++)
        count_if(t, BINARY_OUTCOME_NAMES[o], scores, scores ? scores->confusion[o] : 0);
}

static void make_tables(Report *r) {
    for (int f = 0; f < r->n; f++) {
        double values[BINARY_SCORES];
        for (int k = 0; k < BINARY_SCORES; k++) values[k] = binary_score(&r->scored[f].network, k);
        results_row(&r->results, r->folds[f].name, values, &r->scored[f].network, r->folds[f].best_epoch);
    }
    for (int s = 0; s < SPREADS; s++) results_row(&r->results, SPREAD_NAMES[s], r->spreads[0][s], NULL, 0);
    for (int who = 0; who < WHO; who++) {
        table_text(&r->means, "mean over folds", name_of(who));
        for (int k = 0; k < BINARY_SCORES; k++) table_real(&r->means, BINARY_METRICS[k].name, r->spreads[who][MEAN][k]);
        table_text(&r->scores, "all folds' cells", name_of(who));
        binary_score_columns(&r->scores, &r->pooled[who], "cells");
    }
}

static void make_curves(Report *r) {
    r->curves = xmalloc((size_t)r->n * sizeof *r->curves);
    for (int f = 0; f < r->n; f++)
        r->curves[f] = (CurveRows){.name = r->folds[f].name, .rows = r->scored[f].test, .n = r->folds[f].test.n};
    r->pooled_curve = (CurveRows){.name = "all folds' cells, pooled", .rows = r->rows[0], .n = r->cells};
}

/* ---- for people ---- */

static void print_accuracy(const Report *r, const char *line, FILE *out) {
    const double(*s)[BINARY_SCORES] = r->spreads[0];
    fprintf(
        out,
        "%smeans over folds: accuracy %.4f +- %.4f, balanced accuracy %.4f +- %.4f (standard deviations, divisor n)\n",
        line, s[MEAN][BINARY_ACCURACY], s[OF_POPULATION][BINARY_ACCURACY], s[MEAN][BINARY_BALANCED_ACCURACY],
        s[OF_POPULATION][BINARY_BALANCED_ACCURACY]);
    fprintf(out, "%sthe network is better than %d of %d baselines by %g or more, in balanced accuracy and in AUROC\n",
            line, r->beaten, BASELINES, BASELINE_MARGIN);
    if (!isnan(s[LOW][BINARY_AUROC]))
        fprintf(out, "%sAUROC %.4f, 95 %% interval of the mean %.4f to %.4f, by the bootstrap over folds\n", line,
                s[MEAN][BINARY_AUROC], s[LOW][BINARY_AUROC], s[HIGH][BINARY_AUROC]);
}

static void print_report(const Report *r) {
    printf("[Report] %d fold%s\n", r->n, r->n == 1 ? "" : "s");
    table_print(&r->results, SHOWN, stdout);
    print_accuracy(r, "[Report] ", stdout);
    table_print(&r->means, SHOWN, stdout);
    cell_tables_print_warnings(&r->parts, "[Report] warning: mean over folds: ", stdout);
    printf("[Report] the test cells of all folds together, %lld, each judged by its own fold's network:\n",
           (long long)r->cells);
    cell_tables_print(&r->parts);
    printf("[Report] written: %s/cross_validation_results.{json,csv,md} and what belongs to them\n",
           r->parts.directory);
    if (r->chance) printf("[Report] all folds' cells are %s\n", r->chance);
}

/* ---- files ---- */

static json_t *spread_to_json(const Report *r, int spread) {
    json_t *root = json_object();
    for (int k = 0; k < BINARY_SCORES; k++)
        json_object_set_new(root, BINARY_METRICS[k].name, real_or_null(r->spreads[0][spread][k]));
    return root;
}

/* The reference's keys first. */
static json_t *to_json(const Report *r) {
    const double(*s)[BINARY_SCORES] = r->spreads[0];
    json_t *folds = json_array();
    char now[32];
    for (int f = 0; f < r->n; f++) json_array_append_new(folds, fold_scores_to_json(&r->scored[f]));
    json_t *root = json_build(
        "the report", "{s:s, s:o, s:o, s:o, s:o, s:o, s:s?, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "timestamp",
        format_now(now), "mean_test_accuracy", real_or_null(s[MEAN][BINARY_ACCURACY]), "std_test_accuracy",
        real_or_null(s[OF_POPULATION][BINARY_ACCURACY]), "mean_test_loss", real_or_null(s[MEAN][BINARY_LOSS]),
        "std_test_loss", real_or_null(s[OF_POPULATION][BINARY_LOSS]), "folds", folds, "at_chance", r->chance, "mean",
        spread_to_json(r, MEAN), "mean_low", spread_to_json(r, LOW), "mean_high", spread_to_json(r, HIGH), "std",
        spread_to_json(r, OF_POPULATION), "std_sample", spread_to_json(r, OF_SAMPLE), "baseline_means",
        table_to_json(&r->means), "pooled", table_to_json(&r->scores), "confusion_matrix",
        binary_confusion_to_json(&r->pooled[0]));
    cell_tables_to_json(&r->parts, root);
    return root;
}

static bool write_markdown(const Report *r, const char *path, Error *error) {
    TextFile file;
    text_file_begin(&file);
    fprintf(file.out, "# Cross-validation, %d fold%s\n\n", r->n, r->n == 1 ? "" : "s");
    if (r->chance) fprintf(file.out, "%s.\n\n", r->chance);
    print_accuracy(r, "", file.out);
    fputs("\n## Folds\n\n", file.out);
    table_print_markdown(&r->results, r->results.columns, file.out);
    fputs("\n## Means over folds, beside the baselines\n\n", file.out);
    table_print_markdown(&r->means, r->means.columns, file.out);
    fputc('\n', file.out);
    cell_tables_print_warnings(&r->parts, "- warning: mean over folds: ", file.out);
    fputs("\n## All folds' test cells together, each judged by its own fold's network\n\n", file.out);
    table_print_markdown(&r->scores, r->scores.columns, file.out);
    cell_tables_print_markdown(&r->parts, file.out);
    return markdown_end(&file, path, error);
}

/* Draws a line per fold over its epochs, and rings the epoch of its best weights; no picture if none has any. */
static bool write_curves(const Report *r, const char *what, const char *label, bool losses, Error *error) {
    OWNED PlotSeries *series = xmalloc((size_t)r->n * sizeof *series);
    int longest = 0, n = 0;
    for (int f = 0; f < r->n; f++)
        if (r->folds[f].epochs > longest) longest = r->folds[f].epochs;
    OWNED double *epochs = xmalloc((size_t)(longest + 1) * sizeof *epochs);
    for (int e = 0; e < longest; e++) epochs[e] = e + 1;
    for (int f = 0; f < r->n; f++) {
        const TestedFold *fold = &r->folds[f];
        const double *y = losses ? fold->val_losses : fold->val_accuracies;
        series[n] = (PlotSeries){.name = fold->name, .x = epochs, .y = y, .n = fold->epochs, .best = fold->best_epoch};
        n += fold->epochs && y;
    }
    OWNED char *path = xformat("%s/%s.svg", r->parts.directory, what);
    OWNED char *title = xformat("%s of each fold, its best epoch ringed", label);
    Plot plot = {.x_label = "epoch", .y_label = label, .series = series, .n_series = n};
    return !n || plot_write(path, &plot, 1, title, error);
}

static bool write_files(const Report *r, Error *error) {
    const CellTables *p = &r->parts;
    OWNED char *json = cell_tables_path(p, "cross_validation_results", "json");
    OWNED char *markdown = cell_tables_path(p, "cross_validation_results", "md");
    return cell_tables_write_csv(p, &r->results, "cross_validation_results", error) &&
           cell_tables_write_csv(p, &r->means, "means", error) &&
           cell_tables_write_csv(p, &r->scores, "scores", error) && cell_tables_write(p, error) &&
           write_curves(r, "validation_loss", "validation loss", true, error) &&
           write_curves(r, "validation_accuracy", "validation accuracy", false, error) &&
           json_write(to_json(r), json, error) && write_markdown(r, markdown, error);
}

/* ---- all of it ---- */

static bool folds_check(const TestedFold *folds, int n, Error *error) {
    if (n < 1) return error_set(error, "there are no folds to report");
    for (int f = 1; f < n; f++) {
        if (folds[f].cells != folds[0].cells)
            return error_set(error, "fold %s is not of the same cells as fold %s", folds[f].name, folds[0].name);
        if (folds[f].test.n_views != folds[0].test.n_views)
            return error_set(error, "fold %s has %d views of a cell, fold %s has %d", folds[f].name,
                             folds[f].test.n_views, folds[0].name, folds[0].test.n_views);
        for (int g = 0; g < f; g++)
            if (!strcmp(folds[f].name, folds[g].name))
                return error_set(error, "two folds are called %s", folds[f].name);
    }
    return true;
}

static bool report_make(Report *r, const char *directory, Error *error) {
    for (int f = 0; f < r->n; f++)
        if (!fold_scores_make(&r->folds[f], f, &r->scored[f], error)) return false;
    if (!pool(r, error)) return false;
    make_warnings(r);
    make_tables(r);
    make_curves(r);
    r->parts = (CellTables){.folds = r->folds,
                            .rows = r->rows[0],
                            .n = r->cells,
                            .directory = directory,
                            .suffix = "",
                            .warnings = r->warnings,
                            .title = "test cells of all folds together, each judged by its own fold's network",
                            .curves = {.curves = r->curves, .n = r->n, .folds = true, .pooled = &r->pooled_curve}};
    return cell_tables_make(&r->parts, error);
}

static void report_free(Report *r) {
    for (int f = 0; f < r->n; f++) fold_scores_free(&r->scored[f]);
    for (int who = 0; who < WHO; who++) free(r->rows[who]);
    for (int b = 0; b < BASELINES; b++) free(r->warnings[b]);
    free(r->chance);
    table_free(&r->results);
    table_free(&r->means);
    table_free(&r->scores);
    cell_tables_free(&r->parts);
    FREE(r->curves, r->scored);
}

bool tested_folds_report(const TestedFold *folds, int n, const char *directory, Error *error) {
    if (!folds_check(folds, n, error)) return false;
    Report r = {.folds = folds, .n = n, .scored = xcalloc((size_t)n, sizeof *r.scored)};
    bool ok = report_make(&r, directory, error) && write_files(&r, error);
    if (ok) print_report(&r);
    report_free(&r);
    return ok;
}
