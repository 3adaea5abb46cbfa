/* The options of train_slm's training. */
#pragma once

#include "commands/slm/samples.h"
#include "model/slm.h"
#include "train/options.h"
#include "train/schedule.h"

typedef struct {
    TrainOptions train; /* its manifest is the folder of the data */
    const char *tokenizer, *token_bytes, *size, *gelu, *schedule, *optimizer, *sampling, *documents, *mfu;
    int64_t vocabulary, d_model, layers, heads, context, tokens_per_step;
    double dropout, min_lr, decay_share, beta1, beta2, max_unknown;
    bool biases, scaled_init;
    SlmSampleOptions samples;
    bool separate, random; /* --documents separate, --sampling random */
} SlmOptions;

/* Options that decide what a sample or the model is; the last is NULL. */
extern const char *const SLM_FIXED_OPTIONS[];

/* Adds the options of the training to a set, and the names that their values have in the reference's configuration. */
void slm_options_add(OptionSet *set, SlmOptions *options);
/* Sets what follows from other options: the size, the micro-batches, the optimizer steps. Dies on combinations that
 * contradict each other. */
void slm_options_resolve(SlmOptions *options, const OptionSet *set);
/* Prints what --tokens-per-step has come to. */
void slm_options_print(const SlmOptions *options);
/* Returns the configuration of the model. */
SlmConfig slm_options_config(const SlmOptions *options);
/* Returns the learning rate's schedule; the engine sets its warm-up and its length. */
Schedule slm_options_schedule(const SlmOptions *options);
