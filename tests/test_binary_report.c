/* Thresholds, scores, baselines and reports of a binary classifier of cells.
 *
 * EXACT is what sums of some rounded terms of size 1 can be off; ROUNDED what a number of four decimals can be. */
#include "tests/report_rig.h"

#include "kernels/philox.h"
#include "train/binary_baselines.h"
#include "train/binary_report.h"

static const double EXACT = 1e-13, ROUNDED = 5.0001e-5;

/* ---- thresholds ---- */

static Threshold choose(ThresholdRule rule, const double *p, const int32_t *labels, int64_t n, double share) {
    Threshold t;
    Error error;
    if (!threshold_choose(rule, p, labels, n, share, &t, &error)) fail_msg("%s", error.text);
    return t;
}

/* 957 of 4,167 cells about .85, the others about .10, of training cells 3,114 of 10,158 active: the reference says
 * .51440. */
static void two_means_lean_on_the_shares(void **state) {
    (void)state;
    enum { ALL = 4167, UP = 957 };
    double *p = xmalloc(ALL * sizeof *p);
    for (int i = 0; i < ALL; i++) /* symmetric about the centres, and not sorted */
        p[i * 1000 % ALL] = i < UP ? 0.85 + 0.1 * (i - (UP - 1) / 2) / UP : 0.1 + 0.1 * (i - UP - 1604.5) / (ALL - UP);
    Threshold t = choose(THRESHOLD_KMEANS, p, NULL, ALL, 3114.0 / 10158);
    assert_near(t.low, 0.1, 1e-12);
    assert_near(t.high, 0.85, 1e-12);
    assert_near(t.base, 0.475, 1e-12);
    assert_near(t.share, 957.0 / 4167, 0);
    assert_near(t.adjustment, -0.039395, 5.1e-7); /* a tenth of -.39395 */
    assert_near(t.value, 0.5144, ROUNDED / 10);   /* given to five decimals */
    char *text = threshold_text(&t);
    assert_contains(text, "0.5144: the middle 0.4750 of validation's centres 0.1000 and 0.8500");
    free(text);
    free(p);
}

static double within(const double *sorted, int from, int to) {
    double mean = 0, sum = 0;
    for (int i = from; i < to; i++) mean += sorted[i] / (to - from);
    for (int i = from; i < to; i++) sum += (sorted[i] - mean) * (sorted[i] - mean);
    return sum;
}

/* Against every way to part sorted values in two. */
static void two_means_are_the_best_two(void **state) {
    (void)state;
    enum { N = 31 };
    double p[N];
    for (int draw = 0; draw < 20; draw++) {
        double best = INFINITY, base = 0;
        for (int i = 0; i < N; i++) /* ascending; the steps differ from draw to draw */
            p[i] = (i ? p[i - 1] : 0) + philox_bits(1, PURPOSE_TEST, (uint32_t)draw, (uint64_t)i) % 1000 / 40000.0;
        for (int k = 1; k < N; k++) {
            double sum = within(p, 0, k) + within(p, k, N), low = 0, high = 0;
            for (int i = 0; i < N; i++) *(i < k ? &low : &high) += p[i];
            if (sum < best) best = sum, base = (low / k + high / (N - k)) / 2;
        }
        assert_near(choose(THRESHOLD_KMEANS, p, NULL, N, 0.5).base, base, EXACT);
    }
}

/* Active cells at .2, .6, .8, inactive ones at .1, .3, .5, .55: above .55 are two of three and no false one (F1 .8,
 * balanced accuracy 5/6); above .1 all three, and three false ones (F1 2/3, 5/8). */
static void labels_choose_a_threshold(void **state) {
    (void)state;
    const double p[] = {0.2, 0.6, 0.8, 0.1, 0.3, 0.5, 0.55};
    const int32_t labels[] = {1, 1, 1, 0, 0, 0, 0};
    Threshold t = choose(THRESHOLD_F1, p, labels, 7, 0.5);
    assert_near(t.reached, 0.8, EXACT);
    assert_near(t.value, 0.575, 1e-15); /* between .55 and .6 */
    t = choose(THRESHOLD_BALANCED, p, labels, 7, 0.5);
    assert_near(t.reached, 5.0 / 6, EXACT);
    assert_near(t.value, 0.575, 1e-15);
    t = choose(THRESHOLD_BALANCED, (double[]){0.2, 0.4, 0.6, 0.8}, (int32_t[]){0, 1, 0, 1}, 4, 0.5);
    assert_near(t.reached, 0.75, 0); /* at .3 and .7: the lowest is taken */
    assert_near(t.value, 0.3, EXACT);
    const double sure[] = {nextafter(1, 0), 1, 1}, zero[] = {0, 0, 1}; /* no number lies between the first and 1 */
    t = choose(THRESHOLD_BALANCED, sure, (int32_t[]){0, 1, 1}, 3, 0.5);
    assert_true(sure[1] > t.value && !(sure[0] > t.value));
    t = choose(THRESHOLD_F1, zero, (int32_t[]){1, 1, 0}, 3, 0.5); /* all are active */
    assert_true(zero[0] > t.value);
    assert_near(choose(THRESHOLD_HALF, p, labels, 0, 0).value, 0.5, 0);
}

