/* The cosine schedule against values computed by hand. */
#include "tests/helpers.h"

#include <math.h>

#include "train/schedule.h"

static void check(int64_t k, int64_t warmup, int64_t total, double base, double want, double tolerance) {
    double got = base * schedule_cosine(k, warmup, total);
    if (!(fabs(got - want) <= tolerance * want))
        fail_msg("k %lld of %lld: got %.9g, expected %.9g", (long long)k, (long long)total, got, want);
}

/* Tolerance: half a unit of the last digit written here. */
static void values_of_a_long_run(void **state) {
    (void)state;
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

static void no_warm_up_starts_at_the_peak(void **state) {
    (void)state;
    check(0, 0, 10, 1, 1, 0);
    check(5, 0, 10, 1, 0.5, 1e-15);
}

static void a_warm_up_of_one_step_has_one_zero(void **state) {
    (void)state;
    check(0, 1, 10, 1, 0, 0);
    check(1, 1, 10, 1, 1, 0);
}

static void a_run_shorter_than_its_warm_up_only_rises(void **state) {
    (void)state;
    for (int64_t k = 0; k < 5; k++) check(k, 10, 5, 1, (double)k / 10, 0);
    check(10, 10, 5, 1, 1, 0); /* no division by zero behind it */
}

static void the_rate_never_rises_after_the_warm_up_nor_falls_below_zero(void **state) {
    (void)state;
    double last = 1;
    for (int64_t k = 7; k <= 1000; k++) {
        double now = schedule_cosine(k, 7, 1000);
        assert_true(now >= 0 && now <= last);
        last = now;
    }
    assert_true(last == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_a_long_run),
        cmocka_unit_test(no_warm_up_starts_at_the_peak),
        cmocka_unit_test(a_warm_up_of_one_step_has_one_zero),
        cmocka_unit_test(a_run_shorter_than_its_warm_up_only_rises),
        cmocka_unit_test(the_rate_never_rises_after_the_warm_up_nor_falls_below_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
