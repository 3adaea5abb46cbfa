/* The facts that a file of weights states about its model. The file is a checkpoint of train_slm, a model in GPT-2's
 * layout as Hugging Face writes it, nanoGPT's ckpt.pt, or a checkpoint-N.pt of the reference. */
#pragma once

#include "checkpoint/load.h"
#include "commands/adopt.h"
#include "data/text/tokenizer.h"
#include "model/slm.h"

/* Options that decide what the model computes; the last is NULL. */
extern const char *const SLM_MODEL_OPTIONS[];
/* The fact that tells the id before every document of the training; -1: there was none. */
#define SLM_FIRST_FACT "first_token"
/* How these files name and lay out the model's tensors. */
extern const ImportRules SLM_IMPORT;

/* Options that name a trained model. */
typedef struct {
    const char *checkpoint, *tokenizer, *gelu;
    int64_t heads;
} SlmSource;

/* Adds --checkpoint, --tokenizer, --heads and --gelu. */
void slm_source_options(OptionSet *set, SlmSource *source);

typedef struct {
    CheckpointOptions size; /* SLM_MODEL_OPTIONS as the file, its config.json and the user tell them */
    json_t *description;    /* config.json of a checkpoint of ours; NULL: it has none */
} SlmBase;

/* Reads what a file says of its model, and sets the options of the model that are not given to it; slm_base_close. Dies
 * if an option that was given contradicts the file (only --context may), if the file is of another model, or if an
 * option that it does not tell (--heads, --gelu) is not given. All is zero if there is no such file, or path is NULL.
 */
SlmBase slm_base_adopt(const char *path, OptionSet *set);
void slm_base_close(SlmBase *base);
/* Returns the configuration of the model that was read, without dropout. */
SlmConfig slm_base_config(const SlmBase *base);
/* Opens the tokenizer of the model (trained_tokenizer). */
Tokenizer *slm_base_tokenizer(const SlmBase *base, const char *given);
