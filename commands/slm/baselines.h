/* train_slm baselines: what models that only count reach on the held-out documents. */
#ifndef COMMANDS_SLM_BASELINES_H
#define COMMANDS_SLM_BASELINES_H

int slm_baselines(int argc, char **argv);

#endif
