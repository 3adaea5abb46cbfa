/* train_bert segment: joins the syllables of Vietnamese words with _, line by line. */
#ifndef COMMANDS_BERT_SEGMENT_H
#define COMMANDS_BERT_SEGMENT_H

int bert_segment(int argc, char **argv);

#endif
