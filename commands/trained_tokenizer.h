/* The tokenizer that a model was trained with, and copies of its files. */
#pragma once

#include "base/json.h"
#include "data/text/tokenizer.h"

/* The fact in config.json that tells the tokenizer_hash of the training, in hexadecimal digits. */
#define TOKENIZER_FACT "tokenizer_hash"

/* A model whose tokenizer is looked for. */
typedef struct {
    const char *checkpoint;
    const json_t *description; /* its config.json; NULL: it has none of ours */
    int vocabulary;            /* rows of its table of tokens */
} TokenizedModel;

/* Opens the tokenizer of a model: `given` (--tokenizer), else the one in the folder of the checkpoint or of its run,
 * else the one that its training was given. Dies if there is none, or it is not the one that the model knows. */
Tokenizer *trained_tokenizer(const TokenizedModel *model, const char *given);
/* Copies the files of a tokenizer into a folder, under the names that tokenizer_in looks for. */
bool tokenizer_copy(const Tokenizer *tokenizer, const char *folder, Error *error);
