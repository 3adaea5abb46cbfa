/* Reads the characters of nanoGPT as a tokenizer: meta.pkl beside its token files is a pickled dictionary, whose "itos"
 * gives the character of each id, as a dictionary or as a list. */
#pragma once

#include "data/text/bpe_model.h"

/* Opens the bytes of a meta.pkl: pieces are single characters, there are no merges, and characters without an id are
 * dropped. Returns NULL with the reason; release with bpe_close. */
Bpe *character_table_open(const char *bytes, size_t size, Error *error);
