/* train_bert evaluate, and the evaluation at the end of a training. */
#ifndef COMMANDS_BERT_EVALUATE_H
#define COMMANDS_BERT_EVALUATE_H

#include "commands/bert/data.h"
#include "report/evaluation.h"
#include "report/threshold.h"
#include "train/train.h"

/* Evaluates the best checkpoint of a training that has ended: fits the temperature and, of two classes, chooses the
 * threshold by `rule` on the validation texts, writes both into decision.json, and reports both splits into the folder
 * of the run (spec->options->output_dir). spec: of the training, with a new model of the same configuration, which the
 * caller closes. test: without texts if there is none. *result gets the scores of the test texts, or without them of
 * the validation texts; evaluation_free. */
void bert_evaluate_best(const TrainSpec *spec, const Classes *classes, const BertSplit *validation,
                        const BertSplit *test, ThresholdRule rule, Evaluation *result);

int bert_evaluate(int argc, char **argv);

#endif
