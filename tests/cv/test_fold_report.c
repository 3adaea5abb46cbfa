/* The report of one tested fold: its tables, curves and temperature, and the baselines with their logistic regressions.
 *
 * EXACT bounds the rounding errors of sums of some terms of size 1. */
#include "tests/report/rig.h"

#include <math.h>

#include "commands/cv/report/baselines.h"
#include "commands/cv/report/tested_fold.h"

static Error error;

static const double EXACT = 1e-13;

/* ---- logistic regression ---- */

enum { SIXTY = 60 };
static int64_t sixty(double (*x)[3], int32_t *labels) {
    int64_t active = 0;
    for (int i = 0; i < SIXTY; i++) {
        x[i][0] = 200 + 50 * sin(1.7 * i);
        x[i][1] = 11 + 2 * cos(0.9 * i) + 0.5 * sin(1.7 * i);
        x[i][2] = 7 * i % 13;
        active += labels[i] = sin(2.3 * i) + 0.8 * sin(1.7 * i) - 0.3 * cos(0.9 * i) > 0.4;
    }
    return active;
}

/* The numbers are PyTorch's: torch.optim.LBFGS in float64 on the same objective, x standardised with the divisor n, to
 * a gradient below 3e-10; curvature here is above 1e-2, so that they are good to 1e-7. */
TEST(regressions_are_those_of_torch) {
    const double good = 1e-7, balanced[] = {1.877857585413, -0.932272756123, -0.084018437797};
    const double natural[] = {1.906946518020, -1.009388523581, -0.202017807652};
    double x[SIXTY][3], first[SIXTY];
    int32_t labels[SIXTY];
    Logistic l;
    assert_int_equal(sixty(x, labels), 17);
    assert_true(logistic_fit(&l, x[0], 3, labels, SIXTY, true, &error));
    for (int k = 0; k < 3; k++) assert_near(l.weight[k], balanced[k], good);
    assert_near(l.bias, -0.589711747894, good);
    assert_true(l.iterations < 20);
    assert_true(logistic_fit(&l, x[0], 3, labels, SIXTY, false, &error));
    for (int k = 0; k < 3; k++) assert_near(l.weight[k], natural[k], good);
    assert_near(l.bias, -1.545891147997, good);
    double logit = l.bias;
    for (int k = 0; k < 3; k++) logit += l.weight[k] * (x[5][k] - l.mean[k]) / l.deviation[k];
    assert_near(logistic_logit(&l, x[5]), logit, EXACT);
    for (int i = 0; i < SIXTY; i++) first[i] = x[i][0];
    assert_true(logistic_fit(&l, first, 1, labels, SIXTY, true, &error));
    assert_near(l.weight[0], 1.434953416088, good);
    assert_near(l.bias, -0.414360042659, good);
}

TEST(regressions_converge) {
    double x[SIXTY], p;
    int32_t labels[SIXTY];
    Logistic l;
    for (int i = 0; i < SIXTY; i++) labels[i] = (x[i] = i) >= 30; /* a threshold parts the classes */
    assert_true(logistic_fit(&l, x, 1, labels, SIXTY, false, &error));
    assert_true(isfinite(l.weight[0]) && logistic_logit(&l, &x[29]) < 0 && logistic_logit(&l, &x[30]) > 0);
    for (int i = 0; i < SIXTY; i++) x[i] = 7, labels[i] = i % 4 == 0; /* nothing to see: the share, a quarter */
    assert_true(logistic_fit(&l, x, 1, labels, SIXTY, false, &error));
    p = binary_sigmoid(logistic_logit(&l, &x[0]));
    assert_near(p, 0.25, 1e-12);
    assert_near(l.weight[0], 0, 0);
    assert_true(logistic_fit(&l, x, 1, labels, SIXTY, true, &error));
    assert_near(l.bias, 0, 1e-12);
    for (int i = 0; i < SIXTY; i++) labels[i] = 1;
    assert_false(logistic_fit(&l, x, 1, labels, SIXTY, true, &error));
    assert_contains(error.text, "60 of the 60 are active");
    x[3] = NAN, labels[0] = 0;
    assert_false(logistic_fit(&l, x, 1, labels, SIXTY, true, &error));
    assert_contains(error.text, "is nan");
}

static void report(const TestedFold *fold, const char *directory, BinaryScores *scores) {
    FoldResult result;
    if (!tested_fold_report(fold, directory, &result, &error)) fail_msg("%s", error.text);
    if (scores) *scores = result.scores;
}

/* ---- small folds: 40 cells of three donors, 16 to train on, 12 to validate on, 12 to test on ---- */