static void what_has_no_threshold(void **state) {
    (void)state;
    const double same[] = {0.3, 0.3}, bad[] = {0.3, 1.5};
    const int32_t ones[] = {1, 1};
    Threshold t;
    Error error;
    assert_false(threshold_choose(THRESHOLD_KMEANS, same, ones, 2, 0.5, &t, &error));
    assert_contains(error.text, "all 2 probabilities are the same");
    assert_false(threshold_choose(THRESHOLD_KMEANS, bad, ones, 2, 0.5, &t, &error));
    assert_contains(error.text, "validation cell 1 is 1.5");
    assert_false(threshold_choose(THRESHOLD_KMEANS, (double[]){0.1, 0.2}, ones, 2, 1, &t, &error));
    assert_contains(error.text, "active cells in training is 1");
    assert_false(threshold_choose(THRESHOLD_F1, same, ones, 2, 0.5, &t, &error));
    assert_contains(error.text, "0 negative and 2 positive");
    assert_false(threshold_choose(THRESHOLD_F1, same, ones, 0, 0.5, &t, &error));
    assert_contains(error.text, "no validation cells");
}

/* ---- scores ---- */

/* Cells of one label and p, to be scored at 0.5. */
static void fill(BinaryRow *rows, int64_t n, int label, double p) {
    for (int64_t i = 0; i < n; i++)
        rows[i] = (BinaryRow){.label = label, .p = p, .logit = log(p / (1 - p)), .threshold = 0.5};
}

static BinaryScores scores_of(const BinaryRow *rows, int64_t n) {
    BinaryScores s;
    Error error;
    if (!binary_scores(rows, n, &s, NULL, &error)) fail_msg("%s", error.text);
    return s;
}

static void scores_by_hand(void **state) {
    (void)state;
    BinaryRow rows[10];
    fill(rows, 4, 0, 0.1);
    fill(rows + 4, 2, 0, 0.8);
    fill(rows + 6, 1, 1, 0.1);
    fill(rows + 7, 3, 1, 0.9);
    BinaryScores s = scores_of(rows, 10);
    assert_near(s.accuracy, 0.7, EXACT);
    assert_near(s.precision, 0.6, EXACT);
    assert_near(s.recall, 0.75, EXACT);
    assert_near(s.specificity, 4.0 / 6, EXACT);
    assert_near(s.balanced_accuracy, (0.75 + 4.0 / 6) / 2, EXACT);
    assert_near(s.f1, 6.0 / 9, EXACT);
    assert_near(s.mcc, (3 * 4 - 2 * 1) / sqrt(5 * 4 * 6 * 5.0), EXACT);
    assert_near(s.auroc, (3 * 6 + 4 * 0.5) / 24, EXACT);                       /* of 24 pairs */
    assert_near(s.auprc, 0.75 * 1 + 0.25 * 4 / 10, EXACT);                     /* 3 of 3, then 4 of 10 */
    assert_near(s.brier, (5 * 0.01 + 2 * 0.64 + 0.81 + 2 * 0.01) / 10, EXACT); /* .1 thrice right of 4 ... */
    assert_near(s.loss, -(4 * log(0.9) + 2 * log(0.2) + log(0.1) + 3 * log(0.9)) / 10, EXACT);
    /* Confidence .9: 8 cells, 7 of them right; .8: 2 cells, none right. */
    assert_near(s.ece, (fabs(7 - 8 * 0.9) + 2 * 0.8) / 10, EXACT);
    for (int i = 0; i < 10; i++) rows[i].logit = NAN; /* the loss of p is the same */
    assert_near(scores_of(rows, 10).loss, s.loss, EXACT);
    rows[0].logit = 1000, rows[1].logit = -1000;
    for (int i = 2; i < 10; i++) rows[i].logit = rows[i].label ? 1000 : -1000;
    assert_near(scores_of(rows, 10).loss, 100, EXACT); /* no overflow: 1000 / 10 */
}

