/* The files of an evaluation: tables, JSON and plots.
 *
 * EXACT is the error of sums of about ten rounded terms of size 1; files keep every bit. */
#include "tests/report/rig.h"

#include "report/calibration.h"
#include "report/classification_report.h"

static Error error;

enum { BANDS = 6 };
static const double EXACT = 1e-14;
static const char *const NAMES[BANDS] = {"dab", "dvbt", "fm", "gsm", "lte", "tetra"};

/* ---- predictions ---- */

static const int64_t IDS[] = {100, 101, 102, 103, 104, 105, 106, 107, 108, 109};
static const int32_t TRUTH[] = {0, 1, 2, 3, 4, 5, 0, 1, 2, 3}, TAKEN[] = {0, 1, 2, 3, 4, 5, 1, 1, 2, 3};

/* Returns ten rows that are predicted as TAKEN, with a confidence of 5 / 10. */
static Predictions ten_rows(double *logits) {
    for (int i = 0; i < 10 * BANDS; i++) logits[i] = i % BANDS == TAKEN[i / BANDS] ? log(5) : 0;
    return (Predictions){.n = 10, .classes = BANDS, .class_names = NAMES, .logits = logits, .truth = TRUTH, .ids = IDS};
}

static char *report(const Predictions *p, double temperature, const char *protocol, const char *tag) {
    char *directory = kept_folder();
    if (!report_classification(p, temperature, directory, protocol, tag, &error)) fail_msg("%s", error.text);
    return directory;
}

/* ---- one evaluation ---- */

TEST(six_bands_with_one_error_match_those_by_hand) {
    double logits[60];
    Predictions p = ten_rows(logits);
    char *directory = report(&p, 1, "pooled", "tiny");
    Grid csv = grid_read(directory, "pooled_tiny.csv");
    assert_int_equal(csv.rows, 2);
    assert_near(grid_number(&csv, NULL, "accuracy"), 0.9, EXACT);
    assert_near(grid_number(&csv, NULL, "macro_f1"), 0.82 / 0.9, EXACT);
    assert_near(grid_number(&csv, NULL, "weighted_f1"), 0.67 / 0.75, EXACT);
    assert_near(grid_number(&csv, NULL, "macro_precision"), 17.0 / 18, EXACT);
    assert_near(grid_number(&csv, NULL, "macro_recall"), 11.0 / 12, EXACT);
    assert_near(grid_number(&csv, NULL, "f1_dab"), 2.0 / 3, EXACT);
    assert_near(grid_number(&csv, NULL, "f1_dvbt"), 0.8, EXACT);
    assert_near(grid_number(&csv, NULL, "f1_tetra"), 1, 0);
    assert_near(grid_number(&csv, NULL, "n"), 10, 0);
    assert_near(grid_number(&csv, NULL, "ece"), 0.4, EXACT); /* half sure, nine tenths right */
    assert_near(grid_number(&csv, NULL, "adaptive_ece"), 0.4, EXACT);
    assert_near(grid_number(&csv, NULL, "nll"), -(9 * log(0.5) + log(0.1)) / 10, EXACT);
    assert_near(grid_number(&csv, NULL, "brier"), (9 * (0.25 + 0.05) + (0.25 + 0.81 + 0.04)) / 10, EXACT);
    assert_true(grid_number(&csv, NULL, "accuracy_low") < 0.9 && grid_number(&csv, NULL, "accuracy_high") >= 0.9);
    assert_true(grid_number(&csv, NULL, "macro_f1_low") < 0.9 && grid_number(&csv, NULL, "macro_f1_high") <= 1);
    free(csv.text);
    csv = grid_read(directory, "per_class_tiny.csv");
    assert_int_equal(csv.rows, 1 + BANDS);
    assert_near(grid_number(&csv, "dvbt", "support"), 2, 0);
    assert_near(grid_number(&csv, "dvbt", "predicted"), 3, 0);
    assert_near(grid_number(&csv, "dvbt", "precision"), 2.0 / 3, EXACT);
    assert_near(grid_number(&csv, "dvbt", "recall"), 1, 0);
    free(csv.text);
    json_t *json = json_in(directory, "pooled_tiny.json"), *intervals = json_object_get(json, "intervals");
    assert_near(number_at(json_object_get(json, "scores"), "macro_f1"), 0.82 / 0.9, EXACT);
    assert_string_equal(json_string_value(json_object_get(intervals, "drawn_unit")), "row");
    assert_near(number_at(intervals, "drawn"), 10, 0);
    assert_near(number_at(json_array_get(json_object_get(json, "confusion"), 0), "dvbt"), 1, 0);
    assert_null(json_object_get(json, "per_snr"));
    json_decref(json);
}

