/* The data sets of the encoder: tokenized texts with classes, or with words to be predicted. */
#pragma once

#include "data/bert/batch.h"
#include "data/bert/masking.h"
#include "data/dataset.h"

/* The target of a text of class y is (1 - smoothing) w[y] at y, and smoothing / classes * w[c] at every class c more.
 */
typedef struct {
    int classes;
    const float *weights; /* [classes]; NULL: 1 */
    float smoothing;
} BertLoss;

/* Open a data set of texts that must outlive it; the other arguments are copied. */

/* Opens texts for a classifier. labels[texts->n] are classes; NULL: unknown, then a batch has neither labels nor
 * targets.
 */
Dataset *bert_labelled_open(const TokenizedTexts *texts, const int32_t *labels, const BertLoss *loss);
/* Opens texts for a masked language model. Sample i is text bert_masked_text(dataset, i): texts without a piece that
 * can be predicted are left out. fixed: the same pieces in every epoch, for validation. `masking` must outlive the data
 * set. NULL with an error if no text is left. */
Dataset *bert_masked_open(const TokenizedTexts *texts, const BertMasking *masking, bool fixed, Error *error);
int64_t bert_masked_text(const Dataset *dataset, int64_t sample);

/* See BatchSpec.largest. */
Batch bert_largest_batch(const Dataset *dataset, int64_t batch_size, int64_t token_budget);
