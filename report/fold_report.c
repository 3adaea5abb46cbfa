/* Tabulates many trainings: a row each, and their means. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/text_file.h"
#include "report/chance.h"
#include "report/classification_report.h"
#include "report/markdown.h"
#include "report/table.h"

/* PLAIN: scores besides F1 of each class; AT_THRESHOLD: two classes at a threshold have so many more. */
enum { ACCURACY, MACRO_F1, PLAIN = 10, AT_THRESHOLD = 4 };

/* A score over folds. */
typedef struct {
    Spread over;
    Interval mean; /* 95 % of the mean */
} FoldSpread;

typedef struct {
    const FoldResult *folds;
    bool at_threshold; /* all trainings have one */
    int n, scores;
    char **names;   /* [scores] */
    double *values; /* [n, scores]; NaN: there is none */
    int32_t *group; /* [n]: the first fold of the same group */
    const char *group_kind, *protocol, *directory;
    bool few_shot;       /* some fold has shots: columns k and seed */
    int *shots, n_shots; /* the different ones, ascending; 0 alone where there are none */
    FoldSpread *spreads; /* [n_shots, scores] */
    int *worst;          /* [n_shots]: a fold of the group with the lowest mean macro F1 */
    double *worst_f1;    /* [n_shots]: which is this */
    Table results, summary;
} FoldReport;

/* ---- values ---- */

/* Where the next score of a fold belongs. */
typedef struct {
    char **names; /* NULL: they are known */
    double *values;
} NextScore;

/* Adds a score, of a class or, if that is NULL, of all. */
static void add_score(NextScore *next, const char *name, const MetricsClass *class, double value) {
    if (next->names) *next->names++ = class ? xformat("%s_%s", name, class->name) : xstrdup(name);
    *next->values++ = class && !class->support ? (double)NAN : value;
}

/* Adds what the second of two classes is told apart by. */
static void add_threshold_scores(NextScore *next, const Evaluation *e) {
    const MetricsClass *second = &e->each[1];
    add_score(next, "f1", second, second->score.f1);
    add_score(next, "precision", second, second->score.precision);
    add_score(next, "recall", second, second->score.recall);
    add_score(next, "roc_auc", NULL, e->roc_auc);
    add_score(next, "threshold", NULL, e->threshold);
}

static void add_scores(NextScore *next, const Evaluation *e, bool at_threshold) {
    const MetricsScores *s = &e->scores;
    add_score(next, "accuracy", NULL, s->accuracy);
    add_score(next, "macro_f1", NULL, s->macro.f1);
    if (at_threshold) add_threshold_scores(next, e);
    add_score(next, "weighted_f1", NULL, s->weighted.f1);
    add_score(next, "macro_precision", NULL, s->macro.precision);
    add_score(next, "macro_recall", NULL, s->macro.recall);
    add_score(next, "balanced_accuracy", NULL, s->balanced_accuracy);
    add_score(next, "mcc", NULL, s->mcc);
    add_score(next, "ece", NULL, e->calibration.ece);
    add_score(next, "nll", NULL, e->calibration.nll);
    add_score(next, "brier", NULL, e->calibration.brier);
    for (int c = 0; c < (at_threshold ? 1 : e->classes); c++) add_score(next, "f1", &e->each[c], e->each[c].score.f1);
}

static void values_make(FoldReport *r) {
    const Evaluation *first = r->folds[0].evaluation;
    r->at_threshold = !isnan(first->threshold);
    r->scores = PLAIN + first->classes + (r->at_threshold ? AT_THRESHOLD : 0);
    r->names = xmalloc((size_t)r->scores * sizeof *r->names);
    r->values = xmalloc((size_t)r->n * (size_t)r->scores * sizeof *r->values);
    r->group = xmalloc((size_t)r->n * sizeof *r->group);
    for (int i = 0; i < r->n; i++) {
        NextScore next = {i ? NULL : r->names, r->values + (long)i * r->scores};
        add_scores(&next, r->folds[i].evaluation, r->at_threshold);
        r->few_shot |= r->folds[i].shots > 0;
        for (r->group[i] = 0; strcmp(r->folds[r->group[i]].group, r->folds[i].group); r->group[i]++) continue;
    }
}

/* Copies the values of one score in the folds with these shots, as far as they exist, and their groups. */
static int collect(const FoldReport *r, int score, int shots, double *values, int32_t *group) {
    int n = 0;
    for (int i = 0; i < r->n; i++) {
        double value = r->values[(long)i * r->scores + score];
        if (r->folds[i].shots != shots || isnan(value)) continue;
        values[n] = value;
        group[n++] = r->group[i];
    }
    return n;
}

/* ---- means ---- */

