/* Models that count: what a trained network must beat. Unigrams, 2-grams and 3-grams of tokens, each backing off to the
 * shorter one by the rule of Witten and Bell: with c(h) the times that the history h was seen in training and t(h) the
 * number of different tokens that followed it,
 *   p(w | h) = (c(h w) + t(h) p(w | h without its first token)) / (c(h) + t(h));
 * the unigrams back off to equal probabilities. Probabilities of all tokens sum to 1, so losses compare with a
 * network's. */
#pragma once

#include "data/slm/stream.h"

enum { NGRAM_ORDERS = 3 };

typedef struct Ngrams Ngrams;

/* Counts the first max_tokens of a stream; takes about 50 bytes per token. */
Ngrams *ngrams_count(const SlmStream *stream, int64_t max_tokens);
void ngrams_free(Ngrams *ngrams);
/* Sums the losses, in nats, of all targets of a stream of the same vocabulary: nats[0] of unigrams, and so on. */
void ngrams_measure(const Ngrams *ngrams, const SlmStream *stream, double nats[NGRAM_ORDERS]);
