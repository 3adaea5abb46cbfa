#include "commands/gpt/agreement.h"

#include <math.h>

#include "report/statistics.h"

double agreement_cosine(const float *x, const float *y, int64_t n) {
    double xx = 0, yy = 0, xy = 0;
    for (int64_t i = 0; i < n; i++) {
        xx += (double)x[i] * (double)x[i];
        yy += (double)y[i] * (double)y[i];
        xy += (double)x[i] * (double)y[i];
    }
    if (xx <= 0 || yy <= 0) return xx <= 0 && yy <= 0;
    return fmin(xy / sqrt(xx * yy), 1);
}

double agreement_difference(const float *x, const float *y, int64_t n) {
    double dd = 0, yy = 0;
    for (int64_t i = 0; i < n; i++) {
        dd += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        yy += (double)y[i] * (double)y[i];
    }
    return dd > 0 ? sqrt(dd / yy) : 0;
}

bool agreement_is_bad(int64_t different, int64_t n) {
    double expected = (1 - ALIKE_CODES) * (double)n;
    return (double)different > expected + 3 * sqrt(expected);
}

Agreement agreement_of(double *values, int64_t n) {
    if (!n) return (Agreement){1, 1};
    statistics_sort(values, n);
    return (Agreement){(values[(n - 1) / 2] + values[n / 2]) / 2, values[0]};
}
