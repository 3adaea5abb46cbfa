/* Texts that a training writes after each validation, always from the same prompts. */
#pragma once

#include "data/text/tokenizer.h"
#include "train/train.h"

typedef struct {
    OptionList prompts;
    int64_t tokens; /* of a text, at most */
} SlmSampleOptions;

/* Adds --sample-prompt and --sample-tokens. */
void slm_sample_options_add(OptionSet *set, SlmSampleOptions *options);

typedef struct SlmSamples SlmSamples;

/* Takes the memory that generation needs, when the training has taken its own. Returns NULL if no text is wanted, and
 * warns if there is no memory. tokenizer: NULL: not known. first: the id before every document; -1: none. */
SlmSamples *slm_samples_open(const SlmSampleOptions *options, const TrainSpec *spec, const Tokenizer *tokenizer,
                             int32_t first);
void slm_samples_close(SlmSamples *samples);
/* Generates the texts, prints them and adds them to the log; a ValidationHook's function. */
void slm_samples_write(void *samples, Training *training, int64_t step);
