/* train_slm generate: a trained model continues prompts. */
#ifndef COMMANDS_SLM_GENERATE_H
#define COMMANDS_SLM_GENERATE_H

int slm_generate(int argc, char **argv);

#endif
