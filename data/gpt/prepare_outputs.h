/* The folders and files that train_gpt prepare writes into its output directory. */
#pragma once

#include "data/ledger.h"

/* Folders first; what follows the codebook is made from all that stands before. */
typedef enum {
    OUTPUT_MEL,
    OUTPUT_TEXT_IDS,
    OUTPUT_CODES,
    OUTPUT_CONDITION,
    OUTPUT_EMO_VEC,
    OUTPUT_TOKENIZER,
    OUTPUT_CODEBOOK,
    OUTPUT_CODEBOOK_FACTS,
    OUTPUT_MANIFEST,
    OUTPUT_TRAIN_MANIFEST,
    OUTPUT_VAL_MANIFEST,
    OUTPUT_TRAIN_PAIRS,
    OUTPUT_VAL_PAIRS,
    OUTPUT_STATS,
    OUTPUT_COMPARISON,
    OUTPUTS
} PrepareOutput;

/* Returns the output's name, "codebook.npy". */
const char *prepare_output_name(PrepareOutput output);
/* Returns its path below the directory; free(). */
char *prepare_output_path(const char *directory, PrepareOutput output);

/* The inputs of a run: files that it reads and leaves as they are, NULL for none; codes of others' networks. */
typedef struct {
    const char *tokenizer, *codebook;
    bool foreign_codes;
} PrepareGiven;

/* Makes the directory and opens its ledger. Removes what a killed run has left. Ends the program on an error. */
Ledger *prepare_outputs_open(const char *directory);
/* Claims all names for this program and makes the folders. Each name must be free, or written by an earlier run, as the
 * ledger says, or given. Ends the program before anything is written if a file of the user would be replaced, or if
 * the directory is of a run with codes of the other kind: who trains on it tells them apart by codebook.npy. */
void prepare_outputs_claim(const char *directory, const PrepareGiven *given, Ledger *ledger);
/* Removes the manifests and stats: they must not stand while what they name is being replaced. */
void prepare_outputs_remove_manifests(const char *directory);
