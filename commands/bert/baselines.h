#ifndef COMMANDS_BERT_BASELINES_H
#define COMMANDS_BERT_BASELINES_H

int bert_baselines(int argc, char **argv);

#endif
