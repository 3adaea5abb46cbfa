/* train_slm export: from a checkpoint to files that other programs read. */
#ifndef COMMANDS_SLM_EXPORT_H
#define COMMANDS_SLM_EXPORT_H

/* Runs the command; argv[0] is "train_slm export". Returns the exit status. */
int slm_export(int argc, char **argv);

#endif
