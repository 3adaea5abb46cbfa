/* Calibrations of predicted probabilities: fits, their files, and their evaluation. */
#include "report/calibration.h"

#include "report/classification_report.h"
#include "tests/report/rig.h"

static Error error;

static const double EXACT = 1e-14; /* error of sums of about ten rounded terms of size 1 */

/* Rows whose labels have exactly the frequencies of their probabilities: every pattern, in sixths over three classes,
 * has six copies with labels in these proportions. So the map from logits to these probabilities is the best
 * calibration. */
enum {
    PATTERNS = 6,
    COPIES = 6,
    THREE = 3,
    SNRS = 4,
    MOST_TIMES = 64,
    MOST_ROWS = PATTERNS * COPIES * SNRS * MOST_TIMES
};
static const int SIXTHS[PATTERNS][THREE] = {{1, 2, 3}, {3, 1, 2}, {4, 1, 1}, {1, 4, 1}, {2, 3, 1}, {1, 1, 4}};
static const char *const LETTERS[] = {"a", "b", "c"};

typedef struct {
    double logits[MOST_ROWS * THREE], snr[MOST_ROWS];
    int32_t truth[MOST_ROWS];
    int64_t ids[MOST_ROWS];
    Predictions predictions;
} TrueRows;

/* Logits from log probabilities: (temperature * ln p - bias) / scale. The temperature is multiplied by
 * exp(slope * z), where z is -1.34, -0.45, 0.45, 1.34 at 0, 10, 20, 30 dB. */
typedef struct {
    double temperature, slope;
    const double *scale, *bias; /* [THREE], or NULL */
} Distortion;

static TrueRows *true_rows(Distortion d, int times) {
    TrueRows *r = xmalloc(sizeof *r);
    int64_t n = 0;
    for (int t = 0; t < times; t++)
        for (int s = 0; s < SNRS; s++)
            for (int k = 0; k < PATTERNS * COPIES; k++, n++) {
                const int *sixths = SIXTHS[k / COPIES];
                int copy = k % COPIES;
                r->ids[n] = n;
                r->snr[n] = 10 * s;
                r->truth[n] = copy < sixths[0] ? 0 : copy < sixths[0] + sixths[1] ? 1 : 2;
                double temperature = d.temperature * exp(d.slope * (r->snr[n] - 15) / sqrt(125));
                for (int c = 0; c < THREE; c++)
                    r->logits[n * THREE + c] =
                        (temperature * log(sixths[c] / 6.0) - (d.bias ? d.bias[c] : 0)) / (d.scale ? d.scale[c] : 1);
            }
    r->predictions = (Predictions){.n = n,
                                   .classes = THREE,
                                   .class_names = LETTERS,
                                   .logits = r->logits,
                                   .truth = r->truth,
                                   .ids = r->ids,
                                   .covariate = snr_of(r->snr)};
    return r;
}

static Calibration fit(CalibrationKind kind, const TrueRows *rows) {
    Calibration c;
    if (!calibration_fit(&c, kind, &rows->predictions, &error)) fail_msg("%s", error.text);
    return c;
}

TEST(known_temperatures_are_found) {
    const double temperatures[] = {0.1, 0.5, 1, 2.95, 20};
    for (int t = 0; t < 5; t++) {
        TrueRows *rows = true_rows((Distortion){.temperature = temperatures[t]}, 1);
        Calibration c = fit(CALIBRATION_TEMPERATURE, rows);
        assert_near(c.temperature / temperatures[t], 1,
                    1e-12); /* rounding of the logits of 144 rows over their variance */
        calibration_free(&c);
        free(rows);
    }
}

/* Returns how far the prior, which weighs as much as one row, moves the minimum: with four times the rows a quarter as
 * far, if the shift is small. There is no other error, because the fit has converged. */
