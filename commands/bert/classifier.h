/* A trained classifier on a device, for the commands that use it. */
#pragma once

#include "commands/bert/model.h"
#include "commands/threshold_decision.h"
#include "data/bert/comments.h"
#include "train/train.h"

/* The options of a command that uses classifiers. */
typedef struct {
    TrainOptions train; /* where it computes */
    BertTextOptions text;
    int64_t heads;
    double threshold; /* --threshold; 0: the decision's */
    OptionSet set;
    Device *device;
    const char *device_why;
} BertUse;

/* Adds the options of texts (labelled: with --label-column), --heads, --threshold and those of
 * predict_train_options_add to the set. */
void bert_use_options(BertUse *use, bool labelled);
/* Takes the names of the columns that are not given from the training of a checkpoint, and prints those that are not
 * the usual ones. */
void bert_use_adopt_columns(BertUse *use, const char *checkpoint);
/* Resolves them after they have been parsed, and opens the device. */
void bert_use_open(BertUse *use);
void bert_use_close(BertUse *use, int argc, char **argv);

typedef struct {
    const char *checkpoint;
    TrainOptions train; /* with the checkpoint */
    BertBase base;
    BertTexts texts;
    ThresholdDecision decision; /* with --threshold, that one */
    Model *model;
    TokenizedTexts widest; /* what memory is planned for */
    Dataset *planned;
    Training *training;
    int64_t n, truncated, cut, unknown, tokens, empty, dropped; /* of all texts so far */
    Unknown missing;
} BertClassifier;

/* Opens the classifier of a checkpoint; the use must outlive it. Dies, naming what does not fit, if it has no
 * classifier, if its texts cannot become ids as in its training, or if an option contradicts it. */
void bert_classifier_open(BertClassifier *classifier, const char *checkpoint, const BertUse *use);
void bert_classifier_close(BertClassifier *classifier);
/* Computes logits[n, classes] of texts, some thousand at a time. */
void bert_classifier_logits(BertClassifier *classifier, const char *const *texts, int64_t n, float *logits);
/* Prints how many texts and tokens there were, and what was cut. Warns of what the tokenizer does not know. */
void bert_classifier_print(const BertClassifier *classifier);
