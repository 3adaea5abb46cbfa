/* Sensors whose recordings are not in dB are named, and no others. */
#include "data/psd/levels.h"

#include <stdlib.h>

#include "tests/test.h"

enum { MOST = 4 };
static const char *const names[MOST] = {"s1", "s2", "s3", "s4"};

/* Asserts that n sensors with two rows of these ranges give `count` texts, the first with `part` in it. */
static void assert_doubts(const double (*ranges)[2], int n, size_t count, const char *part) {
    PsdLevel levels[MOST] = {{0}};
    for (int i = 0; i < n; i++) {
        psd_level_add(&levels[i], &(PsdRow){.least = ranges[i][0], .most = ranges[i][1]});
        psd_level_add(&levels[i], &(PsdRow){.least = ranges[i][0], .most = (ranges[i][0] + ranges[i][1]) / 2});
    }
    json_t *list = psd_levels_doubtful(levels, names, n);
    assert_int_equal(json_array_size(list), count);
    if (count) assert_contains(json_string_value(json_array_get(list, 0)), part);
    json_decref(list);
}

TEST(sensors_in_db_are_not_doubted) {
    assert_doubts((const double[][2]){{-74, -46}, {-120, -3}, {-30, 40}}, 3, 0, "");
    assert_doubts((const double[][2]){{0, 60}, {-90, -50}}, 2, 0, "");
    assert_doubts((const double[][2]){{-90, -50}}, 1, 0, "");
    assert_doubts((const double[][2]){{0, 0}, {-90, -50}}, 2, 0, ""); /* nothing was recorded */
}

TEST(linear_power_is_named) {
    const char *s2 = "sensor s2 is no dB: its bins are from 4e-08 to 2e-05, as linear power is; 10 log10 of it is dB";
    assert_doubts((const double[][2]){{-74, -46}, {4e-8, 2e-5}, {-74, -45}}, 3, 1, s2);
    assert_doubts((const double[][2]){{-74, -46}, {4e-8, 2e-5}}, 2, 1, s2);
    assert_doubts((const double[][2]){{0, 0.5}}, 1, 1, "sensor s1 is no dB");
    assert_doubts((const double[][2]){{0, 0.5}, {0, 0.9}, {-80, -20}}, 3, 2, "sensor s1 is no dB");
}

TEST(another_order_is_named) {
    assert_doubts((const double[][2]){{-74, -46}, {-70, -40}, {2, 90000}}, 3, 1,
                  "sensor s3 seems to be no dB: its bins are from 2 to 9e+04, those of sensor s2 from -70 to -40");
    assert_doubts((const double[][2]){{-74, -46}, {-70, -40}, {-0.2, 0.3}}, 3, 1, "sensor s3 seems to be no dB");
}
