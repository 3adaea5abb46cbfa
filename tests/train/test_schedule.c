/* Schedules of the learning rate against values computed by hand or printed by the reference. */
#include "tests/test.h"

#include <math.h>

#include "train/schedule.h"

static void check(int64_t k, int64_t warmup, int64_t total, double base, double want, double tolerance) {
    double got = base * schedule_cosine(k, warmup, total);
    if (!(fabs(got - want) <= tolerance * want))
        fail_msg("k %lld of %lld: got %.9g, expected %.9g", (long long)k, (long long)total, got, want);
}

/* Tolerance: half a unit of the last digit written here. */
TEST(values_of_a_long_run) {
    enum { W = 4000, N = 30000 };
    check(0, W, N, 5e-5, 0, 0);
    check(1, W, N, 5e-5, 1.25e-8, 1e-15);
    check(100, W, N, 5e-5, 1.25e-6, 1e-15);
    check(3999, W, N, 5e-5, 4.99875e-5, 1e-15);
    check(4000, W, N, 5e-5, 5e-5, 0);
    check(10000, W, N, 5e-5, 4.371277e-5, 0.5e-6 / 4.371277);
    check(17000, W, N, 5e-5, 2.5e-5, 1e-12);
    check(29999, W, N, 5e-5, 1.825e-13, 0.5e-3 / 1.825);
}

TEST(no_warm_up_starts_at_the_peak) {
    check(0, 0, 10, 1, 1, 0);
    check(5, 0, 10, 1, 0.5, 1e-15);
}

TEST(a_warm_up_of_one_step_has_one_zero) {
    check(0, 1, 10, 1, 0, 0);
    check(1, 1, 10, 1, 1, 0);
}

TEST(a_run_shorter_than_its_warm_up_only_rises) {
    for (int64_t k = 0; k < 5; k++) check(k, 10, 5, 1, (double)k / 10, 0);
    check(10, 10, 5, 1, 1, 0); /* no division by zero behind it */
}

TEST(the_rate_never_rises_after_the_warm_up_nor_falls_below_zero) {
    double last = 1;
    for (int64_t k = 7; k <= 1000; k++) {
        double now = schedule_cosine(k, 7, 1000);
        assert_true(now >= 0 && now <= last);
        last = now;
    }
    assert_true(last == 0);
}

static void expect_rate(const Schedule *schedule, int64_t k, double peak, double want, double tolerance) {
    double got = peak * schedule_at(schedule, k);
    if (!(fabs(got - want) <= tolerance * want))
        fail_msg("kind %d, k %lld: got %.12g, expected %.12g", schedule->kind, (long long)k, got, want);
}

/* The values have 11 digits: half a unit of the last one is at most 5e-11 of the value. */
TEST(the_cosine_with_a_minimum_has_the_reference_s_values) {
    static const struct {
        int64_t k;
        double rate;
    } small[] = {{0, 5.9880239521e-07},     {100, 6.0479041916e-05}, {400, 2.4011976048e-04},
                 {499, 2.9940119760e-04},   {500, 3.0e-04},          {1000, 2.9995295815e-04},
                 {30000, 1.6678194408e-04}, {30250, 1.65e-04},       {60000, 3.0e-05}},
      regular[] = {{0, 2.9970029970e-08}, {1000, 3.0e-05}, {30000, 1.6859377039e-05}, {60000, 3.0e-06}};
    const Schedule a = {.warmup = 500, .total = 60000, .minimum = 0.1},
                   b = {.warmup = 1000, .total = 60000, .minimum = 0.1};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) expect_rate(&a, small[i].k, 3e-4, small[i].rate, 5e-11);
    for (size_t i = 0; i < sizeof regular / sizeof *regular; i++)
        expect_rate(&b, regular[i].k, 3e-5, regular[i].rate, 5e-11);
    expect_rate(&a, 60001, 3e-4, 3e-5, 1e-15);
    expect_rate(&a, 1000000, 3e-4, 3e-5, 1e-15);
}