enum { SMALL = 40, TRAIN = 16, HELD = 12 };

typedef struct {
    CvCells cells;
    int32_t labels[SMALL], donors[SMALL], fields[SMALL], sizes[SMALL], peaks[SMALL], ids[SMALL];
    double photons[SMALL], logits[SMALL], views[SMALL * 2];
    unsigned char kept[SMALL];
    const char *files[SMALL];
    char names[SMALL][24];
    TestedFold fold;
} Small;

static const char *SMALL_DONORS[] = {"D1", "D2", "D3"};
static const char *SMALL_FIELDS[] = {"D1 m1", "D1 m2", "D2 m1", "D2 m2", "D3 m1", "D3 m2"};
static const char *const VIEWS[] = {"identity", "rot90"};

/* Every second cell is active; its logit is 1.5, that of others -1.5. Size and photons are independent of the label. */
static Small *small_fold(void) {
    Small *s = xcalloc(1, sizeof *s);
    for (int i = 0; i < SMALL; i++) {
        s->ids[i] = i, s->labels[i] = i % 2, s->kept[i] = 1;
        s->donors[i] = i < TRAIN ? 0 : i < TRAIN + HELD ? 1 : 2;
        s->fields[i] = 2 * s->donors[i] + (i / 2) % 2;
        s->sizes[i] = 100 + i / 2 * 7 % 31, s->photons[i] = 1000 + i / 2 * 13 % 17, s->peaks[i] = 50 + i / 2 % 3;
        s->logits[i] = s->labels[i] ? 1.5 : -1.5;
        snprintf(s->names[i], sizeof *s->names, "cell_%d.npy", i);
        s->files[i] = s->names[i];
    }
    s->cells = (CvCells){.n = SMALL,
                         .file_names = s->files,
                         .labels = s->labels,
                         .donors = s->donors,
                         .fields = s->fields,
                         .sizes = s->sizes,
                         .peaks = s->peaks,
                         .photons = s->photons,
                         .n_donors = 3,
                         .n_fields = 6,
                         .donor_names = SMALL_DONORS,
                         .field_names = SMALL_FIELDS};
    s->fold = (TestedFold){"one", &s->cells, s->ids, TRAIN,
                           .validation = {.n = HELD, .ids = s->ids + TRAIN, .logits = s->logits + TRAIN}};
    s->fold.test = (CellPredictions){.n = HELD, .ids = s->ids + TRAIN + HELD, .logits = s->logits + TRAIN + HELD};
    return s;
}

/* Reports a fold and returns its JSON; json_decref(). */
static json_t *reported(const Small *s) {
    const char *directory = run_directory();
    report(&s->fold, directory, NULL);
    return json_in(directory, "test_results_one.json");
}

TEST(a_fold_without_errors_is_reported) {
    Small *s = small_fold();
    const char *directory = run_directory();
    BinaryScores scores;
    report(&s->fold, directory, &scores);
    assert_near(scores.accuracy, 1, 0);
    Grid csv = grid_read(directory, "error_analysis_one.csv");
    assert_near(grid_number(&csv, "FP", "cells"), 0, 0);
    assert_string_equal(grid_field(&csv, "FN", "p_median"), "");
    free(csv.text);
    json_t *json = json_in(directory, "test_results_one.json");
    assert_contains(json_string_value(json_at(json_at(json, "temperature"), "why_not")), "all 12 rows are right");
    assert_int_equal(json_array_size(json_at(json, "warnings")), 0);
    json_decref(json);
    for (int i = TRAIN + HELD; i < SMALL; i++) s->labels[i] = 1; /* a donor with active cells only */
    report(&s->fold, directory, &scores);
    assert_true(isnan(scores.auroc));
    assert_near(scores.recall, 0.5, 0);
    for (int i = TRAIN + HELD; i < SMALL; i++) s->logits[i] = 3;
    report(&s->fold, directory, &scores);
    assert_near(scores.recall, 1, 0);
    svg_in(directory, "error_analysis_one.svg");
    free(s);
}