static double snr_shift(Distortion d, int times) {
    TrueRows *rows = true_rows(d, times);
    Calibration c = fit(CALIBRATION_COVARIATE, rows);
    double shift = d.slope - c.slope;
    assert_near(c.mean, 15, EXACT * 15);
    assert_near(c.deviation, sqrt(125), EXACT * 100);
    assert_near(log(calibration_temperature(&c, 20)), log(d.temperature) + d.slope * 5 / sqrt(125),
                2 * fabs(shift) + 1e-9);
    assert_near(calibration_temperature(&c, 500), calibration_temperature(&c, 30), 0); /* no extrapolation */
    assert_near(calibration_temperature(&c, -500), calibration_temperature(&c, 0), 0);
    assert_true(c.iterations < 12);
    calibration_free(&c);
    free(rows);
    return shift;
}

TEST(a_planted_slope_over_snr_is_found) {
    const double slopes[] = {-0.8, 0.3, 1.5};
    for (int s = 0; s < 3; s++) {
        Distortion d = {.temperature = 2, .slope = slopes[s]};
        double few = snr_shift(d, 16), many = snr_shift(d, 64);
        assert_true(fabs(few) < 0.01 && few * slopes[s] > 0);
        assert_near(few / many, 4, 0.04);
    }
    assert_near(snr_shift((Distortion){.temperature = 3}, 16), 0, 1e-9); /* a standard error is 1/30; times 1e-8 */
}

TEST(snr_without_spread_gives_a_plain_temperature) {
    TrueRows *rows = true_rows((Distortion){.temperature = 2}, 1);
    for (int i = 0; i < MOST_ROWS; i++) rows->snr[i] = 0.1;
    Calibration c = fit(CALIBRATION_COVARIATE, rows);
    assert_near(calibration_temperature(&c, 0.1), 2, 1e-9);
    assert_near(calibration_temperature(&c, 77), calibration_temperature(&c, 0.1), 0);
    assert_near(c.slope, 0, 0);
    calibration_free(&c);
    rows->predictions.covariate.values = NULL;
    assert_false(calibration_fit(&c, CALIBRATION_COVARIATE, &rows->predictions, &error));
    assert_contains(error.text, "the rows have none");
    free(rows);
}

/* Only differences of biases matter; the prior makes their sum 0. */
static double vector_shift(Distortion d, int times) {
    TrueRows *rows = true_rows(d, times);
    Calibration c = fit(CALIBRATION_VECTOR, rows);
    double worst = 0, sum = 0;
    for (int k = 0; k < THREE; k++) {
        worst = fmax(worst, fabs(c.scale[k] - d.scale[k]));
        worst = fmax(worst, fabs(c.bias[k] - d.bias[k]));
        sum += c.bias[k];
    }
    assert_near(sum, 0, 1e-9);
    assert_true(c.iterations < 12);
    calibration_free(&c);
    free(rows);
    return worst;
}

TEST(a_planted_scale_and_bias_is_found) {
    const double scale[] = {0.5, 1.5, 0.8}, bias[] = {0.7, -0.4, -0.3};
    Distortion d = {.temperature = 1, .scale = scale, .bias = bias};
    double few = vector_shift(d, 16), many = vector_shift(d, 64);
    assert_true(few < 0.02);
    assert_near(few / many, 4, 4 * few * 5 / 2); /* a logit, at most 5, times the shift is the change of the Hessian */
}

/* Returns the objective that a fit minimises, computed from the calibrated probabilities. */
static double objective(const Calibration *c, const Predictions *p) {
    double *probabilities = xmalloc((size_t)p->n * THREE * sizeof *probabilities), sum = 0;
    Evaluation e;
    if (!calibration_apply(c, p, probabilities, &error) || !evaluation_of(p, probabilities, &e, &error))
        fail_msg("%s", error.text);
    for (int k = 0; k < THREE && c->kind == CALIBRATION_VECTOR; k++)
        sum += (c->scale[k] - 1) * (c->scale[k] - 1) + c->bias[k] * c->bias[k];
    sum = sum / 2 + c->slope * c->slope / 2 + e.calibration.nll * (double)p->n;
    evaluation_free(&e);
    free(probabilities);
    return sum;
}

