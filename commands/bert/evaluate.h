/* The command train_bert evaluate. */
#ifndef COMMANDS_BERT_EVALUATE_H
#define COMMANDS_BERT_EVALUATE_H

/* Evaluates a classifier on labelled texts. Returns the exit status. */
int bert_evaluate(int argc, char **argv);

#endif
