/* Means, spreads, correlations and the bootstrap, compared with values that were computed by hand.
 *
 * EXACT is the error of sums of about ten rounded terms of size 1. */
#include "tests/test.h"

#include <math.h>

#include "report/statistics.h"

static const double EXACT = 1e-14;

/* ---- spreads ---- */

TEST(deviations_match_those_by_hand) {
    const double values[] = {2, 4, 4, 4, 5, 5, 7, 9}, bad[] = {1, 2, INFINITY};
    double mean, deviation;
    Error error;
    assert_true(statistics_deviation(values, 8, 0, &mean, &deviation, &error));
    assert_near(mean, 5, 0);
    assert_near(deviation, 2, 0);
    assert_true(statistics_deviation(values, 8, 1, &mean, &deviation, &error));
    assert_near(deviation, sqrt(32.0 / 7), EXACT);
    assert_true(statistics_deviation(values, 1, 0, &mean, &deviation, &error));
    assert_near(deviation, 0, 0);
    assert_false(statistics_deviation(values, 1, 1, &mean, &deviation, &error));
    assert_contains(error.text, "divisor n - 1 of 1 values");
    assert_false(statistics_deviation(values, 0, 0, &mean, &deviation, &error));
    assert_false(statistics_deviation(bad, 3, 0, &mean, &deviation, &error));
    assert_contains(error.text, "value 2 is inf");
}

TEST(quartiles_are_interpolated) {
    Spread s = statistics_spread((double[]){4, 1, NAN, 3, 2}, 5);
    assert_int_equal(s.n, 4); /* undefined values are left out */
    assert_near(s.mean, 2.5, 0);
    assert_near(s.lower_quartile, 1.75, 0);
    assert_near(s.median, 2.5, 0);
    assert_near(s.upper_quartile, 3.25, 0);
    assert_near(s.deviation, sqrt(1.25), EXACT);
    assert_near(s.sample_deviation, sqrt(5.0 / 3), EXACT);
    s = statistics_spread((double[]){4, INFINITY}, 2);
    assert_true(isinf(s.mean) && isnan(s.deviation) && isnan(s.median));
    s = statistics_spread((double[]){7}, 1);
    assert_true(s.deviation == 0 && s.median == 7 && isnan(s.sample_deviation));
    s = statistics_spread(NULL, 0);
    assert_true(isnan(s.mean) && isnan(s.median) && s.n == 0);
}

TEST(correlations_match_those_by_hand) {
    const double x[] = {1, 2, 3, 4}, down[] = {8, 6, 4, 2}, some[] = {1, 3, 2, 4}, flat[] = {5, 5, 5, 5};
    assert_near(statistics_correlation(x, down, 4), -1, EXACT);
    assert_near(statistics_correlation(x, some, 4), 0.8, EXACT);
    assert_true(isnan(statistics_correlation(x, flat, 4)));
    assert_true(isnan(statistics_correlation(x, down, 2)));
}

/* Wilson's interval, statsmodels 0.14 */
TEST(intervals_of_shares_are_wilsons) {
    Interval i = statistics_share_interval(0.9, 10);
    assert_near(i.low, 0.59585, 1e-5);
    assert_near(i.high, 0.98212, 1e-5);
    i = statistics_share_interval(0, 5);
    assert_near(i.low, 0, 0);
    assert_near(i.high, 0.43448, 1e-5);
}

/* ---- the bootstrap ---- */

/* Returns the accuracy if one of every four groups is all right and the others are all wrong. */
static void accuracy_of(void *context, const int64_t *times, double *value) {
    int64_t right = 0, all = 0, groups = *(int64_t *)context;
    for (int64_t g = 0; g < groups; g++) {
        assert_true(times[g] >= 0);
        right += g % 4 ? 0 : times[g];
        all += times[g];
    }
    assert_int_equal(all, groups);
    *value = (double)right / (double)all;
}

/* Counts down from *context. The second value is NaN below 2, the third is twice the first. */
static void counts_down(void *context, const int64_t *times, double *values) {
    double left = --*(double *)context;
    (void)times;
    values[0] = left;
    values[1] = left < 2 ? (double)NAN : 0;
    values[2] = 2 * left;
}

/* A share of 1/4 of n groups has the deviation sqrt(3/16 / n) and is a multiple of 1/n. The 2.5 % quantile of 2000
 * draws deviates by sqrt(0.025 * 0.975 / 2000) / density(1.96) = 0.06 of this. */
TEST(the_bootstrap_finds_the_spread_of_a_share) {
    const int64_t sizes[] = {100, 1600};
    for (int i = 0; i < 2; i++) {
        int64_t groups = sizes[i];
        double spread = sqrt(3.0 / 16 / (double)groups), tolerance = 4 * 0.06 * spread + 1 / (double)groups;
        Interval found, again;
        Bootstrap b = {accuracy_of, &groups, 1, groups, .resamples = 2000, .level = 0.95, .seed = 7};
        statistics_bootstrap(&b, &found);
        assert_near(found.low, 0.25 - 1.96 * spread, tolerance);
        assert_near(found.high, 0.25 + 1.96 * spread, tolerance);
        statistics_bootstrap(&b, &again);
        assert_true(found.low == again.low && found.high == again.high);
    }
}

TEST(the_interval_is_the_middle_of_the_draws) {
    double left = 101;
    Interval found[3];
    statistics_bootstrap(&(Bootstrap){counts_down, &left, 3, 3, .resamples = 101, .level = 0.9}, found); /* 100 .. 0 */
    assert_near(found[0].low, 5, 1e-12);
    assert_near(found[0].high, 95, 1e-12);
    left = 5;
    statistics_bootstrap(&(Bootstrap){counts_down, &left, 3, 3, .resamples = 5, .level = 0.75}, found);
    assert_near(found[0].low, 0.5, EXACT); /* between two of them */
    assert_near(found[0].high, 3.5, EXACT);
    left = 1002; /* 1001 .. 2 */
    statistics_bootstrap(&(Bootstrap){.statistic = counts_down, .context = &left, .n_values = 3, .groups = 3}, found);
    assert_near(found[0].low, 2 + 0.025 * 999, 1e-12); /* the middle 95 % of 1000 resamples */
    assert_near(found[1].low, 0, 0);
}

TEST(an_undefined_resample_removes_the_interval) {
    double left = 10;
    Interval found[3];
    statistics_bootstrap(&(Bootstrap){counts_down, &left, 3, 3, .resamples = 9, .level = 0.75}, found); /* 9 .. 1 */
    assert_true(isnan(found[1].low) && isnan(found[1].high));
    assert_near(found[0].low, 2, EXACT);
    assert_near(found[2].low, 4, EXACT);
    assert_near(found[2].high, 16, EXACT);
}

TEST(groups_without_rows_get_no_number) {
    int32_t group[] = {4, 1, 4, 0}, want[] = {0, 1, 0, 2};
    assert_int_equal(statistics_number_groups(group, 4, 6), 3);
    assert_memory_equal(group, want, sizeof want);
}