TEST(known_probabilities_have_their_calibration_error) {
    double logits[60], halved[60];
    Predictions p = ten_rows(logits);
    for (int i = 0; i < 60; i++) halved[i] = (logits[i] = 2 * sin(0.7 * i)) / 2;
    char *directory = report(&p, 1, "pooled", "sines");
    Grid csv = grid_read(directory, "pooled_sines.csv");
    assert_near(grid_number(&csv, NULL, "ece"), 0.5112499219886915, EXACT);
    free(csv.text);
    p.logits = halved; /* a temperature divides */
    directory = report(&p, 0.5, "pooled", "sines");
    csv = grid_read(directory, "pooled_sines.csv");
    assert_near(grid_number(&csv, NULL, "ece"), 0.5112499219886915, EXACT);
    assert_near(grid_number(&csv, NULL, "temperature"), 0.5, 0);
    free(csv.text);
    csv = grid_read(directory, "predictions_sines.csv");
    Evaluation e = evaluate(
        &(Predictions){.n = 10, .classes = BANDS, .class_names = NAMES, .logits = logits, .truth = TRUTH, .ids = IDS});
    for (int i = 0; i < 10; i++) { /* equal in every bit */
        assert_near(strtod(csv.cells[1 + i][0], NULL), 100 + i, 0);
        assert_string_equal(csv.cells[1 + i][1], NAMES[TRUTH[i]]);
        assert_string_equal(csv.cells[1 + i][2], NAMES[e.predicted[i]]);
        for (int c = 0; c < BANDS; c++)
            assert_near(strtod(csv.cells[1 + i][3 + c], NULL), e.probabilities[i * BANDS + c], 0);
    }
    assert_string_equal(csv.cells[0][3], "p_dab");
    evaluation_free(&e);
    free(csv.text);
}

/* A sensor has only rows of fm and tetra; one row is predicted as lte. */
TEST(absent_classes_keep_their_names) {
    const int32_t truth[] = {2, 2, 2, 5, 5}, taken[] = {2, 2, 5, 5, 4};
    double logits[5 * BANDS] = {0};
    for (int i = 0; i < 5; i++) logits[i * BANDS + taken[i]] = 3;
    Predictions p = {.n = 5, .classes = BANDS, .class_names = NAMES, .logits = logits, .truth = truth, .ids = IDS};
    char *directory = report(&p, 1, "loso", "one");
    Grid csv = grid_read(directory, "loso_one.csv");
    assert_near(grid_number(&csv, NULL, "f1_fm"), 0.8, EXACT);
    assert_near(grid_number(&csv, NULL, "f1_tetra"), 0.5, EXACT);
    assert_near(grid_number(&csv, NULL, "f1_dab"), 0, 0);
    assert_near(grid_number(&csv, NULL, "f1_dvbt"), 0, 0);
    assert_near(grid_number(&csv, NULL, "macro_f1"), 1.3 / 3, EXACT);
    assert_near(grid_number(&csv, NULL, "macro_f1_all_classes"), 1.3 / 6, EXACT);
    free(csv.text);
    csv = grid_read(directory, "per_class_one.csv");
    assert_near(grid_number(&csv, "dab", "support"), 0, 0);
    assert_near(grid_number(&csv, "fm", "support"), 3, 0);
    assert_near(grid_number(&csv, "lte", "predicted"), 1, 0);
    free(csv.text);
    char *path = kept_path(directory, "loso_one.md"), *markdown = kept_text(path);
    assert_contains(markdown, "| macro F1, 3 classes in truth or prediction | 0.4333 |");
    assert_contains(markdown, "| macro F1, all 6 classes | 0.2167 |");
    assert_contains(markdown, "| fm | 3 | 2 | 1.0000 | 0.6667 | 0.8000 |");
}

static const char *const SENSORS[] = {"Bari, \"north\"", "unheard", "Rome | 2"};

