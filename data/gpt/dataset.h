/* The data set of the TTS GPT: micro-batches of the samples of manifests, or of synthetic samples. */
#pragma once

#include "data/dataset.h"
#include "data/gpt/batch.h"
#include "data/gpt/samples.h"

/* Opens the samples of manifests; see gpt_samples_read. */
Dataset *gpt_dataset_open(const char *const *specs, int n_specs, const GptDatasetOptions *options,
                          GptDatasetReport *report);
/* Opens a data set of lengths without contents, for the dry device. */
Dataset *gpt_dataset_lengths(const GptLayout *layout, const int32_t *text_lengths, const int32_t *code_lengths,
                             int64_t n_samples);
/* Opens a data set of these lengths with seeded contents, for benchmarks and tests. */
Dataset *gpt_dataset_synthetic(const GptLayout *layout, const int32_t *text_lengths, const int32_t *code_lengths,
                               int64_t n_samples);
/* Returns a micro-batch for planning memory, without contents. It has at least the text rows, the code rows and the
 * rows of every micro-batch that a loader can form of `batch_size` samples, or with a token budget: it pairs the i-th
 * longest text with the i-th longest codes. */
Batch gpt_largest_batch(const Dataset *dataset, int64_t batch_size, int64_t token_budget);
/* Returns the entropy in nats of how often each audio code is a target, the stop code included: the loss of a model
 * that has learned nothing else. */
double gpt_code_entropy(const Dataset *dataset);
