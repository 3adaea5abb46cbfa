/* A synthetic epoch for --estimate and --dry-run without a manifest. */
#ifndef COMMANDS_GPT_SYNTHETIC_H
#define COMMANDS_GPT_SYNTHETIC_H

#include "data/gpt/dataset.h"

/* Returns a data set of lengths without contents.
 *
 * Without `lengths` (NULL) it has as many samples as a micro-batch of `batch_size` samples or, where that is 0, of
 * `token_budget` tokens, each of 100 text tokens and 5 s of audio, as in the figures of the reference.
 *
 * With `lengths`, "MEAN,SD,MAX" in audio codes, it has about 1024 samples whose lengths are the quantiles of that
 * normal distribution, cut at 1 and at MAX. Texts have 2.3 pieces per second, as counted in 20 hours of read Amharic.
 * Ends the program with status 2 if `lengths` cannot be used. */
Dataset *gpt_synthetic_open(const GptLayout *layout, const char *lengths, int64_t batch_size, int64_t token_budget);

#endif
