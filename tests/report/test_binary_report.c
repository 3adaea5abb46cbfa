/* The report of a threshold: numbers that scikit-learn 1.9.1 and numpy gave for the same rows. */
#include "tests/report/rig.h"

#include <math.h>

#include "report/binary_report.h"

enum { N = 60 };
static const double EXACT = 1e-14;
static const char *const NAMES[2] = {"clean", "rude, or \"worse\""};

static void fill(BinaryRow rows[N], double threshold) {
    for (int i = 0; i < N; i++) {
        double p = (i * 37 + 11) % 53 / 53.0;
        int label = (i * i * 7 + 3 * i) % 10 < 10 * p;
        rows[i] = (BinaryRow){.id = i, .label = i % 7 ? label : !label, .p = p, .logit = NAN, .threshold = threshold};
    }
}

TEST(thresholds_are_swept_as_scikit_learn_scores_them) {
    static const struct {
        int at;
        double accuracy, precision, recall, f1;
    } golden[] = {{0, 0.75, 0.75, 1, 0.857142857142857},
                  {37, 0.633333333333333, 0.810810810810811, 0.666666666666667, 0.731707317073171},
                  {62, 0.483333333333333, 0.818181818181818, 0.4, 0.537313432835821},
                  {100, 0.25, 0, 0, 0}};
    BinaryRow rows[N];
    Sweep s;
    fill(rows, 0.5);
    sweep_make(rows, N, &s);
    for (size_t k = 0; k < sizeof golden / sizeof *golden; k++) {
        int at = golden[k].at;
        assert_near(s.threshold[at], at / 100.0, 0);
        assert_near(s.accuracy[at], golden[k].accuracy, EXACT);
        assert_near(s.precision[at], golden[k].precision, EXACT);
        assert_near(s.recall[at], golden[k].recall, EXACT);
        assert_near(s.f1[at], golden[k].f1, EXACT);
    }
    assert_int_equal(s.best, 8); /* the first of those with the best F1 */
    assert_near(s.f1[8], 0.909090909090909, EXACT);
}

TEST(histograms_are_those_of_numpy) {
    static const int64_t zeros[HISTOGRAM_BINS] = {3, 1,        1,        1,        [10] = 1, [15] = 1, [20] = 1,
                                                  1, [26] = 1, [32] = 1, [38] = 1, [44] = 1, [49] = 1};
    static const int64_t ones[HISTOGRAM_BINS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1,
                                                 1, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 2, 1, 0, 1, 1,
                                                 2, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 1, 2, 1, 1, 1};
    BinaryRow rows[N];
    Histogram h;
    fill(rows, 0.5);
    histogram_make(rows, N, 0, &h);
    assert_true(h.low == 0 && h.high == 52 / 53.0);
    assert_memory_equal(h.rows, zeros, sizeof zeros);
    histogram_make(rows, N, 1, &h);
    assert_true(h.low == 5 / 53.0 && h.high == 51 / 53.0);
    assert_memory_equal(h.rows, ones, sizeof ones);
    histogram_make(rows, 0, 1, &h);
    assert_true(isnan(h.low) && isnan(h.high));
    rows[0].label = 1;
    histogram_make(rows, 1, 1, &h);
    assert_near(h.high - h.low, 1, EXACT);
    assert_int_equal(h.rows[HISTOGRAM_BINS / 2], 1);
}

TEST(the_files_have_the_scores_at_the_threshold) {
    BinaryRow rows[N];
    Error error;
    const char *directory = kept_folder();
    fill(rows, 0.41);
    make_directories(directory);
    if (!report_threshold(rows, N, NAMES, directory, "test", &error)) fail_msg("%s", error.text);
    json_t *root = json_in(directory, "threshold_test.json");
    assert_near(number_at(root, "roc_auc"), 0.674814814814815, EXACT);
    assert_near(number_at(root, "average_precision"), 0.814052247377767, EXACT);
    assert_near(number_at(root, "pr_auc"), 0.800540149151617, EXACT);
    static const int matrix[2][2] = {{9, 6}, {17, 28}};
    for (size_t k = 0; k < 4; k++)
        assert_int_equal(
            json_integer_value(json_array_get(json_array_get(json_at(root, "confusion_matrix"), k / 2), k % 2)),
            matrix[k / 2][k % 2]);
    static const struct {
        int at;
        double value;
    } scores[] = {{BINARY_ACCURACY, 0.616666666666667},
                  {BINARY_PRECISION, 0.823529411764706},
                  {BINARY_RECALL, 0.622222222222222},
                  {BINARY_F1, 0.708860759493671}};
    for (size_t k = 0; k < sizeof scores / sizeof *scores; k++) {
        const json_t *row = json_array_get(json_at(root, "scores"), (size_t)scores[k].at);
        assert_near(number_at(row, "value"), scores[k].value, EXACT);
        assert_true(number_at(row, "low") <= scores[k].value && number_at(row, "high") >= scores[k].value);
    }
    json_decref(root);
    Grid sweep = grid_read(directory, "threshold_test.csv"), histogram = grid_read(directory, "histogram_test.csv");
    assert_int_equal(sweep.rows, 1 + SWEEP_THRESHOLDS);
    assert_near(grid_number(&sweep, "0.37", "f1"), 0.731707317073171, EXACT);
    assert_int_equal(histogram.rows, 1 + 2 * HISTOGRAM_BINS);
    assert_string_equal(histogram.cells[1 + HISTOGRAM_BINS][0], NAMES[1]);
    free(sweep.text);
    free(histogram.text);
    svg_in(directory, "threshold_test.svg");
    svg_in(directory, "outcomes_test.svg");
    char *text = kept_text(kept_path(directory, "threshold_test.md"));
    assert_contains(text, "F1 0.7089, precision 0.8235, recall 0.6222");
}

/* Rows of one class have no curve, and are scored all the same. */
TEST(rows_of_one_class_are_reported_without_areas) {
    BinaryRow rows[N];
    Error error;
    const char *directory = kept_folder();
    fill(rows, 0.5);
    for (int i = 0; i < N; i++) rows[i].label = 1;
    make_directories(directory);
    if (!report_threshold(rows, N, NAMES, directory, "one", &error)) fail_msg("%s", error.text);
    json_t *root = json_in(directory, "threshold_one.json");
    assert_true(json_is_null(json_at(root, "roc_auc")) && json_is_null(json_at(root, "pr_auc")));
    json_decref(root);
    assert_false(report_threshold(rows, 0, NAMES, directory, "none", &error));
    rows[3].p = NAN;
    assert_false(report_threshold(rows, N, NAMES, directory, "nan", &error));
}