static void one_class_has_no_areas(void **state) {
    (void)state;
    BinaryRow rows[4];
    fill(rows, 3, 1, 0.9);
    fill(rows + 3, 1, 1, 0.2);
    BinaryScores s = scores_of(rows, 4);
    assert_true(isnan(s.auroc) && isnan(s.auprc));
    assert_near(s.accuracy, 0.75, 0);
    assert_near(s.specificity, 0, 0);
    BinaryIntervals i = binary_intervals(rows, 4, 1);
    assert_true(isnan(i.low[1]) && isnan(i.high[4]) && i.low[0] < i.high[0]);
    Error error;
    assert_false(binary_scores(rows, 0, &s, NULL, &error));
    assert_contains(error.text, "no rows");
    rows[1].p = 1.5;
    assert_false(binary_scores(rows, 4, &s, NULL, &error));
    assert_contains(error.text, "probability [1");
}

/* Two fields of view, all right in one, all wrong in the other. Drawn as fields, a quarter of the resamples is all
 * right or all wrong; drawn as cells, 40 of them, hardly one would be beyond .3 .. .7. */
static void intervals_draw_fields(void **state) {
    (void)state;
    BinaryRow rows[40];
    for (int i = 0; i < 40; i++) {
        int label = i % 2, right = i < 20;
        rows[i] =
            (BinaryRow){.label = label, .field = right ? 1 : 3, .p = label == right ? 0.8 : 0.2, .threshold = 0.5};
    }
    BinaryIntervals fields = binary_intervals(rows, 40, 5);
    assert_string_equal(fields.unit, "field");
    assert_int_equal(fields.drawn, 2);
    for (int k = 0; k < 2; k++) {
        assert_near(fields.low[k], 0, EXACT);
        assert_near(fields.high[k], 1, EXACT);
    }
    assert_near(fields.low[4], 0, EXACT); /* AUROC */
    assert_near(fields.high[4], 1, EXACT);
    for (int i = 0; i < 40; i++) rows[i].field = 2;
    BinaryIntervals cells = binary_intervals(rows, 40, 5);
    assert_string_equal(cells.unit, "cell");
    assert_true(cells.low[0] > 0.3 && cells.high[0] < 0.7);
    for (int i = 0; i < 40; i++) rows[i].p = 0.4; /* nothing is told apart, whatever is drawn */
    cells = binary_intervals(rows, 40, 5);
    assert_near(cells.low[4], 0.5, EXACT);
    assert_near(cells.high[4], 0.5, EXACT);
}

static void quartiles_lie_between_neighbours(void **state) {
    (void)state;
    BinarySpread s = binary_spread((double[]){4, 1, 3, 2}, 4);
    assert_near(s.lower, 1.75, 0);
    assert_near(s.median, 2.5, 0);
    assert_near(s.upper, 3.25, 0);
    assert_near(s.deviation, sqrt(1.25), EXACT);
    s = binary_spread(NULL, 0);
    assert_true(isnan(s.mean) && isnan(s.median) && s.n == 0);
}

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
    int inactive, active;
    double photons, ratio, size; /* mean; of active over inactive cells; mean */
} DONOR[DONORS] = {{2110, 789, 55878.8, 0.807, 215.9},  {2184, 582, 59871.4, 0.954, 199.3},
                   {2351, 604, 65297.3, 0.957, 202.1},  {399, 1139, 80339.7, 0.958, 165.5},
                   {625, 1291, 112668.2, 1.859, 254.4}, {3210, 957, 112089.0, 1.601, 212.7}};
static const char *const CLASSES[] = {"inactive", "active"}, *const DONOR_NAMES[] = {"D1", "D2", "D3",
                                                                                     "D4", "D5", "D6"};

typedef struct {
    BinaryCells cells;
    int32_t labels[MOST], donors[MOST], fields[MOST], sizes[MOST], peaks[MOST], ids[MOST];
    double photons[MOST], logits[MOST];
    unsigned char kept[MOST];
    const char *files[MOST], *field_names[DONORS * FIELDS];
    char names[MOST][40], of_fields[DONORS * FIELDS][16];
    int first[DONORS + 1];
} Set;

static void add_cell(Set *s, int donor, int label, int number) {
    int64_t i = s->cells.n++;
    double inactive = DONOR[donor].inactive, active = DONOR[donor].active;
    double dim = DONOR[donor].photons * (inactive + active) / (inactive + DONOR[donor].ratio * active);
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
        for (int i = 0; i < DONOR[d].inactive; i++) add_cell(s, d, 0, i);
        for (int i = 0; i < DONOR[d].active; i++) add_cell(s, d, 1, i);
        s->first[d + 1] = (int)s->cells.n;
    }
    s->cells = (BinaryCells){s->cells.n, s->files, s->labels,       s->donors,   s->fields,      s->sizes, s->peaks,
                             s->photons, DONORS,   DONORS * FIELDS, DONOR_NAMES, s->field_names, CLASSES};
    return s;
}

