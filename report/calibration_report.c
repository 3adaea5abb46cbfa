/* The report of calibrations, method by method. */
#include <stdlib.h>

#include "base/text_file.h"
#include "report/calibration.h"
#include "report/chance.h"
#include "report/classification_report.h"
#include "report/diagrams.h"
#include "report/markdown.h"
#include "report/table.h"

typedef struct {
    const char *directory;
    const Predictions *validation, *test;
    Evaluation before;   /* of the test rows, without calibration */
    Table overview;      /* a row per method */
    json_t *json, *fits; /* fits: an array, or NULL */
    bool *fitted;
    char *chance; /* that the classifier is at chance on the test rows; or NULL */
} CalibrationReport;

/* The name of a method in files and keys, and its title for people. */
typedef struct {
    CalibrationKind kind;
    char *name, *title; /* free() */
} Method;

static Method method_of(CalibrationKind kind, const Covariate *covariate) {
    switch (kind) {
    case CALIBRATION_TEMPERATURE:
        return (Method){kind, xstrdup("temp_scaling"), xstrdup("temperature")};
    case CALIBRATION_VECTOR:
        return (Method){kind, xstrdup("vector_scaling"), xstrdup("vector scaling")};
    default:
        return (Method){kind, xformat("%s_aware", covariate->name), xformat("temperature by %s", covariate->title)};
    }
}

static void score_columns(Table *t, const Evaluation *before, const Evaluation *after) {
    table_real(t, "accuracy", after->scores.accuracy);
    table_real(t, "ece_before", before->calibration.ece);
    table_real(t, "ece", after->calibration.ece);
    table_real(t, "adaptive_ece_before", before->adaptive_ece);
    table_real(t, "adaptive_ece", after->adaptive_ece);
    table_real(t, "nll_before", before->calibration.nll);
    table_real(t, "nll", after->calibration.nll);
    table_real(t, "brier_before", before->calibration.brier);
    table_real(t, "brier", after->calibration.brier);
}

static void covariate_columns(Table *t, const Calibration *c, const char *name) {
    const struct {
        const char *format;
        double value;
    } columns[] = {{"%s_mean", c->mean},
                   {"%s_deviation", c->deviation},
                   {"%s_low", c->low},
                   {"%s_high", c->high},
                   {"temperature_at_%s_low", calibration_temperature(c, c->low)},
                   {"temperature_at_%s_high", calibration_temperature(c, c->high)}};
    table_real(t, "intercept", c->intercept);
    table_real(t, "slope", c->slope);
    for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) {
        OWNED char *column = xformat(columns[k].format, name);
        table_real(t, column, columns[k].value);
    }
}

static void parameter_columns(Table *t, const Calibration *c, const Predictions *p) {
    if (c->kind == CALIBRATION_TEMPERATURE) table_real(t, "temperature", c->temperature);
    if (c->kind == CALIBRATION_VECTOR) {
        table_reals(t, "scale", p->class_names, c->scale, p->classes);
        table_reals(t, "bias", p->class_names, c->bias, p->classes);
    }
    if (c->kind == CALIBRATION_COVARIATE) covariate_columns(t, c, p->covariate.name);
}

static bool draw(const CalibrationReport *r, const Evaluation *e, const char *name, const char *title, Error *error) {
    OWNED char *path = xformat("%s/reliability_%s.svg", r->directory, name);
    TextFile file;
    text_file_begin(&file);
    diagram_reliability(file.out, &e->calibration, title);
    return text_file_end(&file, path, error);
}

static void overview_row(CalibrationReport *r, const char *title, const Evaluation *e) {
    table_text(&r->overview, "calibration", title);
    table_real(&r->overview, "accuracy", e->scores.accuracy);
    table_real(&r->overview, "ece", e->calibration.ece);
    table_real(&r->overview, "adaptive_ece", e->adaptive_ece);
    table_real(&r->overview, "nll", e->calibration.nll);
    table_real(&r->overview, "brier", e->calibration.brier);
}