/* A small fold in two views, of whose test cells three are taken for the other class. */
static Small *fold_with_views(void) {
    Small *s = small_fold();
    for (int i = 0; i < SMALL; i++) {
        double p = s->labels[i] ? 0.8 : 0.3;
        s->views[2 * i] = p - 0.05, s->views[2 * i + 1] = p + 0.05;
    }
    int first = TRAIN + HELD;
    s->views[2 * (first + 3)] = 0.01, s->views[2 * (first + 3) + 1] = 0.03; /* active, p .02 */
    s->views[2 * (first + 4)] = 0.5, s->views[2 * (first + 4) + 1] = 1;     /* quiescent, p .75 */
    s->views[2 * (first + 7)] = 0.5, s->views[2 * (first + 7) + 1] = 0.5;   /* active, p .5: not above the threshold */
    s->fold.view_names = VIEWS;
    s->fold.validation.n_views = s->fold.test.n_views = 2;
    s->fold.validation.views = s->views + 2 * TRAIN;
    s->fold.test.views = s->views + 2 * first;
    s->kept[first] = s->kept[first + 3] = 0;
    s->fold.test.kept = s->kept + first;
    return s;
}

/* Cells have the probability of each view; the errors come by descending certainty. */
TEST(predictions_and_errors_are_listed_cell_by_cell) {
    Small *s = fold_with_views();
    const char *directory = run_directory();
    BinaryScores scores;
    report(&s->fold, directory, &scores);
    assert_near(scores.accuracy, 9.0 / 12, EXACT);
    Grid csv = grid_read(directory, "predictions_one.csv");
    assert_int_equal(csv.rows, 1 + HELD);
    assert_near(grid_number(&csv, "cell_31.npy", "p_identity"), 0.01, 0);
    assert_near(grid_number(&csv, "cell_31.npy", "p_rot90"), 0.03, 0);
    assert_near(grid_number(&csv, "cell_31.npy", "p_mean"), 0.02, EXACT);
    assert_near(grid_number(&csv, "cell_31.npy", "label"), 1, 0);
    assert_near(grid_number(&csv, "cell_31.npy", "predicted"), 0, 0);
    assert_near(grid_number(&csv, "cell_31.npy", "kept"), 0, 0);
    assert_near(grid_number(&csv, "cell_32.npy", "predicted"), 1, 0);
    assert_near(grid_number(&csv, "cell_35.npy", "predicted"), 0, 0);
    assert_near(grid_number(&csv, "cell_32.npy", "logit"), -1.5, 0);
    assert_near(grid_number(&csv, "cell_32.npy", "photons"), s->photons[32], 0);
    assert_near(grid_number(&csv, "cell_32.npy", "size"), s->sizes[32], 0);
    assert_near(grid_number(&csv, "cell_32.npy", "peak"), s->peaks[32], 0);
    assert_near(grid_number(&csv, "cell_32.npy", "threshold"), 0.5, 0);
    assert_string_equal(grid_field(&csv, "cell_32.npy", "field"), "D3 m1");
    assert_string_equal(grid_field(&csv, "cell_32.npy", "donor"), "D3");
    assert_string_equal(grid_field(&csv, "cell_32.npy", "fold"), "one");
    free(csv.text);
    csv = grid_read(directory, "confident_errors_one.csv");
    assert_int_equal(csv.rows, 1 + 3);
    const char *const ranked[] = {"cell_31.npy", "cell_32.npy", "cell_35.npy"};
    const double sure[] = {0.98, 0.75, 0.5};
    for (int i = 0; i < 3; i++) {
        char rank[2] = {(char)('1' + i), 0};
        assert_string_equal(grid_field(&csv, rank, "file"), ranked[i]);
        assert_near(grid_number(&csv, rank, "p_of_the_other_class"), sure[i], EXACT);
    }
    free(csv.text);
    free(s);
}

TEST(tables_and_curves_have_the_counts_of_the_fold) {
    Small *s = fold_with_views();
    const char *directory = run_directory();
    report(&s->fold, directory, NULL);
    Grid csv = grid_read(directory, "scores_one.csv");
    assert_near(grid_number(&csv, "network", "cells"), 12, 0);
    assert_near(grid_number(&csv, "network, cells that the filter keeps", "accuracy"), 0.8, EXACT);
    assert_near(grid_number(&csv, "network, cells that it drops", "accuracy"), 0.5, EXACT);
    assert_near(grid_number(&csv, "network", "loss"), log1p(exp(-1.5)), EXACT); /* of the logits, which are all right */
    free(csv.text);
    csv = grid_read(directory, "photon_deciles_one.csv"); /* 12 cells in tenths of one or two */
    assert_int_equal(csv.rows, 1 + 10);
    double cells = 0, above = 0;
    for (int d = 1; d <= 10; d++) {
        char key[12];
        snprintf(key, sizeof key, "%d", d);
        cells += grid_number(&csv, key, "cells");
        assert_true(grid_number(&csv, key, "photons_from") >= above);
        above = grid_number(&csv, key, "photons_to");
    }
    assert_near(cells, 12, 0);
    free(csv.text);
    csv = grid_read(directory, "roc_one.csv");
    assert_near(grid_number(&csv, "network", "threshold"), 0.8, EXACT); /* the highest p: 4 of 6, and no false one */
    assert_near(grid_number(&csv, "network", "true_positive_rate"), 4.0 / 6, EXACT);
    assert_near(grid_number(&csv, "network", "false_positive_rate"), 0, 0);
    free(csv.text);
    char *errors = svg_in(directory, "error_analysis_one.svg");
    assert_int_equal(occurrences(errors, "class=\"plot-TP\""),
                     1 + 1 + 1); /* one bin, the legend, the bar of its count */
    assert_int_equal(occurrences(errors, "class=\"plot-FN\""), 2 + 1 + 1); /* .02 and .5 */
    free(s);
}