/* What is said of a donor's cells: of each outcome so many, one p each. */
static void say(Set *s, int donor, const int64_t *outcomes, const double *p) {
    int i = s->first[donor];
    for (int o = 0; o < BINARY_OUTCOMES; o++)
        for (int64_t k = 0; k < outcomes[o]; k++) s->logits[i++] = log(p[o] / (1 - p[o]));
    assert_int_equal(i, s->first[donor + 1]);
}

static BinaryPredictions predictions(const Set *s, int donor) {
    int at = s->first[donor];
    return (BinaryPredictions){.n = s->first[donor + 1] - at, .ids = s->ids + at, .logits = s->logits + at};
}

static void report(const BinaryFold *fold, const char *directory, BinaryScores *scores) {
    Error error;
    if (!report_binary_fold(fold, directory, scores, &error)) fail_msg("%s", error.text);
}

static json_t *at(const json_t *root, const char *key) {
    json_t *value = json_object_get(root, key);
    if (!value) fail_msg("there is no '%s'", key);
    return value;
}

/* The row of a table in JSON that begins with this. */
static json_t *row_of(const json_t *table, const char *column, const char *key) {
    for (size_t i = 0; i < json_array_size(table); i++) {
        json_t *row = json_array_get(table, i);
        if (!strcmp(json_string_value(at(row, column)), key)) return row;
    }
    fail_msg("there is no %s", key);
    return NULL;
}

/* What the reference says of donor 5: its four counts, the medians of p of each. */
static const int64_t REFERENCE[] = {415, 210, 73, 1218};
static const double REFERENCE_P[] = {0.085, 0.852, 0.194, 0.933};

static void the_reference_s_outcome(void **state) {
    (void)state;
    Set *s = six_donors();
    say(s, 4, REFERENCE, REFERENCE_P);
    say(s, 5, (int64_t[]){3000, 210, 100, 857}, REFERENCE_P);
    BinaryFold fold = {"D5", &s->cells, s->ids, s->first[4], predictions(s, 5), predictions(s, 4), .balanced = true};
    fold.best_epoch = 17, fold.epochs = 2, fold.val_losses = (double[]){0.5, 0.25};
    char *directory = scratch_directory();
    BinaryScores scores;
    report(&fold, directory, &scores);
    assert_near(scores.accuracy, 0.8523, ROUNDED);
    assert_near(scores.precision, 0.8529, ROUNDED);
    assert_near(scores.recall, 0.9435, ROUNDED);
    assert_near(scores.f1, 0.8959, ROUNDED);
    assert_near(scores.specificity, 0.664, ROUNDED);
    assert_near(scores.balanced_accuracy, 0.8037, ROUNDED);
    assert_near(scores.mcc, 0.6536, ROUNDED);
    assert_near(scores.auroc, (1218 * 625 + 73 * 415) / (1291.0 * 625), EXACT);
    json_t *json = json_read(directory, "test_results_D5.json"), *baselines = at(json, "baselines");
    assert_near(real_of(at(baselines, "always active"), "accuracy"), 0.6738, ROUNDED);
    assert_near(real_of(at(baselines, "always active"), "f1"), 0.8051, ROUNDED);
    assert_near(real_of(at(baselines, "always active"), "auroc"), 0.5, 0);
    assert_true(json_is_null(at(at(baselines, "always active"), "loss"))); /* infinite */
    assert_near(real_of(at(baselines, "always inactive"), "specificity"), 1, 0);
    assert_near(real_of(at(baselines, "training share"), "brier"),
                (625 * pow(0.30656, 2) + 1291 * pow(1 - 0.30656, 2)) / 1916, 1e-4);
    assert_near(real_of(json, "training_share"), 3114.0 / 10158, EXACT);
    assert_near(real_of(json, "num_train_samples"), 10158, 0);
    assert_near(real_of(json, "num_val_samples"), 4167, 0);
    assert_near(real_of(json, "num_test_samples"), 1916, 0);
    assert_near(real_of(json, "best_epoch"), 17, 0);
    assert_near(real_of(json, "test_acc"), scores.accuracy, 0);
    assert_near(real_of(json, "val_acc"), 3857.0 / 4167, EXACT);
    assert_near(json_number_value(json_array_get(at(json, "val_losses"), 1)), 0.25, 0);
    assert_null(json_object_get(json, "train_losses"));
    assert_int_equal(json_array_size(at(json, "training_donors")), 4);
    json_t *matrix = at(json, "confusion_matrix");
    for (int o = 0; o < BINARY_OUTCOMES; o++)
        assert_near(json_integer_value(json_array_get(json_array_get(matrix, (size_t)o / 2), (size_t)o % 2)),
                    REFERENCE[o], 0);
    for (int o = 0; o < BINARY_OUTCOMES; o++) {
        json_t *row = row_of(at(json, "error_analysis"), "outcome", BINARY_OUTCOME_NAMES[o]);
        assert_near(real_of(row, "p_median"), REFERENCE_P[o], EXACT);
        assert_near(real_of(row, "cells"), REFERENCE[o], 0);
        assert_near(real_of(row, "above_0.7"), o % 2, 0); /* .852 and .933 */
    }
    json_decref(json);
    char *path = path_join(directory, "test_results_D5.md"), *markdown = read_text(path);
    assert_contains(markdown, "tested on 1916 of D5");
    assert_contains(markdown, "trained on 10158 cells of D1 D2 D3 D4 (30.7 % active)");
    assert_contains(markdown, "false positives have a median p of 0.8520: the network is sure of them");
    assert_contains(markdown, "false negatives have a median p of 0.1940: the network takes them for the other class");
    assert_contains(markdown, "are 0.8480 apart: far");
    assert_contains(markdown, "| inactive | 415 | 210 |");
    free(markdown);
    free(path);
    free(directory);
    free(s);
}

