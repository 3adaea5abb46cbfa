/* Reads added_tokens.json, in which tokenizers of Hugging Face's transformers keep the tokens that were added to their
 * vocabulary: an object of TOKEN: id. Such a token is found in a text before the text is split into words. */
#pragma once

#include "base/base.h"

enum { VOCABULARY_MAX = 1 << 22 }; /* ids of any tokenizer's file are less */

typedef struct {
    char *text;
    int32_t id;
} AddedToken;

typedef struct {
    AddedToken *items; /* [n] in the order of their ids */
    int n;
} AddedTokens;

/* Reads the file; added_tokens_free. False with the reason, which begins with "added_tokens.json": it is no such
 * object, or two tokens have one id. */
bool added_tokens_read(const char *path, AddedTokens *tokens, Error *error);
void added_tokens_free(AddedTokens *tokens);
