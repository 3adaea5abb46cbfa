/* Everything here is an order statistic of the whole row or of 200 bins, so both are sorted. Radix sort takes the same
 * time whatever the data, and is faster than comparisons already at 200 bins. */
#include "data/psd/preprocess.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- sorting ---- */

/* A key is an unsigned integer that sorts as its double does: negative doubles have all bits flipped, the others only
 * the sign. */
static const uint64_t SIGN = (uint64_t)1 << 63;

static uint64_t to_key(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & SIGN ? ~bits : bits | SIGN;
}

static double from_key(uint64_t key) {
    double value;
    uint64_t bits = key & SIGN ? key ^ SIGN : ~key;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void reserve(PsdScratch *s, int64_t n) {
    if (n <= s->capacity) return;
    psd_scratch_free(s);
    s->capacity = n;
    s->keys = xmalloc((size_t)n * sizeof *s->keys);
    s->spare = xmalloc((size_t)n * sizeof *s->spare);
    s->sorted = xmalloc((size_t)n * sizeof *s->sorted);
    s->row = xmalloc((size_t)n * sizeof *s->row);
}

void psd_scratch_free(PsdScratch *s) {
    FREE(s->keys, s->spare, s->sorted, s->row);
    *s = (PsdScratch){0};
}

/* Sorts the first n keys and writes their values into s->sorted, ascending. Goes from the lowest byte to the highest;
 * each pass is stable. */
static void sort_keys(PsdScratch *s, int64_t n) {
    enum { BYTES = 8, VALUES = 256 };
    int64_t counts[BYTES][VALUES] = {{0}};
    for (int64_t i = 0; i < n; i++)
        for (int byte = 0; byte < BYTES; byte++) counts[byte][s->keys[i] >> 8 * byte & 255]++;
    for (int byte = 0; byte < BYTES; byte++) {
        int64_t *places = counts[byte], before = 0;
        if (n && places[s->keys[0] >> 8 * byte & 255] == n) continue; /* the byte is the same everywhere */
        for (int value = 0; value < VALUES; value++) {
            int64_t count = places[value];
            places[value] = before;
            before += count;
        }
        for (int64_t i = 0; i < n; i++) s->spare[places[s->keys[i] >> 8 * byte & 255]++] = s->keys[i];
        uint64_t *swap = s->keys;
        s->keys = s->spare;
        s->spare = swap;
    }
    for (int64_t i = 0; i < n; i++) s->sorted[i] = from_key(s->keys[i]);
}

/* ---- order statistics ---- */

/* Interpolates from the nearer of the two neighbours, as NumPy does. */
static double percentile(const double *sorted, int64_t n, double percent) {
    double rank = percent / 100 * (double)(n - 1);
    int64_t below = (int64_t)rank;
    double t = rank - (double)below, a = sorted[below], b = sorted[below + (below + 1 < n)];
    return t < 0.5 ? a + (b - a) * t : b - (b - a) * (1 - t);
}

static double median(const double *sorted, int64_t n) { return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2; }

/* Returns the median of the lowest fifth. */
static double noise_floor(const double *sorted, int64_t n) {
    int64_t low = (int64_t)(0.2 * (double)n);
    return median(sorted, low ? low : 1);
}

static double snr_reference(const double *sorted, int64_t n) {
    double noise = noise_floor(sorted, n), peak = sorted[n - 1];
    if (noise <= 0) noise = fabs(noise) + 1e-12;
    double ratio = peak / noise;
    return peak <= 0 ? 0 : 10 * log10(ratio < 1e-12 ? 1e-12 : ratio);
}

/* ---- a row ---- */

/* Fills s->sorted with the row, without NaN and with infinities at the ends, and measures the row before anything is
 * replaced. *floor: dB. False if no bin is finite. */
static bool inspect(const double *row, int64_t width, PsdScratch *s, double *floor, PsdRow *found) {
    int64_t n = 0, first = 0, end;
    for (int64_t i = 0; i < width; i++)
        if (!isnan(row[i])) s->keys[n++] = to_key(row[i]);
    sort_keys(s, n);
    for (end = n; first < end && isinf(s->sorted[first]); first++) {
    }
    while (end > first && isinf(s->sorted[end - 1])) end--;
    found->not_finite = width - (end - first);
    found->missing = width - n;
    if (first == end) return false;
    *floor = noise_floor(s->sorted + first, end - first);
    found->least = s->sorted[first];
    found->most = s->sorted[end - 1];
    found->snr = found->most - *floor;
    found->snr_reference = n < width ? (double)NAN : snr_reference(s->sorted, n);
    found->constant = end - first == width && s->sorted[0] == s->sorted[width - 1];
    return true;
}

/* Copies the row into s->row with finite numbers for all its bins, and sorts them. */
static void replace(const double *row, int64_t width, bool zeros, double floor, PsdScratch *s, const PsdRow *found) {
    for (int64_t i = 0, before = -1, after = 0; i < width; i++) { /* before, after: the next bins that are not NaN */
        double value = row[i];
        if (isnan(value) && !zeros) {
            for (after = after > i ? after : i; after < width && isnan(row[after]); after++) {
            }
            double low = before < 0 ? NAN : s->row[before], high = after == width ? NAN : row[after];
            if (isinf(high)) high = high < 0 ? floor : found->most;
            value = isnan(low)    ? high
                    : isnan(high) ? low
                                  : low + (high - low) * ((double)(i - before) / (double)(after - before));
        } else if (!isfinite(value)) {
            value = zeros ? 0 : value < 0 ? floor : found->most;
        }
        if (!isnan(row[i])) before = i;
        s->row[i] = value;
        s->keys[i] = to_key(value);
    }
    sort_keys(s, width);
}

/* (bins - median) / (interquartile range) */
static bool normalise(const double *bins, double limit, PsdScratch *s, float *out, PsdRow *found) {
    for (int i = 0; i < PSD_BINS; i++) s->keys[i] = to_key(bins[i]);
    sort_keys(s, PSD_BINS);
    double middle = median(s->sorted, PSD_BINS);
    double range = percentile(s->sorted, PSD_BINS, 75) - percentile(s->sorted, PSD_BINS, 25);
    if (!isfinite(middle + range)) return false;
    for (int i = 0; i < PSD_BINS; i++) {
        double value = (bins[i] - middle) / (range + 1e-8);
        if (limit > 0 && fabs(value) > limit) {
            value = copysign(limit, value);
            found->limited++;
        }
        out[i] = (float)value;
        if (!isfinite(out[i])) return false;
    }
    return true;
}

bool psd_is_half_missing(const PsdRow *row, int64_t width) { return 2 * row->missing >= width; }

int64_t psd_samples(int64_t width, const PsdPreprocessing *options) {
    return options->hop ? width / PSD_BINS : width > 0;
}

bool psd_preprocess(const double *row, int64_t width, const PsdPreprocessing *options, PsdScratch *s, float *out,
                    PsdRow *found, Error *error) {
    double floor;
    *found = (PsdRow){0};
    if (width < 1) return error_set(error, "the row is empty");
    reserve(s, width > PSD_BINS ? width : PSD_BINS);
    if (!inspect(row, width, s, &floor, found))
        return error_set(error, "none of the row's %lld bins is finite", (long long)width);
    if (options->limit > 0 && psd_is_half_missing(found, width))
        return error_set(error, "%lld of the row's %lld bins are NaN", (long long)found->missing, (long long)width);
    if (found->not_finite) { /* what replaces them counts in the percentiles */
        replace(row, width, !(options->limit > 0), floor, s, found);
        row = s->row;
    }
    double low = found->low = percentile(s->sorted, width, 1), high = found->high = percentile(s->sorted, width, 99);
    /* Where the sample begins. A narrower row is padded with its first and last bin: the sample begins before it. */
    int64_t start = options->hop ? 0 : width >= PSD_BINS ? (width - PSD_BINS) / 2 : -((PSD_BINS - width) / 2);
    if (!options->hop && width < PSD_BINS) found->padded = PSD_BINS - width;
    for (int64_t sample = 0; sample < psd_samples(width, options); sample++, start += PSD_BINS) {
        double bins[PSD_BINS];
        for (int i = 0; i < PSD_BINS; i++) {
            int64_t at = start + i < 0 ? 0 : start + i < width ? start + i : width - 1;
            bins[i] = fmin(fmax(row[at], low), high);
        }
        if (!normalise(bins, options->limit, s, out + sample * PSD_BINS, found))
            return error_set(error, "the row has values as large as %g, which cannot be normalised in float32",
                             fmax(fabs(low), fabs(high)));
    }
    return true;
}
