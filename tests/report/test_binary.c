/* Thresholds and scores of two classes, compared with values that were computed by hand.
 *
 * EXACT is the error of sums of a few rounded terms of size 1; ROUNDED is the error of a number with four decimals. */
#include "tests/test.h"

#include <math.h>

#include "kernels/philox.h"
#include "report/evaluation.h"
#include "report/threshold.h"

static Error error;

static const double EXACT = 1e-13, ROUNDED = 5.0001e-5;

/* ---- thresholds ---- */

static Threshold choose(ThresholdRule rule, const double *p, const int32_t *labels, int64_t n, double share) {
    Threshold t;
    if (!threshold_choose(rule, p, labels, n, share, &t, &error)) fail_msg("%s", error.text);
    return t;
}

/* 957 of 4,167 cells have about .85, the others about .10; 3,114 of 10,158 training cells are active. The reference
 * gives the threshold .51440. */
TEST(two_means_are_adjusted_by_the_training_share) {
    enum { ALL = 4167, UP = 957 };
    double *p = xmalloc(ALL * sizeof *p);
    for (int i = 0; i < ALL; i++) /* symmetric about the centres, not sorted */
        p[i * 1000 % ALL] = i < UP ? 0.85 + 0.1 * (i - (UP - 1) / 2) / UP : 0.1 + 0.1 * (i - UP - 1604.5) / (ALL - UP);
    Threshold t = choose(THRESHOLD_KMEANS, p, NULL, ALL, 3114.0 / 10158);
    assert_near(t.low, 0.1, 1e-12);
    assert_near(t.high, 0.85, 1e-12);
    assert_near(t.base, 0.475, 1e-12);
    assert_near(t.share, 957.0 / 4167, 0);
    assert_near(t.adjustment, -0.039395, 5.1e-7); /* a tenth of -.39395 */
    assert_near(t.value, 0.5144, ROUNDED / 10);   /* published with five decimals */
    char *text = keep(threshold_text(&t, "active training cells"));
    assert_contains(text, "0.5144: the middle 0.4750 of validation's centres 0.1000 and 0.8500");
    free(p);
}

static double within(const double *sorted, int from, int to) {
    double mean = 0, sum = 0;
    for (int i = from; i < to; i++) mean += sorted[i] / (to - from);
    for (int i = from; i < to; i++) sum += (sorted[i] - mean) * (sorted[i] - mean);
    return sum;
}

/* Compares with every way to split sorted values in two. */
TEST(two_means_give_the_best_partition) {
    enum { N = 31 };
    double p[N];
    for (int draw = 0; draw < 20; draw++) {
        double best = INFINITY, base = 0;
        for (int i = 0; i < N; i++) /* ascending, in random steps */
            p[i] = (i ? p[i - 1] : 0) + philox_bits(1, PURPOSE_TEST, (uint32_t)draw, (uint64_t)i) % 1000 / 40000.0;
        for (int k = 1; k < N; k++) {
            double sum = within(p, 0, k) + within(p, k, N), low = 0, high = 0;
            for (int i = 0; i < N; i++) *(i < k ? &low : &high) += p[i];
            if (sum < best) best = sum, base = (low / k + high / (N - k)) / 2;
        }
        assert_near(choose(THRESHOLD_KMEANS, p, NULL, N, 0.5).base, base, EXACT);
    }
}

/* Active cells at .2, .6, .8; inactive cells at .1, .3, .5, .55. Above .55 are two of three active cells and no
 * inactive one (F1 .8, balanced accuracy 5/6); above .1 are all three, and three inactive cells (F1 2/3, 5/8). */
TEST(labels_choose_a_threshold) {
    const double p[] = {0.2, 0.6, 0.8, 0.1, 0.3, 0.5, 0.55};
    const int32_t labels[] = {1, 1, 1, 0, 0, 0, 0};
    Threshold t = choose(THRESHOLD_F1, p, labels, 7, 0.5);
    assert_near(t.reached, 0.8, EXACT);
    assert_near(t.value, 0.575, 1e-15); /* between .55 and .6 */
    t = choose(THRESHOLD_BALANCED, p, labels, 7, 0.5);
    assert_near(t.reached, 5.0 / 6, EXACT);
    assert_near(t.value, 0.575, 1e-15);
    t = choose(THRESHOLD_BALANCED, (double[]){0.2, 0.4, 0.6, 0.8}, (int32_t[]){0, 1, 0, 1}, 4, 0.5);
    assert_near(t.reached, 0.75, 0); /* reached at .3 and .7: the lower one is chosen */
    assert_near(t.value, 0.3, EXACT);
    const double sure[] = {nextafter(1, 0), 1, 1}, zero[] = {0, 0, 1}; /* no number lies between the first and 1 */
    t = choose(THRESHOLD_BALANCED, sure, (int32_t[]){0, 1, 1}, 3, 0.5);
    assert_true(sure[1] > t.value && !(sure[0] > t.value));
    t = choose(THRESHOLD_F1, zero, (int32_t[]){1, 1, 0}, 3, 0.5); /* all are active */
    assert_true(zero[0] > t.value);
    assert_near(choose(THRESHOLD_HALF, p, labels, 0, 0).value, 0.5, 0);
}

