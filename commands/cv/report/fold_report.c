/* The report of one fold. */
#include "commands/cv/report/tested_fold.h"

#include <math.h>
#include <stdlib.h>

#include "base/file_name.h"
#include "base/format.h"
#include "base/text_file.h"
#include "commands/cv/report/cell_tables.h"
#include "commands/cv/report/fold_scores.h"
#include "report/chance.h"
#include "report/markdown.h"

enum { CURVES = 4, SHOWN = 10 /* columns on the terminal: the name, and scores up to specificity */ };

typedef struct {
    FoldScores scored;
    CellTables parts;
    CurveRows curves[CURVES];
    Table scores;
    char *warnings[BASELINES]; /* NULL: none */
    char *chance;              /* that the network is at chance, which makes the first warnings needless; or NULL */
} Report;

/* ---- making ---- */

static void make_curves(Report *r) {
    const FoldScores *j = &r->scored;
    const int drawn[CURVES] = {-1, BASELINE_ALL, BASELINE_SIZE, BASELINE_BRIGHTNESS};
    for (int c = 0; c < CURVES; c++)
        r->curves[c] = (CurveRows){.name = c ? BASELINE_NAMES[drawn[c]] : "network",
                                   .rows = c ? j->baselines.rows[drawn[c]] : j->test,
                                   .n = j->fold->test.n};
    r->curves[0].intervals = &r->parts.intervals;
}

static bool report_make(Report *r, const TestedFold *fold, const char *directory, const char *suffix, const char *title,
                        Error *error) {
    make_curves(r);
    fold_scores_rows(&r->scored, &r->scores);
    const BinaryScores *network = &r->scored.network;
    r->chance = chance_text(network->confusion, 2, CV_CLASS_NAMES, network->auroc, fold->cause);
    for (int b = r->chance ? BASELINE_SIZE : 0; b < BASELINES; b++)
        r->warnings[b] = baseline_warning(b, &r->scored.baselines.scores[b], network);
    r->parts = (CellTables){.folds = fold,
                            .rows = r->scored.test,
                            .n = fold->test.n,
                            .directory = directory,
                            .suffix = suffix,
                            .warnings = r->warnings,
                            .title = title,
                            .curves = {.curves = r->curves, .n = CURVES}};
    return cell_tables_make(&r->parts, error);
}

static void report_free(Report *r) {
    for (int b = 0; b < BASELINES; b++) free(r->warnings[b]);
    free(r->chance);
    table_free(&r->scores);
    cell_tables_free(&r->parts);
    fold_scores_free(&r->scored);
}

/* ---- for people ---- */

static void print_splits(const Report *r, const char *line, FILE *out) {
    const TestedFold *f = r->scored.fold;
    OWNED char *train = donor_names_of(f->cells, f->train, f->n_train);
    OWNED char *validation = donor_names_of(f->cells, f->validation.ids, f->validation.n);
    OWNED char *test = donor_names_of(f->cells, f->test.ids, f->test.n),
               *threshold = fold_scores_threshold_text(&r->scored);
    fprintf(out,
            "%sfold %s: trained on %lld cells of %s (%.1f %% active), validated on %lld of %s, tested on %lld of %s\n",
            line, f->name, (long long)f->n_train, train, 100 * r->scored.training_share, (long long)f->validation.n,
            validation, (long long)f->test.n, test);
    fprintf(out, "%sactive if p > threshold; by the rule '%s' it is %s\n", line, THRESHOLD_RULE_NAMES[f->rule],
            threshold);
}

static void print_temperature(const FoldScores *j, const char *line, FILE *out) {
    if (isnan(j->temperature))
        fprintf(out, "%sno temperature: %s\n", line, j->no_temperature.text);
    else
        fprintf(out,
                "%stemperature %.4f, fitted on validation: of the test cells' un-augmented logits it makes the loss "
                "%.4f of %.4f, ECE %.4f of %.4f, Brier %.4f of %.4f\n",
                line, j->temperature, j->after.loss, j->before.loss, j->after.ece, j->before.ece, j->after.brier,
                j->before.brier);
}

static void print_report(const Report *r) {
    const char *line = "[Report] ";
    print_splits(r, line, stdout);
    table_print(&r->scores, SHOWN, stdout);
    cell_tables_print_warnings(&r->parts, "[Report] warning: ", stdout);
    cell_tables_print(&r->parts);
    print_temperature(&r->scored, line, stdout);
    printf("[Report] written: %s/test_results%s.{json,md} and what belongs to them\n", r->parts.directory,
           r->parts.suffix);
    if (r->chance) printf("[Report] fold %s is %s\n", r->scored.fold->name, r->chance);
}

/* ---- files ---- */

static bool write_json(const Report *r, Error *error) {
    json_t *root = fold_scores_to_json(&r->scored);
    OWNED char *path = cell_tables_path(&r->parts, "test_results", "json");
    char now[32];
    json_object_update_new(root, json_build(path, "{s:s, s:s?}", "timestamp", format_now(now), "at_chance", r->chance));
    cell_tables_to_json(&r->parts, root);
    return json_write(root, path, error);
}

static bool write_markdown(const Report *r, Error *error) {
    OWNED char *path = cell_tables_path(&r->parts, "test_results", "md");
    TextFile file;
    text_file_begin(&file);
    fprintf(file.out, "# %s\n\n", r->scored.fold->name);
    if (r->chance) fprintf(file.out, "%s.\n\n", r->chance);
    print_splits(r, "- ", file.out);
    print_temperature(&r->scored, "- ", file.out);
    cell_tables_print_warnings(&r->parts, "- warning: ", file.out);
    fputs("\n## Beside the baselines\n\n", file.out);
    table_print_markdown(&r->scores, r->scores.columns, file.out);
    cell_tables_print_markdown(&r->parts, file.out);
    return markdown_end(&file, path, error);
}

static bool write_files(const Report *r, Error *error) {
    return cell_tables_write_csv(&r->parts, &r->scores, "scores", error) && cell_tables_write(&r->parts, error) &&
           write_json(r, error) && write_markdown(r, error);
}

/* ---- all of it ---- */

bool tested_fold_report(const TestedFold *fold, const char *directory, FoldResult *result, Error *error) {
    Report r = {.warnings = {NULL}};
    if (!fold_scores_make(fold, 0, &r.scored, error)) return false;
    OWNED char *name = file_name_in(directory, "fold_", fold->name), *suffix = xformat("_%s", name),
               *title = xformat("test cells of fold %s", fold->name);
    bool ok = report_make(&r, fold, directory, suffix, title, error) && write_files(&r, error);
    if (ok) print_report(&r);
    if (ok && result) *result = (FoldResult){r.scored.network, r.scored.threshold, r.scored.temperature};
    report_free(&r);
    return ok;
}
