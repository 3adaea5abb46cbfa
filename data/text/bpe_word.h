/* Byte-pair encoding of one word. */
#pragma once

#include "data/text/bpe_model.h"
#include "data/text/token_ids.h"

/* Makes room for n merges. */
void bpe_merges_open(Bpe *bpe, size_t n);
/* Adds a merge; one of the same pair is replaced. There must be room. */
void bpe_merge_add(Bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id);
enum { FASTBPE_CHARACTER = 4 + sizeof FASTBPE_END };
/* Writes the symbol that fastBPE makes of the character at `at` in a word that ends at `end`, and its size. Returns the
 * bytes of the character. */
size_t fastbpe_symbol_at(const char *at, const char *end, char symbol[FASTBPE_CHARACTER], size_t *size);
/* Appends the ids of a word. */
void bpe_encode_word(const Bpe *bpe, const char *word, size_t size, TokenIds *ids);
