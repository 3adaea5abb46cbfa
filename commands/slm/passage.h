/* Ids as text for people. */
#pragma once

#include <stdio.h>

#include "data/text/tokenizer.h"

/* Appends the ids of a text, `what` ("prompt 1"), with special tokens or without, and warns of what the tokenizer does
 * not know of it. */
void passage_encode(const Tokenizer *tokenizer, const char *what, const char *text, bool specials, TokenIds *ids);
/* Returns the text of ids; bytes that are no UTF-8, as where a text was cut, become U+FFFD; free(). */
char *passage_text(const Tokenizer *tokenizer, const int32_t *ids, int64_t n);

/* A text that is written while it grows. */
typedef struct {
    const Tokenizer *tokenizer;
    int32_t *ids;
    int64_t n;
    size_t written; /* bytes */
} Passage;

/* Begins with the ids of a prompt, and has room for `more`. */
Passage passage_open(const Tokenizer *tokenizer, const int32_t *ids, int64_t n, int64_t more);
void passage_add(Passage *passage, int32_t id);
/* Writes the part of the text that has not been written. */
void passage_write(Passage *passage, FILE *to);
void passage_close(Passage *passage);