/* Six folds, of which number d has 100 (d + 1) inactive cells taken for active, and all others right. */
static void folds_and_donors_in_one_report(void **state) {
    static const double losses[] = {0.5, 0.4, 0.45};
    (void)state;
    Set *s = six_donors();
    BinaryFold folds[DONORS];
    int32_t *train = xmalloc(DONORS * MOST * sizeof *train);
    double accuracy[DONORS], mean = 0, squares = 0;
    for (int d = 0; d < DONORS; d++) {
        int64_t wrong = d == 3 ? 300 : 100 * (d + 1);
        say(s, d, (int64_t[]){DONOR[d].inactive - wrong, wrong, 0, DONOR[d].active}, (double[]){0.2, 0.7, 0.3, 0.9});
        accuracy[d] = 1 - (double)wrong / (DONOR[d].inactive + DONOR[d].active);
        mean += accuracy[d] / DONORS;
    }
    for (int d = 0; d < DONORS; d++) squares += (accuracy[d] - mean) * (accuracy[d] - mean);
    for (int d = 0; d < DONORS; d++) {
        int v = (d + 1) % DONORS;
        int32_t *ids = train + (int64_t)d * MOST;
        folds[d] =
            (BinaryFold){DONOR_NAMES[d], &s->cells, ids, 0, predictions(s, v), predictions(s, d), .balanced = true};
        for (int32_t i = 0; i < MOST; i++)
            if (s->donors[i] != d && s->donors[i] != v) ids[folds[d].n_train++] = i;
        folds[d].best_epoch = d + 1, folds[d].epochs = 3, folds[d].val_losses = losses;
    }
    char *directory = scratch_directory();
    Error error;
    if (!report_binary_folds(folds, DONORS, directory, &error)) fail_msg("%s", error.text);
    Grid csv = grid_read(directory, "cross_validation_results.csv");
    assert_int_equal(csv.rows, 1 + DONORS + 3);
    for (int d = 0; d < DONORS; d++) {
        assert_near(number(&csv, DONOR_NAMES[d], "accuracy"), accuracy[d], EXACT);
        assert_near(number(&csv, DONOR_NAMES[d], "recall"), 1, 0);
        assert_near(number(&csv, DONOR_NAMES[d], "best_epoch"), d + 1, 0);
    }
    assert_near(number(&csv, "MEAN", "accuracy"), mean, EXACT);
    assert_near(number(&csv, "STD (divisor n)", "accuracy"), sqrt(squares / DONORS), EXACT);
    assert_near(number(&csv, "STD (divisor n - 1)", "accuracy"), sqrt(squares / (DONORS - 1)), EXACT);
    free(csv.text);
    char *path = path_join(directory, "cross_validation_results.md"), *markdown = read_text(path);
    assert_contains(markdown, "| 1 | 2899 | 2010 | 100 | 0 | 789 |"); /* D1's best epoch and counts */
    free(markdown);
    free(path);
    json_t *json = json_read(directory, "cross_validation_results.json");
    assert_near(real_of(json, "mean_test_accuracy"), mean, EXACT);
    assert_near(real_of(json, "std_test_accuracy"), sqrt(squares / DONORS), EXACT);
    assert_int_equal(json_array_size(at(json, "folds")), DONORS);
    json_t *matrix = at(json, "confusion_matrix");
    assert_near(json_integer_value(json_array_get(json_array_get(matrix, 0), 1)), 100 + 200 + 300 + 300 + 500 + 600, 0);
    assert_near(json_integer_value(json_array_get(json_array_get(matrix, 1), 1)), 5362, 0);
    assert_near(real_of(json, "donor_correlation_photons"), 0.4208, ROUNDED);
    assert_near(real_of(json, "donor_correlation_size"), -0.02, 5e-3);
    for (int d = 0; d < DONORS; d++) {
        json_t *row = row_of(at(json, "donors"), "donor", DONOR_NAMES[d]);
        assert_near(real_of(row, "photons_mean"), DONOR[d].photons, 1e-6);
        assert_near(real_of(row, "photons_active_to_inactive"), DONOR[d].ratio, 1e-12);
        assert_near(real_of(row, "size_mean"), DONOR[d].size, 1e-2); /* tenths of cells are whole cells */
        assert_near(real_of(row, "active"), DONOR[d].active, 0);
    }
    json_t *interval = row_of(at(json, "scores"), "score", "accuracy");
    assert_true(real_of(interval, "low") < real_of(interval, "value"));
    assert_true(real_of(interval, "high") > real_of(interval, "value"));
    assert_near(real_of(at(json, "intervals"), "drawn"), DONORS * FIELDS, 0);
    json_decref(json);
    csv = grid_read(directory, "scores.csv");
    assert_near(number(&csv, "network", "accuracy"), 1 - 2000.0 / MOST, EXACT);
    assert_near(number(&csv, "always active", "accuracy"), 5362.0 / MOST, EXACT);
    assert_near(number(&csv, "size", "cells"), MOST, 0);
    free(csv.text);
    csv = grid_read(directory, "means.csv");
    assert_near(number(&csv, "network", "accuracy"), mean, EXACT);
    assert_near(number(&csv, "always inactive", "specificity"), 1, 0);
    free(csv.text);
    csv = grid_read(directory, "roc.csv"); /* the second point of the first curve */
    assert_string_equal(csv.cells[2][0], "all folds");
    assert_near(strtod(csv.cells[2][1], NULL), 0.7, EXACT);
    assert_near(strtod(csv.cells[2][2], NULL), 2000.0 / 10879, EXACT);
    assert_near(strtod(csv.cells[2][3], NULL), 1, 0);
    free(csv.text);
    csv = grid_read(directory, "precision_recall.csv");
    assert_near(number(&csv, "all folds", "threshold"), 0.9, EXACT);
    assert_near(number(&csv, "all folds", "precision"), 1, 0);
    assert_near(number(&csv, "D6", "recall"), 1, 0);
    free(csv.text);
    char *curves = picture(directory, "validation_loss.svg");
    assert_contains(curves, ">D4</text>");
    free(curves);
    free(picture(directory, "roc.svg"));
    free(picture(directory, "precision_recall.svg"));
    free(picture(directory, "error_analysis.svg"));
    free(picture(directory, "confusion_matrix.svg"));
    free(picture(directory, "reliability.svg"));
    folds[1].name = "D1";
    assert_false(report_binary_folds(folds, DONORS, directory, &error));
    assert_contains(error.text, "two folds are called D1");
    assert_false(report_binary_folds(folds, 0, directory, &error));
    assert_contains(error.text, "no folds");
    free(directory);
    free(train);
    free(s);
}