/* Three of four cells with logit +-2 ln 3 have the predicted class: the claim is 9 to 1, the truth 3 to 1, so T is 2.
 */
TEST(a_planted_temperature_is_found) {
    Small *s = small_fold();
    for (int i = TRAIN; i < SMALL; i++) {
        int place = (i - TRAIN) % HELD;
        s->logits[i] = (place < 4 ? 1 : -1) * 2 * log(3);
        s->labels[i] = place < 4 ? place % 4 != 0 : place % 4 == 0;
    }
    json_t *json = reported(s), *temperature = json_at(json, "temperature");
    assert_near(number_at(temperature, "value"), 2, 1e-9); /* halved to the last bits of ln T */
    assert_near(number_at(json_at(temperature, "test_before"), "loss"), -(3 * log(0.9) + log(0.1)) / 4, EXACT);
    assert_near(number_at(json_at(temperature, "test_before"), "ece"), 0.15, EXACT);
    assert_near(number_at(json_at(temperature, "test_after"), "loss"), -(3 * log(0.75) + log(0.25)) / 4, 1e-9);
    assert_near(number_at(json_at(temperature, "test_after"), "ece"), 0, 1e-9);
    json_decref(json);
    free(s);
}

/* Active cells are twice as bright in all donors: brightness alone is as good as the network. */
TEST(a_confound_gives_a_warning) {
    Small *s = small_fold();
    for (int i = 0; i < SMALL; i++) s->photons[i] *= 1 + s->labels[i];
    s->logits[SMALL - 1] = -1;
    json_t *json = reported(s), *warnings = json_at(json, "warnings");
    assert_int_equal(json_array_size(warnings), 2); /* and the regression on all three */
    const char *first = json_string_value(json_array_get(warnings, 0));
    assert_contains(first, "'brightness' has balanced accuracy 1.0000 and AUROC 1.0000, the network 0.9167");
    assert_contains(first, "the network has not beaten it");
    assert_near(number_at(json_at(json_at(json, "baselines"), "brightness"), "accuracy"), 1, 0);
    assert_true(number_at(json_at(json_at(json, "baselines"), "size"), "auroc") == 0.5);
    json_decref(json);
    BinaryScores network = {.balanced_accuracy = 0.80, .auroc = 0.9}, near = {.balanced_accuracy = 0.7, .auroc = 0.86};
    char *warning = keep(baseline_warning(BASELINE_SIZE, &near, &network));
    assert_contains(warning, "the network may have learnt little else");
    near.auroc = 0.8;
    assert_null(baseline_warning(BASELINE_SIZE, &near, &network));
    warning = keep(baseline_warning(BASELINE_ACTIVE, &(BinaryScores){.balanced_accuracy = 0.5, .auroc = 0.5},
                                    &(BinaryScores){.balanced_accuracy = 0.52, .auroc = 0.6}));
    assert_contains(warning, "'always active'");
    assert_contains(warning, "the network has learnt little");
    free(s);
}

/* One sentence takes the place of a warning for each of the baselines that look at nothing. */
TEST(a_network_at_chance_is_called_so_once) {
    Small *s = small_fold();
    for (int i = 0; i < SMALL; i++) s->logits[i] = i % 4 < 2 ? 1 : -1; /* of each class the half of either */
    s->fold.cause = "few steps";
    json_t *json = reported(s), *warning;
    size_t i;
    assert_contains(json_string_value(json_at(json, "at_chance")), "at chance: balanced accuracy 0.5000 of 12 rows");
    assert_contains(json_string_value(json_at(json, "at_chance")), ". Likely cause: few steps");
    json_array_foreach(json_at(json, "warnings"), i, warning) {
        assert_null(strstr(json_string_value(warning), "always"));
        assert_null(strstr(json_string_value(warning), "learnt little:"));
    }
    json_decref(json);
    free(s);
    s = small_fold();
    json = reported(s);
    assert_true(json_is_null(json_at(json, "at_chance")));
    json_decref(json);
    free(s);
}

