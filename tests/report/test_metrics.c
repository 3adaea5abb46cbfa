/* The scores of classifiers, compared with values that were computed by hand or published with a model.
 *
 * EXACT is the error of sums of about ten rounded terms of size 1. */
#include "tests/allocations.h"
#include "tests/test.h"

#include "kernels/philox.h"
#include "report/metrics.h"

static Error error;

enum { MOST = 8 };
static const double EXACT = 1e-14;

static const char *const BANDS[] = {"dab", "dvbt", "fm", "gsm", "lte", "tetra"};

static MetricsScores score(const int64_t *confusion, int classes, const char *const *names, MetricsClass *each) {
    MetricsScores scores;
    if (!metrics_scores(confusion, classes, names, each, &scores, &error)) fail_msg("%s", error.text);
    return scores;
}

static const MetricsClass *find(const MetricsClass *each, int classes, const char *name) {
    int c = 0;
    while (c < classes && strcmp(each[c].name, name)) c++;
    if (c == classes) fail_msg("no class %s", name);
    return &each[c];
}

static void confuse(int64_t *confusion, int classes, const int32_t *truth, const int32_t *predicted, int64_t n) {
    if (!metrics_confusion_add(confusion, classes, truth, predicted, n, &error)) fail_msg("%s", error.text);
}

static MetricsCalibration calibrate(const double *probabilities, const int32_t *truth, int64_t n, int classes) {
    MetricsCalibration out;
    if (!metrics_calibration(probabilities, truth, n, classes, &out, &error)) fail_msg("%s", error.text);
    return out;
}

static double fit(const double *logits, const int32_t *truth, int64_t n, int classes) {
    double temperature;
    if (!metrics_fit_temperature(logits, truth, n, classes, &temperature, &error)) fail_msg("%s", error.text);
    return temperature;
}

static int64_t curve(const double *scores, const int32_t *truth, int64_t n, MetricsPoint *points) {
    int64_t count;
    if (!metrics_curve(scores, truth, n, points, &count, &error)) fail_msg("%s", error.text);
    return count;
}

/* ---- the confusion matrix ---- */

static const int32_t BAND_TRUTH[] = {0, 1, 2, 3, 4, 5, 0, 1, 2, 3}, BAND_PREDICTED[] = {0, 1, 2, 3, 4, 5, 1, 1, 2, 3};

TEST(six_bands_with_one_error_match_those_by_hand) {
    int64_t confusion[36] = {0};
    MetricsClass each[6];
    confuse(confusion, 6, BAND_TRUTH, BAND_PREDICTED, 10);
    MetricsScores s = score(confusion, 6, BANDS, each);
    assert_int_equal(s.rows, 10);
    assert_int_equal(s.classes_present, 6);
    assert_near(s.accuracy, 0.9, EXACT);
    assert_near(s.macro.f1, 0.82 / 0.9, EXACT); /* 0.9111.. */
    assert_near(s.weighted.f1, 0.67 / 0.75, EXACT);
    assert_near(s.macro.precision, 17.0 / 18, EXACT);
    assert_near(s.macro.recall, 11.0 / 12, EXACT);
    assert_near(s.macro_all.f1, s.macro.f1, 0);
    assert_near(s.balanced_accuracy, 11.0 / 12, EXACT);
    assert_near(s.weighted.recall, s.accuracy, EXACT);
    assert_near(s.weighted.precision, (2 + 2 * 2.0 / 3 + 6) / 10, EXACT);
    /* 9 of 10 rows are right; the sum of truth * predicted is 18, the sums of squares are 18 and 20 */
    assert_near(s.mcc, (9 * 10 - 18) / sqrt((100.0 - 18) * (100 - 20)), EXACT);
    assert_near(find(each, 6, "dab")->score.f1, 2.0 / 3, EXACT);
    assert_near(find(each, 6, "dvbt")->score.f1, 0.8, EXACT);
    assert_near(find(each, 6, "dvbt")->score.precision, 2.0 / 3, EXACT);
    assert_near(find(each, 6, "dvbt")->score.recall, 1, 0);
    assert_int_equal(find(each, 6, "dvbt")->support, 2);
    assert_int_equal(find(each, 6, "dvbt")->predicted, 3);
}