TEST(wsd_stays_at_the_peak_and_falls_by_a_line) {
    const Schedule s = {.kind = SCHEDULE_WSD, .warmup = 9, .total = 100, .minimum = 0.2, .decay_share = 0.4};
    expect_rate(&s, 0, 1, 0.1, 1e-15);
    expect_rate(&s, 8, 1, 0.9, 1e-15);
    expect_rate(&s, 9, 1, 1, 0);
    expect_rate(&s, 60, 1, 1, 0);
    expect_rate(&s, 70, 1, 0.8, 1e-15);
    expect_rate(&s, 99, 1, 0.22, 1e-15);
    expect_rate(&s, 100, 1, 0.2, 0);
    expect_rate(&s, 101, 1, 0.2, 0);
}

TEST(wsd_whose_decay_would_begin_in_the_warm_up_begins_after_it) {
    const Schedule wsd = {.kind = SCHEDULE_WSD, .warmup = 20, .total = 100, .decay_share = 1},
                   linear = {.kind = SCHEDULE_LINEAR, .warmup = 20, .total = 100};
    for (int64_t k = 0; k < 110; k++) assert_true(schedule_at(&wsd, k) == schedule_at(&linear, k));
}

TEST(wsd_without_a_decay_ends_at_the_peak) {
    const Schedule s = {.kind = SCHEDULE_WSD, .warmup = 2, .total = 10, .minimum = 0.5};
    expect_rate(&s, 9, 1, 1, 0);
    expect_rate(&s, 10, 1, 0.5, 0);
}

TEST(the_line_falls_from_the_peak_to_the_minimum) {
    const Schedule s = {.kind = SCHEDULE_LINEAR, .warmup = 4, .total = 24, .minimum = 0.1};
    expect_rate(&s, 3, 1, 0.8, 1e-15);
    expect_rate(&s, 4, 1, 1, 0);
    expect_rate(&s, 14, 1, 0.55, 1e-15);
    expect_rate(&s, 24, 1, 0.1, 0);
}

/* Expects the rates of transformers' trainer without a warm-up: the peak times (S - k) / S in update k of S. */
TEST(the_line_to_zero_has_the_reference_s_values) {
    const Schedule s = {.kind = SCHEDULE_LINEAR, .total = 2256}, t = {.kind = SCHEDULE_LINEAR, .total = 502};
    expect_rate(&s, 0, 2e-5, 2e-5, 0);
    expect_rate(&s, 1, 2e-5, 1.9991134752e-05, 5e-11);
    expect_rate(&s, 1128, 2e-5, 1.0e-05, 1e-15);
    expect_rate(&s, 2255, 2e-5, 2e-5 / 2256, 1e-12);
    expect_rate(&t, 1, 2e-5, 1.9960159363e-05, 5e-11);
}

/* get_linear_schedule_with_warmup of transformers has k / W, then (S - k) / (S - W). */
TEST(a_warm_up_from_zero_has_the_values_of_transformers) {
    const Schedule s = {.kind = SCHEDULE_LINEAR, .warmup = 4, .total = 24, .warmup_from_zero = true};
    for (int64_t k = 0; k < 4; k++) expect_rate(&s, k, 2e-5, 2e-5 * (double)k / 4, 1e-15);
    for (int64_t k = 4; k <= 24; k++) expect_rate(&s, k, 2e-5, 2e-5 * (double)(24 - k) / 20, 1e-14);
}

TEST(a_run_that_ends_in_its_warm_up_rises_and_then_has_the_minimum) {
    for (int kind = SCHEDULE_COSINE; kind <= SCHEDULE_LINEAR; kind++) {
        const Schedule s = {.kind = kind, .warmup = 10, .total = 5, .minimum = 0.3, .decay_share = 0.5};
        for (int64_t k = 0; k < 10; k++) expect_rate(&s, k, 1, (double)(k + 1) / 11, 1e-15);
        expect_rate(&s, 10, 1, 0.3, 0); /* no division by zero */
    }
}
