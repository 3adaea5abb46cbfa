/* One row of a PSD recording, any width, to 200 normalised bins: clipped to its own 1st and 99th percentile, cropped or
 * padded to 200 bins, (x - median) / (interquartile range). Adding a constant in dB changes nothing.
 *
 * Double precision throughout, rounded once at the end; percentiles as NumPy's "linear" computes them, to the bit. */
#ifndef DATA_PSD_PREPROCESS_H
#define DATA_PSD_PREPROCESS_H

#include "base/base.h"

enum { PSD_BINS = 200 };
/* A row of which more than half is constant has an interquartile range near 0 and would come out as large as 1e9; a few
 * such rows would be all that a squared error sees. */
#define PSD_LIMIT 20.0

typedef struct {
    bool hop;     /* every whole chunk of 200 bins, from bin 0 on, instead of the 200 in the middle */
    double limit; /* results are held within +-limit: PSD_LIMIT, or 0 for none, as the reference has it */
} PsdOptions;

/* What was found in a row. */
typedef struct {
    double snr;           /* dB: the highest bin above the median of the lowest fifth of them, of the finite ones */
    double snr_reference; /* the reference's formula, for linear power: 0 for nearly every row in dB, NaN if a bin is */
    double low, high;     /* dB: the percentiles that it was clipped to */
    int64_t not_finite;   /* bins that were NaN or infinite, and were taken as 0 */
    int64_t padded;       /* bins that a row narrower than 200 got at its edges */
    int64_t limited;      /* results that were beyond the limit */
    bool constant;        /* all bins are equal: the result is 0 */
} PsdRow;

/* Memory that rows are worked in, one per thread: begins as {0}, grows to the widest row, ends with psd_scratch_free.
 */
typedef struct {
    int64_t capacity;
    uint64_t *keys, *spare; /* [capacity] */
    double *sorted;         /* [capacity] */
} PsdScratch;

/* How many samples a row of this width becomes: 1, or width / 200 with hop, which may be 0. */
int64_t psd_samples(int64_t width, const PsdOptions *options);
/* out[psd_samples, 200]. An error if the row is empty, has no finite bin, or values beyond what float32 can hold. */
bool psd_preprocess(const double *row, int64_t width, const PsdOptions *options, PsdScratch *scratch, float *out,
                    PsdRow *found, Error *error);
void psd_scratch_free(PsdScratch *scratch);

#endif