/* ---- small folds: 40 cells of three donors, 16 to train on, 12 to validate on, 12 to test on ---- */

enum { SMALL = 40, TRAIN = 16, HELD = 12 };

typedef struct {
    BinaryCells cells;
    int32_t labels[SMALL], donors[SMALL], fields[SMALL], sizes[SMALL], peaks[SMALL], ids[SMALL];
    double photons[SMALL], logits[SMALL], views[SMALL * 2];
    unsigned char kept[SMALL];
    const char *files[SMALL];
    char names[SMALL][24];
    BinaryFold fold;
} Small;

static const char *const SMALL_FIELDS[] = {"D1 m1", "D1 m2", "D2 m1", "D2 m2", "D3 m1", "D3 m2"};
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
    s->cells = (BinaryCells){SMALL,      s->files, s->labels, s->donors,   s->fields,    s->sizes, s->peaks,
                             s->photons, 3,        6,         DONOR_NAMES, SMALL_FIELDS, CLASSES};
    s->fold = (BinaryFold){"one", &s->cells, s->ids, TRAIN,
                           .validation = {.n = HELD, .ids = s->ids + TRAIN, .logits = s->logits + TRAIN}};
    s->fold.test = (BinaryPredictions){.n = HELD, .ids = s->ids + TRAIN + HELD, .logits = s->logits + TRAIN + HELD};
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
    assert_near(number(&csv, "FP", "cells"), 0, 0);
    assert_string_equal(field(&csv, "FN", "p_median"), "");
    free(csv.text);
    json_t *json = json_read(directory, "test_results_one.json");
    assert_contains(json_string_value(at(at(json, "temperature"), "why_not")), "all 12 rows are right");
    assert_int_equal(json_array_size(at(json, "warnings")), 0);
    json_decref(json);
    for (int i = TRAIN + HELD; i < SMALL; i++) s->labels[i] = 1; /* a donor with active cells only */
    report(&s->fold, directory, &scores);
    assert_true(isnan(scores.auroc));
    assert_near(scores.recall, 0.5, 0);
    for (int i = TRAIN + HELD; i < SMALL; i++) s->logits[i] = 3;
    report(&s->fold, directory, &scores);
    assert_near(scores.recall, 1, 0);
    free(picture(directory, "error_analysis_one.svg"));
    free(directory);
    free(s);
}