TEST(batches_add_up) {
    int64_t whole[36] = {0}, parts[36] = {0};
    confuse(whole, 6, BAND_TRUTH, BAND_PREDICTED, 10);
    confuse(parts, 6, BAND_TRUTH, BAND_PREDICTED, 4);
    confuse(parts, 6, BAND_TRUTH + 4, BAND_PREDICTED + 4, 0);
    confuse(parts, 6, BAND_TRUTH + 4, BAND_PREDICTED + 4, 6);
    assert_memory_equal(whole, parts, sizeof whole);
    assert_int_equal(whole[0 * 6 + 1], 1); /* rows are the truth, columns the prediction */
    assert_int_equal(whole[1 * 6 + 0], 0);
}

/* A sensor has only rows of fm and tetra; one row is predicted as lte. */
TEST(absent_classes_keep_their_names) {
    const int32_t truth[] = {2, 2, 2, 5, 5}, predicted[] = {2, 2, 5, 5, 4};
    int64_t confusion[36] = {0};
    MetricsClass each[6];
    confuse(confusion, 6, truth, predicted, 5);
    MetricsScores s = score(confusion, 6, BANDS, each);
    const double fm = 0.8, tetra = 0.5;
    assert_near(find(each, 6, "fm")->score.f1, fm, EXACT);
    assert_near(find(each, 6, "tetra")->score.f1, tetra, EXACT);
    assert_near(find(each, 6, "lte")->score.precision, 0, 0);
    assert_int_equal(find(each, 6, "lte")->predicted, 1);
    assert_int_equal(find(each, 6, "dab")->support, 0);
    assert_near(find(each, 6, "dab")->score.f1, 0, 0);
    assert_int_equal(s.classes_present, 2);
    assert_int_equal(s.classes_scored, 3); /* lte is in the predictions */
    assert_int_equal(s.classes_all, 6);
    assert_near(s.macro.f1, (fm + tetra) / 3, EXACT);
    assert_near(s.macro_all.f1, (fm + tetra) / 6, EXACT);
    assert_near(s.weighted.f1, (3 * fm + 2 * tetra) / 5, EXACT);
    assert_near(s.balanced_accuracy, (2.0 / 3 + 1.0 / 2) / 2, EXACT); /* lte is not in the truth */
}

/* Published with four decimals (specificity: three). */
TEST(scores_match_a_published_error_analysis) {
    static const char *const names[] = {"inactive", "active"};
    const int64_t model[] = {415, 210, 73, 1218}, always_active[] = {0, 625, 0, 1291};
    MetricsClass each[2];
    MetricsScores s = score(model, 2, names, each);
    const MetricsClass *active = find(each, 2, "active");
    assert_near(s.accuracy, 0.8523, 5e-5);
    assert_near(active->score.precision, 0.8529, 5e-5);
    assert_near(active->score.recall, 0.9435, 5e-5);
    assert_near(active->score.f1, 0.8959, 5e-5);
    assert_near(find(each, 2, "inactive")->score.recall, 0.664, 5e-4);
    assert_near(s.balanced_accuracy, 0.8037, 5e-5);
    assert_near(s.mcc, 0.6536, 5e-5);
    s = score(always_active, 2, names, each);
    assert_near(s.accuracy, 0.6738, 5e-5);
    assert_near(active->score.f1, 0.8051, 5e-5);
    assert_near(s.balanced_accuracy, 0.5, 0);
    assert_near(s.mcc, 0, 0);
    assert_int_equal(s.classes_present, 2);
    assert_near(s.macro_all.f1, 0.8051 / 2, 5e-5);
}

TEST(data_without_scores_are_refused) {
    const int32_t truth[] = {0, 1, 1}, beyond[] = {0, 1, 2}, negative[] = {1, -1, 0};
    int64_t confusion[4] = {0}, zeros[4] = {0};
    MetricsClass each[2];
    MetricsScores scores;
    assert_false(metrics_confusion_add(confusion, 2, truth, beyond, 3, &error));
    assert_contains(error.text, "the prediction of row 2 is 2, not one of 0 .. 1");
    assert_false(metrics_confusion_add(confusion, 2, negative, truth, 3, &error));
    assert_contains(error.text, "the label of row 1 is -1");
    assert_memory_equal(confusion, zeros, sizeof zeros); /* unchanged after an error */
    assert_false(metrics_scores(zeros, 2, BANDS, each, &scores, &error));
    assert_contains(error.text, "no rows");
}

/* ---- decisions ---- */

