/* The command train_bert predict. */
#ifndef COMMANDS_BERT_PREDICT_H
#define COMMANDS_BERT_PREDICT_H

/* Predicts the classes of texts by one classifier, or by the mean of several. Returns the exit status. */
int bert_predict(int argc, char **argv);

#endif