/* The regressions' thresholds follow the fold's rule: cells of the other donors are larger by more than what parts the
 * classes. */
TEST(baselines_choose_their_threshold_as_the_network_does) {
    Small *s = small_fold();
    for (int i = 0; i < SMALL; i++) {
        int spread = i / 2 % 5;
        s->sizes[i] = i < TRAIN ? 100 + 4 * s->labels[i] + 2 * spread : 110 + 6 * s->labels[i] + spread;
    }
    for (ThresholdRule rule = THRESHOLD_HALF; rule < THRESHOLD_RULES; rule++) {
        s->fold.rule = rule;
        json_t *json = reported(s), *size = json_at(json_at(json, "baselines"), "size");
        assert_near(number_at(size, "auroc"), 1, 0);
        if (rule == THRESHOLD_HALF) assert_near(number_at(size, "balanced_accuracy"), 0.5, 0);
        if (rule == THRESHOLD_F1 || rule == THRESHOLD_BALANCED) assert_near(number_at(size, "balanced_accuracy"), 1, 0);
        assert_string_equal(json_string_value(json_at(json_at(json, "threshold"), "rule")), THRESHOLD_RULE_NAMES[rule]);
        json_decref(json);
    }
    free(s);
}

/* Cells of one size, of which a quarter is active in training: balanced weights know nothing of that. */
TEST(baselines_weigh_classes_as_configured) {
    Small *s = small_fold();
    for (int i = 0; i < SMALL; i++) {
        s->sizes[i] = 100;
        if (i < TRAIN) s->labels[i] = i % 4 == 0;
        s->peaks[i] = 50 + s->labels[i]; /* seen by the regression on all three only */
    }
    for (int balanced = 0; balanced < 2; balanced++) {
        s->fold.balanced = balanced;
        json_t *json = reported(s), *baselines = json_at(json, "baselines");
        assert_near(number_at(json_at(baselines, "size"), "bias"), balanced ? 0 : -log(3), 1e-10);
        assert_near(number_at(json_at(baselines, "size + brightness + peak"), "accuracy"), 1, 0);
        assert_near(number_at(json_at(baselines, "training share"), "auroc"), 0.5, 0);
        json_decref(json);
    }
    free(s);
}

/* ---- errors ---- */

static void assert_refused(const Small *s, const char *directory, const char *why) {
    assert_false(tested_fold_report(&s->fold, directory, NULL, &error));
    assert_contains(error.text, why);
}

TEST(invalid_cells_and_predictions_are_refused) {
    Small *s = small_fold();
    assert_refused(s, "/nowhere/there", "/nowhere/there/scores_one.csv");
    s->fold.name = "a/../../b";
    assert_refused(s, "/nowhere/there", "/nowhere/there/scores_a%2F..%2F..%2Fb.csv");
    s->fold.name = "one";
    s->logits[30] = NAN;
    assert_refused(s, "/tmp", "fold one: cell_30.npy: the logit is nan");
    s->logits[30] = 0;
    s->ids[30] = 29;
    assert_refused(s, "/tmp", "cell_29.npy is a test cell and a test cell");
    s->ids[30] = 3;
    assert_refused(s, "/tmp", "cell_3.npy is a training cell and a test cell");
    s->ids[30] = 40;
    assert_refused(s, "/tmp", "the id of test cell 2 is 40, not one of 0 .. 39");
    s->ids[30] = 30;
    s->labels[5] = 2;
    assert_refused(s, "/tmp", "cell_5.npy: the label is 2");
    s->labels[5] = 1;
    s->fields[5] = 6;
    assert_refused(s, "/tmp", "cell_5.npy: the field of view is 6");
    s->fields[5] = 0;
    s->photons[5] = -1;
    assert_refused(s, "/tmp", "cell_5.npy: -1 photons");
    s->photons[5] = 1;
    s->fold.test.n_views = 2;
    assert_refused(s, "/tmp", "2 views of test cells, 0 of validation cells");
    s->fold.test.n_views = 0;
    for (int i = 0; i < TRAIN; i++) s->labels[i] = 0;
    assert_refused(s, "/tmp", "fold one: baseline 'size': a regression needs cells of both classes: 0 of the 16");
    s->fold.n_train = 0;
    assert_refused(s, "/tmp", "no training cells");
    free(s);
}