TEST(softmax_matches_that_by_hand) {
    const double logits[] = {0, 2 * log(3), 5, 5, 1e30, -1e30};
    double p[6], same[6];
    assert_true(metrics_softmax(logits, 3, 2, 2, p, &error));
    const double want[] = {0.25, 0.75, 0.5, 0.5, 1, 0};
    for (int i = 0; i < 6; i++) assert_near(p[i], want[i], EXACT);
    memcpy(same, logits, sizeof same);
    assert_true(metrics_softmax(same, 3, 2, 2, same, &error));
    assert_memory_equal(same, p, sizeof p);
    assert_true(metrics_softmax(logits, 3, 2, 1e-320, p, &error)); /* the inverse of this temperature is infinite */
    for (int i = 0; i < 6; i++) assert_near(p[i], i == 0 ? 0 : i == 1 ? 1 : want[i], 0);
    const double bad[] = {0, 1, 2, NAN}, infinite[] = {0, INFINITY, 2, 3};
    assert_false(metrics_softmax(bad, 2, 2, 1, p, &error));
    assert_contains(error.text, "logit [1, 1] is nan");
    assert_false(metrics_softmax(infinite, 2, 2, 1, p, &error));
    assert_contains(error.text, "logit [0, 1] is inf");
    assert_false(metrics_softmax(logits, 3, 2, 0, p, &error));
    assert_contains(error.text, "a temperature of 0");
    assert_false(metrics_softmax(logits, 3, 2, NAN, p, &error));
}

TEST(equal_scores_give_the_lowest_class) {
    const double scores[] = {1, 1, 0, 0, 2, 2, -3, -2, -1}, bad[] = {NAN, 1, 0};
    const int32_t want[] = {0, 1, 2};
    int32_t predicted[3];
    assert_true(metrics_predict(scores, 3, 3, predicted, &error));
    assert_memory_equal(predicted, want, sizeof want);
    assert_false(metrics_predict(bad, 1, 3, predicted, &error));
    assert_contains(error.text, "score [0, 0] is nan");
}

/* ---- thresholds ---- */

TEST(a_curve_matches_that_by_hand) {
    const double scores[] = {0.3, 0.8, 0.9, 0.8};
    const int32_t truth[] = {0, 1, 1, 0};
    MetricsPoint points[4];
    assert_int_equal(curve(scores, truth, 4, points), 3);
    const MetricsPoint want[] = {{0.9, 1, 0}, {0.8, 2, 1}, {0.3, 2, 2}};
    for (int i = 0; i < 3; i++) {
        assert_near(points[i].threshold, want[i].threshold, 0);
        assert_int_equal(points[i].true_positives, want[i].true_positives);
        assert_int_equal(points[i].false_positives, want[i].false_positives);
    }
    MetricsAreas areas = metrics_areas(points, 3);
    assert_near(areas.roc_auc, 3.5 / 4, EXACT);                     /* three of four pairs are in order, one is tied */
    assert_near(areas.average_precision, (1 + 2.0 / 3) / 2, EXACT); /* recall comes in halves */
    assert_near(areas.pr_auc, (1 + (1 + 2.0 / 3) / 2) / 2, EXACT);
}

TEST(a_curve_depends_only_on_the_order) {
    const int32_t truth[] = {0, 0, 0, 1, 1};
    const double right[] = {-3, -2, 0, 1e300, 1e301}, wrong[] = {5, 5, 5, 4, 3}, equal[] = {2, 2, 2, 2, 2};
    MetricsPoint points[5];
    MetricsAreas areas = metrics_areas(points, curve(right, truth, 5, points));
    assert_near(areas.roc_auc, 1, EXACT);
    assert_near(areas.average_precision, 1, EXACT);
    assert_near(areas.pr_auc, 1, EXACT);
    areas = metrics_areas(points, curve(wrong, truth, 5, points));
    assert_near(areas.roc_auc, 0, 0);
    assert_near(areas.average_precision, (1.0 / 4 + 2.0 / 5) / 2, EXACT);
    areas = metrics_areas(points, curve(equal, truth, 5, points)); /* one point */
    assert_near(areas.roc_auc, 0.5, EXACT);
    assert_near(areas.average_precision, 0.4, EXACT);
}

