#include "report/axis.h"

#include <math.h>
#include <stdio.h>

/* Returns the round distance (1, 2 or 5 times a power of ten) that divides `range` into 4 to 10 parts. */
static double round_step(double range) {
    double power = pow(10, floor(log10(range / 4))), times = range / 4 / power;
    return power * (times < 2 ? 1 : times < 5 ? 2 : 5);
}

/* Least range of an axis, as a share of its greatest value: its ticks differ in their 8 digits. */
static const double LEAST_RANGE = 5e-7;

bool axis_fit(Axis *axis, double low, double high, Error *error) {
    double range = high - low, size = fmax(fabs(low), fabs(high));
    *axis =
        (Axis){low, high, .from = axis->from, .to = axis->to, .logarithmic = axis->logarithmic, .whole = axis->whole};
    if (axis->logarithmic && !(low > 1e-100 && high < 1e100))
        return error_set(error, "the values are too far from 1 for a logarithmic scale");
    if (axis->logarithmic) {
        double decades = log10(high / low);
        axis->stride = (int)fmax(1, ceil(decades / 8));
        axis->mantissas = decades <= 3 ? 3 : 1;
        return true;
    }
    if (range < LEAST_RANGE * size || range < 1e-300) {
        double more = size > 1e-290 ? size / 2 : 0.5;
        axis->low -= more, axis->high += more;
    }
    if (!isfinite(axis->high - axis->low)) return error_set(error, "the values are too far apart to draw");
    axis->step = round_step(axis->high - axis->low);
    if (axis->whole && axis->step < 1) axis->step = 1;
    return true;
}

/* Returns the tick number k of a logarithmic axis; k may be negative. */
static double log_tick(const Axis *axis, int k) {
    static const double times[] = {1, 2, 5};
    int decade = (int)floor((double)k / axis->mantissas);
    return times[k - decade * axis->mantissas] * pow(10, decade * axis->stride);
}

/* Returns the number of the last tick that is not above the lowest value. */
static int first_log_tick(const Axis *axis) {
    int k = axis->mantissas * (int)floor(log10(axis->low) / axis->stride) - 1;
    while (log_tick(axis, k + 1) <= axis->low * (1 + 1e-9)) k++;
    return k;
}

bool axis_widen(Axis *axis, Error *error) {
    if (axis->logarithmic) {
        int k = first_log_tick(axis), last = k + 1;
        while (log_tick(axis, last) < axis->high * (1 - 1e-9)) last++;
        double low = log_tick(axis, k);
        axis->high = log_tick(axis, last), axis->low = low;
        return true;
    }
    axis->low = floor(axis->low / axis->step) * axis->step;
    axis->high = ceil(axis->high / axis->step) * axis->step;
    return isfinite(axis->high - axis->low) || error_set(error, "the values are too far apart to draw");
}

double axis_pixel(const Axis *axis, double value) {
    double share = axis->logarithmic ? log(value / axis->low) / log(axis->high / axis->low)
                                     : (value - axis->low) / (axis->high - axis->low);
    return axis->from + share * (axis->to - axis->from);
}

int axis_ticks(const Axis *axis, double ticks[AXIS_MAX_TICKS]) {
    int n = 0;
    if (axis->logarithmic) {
        int k = first_log_tick(axis);
        k += log_tick(axis, k) < axis->low * (1 - 1e-9);
        for (; n < AXIS_MAX_TICKS && log_tick(axis, k) <= axis->high * (1 + 1e-9); k++) ticks[n++] = log_tick(axis, k);
        return n;
    }
    double first = ceil(axis->low / axis->step - 1e-9);
    int last = (int)(axis->high / axis->step + 1e-9 - first);
    while (n <= last && n < AXIS_MAX_TICKS) ticks[n] = (first + n) * axis->step, n++;
    return n;
}

const char *axis_text(const Axis *axis, double value, char text[32]) {
    static const char *const units[] = {"k", "M", "G", "T"};
    double size = axis->logarithmic ? value : fmax(fabs(axis->low), fabs(axis->high));
    int exponent = (int)floor(log10(size) + 1e-9);
    int thousands = exponent / 3;
    if (exponent >= 4 && exponent < 15)
        snprintf(text, 32, "%.8g%s", value / pow(1000, thousands), units[thousands - 1]);
    else if (size < 0.01 && exponent > -300 && value != 0)
        snprintf(text, 32, "%.8ge%d", value / pow(10, exponent), exponent);
    else
        snprintf(text, 32, "%.8g", value);
    if (fabs(value) < 1e-9 * axis->step) snprintf(text, 32, "0"); /* no "-0", no "1e-17" */
    return text;
}