static FoldSpread spread_make(const FoldReport *r, int score, int shots) {
    OWNED double *values = xmalloc((size_t)r->n * sizeof *values);
    OWNED int32_t *group = xmalloc((size_t)r->n * sizeof *group);
    int n = collect(r, score, shots, values, group);
    FoldSpread out = {statistics_spread(values, n), {NAN, NAN}};
    if (isfinite(out.over.mean))
        out.mean = statistics_mean_interval(values, group, n, r->n); /* an NLL may be infinite */
    return out;
}

static int ascending(const void *left, const void *right) { return *(const int *)left - *(const int *)right; }

static void shots_make(FoldReport *r) {
    r->shots = xmalloc((size_t)r->n * sizeof *r->shots);
    for (int i = 0; i < r->n; i++) r->shots[i] = r->folds[i].shots;
    qsort(r->shots, (size_t)r->n, sizeof *r->shots, ascending);
    for (int i = 0; i < r->n; i++)
        if (!i || r->shots[i] != r->shots[r->n_shots - 1]) r->shots[r->n_shots++] = r->shots[i];
}

static void spreads_make(FoldReport *r) {
    r->spreads = xmalloc((size_t)r->n_shots * (size_t)r->scores * sizeof *r->spreads);
    for (int k = 0; k < r->n_shots; k++)
        for (int score = 0; score < r->scores; score++)
            r->spreads[k * r->scores + score] = spread_make(r, score, r->shots[k]);
}

/* Returns the macro F1 of a group, the mean over its folds with these shots; NaN if there are none. */
static double group_f1(const FoldReport *r, int group, int shots) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < r->n; i++) {
        if (r->group[i] != group || r->folds[i].shots != shots) continue;
        sum += r->values[(long)i * r->scores + MACRO_F1];
        n++;
    }
    return n ? sum / n : NAN;
}

static void worst_make(FoldReport *r) {
    r->worst = xmalloc((size_t)r->n_shots * sizeof *r->worst);
    r->worst_f1 = xmalloc((size_t)r->n_shots * sizeof *r->worst_f1);
    for (int k = 0; k < r->n_shots; k++) {
        r->worst_f1[k] = INFINITY;
        for (int i = 0; i < r->n; i++) {
            double f1 = group_f1(r, i, r->shots[k]);
            if (f1 < r->worst_f1[k]) r->worst_f1[k] = f1, r->worst[k] = i; /* not if NaN */
        }
    }
}

/* ---- tables ---- */

/* Fills the key columns of a row; if fold is NULL, of a row of means. */
static void key_columns(FoldReport *r, const char *name, int shots, const FoldResult *fold) {
    table_text(&r->results, r->group_kind, name);
    if (r->few_shot) table_count(&r->results, "k", shots);
    if (r->few_shot && fold) table_count(&r->results, "seed", fold->seed);
    if (r->few_shot && !fold) table_real(&r->results, "seed", NAN);
}

static void results_make(FoldReport *r) {
    for (int i = 0; i < r->n; i++) {
        key_columns(r, r->folds[i].group, r->folds[i].shots, &r->folds[i]);
        for (int score = 0; score < r->scores; score++)
            table_real(&r->results, r->names[score], r->values[(long)i * r->scores + score]);
        table_count(&r->results, "n", r->folds[i].evaluation->scores.rows);
    }
    for (int k = 0; k < r->n_shots; k++)
        for (int deviation = 0; deviation < 2; deviation++) {
            key_columns(r, deviation ? "STD" : "MEAN", r->shots[k], NULL);
            for (int score = 0; score < r->scores; score++) {
                const FoldSpread *s = &r->spreads[k * r->scores + score];
                table_real(&r->results, r->names[score], deviation ? s->over.sample_deviation : s->over.mean);
            }
            table_real(&r->results, "n", NAN);
        }
}

static void summary_make(FoldReport *r) {
    for (int k = 0; k < r->n_shots; k++)
        for (int score = 0; score < r->scores; score++) {
            const FoldSpread *s = &r->spreads[k * r->scores + score];
            if (r->few_shot) table_count(&r->summary, "k", r->shots[k]);
            table_text(&r->summary, "score", r->names[score]);
            table_real(&r->summary, "mean", s->over.mean);
            table_real(&r->summary, "std", s->over.sample_deviation);
            table_real(&r->summary, "low", s->mean.low);
            table_real(&r->summary, "high", s->mean.high);
        }
}

/* ---- files ---- */

static void print_mean(FILE *out, const char *name, const FoldSpread *s) {
    fprintf(out, "%s %.4f", name, s->over.mean);
    if (!isnan(s->mean.low)) fprintf(out, " (95 %% %.4f .. %.4f)", s->mean.low, s->mean.high);
}

