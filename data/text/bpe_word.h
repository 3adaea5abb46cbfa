/* Byte-pair encoding of one word. */
#ifndef DATA_TEXT_BPE_WORD_H
#define DATA_TEXT_BPE_WORD_H

#include "data/text/bpe_model.h"
#include "data/text/token_ids.h"

/* Adds a merge; one of the same pair is replaced. There must be room. */
void bpe_merge_add(Bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id);
/* Appends the ids of a word. */
void bpe_encode_word(const Bpe *bpe, const char *word, size_t size, TokenIds *ids);

#endif
