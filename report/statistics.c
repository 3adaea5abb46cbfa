/* Statistics of numbers. */
#include "report/statistics.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"

/* ---- means, quantiles, spreads ---- */

bool statistics_deviation(const double *values, int64_t n, int ddof, double *mean, double *deviation, Error *error) {
    double sum = 0, squares = 0;
    if (n <= ddof)
        return error_set(error, "a deviation with divisor n - %d of %lld values is undefined", ddof, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(values[i])) return error_set(error, "value %lld is %g, not finite", (long long)i, values[i]);
        sum += values[i];
    }
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) squares += (values[i] - *mean) * (values[i] - *mean);
    *deviation = sqrt(squares / (double)(n - ddof));
    return true;
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

void statistics_sort(double *values, int64_t n) { qsort(values, (size_t)n, sizeof *values, ascending); }

/* Returns the value below which this share of n > 0 sorted values lies, interpolated between neighbours. */
static double quantile(const double *sorted, int64_t n, double share) {
    double at = share * (double)(n - 1);
    int64_t below = (int64_t)at, above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
}

Spread statistics_spread(const double *values, int64_t n) {
    Spread s = {0, NAN, NAN, NAN, NAN, NAN, NAN};
    double *sorted = xmalloc(((size_t)n + 1) * sizeof *sorted), sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(values[i])) sum += sorted[s.n++] = values[i];
    if (s.n) s.mean = sum / (double)s.n;
    if (s.n && isfinite(sum)) {
        statistics_deviation(sorted, s.n, 0, &s.mean, &s.deviation, NULL);
        statistics_deviation(sorted, s.n, 1, &s.mean, &s.sample_deviation, NULL);
        statistics_sort(sorted, s.n);
        s.lower_quartile = quantile(sorted, s.n, 0.25);
        s.median = quantile(sorted, s.n, 0.5);
        s.upper_quartile = quantile(sorted, s.n, 0.75);
    }
    free(sorted);
    return s;
}

double statistics_correlation(const double *x, const double *y, int n) {
    double mean_x, mean_y, of_x, of_y, sum = 0;
    if (n < 3 || !statistics_deviation(x, n, 0, &mean_x, &of_x, NULL)) return NAN;
    if (!statistics_deviation(y, n, 0, &mean_y, &of_y, NULL) || !(of_x > 0 && of_y > 0)) return NAN;
    for (int i = 0; i < n; i++) sum += (x[i] - mean_x) * (y[i] - mean_y);
    return sum / (n * of_x * of_y);
}

Interval statistics_share_interval(double share, double n) {
    const double z = 1.959963984540054;
    double centre = (share + z * z / (2 * n)) / (1 + z * z / n);
    double half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n));
    return (Interval){fmax(centre - half, 0), fmin(centre + half, 1)};
}

/* ---- the bootstrap ---- */

int32_t statistics_number_groups(int32_t *group, int64_t n, int32_t n_groups) {
    int32_t *number = xmalloc(((size_t)n_groups + 1) * sizeof *number), count = 0;
    for (int32_t g = 0; g < n_groups; g++) number[g] = -1;
    for (int64_t i = 0; i < n; i++) {
        if (number[group[i]] < 0) number[group[i]] = count++;
        group[i] = number[group[i]];
    }
    free(number);
    return count;
}

/* times[groups]: how often each group is in resample r. */
static void draw(const Bootstrap *b, int r, int64_t *times) {
    memset(times, 0, (size_t)b->groups * sizeof *times);
    for (int64_t g = 0; g < b->groups; g++) {
        uint64_t bits = philox_bits(b->seed, PURPOSE_BOOTSTRAP, (uint32_t)r, (uint64_t)g);
        times[bits * (uint64_t)b->groups >> 32]++;
    }
}

void statistics_bootstrap(const Bootstrap *b, Interval *intervals) {
    int n = b->resamples ? b->resamples : INTERVAL_RESAMPLES;
    double level = b->level > 0 ? b->level : INTERVAL_LEVEL;
    assert(b->groups > 0 && b->groups <= UINT32_MAX && n > 0 && level < 1);
    OWNED int64_t *times = xmalloc((size_t)b->groups * sizeof *times);
    OWNED double *row = xmalloc((size_t)b->n_values * sizeof *row); /* of one resample */
    OWNED double *values = xmalloc((size_t)b->n_values * (size_t)n * sizeof *values);
    for (int k = 0; k < b->n_values; k++) intervals[k] = (Interval){0, 0};
    for (int r = 0; r < n; r++) {
        draw(b, r, times);
        b->statistic(b->context, times, row);
        for (int k = 0; k < b->n_values; k++) {
            values[(int64_t)k * n + r] = row[k];
            if (!isfinite(row[k])) intervals[k] = (Interval){NAN, NAN};
        }
    }
    for (int k = 0; k < b->n_values; k++) {
        double *sorted = values + (int64_t)k * n;
        if (isnan(intervals[k].low)) continue;
        statistics_sort(sorted, n);
        intervals[k].low = quantile(sorted, n, (1 - level) / 2);
        intervals[k].high = quantile(sorted, n, (1 + level) / 2);
    }
}

typedef struct {
    const double *values;
    const int32_t *group; /* [n] */
    int n;
} Drawn;

static void drawn_mean(void *context, const int64_t *times, double *mean) {
    const Drawn *d = context;
    double sum = 0, weight = 0;
    for (int i = 0; i < d->n; i++) {
        sum += (double)times[d->group[i]] * d->values[i];
        weight += (double)times[d->group[i]];
    }
    *mean = sum / weight;
}

Interval statistics_mean_interval(const double *values, int32_t *group, int n, int32_t n_groups) {
    Interval out = {NAN, NAN};
    Drawn drawn = {values, group, n};
    int32_t groups = statistics_number_groups(group, n, n_groups);
    if (groups > 1)
        statistics_bootstrap(&(Bootstrap){.statistic = drawn_mean, .context = &drawn, .n_values = 1, .groups = groups},
                             &out);
    return out;
}
