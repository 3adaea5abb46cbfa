/* SentencePiece tokenizers, through a small C shim. All functions on an open tokenizer but close are safe from several
 * threads. */
#ifndef DATA_TEXT_TOKENIZER_H
#define DATA_TEXT_TOKENIZER_H

#include "base/base.h"

typedef struct Tokenizer Tokenizer;

/* Opens a SentencePiece .model file. Returns NULL with the reason on an error. */
Tokenizer *tokenizer_open(const char *path, Error *error);
void tokenizer_close(Tokenizer *tokenizer);
/* Returns the number of pieces. */
int tokenizer_vocabulary(const Tokenizer *tokenizer);
int tokenizer_unknown_id(const Tokenizer *tokenizer);
/* Returns the piece as the model stores it, with "▁" for a space. */
const char *tokenizer_piece(const Tokenizer *tokenizer, int32_t id);
/* Encodes one normalised text, without start and stop. Returns the number of ids; *ids grows as needed (realloc). */
int tokenizer_encode(const Tokenizer *tokenizer, const char *text, int32_t **ids, int *capacity);
/* Returns the text of ids; free(). */
char *tokenizer_decode(const Tokenizer *tokenizer, const int32_t *ids, int n);

/* Trains a BPE model on a corpus, one sentence per line. The pieces are <s> 0, </s> 1, <unk> 2, then every character of
 * the corpus, the most frequent first, then the merges; there is no padding. So no text of the corpus has an unknown
 * token, not even if the merges are cut off. There are fewer pieces than `vocabulary` if the corpus cannot fill it. The
 * same corpus and size give the same bytes. Returns the number of pieces, or 0 with the reason. */
int tokenizer_train_bpe(const char *corpus, size_t size, const char *model_path, int vocabulary, Error *error);

#endif
