/* train_slm prepare: makes shards of token ids, and a tokenizer, from texts. */
#ifndef COMMANDS_SLM_PREPARE_H
#define COMMANDS_SLM_PREPARE_H

int slm_prepare(int argc, char **argv);

#endif
