/* train_gpt decode: from audio codes back to sound. */
#ifndef COMMANDS_GPT_DECODE_H
#define COMMANDS_GPT_DECODE_H

/* Runs the command; argv[0] is "train_gpt decode". Returns the exit status. */
int gpt_decode(int argc, char **argv);

#endif
