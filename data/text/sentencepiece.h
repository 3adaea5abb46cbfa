/* SentencePiece models, through a small C shim. All functions on an open model but close are safe from several threads.
 */
#pragma once

#include "data/text/token_ids.h"

typedef struct SentencePiece SentencePiece;

/* Opens a SentencePiece .model file. Returns NULL with the reason on an error. */
SentencePiece *sentencepiece_open(const char *path, Error *error);
void sentencepiece_close(SentencePiece *model);
/* Returns the number of pieces. */
int sentencepiece_vocabulary(const SentencePiece *model);
int32_t sentencepiece_unknown_id(const SentencePiece *model);
int32_t sentencepiece_end_of_text(const SentencePiece *model); /* </s>; -1: none */
/* Returns the id of a piece as the model stores it, or -1. */
int32_t sentencepiece_id(const SentencePiece *model, const char *piece);
/* Returns the piece as the model stores it, with "▁" for a space. */
const char *sentencepiece_piece(const SentencePiece *model, int32_t id);
/* Appends the ids of a UTF-8 text, without start and stop. specials: control pieces that are written out in the text
 * become their ids, and the texts between them are encoded by themselves; otherwise they are text. */
void sentencepiece_encode(const SentencePiece *model, const char *text, size_t size, bool specials, TokenIds *ids);
/* Does the same without control pieces (UnknownEncode). */
void sentencepiece_encode_plain(const void *model, const char *text, size_t size, TokenIds *ids);
/* Returns the text of ids and its bytes in *size, with a zero byte behind them; free(). */
char *sentencepiece_decode(const SentencePiece *model, const int32_t *ids, int64_t n, size_t *size);

/* Trains a BPE model on a corpus, one sentence per line. The pieces are <s> 0, </s> 1, <unk> 2, then every character of
 * the corpus, the most frequent first, then the merges; there is no padding. So no text of the corpus has an unknown
 * token, not even if the merges are cut off. There are fewer pieces than `vocabulary` if the corpus cannot fill it. The
 * same corpus and size give the same bytes. Returns the number of pieces, or 0 with the reason. */
int sentencepiece_train_bpe(const char *corpus, size_t size, const char *model_path, int vocabulary, Error *error);
