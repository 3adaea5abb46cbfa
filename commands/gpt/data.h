/* The data sets of train_gpt: what is printed of them, and a synthetic epoch. */
#pragma once

#include "base/options.h"
#include "data/gpt/dataset.h"

/* Prints what a data set holds, and signs of padding that was stored as data. */
void gpt_report_dataset(const char *name, const GptDatasetOptions *options, const GptDatasetReport *report);

/* Warns if many text ids are unknown pieces. Dies if their share is `most` or more. */
void gpt_check_unknown(const char *name, const GptDatasetReport *report, double most);

/* Warns of manifests that are given for training and for validation: a loss on training samples looks too good. */
void gpt_warn_of_shared_manifests(const OptionList *trained, const OptionList *validated);

/* Returns a data set of lengths without contents, for --estimate and --dry-run without a manifest.
 *
 * Without `lengths` (NULL) it has as many samples as a micro-batch of `batch_size` samples or, where that is 0, of
 * `token_budget` tokens, each of 100 text tokens and 5 s of audio, as in the figures of the reference.
 *
 * With `lengths`, "MEAN,SD,MAX" in audio codes, it has about 1024 samples whose lengths are the quantiles of that
 * normal distribution, cut at 1 and at MAX. Texts have 2.3 pieces per second, as counted in 20 hours of read Amharic.
 * Ends the program with status 2 if `lengths` cannot be used. */
Dataset *gpt_synthetic_open(const GptLayout *layout, const char *lengths, int64_t batch_size, int64_t token_budget);