/* Fails unless the slope along one parameter is 0, by central differences. Their error is step^2 / 6 of a third
 * derivative, which is below n times a logit cubed, 144 * 5^3, plus the rounding of a sum of about 100 over the step. A
 * fit that stops a tenth of a standard error before the minimum has a slope of a tenth of the root of the
 * curvature, 50. */
static void assert_flat(const Calibration *c, double *parameter, const Predictions *p) {
    const double step = 1e-5, at = *parameter;
    *parameter = at + step;
    double above = objective(c, p);
    *parameter = at - step;
    double below = objective(c, p);
    *parameter = at;
    assert_near((above - below) / (2 * step), 0, step * step / 6 * 144 * 125 + 300 * 0x1p-52 * 10 / step);
    assert_true(above > objective(c, p) && below > objective(c, p));
}

/* No calibration of this form fits the rows exactly: their temperature depends on the root of the SNR. */
TEST(fits_end_at_the_minimum) {
    TrueRows *rows = true_rows((Distortion){.temperature = 2, .slope = 1}, 1);
    Predictions *p = &rows->predictions;
    for (int i = 0; i < p->n; i++) rows->snr[i] *= rows->snr[i];
    Calibration snr = fit(CALIBRATION_COVARIATE, rows), vector = fit(CALIBRATION_VECTOR, rows);
    assert_flat(&snr, &snr.intercept, p);
    assert_flat(&snr, &snr.slope, p);
    for (int k = 0; k < THREE; k++) {
        assert_flat(&vector, &vector.scale[k], p);
        assert_flat(&vector, &vector.bias[k], p);
    }
    assert_true(snr.iterations < 12 &&
                vector.iterations < 12); /* without a term of the Hessian there would be half as many more */
    calibration_free(&snr);
    calibration_free(&vector);
    free(rows);
}

/* Every kind survives its JSON to the bit; a number that is missing is named. */
TEST(calibrations_are_kept_as_json) {
    TrueRows *rows = true_rows((Distortion){.temperature = 2, .slope = 0.3}, 1);
    const Predictions *p = &rows->predictions;
    size_t bytes = (size_t)p->n * THREE * sizeof(double);
    double *want = xmalloc(bytes), *got = xmalloc(bytes);
    for (CalibrationKind kind = 0; kind < CALIBRATION_KINDS; kind++) {
        static const char *const needed[CALIBRATION_KINDS] = {"temperature", "bias", "slope"};
        Calibration fitted = fit(kind, rows), kept;
        json_t *made = calibration_to_json(&fitted);
        char *text = keep(json_text("a calibration", made, JSON_REAL_PRECISION(17)));
        json_t *json = json_loads(text, 0, NULL);
        assert_true(calibration_from_json(json, THREE, &kept, &error));
        assert_true(calibration_apply(&fitted, p, want, &error) && calibration_apply(&kept, p, got, &error));
        assert_memory_equal(want, got, bytes);
        calibration_free(&kept);
        json_object_del(json, needed[kind]);
        assert_false(calibration_from_json(json, THREE, &kept, &error));
        assert_contains(error.text, needed[kind]);
        calibration_free(&fitted);
        json_decref(made);
        json_decref(json);
    }
    free(want);
    free(got);
    free(rows);
}

TEST(the_bias_of_a_class_without_rows_stays_finite) {
    TrueRows *rows = true_rows((Distortion){.temperature = 2}, 1);
    for (int i = 0; i < rows->predictions.n; i++) rows->truth[i] = rows->truth[i] == 2 ? 0 : rows->truth[i];
    Calibration c = fit(CALIBRATION_VECTOR, rows);
    double *p = xmalloc((size_t)rows->predictions.n * THREE * sizeof *p), most = 0;
    assert_true(calibration_apply(&c, &rows->predictions, p, &error));
    for (int i = 0; i < rows->predictions.n; i++) most = fmax(most, p[i * THREE + 2]);
    assert_true(most > 0 && most < 0.1);
    assert_true(fabs(c.bias[2]) < 10);
    calibration_free(&c);
    free(p);
    free(rows);
}

