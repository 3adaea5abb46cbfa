/* The scores of a classifier: of the validation texts during its training, by which the best weights are chosen, and of
 * these after it. */
#pragma once

#include "commands/bert/data.h"
#include "commands/bert/report.h"
#include "train/train.h"

/* The score of the validation texts that --metric names: the best weights are those with the best score. */
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

/* Predicts validation and test texts with the best checkpoint of a run, decides and reports (bert_test_run). spec: that
 * of the training, with a new model, which the caller closes; its data sets are not read. results[2]: of validation and
 * test; evaluation_free. The second is left alone if there are no test texts. */
void bert_test_best(const TrainSpec *spec, const BertOptions *options, const Classes *classes,
                    const BertSplit splits[BERT_SPLITS], Evaluation results[2]);
