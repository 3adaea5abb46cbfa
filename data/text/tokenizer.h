/* Tokenizers that a file describes: SentencePiece models, and a Hugging Face tokenizer.json of BPE kind, byte-level or
 * character-level (data/text/bpe_model.h says what is supported). All functions on an open tokenizer but close are safe
 * from several threads, each with its own TokenIds. */
#ifndef DATA_TEXT_TOKENIZER_H
#define DATA_TEXT_TOKENIZER_H

#include "data/text/token_ids.h"

typedef struct Tokenizer Tokenizer;

/* Opens a file, or a folder that holds tokenizer.json or tokenizer.model. Returns NULL with the reason on an error. */
Tokenizer *tokenizer_open(const char *path, Error *error);
void tokenizer_close(Tokenizer *tokenizer); /* NULL: does nothing */
/* Returns the largest id + 1. */
int tokenizer_vocabulary(const Tokenizer *tokenizer);
int32_t tokenizer_unknown_id(const Tokenizer *tokenizer);  /* -1: none */
int32_t tokenizer_end_of_text(const Tokenizer *tokenizer); /* <|endoftext|> or </s>; -1: none */
/* Returns the id of a piece as the file writes it, or -1. */
int32_t tokenizer_id(const Tokenizer *tokenizer, const char *piece);
/* Returns the piece as the file writes it; "" if no piece has this id. */
const char *tokenizer_piece(const Tokenizer *tokenizer, int32_t id);
/* Appends the ids of a UTF-8 text, without anything before or behind it. specials: special tokens that are written out
 * in the text become their ids; otherwise they are text. */
void tokenizer_encode(const Tokenizer *tokenizer, const char *text, size_t size, bool specials, TokenIds *ids);
/* Returns the text of ids and its bytes in *size, with a zero byte behind them; free(). Dies if an id is not in the
 * vocabulary. */
char *tokenizer_decode(const Tokenizer *tokenizer, const int32_t *ids, int64_t n, size_t *size);
/* Returns a hash of everything that decides the ids. */
uint64_t tokenizer_hash(const Tokenizer *tokenizer);
/* Returns the path of the file that was opened. */
const char *tokenizer_file(const Tokenizer *tokenizer);

#endif
