/* A growing list of token ids, as the tokenizers of this folder append to it. */
#pragma once

#include "base/base.h"

/* Begin with {0}. One thread at a time: the list also holds the words that this thread has encoded. */
typedef struct {
    int32_t *ids; /* [n] */
    int64_t n, capacity;
    int64_t unknown; /* ids that are the unknown id */
    int64_t dropped; /* characters that the tokenizer has no token for and left out */
    void *cache;     /* words and their ids; one block of memory */
    /* Is told the text of each unknown id and each character that is left out; NULL: nobody asks. */
    void (*missing)(void *context, const char *text, size_t size);
    void *context;
} TokenIds;

void token_ids_grow(TokenIds *ids, int64_t more); /* for token_ids_reserve */
/* Releases the memory and makes the list empty. */
void token_ids_free(TokenIds *ids);

/* Makes room for `more` ids. */
static inline void token_ids_reserve(TokenIds *ids, int64_t more) {
    if (ids->capacity - ids->n < more) token_ids_grow(ids, more);
}

static inline void token_ids_add(TokenIds *ids, int32_t id) {
    token_ids_reserve(ids, 1);
    ids->ids[ids->n++] = id;
}
