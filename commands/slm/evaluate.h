/* train_slm evaluate: loss, perplexity and bits per byte of texts, and accuracy on multiple choice. */
#ifndef COMMANDS_SLM_EVALUATE_H
#define COMMANDS_SLM_EVALUATE_H

/* Runs the command; argv[0] is "train_slm evaluate". Returns the exit status. */
int slm_evaluate(int argc, char **argv);

#endif