TEST(scores_without_a_curve_are_refused) {
    const double scores[] = {0.1, NAN};
    const int32_t positive[] = {1, 1}, both[] = {0, 1}, beyond[] = {0, 2};
    MetricsPoint points[2];
    int64_t count;
    assert_false(metrics_curve(scores, positive, 1, points, &count, &error));
    assert_contains(error.text, "0 negative and 1 positive");
    assert_false(metrics_curve(scores, both, 1, points, &count, &error));
    assert_contains(error.text, "1 negative and 0 positive");
    assert_false(metrics_curve(scores, both, 2, points, &count, &error));
    assert_contains(error.text, "score [1, 0] is nan");
    assert_false(metrics_curve(scores, beyond, 2, points, &count, &error));
    assert_contains(error.text, "the label of row 1 is 2");
}

/* ---- calibration ---- */

TEST(calibration_matches_that_by_hand) {
    const double p[] = {0.7, 0.3, 0.4, 0.6};
    const int32_t truth[] = {0, 0};
    MetricsCalibration c = calibrate(p, truth, 2, 2);
    assert_near(c.brier, (2 * 0.09 + 2 * 0.36) / 2, EXACT);
    assert_near(c.nll, -(log(0.7) + log(0.4)) / 2, EXACT);
    assert_near(c.ece, (0.3 + 0.6) / 2, EXACT);
    assert_int_equal(c.bins[10].rows, 1);
    assert_near(c.bins[10].accuracy, 1, 0);
    assert_near(c.bins[10].confidence, 0.7, EXACT);
    assert_int_equal(c.bins[8].rows, 1); /* 0.6 = 9/15 ends the ninth bin */
    assert_near(c.bins[8].accuracy, 0, 0);
    const double sure[] = {1, 0};
    const int32_t other[] = {1};
    c = calibrate(sure, other, 1, 2);
    assert_near(c.nll, INFINITY, 0);
    assert_near(c.ece, 1, 0);
    assert_near(c.brier, 2, 0);
    assert_int_equal(c.bins[14].rows, 1);
}

TEST(known_confidences_have_their_calibration_error) {
    const double confidences[] = {.2, .35, .4, .55, .62, .71, .83, .9, .97, 1.0};
    const int32_t truth[] = {1, 0, 0, 2, 0, 0, 0, 3, 0, 0};
    double p[60];
    for (int i = 0; i < 60; i++) p[i] = i % 6 ? (1 - confidences[i / 6]) / 5 : confidences[i / 6];
    MetricsCalibration c = calibrate(p, truth, 10, 6);
    assert_near(c.ece, 0.377, EXACT);
    assert_int_equal(c.bins[2].rows, 1);  /* 0.2 = 3/15 */
    assert_int_equal(c.bins[5].rows, 2);  /* 0.35, 0.4 = 6/15 */
    assert_int_equal(c.bins[13].rows, 1); /* 0.9 */
    assert_near(c.bins[5].confidence, 0.375, EXACT);
    assert_near(c.bins[5].accuracy, 1, 0);
    for (int i = 0; i < 60; i++) p[i] = exp(2 * sin(0.7 * i));
    for (int row = 0; row < 10; row++) {
        double sum = 0;
        for (int k = 0; k < 6; k++) sum += p[row * 6 + k];
        for (int k = 0; k < 6; k++) p[row * 6 + k] /= sum;
    }
    assert_near(calibrate(p, BAND_TRUTH, 10, 6).ece, 0.5112499219886915, EXACT);
}

/* 30 rows, two per bin. Sorted by confidence, the first row and every third after it are wrong. */
TEST(bins_of_equal_shares_have_their_calibration_error) {
    enum { N = 30 };
    double p[2 * N], ece, want = 0;
    int32_t truth[N];
    for (int i = 0; i < N; i++) {
        int row = i * 7 % N; /* their order does not matter */
        p[2 * row] = 0.51 + 0.01 * i;
        p[2 * row + 1] = 1 - p[2 * row];
        truth[row] = i % 3 == 0;
        if (i % 2) want += fabs((truth[row] == 0) + (i % 3 != 1) - (1.01 + 0.02 * i)) / N;
    }
    assert_true(metrics_adaptive_ece(p, truth, N, 2, &ece, &error));
    assert_near(ece, want, EXACT);
    /* Rows of equal confidence share a bin, whatever its borders. */
    for (int i = 0; i < N; i++) p[2 * i] = 0.8, p[2 * i + 1] = 0.2;
    assert_true(metrics_adaptive_ece(p, truth, N, 2, &ece, &error));
    assert_near(ece, 0.8 - 20.0 / N, EXACT);
    p[3] = 0.3;
    assert_false(metrics_adaptive_ece(p, truth, N, 2, &ece, &error));
    assert_contains(error.text, "row 1 sum to 1.1");
}

