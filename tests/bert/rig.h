/* Batches of the encoder for tests, packed by the description of their fields, independently of the data sets that
 * training uses. */
#pragma once

#include "data/bert/dataset.h"
#include "model/bert.h"
#include "tests/model_rig.h"

/* Returns a small configuration: 53 tokens, 18 positions, width 32, two layers. classes 0: masked words. */
BertConfig bert_config_small(int classes, float dropout);

/* Packs texts; text s is ids[offsets[s]] .. ids[offsets[s + 1] - 1]. labels NULL: unknown. */
Batch bert_batch_of_classes(const int32_t *ids, const int32_t *offsets, int n, const int32_t *labels,
                            const BertLoss *loss);
/* The same with n_rows rows to be predicted, whose ids are labels[n_rows]. */
Batch bert_batch_of_masks(const int32_t *ids, const int32_t *offsets, int n, const int32_t *rows, const int32_t *labels,
                          int n_rows);
/* Packs texts of these lengths of random ids and with random labels: classes without weights; or, if classes is 0,
 * every third row is predicted. Numbers depend on `first` and their place. */
Batch bert_batch_random(int vocabulary, int classes, int64_t first, const int32_t *lengths, int n);
