/* Tells what a file is that was given as a tokenizer, for messages. */
#pragma once

#include "base/base.h"

#define TOKENIZER_VOCAB_JSON "is a vocab.json, the pieces of a tokenizer without its merges"

/* Returns what the file is by its first bytes, "is a merges.txt, ...", and what to do; NULL: unknown. */
const char *tokenizer_kind(const char *bytes, size_t size);
/* Returns whether it is a vocab.json: an object of pieces and their ids, without a model. */
bool tokenizer_is_vocab_json(const char *bytes, size_t size);
