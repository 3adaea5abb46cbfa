/* Tokenizers that files describe: SentencePiece models, a Hugging Face tokenizer.json of BPE kind, byte-level or
 * character-level (data/text/bpe_model.h says what is supported), the files of fastBPE (data/text/fastbpe_open.h),
 * and nanoGPT's table of characters (data/text/character_table.h). All functions on an open tokenizer but close are
 * safe from several threads, each with its own TokenIds. */
#pragma once

#include "data/text/token_ids.h"

typedef struct Tokenizer Tokenizer;

/* The files that tokenizer_in looks for, for messages. */
#define TOKENIZER_FILES "tokenizer.json, tokenizer.model, vocab.txt with bpe.codes, or a meta.pkl with characters"

/* Opens a file, or that of a folder (tokenizer_in). Beside bpe.codes there must be vocab.txt; the path of either means
 * both, and added_tokens.json beside them. Beside other files added_tokens.json must not have a token that they lack.
 * Returns NULL with the reason on an error. */
Tokenizer *tokenizer_open(const char *path, Error *error);
/* Returns the path of the tokenizer in a folder: bpe.codes, tokenizer.json, tokenizer.model, or
 * tokenizer_characters_in, the first that is there; free(). NULL: there is none. */
char *tokenizer_in(const char *folder);
/* Returns the path of a meta.pkl that holds the characters of ids, and opens; free(). NULL: there is none. */
char *tokenizer_characters_in(const char *folder);
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
/* Does the same without special tokens (UnknownEncode). */
void tokenizer_encode_plain(const void *tokenizer, const char *text, size_t size, TokenIds *ids);
/* Returns whether the piece that follows this one belongs to the same word. Only pieces of fastBPE say so, by their
 * "@@"; of other kinds, false. */
bool tokenizer_continues(const Tokenizer *tokenizer, int32_t id);
/* Returns the text of ids and its bytes in *size, with a zero byte behind them; free(). Dies if an id is not in the
 * vocabulary. */
char *tokenizer_decode(const Tokenizer *tokenizer, const int32_t *ids, int64_t n, size_t *size);
/* Returns a hash of everything that decides the ids. */
uint64_t tokenizer_hash(const Tokenizer *tokenizer);
/* Returns the path of the file that was opened; of two, vocab.txt. */
const char *tokenizer_file(const Tokenizer *tokenizer);
/* Returns the name by which tokenizer_in finds a file of this kind; of several, vocab.txt. */
const char *tokenizer_name(const Tokenizer *tokenizer);
/* Returns whether it is a table of characters. */
bool tokenizer_is_of_characters(const Tokenizer *tokenizer);
/* Sets the paths of all files that decide the ids: one, or vocab.txt, bpe.codes and, if it is there,
 * added_tokens.json. Returns their number. */
int tokenizer_files(const Tokenizer *tokenizer, const char *paths[3]);
