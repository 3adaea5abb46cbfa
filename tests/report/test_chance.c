/* When a classifier is called at chance: by its decisions and, of two classes, by its ranking, too. */
#include "report/chance.h"
#include "report/threshold.h"
#include "tests/test.h"

static const char *const names[] = {"clean", "rude", "hate"};

static void expect_chance(const int64_t *confusion, int classes, double area, const char *expected) {
    char *text = keep(chance_text(confusion, classes, names, area, NULL));
    if (!text) fail_msg("not at chance: expected %s", expected);
    assert_contains(text, expected);
}

static void expect_better(const int64_t *confusion, int classes, double area) {
    char *text = chance_text(confusion, classes, names, area, NULL);
    if (text) fail_msg("%s", text);
}

TEST(one_class_for_all_rows_is_chance) {
    expect_chance((const int64_t[]){900, 0, 100, 0}, 2, 0.5,
                  "at chance: balanced accuracy 0.5000 of 1000 rows, where decisions without a look at them have "
                  "0.5000 +- 0.0000; 100 % of the predictions are \"clean\"");
    expect_chance((const int64_t[]){0, 5, 0, 0, 5, 0, 0, 5, 0}, 3, NAN, "balanced accuracy 0.3333 of 15 rows");
}

/* 2 x 50 rows, half of them predicted to be of each class: the deviation is sqrt(2 / 4 / 50) / 2 = 0.05. */
TEST(two_deviations_or_a_tenth_of_the_way_are_better) {
    expect_chance((const int64_t[]){29, 21, 21, 29}, 2, NAN, "0.5800 of 100 rows, where decisions without a look");
    expect_chance((const int64_t[]){29, 21, 21, 29}, 2, NAN, "have 0.5000 +- 0.0500; ");
    expect_better((const int64_t[]){31, 19, 19, 31}, 2, NAN);
    expect_chance((const int64_t[]){54000, 46000, 46000, 54000}, 2, NAN, "0.5400 of 200000 rows"); /* sure, but small */
    expect_better((const int64_t[]){55500, 44500, 44500, 55500}, 2, NAN);
    expect_better((const int64_t[]){4, 0, 0, 4}, 2, 1);
}

/* A threshold may be wrong where the ranking is not. */
TEST(a_ranking_that_is_better_than_chance_is_not_called_so) {
    const int64_t all_clean[] = {900, 0, 100, 0};
    expect_better(all_clean, 2, 0.7);
    expect_chance(all_clean, 2, 0.54, "at chance");
    expect_chance(all_clean, 2, 0.57, "at chance"); /* sure, but no threshold has a balanced accuracy above 0.55 */
    expect_better(all_clean, 2, 0.58);
    /* 153 and 87 rows: two deviations are 2 sqrt(241 / (12 * 153 * 87)) = 0.0777. */
    expect_chance((const int64_t[]){153, 0, 87, 0}, 2, 0.577, "at chance");
    expect_better((const int64_t[]){153, 0, 87, 0}, 2, 0.578);
    expect_chance((const int64_t[]){4, 0, 4, 0}, 2, 0.7, "at chance"); /* of eight rows that is luck */
}

TEST(rows_of_one_class_say_nothing) { expect_better((const int64_t[]){0, 0, 7, 3}, 2, NAN); }

TEST(the_likely_cause_ends_the_sentence) {
    char *text = keep(chance_text((const int64_t[]){1, 1, 1, 1}, 2, names, 0.5, "few steps"));
    assert_contains(text, "predictions are \"clean\". Likely cause: few steps");
}

/* Two positives among six negatives: accuracy takes the threshold above all negatives, which F1 need not. */
TEST(a_threshold_may_be_chosen_for_accuracy) {
    const double p[] = {0.1, 0.2, 0.3, 0.5, 0.55, 0.7, 0.8, 0.9};
    const int32_t labels[] = {0, 0, 0, 1, 0, 0, 0, 1};
    Threshold t;
    Error error;
    assert_true(threshold_choose(THRESHOLD_ACCURACY, p, labels, 8, 0.5, &t, &error));
    assert_near(t.reached, 7.0 / 8, 1e-15);
    assert_near(t.value, 0.85, 1e-15);
    assert_true(threshold_choose(THRESHOLD_BALANCED, p, labels, 8, 0.5, &t, &error));
    assert_near(t.value, 0.4, 1e-15); /* both positives, and three of six negatives: as good as one and six */
    char *text = keep(threshold_text(&(Threshold){.rule = THRESHOLD_ACCURACY, .value = 0.85, .reached = 0.875}, ""));
    assert_string_equal(text, "0.8500, where validation has its best accuracy, 0.8750");
}