static Predictions with_sensors(double *logits) {
    static const int32_t sensor[] = {0, 0, 0, 0, 0, 0, 2, 2, 2, 2};
    static const double snr[] = {-0.5, 0, 4.99, 5, 12, 12, -5, 31, 31, 34.999};
    Predictions p = ten_rows(logits);
    p.group = sensor, p.n_groups = 3, p.group_names = SENSORS, p.group_kind = "sensor", p.covariate = snr_of(snr);
    return p;
}

TEST(tables_are_grouped_by_sensor_and_snr) {
    double logits[60];
    Predictions p = with_sensors(logits);
    char *directory = report(&p, 1, "pooled", "by");
    Grid csv = grid_read(directory, "per_sensor_by.csv");
    assert_int_equal(csv.rows, 3); /* one sensor has no rows */
    assert_near(grid_number(&csv, SENSORS[0], "rows"), 6, 0);
    assert_near(grid_number(&csv, SENSORS[0], "accuracy"), 1, 0);
    assert_near(grid_number(&csv, SENSORS[2], "accuracy"), 0.75, 0);
    assert_near(grid_number(&csv, SENSORS[2], "classes_present"), 4, 0);
    assert_near(grid_number(&csv, SENSORS[2], "classes_scored"), 4, 0);
    assert_near(grid_number(&csv, SENSORS[2], "macro_f1"), (0 + 2.0 / 3 + 1 + 1) / 4, EXACT);
    free(csv.text);
    csv = grid_read(directory, "per_snr_by.csv");
    const double want[][3] = {{-5, 2, 0.5}, {0, 2, 1}, {5, 1, 1}, {10, 2, 1}, {30, 3, 1}};
    assert_int_equal(csv.rows, 6);
    for (int b = 0; b < 5; b++) {
        assert_near(strtod(csv.cells[1 + b][0], NULL), want[b][0], 0);
        assert_near(strtod(csv.cells[1 + b][1], NULL), want[b][0] + 5, 0);
        assert_near(strtod(csv.cells[1 + b][2], NULL), want[b][1], 0);
        assert_near(strtod(csv.cells[1 + b][4], NULL), want[b][2], 0);
    }
    assert_string_equal(csv.cells[0][4], "accuracy");
    free(csv.text);
    json_t *json = json_in(directory, "pooled_by.json"), *intervals = json_object_get(json, "intervals");
    assert_string_equal(json_string_value(json_object_get(intervals, "drawn_unit")), "sensor");
    assert_near(number_at(intervals, "drawn"), 2, 0);
    /* If two sensors are drawn with replacement, a quarter of the pairs is twice the first, a quarter twice the other.
     */
    assert_near(json_real_value(json_array_get(json_object_get(intervals, "accuracy"), 0)), 0.75, 0);
    assert_near(json_real_value(json_array_get(json_object_get(intervals, "accuracy"), 1)), 1, 0);
    assert_contains(json_string_value(json_object_get(json, "worst")), "Rome | 2, 0.6667 (accuracy 0.7500, 4 rows)");
    assert_int_equal(json_array_size(json_object_get(json, "per_sensor")), 2);
    json_decref(json);
    char *path = kept_path(directory, "pooled_by.md"), *markdown = kept_text(path);
    assert_contains(markdown, "| Rome \\| 2 | 4 |");
}

