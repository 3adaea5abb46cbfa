/* An axis of a chart: from values to pixels, with round ticks. */
#pragma once

#include "base/base.h"

enum { AXIS_MAX_TICKS = 32 };

typedef struct {
    double low, high;        /* of the values that are shown; set by axis_fit */
    double step;             /* between ticks, if the axis is linear */
    int mantissas, stride;   /* of ticks on a logarithmic axis: 1, 2, 5 or 1 alone, in every stride-th decade */
    double from, to;         /* pixels of low and high; set by the caller */
    bool logarithmic, whole; /* set before axis_fit. whole: ticks are whole numbers */
} Axis;

/* Fits the axis to the values low .. high, which are finite, low <= high, positive on a logarithmic axis. An error if
 * their range exceeds that of a double. */
bool axis_fit(Axis *axis, double low, double high, Error *error);
/* Widens the axis so that it begins and ends at a tick. */
bool axis_widen(Axis *axis, Error *error);
double axis_pixel(const Axis *axis, double value);
/* Returns the number of ticks. */
int axis_ticks(const Axis *axis, double ticks[AXIS_MAX_TICKS]);
/* Writes a tick as text: 20, 1.5k, 2M, 3e-4. */
const char *axis_text(const Axis *axis, double value, char text[32]);
