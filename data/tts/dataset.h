/* The data set of the TTS GPT: micro-batches of the samples of manifests, or of synthetic samples. */
#ifndef DATA_TTS_DATASET_H
#define DATA_TTS_DATASET_H

#include "data/dataset.h"
#include "data/tts/batch.h"
#include "data/tts/samples.h"

/* Opens the samples of manifests; see tts_samples_read. */
Dataset *tts_dataset_open(const char *const *specs, int n_specs, const TtsDatasetOptions *options,
                          TtsDatasetReport *report);
/* Opens a data set of lengths without contents, for the dry device. */
Dataset *tts_dataset_lengths(const TtsLayout *layout, const int32_t *text_lengths, const int32_t *code_lengths,
                             int64_t n_samples);
/* Opens a data set of these lengths with seeded contents, for benchmarks and tests. */
Dataset *tts_dataset_synthetic(const TtsLayout *layout, const int32_t *text_lengths, const int32_t *code_lengths,
                               int64_t n_samples);
/* Returns a micro-batch for planning memory, without contents. It has at least the text rows, the code rows and the
 * rows of every micro-batch that a loader can form of `batch_size` samples, or with a token budget: it pairs the i-th
 * longest text with the i-th longest codes. */
Batch tts_largest_batch(const Dataset *dataset, int64_t batch_size, int64_t token_budget);
/* Returns the entropy in nats of how often each audio code is a target, the stop code included: the loss of a model
 * that has learned nothing else. */
double tts_code_entropy(const Dataset *dataset);

#endif
