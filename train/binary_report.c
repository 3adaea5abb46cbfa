/* The report of one fold. */
#include "train/binary_report.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "data/text_file.h"
#include "train/binary_judge.h"
#include "train/binary_parts.h"

enum { CURVES = 4, SHOWN = 10 /* columns on the terminal: the name, and scores up to specificity */ };

typedef struct {
    BinaryJudged judged;
    BinaryParts parts;
    BinaryCurve curves[CURVES];
    Table scores;
    char *warnings[BINARY_BASELINES]; /* NULL: none */
} Report;

/* ---- making ---- */

static void make_curves(Report *r) {
    const BinaryJudged *j = &r->judged;
    const int drawn[CURVES] = {-1, BASELINE_ALL, BASELINE_SIZE, BASELINE_BRIGHTNESS};
    for (int c = 0; c < CURVES; c++)
        r->curves[c] = (BinaryCurve){c ? BINARY_BASELINE_NAMES[drawn[c]] : "network",
                                     c ? j->baselines.rows[drawn[c]] : j->test, j->fold->test.n};
}

static bool report_make(Report *r, const BinaryFold *fold, const char *directory, const char *suffix, const char *title,
                        Error *error) {
    make_curves(r);
    binary_judged_rows(&r->judged, &r->scores);
    for (int b = 0; b < BINARY_BASELINES; b++)
        r->warnings[b] = baseline_warning(b, &r->judged.baselines.scores[b], &r->judged.network);
    r->parts = (BinaryParts){.folds = fold,
                             .rows = r->judged.test,
                             .n = fold->test.n,
                             .directory = directory,
                             .suffix = suffix,
                             .warnings = r->warnings,
                             .title = title,
                             .curves = r->curves,
                             .n_curves = CURVES};
    return binary_parts_make(&r->parts, error);
}

static void report_free(Report *r) {
    for (int b = 0; b < BINARY_BASELINES; b++) free(r->warnings[b]);
    table_free(&r->scores);
    binary_parts_free(&r->parts);
    binary_judged_free(&r->judged);
}

/* ---- for people ---- */

static void print_roles(const Report *r, const char *line, FILE *out) {
    const BinaryFold *f = r->judged.fold;
    char *train = binary_donors(f->cells, f->train, f->n_train);
    char *validation = binary_donors(f->cells, f->validation.ids, f->validation.n);
    char *test = binary_donors(f->cells, f->test.ids, f->test.n), *threshold = threshold_text(&r->judged.threshold);
    fprintf(out,
            "%sfold %s: trained on %lld cells of %s (%.1f %% active), validated on %lld of %s, tested on %lld of %s\n",
            line, f->name, (long long)f->n_train, train, 100 * r->judged.training_share, (long long)f->validation.n,
            validation, (long long)f->test.n, test);
    fprintf(out, "%sactive if p > threshold; by the rule '%s' it is %s\n", line, THRESHOLD_RULE_NAMES[f->rule],
            threshold);
    free(train);
    free(validation);
    free(test);
    free(threshold);
}

static void print_warnings(const Report *r, const char *line, FILE *out) {
    for (int b = 0; b < BINARY_BASELINES; b++)
        if (r->warnings[b]) fprintf(out, "%swarning: %s\n", line, r->warnings[b]);
}

static void print_temperature(const BinaryJudged *j, const char *line, FILE *out) {
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
    print_roles(r, line, stdout);
    table_print(&r->scores, SHOWN, stdout);
    print_warnings(r, line, stdout);
    binary_parts_print(&r->parts);
    print_temperature(&r->judged, line, stdout);
    printf("[Report] written: %s/test_results%s.{json,md} and what belongs to them\n", r->parts.directory,
           r->parts.suffix);
}

/* ---- files ---- */

static bool write_json(const Report *r, Error *error) {
    json_t *root = binary_judged_to_json(&r->judged);
    char *path = binary_file_name(&r->parts, "test_results", "json"), now[32];
    binary_timestamp(now);
    json_object_set_new(root, "timestamp", json_string(now));
    binary_parts_to_json(&r->parts, root);
    bool fine = json_write(root, path, error);
    free(path);
    return fine;
}

static bool write_markdown(const Report *r, Error *error) {
    char *path = binary_file_name(&r->parts, "test_results", "md");
    TextFile file;
    text_file_begin(&file);
    fprintf(file.out, "# %s\n\n", r->judged.fold->name);
    print_roles(r, "- ", file.out);
    print_temperature(&r->judged, "- ", file.out);
    print_warnings(r, "- ", file.out);
    fputs("\n## Beside the baselines\n\n", file.out);
    table_print_markdown(&r->scores, r->scores.columns, file.out);
    binary_parts_print_markdown(&r->parts, file.out);
    bool fine = text_file_end(&file, path, error);
    free(path);
    return fine;
}

static bool write_files(const Report *r, Error *error) {
    return binary_write_table(&r->parts, &r->scores, "scores", error) && binary_parts_write(&r->parts, error) &&
           write_json(r, error) && write_markdown(r, error);
}

/* ---- all of it ---- */

bool report_binary_fold(const BinaryFold *fold, const char *directory, BinaryScores *scores, Error *error) {
    Report r = {.warnings = {NULL}};
    if (!binary_judge(fold, 0, &r.judged, error)) return false;
    char *name = file_name_of(fold->name), *suffix = xformat("_%s", name),
         *title = xformat("test cells of fold %s", fold->name);
    bool fine = report_make(&r, fold, directory, suffix, title, error) && write_files(&r, error);
    if (fine) print_report(&r);
    if (fine && scores) *scores = r.judged.network;
    report_free(&r);
    free(name);
    free(suffix);
    free(title);
    return fine;
}