TEST(plots_are_xml_and_show_the_numbers) {
    const char *const names[BANDS] = {"a<b", "c & d", "\"e\"", "'f'", "]]>", "h\x01ı"};
    double logits[60];
    Predictions p = ten_rows(logits);
    p.class_names = names;
    char *directory = report(&p, 1, "pooled", "<x>");
    char *matrix = svg_in(directory, "confusion_matrix_pooled_<x>.svg");
    assert_contains(matrix, ">a&lt;b</text>");
    assert_contains(matrix, ">c &amp; d</text>");
    assert_contains(matrix, ">&lt;x&gt;: pooled</text>");
    assert_int_equal(occurrences(matrix, " %</text>"), 36);
    assert_int_equal(occurrences(matrix, ">50.0 %</text>"), 2); /* dab: one right, one taken for dvbt */
    assert_int_equal(occurrences(matrix, ">100.0 %</text>"), 5);
    assert_int_equal(occurrences(matrix, ">2</text>"), 3);
    char *reliability = svg_in(directory, "reliability_pooled_<x>.svg");
    /* One bin of 28 pixels, from 0.4667 to 0.5333; bar 0.9 and gap 0.5 .. 0.9 of 420 pixels above 476. */
    assert_int_equal(occurrences(reliability, "class=\"plot-bar\""), 1);
    assert_contains(reliability, "<rect x=\"268.0\" y=\"98.0\" width=\"28.0\" height=\"378.0\" class=\"plot-bar\"");
    assert_contains(reliability, "<rect x=\"268.0\" y=\"98.0\" width=\"28.0\" height=\"168.0\" class=\"plot-gap\"");
    assert_contains(reliability, "height=\"100.0\" class=\"plot-rows plot-muted\"");
    assert_contains(reliability, ">ECE 0.4000</text>");
    /* Wilson's interval of 9 of 10, statsmodels 0.14: 0.59585 to 0.98212 */
    assert_contains(reliability, "plot-whisker\" stroke-width=\"1.5\" d=\"M282.0 225.7V63.5\"");
    directory = report(&p, 0.1, "pooled", "sure"); /* confidence 1 / (1 + 5 / 5^10), which is above the accuracy */
    reliability = svg_in(directory, "reliability_pooled_sure.svg");
    assert_contains(reliability, "<rect x=\"464.0\" y=\"98.0\" width=\"28.0\" height=\"378.0\" class=\"plot-bar\"");
    assert_contains(reliability, "<rect x=\"464.0\" y=\"56.0\" width=\"28.0\" height=\"42.0\" class=\"plot-gap\"");
}

/* Areas of scikit-learn 1.9 (roc_auc_score, average_precision_score) for softmax of the same logits. */
TEST(each_class_has_a_curve_against_the_rest) {
    double logits[60], two[20];
    Predictions p = ten_rows(logits);
    for (int i = 0; i < 60; i++) /* no two are equal */
        logits[i] = (i % BANDS == TAKEN[i / BANDS]) + 0.25 * ((i / BANDS * 7 + i % BANDS * 3) % 11);
    char *directory = report(&p, 1, "pooled", "<x>");
    char *roc = svg_in(directory, "roc_pooled_<x>.svg"), *recall = svg_in(directory, "precision_recall_pooled_<x>.svg");
    static const struct {
        const char *roc, *recall;
    } want[] = {{">dab: AUROC 0.812</text>", ">dab: AP 0.500, chance 0.200</text>"},
                {">dvbt: AUROC 1.000</text>", ">dvbt: AP 1.000, chance 0.200</text>"},
                {">gsm: AUROC 0.938</text>", ">gsm: AP 0.833, chance 0.200</text>"},
                {">lte: AUROC 0.889</text>", ">lte: AP 0.500, chance 0.100</text>"}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_contains(roc, want[i].roc);
        assert_contains(recall, want[i].recall);
    }
    assert_contains(roc, ">chance: AUROC 0.500</text>");
    assert_null(strstr(recall, ">chance")); /* no line holds for all classes */
    p.classes = 2, p.truth = (int32_t[10]){0, 0, 0, 0, 1, 1, 1, 1, 1, 1}, p.logits = two;
    for (int i = 0; i < 10; i++) two[2 * i] = 0, two[2 * i + 1] = i == 4 ? -1 : i;
    directory = report(&p, 1, "pooled", "two");
    roc = svg_in(directory, "roc_pooled_two.svg");
    assert_contains(roc, ">dvbt: AUROC 0.833</text>"); /* 20 of 24 */
    assert_null(strstr(roc, ">dab"));
}

/* Returns the value of an attribute of the last tag before `at`. */
static double before(const char *text, const char *at, const char *attribute) {
    while (at > text && strncmp(at, attribute, strlen(attribute))) at--;
    return strtod(at + strlen(attribute), NULL);
}

/* Names of columns that are wider than a cell lean to the right and begin above their cell; all are shortened to some
 * 220 pixels, and rows begin behind them. */
TEST(long_names_of_classes_neither_overlap_nor_leave_the_picture) {
    const char *const names[BANDS] = {"a class with a name that is far too long to be shown in any matrix",
                                      "b",
                                      "c",
                                      "d",
                                      "another class with a name that is too long for a matrix",
                                      "f"};
    double logits[60];
    Predictions p = ten_rows(logits);
    p.class_names = names;
    char *directory = report(&p, 1, "pooled", "long"), *matrix = svg_in(directory, "confusion_matrix_pooled_long.svg");
    assert_null(strstr(matrix, "is far too long"));
    assert_int_equal(occurrences(matrix, "rotate(-45)"), 6);
    double last = 0, left;
    for (const char *at = matrix; (at = strstr(at, "rotate(-45)")); at++) {
        double x = before(matrix, at, "translate(");
        if (last) assert_near(x - last, 76, 0.11);
        last = x;
    }
    double width = strtod(strstr(matrix, " width=\"") + 8, NULL);
    assert_true(last + 220 * sqrt(0.5) < width);
    for (const char *at = matrix; (at = strstr(at, "text-anchor=\"end\"")); at++) {
        left = before(matrix, at, "x=\"");
        assert_true(left > 220 && left < 300);
    }
}