TEST(data_without_a_threshold_are_refused) {
    const double same[] = {0.3, 0.3}, bad[] = {0.3, 1.5};
    const int32_t ones[] = {1, 1};
    Threshold t;
    assert_false(threshold_choose(THRESHOLD_KMEANS, same, ones, 2, 0.5, &t, &error));
    assert_contains(error.text, "all 2 probabilities are the same");
    assert_false(threshold_choose(THRESHOLD_KMEANS, bad, ones, 2, 0.5, &t, &error));
    assert_contains(error.text, "validation row 1 is 1.5");
    assert_false(threshold_choose(THRESHOLD_KMEANS, (double[]){0.1, 0.2}, ones, 2, 1, &t, &error));
    assert_contains(error.text, "positives in training is 1");
    assert_false(threshold_choose(THRESHOLD_F1, same, ones, 2, 0.5, &t, &error));
    assert_contains(error.text, "0 negative and 2 positive");
    assert_false(threshold_choose(THRESHOLD_F1, same, ones, 0, 0.5, &t, &error));
    assert_contains(error.text, "no validation rows");
}

/* ---- scores ---- */

/* Fills rows with cells of one label and one p, with the threshold 0.5. */
static void fill(BinaryRow *rows, int64_t n, int label, double p) {
    for (int64_t i = 0; i < n; i++)
        rows[i] = (BinaryRow){.label = label, .p = p, .logit = log(p / (1 - p)), .threshold = 0.5};
}

static BinaryScores scores_of(const BinaryRow *rows, int64_t n) {
    BinaryScores s;
    if (!binary_scores(rows, n, &s, NULL, &error)) fail_msg("%s", error.text);
    return s;
}

TEST(scores_match_those_by_hand) {
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
    assert_near(scores_of(rows, 10).loss, 100, EXACT); /* 1000 / 10, without overflow */
}

TEST(one_class_has_no_area_under_a_curve) {
    BinaryRow rows[4];
    fill(rows, 3, 1, 0.9);
    fill(rows + 3, 1, 1, 0.2);
    BinaryScores s = scores_of(rows, 4);
    assert_true(isnan(s.auroc) && isnan(s.auprc));
    assert_near(s.accuracy, 0.75, 0);
    assert_near(s.specificity, 0, 0);
    Intervals i = binary_intervals(rows, 4, 1, "field", "cell");
    assert_true(isnan(i.scores[1].low) && isnan(i.scores[4].high) && i.scores[0].low < i.scores[0].high);
    assert_false(binary_scores(rows, 0, &s, NULL, &error));
    assert_contains(error.text, "no rows");
    rows[1].p = 1.5;
    assert_false(binary_scores(rows, 4, &s, NULL, &error));
    assert_contains(error.text, "probability [1");
}

/* There are two fields of view: all cells of one are right, all of the other wrong. If fields are resampled, half of
 * the resamples are all right or all wrong; if the 40 cells were resampled, hardly any would be outside .3 .. .7. */
TEST(intervals_resample_fields_of_view) {
    BinaryRow rows[40];
    for (int i = 0; i < 40; i++) {
        int label = i % 2, right = i < 20;
        rows[i] =
            (BinaryRow){.label = label, .group = right ? 1 : 3, .p = label == right ? 0.8 : 0.2, .threshold = 0.5};
    }
    Intervals fields = binary_intervals(rows, 40, 5, "field", "cell");
    assert_string_equal(fields.unit, "field");
    assert_int_equal(fields.drawn, 2);
    for (int k = 0; k < 2; k++) {
        assert_near(fields.scores[k].low, 0, EXACT);
        assert_near(fields.scores[k].high, 1, EXACT);
    }
    assert_near(fields.scores[4].low, 0, EXACT); /* AUROC */
    assert_near(fields.scores[4].high, 1, EXACT);
    for (int i = 0; i < 40; i++) rows[i].group = 2;
    Intervals cells = binary_intervals(rows, 40, 5, "field", "cell");
    assert_string_equal(cells.unit, "cell");
    assert_true(cells.scores[0].low > 0.3 && cells.scores[0].high < 0.7);
    for (int i = 0; i < 40; i++) rows[i].p = 0.4; /* p does not separate the classes in any resample */
    cells = binary_intervals(rows, 40, 5, "field", "cell");
    assert_near(cells.scores[4].low, 0.5, EXACT);
    assert_near(cells.scores[4].high, 0.5, EXACT);
}