TEST(calibrations_are_evaluated_on_the_test_rows) {
    TrueRows *validation = true_rows((Distortion){.temperature = 2, .slope = 0.5}, 16);
    TrueRows *test = true_rows((Distortion){.temperature = 2, .slope = 0.5}, 4);
    char *directory = kept_folder();
    bool was_fitted;
    if (!report_calibration(&validation->predictions, &test->predictions, directory, NULL, &was_fitted, &error))
        fail_msg("%s", error.text);
    Grid temperature = grid_read(directory, "temp_scaling_results.csv");
    Grid vector = grid_read(directory, "vector_scaling_results.csv"),
         snr = grid_read(directory, "snr_aware_results.csv");
    Evaluation before = evaluate(&test->predictions);
    Calibration fitted = fit(CALIBRATION_COVARIATE, validation), other = fit(CALIBRATION_COVARIATE, test);
    assert_near(grid_number(&temperature, NULL, "ece_before"), before.calibration.ece, 0);
    assert_near(grid_number(&temperature, NULL, "nll_before"), before.calibration.nll, 0);
    assert_near(grid_number(&temperature, NULL, "accuracy"), before.scores.accuracy, 0);
    assert_near(grid_number(&snr, NULL, "slope"), fitted.slope, 0);
    assert_true(fitted.slope != other.slope);
    assert_near(grid_number(&snr, NULL, "temperature_at_snr_high"), 2 * exp(0.5 * 15 / sqrt(125)), 0.02);
    assert_near(grid_number(&snr, NULL, "ece"), 0, 0.005); /* true probabilities, but for the prior's shift */
    assert_near(grid_number(&snr, NULL, "adaptive_ece"), 0, 0.005);
    assert_true(grid_number(&snr, NULL, "nll") < grid_number(&temperature, NULL, "nll"));
    assert_true(grid_number(&temperature, NULL, "nll") < before.calibration.nll);
    assert_true(grid_number(&vector, NULL, "scale_b") < 1);
    json_t *json = json_in(directory, "calibration.json");
    assert_near(number_at(json_object_get(json, "snr_aware"), "slope"), grid_number(&snr, NULL, "slope"), 0);
    assert_near(number_at(json, "validation_rows"), 16 * 144, 0);
    static const char *const pictures[] = {"reliability_before.svg", "reliability_temp_scaling.svg",
                                           "reliability_vector_scaling.svg", "reliability_snr_aware.svg"};
    for (int i = 0; i < 4; i++) svg_in(directory, pictures[i]);
    calibration_free(&fitted);
    calibration_free(&other);
    json_decref(json);
    evaluation_free(&before);
    free(temperature.text);
    free(vector.text);
    free(snr.text);
    free(validation);
    free(test);
}

/* Rows whose labels do not depend on the logits, almost: a temperature fits, and the decisions are at chance. */
TEST(a_report_says_that_the_classifier_is_at_chance) {
    TrueRows *rows = true_rows((Distortion){.temperature = 2}, 4);
    for (int64_t i = 0; i < rows->predictions.n; i++) {
        if (i % 24) rows->truth[i] = (int32_t)(i % THREE);
        for (int c = 0; c < THREE; c++) rows->logits[i * THREE + c] += c == 1 ? 30 : 0;
    }
    rows->predictions.cause = "few steps";
    char *directory = kept_folder(), *path = kept_path(directory, "calibration.md");
    bool was_fitted;
    if (!report_calibration(&rows->predictions, &rows->predictions, directory, NULL, &was_fitted, &error))
        fail_msg("%s", error.text);
    char *text = kept_text(path);
    json_t *json = json_in(directory, "calibration.json");
    assert_contains(text, "the classifier is at chance: balanced accuracy 0.3");
    assert_contains(text, "Likely cause: few steps");
    assert_contains(json_string_value(json_object_get(json, "at_chance")), "at chance: balanced accuracy 0.3");
    json_decref(json);
    free(rows);
}
