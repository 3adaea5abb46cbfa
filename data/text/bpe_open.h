/* Reads a tokenizer.json. */
#pragma once

#include "data/text/bpe_model.h"

/* Returns NULL with the reason, which names what is not supported. */
Bpe *bpe_open(const char *bytes, size_t size, Error *error);
void bpe_close(Bpe *bpe); /* NULL: does nothing */
/* Sorts the added tokens, the longest first. */
void bpe_sort_added(Bpe *bpe);
/* Sets the hash of everything that decides the ids; the last step of making one. */
void bpe_make_hash(Bpe *bpe);
