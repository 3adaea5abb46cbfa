/* Compares the logits of generation, computed row by row from the cache, with those of one ordinary forward. */
#pragma once

#include "model/generate.h"
#include "tests/model_rig.h"

/* Makes the weights larger than at the start of a training, so that rows differ: adds N(0, deviation^2). */
void generation_spread_weights(ModelRig *rig, float deviation);
/* Generates greedily from all prompts at once, until they end, and keeps the logits of every step. `longest`: the rows
 * of the longest sequence, which the plan must have. generated_free(out, n). */
void generation_run(const ModelRig *rig, GenerationModel model, const GenerationPrompt *prompts, int n, int longest,
                    Generated *out);
/* Runs a batch that holds the sequences that were generated, with logits under this name. Fails unless the logits of
 * generation are those in these rows: rows[i] for the first of prompt i, whose others follow. */
void generation_check_logits(ModelRig *rig, const Batch *batch, const char *name, const int *rows, const Generated *out,
                             int n);
