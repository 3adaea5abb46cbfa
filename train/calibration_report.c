/* What calibrations change, method by method. */
#include <stdlib.h>
#include <string.h>

#include "train/calibration.h"
#include "train/classification_report.h"
#include "train/diagrams.h"
#include "train/table.h"

/* A method and the files that it is reported in. */
static const struct {
    const char *name, *title;
    CalibrationKind kind;
} METHODS[] = {
    {"temp_scaling", "temperature", CALIBRATION_TEMPERATURE},
    {"vector_scaling", "vector scaling", CALIBRATION_VECTOR},
    {"snr_aware", "temperature by SNR", CALIBRATION_SNR},
};
enum { METHODS_COUNT = sizeof METHODS / sizeof *METHODS };

typedef struct {
    const char *directory;
    const Predictions *validation, *test;
    Evaluation before; /* of the test rows, as the model has them */
    Table overview;    /* a row a method */
    json_t *json;
    bool *fitted;
} CalibrationReport;

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

static void class_columns(Table *t, const char *what, const double *values, const char *const *names, int classes) {
    for (int c = 0; c < classes; c++) {
        char *column = xformat("%s_%s", what, names[c]);
        table_real(t, column, values[c]);
        free(column);
    }
}

static void parameter_columns(Table *t, const Calibration *c, const Predictions *p) {
    switch (c->kind) {
    case CALIBRATION_TEMPERATURE:
        table_real(t, "temperature", c->temperature);
        break;
    case CALIBRATION_VECTOR:
        class_columns(t, "scale", c->scale, p->class_names, p->classes);
        class_columns(t, "bias", c->bias, p->class_names, p->classes);
        break;
    case CALIBRATION_SNR:
        table_real(t, "intercept", c->intercept);
        table_real(t, "slope", c->slope);
        table_real(t, "snr_mean", c->snr_mean);
        table_real(t, "snr_deviation", c->snr_deviation);
        table_real(t, "snr_low", c->snr_low);
        table_real(t, "snr_high", c->snr_high);
        table_real(t, "temperature_at_snr_low", calibration_temperature(c, c->snr_low));
        table_real(t, "temperature_at_snr_high", calibration_temperature(c, c->snr_high));
        break;
    }
}

static bool draw(const CalibrationReport *r, const Evaluation *e, const char *name, const char *title, Error *error) {
    char *path = xformat("%s/reliability_%s.svg", r->directory, name);
    bool fine = diagram_reliability(path, &e->calibration, title, error);
    free(path);
    return fine;
}

static void overview_row(CalibrationReport *r, const char *title, const Evaluation *e) {
    table_text(&r->overview, "calibration", title);
    table_real(&r->overview, "accuracy", e->scores.accuracy);
    table_real(&r->overview, "ece", e->calibration.ece);
    table_real(&r->overview, "adaptive_ece", e->adaptive_ece);
    table_real(&r->overview, "nll", e->calibration.nll);
    table_real(&r->overview, "brier", e->calibration.brier);
}

/* The files of a method that is fitted and judged. */
static bool report_method(CalibrationReport *r, int method, const Calibration *c, const Evaluation *after,
                          Error *error) {
    Table line = {0};
    score_columns(&line, &r->before, after);
    parameter_columns(&line, c, r->test);
    char *path = xformat("%s/%s_results.csv", r->directory, METHODS[method].name);
    bool fine =
        table_write_csv(&line, path, error) && draw(r, after, METHODS[method].name, METHODS[method].title, error);
    overview_row(r, METHODS[method].title, after);
    json_t *rows = table_to_json(&line);
    json_object_set(r->json, METHODS[method].name, json_array_get(rows, 0));
    json_decref(rows);
    free(path);
    table_free(&line);
    return fine;
}

static bool try_method(CalibrationReport *r, int method, Error *error) {
    Calibration c;
    Evaluation after;
    double *probabilities = xmalloc((size_t)r->test->n * (size_t)r->test->classes * sizeof *probabilities);
    bool fine = *r->fitted = calibration_fit(&c, METHODS[method].kind, r->validation, error);
    fine = fine && calibration_apply(&c, r->test, probabilities, error);
    fine = fine && evaluation_of(r->test, probabilities, &after, error);
    if (fine) {
        fine = report_method(r, method, &c, &after, error);
        evaluation_free(&after);
    }
    if (*r->fitted) calibration_free(&c);
    free(probabilities);
    return fine;
}

static bool write_json(CalibrationReport *r, Error *error) {
    char *path = xformat("%s/calibration.json", r->directory);
    json_object_set_new(r->json, "validation_rows", json_integer(r->validation->n));
    json_object_set_new(r->json, "test_rows", json_integer(r->test->n));
    bool fine = json_write(json_incref(r->json), path, error);
    free(path);
    return fine;
}

static void print_report(const CalibrationReport *r, bool with_snr) {
    printf("[Calibration] fitted on %lld validation rows, judged on %lld test rows%s\n", (long long)r->validation->n,
           (long long)r->test->n, with_snr ? "" : "; no temperature by SNR: there is no SNR");
    table_print(&r->overview, r->overview.columns, stdout);
    printf("[Calibration] written: %s/calibration.json and what belongs to it\n", r->directory);
}

bool report_calibration(const Predictions *validation, const Predictions *test, const char *directory, bool *fitted,
                        Error *error) {
    CalibrationReport r = {directory, validation, test, .fitted = fitted};
    *fitted = true;
    if (!evaluation_make(test, 1, &r.before, error)) return false;
    r.json = json_object();
    bool with_snr = validation->snr && test->snr;
    overview_row(&r, "none", &r.before);
    bool fine = draw(&r, &r.before, "before", "without calibration", error);
    for (int m = 0; m < METHODS_COUNT && fine; m++)
        if (METHODS[m].kind != CALIBRATION_SNR || with_snr) fine = try_method(&r, m, error);
    fine = fine && write_json(&r, error);
    if (fine) print_report(&r, with_snr);
    json_decref(r.json);
    table_free(&r.overview);
    evaluation_free(&r.before);
    return fine;
}
