/* train_gpt speak: from text to sound. */
#ifndef COMMANDS_GPT_SPEAK_H
#define COMMANDS_GPT_SPEAK_H

/* Runs the command; argv[0] is "train_gpt speak". Returns the exit status. */
int gpt_speak(int argc, char **argv);

#endif
