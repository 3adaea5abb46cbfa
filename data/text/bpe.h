/* Byte-pair encoding of texts, and back. */
#pragma once

#include "data/text/bpe_model.h"
#include "data/text/token_ids.h"

/* Do what tokenizer_encode, tokenizer_decode and tokenizer_continues do. */
void bpe_encode(const Bpe *bpe, const char *text, size_t size, bool specials, TokenIds *ids);
char *bpe_decode(const Bpe *bpe, const int32_t *ids, int64_t n, size_t *size);
bool bpe_continues(const Bpe *bpe, int32_t id);
