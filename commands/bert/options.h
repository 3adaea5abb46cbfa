/* The options of train_bert's two trainings: of a classifier, and of a masked language model (pretrain). */
#pragma once

#include "commands/bert/texts.h"
#include "commands/chance_cause.h"
#include "model/bert.h"
#include "train/options.h"
#include "train/schedule.h"

static const UsualRates BERT_USUAL_RATES = {.pretrained = 2e-5, .scratch = 5e-4};

typedef struct {
    TrainOptions train; /* its manifest is --data */
    BertTextOptions text;
    OptionSet *set;
    bool pretraining;
    const char *valid, *test, *split_shares, *labels, *class_weights, *metric, *schedule, *warmup_start, *threshold;
    int64_t layers, d_model, heads, d_ff, positions, vocabulary; /* vocabulary 0: the tokenizer's */
    int64_t frozen_layers, patience, folds, seeds, rows, row_tokens;
    double dropout, head_dropout, warmup_ratio, label_smoothing, layer_decay, mask_share, max_unknown;
    bool freeze_embeddings, compact_vocabulary, whole_words;
    double shares[3]; /* --split-shares, of 1 */
} BertOptions;

/* Options that decide what a sample, the model or the best weights are; the last is NULL. */
extern const char *const BERT_FIXED_OPTIONS[];

/* Adds the options of the training, or of `pretrain`, to an empty set, which must live as long as the options. */
void bert_options_add(OptionSet *set, BertOptions *options, bool pretraining);
/* Sets what follows from other options. Dies on combinations that contradict each other. */
void bert_options_resolve(BertOptions *options);
/* Sets the sizes of the tables that are not known, for so many ids. Dies if one of them is too small for --max-len or
 * for the ids. */
void bert_options_set_tables(BertOptions *options, int64_t ids);
/* Returns the number of trainings: seeds times folds. */
int bert_options_trainings(const BertOptions *options);
/* Returns the configuration of the model, for a number of classes; 0: a masked language model. padding: of the texts'
 * rules. */
BertConfig bert_options_config(const BertOptions *options, int classes, bool padding);
/* Lets a run that is resumed go on with the warm-up that it began with: checkpoints of train_bert before --warmup-start
 * do not tell it, and began above zero. */
void bert_options_resume_warmup(BertOptions *options);
/* Returns the learning rate's schedule; the engine sets its warm-up and its length. */
Schedule bert_options_schedule(const BertOptions *options);
/* Returns the factors by which --layer-decay multiplies the rate of each parameter group; free(). NULL: all are 1. */
double *bert_options_rate_factors(const BertOptions *options);

/* Prints the command that uses the run of these options. */
void bert_options_print_next(const BertOptions *options);
