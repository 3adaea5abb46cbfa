/* Finds sensors whose recordings are not in dB, or not in the unit of the others: what they are normalised to would say
 * nothing. */
#pragma once

#include "base/json.h"
#include "data/psd/preprocess.h"

/* Statistics of a sensor's rows; begins as {0}. */
typedef struct {
    double least, most; /* of all finite bins */
    double magnitudes;  /* sum over rows of the decadic logarithm of the largest magnitude */
    int64_t rows;       /* that are not all 0 */
} PsdLevel;

/* Adds a row. */
void psd_level_add(PsdLevel *level, const PsdRow *row);
/* Adds the rows of another level. */
void psd_level_join(PsdLevel *level, const PsdLevel *other);
/* Returns a text for each doubtful sensor, that names it and says why: all its bins are from 0 to 1, as linear power is
 * and dB are not; or they are of another order than those of the other sensors. */
json_t *psd_levels_doubtful(const PsdLevel *levels, const char *const *sensors, int n);