TEST(predictions_that_cannot_be_reported_are_refused) {
    double logits[60];
    Predictions p = with_sensors(logits), bad;
    bool fitted = false;
    assert_false(report_classification(&p, 1, "/nowhere/there", "pooled", "a", &error));
    assert_contains(error.text, "/nowhere/there/pooled_a.csv");
    assert_false(report_calibration(&p, &p, "/nowhere/there", NULL, &fitted, &error));
    assert_contains(error.text, "/nowhere/there/reliability_before.svg");
    assert_true(fitted); /* the fit itself works with these parameters */
    assert_false(report_classification(&p, 1, "/nowhere", "../../evil", "a/b", &error));
    assert_contains(error.text, "/nowhere/%2E.%2F..%2Fevil_a%2Fb.csv"); /* names lead nowhere else */
    assert_false(report_classification(&p, 0, "/tmp", "pooled", "a", &error));
    assert_contains(error.text, "temperature of 0");
    bad = p, bad.n = 0;
    assert_false(report_classification(&bad, 1, "/tmp", "pooled", "a", &error));
    assert_contains(error.text, "no rows");
    bad = p, bad.covariate.values = (double[10]){0, 1, 2, NAN};
    assert_false(report_classification(&bad, 1, "/tmp", "pooled", "a", &error));
    assert_contains(error.text, "the SNR of row 103 is nan");
    bad = p, bad.group = (int32_t[10]){0, 3};
    assert_false(report_classification(&bad, 1, "/tmp", "pooled", "a", &error));
    assert_contains(error.text, "the sensor of row 101 is 3, not one of 0 .. 2");
    bad = p, bad.truth = (int32_t[10]){0, 6};
    assert_false(report_classification(&bad, 1, "/tmp", "pooled", "a", &error));
    assert_contains(error.text, "the label of row 1 is 6");
    bad = p, bad.class_names = (const char *const[6]){"a", "b\xff", "c", "d", "e", "f"};
    assert_false(report_classification(&bad, 1, "/tmp", "pooled", "a", &error));
    assert_contains(error.text, "no UTF-8");
}

/* ---- folds ---- */

/* Returns an evaluation of four rows. The first `right` rows are predicted correctly (dab or fm), the others as fm. */
static Evaluation fold(int right) {
    static const int32_t truth[] = {0, 0, 0, 0};
    double logits[4 * BANDS] = {0};
    for (int i = 0; i < 4; i++) logits[i * BANDS + (i < right ? 0 : 2)] = 1;
    return evaluate(
        &(Predictions){.n = 4, .classes = BANDS, .class_names = NAMES, .logits = logits, .truth = truth, .ids = IDS});
}

typedef struct {
    const FoldResult *folds;
    int n;
    const char *protocol, *directory;
} FoldCall;

static void call_folds(void *argument) {
    const FoldCall *call = argument;
    if (!report_folds(call->folds, call->n, "sensor", call->protocol, call->directory, &error)) die("%s", error.text);
}