TEST(three_comments_have_their_mean_likelihood) {
    const double logits[] = {0.3, -0.2, 1, 2, -0.5, 0.5};
    const int32_t truth[] = {0, 1, 0};
    double p[6];
    assert_true(metrics_softmax(logits, 3, 2, 1, p, &error));
    assert_near(calibrate(p, truth, 3, 2).nll, 0.700200120, 5e-10);
}

TEST(numbers_that_are_not_probabilities_are_refused) {
    const int32_t truth[] = {0, 1}, beyond[] = {0, 2};
    MetricsCalibration out;
    const double nan[] = {0.5, 0.5, NAN, 1}, logit[] = {0.5, 0.5, -0.5, 1.5}, sum[] = {0.5, 0.5, 0.5, 0.49};
    const double rounded[] = {0.5, 0.5, 0.5, 0.499};
    assert_false(metrics_calibration(nan, truth, 2, 2, &out, &error));
    assert_contains(error.text, "probability [1, 0] is nan");
    assert_false(metrics_calibration(logit, truth, 2, 2, &out, &error));
    assert_contains(error.text, "probability [1, 0] is -0.5, not within 0 .. 1");
    assert_false(metrics_calibration(sum, truth, 2, 2, &out, &error));
    assert_contains(error.text, "row 1 sum to 0.99");
    assert_true(metrics_calibration(rounded, truth, 2, 2, &out, &error));
    assert_false(metrics_calibration(rounded, beyond, 2, 2, &out, &error));
    assert_contains(error.text, "the label of row 1 is 2");
    assert_false(metrics_calibration(rounded, truth, 0, 2, &out, &error));
    assert_contains(error.text, "no rows");
}

/* ---- the temperature ---- */

/* Rows have logits (d, 0) and a share q is of the first class: the likelihood is highest where sigmoid(d / T) = q. */
TEST(the_temperature_matches_that_by_hand) {
    const double scales[] = {1e-6, 0.1, 1, 3, 1e6}; /* T = 3 / ln 3 in units of the logits */
    const int32_t truth[] = {0, 1, 0, 0};
    double logits[8];
    for (int s = 0; s < 5; s++) {
        for (int i = 0; i < 8; i++) logits[i] = i % 2 ? 0 : 3 * scales[s];
        assert_near(fit(logits, truth, 4, 2) / scales[s], 3 / log(3), 1e-13);
    }
}

enum { ROWS = 500, CLASSES = 6 };

/* Draws normal logits, and labels from softmax(logits / sharpness): the best temperature is near sharpness. */
static void draw_rows(double sharpness, double *logits, int32_t *truth) {
    double p[CLASSES];
    for (int i = 0; i < ROWS; i++) {
        double *row = logits + (long)i * CLASSES, left = (double)philox_uniform(3, PURPOSE_TEST, 0, (uint64_t)i);
        for (int k = 0; k < CLASSES; k++)
            row[k] = 2 * (double)philox_normal(3, PURPOSE_TEST, 1, (uint64_t)(i * CLASSES + k));
        if (!metrics_softmax(row, 1, CLASSES, sharpness, p, &error)) fail_msg("%s", error.text);
        truth[i] = 0;
        while (truth[i] < CLASSES - 1 && left > p[truth[i]]) left -= p[truth[i]++];
    }
}

static double nll_at(double log_temperature, const double *logits, const int32_t *truth) {
    static double p[ROWS * CLASSES];
    if (!metrics_softmax(logits, ROWS, CLASSES, exp(log_temperature), p, &error)) fail_msg("%s", error.text);
    return calibrate(p, truth, ROWS, CLASSES).nll;
}

/* No point of a fine grid in ln T is better, the best point is a neighbour, and the slope, by central differences, is
 * 0. The error of the differences is step^2 / 6 of a third derivative of size 1, plus the rounding of NLL (1e-15) over
 * the step. The labels are a sample: the information of a row about ln T is the variance of its logits / T under the
 * softmax, at least 0.4 here. */
