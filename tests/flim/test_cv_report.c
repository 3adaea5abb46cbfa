/* The report of a cross-validation of cells: its logistic regressions and baselines, the tables of a fold and of all.
 *
 * EXACT is what sums of some rounded terms of size 1 can be off; ROUNDED what a number of four decimals can be. */
#include "tests/report/rig.h"

#include <math.h>

#include "commands/cv/report/baselines.h"
#include "commands/cv/report/epoch_curves.h"
#include "commands/cv/report/tested_fold.h"

static const double EXACT = 1e-13, ROUNDED = 5.0001e-5;

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
static void regressions_as_torch_finds_them(void **state) {
    (void)state;
    const double good = 1e-7, balanced[] = {1.877857585413, -0.932272756123, -0.084018437797};
    const double natural[] = {1.906946518020, -1.009388523581, -0.202017807652};
    double x[SIXTY][3], first[SIXTY];
    int32_t labels[SIXTY];
    Logistic l;
    Error error;
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

static void regressions_end(void **state) {
    (void)state;
    double x[SIXTY], p;
    int32_t labels[SIXTY];
    Logistic l;
    Error error;
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

/* ---- a data set with the counts, photons and footprints of the six donors that the reference was trained on ---- */

enum { DONORS = 6, FIELDS = 8 /* of a donor */, MOST = 16241 };
static const struct {
    int quiescent, active;
    double photons, ratio, size; /* mean; of active over quiescent cells; mean */
} DONOR[DONORS] = {{2110, 789, 55878.8, 0.807, 215.9},  {2184, 582, 59871.4, 0.954, 199.3},
                   {2351, 604, 65297.3, 0.957, 202.1},  {399, 1139, 80339.7, 0.958, 165.5},
                   {625, 1291, 112668.2, 1.859, 254.4}, {3210, 957, 112089.0, 1.601, 212.7}};
static const char *DONOR_NAMES[] = {"D1", "D2", "D3", "D4", "D5", "D6"};

typedef struct {
    FlimCells cells;
    int32_t labels[MOST], donors[MOST], fields[MOST], sizes[MOST], peaks[MOST], ids[MOST];
    double photons[MOST], logits[MOST];
    unsigned char kept[MOST];
    const char *files[MOST], *field_names[DONORS * FIELDS];
    char names[MOST][40], of_fields[DONORS * FIELDS][16];
    int first[DONORS + 1];
} Set;

static void add_cell(Set *s, int donor, int label, int number) {
    int64_t i = s->cells.n++;
    double quiescent = DONOR[donor].quiescent, active = DONOR[donor].active;
    double dim = DONOR[donor].photons * (quiescent + active) / (quiescent + DONOR[donor].ratio * active);
    s->labels[i] = label, s->donors[i] = donor, s->ids[i] = (int32_t)i, s->kept[i] = 1;
    s->fields[i] = donor * FIELDS + number % FIELDS;
    s->photons[i] = label ? dim * DONOR[donor].ratio : dim;
    s->sizes[i] = (int32_t)DONOR[donor].size + (number % 10 < round(10 * fmod(DONOR[donor].size, 1))); /* to the mean */
    s->peaks[i] = 60 - 3 * donor;
    snprintf(s->names[i], sizeof *s->names, "%s/d01m%d_%s_cell_%d.npy", DONOR_NAMES[donor], number % FIELDS,
             label ? "act" : "in", number);
    s->files[i] = s->names[i];
}

static Set *six_donors(void) {
    Set *s = xcalloc(1, sizeof *s);
    for (int f = 0; f < DONORS * FIELDS; f++) {
        snprintf(s->of_fields[f], sizeof *s->of_fields, "D%d m%d", 1 + f / FIELDS, f % FIELDS);
        s->field_names[f] = s->of_fields[f];
    }
    for (int d = 0; d < DONORS; d++) {
        for (int i = 0; i < DONOR[d].quiescent; i++) add_cell(s, d, 0, i);
        for (int i = 0; i < DONOR[d].active; i++) add_cell(s, d, 1, i);
        s->first[d + 1] = (int)s->cells.n;
    }
    s->cells = (FlimCells){.n = s->cells.n,
                           .file_names = s->files,
                           .labels = s->labels,
                           .donors = s->donors,
                           .fields = s->fields,
                           .sizes = s->sizes,
                           .peaks = s->peaks,
                           .photons = s->photons,
                           .n_donors = DONORS,
                           .n_fields = DONORS * FIELDS,
                           .donor_names = DONOR_NAMES,
                           .field_names = s->field_names};
    return s;
}

/* What is said of a donor's cells: of each outcome so many, one p each. */
static void say(Set *s, int donor, const int64_t *outcomes, const double *p) {
    int i = s->first[donor];
    for (int o = 0; o < BINARY_OUTCOMES; o++)
        for (int64_t k = 0; k < outcomes[o]; k++) s->logits[i++] = log(p[o] / (1 - p[o]));
    assert_int_equal(i, s->first[donor + 1]);
}

static CellPredictions predictions(const Set *s, int donor) {
    int at = s->first[donor];
    return (CellPredictions){.n = s->first[donor + 1] - at, .ids = s->ids + at, .logits = s->logits + at};
}

static void report(const TestedFold *fold, const char *directory, BinaryScores *scores) {
    Error error;
    if (!tested_fold_report(fold, directory, scores, &error)) fail_msg("%s", error.text);
}

static json_t *json_at(const json_t *root, const char *key) {
    json_t *value = json_object_get(root, key);
    if (!value) fail_msg("there is no '%s'", key);
    return value;
}

/* The row of a table in JSON that begins with this. */
static json_t *row_of(const json_t *table, const char *column, const char *key) {
    for (size_t i = 0; i < json_array_size(table); i++) {
        json_t *row = json_array_get(table, i);
        if (!strcmp(json_string_value(json_at(row, column)), key)) return row;
    }
    fail_msg("there is no %s", key);
    return NULL;
}

/* What the reference says of donor 5: its four counts, the medians of p of each. */
static const int64_t REFERENCE[] = {415, 210, 73, 1218};
static const double REFERENCE_P[] = {0.085, 0.852, 0.194, 0.933};

/* The report of the fold that is tested on donor 5, in a new directory. */
static char *report_of_donor_5(BinaryScores *scores) {
    Set *s = six_donors();
    say(s, 4, REFERENCE, REFERENCE_P);
    say(s, 5, (int64_t[]){3000, 210, 100, 857}, REFERENCE_P);
    TestedFold fold = {"D5", &s->cells, s->ids, s->first[4], predictions(s, 5), predictions(s, 4), .balanced = true};
    fold.best_epoch = 17, fold.epochs = 2, fold.val_losses = (double[]){0.5, 0.25};
    char *directory = scratch_directory();
    report(&fold, directory, scores);
    free(s);
    return directory;
}

static void the_reference_s_outcome(void **state) {
    (void)state;
    BinaryScores scores;
    char *directory = report_of_donor_5(&scores);
    assert_near(scores.accuracy, 0.8523, ROUNDED);
    assert_near(scores.precision, 0.8529, ROUNDED);
    assert_near(scores.recall, 0.9435, ROUNDED);
    assert_near(scores.f1, 0.8959, ROUNDED);
    assert_near(scores.specificity, 0.664, ROUNDED);
    assert_near(scores.balanced_accuracy, 0.8037, ROUNDED);
    assert_near(scores.mcc, 0.6536, ROUNDED);
    assert_near(scores.auroc, (1218 * 625 + 73 * 415) / (1291.0 * 625), EXACT);
    json_t *json = json_in(directory, "test_results_D5.json"), *matrix = json_at(json, "confusion_matrix");
    assert_near(number_at(json, "test_acc"), scores.accuracy, 0);
    for (int o = 0; o < BINARY_OUTCOMES; o++)
        assert_near(json_integer_value(json_array_get(json_array_get(matrix, (size_t)o / 2), (size_t)o % 2)),
                    REFERENCE[o], 0);
    for (int o = 0; o < BINARY_OUTCOMES; o++) {
        json_t *row = row_of(json_at(json, "error_analysis"), "outcome", BINARY_OUTCOME_NAMES[o]);
        assert_near(number_at(row, "p_median"), REFERENCE_P[o], EXACT);
        assert_near(number_at(row, "cells"), REFERENCE[o], 0);
        assert_near(number_at(row, "above_0.7"), o % 2, 0); /* .852 and .933 */
    }
    json_decref(json);
    char *path = path_join(directory, "test_results_D5.md"), *markdown = read_text(path);
    assert_contains(markdown, "tested on 1916 of D5");
    assert_contains(markdown, "trained on 10158 cells of D1 D2 D3 D4 (30.7 % active)");
    assert_contains(markdown, "false positives have a median p of 0.8520: the network is sure of them");
    assert_contains(markdown, "false negatives have a median p of 0.1940: the network takes them for the other class");
    assert_contains(markdown, "are 0.8480 apart: far");
    assert_contains(markdown, "| quiescent | 415 | 210 |");
    free(markdown);
    free(path);
    free(directory);
}

static void baselines_and_counts_stand_beside_it(void **state) {
    (void)state;
    char *directory = report_of_donor_5(NULL);
    json_t *json = json_in(directory, "test_results_D5.json"), *baselines = json_at(json, "baselines");
    assert_near(number_at(json_at(baselines, "always active"), "accuracy"), 0.6738, ROUNDED);
    assert_near(number_at(json_at(baselines, "always active"), "f1"), 0.8051, ROUNDED);
    assert_near(number_at(json_at(baselines, "always active"), "auroc"), 0.5, 0);
    assert_true(json_is_null(json_at(json_at(baselines, "always active"), "loss"))); /* infinite */
    assert_near(number_at(json_at(baselines, "always quiescent"), "specificity"), 1, 0);
    assert_near(number_at(json_at(baselines, "training share"), "brier"),
                (625 * pow(0.30656, 2) + 1291 * pow(1 - 0.30656, 2)) / 1916, 1e-4);
    assert_near(number_at(json, "training_share"), 3114.0 / 10158, EXACT);
    assert_near(number_at(json, "num_train_samples"), 10158, 0);
    assert_near(number_at(json, "num_val_samples"), 4167, 0);
    assert_near(number_at(json, "num_test_samples"), 1916, 0);
    assert_near(number_at(json, "best_epoch"), 17, 0);
    assert_near(number_at(json, "val_acc"), 3857.0 / 4167, EXACT);
    assert_near(json_number_value(json_array_get(json_at(json, "val_losses"), 1)), 0.25, 0);
    assert_null(json_object_get(json, "train_losses"));
    assert_int_equal(json_array_size(json_at(json, "training_donors")), 4);
    json_decref(json);
    free(directory);
}

/* ---- six folds, of which number d has 100 (d + 1) quiescent cells taken for active, and all others right ---- */

typedef struct {
    Set *cells;
    TestedFold folds[DONORS];
    int32_t *train;
    double accuracy[DONORS], mean, deviation; /* over folds, divisor n */
    char *directory;                          /* has the report */
} SixFolds;

/* Trained on the donors that are neither tested nor validated on. */
static TestedFold one_of_six(const SixFolds *six, int d) {
    static const double losses[] = {0.5, 0.4, 0.45};
    const Set *s = six->cells;
    int v = (d + 1) % DONORS;
    int32_t *ids = six->train + (int64_t)d * MOST;
    TestedFold fold = {DONOR_NAMES[d], &s->cells, ids, 0, predictions(s, v), predictions(s, d), .balanced = true};
    for (int32_t i = 0; i < MOST; i++)
        if (s->donors[i] != d && s->donors[i] != v) ids[fold.n_train++] = i;
    fold.best_epoch = d + 1, fold.epochs = 3, fold.val_losses = losses;
    return fold;
}

static int open_six_folds(void **state) {
    SixFolds *six = *state = xcalloc(1, sizeof *six);
    double squares = 0;
    Error error;
    six->cells = six_donors();
    six->train = xmalloc(DONORS * MOST * sizeof *six->train);
    for (int d = 0; d < DONORS; d++) {
        int64_t wrong = d == 3 ? 300 : 100 * (d + 1), cells = DONOR[d].quiescent + DONOR[d].active;
        say(six->cells, d, (int64_t[]){DONOR[d].quiescent - wrong, wrong, 0, DONOR[d].active},
            (double[]){0.2, 0.7, 0.3, 0.9});
        six->accuracy[d] = 1 - (double)wrong / (double)cells;
        six->mean += six->accuracy[d] / DONORS;
    }
    for (int d = 0; d < DONORS; d++) squares += pow(six->accuracy[d] - six->mean, 2);
    six->deviation = sqrt(squares / DONORS);
    for (int d = 0; d < DONORS; d++) six->folds[d] = one_of_six(six, d);
    six->directory = scratch_directory();
    if (!tested_folds_report(six->folds, DONORS, six->directory, &error)) fail_msg("%s", error.text);
    return 0;
}

static int close_six_folds(void **state) {
    SixFolds *six = *state;
    free(six->cells);
    free(six->train);
    free(six->directory);
    free(six);
    return 0;
}

static void folds_have_a_row_each_and_means(void **state) {
    const SixFolds *six = *state;
    Grid csv = grid_read(six->directory, "cross_validation_results.csv");
    assert_int_equal(csv.rows, 1 + DONORS + 3);
    for (int d = 0; d < DONORS; d++) {
        assert_near(grid_number(&csv, DONOR_NAMES[d], "accuracy"), six->accuracy[d], EXACT);
        assert_near(grid_number(&csv, DONOR_NAMES[d], "recall"), 1, 0);
        assert_near(grid_number(&csv, DONOR_NAMES[d], "best_epoch"), d + 1, 0);
    }
    assert_near(grid_number(&csv, "MEAN", "accuracy"), six->mean, EXACT);
    assert_near(grid_number(&csv, "STD (divisor n)", "accuracy"), six->deviation, EXACT);
    assert_near(grid_number(&csv, "STD (divisor n - 1)", "accuracy"), six->deviation * sqrt(6.0 / 5), EXACT);
    free(csv.text);
    csv = grid_read(six->directory, "means.csv");
    assert_near(grid_number(&csv, "network", "accuracy"), six->mean, EXACT);
    assert_near(grid_number(&csv, "always quiescent", "specificity"), 1, 0);
    free(csv.text);
    char *path = path_join(six->directory, "cross_validation_results.md"), *markdown = read_text(path);
    assert_contains(markdown, "| 1 | 2899 | 2010 | 100 | 0 | 789 |"); /* D1's best epoch and counts */
    free(markdown);
    free(path);
    json_t *json = json_in(six->directory, "cross_validation_results.json");
    assert_near(number_at(json, "mean_test_accuracy"), six->mean, EXACT);
    assert_near(number_at(json, "std_test_accuracy"), six->deviation, EXACT);
    assert_int_equal(json_array_size(json_at(json, "folds")), DONORS);
    json_decref(json);
}

static void cells_of_all_folds_are_reported_together(void **state) {
    const SixFolds *six = *state;
    json_t *json = json_in(six->directory, "cross_validation_results.json");
    json_t *matrix = json_at(json, "confusion_matrix");
    assert_near(json_integer_value(json_array_get(json_array_get(matrix, 0), 1)), 100 + 200 + 300 + 300 + 500 + 600, 0);
    assert_near(json_integer_value(json_array_get(json_array_get(matrix, 1), 1)), 5362, 0);
    assert_near(number_at(json, "donor_correlation_photons"), 0.4208, ROUNDED);
    assert_near(number_at(json, "donor_correlation_size"), -0.02, 5e-3);
    for (int d = 0; d < DONORS; d++) {
        json_t *row = row_of(json_at(json, "donors"), "donor", DONOR_NAMES[d]);
        assert_near(number_at(row, "photons_mean"), DONOR[d].photons, 1e-6);
        assert_near(number_at(row, "photons_active_to_quiescent"), DONOR[d].ratio, 1e-12);
        assert_near(number_at(row, "size_mean"), DONOR[d].size, 1e-2); /* tenths of cells are whole cells */
        assert_near(number_at(row, "active"), DONOR[d].active, 0);
    }
    json_t *interval = row_of(json_at(json, "scores"), "score", "accuracy");
    assert_true(number_at(interval, "low") < number_at(interval, "value"));
    assert_true(number_at(interval, "high") > number_at(interval, "value"));
    assert_near(number_at(json_at(json, "intervals"), "drawn"), DONORS * FIELDS, 0);
    json_decref(json);
    Grid csv = grid_read(six->directory, "scores.csv");
    assert_near(grid_number(&csv, "network", "accuracy"), 1 - 2000.0 / MOST, EXACT);
    assert_near(grid_number(&csv, "always active", "accuracy"), 5362.0 / MOST, EXACT);
    assert_near(grid_number(&csv, "size", "cells"), MOST, 0);
    free(csv.text);
}

static void folds_have_curves_of_their_own(void **state) {
    const SixFolds *six = *state;
    Grid csv = grid_read(six->directory, "roc.csv"); /* the second point of the first curve */
    assert_string_equal(csv.cells[2][0], "all folds");
    assert_near(strtod(csv.cells[2][1], NULL), 0.7, EXACT);
    assert_near(strtod(csv.cells[2][2], NULL), 2000.0 / 10879, EXACT);
    assert_near(strtod(csv.cells[2][3], NULL), 1, 0);
    free(csv.text);
    csv = grid_read(six->directory, "precision_recall.csv");
    assert_near(grid_number(&csv, "all folds", "threshold"), 0.9, EXACT);
    assert_near(grid_number(&csv, "all folds", "precision"), 1, 0);
    assert_near(grid_number(&csv, "D6", "recall"), 1, 0);
    free(csv.text);
    char *curves = svg_in(six->directory, "validation_loss.svg");
    assert_contains(curves, ">D4</text>");
    free(curves);
    static const char *const others[] = {"roc.svg", "precision_recall.svg", "error_analysis.svg",
                                         "confusion_matrix.svg", "reliability.svg"};
    for (int i = 0; i < 5; i++) free(svg_in(six->directory, others[i]));
}

static void folds_that_cannot_be_reported_together(void **state) {
    const SixFolds *six = *state;
    TestedFold folds[DONORS];
    Error error;
    memcpy(folds, six->folds, sizeof folds);
    folds[1].name = "D1";
    assert_false(tested_folds_report(folds, DONORS, six->directory, &error));
    assert_contains(error.text, "two folds are called D1");
    assert_false(tested_folds_report(folds, 0, six->directory, &error));
    assert_contains(error.text, "no folds");
}

/* ---- small folds: 40 cells of three donors, 16 to train on, 12 to validate on, 12 to test on ---- */

enum { SMALL = 40, TRAIN = 16, HELD = 12 };

typedef struct {
    FlimCells cells;
    int32_t labels[SMALL], donors[SMALL], fields[SMALL], sizes[SMALL], peaks[SMALL], ids[SMALL];
    double photons[SMALL], logits[SMALL], views[SMALL * 2];
    unsigned char kept[SMALL];
    const char *files[SMALL];
    char names[SMALL][24];
    TestedFold fold;
} Small;

static const char *SMALL_FIELDS[] = {"D1 m1", "D1 m2", "D2 m1", "D2 m2", "D3 m1", "D3 m2"};
static const char *const VIEWS[] = {"identity", "rot90"};

/* Every second cell is active; its logit is 1.5, that of others -1.5. Size and photons say nothing of it. */
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
    s->cells = (FlimCells){.n = SMALL,
                           .file_names = s->files,
                           .labels = s->labels,
                           .donors = s->donors,
                           .fields = s->fields,
                           .sizes = s->sizes,
                           .peaks = s->peaks,
                           .photons = s->photons,
                           .n_donors = 3,
                           .n_fields = 6,
                           .donor_names = DONOR_NAMES,
                           .field_names = SMALL_FIELDS};
    s->fold = (TestedFold){"one", &s->cells, s->ids, TRAIN,
                           .validation = {.n = HELD, .ids = s->ids + TRAIN, .logits = s->logits + TRAIN}};
    s->fold.test = (CellPredictions){.n = HELD, .ids = s->ids + TRAIN + HELD, .logits = s->logits + TRAIN + HELD};
    return s;
}

static void nothing_wrong_is_no_reason_to_fail(void **state) {
    (void)state;
    Small *s = small_fold();
    char *directory = scratch_directory();
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
    free(svg_in(directory, "error_analysis_one.svg"));
    free(directory);
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
static void predictions_and_errors_cell_by_cell(void **state) {
    (void)state;
    Small *s = fold_with_views();
    char *directory = scratch_directory();
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
    free(directory);
    free(s);
}

static void tables_and_curves_of_a_small_fold(void **state) {
    (void)state;
    Small *s = fold_with_views();
    char *directory = scratch_directory();
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
    assert_int_equal(occurrences(errors, "class=\"TP\""), 1 + 1 + 1); /* one bin, the legend, the bar of its count */
    assert_int_equal(occurrences(errors, "class=\"FN\""), 2 + 1 + 1); /* .02 and .5 */
    free(errors);
    free(directory);
    free(s);
}

/* Three of four cells with logit +-2 ln 3 have the predicted class: the claim is 9 to 1, the truth 3 to 1, so T is 2.
 */
static void a_planted_temperature_is_found(void **state) {
    (void)state;
    Small *s = small_fold();
    for (int i = TRAIN; i < SMALL; i++) {
        int place = (i - TRAIN) % HELD;
        s->logits[i] = (place < 4 ? 1 : -1) * 2 * log(3);
        s->labels[i] = place < 4 ? place % 4 != 0 : place % 4 == 0;
    }
    char *directory = scratch_directory();
    report(&s->fold, directory, NULL);
    json_t *json = json_in(directory, "test_results_one.json"), *temperature = json_at(json, "temperature");
    assert_near(number_at(temperature, "value"), 2, 1e-9); /* halved to the last bits of ln T */
    assert_near(number_at(json_at(temperature, "test_before"), "loss"), -(3 * log(0.9) + log(0.1)) / 4, EXACT);
    assert_near(number_at(json_at(temperature, "test_before"), "ece"), 0.15, EXACT);
    assert_near(number_at(json_at(temperature, "test_after"), "loss"), -(3 * log(0.75) + log(0.25)) / 4, 1e-9);
    assert_near(number_at(json_at(temperature, "test_after"), "ece"), 0, 1e-9);
    json_decref(json);
    free(directory);
    free(s);
}

/* Active cells are twice as bright in all donors: brightness alone is as good as the network. */
static void a_confound_is_warned_of(void **state) {
    (void)state;
    Small *s = small_fold();
    for (int i = 0; i < SMALL; i++) s->photons[i] *= 1 + s->labels[i];
    s->logits[SMALL - 1] = -1;
    char *directory = scratch_directory();
    report(&s->fold, directory, NULL);
    json_t *json = json_in(directory, "test_results_one.json"), *warnings = json_at(json, "warnings");
    assert_int_equal(json_array_size(warnings), 2); /* and the regression on all three */
    const char *first = json_string_value(json_array_get(warnings, 0));
    assert_contains(first, "'brightness' has balanced accuracy 1.0000 and AUROC 1.0000, the network 0.9167");
    assert_contains(first, "the network has not beaten it");
    assert_near(number_at(json_at(json_at(json, "baselines"), "brightness"), "accuracy"), 1, 0);
    assert_true(number_at(json_at(json_at(json, "baselines"), "size"), "auroc") == 0.5);
    json_decref(json);
    BinaryScores network = {.balanced_accuracy = 0.80, .auroc = 0.9}, near = {.balanced_accuracy = 0.7, .auroc = 0.86};
    char *warning = baseline_warning(BASELINE_SIZE, &near, &network);
    assert_contains(warning, "the network may have learnt little else");
    free(warning);
    near.auroc = 0.8;
    assert_null(baseline_warning(BASELINE_SIZE, &near, &network));
    warning = baseline_warning(BASELINE_ACTIVE, &(BinaryScores){.balanced_accuracy = 0.5, .auroc = 0.5},
                               &(BinaryScores){.balanced_accuracy = 0.52, .auroc = 0.6});
    assert_contains(warning, "'always active'");
    assert_contains(warning, "the network has learnt little");
    free(warning);
    free(directory);
    free(s);
}

/* The regressions' thresholds follow the fold's rule: cells of the other donors are larger by more than what parts the
 * classes. */
static void baselines_choose_as_the_network_does(void **state) {
    (void)state;
    Small *s = small_fold();
    for (int i = 0; i < SMALL; i++) {
        int spread = i / 2 % 5;
        s->sizes[i] = i < TRAIN ? 100 + 4 * s->labels[i] + 2 * spread : 110 + 6 * s->labels[i] + spread;
    }
    char *directory = scratch_directory();
    for (ThresholdRule rule = THRESHOLD_HALF; rule < THRESHOLD_RULES; rule++) {
        s->fold.rule = rule;
        report(&s->fold, directory, NULL);
        json_t *json = json_in(directory, "test_results_one.json"), *size = json_at(json_at(json, "baselines"), "size");
        assert_near(number_at(size, "auroc"), 1, 0);
        if (rule == THRESHOLD_HALF) assert_near(number_at(size, "balanced_accuracy"), 0.5, 0);
        if (rule == THRESHOLD_F1 || rule == THRESHOLD_BALANCED) assert_near(number_at(size, "balanced_accuracy"), 1, 0);
        assert_string_equal(json_string_value(json_at(json_at(json, "threshold"), "rule")), THRESHOLD_RULE_NAMES[rule]);
        json_decref(json);
    }
    free(directory);
    free(s);
}

/* Cells of one size, of which a quarter is active in training: balanced weights know nothing of that. */
static void baselines_weigh_classes_as_they_are_told(void **state) {
    (void)state;
    Small *s = small_fold();
    for (int i = 0; i < SMALL; i++) {
        s->sizes[i] = 100;
        if (i < TRAIN) s->labels[i] = i % 4 == 0;
        s->peaks[i] = 50 + s->labels[i]; /* seen by the regression on all three only */
    }
    char *directory = scratch_directory();
    for (int balanced = 0; balanced < 2; balanced++) {
        s->fold.balanced = balanced;
        report(&s->fold, directory, NULL);
        json_t *json = json_in(directory, "test_results_one.json"), *baselines = json_at(json, "baselines");
        assert_near(number_at(json_at(baselines, "size"), "bias"), balanced ? 0 : -log(3), 1e-10);
        assert_near(number_at(json_at(baselines, "size + brightness + peak"), "accuracy"), 1, 0);
        assert_near(number_at(json_at(baselines, "training share"), "auroc"), 0.5, 0);
        json_decref(json);
    }
    free(directory);
    free(s);
}

/* ---- errors ---- */

static void assert_refused(const Small *s, const char *directory, const char *why) {
    Error error;
    assert_false(tested_fold_report(&s->fold, directory, NULL, &error));
    assert_contains(error.text, why);
}

static void what_cannot_be_reported(void **state) {
    (void)state;
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

/* ---- curves ---- */

static void curves_are_without_records_of_no_epoch(void **state) {
    (void)state;
    char *directory = scratch_directory(), *path = path_join(directory, "log.jsonl");
    static const char *const epochs[] = {"0", "-1", "1e9", "0.5", "\"1\"", "2"};
    char text[1024] = "";
    for (int i = 0; i < 6; i++)
        sprintf(text + strlen(text),
                "{\"step\": %d, \"train/epoch\": %s, \"train/loss\": %d}\n{\"step\": %d, \"val/loss\": %d}\n", i + 1,
                epochs[i], i, i + 1, 10 + i);
    write_text(path, "%s", text);
    EpochCurves c = epoch_curves_read(path);
    assert_int_equal(c.n, 3);
    assert_int_equal(c.left_out, 4);
    assert_true(c.values[CURVE_VAL_LOSS][0] == 10 && isnan(c.values[CURVE_VAL_LOSS][1]));
    assert_true(c.values[CURVE_VAL_LOSS][2] == 15 && c.values[CURVE_TRAIN_LOSS][2] == 5);
    epoch_curves_free(&c);
    free(path);
    free(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regressions_as_torch_finds_them),
        cmocka_unit_test(regressions_end),
        cmocka_unit_test(the_reference_s_outcome),
        cmocka_unit_test(baselines_and_counts_stand_beside_it),
        cmocka_unit_test(folds_have_a_row_each_and_means),
        cmocka_unit_test(cells_of_all_folds_are_reported_together),
        cmocka_unit_test(folds_have_curves_of_their_own),
        cmocka_unit_test(folds_that_cannot_be_reported_together),
        cmocka_unit_test(nothing_wrong_is_no_reason_to_fail),
        cmocka_unit_test(predictions_and_errors_cell_by_cell),
        cmocka_unit_test(tables_and_curves_of_a_small_fold),
        cmocka_unit_test(a_planted_temperature_is_found),
        cmocka_unit_test(a_confound_is_warned_of),
        cmocka_unit_test(baselines_choose_as_the_network_does),
        cmocka_unit_test(baselines_weigh_classes_as_they_are_told),
        cmocka_unit_test(what_cannot_be_reported),
        cmocka_unit_test(curves_are_without_records_of_no_epoch),
    };
    return cmocka_run_group_tests(tests, open_six_folds, close_six_folds);
}
