/* train_bert tokenizer: learns codes of fastBPE and their vocabulary from texts. */
#ifndef COMMANDS_BERT_TOKENIZER_H
#define COMMANDS_BERT_TOKENIZER_H

int bert_tokenizer(int argc, char **argv);

#endif
