/* train_gpt export: from a checkpoint to a folder that IndexTTS2's inference reads. */
#ifndef COMMANDS_GPT_EXPORT_H
#define COMMANDS_GPT_EXPORT_H

/* Runs the command; argv[0] is "train_gpt export". Returns the exit status. */
int gpt_export(int argc, char **argv);

#endif
