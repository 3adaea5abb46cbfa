/* The options of train_gpt's training. */
#pragma once

#include "data/gpt/samples.h"
#include "model/gpt.h"
#include "train/options.h"

typedef struct {
    TrainOptions train;
    const char *tokenizer, *freeze, *lengths;
    double text_loss_weight, mel_loss_weight, dropout, max_unknown;
    int64_t model_dim, layers, heads, max_text_tokens, max_mel_tokens, number_text_tokens, number_mel_codes;
    int64_t frozen_text_rows;
    int unknown_id; /* of the tokenizer, from which the program reads it */
    bool repair_codes, skip_bad;
} GptOptions;

/* Options that decide what a sample is: a run cannot be resumed if they have changed. The last is NULL. */
extern const char *const GPT_FIXED_OPTIONS[];

/* Adds the options of the training to a set. */
void gpt_options_add(OptionSet *set, GptOptions *options);
/* Dies on options that contradict each other, when the vocabulary is known. */
void gpt_options_check(const GptOptions *options);
/* Returns the configuration of the model. */
GptConfig gpt_options_config(const GptOptions *options);

enum { GPT_SPECIAL_CODES = 2 }; /* start and stop, behind the audio codes */

/* Returns the sizes of a model that its data must match. */
GptLayout gpt_layout(const GptConfig *config);
