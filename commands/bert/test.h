/* The test of a classifier's best weights, after its training. */
#ifndef COMMANDS_BERT_TEST_H
#define COMMANDS_BERT_TEST_H

#include "commands/bert/data.h"
#include "commands/bert/report.h"
#include "train/train.h"

/* Predicts validation and test texts with the best checkpoint of a run, decides and reports (bert_test_run). spec: that
 * of the training, with a new model, which the caller closes; its data sets are not read. results[2]: of validation and
 * test; evaluation_free. The second is left alone if there are no test texts. */
void bert_test_best(const TrainSpec *spec, const BertOptions *options, const Classes *classes,
                    const BertSplit splits[BERT_SPLITS], Evaluation results[2]);

#endif