TEST(folds_have_means_and_deviations) {
    Evaluation four = fold(4), three = fold(3), one = fold(1);
    const FoldResult folds[] = {{"Bari", 0, 0, &four}, {"Bologna", 0, 0, &one}, {"Rome", 0, 0, &three}};
    char *directory = kept_folder(), output[4096];
    int status = run_function(output, sizeof output, call_folds, &(FoldCall){folds, 3, "loso", directory});
    if (status) fail_msg("%s", output);
    Grid csv = grid_read(directory, "loso_results.csv");
    assert_int_equal(csv.rows, 6);
    assert_string_equal(csv.cells[0][0], "sensor");
    assert_string_equal(csv.cells[4][0], "MEAN");
    assert_string_equal(csv.cells[5][0], "STD");
    assert_near(grid_number(&csv, "Bologna", "accuracy"), 0.25, 0);
    assert_near(grid_number(&csv, "Rome", "macro_f1"), 6.0 / 7 / 2, EXACT);
    assert_near(grid_number(&csv, "MEAN", "accuracy"), 2.0 / 3, EXACT);
    assert_near(grid_number(&csv, "STD", "accuracy"), sqrt((1.0 / 9 + 25.0 / 144 + 1.0 / 144) / 2),
                EXACT); /* not / 3 */
    assert_near(grid_number(&csv, "MEAN", "f1_dab"), (1 + 0.4 + 6.0 / 7) / 3, EXACT);
    assert_string_equal(grid_field(&csv, "Bari", "f1_fm"), ""); /* no sensor has fm */
    assert_string_equal(grid_field(&csv, "MEAN", "f1_fm"), "");
    /* The terminal shows the numbers of the file. */
    assert_contains(output, "[Report] loso: 3 trainings; intervals of the mean by the bootstrap over sensors");
    assert_contains(output, "MEAN       0.6667");
    assert_contains(output, "STD        0.3819");
    assert_contains(output, "worst sensor: Bologna, macro F1 0.2000");
    free(csv.text);
    json_t *json = json_in(directory, "loso_results.json"), *worst = json_object_get(json, "worst");
    assert_string_equal(json_string_value(json_object_get(json_array_get(worst, 0), "sensor")), "Bologna");
    const json_t *accuracy = json_array_get(json_object_get(json, "summary"), 0);
    assert_near(number_at(accuracy, "mean"), 2.0 / 3, EXACT);
    /* If three folds are drawn, all are the worst one with a chance of 1 in 27, above 2.5 %; the same holds for the
     * best. */
    assert_near(number_at(accuracy, "low"), 0.25, 0);
    assert_near(number_at(accuracy, "high"), 1, 0);
    json_decref(json);
    evaluation_free(&four);
    evaluation_free(&three);
    evaluation_free(&one);
}

TEST(shots_have_means_of_their_own) {
    Evaluation four = fold(4), three = fold(3), one = fold(1);
    const FoldResult folds[] = {{"Bari", 10, 1, &four},  {"Bari", 10, 2, &three}, {"Rome", 10, 1, &three},
                                {"Rome", 10, 2, &three}, {"Bari", 5, 1, &one},    {"Rome", 5, 1, &three}};
    char *directory = kept_folder(), output[4096];
    int status = run_function(output, sizeof output, call_folds, &(FoldCall){folds, 6, "fewshot", directory});
    if (status) fail_msg("%s", output);
    Grid csv = grid_read(directory, "fewshot_results.csv");
    assert_int_equal(csv.rows, 1 + 6 + 4);
    assert_string_equal(csv.cells[0][1], "k");
    assert_string_equal(csv.cells[0][2], "seed");
    assert_string_equal(csv.cells[2][2], "2");
    const double mean[] = {0.5, 0.8125}, deviation[] = {sqrt(0.125), 0.125};
    for (int k = 0; k < 2; k++) {
        assert_string_equal(csv.cells[7 + 2 * k][0], "MEAN");
        assert_string_equal(csv.cells[7 + 2 * k][1], k ? "10" : "5");
        assert_string_equal(csv.cells[7 + 2 * k][2], "");
        assert_near(strtod(csv.cells[7 + 2 * k][3], NULL), mean[k], EXACT);
        assert_near(strtod(csv.cells[8 + 2 * k][3], NULL), deviation[k], EXACT);
    }
    assert_contains(output, "k = 5: accuracy 0.5000 (95 % 0.2500 .. 0.7500)");
    assert_contains(output, "worst sensor: Bari, macro F1 0.2000");
    assert_contains(output, "k = 10: accuracy 0.8125 (95 % 0.7500 .. 0.8750)"); /* sensors are drawn, not runs */
    assert_contains(output, "worst sensor: Rome, macro F1 0.4286");
    free(csv.text);
    evaluation_free(&four);
    evaluation_free(&three);
    evaluation_free(&one);
}

/* Returns an evaluation of five rows of two classes at a threshold of p(fm), by which 5 of the 6 pairs of dab and fm
 * are in order. */
