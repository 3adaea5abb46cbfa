/* The counting models, against their definition computed by searching the training tokens again for every target. */
#include "data/slm/ngrams.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "kernels/philox.h"
#include "tests/test.h"

enum { TRAINING = 3000, HELD_OUT = 400, VOCABULARY = 6, UNSEEN = 5 };

static void fill(int32_t *ids, int n, uint64_t seed) {
    for (int i = 0; i < n; i++) { /* skewed, and each depends on the one before */
        uint32_t bits = philox_bits(seed, PURPOSE_TEST, 0, (uint64_t)i);
        ids[i] = bits % 3 && i ? (ids[i - 1] * 2 + 1) % UNSEEN : (int32_t)(bits >> 8) % UNSEEN;
    }
}

static SlmStream *stream_of(const int32_t *ids, int n) {
    return slm_stream_of(ids, n, (int64_t[]){0, n - 1}, NULL, 1, VOCABULARY, -1);
}

/* Returns p(w | the n tokens before it) from the definition. */
static double probability(const int32_t *training, const int32_t *history, int n, int32_t w) {
    double followed = 0, count = 0, types = 0, shorter = 1.0 / VOCABULARY;
    bool seen[VOCABULARY] = {false};
    if (n >= 0) shorter = probability(training, history + 1, n - 1, w);
    if (n < 0) return shorter;
    for (int i = n > 0 ? n : 1; i < TRAINING; i++) {
        if (n && memcmp(training + i - n, history, (size_t)n * sizeof *training) != 0) continue;
        followed++;
        count += training[i] == w;
        types += !seen[training[i]];
        seen[training[i]] = true;
    }
    return followed > 0 ? (count + types * shorter) / (followed + types) : shorter;
}

TEST(losses_are_those_of_the_definition) {
    int32_t training[TRAINING], held_out[HELD_OUT + 2];
    fill(training, TRAINING, 1);
    fill(held_out, HELD_OUT, 2);
    held_out[HELD_OUT] = UNSEEN; /* never seen in training: as a target, and as a history */
    held_out[HELD_OUT + 1] = 0;
    SlmStream *train = stream_of(training, TRAINING), *rest = stream_of(held_out, HELD_OUT + 2);
    Ngrams *ngrams = ngrams_count(train, TRAINING);
    double nats[NGRAM_ORDERS], expected[NGRAM_ORDERS] = {0};
    ngrams_measure(ngrams, rest, nats);
    for (int i = 1; i < HELD_OUT + 2; i++)
        for (int n = 0; n < NGRAM_ORDERS; n++) {
            int m = n < i ? n : i;
            expected[n] -= log(probability(training, held_out + i - m, m, held_out[i]));
        }
    for (int n = 0; n < NGRAM_ORDERS; n++) assert_true(fabs(nats[n] / expected[n] - 1) < 1e-12);
    assert_true(nats[1] < nats[0]); /* the tokens depend on the one before */
    ngrams_free(ngrams);
    slm_stream_close(train);
    slm_stream_close(rest);
}

TEST(probabilities_sum_to_one) {
    int32_t training[TRAINING];
    fill(training, TRAINING, 3);
    SlmStream *train = stream_of(training, TRAINING);
    Ngrams *ngrams = ngrams_count(train, TRAINING);
    for (int32_t a = 0; a < VOCABULARY; a++)
        for (int order = 0; order < NGRAM_ORDERS; order++) {
            double sum = 0, before[NGRAM_ORDERS], with[NGRAM_ORDERS];
            SlmStream *history = stream_of((int32_t[]){0, 1, a}, 3);
            ngrams_measure(ngrams, history, before);
            slm_stream_close(history);
            for (int32_t w = 0; w < VOCABULARY; w++) {
                SlmStream *longer = stream_of((int32_t[]){0, 1, a, w}, 4);
                ngrams_measure(ngrams, longer, with);
                sum += exp(before[order] - with[order]);
                slm_stream_close(longer);
            }
            assert_true(fabs(sum - 1) < 1e-12);
        }
    ngrams_free(ngrams);
    slm_stream_close(train);
}
