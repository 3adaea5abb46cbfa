/* The commands of train_slm other than training. Each runs with argv[0] "train_slm COMMAND" and returns the exit
 * status. */
#pragma once

/* Measures what models that only count reach on the held-out documents. */
int slm_baselines(int argc, char **argv);
/* Measures loss, perplexity and bits per byte of texts, and accuracy on multiple choice. */
int slm_evaluate(int argc, char **argv);
/* Writes a checkpoint as files that other programs read. */
int slm_export(int argc, char **argv);
/* Continues prompts with a trained model. */
int slm_generate(int argc, char **argv);
/* Makes shards of token ids, and a tokenizer, from texts. */
int slm_prepare(int argc, char **argv);
