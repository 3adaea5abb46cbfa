/* SentencePiece through a small C shim (data/sentencepiece.cc), and the text normalisation of the Amharic front end
 * (data/text.c). All calls on an open tokenizer but close are safe from several threads. */
#ifndef DATA_TOKENIZER_H
#define DATA_TOKENIZER_H

#include "base/base.h"

typedef struct Tokenizer Tokenizer;

Tokenizer *tokenizer_open(const char *path, Error *error); /* a SentencePiece .model file; NULL with the reason */
void tokenizer_close(Tokenizer *tokenizer);
int tokenizer_vocabulary(const Tokenizer *tokenizer);
int tokenizer_unknown_id(const Tokenizer *tokenizer);
const char *tokenizer_piece(const Tokenizer *tokenizer, int32_t id); /* as the model stores it, "▁" for a space */
/* Ids of one text (already normalised), without start and stop. Returns how many; *ids grows as needed (realloc). */
int tokenizer_encode(const Tokenizer *tokenizer, const char *text, int32_t **ids, int *capacity);
/* The text of ids; release with free(). */
char *tokenizer_decode(const Tokenizer *tokenizer, const int32_t *ids, int n);

/* Trains a BPE model on a corpus, a text of one sentence a line: <s> 0, </s> 1, <unk> 2, no padding, then every
 * character of the corpus, the most frequent first, then the merges: no text of the corpus has an unknown token, nor
 * would it if the model were cut to fewer pieces. The size is lowered when the corpus cannot fill it. The same corpus
 * and size give the same bytes. Returns the number of pieces, or 0 with the reason. */
int tokenizer_train_bpe(const char *corpus, size_t size, const char *model_path, int vocabulary, Error *error);

/* What training and inference feed the tokenizer: clean_text, NFC, the punctuation table in one pass, CJK
 * splitting, upper case. Release with free(). Invalid UTF-8: NULL with the byte offset. */
char *text_normalize_amharic(const char *text, Error *error);
/* The preprocessing's clean_text alone: strip, U+3000 and U+00A0 to space, leading "speaker N:" dropped. */
char *text_clean(const char *text, Error *error);

#endif