/* Cells say what the views said of them; the errors come surest first. */
static void predictions_and_errors_cell_by_cell(void **state) {
    (void)state;
    Small *s = small_fold();
    for (int i = 0; i < SMALL; i++) {
        double p = s->labels[i] ? 0.8 : 0.3;
        s->views[2 * i] = p - 0.05, s->views[2 * i + 1] = p + 0.05;
    }
    int first = TRAIN + HELD;
    s->views[2 * (first + 3)] = 0.01, s->views[2 * (first + 3) + 1] = 0.03; /* active, p .02 */
    s->views[2 * (first + 4)] = 0.5, s->views[2 * (first + 4) + 1] = 1;     /* inactive, p .75 */
    s->views[2 * (first + 7)] = 0.5, s->views[2 * (first + 7) + 1] = 0.5;   /* active, p .5: not above the threshold */
    s->fold.view_names = VIEWS;
    s->fold.validation.n_views = s->fold.test.n_views = 2;
    s->fold.validation.views = s->views + 2 * TRAIN;
    s->fold.test.views = s->views + 2 * first;
    s->kept[first] = s->kept[first + 3] = 0;
    s->fold.test.kept = s->kept + first;
    char *directory = scratch_directory();
    BinaryScores scores;
    report(&s->fold, directory, &scores);
    assert_near(scores.accuracy, 9.0 / 12, EXACT);
    Grid csv = grid_read(directory, "predictions_one.csv");
    assert_int_equal(csv.rows, 1 + HELD);
    assert_near(number(&csv, "cell_31.npy", "p_identity"), 0.01, 0);
    assert_near(number(&csv, "cell_31.npy", "p_rot90"), 0.03, 0);
    assert_near(number(&csv, "cell_31.npy", "p_mean"), 0.02, EXACT);
    assert_near(number(&csv, "cell_31.npy", "label"), 1, 0);
    assert_near(number(&csv, "cell_31.npy", "predicted"), 0, 0);
    assert_near(number(&csv, "cell_31.npy", "kept"), 0, 0);
    assert_near(number(&csv, "cell_32.npy", "predicted"), 1, 0);
    assert_near(number(&csv, "cell_35.npy", "predicted"), 0, 0);
    assert_near(number(&csv, "cell_32.npy", "logit"), -1.5, 0);
    assert_near(number(&csv, "cell_32.npy", "photons"), s->photons[32], 0);
    assert_near(number(&csv, "cell_32.npy", "size"), s->sizes[32], 0);
    assert_near(number(&csv, "cell_32.npy", "peak"), s->peaks[32], 0);
    assert_near(number(&csv, "cell_32.npy", "threshold"), 0.5, 0);
    assert_string_equal(field(&csv, "cell_32.npy", "field"), "D3 m1");
    assert_string_equal(field(&csv, "cell_32.npy", "donor"), "D3");
    assert_string_equal(field(&csv, "cell_32.npy", "fold"), "one");
    free(csv.text);
    csv = grid_read(directory, "confident_errors_one.csv");
    assert_int_equal(csv.rows, 1 + 3);
    const char *const ranked[] = {"cell_31.npy", "cell_32.npy", "cell_35.npy"};
    const double sure[] = {0.98, 0.75, 0.5};
    for (int i = 0; i < 3; i++) {
        char rank[2] = {(char)('1' + i), 0};
        assert_string_equal(field(&csv, rank, "file"), ranked[i]);
        assert_near(number(&csv, rank, "p_of_the_other_class"), sure[i], EXACT);
    }
    free(csv.text);
    csv = grid_read(directory, "scores_one.csv");
    assert_near(number(&csv, "network", "cells"), 12, 0);
    assert_near(number(&csv, "network, cells that the filter keeps", "accuracy"), 0.8, EXACT);
    assert_near(number(&csv, "network, cells that it drops", "accuracy"), 0.5, EXACT);
    assert_near(number(&csv, "network", "loss"), log1p(exp(-1.5)), EXACT); /* of the logits, which are all right */
    free(csv.text);
    csv = grid_read(directory, "photon_deciles_one.csv"); /* 12 cells in tenths of one or two */
    assert_int_equal(csv.rows, 1 + 10);
    double cells = 0, above = 0;
    for (int d = 1; d <= 10; d++) {
        char key[12];
        snprintf(key, sizeof key, "%d", d);
        cells += number(&csv, key, "cells");
        assert_true(number(&csv, key, "photons_from") >= above);
        above = number(&csv, key, "photons_to");
    }
    assert_near(cells, 12, 0);
    free(csv.text);
    csv = grid_read(directory, "roc_one.csv");
    assert_near(number(&csv, "network", "threshold"), 0.8, EXACT); /* the highest p: 4 of 6, and no false one */
    assert_near(number(&csv, "network", "true_positive_rate"), 4.0 / 6, EXACT);
    assert_near(number(&csv, "network", "false_positive_rate"), 0, 0);
    free(csv.text);
    char *errors = picture(directory, "error_analysis_one.svg");
    assert_int_equal(count(errors, "class=\"TP\""), 1 + 1 + 1); /* one bin, the legend, the bar of its count */
    assert_int_equal(count(errors, "class=\"FN\""), 2 + 1 + 1); /* .02 and .5 */
    free(errors);
    free(directory);
    free(s);
}

