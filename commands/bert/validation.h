/* The score of the validation texts that --metric names: the best weights are those with the best score. */
#ifndef COMMANDS_BERT_VALIDATION_H
#define COMMANDS_BERT_VALIDATION_H

#include "commands/bert/data.h"
#include "train/spec.h"

typedef struct {
    const char *metric; /* as the log names it, without val/ */
    const Classes *classes;
    const BertSplit *split;
    const float *weights; /* [classes->n] of the classes in the loss */
} BertValidation;

/* Dies if --metric is not of so many classes. The classes, the split and the weights must outlive the validation. */
BertValidation bert_validation(const BertOptions *options, const Classes *classes, const BertSplit *split,
                               const float *weights);
/* Fills what decides in spec->selection, which refers to the validation. */
void bert_validation_select(const BertValidation *validation, SelectionSpec *selection);

#endif
