/* With o and n the rates divided by their greatest common divisor, output j lies at o j / n in samples of the input,
 * and is a sum of the samples less than 6 o / b away from there, where b = 0.99 min(o, n): a sample at distance d
 * counts b / o sinc(t) cos(pi t / 12)^2,   t = b d / o,   sinc(t) = sin(pi t) / (pi t). There are n different filters,
 * as the distances repeat after n outputs. Filters and sums are in double precision. */
#include "data/audio/resample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CROSSINGS = 6, LANES = 4 };

static const double ROLL_OFF = 0.99, PI = 3.14159265358979323846;

struct Resampler {
    int64_t from, to; /* without their common divisor */
    int64_t taps;     /* per filter, a multiple of LANES; the last may be 0 */
    int64_t *first;   /* [to]: where the filter begins, in samples from the block's first, which is 0 or before it */
    double *filters;  /* [to, taps] */
};

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

/* Returns the weight of a sample at t zero crossings of the sinc from the output, before it is scaled. */
static double weight_at(double t) {
    if (fabs(t) >= CROSSINGS) return 0;
    double c = cos(PI * t / (2 * CROSSINGS));
    return t == 0 ? 1 : c * c * sin(PI * t) / (PI * t);
}

Resampler *resampler_open(int from, int to) {
    if (from < 1 || to < 1 || from > RESAMPLER_MAX_RATE || to > RESAMPLER_MAX_RATE)
        die("sound of %d Hz cannot be resampled to %d Hz: the rates must be 1 to %d", from, to, RESAMPLER_MAX_RATE);
    Resampler *r = xmalloc(sizeof *r);
    int64_t divisor = common_divisor(from, to);
    r->from = from / divisor;
    r->to = to / divisor;
    double scale = ROLL_OFF * (double)(r->from < r->to ? r->from : r->to) / (double)r->from; /* b / o */
    double reach = CROSSINGS / scale;
    r->taps = ((int64_t)floor(2 * reach) + LANES) / LANES * LANES;
    r->first = xmalloc((size_t)r->to * sizeof *r->first);
    r->filters = xmalloc((size_t)(r->to * r->taps) * sizeof *r->filters);
    for (int64_t p = 0; p < r->to; p++) {
        double at = (double)(p * r->from) / (double)r->to;
        r->first[p] = (int64_t)ceil(at - reach);
        for (int64_t k = 0; k < r->taps; k++)
            r->filters[p * r->taps + k] = scale * weight_at(scale * ((double)(r->first[p] + k) - at));
    }
    return r;
}

void resampler_close(Resampler *resampler) {
    if (!resampler) return;
    FREE(resampler->first, resampler->filters, resampler);
}

int64_t resampler_length(const Resampler *r, int64_t n) { return (n * r->to + r->from - 1) / r->from; }

/* Returns the sum of taps[n] * samples[n], n a multiple of LANES, in as many partial sums. */
static inline double product(const double *restrict taps, const float *restrict samples, int64_t n) {
    double sums[LANES] = {0};
    for (int64_t k = 0; k < n; k += LANES)
        for (int i = 0; i < LANES; i++) sums[i] += taps[k + i] * (double)samples[k + i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* Returns the same where some of the samples lie outside of samples[n]. */
static double product_at_the_edge(const double *taps, int64_t n_taps, const float *samples, int64_t n, int64_t start) {
    double sum = 0;
    for (int64_t k = 0; k < n_taps; k++)
        if (start + k >= 0 && start + k < n) sum += taps[k] * (double)samples[start + k];
    return sum;
}

void resampler_run(const Resampler *r, const float *samples, int64_t n, float *out) {
    if (r->from == r->to) {
        memcpy(out, samples, (size_t)n * sizeof *out);
        return;
    }
    const int64_t length = resampler_length(r, n);
    int64_t phase = 0, block = 0; /* of output j: j = block / from * to + phase */
    for (int64_t j = 0; j < length; j++) {
        const double *taps = r->filters + phase * r->taps;
        int64_t start = block + r->first[phase];
        out[j] = (float)(start >= 0 && start + r->taps <= n ? product(taps, samples + start, r->taps)
                                                            : product_at_the_edge(taps, r->taps, samples, n, start));
        if (++phase == r->to) phase = 0, block += r->from;
    }
}