static void print_worst(const FoldReport *r, FILE *out) {
    for (int k = 0; k < r->n_shots; k++) {
        if (r->few_shot) fprintf(out, "k = %d: ", r->shots[k]);
        print_mean(out, "accuracy", &r->spreads[k * r->scores + ACCURACY]);
        print_mean(out, ", macro F1", &r->spreads[k * r->scores + MACRO_F1]);
        fprintf(out, "; worst %s: %s, macro F1 %.4f\n", r->group_kind, r->folds[r->worst[k]].group, r->worst_f1[k]);
    }
}

/* Names the trainings that have come to nothing. */
static void print_chance(const FoldReport *r, FILE *out) {
    int n = 0, first = 0;
    for (int i = r->n - 1; i >= 0; i--) {
        OWNED char *text = chance_of(r->folds[i].evaluation, NULL);
        if (text) n++, first = i;
    }
    if (n) fprintf(out, "at chance: %d of %d trainings, the first of them %s\n", n, r->n, r->folds[first].group);
}

static json_t *worst_to_json(const FoldReport *r) {
    json_t *array = json_array();
    for (int k = 0; k < r->n_shots; k++)
        json_array_append_new(array, json_build("the report", "{s:i, s:s, s:o}", "k", r->shots[k], r->group_kind,
                                                r->folds[r->worst[k]].group, "macro_f1", real_or_null(r->worst_f1[k])));
    return array;
}

static bool write_files(const FoldReport *r, Error *error) {
    OWNED char *csv = xformat("%s/%s_results.csv", r->directory, r->protocol);
    OWNED char *json = xformat("%s/%s_results.json", r->directory, r->protocol);
    OWNED char *markdown = xformat("%s/%s_results.md", r->directory, r->protocol);
    bool ok = table_write_csv(&r->results, csv, error) &&
              json_write(json_build("the report", "{s:s, s:i, s:o, s:o, s:o}", "protocol", r->protocol, "resamples",
                                    INTERVAL_RESAMPLES, "results", table_to_json(&r->results), "summary",
                                    table_to_json(&r->summary), "worst", worst_to_json(r)),
                         json, error);
    if (ok) {
        TextFile file;
        text_file_begin(&file);
        fprintf(file.out, "# %s\n\n", r->protocol);
        print_chance(r, file.out);
        print_worst(r, file.out);
        if (r->at_threshold) fputs("\nPredictions are those at the threshold of each training.\n", file.out);
        fprintf(
            file.out,
            "\nMeans over trainings, deviations with divisor n - 1, 95 %% intervals of the mean by the bootstrap over "
            "%ss.\n\n",
            r->group_kind);
        table_print_markdown(&r->summary, r->summary.columns, file.out);
        fputs("\n## Trainings\n\n", file.out);
        table_print_markdown(&r->results, r->results.columns, file.out);
        ok = markdown_end(&file, markdown, error);
    }
    return ok;
}

static void print_report(const FoldReport *r) {
    int shown = r->at_threshold ? 6 : 4; /* accuracy, F1 and precision; or those and recall, and the ROC's area */
    printf("[Report] %s: %d training%s; intervals of the mean by the bootstrap over %ss\n", r->protocol, r->n,
           format_plural(r->n), r->group_kind);
    table_print(&r->results, (r->few_shot ? 3 : 1) + shown, stdout);
    print_worst(r, stdout);
    printf("[Report] written: %s/%s_results.{csv,json,md}\n", r->directory, r->protocol);
    print_chance(r, stdout);
}

bool report_folds(const FoldResult *folds, int n, const char *group_kind, const char *protocol, const char *directory,
                  Error *error) {
    FoldReport r = {.folds = folds, .n = n, .group_kind = group_kind, .protocol = protocol, .directory = directory};
    if (n < 1) return error_set(error, "%s: there are no folds to report", protocol);
    if (!name_check("protocol", protocol, error)) return false;
    for (int i = 0; i < n; i++)
        if (!name_check(group_kind, folds[i].group, error)) return false;
    for (int i = 1; i < n; i++)
        if (folds[i].evaluation->classes != folds[0].evaluation->classes)
            return error_set(error, "fold %d (%s) has %d classes, the first has %d", i, folds[i].group,
                             folds[i].evaluation->classes, folds[0].evaluation->classes);
    values_make(&r);
    shots_make(&r);
    worst_make(&r);
    spreads_make(&r);
    results_make(&r);
    summary_make(&r);
    bool ok = write_files(&r, error);
    if (ok) print_report(&r);
    for (int k = 0; k < r.scores; k++) free(r.names[k]);
    table_free(&r.results);
    table_free(&r.summary);
    FREE(r.names, r.values, r.group, r.shots, r.spreads, r.worst, r.worst_f1);
    return ok;
}