/* Of cells with logit +-2 ln 3, three of four are as they say: 9 to 1 is what is claimed, 3 to 1 is true; so 2. */
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
    json_t *json = json_read(directory, "test_results_one.json"), *temperature = at(json, "temperature");
    assert_near(real_of(temperature, "value"), 2, 1e-9); /* halved to the last bits of ln T */
    assert_near(real_of(at(temperature, "test_before"), "loss"), -(3 * log(0.9) + log(0.1)) / 4, EXACT);
    assert_near(real_of(at(temperature, "test_before"), "ece"), 0.15, EXACT);
    assert_near(real_of(at(temperature, "test_after"), "loss"), -(3 * log(0.75) + log(0.25)) / 4, 1e-9);
    assert_near(real_of(at(temperature, "test_after"), "ece"), 0, 1e-9);
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
    json_t *json = json_read(directory, "test_results_one.json"), *warnings = at(json, "warnings");
    assert_int_equal(json_array_size(warnings), 2); /* and the regression on all three */
    const char *first = json_string_value(json_array_get(warnings, 0));
    assert_contains(first, "'brightness' has balanced accuracy 1.0000 and AUROC 1.0000, the network 0.9167");
    assert_contains(first, "the network has not beaten it");
    assert_near(real_of(at(at(json, "baselines"), "brightness"), "accuracy"), 1, 0);
    assert_true(real_of(at(at(json, "baselines"), "size"), "auroc") == 0.5);
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
        json_t *json = json_read(directory, "test_results_one.json"), *size = at(at(json, "baselines"), "size");
        assert_near(real_of(size, "auroc"), 1, 0);
        if (rule == THRESHOLD_HALF) assert_near(real_of(size, "balanced_accuracy"), 0.5, 0);
        if (rule == THRESHOLD_F1 || rule == THRESHOLD_BALANCED) assert_near(real_of(size, "balanced_accuracy"), 1, 0);
        assert_string_equal(json_string_value(at(at(json, "threshold"), "rule")), THRESHOLD_RULE_NAMES[rule]);
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
        json_t *json = json_read(directory, "test_results_one.json"), *baselines = at(json, "baselines");
        assert_near(real_of(at(baselines, "size"), "bias"), balanced ? 0 : -log(3), 1e-10);
        assert_near(real_of(at(baselines, "size + brightness + peak"), "accuracy"), 1, 0);
        assert_near(real_of(at(baselines, "training share"), "auroc"), 0.5, 0);
        json_decref(json);
    }
    free(directory);
    free(s);
}

/* ---- errors ---- */

static void assert_refused(const Small *s, const char *directory, const char *why) {
    Error error;
    assert_false(report_binary_fold(&s->fold, directory, NULL, &error));
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_means_lean_on_the_shares),
        cmocka_unit_test(two_means_are_the_best_two),
        cmocka_unit_test(labels_choose_a_threshold),
        cmocka_unit_test(what_has_no_threshold),
        cmocka_unit_test(scores_by_hand),
        cmocka_unit_test(one_class_has_no_areas),
        cmocka_unit_test(intervals_draw_fields),
        cmocka_unit_test(quartiles_lie_between_neighbours),
        cmocka_unit_test(regressions_as_torch_finds_them),
        cmocka_unit_test(regressions_end),
        cmocka_unit_test(the_reference_s_outcome),
        cmocka_unit_test(folds_and_donors_in_one_report),
        cmocka_unit_test(nothing_wrong_is_no_reason_to_fail),
        cmocka_unit_test(predictions_and_errors_cell_by_cell),
        cmocka_unit_test(a_planted_temperature_is_found),
        cmocka_unit_test(a_confound_is_warned_of),
        cmocka_unit_test(baselines_choose_as_the_network_does),
        cmocka_unit_test(baselines_weigh_classes_as_they_are_told),
        cmocka_unit_test(what_cannot_be_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
