/* Turns one row of a recording, of any width, into samples of 200 normalised bins: clips it to its own 1st and 99th
 * percentile, crops or pads it to 200 bins, and computes (x - median) / (interquartile range). Adding a constant in dB
 * changes nothing.
 *
 * Bins that are -inf, the logarithm of no power, become the floor of their row (the median of the lowest fifth of its
 * finite bins), +inf its highest finite bin, and NaN lies on the line between its neighbours. A row of which half is
 * NaN is refused. The reference takes all of them for 0 dB, far above any signal.
 *
 * Computes in double precision and rounds once at the end. Percentiles are NumPy's "linear" ones, to the bit. */
#pragma once

#include "base/base.h"

enum { PSD_BINS = 200 };
/* The default limit. A row that is more than half constant has an interquartile range near 0, and its values would be
 * as large as 1e9; a few such rows would dominate a squared error. */
#define PSD_LIMIT 20.0

typedef struct {
    bool hop;     /* every whole chunk of 200 bins, from bin 0 on, is a sample, instead of the 200 in the middle */
    double limit; /* results are clipped to +-limit; 0: as in the reference, no limit, and 0 for bins not finite */
} PsdPreprocessing;

/* Facts about a row. */
typedef struct {
    double snr;           /* dB: the highest finite bin minus the median of the lowest fifth of the finite bins */
    double snr_reference; /* by the reference's formula for linear power: 0 for nearly every row in dB; NaN if a bin is
                             NaN */
    double low, high;     /* dB: the percentiles that the row was clipped to */
    double least, most;   /* of the finite bins, as recorded */
    int64_t not_finite;   /* bins that were NaN or infinite, and were replaced */
    int64_t missing;      /* bins that were NaN */
    int64_t padded;       /* bins that were added at the edges of a row narrower than 200 */
    int64_t limited;      /* results that were clipped to the limit */
    bool constant;        /* all bins are equal: the results are 0 */
} PsdRow;

/* Scratch memory, one per thread: begins as {0}, grows to the widest row, ends with psd_scratch_free. */
typedef struct {
    int64_t capacity;
    uint64_t *keys, *spare; /* [capacity] */
    double *sorted, *row;   /* [capacity] */
} PsdScratch;

/* Returns how many samples a row of this width becomes: 1 (0 if it is empty), or with hop width / 200, which may be 0.
 */
int64_t psd_samples(int64_t width, const PsdPreprocessing *options);
/* Fills out[psd_samples, 200]. False with an error if the row is empty, has no finite bin, is half NaN (unless
 * the limit is 0), or has values beyond the range of float32. */
bool psd_preprocess(const double *row, int64_t width, const PsdPreprocessing *options, PsdScratch *scratch, float *out,
                    PsdRow *found, Error *error);
/* Returns whether so many bins of a row of this width are NaN that the row is left out. */
bool psd_is_half_missing(const PsdRow *row, int64_t width);
void psd_scratch_free(PsdScratch *scratch);
