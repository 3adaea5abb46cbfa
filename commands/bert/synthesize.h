#ifndef COMMANDS_BERT_SYNTHESIZE_H
#define COMMANDS_BERT_SYNTHESIZE_H

int bert_synthesize(int argc, char **argv);

#endif
