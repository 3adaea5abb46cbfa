/* The report of a cross-validation of cells with the numbers of the reference: of one fold and of all together.
 *
 * EXACT bounds the rounding errors of sums of some terms of size 1, ROUNDED those of numbers with four decimals. */
#include "tests/report/rig.h"

#include <math.h>

#include "commands/cv/report/epoch_curves.h"
#include "commands/cv/report/tested_fold.h"

static Error error;

static const double EXACT = 1e-13, ROUNDED = 5.0001e-5;

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
    CvCells cells;
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
    s->cells = (CvCells){.n = s->cells.n,
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

/* Sets the predictions for a donor's cells: how many have each outcome, and their p. */
static void predict(Set *s, int donor, const int64_t *outcomes, const double *p) {
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
    FoldResult result;
    if (!tested_fold_report(fold, directory, &result, &error)) fail_msg("%s", error.text);
    if (scores) *scores = result.scores;
}

/* Returns the row of a table in JSON that begins with `key`. */
static json_t *row_of(const json_t *table, const char *column, const char *key) {
    for (size_t i = 0; i < json_array_size(table); i++) {
        json_t *row = json_array_get(table, i);
        if (!strcmp(json_string_value(json_at(row, column)), key)) return row;
    }
    fail_msg("there is no %s", key);
    return NULL;
}

/* The reference's results for donor 5: its four counts, and the median p of each. */
static const int64_t REFERENCE[] = {415, 210, 73, 1218};
static const double REFERENCE_P[] = {0.085, 0.852, 0.194, 0.933};

/* The report of the fold that is tested on donor 5, in a new directory. */
static char *report_of_donor_5(BinaryScores *scores) {
    Set *s = six_donors();
    predict(s, 4, REFERENCE, REFERENCE_P);
    predict(s, 5, (int64_t[]){3000, 210, 100, 857}, REFERENCE_P);
    TestedFold fold = {"D5", &s->cells, s->ids, s->first[4], predictions(s, 5), predictions(s, 4), .balanced = true};
    fold.best_epoch = 17, fold.epochs = 2, fold.val_losses = (double[]){0.5, 0.25};
    char *directory = kept_folder();
    report(&fold, directory, scores);
    free(s);
    return directory;
}

TEST(the_outcome_of_the_reference_is_reported) {
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
    char *path = kept_path(directory, "test_results_D5.md"), *markdown = kept_text(path);
    assert_contains(markdown, "tested on 1916 of D5");
    assert_contains(markdown, "trained on 10158 cells of D1 D2 D3 D4 (30.7 % active)");
    assert_contains(markdown, "false positives have a median p of 0.8520: the network is sure of them");
    assert_contains(markdown, "false negatives have a median p of 0.1940: the network takes them for the other class");
    assert_contains(markdown, "are 0.8480 apart: far");
    assert_contains(markdown, "| quiescent | 415 | 210 |");
}

TEST(baselines_and_counts_are_reported_beside_it) {
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
}

/* ---- six folds, of which number d has 100 (d + 1) quiescent cells taken for active, and all others right ---- */

static struct {
    Set *cells;
    TestedFold folds[DONORS];
    int32_t *train;
    double accuracy[DONORS], mean, deviation; /* over folds, divisor n */
    const char *directory;                    /* has the report */
} six;

/* Trained on the donors that are neither tested nor validated on. */
static TestedFold one_of_six(int d) {
    static const double losses[] = {0.5, 0.4, 0.45};
    const Set *s = six.cells;
    int v = (d + 1) % DONORS;
    int32_t *ids = six.train + (int64_t)d * MOST;
    TestedFold fold = {DONOR_NAMES[d], &s->cells, ids, 0, predictions(s, v), predictions(s, d), .balanced = true};
    for (int32_t i = 0; i < MOST; i++)
        if (s->donors[i] != d && s->donors[i] != v) ids[fold.n_train++] = i;
    fold.best_epoch = d + 1, fold.epochs = 3, fold.val_losses = losses;
    return fold;
}

static int open_six_folds(void **state) {
    (void)state;
    double squares = 0;
    six.cells = six_donors();
    six.train = xmalloc(DONORS * MOST * sizeof *six.train);
    for (int d = 0; d < DONORS; d++) {
        int64_t wrong = d == 3 ? 300 : 100 * (d + 1), cells = DONOR[d].quiescent + DONOR[d].active;
        predict(six.cells, d, (int64_t[]){DONOR[d].quiescent - wrong, wrong, 0, DONOR[d].active},
                (double[]){0.2, 0.7, 0.3, 0.9});
        six.accuracy[d] = 1 - (double)wrong / (double)cells;
        six.mean += six.accuracy[d] / DONORS;
    }
    for (int d = 0; d < DONORS; d++) squares += pow(six.accuracy[d] - six.mean, 2);
    six.deviation = sqrt(squares / DONORS);
    for (int d = 0; d < DONORS; d++) six.folds[d] = one_of_six(d);
    six.directory = run_directory();
    if (!tested_folds_report(six.folds, DONORS, six.directory, &error)) fail_msg("%s", error.text);
    return 0;
}

static int close_six_folds(void **state) {
    (void)state;
    free(six.cells);
    free(six.train);
    return 0;
}

TEST(folds_have_a_row_each_and_means) {
    Grid csv = grid_read(six.directory, "cross_validation_results.csv");
    assert_int_equal(csv.rows, 1 + DONORS + 5);
    for (int d = 0; d < DONORS; d++) {
        assert_near(grid_number(&csv, DONOR_NAMES[d], "accuracy"), six.accuracy[d], EXACT);
        assert_near(grid_number(&csv, DONOR_NAMES[d], "recall"), 1, 0);
        assert_near(grid_number(&csv, DONOR_NAMES[d], "best_epoch"), d + 1, 0);
    }
    assert_near(grid_number(&csv, "MEAN", "accuracy"), six.mean, EXACT);
    double low = grid_number(&csv, "95 % interval of the mean, low", "accuracy"),
           high = grid_number(&csv, "95 % interval of the mean, high", "accuracy"), smallest = 1, largest = 0;
    for (int d = 0; d < DONORS; d++) {
        smallest = fmin(smallest, six.accuracy[d]);
        largest = fmax(largest, six.accuracy[d]);
    }
    assert_true(smallest <= low && low < six.mean && six.mean < high && high <= largest);
    /* the mean of six draws has the deviation of one over sqrt(6); 1.96 of them, but for the few distinct draws */
    assert_near((high - low) / (2 * 1.96 * six.deviation / sqrt(6)), 1, 0.2);
    assert_near(grid_number(&csv, "STD (divisor n)", "accuracy"), six.deviation, EXACT);
    assert_near(grid_number(&csv, "STD (divisor n - 1)", "accuracy"), six.deviation * sqrt(6.0 / 5), EXACT);
    free(csv.text);
    csv = grid_read(six.directory, "means.csv");
    assert_near(grid_number(&csv, "network", "accuracy"), six.mean, EXACT);
    assert_near(grid_number(&csv, "always quiescent", "specificity"), 1, 0);
    free(csv.text);
    char *path = kept_path(six.directory, "cross_validation_results.md"), *markdown = kept_text(path);
    assert_contains(markdown, "| 1 | 2899 | 2010 | 100 | 0 | 789 |"); /* D1's best epoch and counts */
    json_t *json = json_in(six.directory, "cross_validation_results.json");
    assert_near(number_at(json, "mean_test_accuracy"), six.mean, EXACT);
    assert_near(number_at(json, "std_test_accuracy"), six.deviation, EXACT);
    assert_int_equal(json_array_size(json_at(json, "folds")), DONORS);
    json_decref(json);
}

TEST(cells_of_all_folds_are_reported_together) {
    json_t *json = json_in(six.directory, "cross_validation_results.json");
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
    Grid csv = grid_read(six.directory, "scores.csv");
    assert_near(grid_number(&csv, "network", "accuracy"), 1 - 2000.0 / MOST, EXACT);
    assert_near(grid_number(&csv, "always active", "accuracy"), 5362.0 / MOST, EXACT);
    assert_near(grid_number(&csv, "size", "cells"), MOST, 0);
    free(csv.text);
}

/* Returns the field of the second row that begins with `key`. */
static double second_number(const Grid *csv, const char *key, int column) {
    int row = 1;
    while (strcmp(csv->cells[row][0], key)) row++;
    assert_string_equal(csv->cells[row + 1][0], key);
    return strtod(csv->cells[row + 1][column], NULL);
}

/* The four counts of a fold make a curve of two corners: p is .9 for active cells, .7 for the wrong ones, else .2. */
TEST(folds_have_curves_of_their_own) {
    static const char pooled[] = "all folds' cells, pooled";
    Grid csv = grid_read(six.directory, "roc.csv");
    assert_near(second_number(&csv, pooled, 1), 0.7, EXACT);
    assert_near(second_number(&csv, pooled, 2), 2000.0 / 10879, EXACT);
    assert_near(second_number(&csv, pooled, 3), 1, 0);
    assert_near(second_number(&csv, "D1", 2), 100.0 / 2110, EXACT);
    assert_string_equal(csv.cells[1][0], "mean over folds");
    assert_near(grid_number(&csv, "mean over folds", "true_positive_rate"), 1, EXACT);
    free(csv.text);
    csv = grid_read(six.directory, "precision_recall.csv");
    assert_near(grid_number(&csv, pooled, "threshold"), 0.9, EXACT);
    assert_near(grid_number(&csv, pooled, "precision"), 1, 0);
    assert_near(grid_number(&csv, "D6", "recall"), 1, 0);
    free(csv.text);
}

TEST(pictures_of_all_folds_are_written) {
    char *curves = svg_in(six.directory, "validation_loss.svg");
    assert_contains(curves, ">D4</text>");
    assert_int_equal(occurrences(curves, "plot-best"), 3); /* of folds whose best epoch is one of the three drawn */
    static const char *const others[] = {"roc.svg", "precision_recall.svg", "error_analysis.svg",
                                         "confusion_matrix.svg", "reliability.svg"};
    for (int i = 0; i < 5; i++) svg_in(six.directory, others[i]);
}

TEST(folds_with_the_same_name_are_refused) {
    TestedFold folds[DONORS];
    memcpy(folds, six.folds, sizeof folds);
    folds[1].name = "D1";
    assert_false(tested_folds_report(folds, DONORS, six.directory, &error));
    assert_contains(error.text, "two folds are called D1");
    assert_false(tested_folds_report(folds, 0, six.directory, &error));
    assert_contains(error.text, "no folds");
}

/* ---- curves ---- */

TEST(curves_leave_out_records_without_an_epoch) {
    char *directory = kept_folder(), *path = kept_path(directory, "log.jsonl");
    static const char *const epochs[] = {"1", "0", "1e9", "1.5", "\"1\"", "3"};
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
}

/* Last, since it changes the predictions. The figure's mean and interval are those of the table, also for folds that
 * differ: here half of them are surer of their wrong cells than of their right ones. */
TEST(the_curve_of_the_folds_is_their_mean) {
    char *directory = kept_folder();
    for (int d = 0; d < DONORS; d += 2)
        predict(six.cells, d, (int64_t[]){DONOR[d].quiescent - 100 * d, 100 * d, 0, DONOR[d].active},
                (double[]){0.2, 0.95, 0.3, 0.9});
    if (!tested_folds_report(six.folds, DONORS, directory, &error)) fail_msg("%s", error.text);
    Grid csv = grid_read(directory, "cross_validation_results.csv");
    assert_true(grid_number(&csv, "MEAN", "auroc") < 0.99 && grid_number(&csv, "MEAN", "auroc") > 0.6);
    char *roc = svg_in(directory, "roc.svg"), *recall = svg_in(directory, "precision_recall.svg");
    static const struct { const char *score, *area; } figures[] = {{"auroc", "AUROC"}, {"auprc", "AP"}};
    for (int i = 0; i < 2; i++) {
        char *mean =
            xformat(">mean of 6 folds: %s %.3f<", figures[i].area, grid_number(&csv, "MEAN", figures[i].score));
        char *band = kept_format(">95 %% interval of the mean: %.3f to %.3f<",
                                 grid_number(&csv, "95 % interval of the mean, low", figures[i].score),
                                 grid_number(&csv, "95 % interval of the mean, high", figures[i].score));
        assert_contains(i ? recall : roc, mean);
        assert_contains(i ? recall : roc, band);
        free(mean);
    }
    assert_null(strstr(roc, "pooled"));
    free(csv.text);
}

int main(void) { return tests_run(open_six_folds, close_six_folds); }