/* Writes the files of a method that was fitted and evaluated. */
static bool report_method(CalibrationReport *r, const Method *m, const Calibration *c, const Evaluation *after,
                          Error *error) {
    Table line = {0};
    score_columns(&line, &r->before, after);
    parameter_columns(&line, c, r->test);
    OWNED char *path = xformat("%s/%s_results.csv", r->directory, m->name);
    bool ok = table_write_csv(&line, path, error) && draw(r, after, m->name, m->title, error);
    overview_row(r, m->title, after);
    json_auto_t *rows = table_to_json(&line);
    json_object_set(r->json, m->name, json_array_get(rows, 0));
    table_free(&line);
    return ok;
}

static bool try_method(CalibrationReport *r, CalibrationKind kind, Error *error) {
    Calibration c;
    Evaluation after;
    OWNED double *probabilities = xmalloc((size_t)r->test->n * (size_t)r->test->classes * sizeof *probabilities);
    bool ok = *r->fitted = calibration_fit(&c, kind, r->validation, error);
    ok = ok && calibration_apply(&c, r->test, probabilities, error);
    ok = ok && evaluation_of(r->test, probabilities, &after, error);
    if (ok) {
        Method method = method_of(kind, &r->test->covariate);
        ok = report_method(r, &method, &c, &after, error);
        if (r->fits) json_array_append_new(r->fits, calibration_to_json(&c));
        FREE(method.name, method.title);
        evaluation_free(&after);
    }
    if (*r->fitted) calibration_free(&c);
    return ok;
}

static bool write_json(CalibrationReport *r, Error *error) {
    OWNED char *path = xformat("%s/calibration.json", r->directory);
    json_object_update_new(r->json,
                           json_build(path, "{s:I, s:I, s:s?}", "validation_rows", (json_int_t)r->validation->n,
                                      "test_rows", (json_int_t)r->test->n, "at_chance", r->chance));
    return json_write(json_incref(r->json), path, error);
}

static bool write_markdown(const CalibrationReport *r, Error *error) {
    OWNED char *path = xformat("%s/calibration.md", r->directory);
    TextFile file;
    text_file_begin(&file);
    fprintf(file.out, "# Calibration\n\nfitted on %lld validation rows, evaluated on %lld test rows\n\n",
            (long long)r->validation->n, (long long)r->test->n);
    if (r->chance) fprintf(file.out, "the classifier is %s\n\n", r->chance);
    table_print_markdown(&r->overview, r->overview.columns, file.out);
    return markdown_end(&file, path, error);
}

static void print_report(const CalibrationReport *r, bool with_covariate) {
    printf("[Calibration] fitted on %lld validation rows, evaluated on %lld test rows%s\n", (long long)r->validation->n,
           (long long)r->test->n, with_covariate ? "" : "; no temperature by a covariate: there is none");
    table_print(&r->overview, r->overview.columns, stdout);
    printf("[Calibration] written: %s/calibration.json and what belongs to it\n", r->directory);
}

bool report_calibration(const Predictions *validation, const Predictions *test, const char *directory, json_t *fits,
                        bool *fitted, Error *error) {
    CalibrationReport r = {directory, validation, test, .fits = fits, .fitted = fitted};
    *fitted = true;
    if (!evaluation_make(test, 1, &r.before, error)) return false;
    r.json = json_object();
    r.chance = chance_of(&r.before, test->cause);
    bool both = validation->covariate.values && test->covariate.values;
    overview_row(&r, "none", &r.before);
    bool ok = draw(&r, &r.before, "before", "without calibration", error);
    for (CalibrationKind kind = 0; kind < CALIBRATION_KINDS && ok; kind++)
        if (kind != CALIBRATION_COVARIATE || both) ok = try_method(&r, kind, error);
    ok = ok && write_json(&r, error) && write_markdown(&r, error);
    if (ok) print_report(&r, both);
    json_decref(r.json);
    free(r.chance);
    table_free(&r.overview);
    evaluation_free(&r.before);
    return ok;
}
