/* Counts what a tokenizer does not know in texts: pieces and characters.
 *
 * A piece is unknown if it has the unknown id, or if it is a character that is left out because it has no id. A text in
 * a script that the tokenizer has not seen becomes a row of them, on which a model trains without complaint. White
 * space is counted by itself: it says nothing of the language. */
#pragma once

#include "data/text/token_ids.h"

/* Appends the ids of a text, as tokenizer_encode does without special tokens. */
typedef void (*UnknownEncode)(const void *tokenizer, const char *text, size_t size, TokenIds *ids);

/* Begin with {.encode = ..., .tokenizer = ...}. One thread at a time. */
typedef struct {
    UnknownEncode encode;
    const void *tokenizer;
    int64_t pieces, unknown; /* unknown: of the pieces, without white space */
    int64_t white;           /* unknown pieces that are white space, as line ends are to many tokenizers */
    int64_t *characters;     /* by code point: how often one was in an unknown piece or left out; NULL: none was */
    TokenIds ids;
} Unknown;

/* Counts the pieces of a text, which have become the last ones of `ids` since it was as `before`, and looks for the
 * characters of unknown ones. */
void unknown_add(Unknown *u, const char *text, size_t size, const TokenIds *before, const TokenIds *ids);
/* Adds the counts of `from` and releases it. */
void unknown_move(Unknown *into, Unknown *from);
void unknown_free(Unknown *u);

/* Returns the characters that are not white space, the most frequent first, "ư 123, U+200B 4 and 12 others"; "": there
 * are none; free(). */
char *unknown_characters(const Unknown *u);

/* Returns whether the tokenizer does not know 0.1 % of the pieces or more, which is worth a warning. */
bool unknown_is_many(int64_t unknown, int64_t pieces);
/* Warns if it does not. what: the texts. */
void unknown_warn(const char *what, const Unknown *u);
/* Does the same; false with an error if it is `most` of them or more;
 * 1: any share is allowed. characters: of unknown_characters, or "". */
bool unknown_check(const char *what, int64_t unknown, int64_t pieces, const char *characters, double most,
                   Error *error);