static Evaluation fold_at(double threshold) {
    static const int32_t truth[] = {0, 0, 0, 1, 1};
    static const double p[] = {0.1, 0.3, 0.6, 0.45, 0.8};
    static const char *const two[] = {"dab", "fm"};
    double logits[10] = {0};
    Evaluation e;
    for (int i = 0; i < 5; i++) logits[2 * i + 1] = log(p[i] / (1 - p[i]));
    const Predictions rows = {.n = 5, .classes = 2, .class_names = two, .logits = logits, .truth = truth, .ids = IDS};
    if (!evaluation_at(&rows, threshold, &e, &error)) fail_msg("%s", error.text);
    return e;
}

/* At 0.7 one row is fm, at 0.4 three are, one of them wrongly; at 0.5 two of which one is wrong. */
TEST(folds_of_two_classes_are_at_their_thresholds) {
    Evaluation high = fold_at(0.7), low = fold_at(0.4), middle = fold_at(NAN);
    const FoldResult folds[] = {{"one", 0, 0, &high}, {"two", 0, 0, &low}}, plain = {"one", 0, 0, &middle};
    char *directory = kept_folder(), output[4096];
    int status = run_function(output, sizeof output, call_folds, &(FoldCall){folds, 2, "seeds", directory});
    if (status) fail_msg("%s", output);
    Grid csv = grid_read(directory, "seeds_results.csv");
    assert_near(grid_number(&csv, "one", "accuracy"), 0.8, EXACT);
    assert_near(grid_number(&csv, "one", "f1_fm"), 2.0 / 3, EXACT);
    assert_near(grid_number(&csv, "one", "precision_fm"), 1, 0);
    assert_near(grid_number(&csv, "one", "recall_fm"), 0.5, 0);
    assert_near(grid_number(&csv, "one", "f1_dab"), 6.0 / 7, EXACT);
    assert_near(grid_number(&csv, "two", "accuracy"), 0.8, EXACT);
    assert_near(grid_number(&csv, "two", "f1_fm"), 0.8, EXACT);
    assert_near(grid_number(&csv, "two", "precision_fm"), 2.0 / 3, EXACT);
    assert_near(grid_number(&csv, "two", "recall_fm"), 1, 0);
    assert_near(grid_number(&csv, "two", "roc_auc"), 5.0 / 6, EXACT);
    assert_near(grid_number(&csv, "two", "threshold"), 0.4, 0);
    assert_near(grid_number(&csv, "MEAN", "threshold"), 0.55, EXACT);
    assert_near(grid_number(&csv, "one", "nll"), grid_number(&csv, "two", "nll"), 0); /* of the same probabilities */
    free(csv.text);
    assert_contains(output, "accuracy  macro_f1   f1_fm  precision_fm  recall_fm  roc_auc\n");
    char *path = kept_path(directory, "seeds_results.md"), *text = kept_text(path);
    assert_contains(text, "Predictions are those at the threshold of each training.");
    /* without a threshold: the most probable class, and the columns of any number of classes */
    status = run_function(output, sizeof output, call_folds, &(FoldCall){&plain, 1, "plain", directory});
    if (status) fail_msg("%s", output);
    csv = grid_read(directory, "plain_results.csv");
    assert_near(grid_number(&csv, "one", "accuracy"), 0.6, EXACT);
    assert_int_equal(csv.columns, 1 + 10 + 2 + 1);
    free(csv.text);
    double of_six[60];
    Predictions six = ten_rows(of_six);
    Evaluation none;
    assert_false(evaluation_at(&six, 0.5, &none, &error));
    assert_string_equal(error.text, "a threshold of 0.5 is of two classes, and there are 6");
    evaluation_free(&high);
    evaluation_free(&low);
    evaluation_free(&middle);
}

TEST(one_fold_has_no_deviation) {
    Evaluation three = fold(3);
    char *directory = kept_folder();
    assert_true(report_folds(&(FoldResult){"Rome", 0, 0, &three}, 1, "sensor", "loso", directory, &error));
    Grid csv = grid_read(directory, "loso_results.csv");
    assert_near(grid_number(&csv, "MEAN", "accuracy"), 0.75, 0);
    assert_string_equal(grid_field(&csv, "STD", "accuracy"), "");
    assert_false(report_folds(NULL, 0, "sensor", "loso", directory, &error));
    assert_contains(error.text, "loso: there are no folds");
    assert_false(report_folds(&(FoldResult){"Rome", 0, 0, &three}, 1, "sensor", "loso", "/nowhere/there", &error));
    assert_contains(error.text, "/nowhere/there/loso_results.csv");
    free(csv.text);
    evaluation_free(&three);
}