TEST(the_temperature_is_the_best_one) {
    static double logits[ROWS * CLASSES];
    static int32_t truth[ROWS];
    const double sharpness[] = {0.5, 1, 1.5, 3}, grid = 1.0 / 256, step = 1e-4;
    for (int t = 0; t < 4; t++) {
        draw_rows(sharpness[t], logits, truth);
        double s = log(fit(logits, truth, ROWS, CLASSES)), least = nll_at(s, logits, truth), best = INFINITY, at = 0;
        for (int k = -512; k <= 512; k++) {
            double nll = nll_at(k * grid, logits, truth);
            assert_true(nll >= least - 1e-14);
            if (nll < best) best = nll, at = k * grid;
        }
        assert_near(s, at, grid);
        assert_near(s, log(sharpness[t]), 4 / sqrt(ROWS * 0.29));
        double slope = (nll_at(s + step, logits, truth) - nll_at(s - step, logits, truth)) / (2 * step);
        double beside = (nll_at(s + grid + step, logits, truth) - nll_at(s + grid - step, logits, truth)) / (2 * step);
        assert_near(slope, 0, step * step);
        assert_true(beside > 100 * step * step);
    }
}

TEST(data_without_a_best_temperature_are_refused) {
    const double logits[] = {2, 0, 0, 1}, bad[] = {2, 0, NAN, 1}, equal[] = {1, 1, 0.1, 0.1};
    const int32_t right[] = {0, 1}, wrong[] = {1, 0}, beyond[] = {0, 5};
    double temperature;
    assert_false(metrics_fit_temperature(logits, right, 2, 2, &temperature, &error));
    assert_contains(error.text, "all 2 rows are right");
    assert_false(metrics_fit_temperature(logits, wrong, 2, 2, &temperature, &error));
    assert_contains(error.text, "do not favour the labels");
    assert_false(metrics_fit_temperature(equal, right, 2, 2, &temperature, &error));
    assert_false(metrics_fit_temperature(logits, right, 0, 2, &temperature, &error));
    assert_false(metrics_fit_temperature(bad, right, 2, 2, &temperature, &error));
    assert_contains(error.text, "logit [1, 0] is nan");
    assert_false(metrics_fit_temperature(logits, beyond, 2, 2, &temperature, &error));
    assert_contains(error.text, "the label of row 1 is 5");
}

/* ---- weights ---- */

TEST(class_weights_match_three_published_datasets) {
    const int64_t archive[] = {13778, 20401, 18067, 18519, 15823, 11674}; /* published with four decimals */
    const double archive_weights[] = {1.1466, 0.7744, 0.8744, 0.8530, 0.9984, 1.3532};
    const int64_t tokens[] = {13778, 14347, 17622, 18964, 17171, 16380};
    const double token_weights[] = {1.1736, 1.1271, 0.9176, 0.8527, 0.9417, 0.9872};
    double w[MOST], sum = 0;
    metrics_class_weights(archive, 6, METRICS_WEIGHTS_INVERSE, w);
    for (int c = 0; c < 6; c++) assert_near(w[c], archive_weights[c], 5e-5);
    for (int c = 0; c < 6; c++) sum += w[c];
    assert_near(sum, 6, EXACT);
    metrics_class_weights(tokens, 6, METRICS_WEIGHTS_INVERSE, w);
    for (int c = 0; c < 6; c++) assert_near(w[c], token_weights[c], 5e-5);
    const int64_t comments[] = {19886, 4162}, seventy[] = {70, 30};
    metrics_class_weights(comments, 2, METRICS_WEIGHTS_BALANCED, w);
    assert_near(w[0], 0.6046464850, 5e-11);
    assert_near(w[1], 2.8889956752, 5e-11);
    metrics_class_weights(seventy, 2, METRICS_WEIGHTS_BALANCED, w);
    assert_near(w[0], 5.0 / 7, EXACT);
    assert_near(w[1], 5.0 / 3, EXACT);
}

TEST(an_absent_class_weighs_one) {
    const int64_t counts[] = {30, 0, 10};
    double w[3];
    metrics_class_weights(counts, 3, METRICS_WEIGHTS_INVERSE, w);
    const double inverse[] = {0.5, 1, 1.5}, balanced[] = {2.0 / 3, 1, 2};
    for (int c = 0; c < 3; c++) assert_near(w[c], inverse[c], EXACT);
    metrics_class_weights(counts, 3, METRICS_WEIGHTS_BALANCED, w);
    for (int c = 0; c < 3; c++) assert_near(w[c], balanced[c], EXACT);
}

TEST(only_the_adaptive_bins_allocate) {
    int64_t before = allocation_count();
    six_bands_with_one_error_match_those_by_hand();
    a_curve_matches_that_by_hand();
    calibration_matches_that_by_hand();
    the_temperature_matches_that_by_hand();
    class_weights_match_three_published_datasets();
    assert_int_equal(allocation_count(), before);
}
