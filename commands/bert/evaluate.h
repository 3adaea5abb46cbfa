/* train_bert evaluate: reports what a classifier says of labelled texts. */
#ifndef COMMANDS_BERT_EVALUATE_H
#define COMMANDS_BERT_EVALUATE_H

/* Returns the exit status. */
int bert_evaluate(int argc, char **argv);

#endif
