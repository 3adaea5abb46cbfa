/* Means, quantiles and spreads of numbers, and the bootstrap. Everything is computed in double. */
#pragma once

#include "base/base.h"

/* Computes the mean and the standard deviation with divisor n - ddof: 0 of a population, 1 of a sample. An error if
 * that divisor is not positive, or a value is not finite. */
bool statistics_deviation(const double *values, int64_t n, int ddof, double *mean, double *deviation, Error *error);

/* NaN where a number is undefined. */
typedef struct {
    int64_t n;                                /* values that are not NaN */
    double mean, deviation, sample_deviation; /* divisors n and n - 1 */
    double lower_quartile, median, upper_quartile;
} Spread;
/* Leaves out what is NaN. With an infinite value only the mean is defined. */
Spread statistics_spread(const double *values, int64_t n);

void statistics_sort(double *values, int64_t n); /* ascending */
/* Returns Pearson's correlation; NaN for fewer than three pairs, or values without spread. */
double statistics_correlation(const double *x, const double *y, int n);

/* ---- the bootstrap ---- */

/* Renumbers the groups of n rows, 0 .. n_groups - 1, so that every number has a row. Returns how many groups are left.
 */
int32_t statistics_number_groups(int32_t *group, int64_t n, int32_t n_groups);

typedef struct {
    double low, high; /* NaN: undefined */
} Interval;

/* Returns Wilson's 95 % interval of a share of n rows (1927). */
Interval statistics_share_interval(double share, double n);

/* Computes statistics of the data in which group g is present times[g] times. A group is what is drawn as one: a row,
 * or all rows of a recording, which are not independent. */
typedef void (*Statistic)(void *context, const int64_t *times, double *values);

enum { INTERVAL_RESAMPLES = 1000 };
static const double INTERVAL_LEVEL = 0.95;

typedef struct {
    Statistic statistic;
    void *context;
    int n_values; /* that the statistic returns */
    int64_t groups;
    int resamples; /* 0: INTERVAL_RESAMPLES */
    double level;  /* 0: INTERVAL_LEVEL */
    uint64_t seed;
} Bootstrap;

/* Computes the percentile bootstrap: intervals[n_values] hold the middle `level` of each value, over draws of as many
 * groups as there are, with replacement. An interval is NaN if its value is not finite in some resample. */
void statistics_bootstrap(const Bootstrap *bootstrap, Interval *intervals);
/* Returns the interval of the mean of n values by the bootstrap over their groups, 0 .. n_groups - 1, which are
 * renumbered; NaN if there are fewer than two groups. */
Interval statistics_mean_interval(const double *values, int32_t *group, int n, int32_t n_groups);
