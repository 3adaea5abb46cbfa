#include "data/bert/lengths.h"

#include <math.h>

#include "kernels/philox.h"

/* Between the points, the logarithm of the length is linear. The points at 0.25 and 0.75 are chosen so that the mean,
 * cut to 192, is the data set's. */
static const struct {
    double share, length;
} points[] = {{0, 3},     {0.25, 7},  {0.5, 12},    {0.75, 19.5},    {0.9, 30},
              {0.95, 42}, {0.99, 76}, {0.999, 134}, {0.999543, 192}, {1, 473}};

double bert_length_quantile(double share) {
    int i = 1;
    while (share > points[i].share && points[i].share < 1) i++;
    double part = (share - points[i - 1].share) / (points[i].share - points[i - 1].share);
    return points[i - 1].length * pow(points[i].length / points[i - 1].length, part);
}

/* Returns the length of a synthetic text, cut to max_len: the quantile of a random share. */
static int random_length(int64_t sample, int max_len) {
    double length = bert_length_quantile((double)philox_uniform(0, PURPOSE_SYNTHETIC | 1 << 8, 0, (uint64_t)sample));
    return length < max_len ? (int)lround(length) : max_len;
}

enum { BEGIN, PAD, END, UNKNOWN, ORDINARY };

SpecialIds bert_synthetic_specials(int vocabulary) {
    return (SpecialIds){.begin = BEGIN, .end = END, .pad = PAD, .mask = vocabulary - 1, .unknown = UNKNOWN};
}

TokenizedTexts bert_synthetic_texts(int64_t n, int vocabulary, int length, int max_len) {
    enum { DIFFERENT = BERT_SYNTHETIC_IDS - 2 /* begin, end */ };
    TokenizedTexts t = {.n = n, .first = xcalloc((size_t)n + 1, sizeof *t.first)};
    const int ordinary = vocabulary - 1 - ORDINARY, different = ordinary < DIFFERENT ? ordinary : DIFFERENT;
    for (int64_t i = 0; i < n; i++) t.first[i + 1] = t.first[i] + (length ? length : random_length(i, max_len));
    t.ids = xmalloc((size_t)t.first[n] * sizeof *t.ids);
    for (int64_t i = 0; i < t.first[n]; i++) t.ids[i] = ORDINARY + (int32_t)(i % different);
    for (int64_t i = 0; i < n; i++) {
        t.ids[t.first[i]] = BEGIN;
        t.ids[t.first[i + 1] - 1] = END;
    }
    return t;
}
