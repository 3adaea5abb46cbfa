/* train_gpt prepare: from recordings and their texts to all that train_gpt reads. */
#ifndef COMMANDS_GPT_PREPARE_H
#define COMMANDS_GPT_PREPARE_H

/* Runs the command; argv[0] is "train_gpt prepare". Returns the exit status. */
int gpt_prepare(int argc, char **argv);

#endif
