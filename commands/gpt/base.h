/* The facts that a checkpoint of the GPT states about its model. The checkpoint is that of a training, or the base
 * checkpoint of one. */
#pragma once

#include "checkpoint/load.h"
#include "commands/adopt.h"

/* Options that decide what the model computes; the last is NULL. */
extern const char *const GPT_MODEL_OPTIONS[];

/* Facts of its config.json (origin.h). */
#define GPT_TOKENIZER_FACT "tokenizer_xxh3_64"
#define GPT_CODES_FACT     "codes"
#define GPT_CODEBOOK_FACT  "codebook_xxh3_64"

/* The rules of what a file of weights must have and may have: IndexTTS2's gpt.pth, whose encoders are carried along, or
 * weights of ours. The resizable tables are those that grow with the vocabulary of texts. */
extern const ImportRules GPT_IMPORT;

typedef struct {
    CheckpointOptions size; /* GPT_MODEL_OPTIONS, by its config.json or as far as the shapes of its tensors tell */
    json_t *description;    /* its config.json; NULL: none */
    bool ours;              /* train_gpt wrote it: it has a config.json, or its weights have our checksum */
} GptBase;

/* Reads what a checkpoint says of its model; gpt_base_close. option: gave the path. Dies if its config.json is damaged
 * or of another model. Shapes tell the number of heads only for IndexTTS2's size; if they do not, and the user has not
 * given it, dies too. */
GptBase gpt_base_read(const char *checkpoint, const char *option, bool heads_given);
void gpt_base_close(GptBase *base);

/* Sets the options of the model's size that are not given to those of a base checkpoint, and returns what it says.
 * Dies if an option that was given contradicts it, and if its tensors are those of another model. The vocabulary is
 * left out, because it may grow. All is zero if there is no such file, or checkpoint is NULL. */
GptBase gpt_base_adopt(const char *checkpoint, OptionSet *set);
