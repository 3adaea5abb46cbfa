/* The commands of train_bert other than its trainings. Each runs with argv[0] "train_bert COMMAND" and returns the exit
 * status. */
#pragma once

/* Scores the most frequent class, and regressions on the words of a text. */
int bert_baselines(int argc, char **argv);
/* Reports what a classifier says of labelled texts. */
int bert_evaluate(int argc, char **argv);
/* Writes a trained model for other programs. */
int bert_export(int argc, char **argv);
/* Predicts the classes of texts by one classifier, or by the mean of several. */
int bert_predict(int argc, char **argv);
/* Joins the syllables of Vietnamese words with _, line by line. */
int bert_segment(int argc, char **argv);
/* Writes comments to try the other commands on. */
int bert_synthesize(int argc, char **argv);
/* Learns codes of fastBPE and their vocabulary from texts. */
int bert_tokenizer(int argc, char **argv);
